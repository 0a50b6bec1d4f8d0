"""How far the text of a page can be trusted, judged by what came out.

Text is extracted first and routed afterwards: the verdict of a page is `needs_ocr` (a picture with little or no text),
`garbled` (the fonts do not tell the characters, or words have no spaces), `empty`, or nothing.
"""

from collections.abc import Sequence

from gristmill_pdf.layout.letters import LetterUse, letter_use
from gristmill_pdf.layout.page import Page

LEAST_GLYPHS = 50
"""A page with fewer glyphs and with a picture needs OCR."""
LEAST_IMAGE_SHARE = 0.25
LEAST_CONFIDENCE = 0.5
USUAL_BITS = 3.8
"""The cost of a letter in words of any language (letters.py)."""
PRIOR_LETTERS = 100
"""Letters of usual cost that are added to those of a page, so that a few rare words do not condemn it."""
SUSPECT_LETTERS = 20
"""The same for text whose font does not tell the characters."""
MOST_MIXED, MIXED_BITS = 0.15, 3.0
"""Code mixes letters and signs as much as this. All neighbours mixed would be as bad as MIXED_BITS more."""
MOST_ACCENTED, ACCENTED_BITS = 0.4, 3.0
"""Vietnamese has a third of accented letters; Cyrillic that is read as Latin has nothing else."""
SHORT_LENGTH, SHORT_BITS = 2.5, 1.0
"""Pages of formulas have words of this mean length; letters among signs have none."""
LEAST_LETTER_SHARE = 0.2
"""The share of letters of these scripts from which the surcharges count in full. A Chinese table has few, in units."""
GOOD_BITS, BAD_BITS = 4.3, 5.1
"""The costs at which the confidence begins to fall, and at which it is 0."""
GOOD_LENGTH, BAD_LENGTH = 9.5, 15.0
"""The same for the mean length of the word that a letter is in: 6 in English, 9 in Finnish."""
LEAST_LETTERS = 100
"""Fewer letters are not judged by the length of their words."""
UNTOLD = 0.2
"""What the confidence loses if no font tells the characters, and the text looks right."""
LEAST_JUDGED_SHARE = 0.15
"""The share of letters in words of text whose font does not tell the characters, if it is right all the same."""

Judged = tuple[float, str | None]


def confidence_of(page: Page) -> Judged:
    """The confidence (0 to 1) and the verdict of a page."""
    if page.fault:
        return 0.0, page.fault
    if page.glyphs < LEAST_GLYPHS and page.image_share >= LEAST_IMAGE_SHARE:
        return 0.0, "needs_ocr"
    if page.glyphs == 0:
        return 1.0, "empty"
    wrong = page.bad_glyphs + (0 if _is_plausible(page.unmapped_text) else page.unmapped)
    confidence = max(1.0 - 4 * min(wrong / page.glyphs, 1.0), 0.0)
    confidence *= 1.0 - UNTOLD * min(page.unmapped / page.glyphs, 1.0)
    prose = "\n".join(line.text for block in page.blocks if block.kind != "code" for line in block.lines)
    code = "\n".join(line.text for block in page.blocks if block.kind == "code" for line in block.lines)
    use = letter_use(f"{prose}\n{code}")
    weight = min(use.letters / (LEAST_LETTER_SHARE * page.glyphs), 1.0)
    confidence *= _falling(_bits(use, weight=weight), GOOD_BITS, BAD_BITS)
    words = letter_use(prose)
    if words.letters >= LEAST_LETTERS:
        confidence *= _falling(words.mean_length, GOOD_LENGTH, BAD_LENGTH)
    return round(confidence, 3), "garbled" if confidence < LEAST_CONFIDENCE else None


def _bits(found: LetterUse, prior_letters: int = PRIOR_LETTERS, weight: float = 1.0) -> float:
    """What a letter costs, with surcharges (times a weight) for letters among signs and for accents."""
    usual = (found.bits + USUAL_BITS * prior_letters) / (found.judged + prior_letters)
    bits = MIXED_BITS * max(found.mixed - MOST_MIXED, 0.0)
    bits += ACCENTED_BITS * max(found.accented - MOST_ACCENTED, 0.0)
    is_short = found.letters >= LEAST_LETTERS // 2 and found.mean_length < SHORT_LENGTH
    bits += SHORT_BITS * (SHORT_LENGTH - found.mean_length) if is_short else 0.0
    return usual + weight * bits


def _falling(value: float, good: float, bad: float) -> float:
    return min(max((bad - value) / (bad - good), 0.0), 1.0)


def _is_plausible(text: str) -> bool:
    """Whether codes that were taken for characters are text all the same: words, or nothing but digits. Codes that
    count the glyphs of a font, or that are shifted, are neither.
    """
    found = letter_use(text)
    is_wordy = found.judged >= LEAST_JUDGED_SHARE * found.visible
    return is_wordy and _bits(found, SUSPECT_LETTERS) < (GOOD_BITS + BAD_BITS) / 2


def verdict_of(pages: Sequence[Page], judged: Sequence[Judged], text: str) -> tuple[str | None, str | None]:
    """Why a document is dropped, and the detail: most of its pages have the same fault."""
    verdicts = [verdict for _, verdict in judged if verdict != "empty"]
    for reason in ("needs_ocr", "garbled", "too_large", "unreadable_page"):
        count = verdicts.count(reason)
        if 2 * count > len(verdicts) and count:
            return reason, f"{count} of {len(pages)} pages"
    return (None, None) if text.strip() else ("empty_text", f"no text on {len(pages)} pages")
