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


def write(out: list[str], following: str) -> None:
    """Adds text after raised text: mc^{2}7000 and x_{i}y, since mc^27000 is another number. H_2O needs no braces."""
    if not following:
        return
    last = out[-1] if out else ""
    if len(last) == 2 and last[0] in "^_":
        sign, after = last[1], following[0]
        if (sign.isdigit() and after.isdigit()) or (sign.isalpha() and after.isalpha()):
            out[-1] = f"{last[0]}{{{sign}}}"
    out.append(following)
