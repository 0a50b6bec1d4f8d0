"""Cuts lines or paragraphs that are repeated too often, as Llama 3 did.

All occurrences are removed with their line ends, except for protected lines; with `keep_first`, the first in each
bucket stays. Blank lines are removed with a cut if otherwise two gaps would meet or the text would begin or end with
one. `cut_spans` has the byte ranges. A document without a visible character left is dropped as `all_lines_repeated`.

Lines without a letter are never counted or cut: rulers, numbers, dates, rows of signs. A character outside ASCII counts
as a letter. Lines with a formula are never cut (`extract` finds formulas).

This step is for web pages. Source code and tables repeat lines for good reasons (`return None`, `@Override`), so a
recipe has this step among those of kind web.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.errors import WrongSetting
from gristmill.expression import expression
from gristmill.kernels.dedup.line_units import count_units, find_units
from gristmill.kernels.text.cut_spans import take_blank_lines
from gristmill.kernels.text.unicode_data import known
from gristmill.places import system_of
from gristmill.stages.buffers import bytes_of, read_only
from gristmill.stages.contract import File, Map
from gristmill.stages.dedup import line_counts
from gristmill.stages.shared import cut
from gristmill.stages.shared.formulas import COLUMN as FORMULAS
from gristmill.stages.shared.formulas import bounds_by_row
from gristmill.warned import Warnings

Array = np.ndarray[Any, Any]

READS = ("text", "line_counts.hot", "line_counts.first", "line_counts.witness")
SCHEMA = pa.schema([*cut.FIELDS, ("cut_lines", pa.int32()), ("spared_lines", pa.int32())])
"""`spared_lines`: the number of occurrences of repeated lines that are protected."""
NOTHING_LEFT = "all_lines_repeated"
SHOWN_CHARS = 200
_FORMULA = np.int32(np.iinfo(np.int32).max)

_BLANKS = re.compile("[\x00-\x20\x80-\xa0\xad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]+")


class Config(line_counts.Config):
    """Which of the repeated lines are kept."""

    protected: File | None = None
    """A text file of lines (with unit paragraph: of paragraphs) that are never cut; white space is ignored."""
    protected_patterns: tuple[str, ...] = ()
    """Regular expressions; a line that matches one of them anywhere is never cut. A run of white space in the line
    counts as one space."""
    keep_first: bool = False
    """Whether to keep the first occurrence in each bucket, in the document with the smallest doc_id."""


def libraries(config: Config) -> tuple[str, ...]:
    return ("unicode",) if config.protected_patterns else ()


def check(config: Config) -> None:
    """Raise WrongSetting if a pattern is not a regular expression or would protect everything."""
    for pattern in config.protected_patterns:
        try:
            found = expression(pattern).search("")
        except ValueError as error:
            raise WrongSetting(
                "protected_patterns",
                f"{pattern!r} is not a regular expression: {error}. Put a backslash before a sign to match it.",
            ) from None
        if found:
            raise WrongSetting(
                "protected_patterns",
                f"{pattern!r} matches an empty text, so it would protect every line. Write a pattern that matches at "
                "least one character.",
            )


class _Repeats(NamedTuple):
    """The occurrences of repeated lines in some rows, in order."""

    spans: Array
    """row, start, stop; int64."""
    lines: Array
    """The hash of each line."""
    first: Array
    """Whether an occurrence is the first of its line in the row."""
    by: Array
    """int32: what protects an occurrence: 0 the list, 1 + n pattern n, _FORMULA that it has a formula, -1 nothing."""


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    text, hot, first, _ = (batch.column(name) for name in READS)
    found = _find(text, hot, config, bounds_by_row(batch))
    is_cut = found.by < 0
    if config.keep_first:
        is_cut &= ~(found.first & _listed(found, first))
    spans = np.ascontiguousarray(found.spans[is_cut])
    lines = np.bincount(spans[:, 0], minlength=len(text))
    spared = np.bincount(found.spans[found.by >= 0, 0], minlength=len(text))
    take_blank_lines(*bytes_of(text), spans)
    columns = cut.cut(text, cut.spans_of(spans[:, 0], spans[:, 1], spans[:, 2], len(text)), NOTHING_LEFT)
    missing = text.is_null().to_numpy(zero_copy_only=False)
    columns["cut_lines"] = pa.array(lines, pa.int32(), mask=missing)
    columns["spared_lines"] = pa.array(spared, pa.int32(), mask=missing)
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count what was cut and spared, and list the most repeated lines with their number of occurrences."""
    spared = answers["spared_lines"].fill_null(0)
    found = {
        "documents_seen": batch.num_rows,
        "documents_cut": pc.sum(pc.greater(answers["cut_lines"], 0)).as_py() or 0,
        "lines_cut": pc.sum(answers["cut_lines"]).as_py() or 0,
        "text_bytes_cut": pc.sum(answers["cut_bytes"]).as_py() or 0,
        "lines_spared": pc.sum(spared).as_py() or 0,
        "spared_by": dict.fromkeys(_protectors(config).values(), 0),
        "empty_lists": 1 if config.protected and not len(_protected(config)) else 0,
        "most_cut": _most_cut(batch, config),
    }
    if found["lines_spared"]:
        some = batch.filter(pc.greater(spared, 0))
        by = _find(some.column(0), some.column(1), config, bounds_by_row(some)).by
        for number, name in _protectors(config).items():
            found["spared_by"][name] = int((by == number).sum())
    return found


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """Warn if nothing was cut, if the list is empty, and if a protection was not needed."""
    if not found.get("documents_seen"):
        return ()
    warned = Warnings()
    if found.get("empty_lists"):
        warned.add("empty_list", "the file of protected lines is empty")
    for name, count in found.get("spared_by", {}).items():
        if not count and not (name == "protected" and found.get("empty_lists")):
            warned.add("protected_nothing", f"{name} protected no line")
    if not found.get("lines_cut"):
        warned.append(
            f"no line was cut: no unprotected line of {counted(config.min_chars, 'character')} or more occurs more "
            f"than {counted(config.max_count, 'time')} in a bucket"
        )
    return warned


def _protectors(config: Config) -> dict[int, str]:
    """The names of the protections, by number."""
    named = {0: "protected"} if config.protected else {}
    return named | {1 + place: f"pattern {pattern}" for place, pattern in enumerate(config.protected_patterns)}


def _find(text: pa.Array, hot: pa.Array, config: Config, formulas: Mapping[int, Array]) -> _Repeats:
    data, offsets = bytes_of(text)
    firsts = np.zeros(len(hot) + 1, np.int64)
    np.cumsum(pc.list_value_length(hot).fill_null(0).to_numpy(zero_copy_only=False), out=firsts[1:])
    wanted = hot.flatten().to_numpy(zero_copy_only=False)
    paragraphs = config.unit == "paragraph"
    spans, lines, first = find_units(data, offsets, firsts, wanted, paragraphs, config.min_chars)
    has_formula = np.full(len(lines), False)
    for row, bounds in formulas.items():
        of_row = slice(*np.searchsorted(spans[:, 0], (row, row + 1)))
        begun = np.searchsorted(bounds[:, 0], spans[of_row, 2])
        has_formula[of_row] = begun > np.searchsorted(bounds[:, 1], spans[of_row, 1], side="right")
    if not _protectors(config):
        return _Repeats(spans, lines, first, np.where(has_formula, _FORMULA, np.int32(-1)))
    different, where, which = np.unique(lines, return_index=True, return_inverse=True)
    by = np.full(len(different), -1, np.int32)
    for number, place in enumerate(where) if config.protected_patterns else ():
        shown = known(_shown(text, spans[place]))
        for pattern in reversed(range(len(config.protected_patterns))):
            if re.search(config.protected_patterns[pattern], shown):
                by[number] = 1 + pattern
    if config.protected:
        by[np.isin(different, _protected(config))] = 0
    return _Repeats(spans, lines, first, np.where(has_formula, _FORMULA, by[which]))


def _most_cut(batch: pa.RecordBatch, config: Config) -> dict[str, int]:
    some = batch.filter(pc.greater(pc.list_value_length(batch.column(3)).fill_null(0), 0))
    text, hot, _, witness = (some.column(name) for name in READS)
    found = _find(text, hot, config, bounds_by_row(some))
    most: dict[str, int] = {}
    for row, witnessed in enumerate(witness.to_pylist()):
        counts = {one["line"]: one["count"] for one in witnessed}
        for place in np.flatnonzero((found.spans[:, 0] == row) & (found.by < 0)):
            count = counts.pop(int(found.lines[place]), 0)
            if count:
                shown = _shown(text, found.spans[place])[:SHOWN_CHARS]
                most[shown] = most.get(shown, 0) + count
    return most


def _shown(text: pa.Array, span: Array) -> str:
    """The text of a line as it is shown and matched with patterns."""
    row, start, stop = (int(value) for value in span)
    return _BLANKS.sub(" ", text[row].as_py().encode()[start:stop].decode()).strip(" ")


def _listed(found: _Repeats, lists: pa.Array) -> Array:
    """A mask of the occurrences whose line is in the list of their row."""
    rows = np.repeat(np.arange(len(lists)), pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False))
    pairs = set(zip(rows.tolist(), lists.flatten().to_pylist(), strict=True))
    own = zip(found.spans[:, 0].tolist(), found.lines.tolist(), strict=True)
    return np.fromiter((pair in pairs for pair in own), np.bool_, len(found.lines))


def _protected(config: Config) -> Array:
    assert config.protected is not None
    fs, path = system_of(config.protected)
    return _hashes_of_file(config.protected, fs.ukey(path), config.unit == "paragraph")


@lru_cache(maxsize=8)
def _hashes_of_file(uri: str, stamp: str, paragraphs: bool) -> Array:
    """The hashes of the lines of a file; another `stamp` means that the file has changed."""
    fs, path = system_of(uri)
    with fs.open(path, "rb", compression="infer") as file:
        data = np.frombuffer(file.read() or b"\n", np.uint8)
    offsets = read_only(np.array([0, len(data)], np.int32), np.int32)
    return np.asarray(count_units(data, offsets, paragraphs, 1)[0])


STAGE = Map(
    version=2,
    config=Config,
    libraries=libraries,
    reads=READS,
    may_read=(FORMULAS,),
    only_kept=True,
    prerequisites=("gristmill.stages.dedup.line_counts",),
    schema=SCHEMA,
    spans=("cut_spans",),
    apply=apply,
    metrics=metrics,
    check=check,
    warnings=warnings,
)
