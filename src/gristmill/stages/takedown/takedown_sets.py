"""What `takedown` compares documents with: the shingles of those that requests name, and of texts that they bring.

One row for each, in the order of the documents, then of the texts: the request, the document (null for a text), and its
shingles. A document whose text was changed by a step has a second row, with the shingles of its first text. The texts
themselves are not in it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.counted import counted
from gristmill.errors import CannotBeMet, UserError
from gristmill.hints import hint
from gristmill.stages.contract import File, Fit, StageConfig
from gristmill.stages.matches import shingles_of
from gristmill.stages.select.index import NGRAM
from gristmill.stages.takedown.requests import read_all

READS = ("doc_id", "takedown_match.request", "takedown_match.shingles", "takedown_match.first_shingles")
SCHEMA_OF_SETS = pa.schema([("doc_id", pa.binary(16)), ("request", pa.string()), ("shingles", pa.list_(pa.uint64()))])
FEWEST = 16
"""Shingles that a text of a request needs to be looked for inside of longer documents; a shorter one is a commonplace,
and must be the whole of a document."""
MOST_SHINGLES = 1 << 26
"""Of all that requests name: 512 MB, which every worker holds."""


class Config(StageConfig):
    requests: tuple[File, ...]
    """The files of the requests."""
    texts: tuple[File, ...] = ()
    """The texts that they name, in their order; filled by the recipe's loader."""
    names: tuple[str, ...]
    """What the files of the requests are called."""
    documents: bool = True
    """Whether copies of the documents that requests name are looked for."""


def check(config: Config) -> None:
    """The texts can be read."""
    list(_texts(config))


def fit(batches: Iterator[pa.RecordBatch], config: Config, path: Path) -> dict[str, int]:
    found, shingles, documents = [], 0, 0
    for batch in batches:
        named = batch.filter(batch.column(1).is_valid()) if config.documents else batch.slice(0, 0)
        changed = named.filter(named.column(3).is_valid())
        documents += named.num_rows
        shingles += len(named.column(2).flatten()) + len(changed.column(3).flatten())
        if shingles > MOST_SHINGLES:
            raise CannotBeMet(
                f"takedowns: the documents that the requests name have more than {MOST_SHINGLES:,} shingles, more than "
                "all others can be compared with. Set copies to keep, which looks for no copies of them, and bring the "
                "texts whose copies matter as texts:."
            )
        found.append(pa.Table.from_arrays(named.columns[:3], schema=SCHEMA_OF_SETS))
        found.append(pa.Table.from_arrays([*changed.columns[:2], changed.column(3)], schema=SCHEMA_OF_SETS))
    texts = list(_texts(config))
    column = pa.array([text for _, text in texts], pa.string())
    ends, values = shingles_of(column)
    sets = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(values, pa.uint64()))
    names = pa.array([request for request, _ in texts], pa.string())
    found.append(pa.Table.from_arrays([pa.nulls(len(texts), pa.binary(16)), names, sets], schema=SCHEMA_OF_SETS))
    pq.write_table(pa.concat_tables(found).combine_chunks(), path, compression="zstd")
    short = int((np.diff(ends) < FEWEST).sum())
    return {"named_documents": documents, "texts": len(texts), "short_texts": short}


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    if not found.get("short_texts"):
        return ()
    return (
        f"{counted(found['short_texts'], 'text of a request has', 'texts of requests have')} fewer than {FEWEST} "
        f"stretches of {NGRAM} words, so only documents that are that text, or a near copy of it, are taken down by "
        f"it. Bring more of the text, or name the documents: {hint('find_words')} finds them",
    )


def _texts(config: Config) -> Iterator[tuple[str, str]]:
    """Request and text of each text file."""
    named = [request.id for request in read_all(config.requests, config.names) for _ in request.texts]
    for request, path in zip(named, config.texts, strict=True):
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
            if not text.strip():
                raise UserError(f"{path}: a text of {request} is empty, so nothing can be found by it. Write it there.")
            yield request, text
        except UnicodeDecodeError:
            told = f"{path}: a text of {request} is not UTF-8, so nothing can be found by it. Save it so."
            raise UserError(told) from None
        except OSError as error:
            told = f"{path}: a text of {request} cannot be read: {error.strerror}. Correct the path."
            raise UserError(told) from None


STAGE = Fit(
    version=4,
    config=Config,
    libraries=("unicode", "pyarrow"),
    reads=READS,
    fit=fit,
    suffix="parquet",
    check=check,
    warnings=warnings,
)
