"""Writes the documents of a quality model's sample as a separate layer, with what training needs to know about each.

A sample of some hundred megabytes is spread over a corpus of terabytes; this step extracts it part by part, on all
workers.
"""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.doc_order import doc_order
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.shared import public_suffix, urls
from gristmill.stages.shared.public_suffix import registered_domains
from gristmill.stages.shared.urls import hosts_of
from gristmill.stages.tokenizer.tokenizer_sample import domain_numbers

SCHEMA = pa.schema(
    [
        ("sampled", pa.string()),
        ("side", pa.string()),
        ("target", pa.float32()),
        ("group", pa.uint64()),
        ("language", pa.string()),
    ]
)
"""The text; its side; 1 for a positive, 0 for a negative, null for neither; a hash of the registered domain of its URL,
or of its doc_id; its language. Nulls for a document that is not in the sample."""

POSITIVE, NEGATIVE, TEXT = "positive", "negative", "text"
"""Sides: the classes of a classifier, and the text of a language model."""
_TARGETS = {POSITIVE: 1.0, NEGATIVE: 0.0}


class Config(StageConfig):
    name: str
    """The name of the model. The recipe's loader sets all fields."""
    sides: dict[str, str]
    """The side of each source that has one."""


def reads(config: Config) -> tuple[str, ...]:
    return ("text", "url", "source", "doc_id", "language_hint", f"quality_{config.name}_sample.split")


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    text, url, source, doc_id, hint, split = (batch.column(index) for index in range(6))
    taken = np.flatnonzero(split.is_valid().to_numpy(zero_copy_only=False))
    names = sorted(set(config.sides.values()))
    side = pa.array(names, pa.string()).take(pa.array(domain_numbers(source.take(taken), config.sides, names)))
    target = pa.array([_TARGETS.get(name) for name in side.to_pylist()], pa.float32())
    language = batch.column(LABEL) if LABEL in batch.schema.names else hint
    columns = [text.take(taken), side, target, groups_of(url.take(taken), doc_id.take(taken)), language.take(taken)]
    index = np.full(batch.num_rows, -1, np.int64)
    index[taken] = np.arange(len(taken))
    spread = pa.array(index, mask=index < 0)
    columns = [column.cast(field.type).take(spread) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def groups_of(url: pa.Array, doc_id: pa.Array) -> pa.Array:
    """The group of each text; groups are held out as a whole."""
    domains = registered_domains(hosts_of(url)).dictionary_encode()
    named = [hashlib.blake2b(str(name).encode(), digest_size=8).digest() for name in domains.dictionary.to_pylist()]
    hashes = pa.array(np.frombuffer(b"".join(named), "<u8").astype(np.uint64))
    return pc.coalesce(hashes.take(domains.indices), pa.array(doc_order(doc_id, 0)[0]))


STAGE = Map(
    version=2,
    config=Config,
    libraries=(*public_suffix.LIBRARIES, *urls.LIBRARIES),
    reads=reads,
    may_read=(LABEL,),
    judges=False,
    schema=SCHEMA,
    apply=apply,
)
