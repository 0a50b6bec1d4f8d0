"""Eval items as units of words that the kernels search for.

A unit is a piece of an item: its question, its code, or its answer if that has enough words to be found alone. Words
are those of `kernels/dedup/shingles.py`: lower case, runs of letters, digits and `_`; in a script without spaces each
character is a word and counts half. Punctuation, white space and case are ignored. Common respellings of a word are
searched for, too: `don't` as `dont`, `twenty-five` as `twentyfive`, `1,000` as `1000`, `snake_case` as `snake case`.

A question of fewer than STRONG words, or one that several items share, may occur in an unrelated text by chance. It
flags a document only with support (its answer or half of its choices nearby), or as a whole sentence or line. In both
cases the matched words must carry enough information (`information`). An item that cannot meet this is unprotected.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from unicodedata import category

import numpy as np
import pyarrow as pa

from gristmill.kernels.decontaminate.texts import words_of
from gristmill.kernels.decontaminate.units import (
    Units,
    choose_seeds,
    fill_gate,
    fill_table,
    pack_postings,
    seeds_of,
    unpack_postings,
)
from gristmill.kernels.dedup.shingles import copy_tables
from gristmill.kernels.text.unicode_data import known
from gristmill.stages.buffers import bytes_of
from gristmill.stages.decontaminate.suite.suite import Item, Protection

Array = np.ndarray[Any, Any]

QUESTION, ANSWER, CODE, CHOICE, CONTEXT = range(5)
PIECES = ("question", "answer", "code", "choices", "context")
PROTECTED = ("question", "answer", "code")
"""The default pieces to search for. An answer that is one of the choices is left out, since the question leads to it.
So are passages that questions are about, since they come from encyclopedias."""
NOTHING, ALONE_OR_SUPPORT, SUPPORT = range(3)
"""What a unit needs, in addition to a match, to flag a document."""
SEED_WORDS = 4
"""The number of words of a seed: with one word in ten changed, few units have no five consecutive unchanged words."""
SEEDS = 5
"""The approximate number of seeds of a unit. A long unit has more, so that any run of `ngram` words contains one."""
STRONG = 8
"""The words of a question that flags anywhere. In the test sets of nine benchmarks, shorter questions are phrases that
people also write independently (`The sun is responsible for`)."""
ALONE = 4
"""The words of a question that flags as a whole sentence."""
EDITED, CHANGED = 6, 5
"""The words of a question that flags on a line to itself with one word changed or with little information; with MUCH
information, CHANGED words are enough."""
CUT = 0.6
"""The share of the words of a question that flags if the rest is cut off. 70% of the words between spaces may be less
here, since a number such as `1,000` is several words."""
IN_A_LINE = 3
"""The words of a question that flags on a line to itself."""
ENOUGH = 8
"""The least `information` that flags: `What time is it?` has 0, `Why is the sky blue?` 7."""
LEAST = 3
"""The least `information` of a question that flags where a line is exactly that question."""
LITTLE = 4
"""The least `information` of a question of EDITED words that flags on a line to itself."""
PLENTY, MUCH = 14, 20
"""PLENTY: the least `information` of a question that also flags in quotes or after a colon. `What is the capital of
France?`, which people also write as an example, has 13. MUCH: the least of fewer than EDITED remaining words."""
SHARED = 3
"""The most items with the same question; a question of more items is a phrase of the benchmark."""
COMMON_ITEMS = 10
"""The most items with the same n-gram; an n-gram of more items is a phrase of the benchmark."""
MOST_POSTINGS = 64
"""The most units of one seed; a seed of more units is a common phrase."""
_MARKS = re.compile(r"<<[^<>]{0,200}>>|\[(?:header|title|step|substeps)\]")
"""The calculator notes of GSM8K and the section marks of HellaSwag."""
FILTER_BITS = 10
"""The least filter bits per seed, both halves together: with tens of thousands of items the filter stays in the L2
cache."""
GATE_BITS = 256
"""Gate bits per word: the words are few, so almost no other word passes by chance."""
_WORD = re.compile(r"\w+")
_COMMON = """
a about after again all also always am an and another any are as at away back be because been before being best better
but by can come could day def did do does doing done down each even ever every few find first for from get give go going
good got great had has have having he help her here him his how i if in into is it its just keep know last let like
little long look made make makes making many may me mean means might more most much must my need needs never new next no
not now of off old on once one only or other our out over own people place put return right said same say see she should
show so some something still such take tell than that the their them then there these they thing things think this those
three through time to too two under up us use used using very want wants was way we well were what when where which
while who why will with work would year years yes yet you your
"""
"""English words that are in every kind of text. They carry no information."""
COMMON_WORDS = frozenset(_COMMON.split())
SENTENCE_ENDS = frozenset(".!?…。！？؟۔।॥።፧։།༎။។៕")
_HEADING = re.compile(
    r"(?i)\W*(?:what|why|who|where|when|how)(?:['’]s|\W+(?:is|are|was|were))\b"
    r"|(?=\W*(?:what|why|who|where|when|how)\b|.*\?\W*\Z).*\b(?:i|we|my|our|it|its|this|these)\b"
)
"""Questions that could be headings: they request a definition, or refer to the text around them."""
_SIGNS = re.compile(r"[^\w\s]")
_JOINED = re.compile(r"(?<=\w)['’\-‐‑,.](?=\w)")


NO_MARKS = np.zeros(0, np.uint64)
SAVED = ("seed_words", "filter", "slots", "of_unit", "at_word", "starts", "words", "ngram", "allowed")
"""The arrays of a table that are written to a file."""


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


class Counted(NamedTuple):
    """Texts as the hashes of their words."""

    starts: Array
    words: Array

    def of(self, number: int) -> Array:
        return self.words[self.starts[number] : self.starts[number + 1]]

    def sizes(self) -> Array:
        return np.diff(self.starts)


def count_words(texts: Sequence[str]) -> Counted:
    data, offsets = bytes_of(pa.array(texts, pa.string()))
    return Counted(*words_of(data, offsets, copy_tables()))


def weights_of(texts: Sequence[str], counted: Counted) -> Array:
    """The number of words of each text. In scripts without spaces each letter, with its marks, is half a word."""
    sizes = counted.sizes().astype(np.float64)
    for number, text in enumerate(texts):
        if not text.isascii():
            sizes[number] -= 0.5 * sum(category(sign).startswith("L") for sign in _UNSPACED.findall(known(text)))
    return sizes


_UNSPACED = re.compile(
    "[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\ua000-\ua4cf\uf900-\ufaff\U00020000-\U000323af]"
)


def telling_words(*texts: str) -> set[str]:
    """The different words of texts, without common words."""
    text = _UNSPACED.sub(r" \g<0> ", known("\n".join(texts)).lower())
    if not text.isascii():  # combining marks do not end a word
        text = "".join(sign for sign in text if category(sign)[0] != "M")
    return set(_WORD.findall(text)) - COMMON_WORDS


@lru_cache(maxsize=1 << 16)
def information(*texts: str) -> int:
    """The information of texts: the letters and digits of their different words, without common words. A character of
    a script without spaces counts as three letters.
    """
    return sum(3 if _UNSPACED.match(word) else len(word) for word in telling_words(*texts))


@lru_cache(maxsize=1 << 16)
def says_much(question: str) -> bool:
    """Whether a question may flag as a sentence without support. `Version 2.0` and `What is a variable?` may not: they
    have only one telling word.
    """
    telling = sum(not word.isdigit() for word in telling_words(question))
    return information(question) >= ENOUGH and (telling > 1 or len(_WORD.findall(known(question))) > ALONE)


@lru_cache(maxsize=1 << 16)
def says_it_verbatim(question: str) -> bool:
    """Whether a question with little information flags where a line is exactly that question. It needs three words, or
    two words that end a sentence. `What is entropy?` and `How do I start?` could be headings and need support.
    """
    says = sum(information(word) for word in telling_words(question) if not word.isdigit())
    size = sum(not word.isdigit() for word in _WORD.findall(question))
    if size < IN_A_LINE:
        return size > 1 and says >= ENOUGH and question.rstrip()[-1] in SENTENCE_ENDS
    return (says >= LEAST or size >= EDITED) and not _HEADING.match(question)


def least_left(size: float, is_beginning: bool) -> int:
    """The least `information` of the remaining words of an edited or truncated question; few words need more."""
    return MUCH if size < EDITED else LITTLE if size >= STRONG or is_beginning else ENOUGH


@lru_cache(maxsize=1 << 16)
def says_something(text: str) -> bool:
    """Whether a text has more than numbers, single letters and common words: `1, 3, 4` is no support."""
    return any(not word.isdigit() and information(word) > 1 for word in telling_words(text))


def units_of(items: Sequence[Item], protections: Mapping[str, Protection], ngram: int) -> tuple[list[Unit], list[int]]:
    """The units of all items, grouped by item, and the items without a unit."""
    questions = count_words([item.question for item in items])
    weights = weights_of([item.question for item in items], questions)
    times: dict[bytes, int] = {}
    for number in range(len(items)):
        key = questions.of(number).tobytes()
        times[key] = times.get(key, 0) + 1
    units: list[Unit] = []
    for number, item in enumerate(items):
        protection = protections[item.benchmark]
        wanted = protection.protect or PROTECTED
        is_shared = times[questions.of(number).tobytes()] > SHARED
        needs = _needs(item, float(weights[number]), is_shared, protection)
        pieces = [(QUESTION, item.question, needs)]
        if needs is not None and (weights[number] < STRONG or is_shared):  # its choices also lead to it
            pieces += [(CHOICE, text, SUPPORT) for text in item.choices if "question" in wanted]
        if not item.choices:
            pieces.append((ANSWER, item.answer, NOTHING))
        pieces += [(CODE, text, NOTHING) for text in item.code]
        pieces += [(CHOICE, text, NOTHING) for text in item.choices if "choices" in wanted]
        pieces.append((CONTEXT, item.context, NOTHING))
        units += [
            Unit(number, piece, form, needs)
            for piece, text, needs in pieces
            if needs is not None and text and (piece == CHOICE or PIECES[piece] in wanted)
            for form in spellings(text)
        ]
    texts = [unit.text for unit in units]
    counted = count_words(texts)
    kept: dict[tuple[int, int, bytes], Unit] = {}
    for number, (unit, size) in enumerate(zip(units, weights_of(texts, counted), strict=True)):
        n = protections[items[unit.item].benchmark].ngram or ngram
        is_tiny = unit.piece == CHOICE and unit.needs == SUPPORT and weights[unit.item] < 2
        least = {QUESTION: 2, ANSWER: n, CODE: STRONG, CHOICE: 2 if is_tiny else SEED_WORDS, CONTEXT: n}[unit.piece]
        words = counted.of(number)
        if size >= least and len(words) >= least:
            kept.setdefault((unit.item, unit.piece, words.tobytes()), unit)
    protected = {unit.item for unit in kept.values()}
    bare = [number for number in range(len(items)) if number not in protected]
    return list(kept.values()), bare


def _needs(item: Item, words: float, is_shared: bool, protection: Protection) -> int | None:
    """What a question of this many words needs to flag a document; None: nothing is enough."""
    supported = information(item.question, item.answer, *item.choices) >= ENOUGH
    supported &= bool(item.answer.strip() or item.choices)
    says = information(item.question)
    if protection.rule != "whole" and not is_shared:
        if words >= STRONG and says >= LITTLE:
            return NOTHING
        is_line = (words >= EDITED and says >= LITTLE) or (words >= IN_A_LINE and says_much(item.question))
        is_line &= not any(item.question in text for text in item.code)  # the first line of a program
        if is_line or (says_it_verbatim(item.question) and not item.code):
            return ALONE_OR_SUPPORT
    return SUPPORT if supported else None


def table_of(
    counted: Counted,
    ngrams: Array,
    allowed: Array,
    seed_words: int,
    marks: Array = NO_MARKS,
    everyone: Array | None = None,
) -> Units:
    """Put the seeds of all units into a table; units with fewer words than a seed have no seed. A seed of very many
    units leads only to the first of them. `marks`: hashes of more words that pass the gate. `everyone`: the words that
    decide whether a word is rare, including those of the units; by default only those of the units.
    """
    known, times = np.unique(counted.words if everyone is None else everyone, return_counts=True)
    which = np.searchsorted(known, counted.words)
    sizes = counted.sizes()
    steps = np.where(ngrams <= sizes, np.minimum(sizes // SEEDS, ngrams - seed_words + 1), sizes // SEEDS)
    if seed_words == 1:  # one seed a unit, its rarest word
        steps = 2 * sizes
    steps = np.maximum(1, steps)
    owner, at = choose_seeds(counted.starts, times[which], seed_words, steps)
    seeds = seeds_of(counted.words, counted.starts[owner] + at, seed_words)
    order = np.lexsort((at, owner, seeds))
    seeds, owner, at = seeds[order], owner[order], at[order]
    begins = np.flatnonzero(np.append(True, seeds[1:] != seeds[:-1])) if len(seeds) else np.zeros(0, np.int64)
    rank = np.arange(len(seeds)) - np.repeat(begins, np.diff(np.append(begins, len(seeds))))
    few = rank < MOST_POSTINGS
    seeds, owner, at = seeds[few], owner[few], at[few]
    different = int((np.diff(seeds) != 0).sum()) + 1 if len(seeds) else 0
    filter_ = np.zeros(_power_of_two(FILTER_BITS * different // 64), np.uint64)
    slots = np.zeros(_power_of_two(3 * different // 2), np.uint64)
    fill_table(seeds, filter_, slots)
    ends = np.append(seeds[1:] != seeds[:-1], True) if len(seeds) else np.zeros(0, np.bool_)
    at = np.where(ends, -1 - at, at)
    arrays = (seed_words, filter_, slots, owner, at, counted.starts, counted.words, ngrams, allowed)
    return from_saved(dict(zip(SAVED, arrays, strict=True)), marks)


def saved_form(table: Units) -> dict[str, Array]:
    """The arrays of a table as written to a file, without derived arrays and with unpacked postings."""
    of_unit, at_word = unpack_postings(table.postings)
    fields = {**table._asdict(), "of_unit": of_unit, "at_word": at_word}
    return {name: np.asarray(fields[name]) for name in SAVED}


def from_saved(fields: Mapping[str, Any], marks: Array = NO_MARKS) -> Units:
    """Rebuild a table from the arrays of a file. `marks`: hashes of more words that pass its gate."""
    seed_words, slots = int(fields["seed_words"]), fields["slots"]
    about = [fields[name] for name in ("starts", "words", "ngram", "allowed")]
    led = slots[slots > 0] if seed_words == 1 else NO_MARKS
    seeds = np.concatenate([led, seeds_of(marks, np.arange(len(marks)), 1)])
    gate = np.zeros(_power_of_two(GATE_BITS * len(seeds) // 64), np.uint64)
    fill_gate(seeds, gate)
    postings = pack_postings(fields["of_unit"], fields["at_word"], seed_words, *about)
    return Units(seed_words, gate, fields["filter"], slots, postings, *about)


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 511).bit_length()
