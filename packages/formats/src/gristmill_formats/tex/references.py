"""References of a paper: a section is named by its title, and anything else by its label, there and where it is.

Numbers are not written: those of LaTeX depend on the class and the packages of the paper.
"""

import re
from collections.abc import Collection, Mapping

from gristmill_formats.tex.commands import REFERENCES

_HEADING = re.compile(
    r"\\(?:part|chapter|(?:sub){0,2}section|(?:sub)?paragraph)\*?\s*+(?:\[[^\[\]]{0,300}\]\s*+)?(?=\{)"
)
_LONGEST_TITLE = 300
"""Characters of its source."""
LABEL = re.compile(r"\s*+\\label\s*+\{([^{}]{1,200})\}[ \t]*+\n?")
_ANY_LABEL = re.compile(r"\\label\s*+\{([^{}]{1,200})\}")
_REFERENCE = re.compile(rf"\\(?:{'|'.join(sorted(REFERENCES))})\*?\s*+\{{([^{{}}]{{1,1000}})\}}")
PAGE = "\x05"
"""Where the number of a page is left out."""
_PAGES = re.compile(
    rf"[ ~]?\((?:see |on )?(?:page|p\.|pp\.) ?{PAGE}\)"
    rf"|(?:,? (?:on|at))?(?: the)?(?: pages?| pp?\.)? ?{PAGE}",
    re.IGNORECASE,
)


def titles(source: str, close: Mapping[int, int]) -> dict[str, str]:
    """{label of a heading, in it or after it: the source of its title}"""
    found: dict[str, str] = {}
    for heading in _HEADING.finditer(source):
        if (end := close.get(heading.end())) is not None:
            title = source[heading.end() + 1 : min(end, heading.end() + _LONGEST_TITLE)]
            label = LABEL.match(source, end + 1) or _ANY_LABEL.search(title)
            if label:
                found[label[1].strip()] = _ANY_LABEL.sub("", title)
    return found


def referred(source: str) -> frozenset[str]:
    """The labels that are used."""
    return frozenset(key.strip() for found in _REFERENCE.finditer(source) for key in found[1].split(","))


def named(keys: str, titles: Mapping[str, str]) -> str:
    """What is written for a reference to one or several labels."""
    bare = filter(None, map(str.strip, keys.split(",")))
    return ", ".join(f'"{titles[key]}"' if titles.get(key) else f"[{key}]" for key in bare)


def marks(formula: str, used: Collection[str]) -> str:
    """The labels of a formula that are used, to be written after it."""
    return "".join(f" [{key}]" for key in map(str.strip, _ANY_LABEL.findall(formula)) if key in used)


def without_pages(text: str) -> str:
    """Without the words before the number of a page: `on page`."""
    return _PAGES.sub("", text) if PAGE in text else text
