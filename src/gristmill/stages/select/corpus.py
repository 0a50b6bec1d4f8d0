"""The last word on every row: the first step that dropped it and why, or nothing if the row is in the corpus.

The engine puts this step at the end of every route. It reads only verdicts and sizes, so it is cheap to run again,
and its metrics are the funnel; and, on a route with a step `language`, its documents by language.

The funnel counts documents: records that never were any (requests, robots.txt) stand apart. Its unit is a byte of text
after extraction: what documents had when they first had a text, less what steps cut out of it and less what dropped
documents still had, is what is left, to the byte. A document that is dropped before it has a text is counted as it was
read (`raw_bytes`), apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted, percent, size
from gristmill.hints import hint
from gristmill.stages import NO_DOCUMENT
from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.quality.cutoff_warnings import LOW
from gristmill.stages.select.keep_language import OTHER
from gristmill.stages.shared.tally import NOTHING

MAY_READ = (LABEL,)
_Ints = npt.NDArray[np.int64]
SCHEMA = pa.schema([("step", pa.string()), ("drop", pa.string())])


class Config(StageConfig):
    """The steps of one route."""

    steps: tuple[str, ...]
    """Names of the steps before this one, in order; a row belongs to the first that dropped it."""
    texts: tuple[str, ...]
    """Those that write the text, in order. The first makes it out of what was read, and is the reader itself where
    nothing is extracted; the others cut or change it."""


def reads(config: Config) -> tuple[str, ...]:
    """The verdict of every step, the bytes that were read, and the bytes of text after every step that writes it."""
    sizes = [f"{step}.text_bytes" for step in config.texts if step != config.steps[0]]
    return (*(f"{step}.drop" for step in config.steps), "ingest.text_bytes", "ingest.html_bytes", *sizes)


def _is_read_as_text(config: Config) -> bool:
    return config.texts[:1] == config.steps[:1]


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    step: Any = pa.nulls(batch.num_rows, pa.string())
    reason: Any = pa.nulls(batch.num_rows, pa.string())
    for index in range(len(config.steps) - 1, -1, -1):
        verdict = batch.column(index)
        step = pc.if_else(verdict.is_valid(), config.steps[index], step)
        reason = pc.coalesce(verdict, reason)
    return pa.RecordBatch.from_arrays([step, reason], schema=SCHEMA)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """The funnel, and the languages of its documents."""
    no_document = pc.is_in(answers["drop"], pa.array(sorted(NO_DOCUMENT), pa.string()))
    documents = pc.invert(no_document)
    funnel = {"records": batch.num_rows, "no_documents": _no_documents(batch.filter(no_document), answers, no_document)}
    batch, answers = batch.filter(documents), answers.filter(documents)
    languages = {"languages": _languages(batch[LABEL], answers)} if LABEL in batch.schema.names else {}
    return {**languages, "funnel": {**funnel, **_funnel(batch, answers, config)}}


def _no_documents(batch: pa.RecordBatch, answers: pa.RecordBatch, chosen: pa.Array) -> dict[str, dict[str, int]]:
    table = pa.table({"reason": answers["drop"].filter(chosen), "bytes": _raw(batch)})
    counted = table.group_by("reason").aggregate([("bytes", "sum"), ([], "count_all")])
    return {one["reason"]: {"rows": one["count_all"], "raw_bytes": one["bytes_sum"]} for one in counted.to_pylist()}


def _funnel(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """What was read, what each step took first and why, what each cut, what is kept."""
    place = {step: number for number, step in enumerate(config.steps)}
    end = pc.fill_null(pc.index_in(answers["step"], pa.array(config.steps, pa.string())), len(place))
    dropped_by: _Ints = end.to_numpy(zero_copy_only=False).astype(np.int64)
    raw = _raw(batch)
    has_text = np.zeros(batch.num_rows, np.bool_)
    now, read, cut = np.zeros(batch.num_rows, np.int64), 0, {}
    for step in config.texts:
        bytes_now = _sizes(batch[f"{step}.text_bytes"])
        # Of a document that the step itself drops it took the text that was there before.
        came = dropped_by > place[step]
        if step == config.texts[0]:
            has_text = came
            if _is_read_as_text(config):
                has_text = (bytes_now > 0) | (_sizes(batch["ingest.html_bytes"]) == 0)
                raw = np.where(has_text, 0, raw)
            now = np.where(has_text, bytes_now, 0)
            read = int(now.sum())
        else:
            changed = came & has_text & (bytes_now != now)
            cut[step] = {"rows": int(changed.sum()), "text_bytes": int((now - bytes_now)[changed].sum())}
            now = np.where(changed, bytes_now, now)
    left = np.where(has_text, 0, raw)
    kept = dropped_by == len(place)
    made_by = () if _is_read_as_text(config) else config.texts[:1]
    return {
        "read": {"rows": batch.num_rows, "text_bytes": read, "raw_bytes": int(raw.sum())},
        "extracted": {step: {"rows": int(has_text.sum()), "raw_bytes": int(raw[has_text].sum())} for step in made_by},
        "first": _first(answers, now, left),
        "cut": {step: counts for step, counts in cut.items() if counts["rows"]},
        "kept": {
            "rows": int(kept.sum()),
            "text_bytes": int(now[kept].sum()),
            "raw_bytes": int(left[kept].sum()),
            "pages": int((kept & ~has_text).sum()) if _is_read_as_text(config) else 0,
        },
    }


def _first(answers: pa.RecordBatch, text: _Ints, raw: _Ints) -> dict[str, dict[str, dict[str, int]]]:
    first: dict[str, dict[str, dict[str, int]]] = {}
    table = pa.table({"step": answers["step"], "reason": answers["drop"], "text": text, "raw": raw})
    taken = table.filter(pc.is_valid(table["reason"])).group_by(["step", "reason"])
    for one in taken.aggregate([("text", "sum"), ("raw", "sum"), ([], "count_all")]).to_pylist():
        counts = {"rows": one["count_all"], "text_bytes": one["text_sum"], "raw_bytes": one["raw_sum"]}
        first.setdefault(one["step"], {})[one["reason"]] = counts
    return first


def _raw(batch: pa.RecordBatch) -> _Ints:
    """Bytes as they were read, of text and markup."""
    return _sizes(batch["ingest.text_bytes"]) + _sizes(batch["ingest.html_bytes"])


def _sizes(column: pa.Array) -> _Ints:
    sizes: _Ints = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def _languages(labels: pa.Array, answers: pa.RecordBatch) -> dict[str, Any]:
    """For each language the documents that were read, that each step took first, and why, and that are kept."""
    table = pa.table(
        {"label": labels.cast(pa.string()).fill_null(NOTHING), "step": answers["step"], "reason": answers["drop"]}
    )
    found: dict[str, Any] = {}
    for entry in table.group_by(["label", "step", "reason"]).aggregate([([], "count_all")]).to_pylist():
        rows, language = entry["count_all"], found.setdefault(entry["label"], {"read": 0, "kept": 0, "first": {}})
        language["read"] += rows
        if entry["step"] is None:
            language["kept"] += rows
        else:
            language["first"].setdefault(entry["step"], {})[entry["reason"]] = rows
    return found


MOST_OF_IT = 0.8
"""The share of a language or a source from which on a rule that takes it is told."""
MOST_NAMED = 5
"""Languages that one warning names."""
FEWEST = 20
"""Documents that a rule must have seen before its share says anything."""


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """A corpus of nothing is said aloud, and so is a rule that takes nearly all of a language or of the source."""
    funnel = found["funnel"]
    told = []
    if funnel["read"]["rows"] and not funnel["kept"]["rows"]:
        told.append("no document survived")
    if pages := funnel["kept"].get("pages"):
        told.append(
            f"{pages:,} of {counted(funnel['kept']['rows'], 'kept document')} have no text, only markup "
            f"({size(funnel['kept']['raw_bytes'])}), because no step of this route takes the text out of pages. Add "
            "`- extract` to the steps of this source"
        )
    languages: dict[str, list[tuple[Any, ...]]] = {}
    for label, counts in sorted(found.get("languages", {}).items()):
        for step, reason, why, rows, seen in (
            _greedy(counts["read"], counts["first"], config) if label != NOTHING else ()
        ):
            languages.setdefault(step, []).append((label, reason, why, rows, seen))
    rules = {(step, reason) for step, all_of_it in languages.items() for _, reason, *_ in all_of_it}
    told += [_of_languages(step, all_of_it) for step, all_of_it in languages.items()]
    first = {step: {why: counts["rows"] for why, counts in some.items()} for step, some in funnel["first"].items()}
    for step, reason, why, rows, seen in _greedy(funnel["read"]["rows"], first, config):
        if (step, reason) not in rules:
            told.append(
                f"{step} took {rows:,} of {counted(seen, 'document')} of this source ({percent(rows, seen, 0)}) for "
                f"{why}. Read some of them ({hint('dropped', reason=reason)}); "
                f"{_advice(step, 'the source, change it (by_source)')}, or give the source steps of its own"
            )
    return told


def _of_languages(step: str, languages: Sequence[tuple[Any, ...]]) -> str:
    """One warning about a step that removes nearly all documents of some languages, the largest first."""
    largest = sorted(languages, key=lambda one: (-one[3], one[0]))
    label, reason, why, rows, seen = largest[0]
    fact = f"{step} took {rows:,} of {counted(seen, 'document')} in {label} ({percent(rows, seen, 0)}) for {why}"
    whose, those = label, label
    if len(languages) > 1:
        more = [f"{label} ({rows:,} of {seen:,})" for label, _, _, rows, seen in largest[1:MOST_NAMED]]
        rest = len(largest) - MOST_NAMED
        fact += f", and nearly all in {', '.join(more)}" + (
            f" and {counted(rest, 'more language')}" if rest > 0 else ""
        )
        whose, those = "each of them", "them"
    return (
        f"{fact}, so that hardly any {label if len(languages) == 1 else 'of these languages'} is left. Read some of "
        f"them ({hint('dropped', reason=reason)}); "
        f"{_advice(step, f'the language, change its threshold for {whose} (by_language)')}, or stop keeping {those}"
    )


def _advice(step: str, of_rules: str) -> str:
    """What can be done about a step that takes nearly all."""
    name = step.rpartition("/")[2]
    if name.startswith("heuristics"):
        return f"if the rule does not fit {of_rules}"
    if "_dedup" in name:
        return f"if they are no copies of what is kept, change the settings of {step}"
    return f"if they should stay, change the settings of {step}"


def _greedy(
    read: int, first: Mapping[str, Mapping[str, int]], config: Config
) -> Iterator[tuple[str, str, str, int, int]]:
    """Steps that take most of what comes to them, for one reason or for all together: step, the most frequent reason,
    all reasons in words, rows taken, rows that came.

    What is no document at all (the reader's verdicts) and what nobody asked to keep (other languages, what a cutoff
    leaves behind, which `keep_quality` tells itself) does not count.
    """
    left = read - sum(first.get(config.steps[0], {}).values())
    for step in config.steps[1:]:
        taken = dict(first.get(step, {}))
        left -= taken.pop(OTHER, 0) + taken.pop(LOW, 0)
        rows = sum(taken.values())
        if left >= FEWEST and rows > MOST_OF_IT * left:
            reason = max(taken, key=lambda one: (taken[one], one))
            yield step, reason, reason if taken[reason] == rows else f"{reason} and other reasons", rows, left
        left -= rows


STAGE = Map(
    version=3,
    config=Config,
    reads=reads,
    may_read=MAY_READ,
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    warnings=warnings,
)
