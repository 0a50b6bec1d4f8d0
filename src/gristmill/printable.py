"""Text from data, made harmless for a terminal: whatever would steer it is shown instead of obeyed.

Keys, URLs, file names, texts and models come from strangers. An escape sequence in one of them could clear the screen,
forge a line of ours, set the title, or fill the clipboard of whoever looks at it. So everything that leaves through
standard output or standard error passes `printable`: the streams themselves do it (`guard_streams`), and the command
line's console does it once more before it lays anything out (`cli/shared/screen.py`).
"""

import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from typing import TextIO

from gristmill.counted import counted

STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but line feed and tab, delete, C1: what escape sequences are made of
    "\u2028\u2029"  # line and paragraph separator
    "\u202a-\u202e\u2066-\u2069"  # overrides, embeddings and isolates: they reorder what stands around them
    "\ud800-\udfff]"  # halves of characters: bytes of a file name that were not UTF-8, and no stream can encode them
)
"""Characters that a terminal, a pager or an editor may obey."""

MOST_LINES = 28
"""Of one message."""
MOST_CHARACTERS = 12_000


def printable(text: str) -> str:
    """The text with `\\x1b` and the like written out. Line feeds and tabs stay."""
    return STEERING.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: str) -> str:
    """The same for a place that has one line: a cell, a title, a label."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def indented(message: str) -> str:
    """A message whose later lines cannot be taken for messages of their own. What others' words make endless loses its
    middle: the fact stands at the beginning, and what to do at the end.
    """
    lines = _shortened(printable(message).rstrip("\n").split("\n"), MOST_LINES, "line")
    return "".join(_shortened("\n  ".join(lines), MOST_CHARACTERS, "character"))


def _shortened(whole: Sequence[str], most: int, unit: str) -> Sequence[str]:
    """Items of a message, at most so many and one that tells of the others."""
    if len(whole) <= most:
        return whole
    last = most // 4
    return [*whole[: most - last], f"[... {counted(len(whole) - most, unit)} left out here ...]", *whole[-last:]]


class CannotPrint(Exception):
    """Standard output or standard error takes nothing more. Not an OSError: that could be any file's or socket's."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"What is printed cannot be written: {error.strerror or error}")
        self.is_reader_gone = isinstance(error, BrokenPipeError)


@contextmanager
def printing() -> Iterator[None]:
    """Failures to write in here are those of a standard stream."""
    try:
        yield
    except OSError as error:
        raise CannotPrint(error) from None


class Outlet(io.TextIOBase):
    """A standard stream that says so when it cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        """The stream itself, for what is known to be harmless."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.stream.errors

    def write(self, text: str) -> int:
        with printing():
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with printing():
            self.stream.flush()

    def fileno(self) -> int:
        return self.stream.fileno()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def writable(self) -> bool:
        return True


def aside() -> AbstractContextManager[TextIO]:
    """What is printed meanwhile goes to standard error: it is for people, and standard output may be for a program."""
    return redirect_stdout(sys.stderr)


class Guarded(Outlet):
    """A stream for people: what is written to it is made printable. It has no way round, so no `buffer`."""

    def write(self, text: str) -> int:
        super().write(printable(text))
        return len(text)


def guard_streams(anew: bool = False) -> tuple[TextIO, TextIO]:
    """From here on all that this process prints is printable: warnings, tracebacks and what libraries say, too.

    `anew`: standard output leads elsewhere since it was opened, perhaps to what cannot be sought in, as a file can.
    Returns the streams as they were.
    """
    before = sys.stdout, sys.stderr
    if anew:
        sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115, it stays open
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, Guarded):
            continue
        if stream is None:  # closed by whoever started us
            stream = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal of few letters gets \u2502, not a traceback
        setattr(sys, name, Guarded(stream))
    return before
