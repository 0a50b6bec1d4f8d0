"""Finds eval items in documents: takes the hits of the kernels and compares them with the text.

Hashes only lead to a match, they never decide: the letters and digits of the span are compared with those of the item,
or the words one by one. `evidence.py` then decides whether a finding is enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.kernels.decontaminate.match import EDITS, IS_RUN, ROW, TEXT_FROM, TEXT_TO, UNIT, UNIT_FROM, UNIT_TO
from gristmill.kernels.decontaminate.texts import match_texts
from gristmill.kernels.dedup.shingles import copy_tables
from gristmill.stages.buffers import bytes_of
from gristmill.stages.decontaminate.matching.evidence import (
    EXACT,
    FUZZY,
    MILLION,
    NGRAM,
    Candidate,
    Finding,
    WorkBudget,
    with_evidence,
)
from gristmill.stages.decontaminate.matching.index import LONG, SHORT, EvalIndex, UnitTable
from gristmill.stages.decontaminate.matching.passage import WordWindow, spelled
from gristmill.stages.decontaminate.matching.support import NEAR_WORDS

Array = np.ndarray[Any, Any]

_WORD_COLUMNS = np.array([0, 0, 0, 0, 0, 1, 1, 0])
"""The columns of a hit that count words from the start of a text: TEXT_FROM and TEXT_TO."""


class UnitHits(NamedTuple):
    """The hits of one unit in one text."""

    name: str
    """The table of the unit."""
    table: UnitTable
    number: int
    rows: Array

    def longest(self) -> float:
        """The share of the unit that its longest run covers."""
        return float((self.rows[:, UNIT_TO] - self.rows[:, UNIT_FROM]).max() / self.table.size(self.number))

    def cost(self) -> int:
        """The words that are compared: each hit, and each word of the unit and of the text around it once."""
        passage = int(self.rows[:, TEXT_TO].max() - self.rows[:, TEXT_FROM].min())
        return len(self.rows) + self.table.size(self.number) + min(passage, 4 * NEAR_WORDS)


def find(texts: pa.Array, index: EvalIndex) -> tuple[list[Finding], Array]:
    """The findings in a column of texts, by row; and which rows reached the work limit.

    The cost of a text is at most a constant plus a constant per byte, for any texts and items: the kernels count their
    comparisons (`match.py`), and `WorkBudget` counts the rest.
    """
    data, offsets = bytes_of(texts)
    long, short = index.tables[LONG], index.tables[SHORT]
    hits = match_texts(data, offsets, copy_tables(), long.search, short.search, index.support)
    by_row: dict[int, list[UnitHits]] = {}
    for name, table, found in ((LONG, long, hits.hits), (SHORT, short, hits.short_hits)):
        found = found[np.lexsort((found[:, UNIT], found[:, ROW]))]
        pairs, first = np.unique(found[:, [ROW, UNIT]], axis=0, return_index=True)
        for (row, number), rows in zip(pairs.tolist(), np.split(found, first[1:]), strict=False):
            by_row.setdefault(row, []).append(UnitHits(name, table, number, rows))
    findings: list[Finding] = []
    bounded = hits.bounded
    for row in sorted(by_row):
        text = data[offsets[row] : offsets[row + 1]]
        low, high = np.searchsorted(hits.places[:, 0], [row, row + 1])
        budget = WorkBudget(len(text))
        findings += _in_text(row, text, by_row[row], hits.places[low:high], index, budget)
        bounded[row] |= budget.left < 0
    return findings, bounded


def _in_text(
    row: int, text: Array, hits: list[UnitHits], places: Array, index: EvalIndex, budget: WorkBudget
) -> list[Finding]:
    """The findings in one text. Only the words around hits are read. The unit with the longest run comes first, so that
    partial matches of other items cannot use up the budget before a whole copy is found.
    """
    candidates: list[Candidate] = []
    windows = _windows(hits, text, places, index)
    for at in sorted(range(len(hits)), key=lambda at: -hits[at].longest()):
        if budget.allows(hits[at].cost()):
            words, begin = windows[at]
            candidates += _candidates(row, words, hits[at], hits[at].rows - begin * _WORD_COLUMNS, index)
    candidates.sort(key=lambda candidate: candidate.finding.unit)
    return list(with_evidence(candidates, index, budget))


def _windows(hits: Sequence[UnitHits], text: Array, places: Array, index: EvalIndex) -> list[tuple[WordWindow, int]]:
    """The window of a text to read for the hits of each unit, and its first word; overlapping windows are merged."""
    ranges = [_range(unit_hits, places, index) for unit_hits in hits]
    groups: list[tuple[int, int, list[int]]] = []
    for at in sorted(range(len(hits)), key=lambda at: (*ranges[at], at)):
        begin, end = ranges[at]
        if groups and begin <= groups[-1][1]:
            first, last, members = groups.pop()
            groups.append((first, max(last, end), [*members, at]))
        else:
            groups.append((begin, end, [at]))
    windows: dict[int, tuple[WordWindow, int]] = {}
    for begin, end, members in groups:
        stop = int(places[end, 1]) if end < len(places) else len(text)
        window = WordWindow(text, int(places[begin, 1]), stop), int(places[begin, 2])
        windows |= dict.fromkeys(members, window)
    return [windows[at] for at in range(len(hits))]


def _range(hits: UnitHits, places: Array, index: EvalIndex) -> tuple[int, int]:
    """The first and last place to read for a unit."""
    item = index.items[hits.table.units[hits.number].item]
    letters = sum(map(len, (item.question, item.answer, *item.choices)))
    margin = 2 * NEAR_WORDS + 2 * letters  # more than `_is_supported` reads: a word has at least one letter
    low, high = int(hits.rows[:, TEXT_FROM].min()) - margin, int(hits.rows[:, TEXT_TO].max()) + margin
    begin = max(int(np.searchsorted(places[:, 2], low, "right")) - 1, 0)
    return begin, int(np.searchsorted(places[:, 2], high))


def _candidates(row: int, words: WordWindow, hits: UnitHits, rows: Array, index: EvalIndex) -> Iterator[Candidate]:
    """The finding that the runs and alignments of one unit add up to, if any."""
    table, number = hits.table, hits.number
    unit, size, ngram = table.units[number], table.size(number), int(table.ngrams[number])
    rows = _same_words(rows, words, dict(zip(table.words(number).tolist(), spelled(unit.text), strict=True)))
    runs = rows[rows[:, IS_RUN] == 1].tolist()
    name = number + (hits.name == SHORT) * len(index.tables[LONG].units)
    plain = Finding(row, index.keys[unit.item], name, unit.piece, EXACT, False, MILLION, 0, b"", 0, ())
    spans = sorted((run[TEXT_FROM], run[TEXT_TO]) for run in runs if run[UNIT_TO] - run[UNIT_FROM] == size)
    if size < ngram and spans:
        yield Candidate(plain._replace(spans=_bytes(words, spans)), table, number, words, spans)
        return
    alike, copies = _copies(rows, size, int(table.cuts[number]))
    counts = table.counts[number]
    bits = np.zeros(len(counts), np.bool_)
    for run in runs if size >= ngram else ():
        bits[run[UNIT_FROM] : max(run[UNIT_TO] - ngram + 1, run[UNIT_FROM])] = True
    bits &= counts
    if not bits.any() and not alike:
        return
    spans = _clusters([*copies, *((run[TEXT_FROM], run[TEXT_TO]) for run in runs)], size)
    finding = plain._replace(rule=FUZZY, share=alike, alike=alike, spans=_bytes(words, spans))
    if bits.any():
        total = int(counts.sum())
        share, packed = int(bits.sum()) * MILLION // total, np.packbits(bits).tobytes()
        finding = finding._replace(rule=NGRAM, share=share, bits=packed, windows=total)
    yield Candidate(finding, table, number, words, spans)


def _bytes(words: WordWindow, spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(offset for span in spans for offset in words.bytes(*span))


def _same_words(hits: Array, words: WordWindow, own: Mapping[int, str]) -> Array:
    """The hits without a hash collision: each word of the text whose hash is that of a word of the unit is that word.
    A word is compared once, even if several hits contain it.
    """
    low, high = int(hits[:, TEXT_FROM].min()), int(hits[:, TEXT_TO].max())
    named = words.named(low, high) if high - low <= 4 * NEAR_WORDS else words.all_named
    wrong = [word for word in own.keys() & named.keys() if own[word] != named[word]]
    if not wrong:
        return hits
    is_wrong = np.isin(words.words, np.array(wrong, np.uint64))
    for at in np.flatnonzero(is_wrong).tolist():  # another word of the text may also have that hash
        is_wrong[at] = own[int(words.words[at])] != words.letters(at, at + 1)
    total = np.concatenate([[0], np.cumsum(is_wrong)])
    return np.asarray(hits[total[hits[:, TEXT_TO]] == total[hits[:, TEXT_FROM]]])


def _copies(hits: Array, size: int, cut: int) -> tuple[int, list[tuple[int, int]]]:
    """The similarity of the best edited copy of a unit, in millionths, or 0; and the spans of all such copies, in
    words. The first `cut` or more words of a unit count as a truncated copy.
    """
    edited = hits[(hits[:, IS_RUN] == 0) & (hits[:, TEXT_FROM] < hits[:, TEXT_TO])]
    best = (size - int(edited[:, EDITS].min())) * MILLION // size if len(edited) else 0
    lengths = np.where((hits[:, IS_RUN] == 1) & (hits[:, UNIT_FROM] == 0), hits[:, UNIT_TO], 0)
    begun = hits[lengths >= cut]
    best = max(best, int(lengths.max()) * MILLION // size if len(begun) else 0)
    return best, [(low, high) for low, high in np.concatenate([edited, begun])[:, [TEXT_FROM, TEXT_TO]].tolist()]


def _clusters(runs: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Spans of words that contain runs; spans closer than the length of the unit are merged."""
    spans: list[tuple[int, int]] = []
    for low, high in sorted(runs):
        if spans and low - spans[-1][1] <= size:
            spans[-1] = spans[-1][0], max(high, spans[-1][1])
        else:
            spans.append((low, high))
    return spans
