"""Removes documents with the same text as another; the keep order decides which one stays.

Texts are compared by a 128-bit hash, exactly or in a form that ignores layout (`kernels.dedup.exact_hash`). Empty texts
are equal to each other; rows without a text (null) are not compared.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from gristmill.kernels.dedup.exact_hash import NONE, WHITESPACE, WORDS, hash_texts
from gristmill.kernels.text.unicode_classes import unicode_tables
from gristmill.stages.buffers import bytes_of
from gristmill.stages.contract import Exchange, StageConfig
from gristmill.stages.dedup import copies
from gristmill.stages.dedup.scope import Scope
from gristmill.stages.shared.keep_order import KeepOrder, may_read, unseen_sources
from gristmill.warned import idle

RECORD_SCHEMA, summary = copies.RECORD_SCHEMA, copies.summary

_FORMS = {"none": NONE, "whitespace": WHITESPACE, "words": WORDS}


class Config(StageConfig):
    normalise: Literal["none", "whitespace", "words"] = "whitespace"
    """What counts as the same text. none: the same bytes; whitespace: a run of white space counts as one space, and
    white space at the ends is ignored; words: only the words count, as letters and numbers in lower case."""
    scope: Scope = "global"
    """global: all documents are compared; snapshot: those of one snapshot, of any source; source: of one source."""
    keep: KeepOrder = KeepOrder()
    """Which of several copies is kept."""


def libraries(config: Config) -> tuple[str, ...]:
    """White space and letters are defined by the Unicode character database."""
    return () if config.normalise == "none" else ("unicode",)


def reads(config: Config) -> tuple[str, ...]:
    return ("text", *copies.reads(config.scope, config.keep))


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Send a record for every text."""
    text = batch.column("text")
    hashes = hash_texts(*bytes_of(text), _FORMS[config.normalise], unicode_tables())
    rows = np.flatnonzero(text.is_valid().to_numpy(zero_copy_only=False))
    return copies.records(batch, hashes, rows, config.scope, config.keep)


def reduce(records: pa.Table, config: Config, others: pa.Table | None = None) -> pa.Table:
    """`dup_count` of every text: how many documents of the scope have it; and a verdict on all of them but one."""
    return copies.verdicts(records, others, "duplicate_text", "dup_count")


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warn if there was no text. A corpus without copies is normal."""
    text = "no document has a text, so nothing was compared. Put exact_dedup after extract"
    compared = idle(found.get("rows_sent"), found.get("records"), text)
    return [*unseen_sources(found, config.keep), *compared]


STAGE = Exchange(
    version=3,
    config=Config,
    libraries=libraries,
    reads=reads,
    may_read=lambda config: may_read(config.keep),
    only_kept=True,
    record_schema=RECORD_SCHEMA,
    schema=pa.schema([("dup_count", pa.int32()), ("drop", pa.string()), ("detail", pa.string())]),
    emit=emit,
    reduce=reduce,
    summaries={"reduce": summary},
    warnings=warnings,
)
