"""Decides which of several copies is kept: an order that the user chooses, the same for every dedup step.

A rank is a string of bytes that sorts (memcmp) like the documents: the smallest of a group is kept. It is computed
once, from columns that a reducer then does not need, and ends with the doc_id. So no two documents tie, and nothing
depends on the order in which records arrive.

    (fields of `by`, big-endian, in that order)  source 2  repository 4  score 8  length 4  date 8 bytes
    (zeros for the fields that `by` leaves out)
    (doc_id)                                     16 bytes
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator, model_validator

from gristmill.errors import UserError
from gristmill.stages.buffers import fixed_bytes
from gristmill.stages.contract import SourceName, StageConfig
from gristmill.warned import Warned

Array = np.ndarray[Any, Any]

RANK_BYTES = 42
RANK = pa.binary(RANK_BYTES)
"""The type of a column of ranks, for RECORD_SCHEMA."""
ID_BYTES = 16

_SIGN = np.uint64(1 << 63)
_WORST = np.uint64(2**64 - 1)
_MOST_SOURCES = 2**16 - 1
REPOSITORY = "repository"
_NO_REPOSITORY = 2**32 - 1


class KeepOrder(StageConfig):
    """The first field in which two documents differ decides; if none differs, doc_id decides."""

    by: tuple[Literal["source", "repository", "score", "length", "date"], ...] = (
        *("source", "repository", "score", "length", "date"),
    )
    """What is compared, most important first. doc_id always comes last and makes the choice unique. repository: of two
    forks, all files that both have are kept from the same one; which one is arbitrary, but fixed by their names."""
    sources: Annotated[tuple[SourceName, ...], Field(max_length=_MOST_SOURCES)] = ()
    """Names of sources, best first; unnamed sources come after all of them. Empty: all are equal."""
    score: str | None = None
    """A column with a score, such as `quality.score`: higher is better, null and NaN are worst. None: not used."""
    length: Literal["longest", "shortest"] = "longest"
    """Which text is better, by its bytes. An empty or missing text is worst."""
    date: Literal["oldest", "newest"] = "oldest"
    """Which timestamp is better. A document without one comes last."""

    @field_validator("by", "sources")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        twice = [name for place, name in enumerate(names) if name in names[:place]]
        if twice:
            raise ValueError(f"{twice[0]!r} appears twice, but only the first one counts. Remove the other")
        return names

    @model_validator(mode="after")
    def _all_is_used(self) -> Self:
        for name, given in (("source", self.sources), ("score", self.score)):
            if given and name not in self.by:
                field = "sources" if name == "source" else "score"
                raise ValueError(f"{field} is set, but by does not contain {name}. Add {name} to by, or remove {field}")
        return self


def reads(order: KeepOrder) -> tuple[str, ...]:
    """The columns that `ranks` needs: never the text itself, only its length."""
    needed = {
        "source": bool(order.sources),
        "timestamp": "date" in order.by,
        "text_bytes": "length" in order.by,
    }
    return ("doc_id", *(name for name, wanted in needed.items() if wanted), *((order.score,) if order.score else ()))


def may_read(order: KeepOrder) -> tuple[str, ...]:
    """Columns that `ranks` uses on routes that have them."""
    return (REPOSITORY,) if REPOSITORY in order.by else ()


def ranks(batch: pa.RecordBatch, order: KeepOrder) -> pa.Array:
    """The rank of every row, fixed_size_binary(RANK_BYTES). Columns have the names in `reads` and `may_read`."""
    rows = batch.num_rows
    out = np.zeros((rows, RANK_BYTES), np.uint8)
    at = 0
    for field in order.by:
        if (field == "source" and not order.sources) or (field == "score" and order.score is None):
            continue
        key = _KEYS[field](batch, order)
        size = key.itemsize
        out[:, at : at + size] = key.astype(key.dtype.newbyteorder(">")).view(np.uint8).reshape(rows, size)
        at += size
    out[:, -ID_BYTES:] = fixed_bytes(batch.column("doc_id"))
    return pa.FixedSizeBinaryArray.from_buffers(RANK, rows, [None, pa.py_buffer(out)])


def unseen_sources(metrics: Mapping[str, Any], order: KeepOrder) -> Sequence[str]:
    """A warning if `sources` names a source without documents: a misspelled name would silently have no effect."""
    known = metrics.get("sources") or {}
    missing = [name for name in order.sources if name not in known]
    if not known or not missing:
        return ()
    return (
        Warned(
            "absent_name",
            f"keep.sources names {', '.join(missing)}, but no document has that source. "
            f"Sources here: {', '.join(sorted(known))}",
        ),
    )


def _source(batch: pa.RecordBatch, order: KeepOrder) -> Array:
    place = pc.index_in(batch.column("source"), pa.array(order.sources, pa.string()))
    return np.asarray(place.fill_null(len(order.sources)).to_numpy(zero_copy_only=False)).astype(np.uint16)


def _repository(batch: pa.RecordBatch, order: KeepOrder) -> Array:
    """A hash of the name. Documents without a repository come last."""
    if REPOSITORY not in batch.schema.names:
        return np.full(batch.num_rows, _NO_REPOSITORY, np.uint32)
    names = batch.column(REPOSITORY).dictionary_encode()
    digests = (hashlib.blake2b(name.encode(), digest_size=4).digest() for name in names.dictionary.to_pylist())
    keys = [min(int.from_bytes(digest, "big"), _NO_REPOSITORY - 1) for digest in digests]
    index = np.asarray(names.indices.fill_null(len(keys)).to_numpy(zero_copy_only=False), np.int64)
    return np.array([*keys, _NO_REPOSITORY], np.uint32)[index]


def _score(batch: pa.RecordBatch, order: KeepOrder) -> Array:
    """The bits of a double rise with its value, once those of negative numbers are inverted."""
    kind = batch.column(order.score).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise UserError(
            f"keep.score names {order.score}, a column of type {kind}, but a score must be a number. Finished work is "
            "kept. Name a column of numbers (`gristmill steps` shows what each step writes)."
        )
    column = batch.column(order.score).cast(pa.float64(), safe=False)
    value = np.asarray(column.fill_null(np.nan).to_numpy(zero_copy_only=False), np.float64) + 0.0  # -0.0 becomes 0.0
    bits = value.view(np.uint64)
    falling = np.where(bits & _SIGN, bits, ~(bits | _SIGN))
    return np.where(np.isnan(value), _WORST, falling)


def _length(batch: pa.RecordBatch, order: KeepOrder) -> Array:
    column = batch.column("text_bytes").fill_null(0)
    size = np.clip(np.asarray(column.to_numpy(zero_copy_only=False), np.int64), 0, 2**32 - 2)
    key = size if order.length == "shortest" else 2**32 - 2 - size
    return np.where(size == 0, 2**32 - 1, key).astype(np.uint32)


def _date(batch: pa.RecordBatch, order: KeepOrder) -> Array:
    """Documents without a date sort as the last moment (292 thousand years away)."""
    column = batch.column("timestamp").cast(pa.int64())
    moment = np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.int64).view(np.uint64)
    rising = moment ^ _SIGN
    key = np.minimum(rising if order.date == "oldest" else ~rising, _WORST - np.uint64(1))
    return np.where(column.is_null().to_numpy(zero_copy_only=False), _WORST, key)


_KEYS = {"source": _source, "repository": _repository, "score": _score, "length": _length, "date": _date}
