"""Decides whether a finding is enough evidence that a document contains an eval item.

A finding is a unit of an item, or some of its n-grams, in a document. Its rule says how it was found:

    ngram  n-grams of the unit
    exact  the whole unit, of fewer words than an n-gram
    fuzzy  the whole unit with edits, or its beginning

A finding is `whole` if the document has the question with its answer, with half of the choices, or with the code.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gristmill.stages.decontaminate.matching.index import EvalIndex, UnitTable
from gristmill.stages.decontaminate.matching.passage import BESIDE_WORDS, SEVERAL, WordSequence, hashes_of, raw_words
from gristmill.stages.decontaminate.matching.units import ANSWER, CHOICE, CODE, NOTHING, QUESTION, SUPPORT, Unit
from gristmill.stages.decontaminate.matching.words import (
    ALONE,
    EDITED,
    ENOUGH,
    IN_A_LINE,
    LITTLE,
    MOST,
    NEAR_WORDS,
    PLENTY,
    SENTENCE_ENDS,
    STRONG,
    hash_words,
    information,
    is_telling,
    least_left,
    supports,
    weights_of,
)
from gristmill.stages.decontaminate.suite.form import Item

NGRAM, EXACT, FUZZY = range(3)
RULES = ("ngram", "exact", "fuzzy")
MILLION = 1_000_000
PLACES = 8
"""Spans of a finding that are read to measure its information."""
CHECKED, CHECKED_PER_BYTE = 100_000, 4
"""The number of words that may be compared for the hits in one text. Most texts need no comparison."""
SUPPORT_COST = 4 * NEAR_WORDS
"""The cost, in words, of searching for support around a span."""


class Finding(NamedTuple):
    """A unit of an item, or some of its n-grams, in a document."""

    row: int
    item: int
    """The number of the item (`index.key_of`)."""
    unit: int
    """The number of the unit in the index."""
    piece: int
    rule: int
    whole: bool
    share: int
    """The share of the unit that was found, in millionths."""
    alike: int
    """ngram and fuzzy: the similarity of the best edited copy to the unit, in millionths; 0: no edited copy."""
    spans: tuple[int, ...]
    """Start, stop, start, stop ... in bytes of the text."""
    information: int = 0
    """The information of the matched words (words.py), plus ENOUGH if they have a line to themselves."""


class WorkBudget:
    """How many words may still be compared for the hits in one text."""

    def __init__(self, size: int) -> None:
        self.left = CHECKED + CHECKED_PER_BYTE * size

    def allows(self, cost: int) -> bool:
        self.left -= cost
        return self.left >= 0


class Candidate(NamedTuple):
    """A finding, its unit (a number in a table), the words of its text, and its spans in words."""

    finding: Finding
    table: UnitTable
    number: int
    words: WordSequence
    spans: Sequence[tuple[int, int]]

    @property
    def unit(self) -> Unit:
        return self.table.units[self.number]


def with_evidence(candidates: list[Candidate], index: EvalIndex, budget: WorkBudget) -> Iterator[Finding]:
    """The findings with enough evidence in one of their spans, marked `whole` where the item is complete."""
    pieces: dict[int, set[int]] = {}
    for candidate in candidates:
        if max(candidate.finding.share, candidate.finding.alike) >= MOST * MILLION:
            pieces.setdefault(candidate.finding.item, set()).add(candidate.finding.piece)
    for candidate in candidates:
        finding, spans = candidate.finding, candidate.spans
        # No support for short edited copies.
        is_long = finding.rule != FUZZY or candidate.table.weights[candidate.number] >= EDITED
        is_supported = is_long and any(
            budget.allows(SUPPORT_COST) and _is_supported(candidate.unit, candidate.words, *span, index)
            for span in spans
        )
        if is_supported or any(_is_enough(candidate, *span, index) for span in spans):
            there = pieces.get(finding.item, set())
            is_whole = is_supported or {QUESTION, CODE} <= there or {QUESTION, ANSWER} <= there
            is_an_item = finding.piece != QUESTION or _words_in(index.items[candidate.unit.item]) >= STRONG
            yield finding._replace(whole=is_whole and is_an_item, information=_information(candidate))


def _information(candidate: Candidate) -> int:
    """The information of a finding at the span where it is largest."""
    words = candidate.words
    places = [(low, min(high, low + NEAR_WORDS)) for low, high in candidate.spans[:PLACES]]
    return max(information(words.read(*place)) + ENOUGH * words.stands_alone(*place, True) for place in places)


def _is_enough(candidate: Candidate, low: int, high: int, index: EvalIndex) -> bool:
    """Whether a finding flags a document at a span without support."""
    unit, words, table = candidate.unit, candidate.words, candidate.table
    is_fuzzy = candidate.finding.rule == FUZZY
    if unit.needs == NOTHING and not (is_fuzzy and high - low < table.ngrams[candidate.number]):
        return True
    if candidate.finding.rule == NGRAM or unit.needs == SUPPORT:
        return False
    own, question = table.words(candidate.number), index.items[unit.item].question
    letters, size, edge = information(unit.text), table.weights[candidate.number], 0
    if is_fuzzy:  # only unchanged words carry information; the first or last word may have been replaced
        low, high = words.with_ends(low, high, own)
        common = words.in_common(low, min(high, low + NEAR_WORDS), own)
        written, edge, is_beginning = raw_words(unit.text), 1, common == [*range(min(high - low, len(own)))]
        letters = information(" ".join(written[number] for number in common))
        size = min(size, len(common)) if is_beginning or len(common) < MOST * len(own) else size
        if letters < least_left(size, is_beginning):
            return False
    is_little = not is_telling(question) or letters < ENOUGH
    if not is_fuzzy and (letters < LITTLE or size < (EDITED if is_little else IN_A_LINE)):
        ways = (True, False) if question.rstrip()[-1] in SENTENCE_ENDS else (True,)
        alone = any(words.stands_alone(low, high, in_a_line, is_strict=not in_a_line) for in_a_line in ways)
        return alone and words.is_verbatim(low, question)
    in_a_line = is_little or size < (STRONG if is_fuzzy else ALONE)
    return words.stands_alone(low, high, in_a_line, edge, letters < PLENTY)


def _is_supported(unit: Unit, words: WordSequence, low: int, high: int, index: EvalIndex) -> bool:
    """Whether the rest of an item is close to its question or choice, and both together carry enough information. The
    rest is the answer or half of the choices verbatim, or most of the words of all. A choice needs its question.
    """
    item = index.items[unit.item]
    if unit.piece not in (QUESTION, CHOICE):
        return False
    rest = [*item.choices] if item.choices else [item.answer]
    question, *others = hashes_of(item.question, *rest)
    together = np.concatenate(others)
    around = NEAR_WORDS + 2 * len(together) + (len(question) if unit.piece == CHOICE else 0)
    first, last = max(low - around, 0), min(high + around, len(words.spans))
    has_enough, is_little = information(item.question, *rest) >= ENOUGH, not is_telling(item.question)
    if unit.piece == CHOICE:
        own, answer = hashes_of(unit.text, item.answer)
        is_answer = len(answer) >= SEVERAL and np.array_equal(own, answer)
        if is_answer and len(question) and words.holds(question, low - len(question) - BESIDE_WORDS, low):
            return True
        both = (question, np.concatenate([question, together]))
        return has_enough and all(words.share(part, first, last) >= MOST for part in both)
    # The less information a question and its choices carry, the closer they must be.
    if information(*rest) < (PLENTY if is_little else ENOUGH):
        last = min(high + BESIDE_WORDS + 2 * len(together), last)
    # Support must add information: `2.0` does not answer `Version 2.0`, and a single letter answers nothing.
    adds_answer = information(item.question, item.answer) >= max(ENOUGH, information(item.question) + 2)
    is_open = len(question) >= ALONE
    # `Define entropy.` is not answered inside a longer sentence: `we define entropy as a measure of disorder`.
    is_question = is_open or words.stands_alone(low, high, False)
    if adds_answer and is_question and words.answers(hashes_of(item.answer)[0], high, last, is_open):
        return True
    if not item.choices:
        return False
    named = [(text, choice) for text, choice in zip(rest, others, strict=True) if len(choice)]
    there = [text for text, choice in named if words.holds(choice, high, last)]
    half = max(2, (len(named) + 1) // 2)
    if sum(map(supports, there)) >= half and information(item.question, *there) >= ENOUGH:
        return True
    if not has_enough or len(together) < 2:
        return False
    if is_little and information(*rest) < PLENTY:
        return len(there) == len(named)
    return words.share(together, high, last) >= MOST


def _words_in(item: Item) -> float:
    """The number of words of a question with its choices or its answer. With fewer than STRONG words, an unrelated
    sentence may contain them all by chance.
    """
    texts = [item.question, *(item.choices or (item.answer,))]
    return float(weights_of(texts, hash_words(texts)).sum())
