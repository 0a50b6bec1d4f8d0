"""Eval items as units: the pieces of an item that are searched for, each in several spellings.

A unit is the question of an item, its code, or its answer if that has enough words to be found alone. Common
respellings are searched for, too: `don't` as `dont`, `twenty-five` as `twentyfive`, `1,000` as `1000`, `snake_case` as
`snake case`.

A question of fewer than STRONG words, or one that several items share, may occur in an unrelated text by chance. It
flags a document only with support (its answer or half of its choices nearby), or as a whole sentence or line. In both
cases the matched words must carry enough information (words.py). An item that cannot meet this is unprotected.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from gristmill.kernels.text.unicode_data import known
from gristmill.stages.decontaminate.matching.words import (
    EDITED,
    ENOUGH,
    IN_A_LINE,
    LITTLE,
    STRONG,
    hash_words,
    information,
    is_exact_line,
    is_telling,
    weights_of,
)
from gristmill.stages.decontaminate.suite.form import Item, is_filled

QUESTION, ANSWER, CODE, CHOICE = range(4)
PIECES = ("question", "answer", "code", "choices")
NOTHING, ALONE_OR_SUPPORT, SUPPORT = range(3)
"""What a unit needs, in addition to a match, to flag a document."""
SHARED = 3
"""The most items with the same question; a question of more items is a phrase of the benchmark."""
LEAST_CHOICE = 4
"""The least words of a choice that is searched for. With fewer, a page of names and numbers has it by chance."""
_MARKS = re.compile(r"<<[^<>]{0,200}>>|\[(?:header|title|step|substeps)\]")
"""The calculator notes of GSM8K and the section marks of HellaSwag."""
_SIGNS = re.compile(r"[^\w\s]")
_JOINED = re.compile(r"(?<=\w)['’\-‐‑,.](?=\w)")


class Unit(NamedTuple):
    """A piece of an item, in one spelling."""

    item: int
    piece: int
    text: str
    needs: int = NOTHING


def spellings(text: str) -> list[str]:
    """The different spellings of a text in copies: unchanged, without the signs inside words, without any signs, with
    `_` as a space, and without the marks of a benchmark.
    """
    text = known(text)
    forms = [text, _JOINED.sub("", text), _SIGNS.sub("", text), text.replace("_", " "), _MARKS.sub("", text)]
    return list(dict.fromkeys(forms))


def units_of(items: Sequence[Item], ngram: int) -> tuple[list[Unit], list[int]]:
    """The units of all items, grouped by item, and the items without a unit."""
    questions = [item.question for item in items]
    hashes = hash_words(questions)
    sizes = weights_of(questions, hashes).tolist()
    keys = [hashes.of(number).tobytes() for number in range(len(items))]
    times = Counter(keys)
    units: list[Unit] = []
    for number, item in enumerate(items):
        units += _pieces(number, item, sizes[number], times[keys[number]] > SHARED)
    texts = [unit.text for unit in units]
    hashes = hash_words(texts)
    distinct: dict[tuple[int, int, bytes], Unit] = {}
    for number, (unit, size) in enumerate(zip(units, weights_of(texts, hashes), strict=True)):
        words = hashes.of(number)
        if min(size, len(words)) >= _least_words(unit, sizes[unit.item], ngram):
            distinct.setdefault((unit.item, unit.piece, words.tobytes()), unit)
    protected_items = {unit.item for unit in distinct.values()}
    return list(distinct.values()), [number for number in range(len(items)) if number not in protected_items]


def _pieces(number: int, item: Item, words: float, is_shared: bool) -> list[Unit]:
    """The units of one item whose question has this many words. An answer that is one of the choices is none of them,
    since the question leads to it.
    """
    needs = _needs(item, words, is_shared)
    pieces: list[tuple[int, str, int]] = []
    if needs is not None:
        pieces.append((QUESTION, item.question, needs))
        if words < STRONG or is_shared:  # its choices also lead to it
            pieces += [(CHOICE, text, SUPPORT) for text in item.choices]
    if not item.choices:
        pieces.append((ANSWER, item.answer, NOTHING))
    pieces += [(CODE, text, NOTHING) for text in item.code]
    pieces += [(CHOICE, text, NOTHING) for text in item.choices if is_filled(item.question, text)]
    return [Unit(number, piece, form, needs) for piece, text, needs in pieces if text for form in spellings(text)]


def _least_words(unit: Unit, question_words: float, ngram: int) -> int:
    """The words that a unit must have to be searched for."""
    if unit.piece == ANSWER:
        return ngram
    if unit.piece == CHOICE:
        return 2 if unit.needs == SUPPORT and question_words < 2 else LEAST_CHOICE
    return STRONG if unit.piece == CODE else 2


def _needs(item: Item, words: float, is_shared: bool) -> int | None:
    """What a question of this many words needs to flag a document; None: nothing is enough."""
    letters = information(item.question)
    if not is_shared:
        if words >= STRONG and letters >= LITTLE:
            return NOTHING
        is_line = (words >= EDITED and letters >= LITTLE) or (words >= IN_A_LINE and is_telling(item.question))
        is_line &= not any(item.question in text for text in item.code)  # the first line of a program
        if is_line or (is_exact_line(item.question) and not item.code):
            return ALONE_OR_SUPPORT
    has_support = bool(item.answer.strip() or item.choices)
    return SUPPORT if has_support and information(item.question, item.answer, *item.choices) >= ENOUGH else None
