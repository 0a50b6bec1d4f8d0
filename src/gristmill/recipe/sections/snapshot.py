"""The snapshot of a file by its path: a name, or what one group of a regular expression matches.

The expression is searched by RE2 (through Arrow), which takes time linear in the length of the path for every
expression; Python's own engine would take years for `(a+)+$` on a path of forty letters. RE2 does not support
look-around and references to earlier groups.
"""

import re
import warnings
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted

_REGEX_CHARACTERS = frozenset("\\^$*+?{}[]|()")
_MOST_CHARACTERS = 1000
_GROUP = "snapshot"
# Matches escapes and classes as a whole, so that a parenthesis inside them is not replaced.
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P<\w+>|\((?!\?)", re.DOTALL)


def is_regex(snapshot: str) -> bool:
    """Whether a snapshot is an expression to search for in the file's path; otherwise it is a literal."""
    return not _REGEX_CHARACTERS.isdisjoint(snapshot)


def check_snapshot(value: str) -> str:
    """Check a snapshot; raises ValueError with what is wrong with an expression."""
    if ".." in value and not is_regex(value):
        raise ValueError(
            "a range of snapshots is no name. Name their folders in paths (such as crawl/CC-MAIN-2023-*/**), and write "
            'snapshot: "crawl/([^/]+)/"'
        )
    if not is_regex(value):
        return value
    if len(value) > _MOST_CHARACTERS:
        raise ValueError(
            f"the expression has {counted(len(value), 'character')}, more than {_MOST_CHARACTERS}. Write a shorter one"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns about [[:digit:]], which RE2 supports
            groups = re.compile(value).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{value!r} is not a regular expression: {error}. Put \\ before a literal character") from None
    if groups != 1:
        raise ValueError(
            f"{value!r} has {groups or 'no'} groups, but the snapshot is what one group matches. "
            "Put ( ) around that part only; write other groups as (?: )"
        )
    try:
        search(value, [""])
    except pa.ArrowInvalid as error:
        message = str(error).removeprefix("Invalid regular expression: ")
        raise ValueError(
            f"{value!r} cannot be searched in linear time ({message}). Write it without look-ahead, look-behind "
            "and references to earlier groups"
        ) from None
    return value


def search(expression: str, paths: Iterable[str]) -> list[str | None]:
    """The text of the group in the first match in each path; None if there is no match."""
    named = _PIECE.sub(lambda found: f"(?P<{_GROUP}>" if found[0][0] == "(" else found[0], expression)
    texts = [path.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for path in paths]
    [found] = pc.extract_regex(pa.array(texts, pa.string()), named).flatten()
    return list(found.to_pylist())
