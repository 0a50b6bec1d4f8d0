"""The counts of a comparison, and the spans of what is new."""

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Ints

COLUMNS = (
    *("new_numbers", "new_dates", "new_units", "new_names", "new_urls", "new_quotations", "new_code"),
    *("flipped_negations", "flipped_comparisons", "language_changed", "looped_words"),
    *("words", "parent_words", "ngrams", "copied_ngrams"),
    *("content_words", "new_content_words", "parent_content_words", "covered_content_words"),
)
"""The counts of a document. The first nine are checks with spans."""
NUMBERS, DATES, UNITS, NAMES, URLS, QUOTATIONS, CODE, NEGATIONS, COMPARISONS, LANGUAGE, LOOPED = range(11)
WORDS, PARENT_WORDS, NGRAMS, COPIED, CONTENT_WORDS, NEW_CONTENT, PARENT_CONTENT, COVERED = range(11, len(COLUMNS))
N_COLUMNS = len(COLUMNS)
CHECKS = COLUMNS[:9]
MOST_SPANS = 1000
"""Spans of a document; counts go on."""


@njit(nogil=True, cache=True)
def note(new: Ints, row: Ints, check: int, begin: int, end: int) -> None:
    """Counts something new in `row` and adds its span to `new`: the number of spans, then check, begin and end of each;
    at most MOST_SPANS of a document.
    """
    row[check] += 1
    if new[0] < MOST_SPANS:
        at = 1 + 3 * new[0]
        new[at], new[at + 1], new[at + 2] = check, begin, end
        new[0] += 1
