"""Collects the mistakes in a recipe, so that a user sees all of them at once and not one per attempt."""

import itertools
import os
from collections.abc import Collection, Iterable
from difflib import get_close_matches

from gristmill.counted import counted
from gristmill.data_files import read_table
from gristmill.errors import UserError

MOST_SHOWN = 20
MOST_FOUND = 500
"""Loading stops after this many mistakes: a file with more is not a recipe."""
_LONGEST_NAME = 100
_MOST_FILES = 10_000
_MOST_CHARACTERS = 60

FOREIGN: dict[str, dict[str, str]] = read_table(__file__, "foreign_names.toml")
"""Names of other pipelines, by kind, and what to write instead."""

Path = tuple[str | int, ...]
"""The position of a value in the recipe: ("sources", "cc", "read", "paths", 0)."""


class Mistakes:
    """The mistakes of one file, reported in the order of its lines."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        """The file as the user named it."""
        self._found: dict[tuple[int, str], None] = {}
        self._faults: set[str] = set()

    def add(self, line: int, message: str, fault: str | None = None) -> None:
        """Record a mistake. The same message on the same line (an alias, a shared step) counts once, and so does a
        `fault` that shows up on several lines but is fixed in one place.
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
        """Raise one UserError with a line for each mistake, if there are any."""
        if not self._found:
            return
        ordered = sorted(self._found, key=lambda found: found[0])
        lines = [f"{self.shown}:{line}: {message}" for line, message in ordered[:MOST_SHOWN]]
        if len(ordered) > MOST_SHOWN:
            more = "at least " if len(ordered) >= MOST_FOUND else ""
            lines.append(f"... and {more}{counted(len(ordered) - MOST_SHOWN, 'more mistake')} after these.")
        raise UserError("\n".join(lines))


def no_domain(source: str) -> str:
    """The fault of a source without a domain; the tokenizer, the mix and its phases may all report it."""
    return f"{source} has no domain"


def dotted(path: Path) -> str:
    """`sources.cc.read.paths[0]`. The position of a step in its list is left out: its name follows, and the line number
    locates it.
    """
    text = ""
    for at, part in enumerate(path):
        if isinstance(part, str):
            text += f".{part}" if text else part
        elif path[0] != "steps" or at + 1 == len(path) or isinstance(path[at + 1], int):
            text += f"[{part}]"
    return text or "the recipe"


def show(value: object) -> str:
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
    """A file in the same folder with nearly the same name."""
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


def ours(kind: str, name: str, known: Collection[str]) -> str | None:
    """What a step, field or license of another pipeline is called here, unless a known name is nearly the same."""
    meant = FOREIGN[kind].get(name.lower().replace("-", "_"))
    return None if meant is None or name in known else f"In Gristmill this is {meant}."


def listed(names: Iterable[str], most: int = 100) -> str:
    """Names separated by commas; only the first `most` of them, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
