"""Finds eval items in documents: takes the hits of the kernels and compares them with the text.

Hashes only lead to a match, they never decide: the letters and digits of the span are compared with those of the item,
or the words one by one. `evidence.py` then decides whether a finding is enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.kernels.decontaminate.code import match_code
from gristmill.kernels.decontaminate.match import EDITS, IS_RUN, ROW, TEXT_FROM, TEXT_TO, UNIT, UNIT_FROM, UNIT_TO
from gristmill.kernels.decontaminate.support import cover_half
from gristmill.kernels.decontaminate.texts import match_texts
from gristmill.kernels.dedup.shingles import copy_tables
from gristmill.stages.buffers import bytes_of
from gristmill.stages.decontaminate.matching.code_tokens import (
    MIN_EDITED,
    is_renamed,
    kept_words,
    literals_of,
    read_tokens,
)
from gristmill.stages.decontaminate.matching.evidence import (
    EXACT,
    FUZZY,
    MILLION,
    NGRAM,
    RENAMED,
    Finding,
    Placed,
    WorkBudget,
    with_evidence,
)
from gristmill.stages.decontaminate.matching.index import SHORT, TABLES, TEXT, TOKENS, EvalIndex
from gristmill.stages.decontaminate.matching.passage import WordWindow, spelled
from gristmill.stages.decontaminate.matching.support import NEAR_WORDS

Array = np.ndarray[Any, Any]

TOKEN_COST = 4
"""The cost, in words, of comparing the name of a token."""
_WORD_COLUMNS = np.array([0, 0, 0, 0, 0, 1, 1, 0])
"""The columns of a hit that count words from the start of a text: TEXT_FROM and TEXT_TO."""


def find(texts: pa.Array, index: EvalIndex) -> tuple[list[Finding], Array]:
    """The findings in a column of texts, by row; and which rows reached the work limit.

    The cost of a text is at most a constant plus a constant per byte, for any texts and items: the kernels count their
    comparisons (`match.py`), and `WorkBudget` counts the rest.
    """
    data, offsets = bytes_of(texts)
    found: list[Finding] = []
    hits: dict[int, list[tuple[str, Array]]] = {}
    tables = index.tables
    texts_hit, short_hit, places, ranges, bounded = match_texts(
        data, offsets, copy_tables(), tables[TEXT], tables[SHORT], index.support, index.marks
    )
    code_hit, over = match_code(data, offsets, ranges, kept_words(), tables[TOKENS])
    for name, here in ((TEXT, texts_hit), (SHORT, short_hit), (TOKENS, _well_covered(code_hit, index))):
        rows, first = np.unique(here[:, ROW], return_index=True)
        for row, part in zip(rows.tolist(), np.split(here, first[1:]), strict=False):
            hits.setdefault(row, []).append((name, part))
    for row in sorted(hits):
        text = data[offsets[row] : offsets[row + 1]]
        here = places[np.searchsorted(places[:, 0], row) : np.searchsorted(places[:, 0], row, "right")]
        budget = WorkBudget(len(text))
        found += _in_text(row, text, hits[row], here, index, budget)
        over[row] |= budget.left < 0
    return found, bounded | over


def _well_covered(hits: Array, index: EvalIndex) -> Array:
    """The hits of code units of which a text has at least half; a smaller part proves nothing."""
    table, (counts, firsts) = index.tables[TOKENS], index.code_counts
    order = np.lexsort((hits[:, UNIT], hits[:, ROW]))
    return np.asarray(hits[cover_half(hits, order, table.starts, table.ngram, counts, firsts)])


_Hits = tuple[str, int, Array]
"""A table, a unit of it, and its hits in one text."""


def _in_text(
    row: int, text: Array, hits: list[tuple[str, Array]], places: Array, index: EvalIndex, budget: WorkBudget
) -> list[Finding]:
    """The findings in one text. Only the words around hits are read. The unit with the longest run comes first, so that
    partial matches of other items cannot use up the budget before a whole copy is found.
    """
    by_unit: list[_Hits] = []
    for name, rows in hits:
        rows = rows[np.argsort(rows[:, UNIT], kind="stable")]
        numbers, first = np.unique(rows[:, UNIT], return_index=True)
        by_unit += [
            (name, number, part) for number, part in zip(numbers.tolist(), np.split(rows, first[1:]), strict=True)
        ]
    found: list[Placed] = []
    windows = _windows(by_unit, text, places, index)
    for at in sorted(range(len(by_unit)), key=lambda at: -_longest(by_unit[at], index)):
        (name, number, mine), (words, begin) = by_unit[at], windows[at]
        if not budget.allows(len(mine) + _spelled_for(by_unit[at], index)):
            continue
        if name == TOKENS:
            found += _tokens(row, text, mine, number, words, index, budget)
        else:
            found += _words(row, words, mine - begin * _WORD_COLUMNS, name, number, index)
    found.sort(key=lambda one: (TABLES.index(one.table), one.finding.unit))
    return list(with_evidence(found, index, budget))


def _spelled_for(hits: _Hits, index: EvalIndex) -> int:
    """The number of words that `_same_words` spells for the hits of a unit; each word of a text is spelled once."""
    name, number, rows = hits
    size = int(index.tables[name].starts[number + 1] - index.tables[name].starts[number])
    return size + min(int(rows[:, TEXT_TO].max() - rows[:, TEXT_FROM].min()), 4 * NEAR_WORDS) if name != TOKENS else 0


def _longest(hits: _Hits, index: EvalIndex) -> float:
    """The share of a unit that its longest run covers."""
    name, number, rows = hits
    size = index.tables[name].starts[number + 1] - index.tables[name].starts[number]
    return float((rows[:, UNIT_TO] - rows[:, UNIT_FROM]).max() / size)


def _windows(hits: Sequence[_Hits], text: Array, places: Array, index: EvalIndex) -> list[tuple[WordWindow, int]]:
    """The window of a text to read for the hits of each unit, and its first word; overlapping windows are merged."""
    groups: list[tuple[int, int, list[int]]] = []
    for begin, end, at in sorted(_ranges(hits, places, index)):
        if groups and begin <= groups[-1][1]:
            first, last, members = groups.pop()
            groups.append((first, max(last, end), [*members, at]))
        else:
            groups.append((begin, end, [at]))
    windows = [(WordWindow(text, 0, 0), 0)] * len(hits)
    for begin, end, members in groups:
        stop = int(places[end, 1]) if end < len(places) else len(text)
        window = WordWindow(text, int(places[begin, 1]), stop), int(places[begin, 2])
        for at in members:
            windows[at] = window
    return windows


def _ranges(hits: Sequence[_Hits], places: Array, index: EvalIndex) -> Iterator[tuple[int, int, int]]:
    """The first and last place to read for each unit, and the unit's number in `hits`. Code is compared as it is."""
    for at, (name, number, rows) in enumerate(hits):
        if name != TOKENS:
            item = index.items[index.units[name][number].item]
            letters = sum(map(len, (item.question, item.answer, *item.choices)))
            margin = 2 * NEAR_WORDS + 2 * letters  # more than `_is_supported` reads: a word has at least one letter
            low, high = int(rows[:, TEXT_FROM].min()) - margin, int(rows[:, TEXT_TO].max()) + margin
            begin = max(int(np.searchsorted(places[:, 2], low, "right")) - 1, 0)
            yield begin, int(np.searchsorted(places[:, 2], high)), at


def _words(row: int, words: WordWindow, hits: Array, name: str, number: int, index: EvalIndex) -> Iterator[Placed]:
    """The finding that the runs and alignments of one unit add up to, if any."""
    table, unit = index.tables[name], index.units[name][number]
    size = int(table.starts[number + 1] - table.starts[number])
    ngram = int(index.ngrams[name][number])
    own = table.words[table.starts[number] : table.starts[number + 1]].tolist()
    hits = _same_words(hits, words, dict(zip(own, spelled(unit.text), strict=True)))
    runs = hits[hits[:, IS_RUN] == 1].tolist()
    key = int(index.keys[unit.item])
    if size < ngram and (
        spans := sorted((h[TEXT_FROM], h[TEXT_TO]) for h in runs if h[UNIT_TO] - h[UNIT_FROM] == size)
    ):
        where = tuple(place for low, high in spans for place in words.bytes(low, high))
        finding = Finding(row, key, number, unit.piece, EXACT, False, MILLION, 0, b"", 0, where)
        yield Placed(finding, name, words, spans)
        return
    alike, copies = _copies(hits, size, int(index.cuts[name][number]))
    counts = index.counts[name][number]
    bits = np.zeros(len(counts), np.bool_)
    for hit in runs if size >= ngram else ():
        bits[hit[UNIT_FROM] : max(hit[UNIT_TO] - ngram + 1, hit[UNIT_FROM])] = True
    bits &= counts
    if not bits.any() and not alike:
        return
    spans = _clusters([*copies, *((hit[TEXT_FROM], hit[TEXT_TO]) for hit in runs)], size)
    where = tuple(place for low, high in spans for place in words.bytes(low, high))
    finding = Finding(row, key, number, unit.piece, FUZZY, False, alike, alike, b"", 0, where)
    if bits.any():
        total = int(counts.sum())
        share, packed = int(bits.sum()) * MILLION // total, np.packbits(bits).tobytes()
        finding = finding._replace(rule=NGRAM, share=share, bits=packed, windows=total)
    yield Placed(finding, name, words, spans)


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
    before = np.concatenate([[0], np.cumsum(is_wrong)])
    return np.asarray(hits[before[hits[:, TEXT_TO]] == before[hits[:, TEXT_FROM]]])


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


def _tokens(
    row: int, text: Array, hits: Array, number: int, words: WordWindow, index: EvalIndex, budget: WorkBudget
) -> Iterator[Placed]:
    """The finding that runs of equal tokens add up to. A run counts if its names are consistently renamed. The longest
    run is read first.
    """
    table, unit = index.tables[TOKENS], index.units[TOKENS][number]
    size = int(table.starts[number + 1] - table.starts[number])
    ngram = int(table.ngram[number])
    counts = index.counts[TOKENS][number]
    windows = max(size - ngram + 1, 1)
    code = unit.text.encode()
    starts = [*read_tokens(unit.text)[1].tolist(), len(code)]
    kept = []
    lengths = hits[:, UNIT_TO] - hits[:, UNIT_FROM]
    for at in np.argsort(-lengths, kind="stable").tolist():
        if not budget.allows(TOKEN_COST * int(lengths[at])):
            break
        hit = hits[at].tolist()
        mine = code[starts[hit[UNIT_FROM]] : starts[hit[UNIT_TO]]].decode("utf-8", "replace")
        theirs = text[hit[TEXT_FROM] : hit[TEXT_TO]].tobytes().decode("utf-8", "replace")
        if is_renamed(mine, theirs) and (size >= MIN_EDITED or literals_of(mine) == literals_of(theirs)):
            kept.append(at)
    hits = hits[sorted(kept)]
    share = _share_of_runs(hits, windows, ngram, counts)
    if share == MILLION or (share and size >= MIN_EDITED):
        begun, ended = hits[:, TEXT_FROM].tolist(), hits[:, TEXT_TO].tolist()
        spans = [(low, low + len(text[low:high].tobytes().rstrip())) for low, high in zip(begun, ended, strict=True)]
        where = tuple(place for span in _clusters(spans, 0) for place in span)
        key = int(index.keys[unit.item])
        finding = Finding(row, key, number, unit.piece, RENAMED, False, share, 0, b"", 0, where)
        yield Placed(finding, TOKENS, words, [(0, 0)])


def _share_of_runs(hits: Array, windows: int, ngram: int, counts: Array) -> int:
    """The share of the n-grams of a unit that are in runs, among those that count; in millionths."""
    bits = np.zeros(windows, np.bool_)
    for first, last in hits[hits[:, IS_RUN] == 1][:, [UNIT_FROM, UNIT_TO]].tolist():
        bits[first : max(last - ngram + 1, first + 1)] = True
    return int((bits & counts).sum()) * MILLION // int(counts.sum())


def _clusters(runs: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Spans of words that contain runs; spans closer than the length of the unit are merged."""
    spans: list[tuple[int, int]] = []
    for low, high in sorted(runs):
        if spans and low - spans[-1][1] <= size:
            spans[-1] = spans[-1][0], max(high, spans[-1][1])
        else:
            spans.append((low, high))
    return spans
