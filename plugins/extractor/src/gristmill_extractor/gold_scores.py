"""How much of a page's main text an extractor gives, and how little else.

Against a whole gold text: precision, recall and F1 of the bags of words, where Chinese, Japanese and Korean count by
character. Against segments (what must be there, what must not): the share of them that are rightly there or not.
"""

import re
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORDS = re.compile(f"[{_CJK}]|[^\\W{_CJK}]+")


class Score(NamedTuple):
    """How one text does, or the mean of several; each 0 to 1."""

    value: float
    """F1, or the share of segments."""
    precision: float | None = None
    """Of the words that were given, those that are in the gold text; None for segments."""
    recall: float | None = None
    """Of the words of the gold text, those that were given; None for segments."""


def words_of(text: str) -> list[str]:
    """What is counted: words in lower case, and single characters of Chinese, Japanese and Korean."""
    return _WORDS.findall(text.lower())


def score_text(text: str, gold: str) -> Score:
    """Nothing where there is nothing to find is all right; nothing where there is something is precise in nothing."""
    found, wanted = (Counter(words_of(side)) for side in (text, gold))
    common, given, asked = (found & wanted).total(), found.total(), wanted.total()
    if not given + asked:
        return Score(1.0, 1.0, 1.0)
    return Score(2 * common / (given + asked), common / given if given else 0.0, common / asked if asked else 0.0)


def score_segments(text: str, present: Sequence[str], absent: Sequence[str]) -> Score:
    """White space is all the same."""
    flat = " ".join(text.split())
    right = [" ".join(segment.split()) in flat for segment in present]
    right += [" ".join(segment.split()) not in flat for segment in absent]
    return Score(fmean(right) if right else 1.0)


def mean(scores: Sequence[Score]) -> Score:
    """Of some scores; precision and recall are those of the texts among them."""
    precisions = [one.precision for one in scores if one.precision is not None]
    recalls = [one.recall for one in scores if one.recall is not None]
    return Score(
        fmean(one.value for one in scores),
        fmean(precisions) if precisions else None,
        fmean(recalls) if recalls else None,
    )
