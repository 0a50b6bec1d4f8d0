"""Raised and lowered text in formats without formulas: 10^6, H_2O, 1st."""

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
