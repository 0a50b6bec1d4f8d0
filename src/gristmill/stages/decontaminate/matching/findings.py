"""Finds eval items in documents: adds up the hits of the kernels. `evidence.py` decides whether a finding is enough.

Words are compared by their 64-bit hashes. Two different words share one with a probability of 5e-20.
"""

from collections.abc import Iterator, Sequence
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
from gristmill.stages.decontaminate.matching.index import LONG, SHORT, EvalIndex, UnitTable, key_of
from gristmill.stages.decontaminate.matching.passage import WordSequence

Array = np.ndarray[Any, Any]


class UnitHits(NamedTuple):
    """The hits of one unit in one text."""

    table: UnitTable
    number: int
    rows: Array

    def longest(self) -> float:
        """The share of the unit that its longest run covers."""
        return float((self.rows[:, UNIT_TO] - self.rows[:, UNIT_FROM]).max() / self.table.size(self.number))

    def cost(self) -> int:
        """The words that are compared: each hit, and each word of the unit."""
        return len(self.rows) + self.table.size(self.number)


def find(texts: pa.Array, index: EvalIndex) -> tuple[list[Finding], Array]:
    """The findings in a column of texts, by row; and which rows reached the work limit.

    The cost of a text is at most a constant plus a constant per byte, for any texts and items: the kernels count their
    comparisons (`match.py`), and `WorkBudget` counts the rest.
    """
    data, offsets = bytes_of(texts)
    long, short = index.tables[LONG], index.tables[SHORT]
    hits = match_texts(data, offsets, copy_tables(), long.search, short.search, index.support)
    by_row: dict[int, list[UnitHits]] = {}
    for table, found in ((long, hits.hits), (short, hits.short_hits)):
        found = found[np.lexsort((found[:, UNIT], found[:, ROW]))]
        pairs, first = np.unique(found[:, [ROW, UNIT]], axis=0, return_index=True)
        for (row, number), rows in zip(pairs.tolist(), np.split(found, first[1:]), strict=False):
            by_row.setdefault(row, []).append(UnitHits(table, number, rows))
    findings: list[Finding] = []
    bounded = hits.bounded
    for row in sorted(by_row):
        text = data[offsets[row] : offsets[row + 1]]
        budget = WorkBudget(len(text))
        findings += _in_text(row, text, by_row[row], index, budget)
        bounded[row] |= budget.left < 0
    return findings, bounded


def _in_text(row: int, text: Array, hits: list[UnitHits], index: EvalIndex, budget: WorkBudget) -> list[Finding]:
    """The findings in one text. The unit with the longest run comes first, so that partial matches of other items
    cannot use up the budget before a whole copy is found.
    """
    words = WordSequence(text)
    candidates: list[Candidate] = []
    for unit_hits in sorted(hits, key=lambda unit_hits: -unit_hits.longest()):
        if budget.allows(unit_hits.cost()):
            candidates += _candidates(row, words, unit_hits, index)
    candidates.sort(key=lambda candidate: candidate.finding.unit)
    return list(with_evidence(candidates, index, budget))


def _candidates(row: int, words: WordSequence, hits: UnitHits, index: EvalIndex) -> Iterator[Candidate]:
    """The finding that the runs and alignments of one unit add up to, if any."""
    table, number, rows = hits.table, hits.number, hits.rows
    unit, size, ngram = table.units[number], table.size(number), int(table.ngrams[number])
    runs = rows[rows[:, IS_RUN] == 1].tolist()
    in_index = number if table is index.tables[LONG] else number + len(index.tables[LONG].units)
    plain = Finding(row, key_of(index.items[unit.item]), in_index, unit.piece, EXACT, False, MILLION, 0, ())
    spans = sorted((run[TEXT_FROM], run[TEXT_TO]) for run in runs if run[UNIT_TO] - run[UNIT_FROM] == size)
    if size < ngram and spans:
        yield Candidate(plain._replace(spans=_bytes(words, spans)), table, number, words, spans)
        return
    alike, copies = _copies(rows, size, int(table.cuts[number]))
    ngrams = np.zeros(max(size - ngram + 1, 0), np.bool_)
    for run in runs:
        ngrams[run[UNIT_FROM] : max(run[UNIT_TO] - ngram + 1, run[UNIT_FROM])] = True
    if not ngrams.any() and not alike:
        return
    spans = _clusters([*copies, *((run[TEXT_FROM], run[TEXT_TO]) for run in runs)], size)
    finding = plain._replace(rule=FUZZY, share=alike, alike=alike, spans=_bytes(words, spans))
    if ngrams.any():
        finding = finding._replace(rule=NGRAM, share=int(ngrams.sum()) * MILLION // len(ngrams))
    yield Candidate(finding, table, number, words, spans)


def _bytes(words: WordSequence, spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(offset for span in spans for offset in words.bytes(*span))


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
