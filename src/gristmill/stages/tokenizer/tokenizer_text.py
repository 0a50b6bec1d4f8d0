"""Copies the texts of the tokenizer's sample to a separate layer.

A sample of some gigabytes is spread over a corpus of terabytes. This stage extracts it part by part, on all workers, so
that training and evaluating a tokenizer read only the sample.
"""

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.tokenizer.tokenizer_sample import domain_numbers

READS = ("text", "source", "language_hint", "tokenizer_sample.split")
SCHEMA = pa.schema([(name, pa.string()) for name in ("sampled", "domain", "language", "split")])
"""The text, its domain, its language as stated by the input, and `train` or `held_out`; nulls for documents that are
not in the sample."""


class Config(StageConfig):
    domains: dict[str, str]
    """The domain of each source; set by the recipe's loader."""


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    text, source, language, split = (batch.column(place) for place in range(len(READS)))
    names = sorted(set(config.domains.values()))
    taken = split.is_valid()
    nothing = pa.scalar(None, pa.string())
    domain = pa.array(names, pa.string()).take(pa.array(domain_numbers(source, config.domains, names)))
    columns = [*(pc.if_else(taken, column, nothing) for column in (text, domain, language)), split]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


STAGE = Map(version=1, config=Config, reads=READS, judges=False, schema=SCHEMA, apply=apply)
