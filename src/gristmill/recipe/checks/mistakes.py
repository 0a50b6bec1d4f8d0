"""Collects what is wrong with a recipe, so that a user sees all of it at once and not one fault a try."""

import itertools
import os
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from gristmill.counted import counted
from gristmill.errors import UserError

MOST_SHOWN = 20
MOST_FOUND = 500
"""After so many the rest is not looked for: a file of nothing but mistakes is no recipe."""
_LONGEST_NAME = 100
_MOST_FILES = 10_000
_MOST_CHARACTERS = 60

Path = tuple[str | int, ...]
"""Where a value stands in the recipe: ("sources", "cc", "read", "paths", 0)."""


class Mistakes:
    """The mistakes of one file, told in the order of its lines."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        """The file as the user named it."""
        self._found: dict[tuple[int, str], None] = {}
        self._faults: set[str] = set()

    def add(self, line: int, message: str, fault: str | None = None) -> None:
        """Notes a mistake; the same words on the same line (an alias, a shared step) count once, and so does a `fault`
        that several lines meet and that is mended in one place.
        """
        if fault is not None and fault in self._faults:
            return
        self._faults.update(() if fault is None else (fault,))
        self._found.setdefault((line, " ".join(part.strip() for part in message.strip().splitlines())))
        if len(self._found) >= MOST_FOUND:
            self.raise_any()

    def __len__(self) -> int:
        return len(self._found)

    def raise_any(self) -> None:
        """One UserError with a line for each mistake, where there is any."""
        if not self._found:
            return
        ordered = sorted(self._found, key=lambda found: found[0])
        lines = [f"{self.shown}:{line}: {message}" for line, message in ordered[:MOST_SHOWN]]
        if len(ordered) > MOST_SHOWN:
            more = "at least " if len(ordered) >= MOST_FOUND else ""
            lines.append(f"... and {more}{counted(len(ordered) - MOST_SHOWN, 'more mistake')} after these.")
        raise UserError("\n".join(lines))


def no_domain(source: str) -> str:
    """The fault of a source that all have to name by its domain: the tokenizer, the mix, its phases."""
    return f"{source} has no domain"


def dotted(path: Path) -> str:
    """`sources.cc.read.paths[0]`. The place of a step in its list is left out: its name follows, and the line number
    tells it.
    """
    text = ""
    for at, part in enumerate(path):
        if isinstance(part, str):
            text += f".{part}" if text else part
        elif path[0] != "steps" or at + 1 == len(path) or isinstance(path[at + 1], int):
            text += f"[{part}]"
    return text or "the recipe"


def show(value: Any) -> str:
    """A value as the user would write it in YAML, cut to a readable length."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 4]}...{text[-1]}"


def nearest(word: str, options: Iterable[str]) -> str | None:
    """The option that the user probably meant."""
    if len(word) > _LONGEST_NAME:
        return None
    folded = {option.lower().replace("-", "_"): option for option in options if len(option) <= _LONGEST_NAME}
    close = get_close_matches(word.lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def nearest_file(path: str) -> str | None:
    """What lies in the same folder and is called nearly so."""
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.name for entry in itertools.islice(entries, _MOST_FILES)]
    except OSError:
        return None
    close = get_close_matches(name, sorted(names), n=1, cutoff=0.8)
    return os.path.join(folder, close[0]) if close else None


def suggest(word: str, options: Iterable[str], noun: str) -> str:
    """`Did you mean format? Fields: format, paths.`"""
    options = list(options)
    near = nearest(word, options)
    question = f"Did you mean {near}? " if near else ""
    return f"{question}{noun}: {listed(options)}." if options else f"{noun}: none."


def listed(names: Iterable[str], most: int = 100) -> str:
    """Names with commas; the first of them, where there are very many."""
    names = list(names)
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
