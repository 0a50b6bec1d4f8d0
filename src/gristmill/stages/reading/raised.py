"""Raised and lowered text in formats without formulas: 10^6, H_2O, mc^{2}7000, 1st."""

import re

_ORDINAL = re.compile(r"(?:st|nd|rd|th|er|re|e|º|ª|TM|SM)\.?", re.IGNORECASE)


def raised(mark: str, content: str) -> str:
    """`content` after `^` or `_`, in braces if it is long. Ordinals stay as they are; footnote marks are left out."""
    bare = content.strip()
    if not bare or bare.startswith("["):
        return ""
    after = " " if content[-1].isspace() else ""
    if _ORDINAL.fullmatch(bare):
        return bare + after
    return (f"{mark}{bare}" if len(bare) == 1 else f"{mark}{{{bare}}}") + after


def in_braces(pieces: list[str]) -> str:
    """The pieces of a text, with braces around a raised character before a letter or digit, which is not raised."""
    written = [piece for piece in pieces if piece]
    for place, after in enumerate(written[1:]):
        if len(written[place]) == 2 and written[place][0] == "^" and after[0].isalnum():
            written[place] = f"^{{{written[place][1]}}}"
    return "".join(written)
