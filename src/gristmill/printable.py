"""Makes text from data harmless for a terminal: control characters are shown, not obeyed.

Keys, URLs, file names, texts and models come from strangers. An escape sequence in one of them could clear the screen,
forge a line of ours, set the title, or fill the reader's clipboard. So everything on standard output and standard error
passes through `printable`: the streams do it (`guard_streams`), and the command line's console does it before layout
(`cli/shared/screen.py`).
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
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 except line feed and tab, delete, C1: escape sequences consist of these
    "\u2028\u2029"  # line and paragraph separator
    "\u061c\u200b\u200e\u200f\u2060\ufff9-\ufffb\U000e0000-\U000e007f"  # marks of direction, invisible characters, tags
    "\u202a-\u202e\u2066-\u2069"  # overrides, embeddings and isolates: they reorder the text around them
    "\ud800-\udfff]"  # lone surrogates: bytes of a file name that are not UTF-8, which no stream can encode
)
"""Characters that a terminal, a pager or an editor may obey."""

MOST_LINES = 28
"""Lines shown of one message."""
MOST_CHARACTERS = 12_000


def printable(text: str) -> str:
    """The text with `\\x1b` and the like written out. Line feeds and tabs stay."""
    return STEERING.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: str) -> str:
    """Printable text in one line: a cell, a title, a label."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def indented(message: str) -> str:
    """A message with indented later lines, which cannot be mistaken for other messages. The middle of a very long
    message is cut: the fact is at the beginning, and the fix at the end.
    """
    lines = _shortened(printable(message).rstrip("\n").split("\n"), MOST_LINES, "line")
    return "".join(_shortened("\n  ".join(lines), MOST_CHARACTERS, "character"))


def _shortened(whole: Sequence[str], most: int, unit: str) -> Sequence[str]:
    """At most this many items of a message, and one that counts the others."""
    if len(whole) <= most:
        return whole
    last = most // 4
    return [*whole[: most - last], f"[... {counted(len(whole) - most, unit)} left out here ...]", *whole[-last:]]


class CannotPrint(Exception):
    """Standard output or standard error cannot be written. Not an OSError, which could come from any file or socket."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"The output cannot be written: {error.strerror or error}")
        self.is_reader_gone = isinstance(error, BrokenPipeError)


@contextmanager
def printing() -> Iterator[None]:
    """Turns failures to write a standard stream into CannotPrint."""
    try:
        yield
    except OSError as error:
        raise CannotPrint(error) from None


class Outlet(io.TextIOBase):
    """A standard stream that raises CannotPrint when it cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        """The stream itself, for text that is known to be harmless."""

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
    """Within this context, prints go to standard error: they are for people, standard output may be for a program."""
    return redirect_stdout(sys.stderr)


class Guarded(Outlet):
    """A stream for people: text is made printable. It has no `buffer`, which would bypass that."""

    def write(self, text: str) -> int:
        super().write(printable(text))
        return len(text)


def guard_streams(anew: bool = False) -> tuple[TextIO, TextIO]:
    """Make everything printable that this process prints from now on, including warnings, tracebacks and libraries.

    `anew`: standard output was redirected after it was opened, perhaps to something that is not seekable.
    Returns the previous streams.
    """
    before = sys.stdout, sys.stderr
    if anew:
        sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115, it stays open
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, Guarded):
            continue
        if stream is None:  # closed by the parent process
            stream = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal with few characters gets \u2502, not a traceback
        setattr(sys, name, Guarded(stream))
    return before
