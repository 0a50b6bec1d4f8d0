"""Measures whether a generated text still says what its parent says: each check is a column.

    - faithful: {}
    - heuristics: {rules: [faithful]}

The parent's text is the column `parent_text` of an earlier step, or the field `parent_text` of `meta`, where readers
keep fields that they do not map. A document without one gets nulls, and no rule drops it. No check needs a model
(`name_model` is optional), and this step drops nothing: the rule set `faithful` of the step `heuristics` does
(docs/faithful.md).

The checks are numbers, dates, quantities with units, names, addresses, quotations, code and formulas that the parent
lacks in any spelling; negations and comparisons that are turned round; another language; loops; and phrases with which
a model speaks about its task. `new` lists what is new, with its place in the text. The other columns are for ratios:
words, 3-grams that are copied, and content words of both sides.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.kernels.faithful.compare import compare
from gristmill.kernels.faithful.findings import CHECKS, COLUMNS, NAMES
from gristmill.kernels.text.unicode_classes import unicode_tables
from gristmill.stages.buffers import views_of
from gristmill.stages.contract import File, Map, StageConfig
from gristmill.stages.derived import PARENT_TEXT
from gristmill.stages.scrub import names
from gristmill.warned import Warned, idle
from gristmill_generate.faithful_words import LEAKS, lexicon

Array = np.ndarray[Any, Any]
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
    name_model: File | None = None
    """A folder with a spaCy model that finds entities (extra `ner`): those that the parent lacks are new names, too."""
    name_labels: tuple[str, ...] = ("PERSON", "PER", "ORG", "GPE", "LOC", "FAC")
    """The model's labels for names."""


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


def check(config: Config) -> None:
    if config.name_model is not None:
        names.check_library("name_model", "remove name_model")


def libraries(config: Config) -> tuple[str, ...]:
    return ("pyarrow", "unicode", *(names.LIBRARIES if config.name_model is not None else ()))


def _new_entities(text: str, parent: str, config: Config) -> Iterator[tuple[int, int]]:
    """The spans of entities that the parent lacks. Their words may be anywhere in the parent, in any case. A word with
    capital letters must be a whole word there; other scripts may have no spaces, or prefixes.
    """
    assert config.name_model is not None
    folded = parent.casefold()
    known = set(_WORD.findall(folded))
    for start, stop, entity in names.find_entities(text, config.name_model, config.name_labels):
        for word in _WORD.findall(entity.casefold()):
            if word not in known and (word.upper() != word or word not in folded):
                yield start, stop
                break


def _add_entities(counts: Array, spans: Array, texts: pa.Array, parents: pa.Array, config: Config) -> Array:
    """Count the entities that the parents lack as new names, unless they overlap one that was found without a model;
    returns the spans of both.
    """
    more = []
    for row, (text, parent) in enumerate(zip(texts.to_pylist(), parents.to_pylist(), strict=True)):
        if text is not None and parent is not None:
            own = spans[(spans[:, 0] == row) & (spans[:, 1] == NAMES)]
            for start, stop in _new_entities(text, parent, config):
                if not ((own[:, 2] < stop) & (start < own[:, 3])).any():
                    more.append((row, NAMES, start, stop))
    for row, *_ in more:
        counts[row, NAMES] += 1
    return np.concatenate((spans, np.array(more, spans.dtype).reshape(-1, 4)))


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """One row of counts per document; a row without text or parent has nulls."""
    text, parent = batch.column("text"), parents_of(batch)
    offsets, data, has_text = views_of(text)
    parent_offsets, parent_data, has_parent = views_of(parent)
    valid = has_text & has_parent
    counts, spans = compare(offsets, data, parent_offsets, parent_data, valid, unicode_tables(), lexicon())
    if config.name_model is not None:
        spans = _add_entities(counts, spans, text, parent, config)
    missing = ~valid
    columns = [
        pa.array(counts[:, place].astype(np.bool_ if field.type == pa.bool_() else np.int32), field.type, mask=missing)
        for place, field in enumerate(SCHEMA)
        if field.name in COLUMNS
    ]
    valid_text = pc.if_else(pa.array(valid), text, None)
    columns.append(_count_leaks(valid_text, parent))
    columns.append(_listed(spans, valid))
    return pa.record_batch(columns, schema=SCHEMA)


def _listed(spans: np.ndarray[Any, Any], valid: np.ndarray[Any, Any]) -> pa.Array:
    """The spans of each row, sorted by place."""
    spans = spans[np.lexsort((spans[:, 1], spans[:, 3], spans[:, 2], spans[:, 0]))]
    ends = np.cumsum(np.bincount(spans[:, 0], minlength=len(valid)))
    offsets = pa.array(np.concatenate(([0], ends)), pa.int32(), mask=np.append(~valid, False))
    checks = pa.array([name.removeprefix("new_") for name in CHECKS]).take(pa.array(spans[:, 1]))
    places = (pa.array(spans[:, place].astype(np.int32)) for place in (2, 3))
    values = pa.StructArray.from_arrays([checks, *places], fields=list(SPAN))
    return pa.ListArray.from_arrays(offsets, values)


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
    libraries=libraries,
    check=check,
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
