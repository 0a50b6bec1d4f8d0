"""Collects the shingles of the documents and texts that takedown requests name, for `takedown` to compare with.

There is one row for each document, then one for each text: the request, the document (null for a text), and its
shingles. Documents that are read no more have theirs from the receipts of earlier versions. If a step changed the text
of a document, a second row has the shingles of its first text. If it was joined into a thread, a row without shingles
names the document of the thread. The texts themselves are not stored.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.counted import counted
from gristmill.errors import CannotBeMet, UserError, cause_of
from gristmill.hints import hint
from gristmill.places import must_be_file
from gristmill.stages.contract import File, Fit, StageConfig
from gristmill.stages.matches import shingles_of
from gristmill.stages.select.index import NGRAM
from gristmill.stages.takedown.requests import read_all

READS = ("doc_id", "takedown_match.request", "takedown_match.shingles", "takedown_match.first_shingles")
_HEAD = "thread_places.head"
SCHEMA_OF_SETS = pa.schema([("doc_id", pa.binary(16)), ("request", pa.string()), ("shingles", pa.list_(pa.uint64()))])
OF_RECEIPT = "shingles.parquet"
"""The file of a receipt with these columns."""
WORDS = 4
"""The version of the word rules that the shingles use, for receipts."""
FEWEST = 16
"""The least shingles of a text that is searched for within longer documents; a shorter text is too common and must be
the whole document."""
MOST_SHINGLES = 1 << 26
"""The most shingles of all named documents: 512 MB, which every worker has in memory."""


_RECEIPT = b"receipt"


class Config(StageConfig):
    requests: tuple[File, ...]
    """The files of the requests."""
    texts: tuple[File, ...] = ()
    """The texts of the requests, in order; set by the recipe's loader."""
    names: tuple[str, ...]
    """The names of the files of requests."""
    receipts: tuple[File, ...] = ()
    """The shingles of receipts; set by the recipe's loader."""
    documents: bool = True
    """Whether to search for copies of the named documents."""


def check(config: Config) -> None:
    """Raise if a text or a receipt cannot be read."""
    list(_texts(config))
    list(_receipts(config))


def fit(batches: Iterator[pa.RecordBatch], config: Config, path: Path) -> dict[str, int]:
    found = list(_receipts(config)) if config.documents else []
    shingles, documents = sum(len(table.column("shingles").combine_chunks().flatten()) for table in found), 0
    for batch in batches:
        named = batch.filter(batch.column(1).is_valid())
        found.append(_threads(named))
        named = named.select(range(4))
        if not config.documents:  # only their ids, because of which their children go
            none = pa.array([[]] * named.num_rows, pa.list_(pa.uint64()))
            named = pa.RecordBatch.from_arrays(
                [*named.columns[:2], none, pa.nulls(named.num_rows, none.type)], schema=named.schema
            )
        changed = named.filter(named.column(3).is_valid())
        documents += named.num_rows
        shingles += len(named.column(2).flatten()) + len(changed.column(3).flatten())
        if shingles > MOST_SHINGLES:
            raise CannotBeMet(
                f"takedowns: the named documents have more than {MOST_SHINGLES:,} shingles, the limit for comparing "
                "all other documents with them. Set copies: keep, which does not search for their copies, and list "
                "the texts whose copies matter under texts:."
            )
        found.append(pa.Table.from_arrays(named.columns[:3], schema=SCHEMA_OF_SETS))
        found.append(pa.Table.from_arrays([*changed.columns[:2], changed.column(3)], schema=SCHEMA_OF_SETS))
    texts, short = sets_of_texts(config)
    pq.write_table(pa.concat_tables([*found, texts]).combine_chunks(), path, compression="zstd")
    return {"named_documents": documents, "texts": texts.num_rows, "short_texts": short}


def _threads(named: pa.RecordBatch) -> pa.Table:
    """The documents into which named posts were joined, without shingles."""
    if _HEAD not in named.schema.names:
        return SCHEMA_OF_SETS.empty_table()
    named = named.filter(pc.fill_null(pc.not_equal(named.column(_HEAD), named.column("doc_id")), False))
    none = pa.array([[]] * named.num_rows, pa.list_(pa.uint64()))
    return pa.Table.from_arrays([named.column(_HEAD), named.column(1), none], schema=SCHEMA_OF_SETS)


def sets_of_texts(config: Config) -> tuple[pa.Table, int]:
    """The rows of the texts of the requests, and how many of them are short."""
    texts = list(_texts(config))
    ends, values = shingles_of(pa.array([text for _, text in texts], pa.string()))
    sets = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(values, pa.uint64()))
    names = pa.array([request for request, _ in texts], pa.string())
    table = pa.Table.from_arrays([pa.nulls(len(texts), pa.binary(16)), names, sets], schema=SCHEMA_OF_SETS)
    return table, int((np.diff(ends) < FEWEST).sum())


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    if not found.get("short_texts"):
        return ()
    return (
        f"{counted(found['short_texts'], 'text of a request has', 'texts of requests have')} fewer than {FEWEST} "
        f"shingles of {NGRAM} words, so only documents that are that text, or a near copy of it, are taken down. Add "
        f"more of the text, or name the documents: {hint('find_words')} finds them",
    )


def _texts(config: Config) -> Iterator[tuple[str, str]]:
    """The request and the content of each text file."""
    named = [request.id for request in read_all(config.requests, config.names) for _ in request.texts]
    for request, path in zip(named, config.texts, strict=True):
        try:
            must_be_file(path)
            text = Path(path).read_bytes().decode("utf-8-sig")
            if not text.strip():
                raise UserError(f"{path}: a text of {request} is empty, so it matches nothing. Add the text.")
            yield request, text
        except UnicodeDecodeError:
            raise UserError(f"{path}: a text of {request} is not UTF-8, so it matches nothing. Convert it.") from None
        except OSError as error:
            raise UserError(f"{path}: a text of {request} cannot be read: {error.strerror}. Correct it.") from None


def _receipts(config: Config) -> Iterator[pa.Table]:
    """The rows of the documents in receipts, with other ids: an id has a position, where another document is now."""
    for path in config.receipts:
        try:
            must_be_file(path)
            table = pq.read_table(path)
        except (OSError, pa.ArrowInvalid) as error:
            raise UserError(f"{path}: the receipt cannot be read: {cause_of(error)}. Name another receipt.") from None
        if not table.schema.equals(SCHEMA_OF_SETS):
            raise UserError(f"{path}: these are not the shingles of a receipt, so they match nothing. Name a receipt.")
        table = table.filter(pc.greater(pc.list_value_length(table.column("shingles")), 0))
        ids = (None if one is None else _RECEIPT + one for one in table.column("doc_id").to_pylist())
        other = [one and hashlib.blake2b(one, digest_size=16).digest() for one in ids]
        yield table.set_column(0, SCHEMA_OF_SETS.field(0), pa.array(other, pa.binary(16)))


STAGE = Fit(
    version=6,
    config=Config,
    libraries=("unicode", "pyarrow"),
    reads=READS,
    may_read=(_HEAD,),
    fit=fit,
    suffix="parquet",
    check=check,
    warnings=warnings,
)
