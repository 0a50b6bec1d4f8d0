"""Scores of extracted texts.

Against a whole gold text: precision, recall and F1 of the bags of words, where Chinese, Japanese and Korean count by
character. Against segments (required and forbidden ones): the share that is correctly present or absent.
"""

import re
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORDS = re.compile(f"[{_CJK}]|[^\\W{_CJK}]+")


class Score(NamedTuple):
    """The score of one text, or the mean of several; each 0 to 1."""

    value: float
    """F1, or the share of correct segments."""
    precision: float | None = None
    """Share of the extracted words that are in the gold text; None for segments."""
    recall: float | None = None
    """Share of the words of the gold text that are extracted; None for segments."""


def words_of(text: str) -> list[str]:
    """The counted units: words in lower case, and single characters of Chinese, Japanese and Korean."""
    return _WORDS.findall(text.lower())


def score_text(text: str, gold: str) -> Score:
    """The score against a gold text. An empty text is perfect for an empty gold text, and otherwise scores 0."""
    found, wanted = (Counter(words_of(side)) for side in (text, gold))
    common, given, expected = (found & wanted).total(), found.total(), wanted.total()
    if not given + expected:
        return Score(1.0, 1.0, 1.0)
    return Score(
        2 * common / (given + expected), common / given if given else 0.0, common / expected if expected else 0.0
    )


def score_segments(text: str, present: Sequence[str], absent: Sequence[str]) -> Score:
    """The score against segments. White space is normalized."""
    flat = " ".join(text.split())
    right = [" ".join(segment.split()) in flat for segment in present]
    right += [" ".join(segment.split()) not in flat for segment in absent]
    return Score(fmean(right) if right else 1.0)


def mean(scores: Sequence[Score]) -> Score:
    """The mean of scores; precision and recall are over whole texts only."""
    precisions = [one.precision for one in scores if one.precision is not None]
    recalls = [one.recall for one in scores if one.recall is not None]
    return Score(
        fmean(one.value for one in scores),
        fmean(precisions) if precisions else None,
        fmean(recalls) if recalls else None,
    )
