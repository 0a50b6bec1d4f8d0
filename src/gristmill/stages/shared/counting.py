"""Counts of documents for the metrics of a batch."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from gristmill.stages.natural_languages import LABEL
from gristmill.stages.shared.tally import NOTHING


def counts_of(values: pa.Array) -> dict[str, int]:
    """How often each value occurs; nulls do not count."""
    return {entry["values"]: entry["counts"] for entry in values.drop_null().value_counts().to_pylist()}


def languages_of(batch: pa.RecordBatch) -> pa.Array:
    """The language of each document; NOTHING where it is unknown."""
    found = batch[LABEL].cast(pa.string()) if LABEL in batch.schema.names else pa.nulls(batch.num_rows, pa.string())
    return found.fill_null(NOTHING)


def found_in(kinds: Iterable[tuple[int, Iterable[str]]], batch: pa.RecordBatch) -> dict[str, Any]:
    """{kind: {source: {language: documents}}}, from rows and the different kinds of what was found there."""
    sources, languages = batch.column("source"), languages_of(batch)
    found: dict[str, Any] = {}
    for row, some in kinds:
        for kind in some:
            of_source = found.setdefault(kind, {}).setdefault(sources[row].as_py(), {})
            language = languages[row].as_py()
            of_source[language] = of_source.get(language, 0) + 1
    return found


def verdicts_by(values: pa.Array, drop: pa.Array, text_bytes: pa.Array) -> dict[str, Any]:
    """{value: {verdict: documents and bytes of text}}; the verdict is `kept`, or the reason of the drop."""
    table = pa.table({"of": values, "verdict": drop.fill_null("kept"), "bytes": text_bytes.fill_null(0)})
    found: dict[str, Any] = {}
    counted = table.group_by(["of", "verdict"], use_threads=False).aggregate([("bytes", "sum"), ([], "count_all")])
    for entry in counted.to_pylist():
        counts = {"documents": entry["count_all"], "text_bytes": entry["bytes_sum"]}
        found.setdefault(entry["of"], {})[entry["verdict"]] = counts
    return found
