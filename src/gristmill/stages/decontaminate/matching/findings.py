"""What of eval items documents hold: hits of the kernels, compared with the text itself.

A finding is a document that holds a unit of an item, or some of its n-grams: by which rule, how much of it, where.

    ngram  n-grams of the unit; which ones is told, since those that many documents have do not count
    exact  the whole unit, of fewer words than an n-gram
    fuzzy  the whole unit with edits
    code   the tokens of the unit, under other names

Hashes lead to it, and never decide: letters and digits of the stretch are compared with those of the item, or the words
one by one. A finding is `whole` where the document holds question and answer (or half of the choices, or the code).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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
from gristmill.stages.decontaminate.matching.index import SHORT, TABLES, TEXT, TOKENS, Index
from gristmill.stages.decontaminate.matching.passage import BESIDE_WORDS, SEVERAL, Words, pieces_of, spelled
from gristmill.stages.decontaminate.matching.support import MOST, NEAR_WORDS
from gristmill.stages.decontaminate.matching.units import (
    ALONE,
    ANSWER,
    CHOICE,
    CODE,
    EDITED,
    ENOUGH,
    IN_A_LINE,
    LITTLE,
    NOTHING,
    PLENTY,
    QUESTION,
    SENTENCE_ENDS,
    STRONG,
    SUPPORT,
    Unit,
    count_words,
    information,
    least_left,
    says_much,
    says_something,
    weights_of,
)
from gristmill.stages.decontaminate.suite.suite import Item

Array = np.ndarray[Any, Any]

NGRAM, EXACT, FUZZY, RENAMED = range(4)
RULES = ("ngram", "exact", "fuzzy", "code")
MILLION = 1_000_000
PLACES = 8
"""Of a finding, that are looked at for what it says."""
CHECKED, CHECKED_PER_BYTE = 100_000, 4
"""Words that may be compared for the hits in one text. Most texts need none of them."""
TOKEN_COST, SUPPORT_COST = 4, 4 * NEAR_WORDS
"""In words: a token whose name is compared, a place where support is looked for."""
_WORD_COLUMNS = np.array([0, 0, 0, 0, 0, 1, 1, 0])
"""Of a hit: TEXT_FROM and TEXT_TO, which count words from the start of a text."""


class Finding(NamedTuple):
    row: int
    item: int
    """Its number (`index.key_of`)."""
    unit: int
    """Its place among the units of the index; in another index it is another."""
    piece: int
    rule: int
    whole: bool
    share: int
    """Of the unit that was found, in millionths."""
    alike: int
    """ngram and fuzzy: how like the unit its best copy with changes is, in millionths; 0: there is none."""
    bits: bytes
    """ngram: which n-grams of the unit are there, packed; those that do not count at all are left out."""
    windows: int
    """N-grams of the unit that count; 0 for other rules."""
    spans: tuple[int, ...]
    """Start, stop, start, stop ... in bytes of the text."""
    says: int = 0
    """The `information` of what is there, and ENOUGH more where it has a line for itself."""


def find(texts: pa.Array, index: Index) -> tuple[list[Finding], Array]:
    """The findings in a column of texts, by row; and in which rows the bound on work was reached.

    Whatever texts and items are, a text of n bytes costs at most a fixed sum and a fixed price for each byte: the
    kernels count what they compare (`match.py`), `_Budget` counts the rest.
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
        budget = _Budget(len(text))
        found += _in_text(row, text, hits[row], here, index, budget)
        over[row] |= budget.left < 0
    return found, bounded | over


class _Budget:
    """What may still be compared for the hits in one text, in words."""

    def __init__(self, size: int) -> None:
        self.left = CHECKED + CHECKED_PER_BYTE * size

    def allows(self, cost: int) -> bool:
        self.left -= cost
        return self.left >= 0


def _well_covered(hits: Array, index: Index) -> Array:
    """Hits of code of which a text has half: whatever their names are, the others say nothing."""
    table, (counts, firsts) = index.tables[TOKENS], index.code_counts
    order = np.lexsort((hits[:, UNIT], hits[:, ROW]))
    return np.asarray(hits[cover_half(hits, order, table.starts, table.ngram, counts, firsts)])


_Hits = tuple[str, int, Array]
"""A table, a unit of it, and its hits in one text."""


def _in_text(
    row: int, text: Array, hits: list[tuple[str, Array]], places: Array, index: Index, budget: _Budget
) -> list[Finding]:
    """The findings in one text. Only the words around hits are read. The unit with the longest run comes first, so that
    no number of parts of other items hides a copy of a whole one.
    """
    by_unit: list[_Hits] = []
    for name, rows in hits:
        rows = rows[np.argsort(rows[:, UNIT], kind="stable")]
        numbers, first = np.unique(rows[:, UNIT], return_index=True)
        by_unit += [
            (name, number, part) for number, part in zip(numbers.tolist(), np.split(rows, first[1:]), strict=True)
        ]
    found: list[_Placed] = []
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
    return list(_marked(found, index, budget))


def _spelled_for(hits: _Hits, index: Index) -> int:
    """Words that `_same_words` spells for the hits of a unit; all words of a text are spelled once."""
    name, number, rows = hits
    size = int(index.tables[name].starts[number + 1] - index.tables[name].starts[number])
    return size + min(int(rows[:, TEXT_TO].max() - rows[:, TEXT_FROM].min()), 4 * NEAR_WORDS) if name != TOKENS else 0


def _longest(hits: _Hits, index: Index) -> float:
    """The share of a unit that its longest run is."""
    name, number, rows = hits
    size = index.tables[name].starts[number + 1] - index.tables[name].starts[number]
    return float((rows[:, UNIT_TO] - rows[:, UNIT_FROM]).max() / size)


def _windows(hits: Sequence[_Hits], text: Array, places: Array, index: Index) -> list[tuple[Words, int]]:
    """What is read of a text for the hits of each unit, and its first word; those that overlap are one."""
    groups: list[tuple[int, int, list[int]]] = []
    for begin, end, at in sorted(_asked(hits, places, index)):
        if groups and begin <= groups[-1][1]:
            first, last, members = groups.pop()
            groups.append((first, max(last, end), [*members, at]))
        else:
            groups.append((begin, end, [at]))
    made = [(Words(text, 0, 0), 0)] * len(hits)
    for begin, end, members in groups:
        stop = int(places[end, 1]) if end < len(places) else len(text)
        window = Words(text, int(places[begin, 1]), stop), int(places[begin, 2])
        for at in members:
            made[at] = window
    return made


def _asked(hits: Sequence[_Hits], places: Array, index: Index) -> Iterator[tuple[int, int, int]]:
    """From which place to which one words are read for each unit, and its number here. Code is compared as it is."""
    for at, (name, number, rows) in enumerate(hits):
        if name != TOKENS:
            item = index.items[index.units[name][number].item]
            letters = sum(map(len, (item.question, item.answer, *item.choices)))
            margin = 2 * NEAR_WORDS + 2 * letters  # more than `_is_supported` looks at: a word has a letter
            low, high = int(rows[:, TEXT_FROM].min()) - margin, int(rows[:, TEXT_TO].max()) + margin
            begin = max(int(np.searchsorted(places[:, 2], low, "right")) - 1, 0)
            yield begin, int(np.searchsorted(places[:, 2], high)), at


class _Placed(NamedTuple):
    """A finding, its table, and the words of each place where it is; of code no words are read."""

    finding: Finding
    table: str
    words: Words
    spans: Sequence[tuple[int, int]]


def _words(row: int, words: Words, hits: Array, name: str, number: int, index: Index) -> Iterator[_Placed]:
    """What runs and alignments of one unit come to."""
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
        made = Finding(row, key, number, unit.piece, EXACT, False, MILLION, 0, b"", 0, where)
        yield _Placed(made, name, words, spans)
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
    made = Finding(row, key, number, unit.piece, FUZZY, False, alike, alike, b"", 0, where)
    if bits.any():
        total = int(counts.sum())
        share, packed = int(bits.sum()) * MILLION // total, np.packbits(bits).tobytes()
        made = made._replace(rule=NGRAM, share=share, bits=packed, windows=total)
    yield _Placed(made, name, words, spans)


def _same_words(hits: Array, words: Words, own: Mapping[int, str]) -> Array:
    """The hits in which every word of the text with the hash of a word of the unit is that word. A word is compared
    once, however many hits it is in.
    """
    low, high = int(hits[:, TEXT_FROM].min()), int(hits[:, TEXT_TO].max())
    named = words.named(low, high) if high - low <= 4 * NEAR_WORDS else words.all_named
    wrong = [word for word in own.keys() & named.keys() if own[word] != named[word]]
    if not wrong:
        return hits
    is_wrong = np.isin(words.words, np.array(wrong, np.uint64))
    for at in np.flatnonzero(is_wrong).tolist():  # another word of the text may have that hash, too
        is_wrong[at] = own[int(words.words[at])] != words.letters(at, at + 1)
    before = np.concatenate([[0], np.cumsum(is_wrong)])
    return np.asarray(hits[before[hits[:, TEXT_TO]] == before[hits[:, TEXT_FROM]]])


def _copies(hits: Array, size: int, cut: int) -> tuple[int, list[tuple[int, int]]]:
    """How like a unit its best copy with changes is, in millionths, 0 without one; and where they are, in words. Its
    first words are one that is cut off; `cut`: so many of them.
    """
    edited = hits[(hits[:, IS_RUN] == 0) & (hits[:, TEXT_FROM] < hits[:, TEXT_TO])]
    best = (size - int(edited[:, EDITS].min())) * MILLION // size if len(edited) else 0
    lengths = np.where((hits[:, IS_RUN] == 1) & (hits[:, UNIT_FROM] == 0), hits[:, UNIT_TO], 0)
    begun = hits[lengths >= cut]
    best = max(best, int(lengths.max()) * MILLION // size if len(begun) else 0)
    return best, [(low, high) for low, high in np.concatenate([edited, begun])[:, [TEXT_FROM, TEXT_TO]].tolist()]


def _tokens(
    row: int, text: Array, hits: Array, number: int, words: Words, index: Index, budget: _Budget
) -> Iterator[_Placed]:
    """What runs of the same tokens come to: those count in which names go together. The longest is read first."""
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
        made = Finding(row, key, number, unit.piece, RENAMED, False, share, 0, b"", 0, where)
        yield _Placed(made, TOKENS, words, [(0, 0)])


def _share_of_runs(hits: Array, windows: int, ngram: int, counts: Array) -> int:
    """Of the n-grams of a unit that count, how many are in runs; in millionths."""
    bits = np.zeros(windows, np.bool_)
    for first, last in hits[hits[:, IS_RUN] == 1][:, [UNIT_FROM, UNIT_TO]].tolist():
        bits[first : max(last - ngram + 1, first + 1)] = True
    return int((bits & counts).sum()) * MILLION // int(counts.sum())


def _clusters(runs: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Stretches of words that hold runs; those closer than the unit is long are one."""
    spans: list[tuple[int, int]] = []
    for low, high in sorted(runs):
        if spans and low - spans[-1][1] <= size:
            spans[-1] = spans[-1][0], max(high, spans[-1][1])
        else:
            spans.append((low, high))
    return spans


def _marked(found: list[_Placed], index: Index, budget: _Budget) -> Iterator[Finding]:
    """Findings that have what they need in one of their places, and whether they are whole."""
    pieces: dict[int, set[int]] = {}
    for one in found:
        if max(one.finding.share, one.finding.alike) >= MOST * MILLION:
            pieces.setdefault(one.finding.item, set()).add(one.finding.piece)
    for finding, table, words, spans in found:
        unit = index.units[table][finding.unit]
        is_long = finding.rule != FUZZY or index.weights[table][finding.unit] >= EDITED  # else it says enough, or not
        is_supported = is_long and any(
            budget.allows(SUPPORT_COST) and _is_supported(unit, words, low, high, index) for low, high in spans
        )
        if is_supported or any(_says_enough(finding, table, words, low, high, index) for low, high in spans):
            held = pieces.get(finding.item, set())
            is_whole = is_supported or {QUESTION, CODE} <= held or {QUESTION, ANSWER} <= held
            is_an_item = finding.piece != QUESTION or _words_in(index.items[unit.item]) >= STRONG
            yield finding._replace(whole=is_whole and is_an_item, says=_says(unit, table, words, spans))


def _says(unit: Unit, table: str, words: Words, spans: Sequence[tuple[int, int]]) -> int:
    """How much a finding says where it says most."""
    if table == TOKENS:
        return information(unit.text)
    places = [(low, min(high, low + NEAR_WORDS)) for low, high in spans[:PLACES]]
    return max(information(words.read(*at)) + ENOUGH * words.stands_alone(*at, True) for at in places)


def _says_enough(finding: Finding, table: str, words: Words, low: int, high: int, index: Index) -> bool:
    """Whether a finding flags where it is, without any support."""
    unit = index.units[table][finding.unit]
    is_fuzzy = finding.rule == FUZZY
    if unit.needs == NOTHING and not (is_fuzzy and high - low < index.ngrams[table][finding.unit]):
        return True
    if finding.rule == NGRAM or unit.needs == SUPPORT:
        return False
    own, question = spelled(unit.text), index.items[unit.item].question
    says, size, edge = information(unit.text), index.weights[table][finding.unit], 0
    if is_fuzzy:  # what changed, or is cut off, says nothing; its first or last word may have been exchanged
        low, high = words.with_ends(low, high, own)
        common = words.in_common(low, min(high, low + NEAR_WORDS), own)
        says, edge, is_beginning = information(" ".join(common)), 1, common == own[: high - low]
        size = min(size, len(common)) if is_beginning or len(common) < MOST * len(own) else size
        if says < least_left(size, is_beginning):
            return False
    is_little = not says_much(question) or says < ENOUGH
    if not is_fuzzy and (says < LITTLE or size < (EDITED if is_little else IN_A_LINE)):
        ways = (True, False) if question.rstrip()[-1] in SENTENCE_ENDS else (True,)
        alone = any(words.stands_alone(low, high, in_a_line, is_strict=not in_a_line) for in_a_line in ways)
        return alone and words.is_verbatim(low, question)
    in_a_line = is_little or size < (STRONG if is_fuzzy else ALONE)
    return words.stands_alone(low, high, in_a_line, edge, says < PLENTY)


def _is_supported(unit: Unit, words: Words, low: int, high: int, index: Index) -> bool:
    """Whether the rest of an item is close to a question or a choice of it, and both together say enough: the answer or
    half of the choices to the word, or most of the words of them all. A choice needs its question.
    """
    item = index.items[unit.item]
    if unit.piece not in (QUESTION, CHOICE):
        return False
    rest = [*item.choices] if item.choices else [item.answer]
    question, *others = pieces_of(item.question, *rest)
    together = np.concatenate([one.words for one in others])
    around = NEAR_WORDS + 2 * len(together) + (len(question.words) if unit.piece == CHOICE else 0)
    first, last = max(low - around, 0), min(high + around, len(words.spans))
    says_all, is_little = information(item.question, *rest) >= ENOUGH, not says_much(item.question)
    if unit.piece == CHOICE:
        own, answer = pieces_of(unit.text, item.answer)
        is_answer = len(answer.words) >= SEVERAL and np.array_equal(own.words, answer.words)
        if is_answer and len(question.words) and words.holds(question, low - len(question.words) - BESIDE_WORDS, low):
            return True
        both = (question.words, np.concatenate([question.words, together]))
        return says_all and all(words.share(one, first, last) >= MOST for one in both)
    # The less a question and its choices say, the closer they have to be.
    if information(*rest) < (PLENTY if is_little else ENOUGH):
        last = min(high + BESIDE_WORDS + 2 * len(together), last)
    # `Version 2.0` is not answered by `2.0`, nor any question by a letter: support says what the question does not.
    says_answer = information(item.question, item.answer) >= max(ENOUGH, information(item.question) + 2)
    is_open = len(question.words) >= ALONE
    # `Define entropy.` is not answered where a sentence goes on: `we define entropy as a measure of disorder`.
    is_asked = is_open or words.stands_alone(low, high, False)
    if says_answer and is_asked and words.answers(pieces_of(item.answer)[0], high, last, is_open):
        return True
    if not item.choices:
        return False
    named = [(text, one) for text, one in zip(rest, others, strict=True) if len(one.words)]
    there = [text for text, one in named if words.holds(one, high, last)]
    half = max(2, (len(named) + 1) // 2)
    if sum(map(says_something, there)) >= half and information(item.question, *there) >= ENOUGH:
        return True
    if not says_all or len(together) < 2:
        return False
    if is_little and information(*rest) < PLENTY:
        return len(there) == len(named)
    return words.share(together, high, last) >= MOST


def _words_in(item: Item) -> float:
    """Words of a question with its choices, or its answer: of fewer than a strong question has, a sentence may be made
    that is nobody's item.
    """
    texts = [item.question, *(item.choices or (item.answer,))]
    return float(weights_of(texts, count_words(texts)).sum())
