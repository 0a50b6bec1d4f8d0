"""The snapshot of a file by its path: a name, or what one group of a regular expression matches.

The expression is searched by RE2 (through Arrow), whose time grows with the length of the path whatever the expression
and the path are; `(a+)+$` takes Python's own engine years for a path of forty letters. Look-around and references to
earlier groups are what it does not know.
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
# Escapes and classes are taken whole, so that a parenthesis in them is left alone.
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P<\w+>|\((?!\?)", re.DOTALL)


def is_regex(snapshot: str) -> bool:
    """Whether a snapshot is searched in the file's path; without one of these characters it is a literal."""
    return not _REGEX_CHARACTERS.isdisjoint(snapshot)


def check_snapshot(value: str) -> str:
    """ValueError says what is wrong with an expression."""
    if not is_regex(value):
        return value
    if len(value) > _MOST_CHARACTERS:
        raise ValueError(
            f"an expression of {counted(len(value), 'character')} is more than {_MOST_CHARACTERS}. Write a shorter one"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # [[:digit:]] means to RE2 what Python warns that it may come to mean
            groups = re.compile(value).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{value!r} is not a regular expression: {error}. Put \\ before a character that means itself"
        ) from None
    if groups != 1:
        raise ValueError(
            f"{value!r} has {groups or 'no'} groups, and the snapshot is what one group matches. "
            "Put ( ) around that part alone; a group that is not the snapshot begins with (?:"
        )
    try:
        search(value, [""])
    except pa.ArrowInvalid as error:
        told = str(error).removeprefix("Invalid regular expression: ")
        raise ValueError(
            f"{value!r} cannot be searched in bounded time ({told}). Write it without look-ahead, look-behind "
            "and references to earlier groups"
        ) from None
    return value


def search(expression: str, paths: Iterable[str]) -> list[str | None]:
    """What the group matches in the first match of each path; None where there is none."""
    named = _PIECE.sub(lambda found: f"(?P<{_GROUP}>" if found[0][0] == "(" else found[0], expression)
    texts = [path.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for path in paths]
    [found] = pc.extract_regex(pa.array(texts, pa.string()), named).flatten()
    return list(found.to_pylist())
