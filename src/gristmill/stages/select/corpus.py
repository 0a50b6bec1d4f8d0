"""Finds the first step that dropped each row, and its reason; both are null if the row is in the corpus.

The engine adds this step at the end of every route. It reads only verdicts and sizes, so it is cheap to run again. Its
metrics are the funnel and, on a route with a step `language`, the documents by language.

The funnel counts documents; records that are not documents (requests, robots.txt) are counted separately. Its unit is a
byte of text after extraction: the first text of documents, minus what steps cut from it, minus what dropped documents
still had, is exactly what is left. A document that is dropped before it has a text is counted separately, with its
bytes as read (`raw_bytes`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted, percent, size
from gristmill.hints import hint
from gristmill.stages import JOINED, NO_DOCUMENT
from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.quality.cutoff_warnings import LOW
from gristmill.stages.select.keep_language import OTHER
from gristmill.stages.shared.tally import NOTHING
from gristmill.warned import Warnings

MAY_READ = (LABEL,)
_Ints = npt.NDArray[np.int64]
SCHEMA = pa.schema([("step", pa.string()), ("drop", pa.string())])


class Config(StageConfig):
    """The steps of one route."""

    steps: tuple[str, ...]
    """The names of the steps before this one, in order; a row belongs to the first that dropped it."""
    texts: tuple[str, ...]
    """The steps that write the text, in order. The first one extracts it, or is the reader if nothing is extracted; the
    others cut or change it."""


def reads(config: Config) -> tuple[str, ...]:
    """The verdict of every step, the bytes as read, and the bytes of text after every step that writes it."""
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
    counted = table.group_by("reason", use_threads=False).aggregate([("bytes", "sum"), ([], "count_all")])
    return {one["reason"]: {"rows": one["count_all"], "raw_bytes": one["bytes_sum"]} for one in counted.to_pylist()}


def _funnel(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count what was read, what each step dropped first and why, what each step cut, and what is kept."""
    place = {step: number for number, step in enumerate(config.steps)}
    end = pc.fill_null(pc.index_in(answers["step"], pa.array(config.steps, pa.string())), len(place))
    dropped_by: _Ints = end.to_numpy(zero_copy_only=False).astype(np.int64)
    raw = _raw(batch)
    has_text = np.zeros(batch.num_rows, np.bool_)
    now, read, cut = np.zeros(batch.num_rows, np.int64), 0, {}
    for step in config.texts:
        bytes_now = _sizes(batch[f"{step}.text_bytes"])
        # If the step itself drops a document, the text from before the step is counted as dropped.
        passed = dropped_by > place[step]
        if step == config.texts[0]:
            has_text = passed
            if _is_read_as_text(config):
                has_text = (bytes_now > 0) | (_sizes(batch["ingest.html_bytes"]) == 0)
                raw = np.where(has_text, 0, raw)
            now = np.where(has_text, bytes_now, 0)
            read = int(now.sum())
        else:
            changed = passed & has_text & (bytes_now != now)
            cut[step] = {"rows": int(changed.sum()), "text_bytes": int((now - bytes_now)[changed].sum())}
            now = np.where(changed, bytes_now, now)
    left = np.where(has_text, 0, raw)
    kept = dropped_by == len(place)
    extracted = () if _is_read_as_text(config) else config.texts[:1]
    return {
        "read": {"rows": batch.num_rows, "text_bytes": read, "raw_bytes": int(raw.sum())},
        "extracted": {step: {"rows": int(has_text.sum()), "raw_bytes": int(raw[has_text].sum())} for step in extracted},
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
    taken = table.filter(pc.is_valid(table["reason"])).group_by(["step", "reason"], use_threads=False)
    for one in taken.aggregate([("text", "sum"), ("raw", "sum"), ([], "count_all")]).to_pylist():
        counts = {"rows": one["count_all"], "text_bytes": one["text_sum"], "raw_bytes": one["raw_sum"]}
        first.setdefault(one["step"], {})[one["reason"]] = counts
    return first


def _raw(batch: pa.RecordBatch) -> _Ints:
    """The bytes of text and markup as they were read."""
    return _sizes(batch["ingest.text_bytes"]) + _sizes(batch["ingest.html_bytes"])


def _sizes(column: pa.Array) -> _Ints:
    sizes: _Ints = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def _languages(labels: pa.Array, answers: pa.RecordBatch) -> dict[str, Any]:
    """Count, for each language, the documents that were read, dropped first by each step and why, and kept."""
    table = pa.table(
        {"label": labels.cast(pa.string()).fill_null(NOTHING), "step": answers["step"], "reason": answers["drop"]}
    )
    found: dict[str, Any] = {}
    counted = table.group_by(["label", "step", "reason"], use_threads=False).aggregate([([], "count_all")])
    for entry in counted.to_pylist():
        rows, language = entry["count_all"], found.setdefault(entry["label"], {"read": 0, "kept": 0, "first": {}})
        language["read"] += rows
        if entry["step"] is None:
            language["kept"] += rows
        else:
            language["first"].setdefault(entry["step"], {})[entry["reason"]] = rows
    return found


MOST_OF_IT = 0.8
"""The run warns about a step that drops more than this share of a language or a source."""
MOST_OF_A_RULE = 0.25
"""The run warns about one rule that drops more than this share of a source."""
MOST_NAMED = 5
"""The number of languages that one warning names."""
FEWEST = 20
"""The least documents for which a share is meaningful."""


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warn about an empty corpus, about a step that drops nearly all of a language or of the source, and about a rule
    that drops more than a quarter of the source.
    """
    funnel = found["funnel"]
    warned = Warnings()
    if funnel["read"]["rows"] and not funnel["kept"]["rows"]:
        warned.add("no_document", "no document survived")
    if pages := funnel["kept"].get("pages"):
        warned.add(
            "markup",
            f"{pages:,} of {counted(funnel['kept']['rows'], 'kept document')} have no text, only markup "
            f"({size(funnel['kept']['raw_bytes'])}), because no step of this route extracts the text of pages. Add "
            "`- extract` to the steps of this source",
        )
    languages: dict[str, list[tuple[Any, ...]]] = {}
    for label, counts in sorted(found.get("languages", {}).items()):
        for step, reason, why, rows, total in (
            _greedy(counts["read"], counts["first"], config) if label != NOTHING else ()
        ):
            languages.setdefault(step, []).append((label, reason, why, rows, total))
    rules = {(step, reason) for step, all_of_it in languages.items() for _, reason, *_ in all_of_it}
    for step, all_of_it in languages.items():
        is_most = max(total for *_, total in all_of_it) > funnel["read"]["rows"] / 2
        warned.add("language_lost", _of_languages(step, all_of_it) + (_of_manuals(step) if is_most else ""))
    first = {step: {why: counts["rows"] for why, counts in some.items()} for step, some in funnel["first"].items()}
    for step, reason, why, rows, total in _greedy(funnel["read"]["rows"], first, config, MOST_OF_A_RULE):
        if (step, reason) not in rules:
            warned.add(
                "source_lost",
                f"{step} dropped {rows:,} of {counted(total, 'document')} of this source ({percent(rows, total, 0)}) "
                f"for {why}. Read some of them ({hint('dropped', reason=reason)}); "
                f"{_advice(step, 'the source, change it (by_source)')}, or give the source its own steps"
                f"{_of_manuals(step)}",
            )
    return warned


def _of_languages(step: str, languages: Sequence[tuple[Any, ...]]) -> str:
    """One warning about a step that removes nearly all documents of some languages, the largest first."""
    largest = sorted(languages, key=lambda one: (-one[3], one[0]))
    label, reason, why, rows, total = largest[0]
    fact = f"{step} dropped {rows:,} of {counted(total, 'document')} in {label} ({percent(rows, total, 0)}) for {why}"
    whose, those = label, label
    if len(languages) > 1:
        more = [f"{label} ({rows:,} of {total:,})" for label, _, _, rows, total in largest[1:MOST_NAMED]]
        rest = len(largest) - MOST_NAMED
        fact += f", and nearly all in {', '.join(more)}" + (
            f" and {counted(rest, 'more language')}" if rest > 0 else ""
        )
        whose, those = "each of them", "them"
    return (
        f"{fact}, so hardly any {label if len(languages) == 1 else 'text in these languages'} is left. Read some of "
        f"them ({hint('dropped', reason=reason)}); "
        f"{_advice(step, f'the language, change its threshold for {whose} (by_language)')}, or stop keeping {those}"
    )


def _advice(step: str, of_rules: str) -> str:
    """What a user can do about a step that drops nearly everything."""
    if _has_rules(step):
        return f"if the rule does not fit {of_rules}"
    if "_dedup" in step.rpartition("/")[2]:
        return f"if they are not copies of kept documents, change the settings of {step}"
    return f"if they should stay, change the settings of {step}"


def _of_manuals(step: str) -> str:
    return " (manuals: `rules: [documentation]`, if it has others)" if _has_rules(step) else ""


def _has_rules(step: str) -> bool:
    return step.rpartition("/")[2].startswith("heuristics")


def _greedy(
    read: int, first: Mapping[str, Mapping[str, int]], config: Config, most_of_a_rule: float = 1
) -> Iterator[tuple[str, str, str, int, int]]:
    """Steps that drop most of the rows that reach them, for one reason or for all together, and rules that drop a
    certain share: the step, its most frequent reason, all reasons in words, the rows dropped, the rows that reached it.

    Records that are not documents (the reader's verdicts), posts whose text is in another document, and documents that
    the recipe does not want (other languages, and those below a cutoff, about which `keep_quality` warns) do not count.
    """
    left = read - sum(first.get(config.steps[0], {}).values())
    for step in config.steps[1:]:
        taken = dict(first.get(step, {}))
        left -= taken.pop(OTHER, 0) + taken.pop(LOW, 0) + taken.pop(JOINED, 0)
        rows = sum(taken.values())
        reason = max(taken, key=lambda one: (taken[one], one), default="")
        if left >= FEWEST and rows > MOST_OF_IT * left:
            yield step, reason, reason if taken[reason] == rows else f"{reason} and other reasons", rows, left
        elif left >= FEWEST and _has_rules(step) and taken and taken[reason] > most_of_a_rule * left:
            yield step, reason, reason, taken[reason], left
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
