"""Measures whether a generated text still says what its parent says: each check is a column.

    - faithful: {}
    - heuristics: {rules: [faithful]}

The parent's text is the column `parent_text` of an earlier step, or the field `parent_text` of `meta`, where readers
keep fields that they do not map. A document without one gets nulls, and no rule drops it. No check needs a model, and
this step drops nothing: the rule set `faithful` of the step `heuristics` does (docs/faithful.md).

The checks are numbers, dates, quantities with units, names, addresses, quotations, code and formulas that the parent
lacks in any spelling; negations and comparisons that are turned round; another language; loops; and phrases with which
a model speaks about its task. `new` lists what is new, with its place in the text. The other columns are for ratios:
words, 3-grams that are copied, and content words of both sides.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.derived import PARENT_TEXT
from gristmill.warned import Warned, idle
from gristmill_generate.compare.compare import CHECKS, COLUMNS, ParentText, compare
from gristmill_generate.compare.lexicon import LEAKS

NEW = "new"
"""The column with what is new and where."""
_WORD = re.compile(r"\w+")
SPAN = pa.struct([("check", pa.string()), ("start", pa.int32()), ("stop", pa.int32())])
SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.bool_() if name == "language_changed" else pa.int32()) for name in COLUMNS),
        pa.field("leaks", pa.int32()),
        pa.field(NEW, pa.list_(SPAN)),
    ]
)


class Config(StageConfig):
    """It has no settings: those of the rules decide what is dropped."""


def parents_of(batch: pa.RecordBatch) -> pa.Array:
    """The parent's text of each document, or null."""
    names = batch.schema.names
    own = batch.column(PARENT_TEXT) if PARENT_TEXT in names else pa.nulls(batch.num_rows, pa.string())
    if "meta" not in names:
        return own
    meta = batch.column("meta")
    may_have = pc.and_(own.is_null(), pc.match_substring(meta, f'"{PARENT_TEXT}"')).fill_null(False)
    rows = np.flatnonzero(may_have.to_numpy(zero_copy_only=False))
    if not len(rows):
        return own
    found: list[str | None] = [None] * batch.num_rows
    for row in rows.tolist():
        value = orjson.loads(meta[row].as_py()).get(PARENT_TEXT)
        found[row] = value if isinstance(value, str) else None
    return pc.coalesce(own, pa.array(found, pa.string()))


@lru_cache(maxsize=1)
def _leaks() -> str:
    return f"(?i)(?:{'|'.join(LEAKS)})"


def _count_leaks(text: pa.Array, parent: pa.Array) -> pa.Array:
    """How many phrases about the task a text has more than its parent."""
    counts = pc.count_substring_regex(text, _leaks())
    some = pc.greater(counts, 0).fill_null(False)
    before = pc.count_substring_regex(pc.if_else(some, parent, ""), _leaks())
    return pc.max_element_wise(pc.subtract(counts, before), 0, skip_nulls=False).cast(pa.int32())


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """One row of counts per document; a row without text or parent has nulls."""
    texts, parents = batch.column("text"), parents_of(batch)
    rows: list[dict[str, Any]] = []
    previous, read = None, ParentText("")
    for text, parent in zip(texts.to_pylist(), parents.to_pylist(), strict=True):
        if text is None or parent is None:
            rows.append({})
            continue
        if parent != previous:  # the children of a parent come one after another
            previous, read = parent, ParentText(parent)
        counts, spans = compare(text, read)
        spans.sort(key=lambda span: (span.start, span.stop, CHECKS.index(span.check)))
        rows.append({**counts, NEW: [{**span._asdict(), "check": span.check.removeprefix("new_")} for span in spans]})
    compared = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    leaks = _count_leaks(pc.if_else(compared["words"].is_valid(), texts, None), parents)
    return compared.set_column(SCHEMA.get_field_index("leaks"), "leaks", leaks)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count documents with a parent, and those that each check finds something in."""
    found = {
        name: int(pc.sum(pc.greater(answers[name].cast(pa.int32()), 0)).as_py() or 0)
        for name in (*CHECKS, "language_changed", "looped_words", "leaks")
    }
    return {"documents": batch.num_rows, "with_parent": answers.num_rows - answers["words"].null_count, "checks": found}


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    return missing_parents(found, "faithful")


def missing_parents(found: Mapping[str, Any], step: str) -> list[Warned]:
    """Warn if documents have no parent to compare them with (law 7)."""
    documents, compared = found.get("documents", 0), found.get("with_parent", 0)
    missing = documents - compared
    if compared and missing:
        have = "has" if missing == 1 else "have"
        fact = f"{missing:,} of {counted(documents, 'document')} {have} no {PARENT_TEXT}, so nothing was compared there"
        return [Warned("without_parent", fact)]
    fix = f"Give each one the field {PARENT_TEXT}, or remove the step {step} from the routes of other documents"
    return idle(documents, compared, f"no document has a parent, so nothing was compared. {fix}")


STAGE = Map(
    version=4,
    config=Config,
    libraries=("pyarrow", "unicode"),
    reads=("text", "meta"),
    may_read=(PARENT_TEXT,),
    only_kept=True,
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    warnings=warnings,
    rule_set="gristmill_generate.faithful_rules",
    departures=NEW,
)
