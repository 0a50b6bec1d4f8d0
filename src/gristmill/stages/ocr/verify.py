"""Checks what an engine read on a page image: loops, and numbers that the page's text layer does not have.

Engines that are language models repeat themselves, and write numbers that are not on the page. Scanned files often have
a text layer from an older engine: too poor to train on, but a witness. A line of the answer that has a number which the
text layer lacks in any spelling is cut.
"""

import re
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.stages.measure import faithful
from gristmill.stages.shared.normalise import normalise

LEAST_LAYER_WORDS = 20
"""A text layer with fewer words is no witness."""
MOST_PERIOD = 50
"""Words of the longest passage whose repetition is found."""
LEAST_REPEATS, LEAST_LOOP_WORDS = 4, 16
"""A loop is a passage that occurs so many times in a row, with so many words in all."""
NUMBER_CHECKS = ("numbers", "dates", "units")
_WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_WIDE}]|[^\s{_WIDE}]+")


class CheckedPage(NamedTuple):
    """The text of a page that is kept, and what was found in the rest."""

    text: str
    is_compared: bool
    """Whether the page has a text layer to compare with."""
    new_numbers: int
    cut_lines: int
    looped_words: int


def checked(answers: list[str], layers: list[str]) -> list[CheckedPage]:
    """Checks the answers for some pages against their text layers; an empty layer is none."""
    unlooped = [cut_loops(normalise(answer, 0), layer) for answer, layer in zip(answers, layers, strict=True)]
    witness = [layer if len(_WORD.findall(layer)) >= LEAST_LAYER_WORDS else None for layer in layers]
    batch = pa.record_batch(
        {"text": pa.array([text for text, _ in unlooped], pa.string()), "parent_text": pa.array(witness, pa.string())}
    )
    new = faithful.apply(batch, faithful.Config()).column("new").to_pylist()
    found = []
    for (text, looped), layer, spans in zip(unlooped, witness, new, strict=True):
        places = [span["start"] for span in spans or () if span["check"] in NUMBER_CHECKS]
        kept, cut = _without_lines(text, places)
        found.append(CheckedPage(kept, layer is not None, len(places), cut, looped))
    return found


def _without_lines(text: str, places: list[int]) -> tuple[str, int]:
    """The text without the lines at some places (in bytes), and how many these are."""
    if not places:
        return text, 0
    lines = text.encode().split(b"\n")
    ends = np.cumsum([len(line) + 1 for line in lines])
    cut = set(np.searchsorted(ends, places, side="right").tolist())
    return b"\n".join(line for number, line in enumerate(lines) if number not in cut).decode(), len(cut)


def cut_loops(text: str, layer: str = "") -> tuple[str, int]:
    """The text with one occurrence of each passage that repeats itself, and the number of words that were cut.

    A repetition that the text layer has as well stays.
    """
    words = [(match.start(), match.end()) for match in _WORD.finditer(text)]
    if len(words) < LEAST_LOOP_WORDS:
        return text, 0
    spelt = [text[start:stop] for start, stop in words]
    known: dict[str, int] = {}
    ids = np.array([known.setdefault(word, len(known)) for word in spelt])
    said = f" {' '.join(_WORD.findall(layer))} "
    is_cut = np.zeros(len(ids) + 1, bool)
    for period in range(1, min(MOST_PERIOD, len(ids) // LEAST_REPEATS) + 1):
        same = np.concatenate(([False], ids[period:] == ids[:-period], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        least = max((LEAST_REPEATS - 1) * period, LEAST_LOOP_WORDS - period)
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if stop - start >= least and f" {' '.join(spelt[start : stop + period])} " not in said:
                is_cut[start + period : stop + period] = True
    edges = np.flatnonzero(np.diff(np.concatenate(([False], is_cut)).astype(np.int8)))
    kept, at = [], 0
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        kept.append(text[at : words[start - 1][1]])  # a loop is never cut from its first word
        at = words[stop - 1][1]
    return "".join([*kept, text[at:]]), int(is_cut.sum())
