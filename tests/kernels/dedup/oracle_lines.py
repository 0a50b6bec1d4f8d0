"""What a line, a paragraph and their normal forms are, in plain Python."""

import re

BLANK = "[\x00-\x20\x80-\xa0\xad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]"


def normal(unit):
    return re.sub(f"{BLANK}+", " ", unit).strip(" ")


def units_of(text, paragraphs):
    """(start, stop) in characters, with the line end."""
    lines = [found.span() for found in re.finditer(r"[^\n]*\n|[^\n]+$", text)]
    found = []
    joined = False
    for start, stop in lines:
        if not normal(text[start:stop]):
            joined = False
            continue
        if paragraphs and joined:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
        joined = True
    return found


def counts(unit, min_chars):
    """Whether a unit says something and is long enough."""
    return bool(re.search(r"[A-Za-z]|[^\x00-\x7f]", normal(unit))) and len(normal(unit)) >= min_chars
