"""Replaces findings in texts and records the edits."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.stages.buffers import bytes_of, strings
from gristmill.stages.scrub.find import SearchOptions, find_all
from gristmill.stages.scrub.finding import PiiSpan
from gristmill.stages.scrub.replacements import Replacer
from gristmill.stages.shared.formulas import formula_bounds

_NUMBERS = frozenset(("ip", "phone", "card", "iban", "national_id", "wallet"))
_MOST_ROUNDS = 4
"""A replacement may reveal something new, such as digits next to it. The last round finds nothing."""


class Edit(NamedTuple):
    """A span of a text, in bytes, and its replacement."""

    start: int
    stop: int
    type: str
    written: bytes


def scrubbed(
    texts: pa.Array,
    regions: Callable[[int], tuple[str, ...]],
    options: SearchOptions,
    replacer: Replacer,
    with_formulas: Collection[int] = (),
) -> tuple[pa.Array, dict[int, list[Edit]]]:
    """The texts after the edits and, for each changed row, its edits in order.

    In rows `with_formulas`, numbers in formulas are not replaced.
    """
    data, offsets = bytes_of(texts)
    edits: dict[int, list[Edit]] = {}
    rows, left = list(range(len(texts))), texts
    for _ in range(_MOST_ROUNDS):
        found = {}
        for place, findings in find_all(left, lambda place, of=rows: regions(of[place]), options):  # type: ignore[misc]
            if rows[place] in with_formulas:
                findings = _outside_formulas(findings, left[place].as_py())
            if findings:
                found[place] = findings
        if not found:
            break
        for place, findings in found.items():
            row = rows[place]
            before = left[place].as_py().encode()
            more = [Edit(one.start, one.stop, one.type, _written(one, before, replacer)) for one in findings]
            edits[row] = extended(edits.get(row, []), more)
        rows = [rows[place] for place in found]
        left = pa.array([_edited(data[offsets[row] : offsets[row + 1]], edits[row]).decode() for row in rows])
    return _column(texts, edits) if edits else texts, edits


def _outside_formulas(findings: list[PiiSpan], text: str) -> list[PiiSpan]:
    """The findings without numbers in formulas. A formula does not hide an e-mail address, a name or a secret."""
    bounds = formula_bounds(text)
    starts = np.searchsorted(bounds[:, 0], [one.stop for one in findings])
    stops = np.searchsorted(bounds[:, 1], [one.start for one in findings], side="right")
    is_inside = starts > stops
    return [one for one, inside in zip(findings, is_inside, strict=True) if not (inside and one.type in _NUMBERS)]


def _written(one: PiiSpan, text: bytes, replacer: Replacer) -> bytes:
    return replacer.replace(one, text[one.start : one.stop])


def _edited(text: Iterable[int], edits: list[Edit]) -> bytes:
    data, at, pieces = bytes(text), 0, []
    for edit in edits:
        pieces += [data[at : edit.start], edit.written]
        at = edit.stop
    return b"".join([*pieces, data[at:]])


def shifted(edits: list[Edit]) -> list[tuple[int, int]]:
    """The spans of the replacements in the edited text."""
    moved, spans = 0, []
    for edit in edits:
        start = edit.start + moved
        spans.append((start, start + len(edit.written)))
        moved += len(edit.written) - (edit.stop - edit.start)
    return spans


def extended(edits: list[Edit], later: list[Edit]) -> list[Edit]:
    """The edits, and `later` ones of the edited text, without what they share with earlier replacements."""
    spans = shifted(edits)
    stops = [stop for _, stop in spans]
    added = []
    for start, stop, kind, written in later:
        number = bisect_right(stops, start)  # of edits before it
        if number < len(edits) and spans[number][0] <= start:
            start, number = stops[number], number + 1
        if number < len(edits):
            stop = min(stop, spans[number][0])
        if start < stop:
            moved = stops[number - 1] - edits[number - 1].stop if number else 0
            added.append(Edit(start - moved, stop - moved, kind, written))
    return sorted([*edits, *added])


def _column(texts: pa.Array, edits: dict[int, list[Edit]]) -> pa.Array:
    """All texts as one column, copied between edits and not row by row."""
    data, offsets = bytes_of(texts)
    whole = data.data
    grown = np.zeros(len(texts) + 1, np.int64)
    pieces: list[Any] = []
    at = int(offsets[0])
    for row in sorted(edits):
        begin = int(offsets[row])
        for edit in edits[row]:
            pieces += [whole[at : begin + edit.start], edit.written]
            at = begin + edit.stop
            grown[row + 1] += len(edit.written) - (edit.stop - edit.start)
    pieces.append(whole[at : int(offsets[-1])])
    ends = (offsets.astype(np.int64) - int(offsets[0]) + np.cumsum(grown)).astype(np.int32)
    valid = texts.is_valid().to_numpy(zero_copy_only=False) if texts.null_count else None
    return strings(ends, np.frombuffer(b"".join(pieces) or b"\0", np.uint8), valid)
