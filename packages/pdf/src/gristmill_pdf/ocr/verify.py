"""Checks what an engine read on a page image: loops, and numbers that the page's text layer does not have.

Engines that are language models repeat themselves, and write numbers that are not on the page. Scanned files often have
a text layer from an older engine: too poor to train on, but a witness. A sentence, line or row of a table of the answer
that has a number which the text layer lacks in any spelling is cut. A layer that lacks most words, too, is no witness.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.stages.shared.normalise import normalise
from gristmill_generate import faithful
from gristmill_generate.chunks import LINE_END, SENTENCE_END, split

LEAST_LAYER_WORDS = 20
"""A text layer with fewer words is no witness."""
SURE_LAYER = 0.95
"""A text layer of this confidence is a witness whatever the answer says. One below it has wrong letters, so its numbers
are wrong, too, unless it has most words of the answer."""
MOST_PERIOD = 50
"""Words of the longest passage whose repetition is found."""
LEAST_REPEATS, LEAST_LOOP_WORDS = 4, 16
"""A loop is a passage that occurs so many times in a row, with so many words in all."""
NUMBER_CHECKS = ("numbers", "dates", "units")
_WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_WIDE}]|[^\s{_WIDE}]+")
_LETTERS = re.compile(rf"[{_WIDE}]|[^\W\d_{_WIDE}]+")


Spans = list[tuple[int, int]]
"""Places in bytes, in order and apart."""


class CheckedPage(NamedTuple):
    """The text of a page that is kept, and what was found in the rest."""

    text: str
    is_compared: bool
    """Whether the page has a text layer to compare with."""
    new_numbers: int
    cut_sentences: int
    looped_words: int
    cuts: Sequence[Spans]
    """What was cut from the answer, and then from what was left of it."""

    def moved(self, place: int) -> int:
        """Where a place of the answer, in bytes, is in the text."""
        for spans in self.cuts:
            place -= sum(min(stop, place) - start for start, stop in spans if start < place)
        return place


class _LinePlace(NamedTuple):
    """A line with the line ends after it. Places are in bytes of the text."""

    start: int
    body: int
    """Where its text ends."""
    stop: int


def checked(answers: Sequence[str], layers: Sequence[str], confidences: Sequence[float]) -> list[CheckedPage]:
    """Checks the answers for some pages against their text layers, given the confidences of these. An empty layer is
    none."""
    answers = [normalise(answer) for answer in answers]
    loops = [find_loops(answer, layer) for answer, layer in zip(answers, layers, strict=True)]
    texts = [without(answer, spans) for answer, (spans, _) in zip(answers, loops, strict=True)]
    given = zip(texts, layers, confidences, strict=True)
    witness = [layer if _is_witness(text, layer, confidence) else None for text, layer, confidence in given]
    batch = pa.record_batch({"text": pa.array(texts, pa.string()), "parent_text": pa.array(witness, pa.string())})
    new = faithful.apply(batch, faithful.Config()).column("new").to_pylist()
    found = []
    for text, (loop, looped), layer, spans in zip(texts, loops, witness, new, strict=True):
        places = sorted(span["start"] for span in spans or () if span["check"] in NUMBER_CHECKS)
        cut, many = _sentences_at(text, places)
        found.append(CheckedPage(without(text, cut), layer is not None, len(places), many, looped, (loop, cut)))
    return found


def _is_witness(answer: str, layer: str, confidence: float) -> bool:
    if len(_WORD.findall(layer)) < LEAST_LAYER_WORDS:
        return False
    said, known = (set(_LETTERS.findall(text.casefold())) for text in (answer, layer))
    return confidence >= SURE_LAYER or 2 * len(said & known) >= len(said)


def without(text: str, spans: Spans) -> str:
    """The text without these places."""
    data = text.encode()
    edges = [0, *chain.from_iterable(spans), len(data)]
    return b"".join(data[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True)).decode()


def _sentences_at(text: str, places: Sequence[int]) -> tuple[Spans, int]:
    """The sentences at some places, in order, with the white space that goes with them, and how many they are. A row of
    a table counts as one."""
    if not places:
        return [], 0
    data = text.encode()
    is_cut = np.zeros(len(data), bool)
    lines: list[_LinePlace] = []
    many = at = 0
    for line in split(text, LINE_END):
        start = at
        for piece in [line] if line.startswith("| ") else split(line, SENTENCE_END):
            stop = at + len(piece.encode())
            if bisect_left(places, at) < bisect_left(places, stop):
                is_cut[at:stop] = True
                many += 1
            at = stop
        lines.append(_LinePlace(start, start + len(line.rstrip().encode()), at))
    end = 0
    for is_whole, group in groupby(lines, lambda line: bool(is_cut[line.start : line.body].all())):
        some = list(group)
        if is_whole:
            # The longer one of the separators before and after the lines stays.
            start, body, stop = some[0].start, some[-1].body, some[-1].stop
            if start and (stop == len(data) or stop - body > start - end):
                is_cut[end:start], is_cut[body:stop] = True, False
            continue
        for start, body, stop in some:
            is_cut[body:stop] = False
            if is_cut[body - 1]:
                rest = data[start : start + int(np.flatnonzero(~is_cut[start:body])[-1]) + 1]
                is_cut[start + len(rest.rstrip()) : body] = True
        end = some[-1].body
    return _spans(is_cut), many


def _spans(is_cut: np.ndarray) -> Spans:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], is_cut, [False])).astype(np.int8))).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def find_loops(text: str, layer: str = "") -> tuple[Spans, int]:
    """The places of passages that repeat what is right before them, and the number of their words.

    A repetition that the text layer has as well is none.
    """
    words = [(match.start(), match.end()) for match in _WORD.finditer(text)]
    if len(words) < LEAST_LOOP_WORDS:
        return [], 0
    spelt = [text[start:stop] for start, stop in words]
    known: dict[str, int] = {}
    ids = np.array([known.setdefault(word, len(known)) for word in spelt])
    said = f" {' '.join(_WORD.findall(layer))} "
    is_cut = np.zeros(len(ids), bool)
    for period in range(1, min(MOST_PERIOD, len(ids) // LEAST_REPEATS) + 1):
        same = np.concatenate(([False], ids[period:] == ids[:-period], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        least = max((LEAST_REPEATS - 1) * period, LEAST_LOOP_WORDS - period)
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if stop - start >= least and f" {' '.join(spelt[start : stop + period])} " not in said:
                is_cut[start + period : stop + period] = True
    # A loop is never cut from its first word.
    places = [(words[start - 1][1], words[stop - 1][1]) for start, stop in _spans(is_cut)]
    return [(len(text[:start].encode()), len(text[:stop].encode())) for start, stop in places], int(is_cut.sum())
