"""How far the text of a page can be trusted, judged by what came out.

Text is extracted first and routed afterwards: the verdict of a page is `needs_ocr` (a picture with little or no text),
`garbled` (the fonts do not tell the characters, or words have no spaces), `empty`, or nothing.
"""

import re
from collections.abc import Sequence

from gristmill.stages.pdf.page import Page

LEAST_GLYPHS = 50
"""A page with fewer glyphs and with a picture needs OCR."""
LEAST_IMAGE_SHARE = 0.25
LEAST_CONFIDENCE = 0.5
_WORD = re.compile(r"\S+")

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
    bad = min(wrong / page.glyphs, 1.0)
    confidence = max(1.0 - 4 * bad, 0.0) * _spacing(page)
    return round(confidence, 3), "garbled" if confidence < LEAST_CONFIDENCE else None


def _is_plausible(text: str) -> bool:
    """Whether codes that were taken for characters are text in Latin letters: mostly letters, mostly small ones, with
    vowels. Codes that count the glyphs of a font, or that are shifted, are none of these.
    """
    chars = len(text) - text.count(" ")
    letters = [char for char in text if char.isascii() and char.isalpha()]
    small = [char for char in letters if char.islower()]
    vowels = sum(char in "aeiouy" for char in small)
    return 2 * len(letters) > chars and 2 * len(small) > len(letters) and 5 * vowels > len(small)


def _spacing(page: Page) -> float:
    """1, or less if words are far too long: spaces are missing."""
    text = " ".join(line.text for block in page.blocks if block.kind != "code" for line in block.lines)
    letters = [word for word in _WORD.findall(text) if word.isalpha() and word[0] < "\u0900"]
    if len(letters) < 20:
        return 1.0
    mean = sum(map(len, letters)) / len(letters)
    return 1.0 if mean <= 14 else max(0.0, 1.0 - (mean - 14) / 12)


def verdict_of(pages: Sequence[Page], judged: Sequence[Judged], text: str) -> tuple[str | None, str | None]:
    """Why a document is dropped, and the detail: most of its pages have the same fault."""
    verdicts = [verdict for _, verdict in judged if verdict != "empty"]
    for reason in ("needs_ocr", "garbled", "too_large", "unreadable_page"):
        count = verdicts.count(reason)
        if 2 * count > len(verdicts) and count:
            return reason, f"{count} of {len(pages)} pages"
    return (None, None) if text.strip() else ("empty_text", f"no text on {len(pages)} pages")
