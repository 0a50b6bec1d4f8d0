"""All output of the commands and the log to a terminal or a pipe. Nothing else in the project prints.

Nothing here reads markup: a `[red]` or `:smile:` in a text is those characters. Styles are passed next to the words
that they apply to (`words`). Text is made printable before layout, so that widths are right, and again when it is
rendered, so that nothing is missed. A pipe gets the same as a terminal, since piped output is read on a terminal later.
The exception is `write_bytes`, for commands that output bytes.
"""

import json
import logging
import numbers
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import IO, Any, cast

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from gristmill.log import INFO, ROOT, WARNING
from gristmill.printable import (
    STEERING,
    CannotPrint,
    Guarded,
    Outlet,
    guard_streams,
    indented,
    one_line,
    printable,
    printing,
)

LOG_JSON = "--log-json"
"""The option of every command that makes standard error JSON lines."""
PIPE_WIDTH = 160
"""Columns without a terminal or COLUMNS: a table cut to 80 is of no use in a log."""


class Screen(Console):
    """A console on which text from data cannot act: control characters are shown, not obeyed."""

    def __init__(self, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        is_plain = isinstance(stream, JsonLines) or not isinstance(stream, Guarded)
        plain = stream if is_plain else cast(Guarded, stream).stream  # our own colours must pass
        super().__init__(file=cast(IO[str], Outlet(plain)), markup=False, emoji=False, highlight=False, soft_wrap=False)
        self.is_fitted = (self.is_terminal or "COLUMNS" in os.environ) and not isinstance(stream, JsonLines)
        """Whether paragraphs are wrapped. A pipe gets each paragraph as one line, which `grep` finds."""
        if not self.is_fitted:
            self.width = PIPE_WIDTH

    def print(self, *objects: Any, **options: Any) -> None:
        """As in Rich, but text is wrapped between words for a terminal, and not wrapped for a pipe."""
        if all(isinstance(one, str | Text) for one in objects):
            options["soft_wrap"] = True
            if self.is_fitted:
                objects = tuple(fitted(passage(one) if isinstance(one, str) else one, self.width) for one in objects)
        super().print(*objects, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def words(*parts: str | tuple[str, str] | Text) -> Text:
    """Words in one line, some of them with a style: `words(("kept", "green"), " by ", name)`."""
    text = Text()
    for part in parts:
        if isinstance(part, Text):
            text.append_text(part)
        else:
            plain, style = (part, "") if isinstance(part, str) else part
            text.append(one_line(plain), style)
    return text


def passage(text: str, style: str = "") -> Text:
    """A text that may have several lines."""
    return Text(printable(text), style)


def fitted(text: Text, width: int, indent: str = "") -> Text:
    """The text wrapped between words. A word that is too wide, such as a path, stays whole."""
    lines = []
    for line in text.split(allow_blank=True):
        cuts: list[int] = []
        start, is_first = 0, True
        for word in re.finditer(r"\S+", line.plain):
            room = width - (len(indent) if cuts else 0)
            if not is_first and cell_len(line.plain[start : word.end()]) > room:
                start = word.start()
                cuts.append(start)
            is_first = False
        for at, piece in enumerate(line.divide(cuts)):
            piece.rstrip()
            lines.append(Text(indent).append_text(piece) if at else piece)
    return Text("\n").join(lines)


def print_paragraph(text: str) -> None:
    """Print sentences: wrapped on a terminal, as one line in a pipe."""
    Screen().print(words(text))


def remark(text: str, style: str = "") -> None:
    """Print sentences about an answer on standard error, where they are not part of it."""
    Screen(stderr=True).print(words((text, style)))


def say(message: str) -> None:
    """Print a line on standard output that is never wrapped."""
    sys.stdout.write(printable(message) + "\n")


def complain(message: object) -> None:
    """Print an error message on standard error."""
    if isinstance(sys.stderr, JsonLines):
        sys.stderr.add("error", str(message))
    else:
        log(f"gristmill: {message}")


def warn(message: str) -> None:
    """Print a warning at the end of a run."""
    if isinstance(sys.stderr, JsonLines):
        sys.stderr.add("warning", message)
    else:
        remark(f"WARNING: {message}")


class LogHandler(logging.Handler):
    """Shows the log on standard error."""

    show: Callable[[str], None] | None = None
    """The function that shows messages while progress bars are on the screen."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if isinstance(sys.stderr, JsonLines):
            sys.stderr.add(record.levelname.lower(), text, record.name, getattr(record, "fields", {}))
        elif self.show is not None:
            self.show(text)
        elif record.levelno >= WARNING:
            complain(text)
        else:
            log(text)


HANDLER = LogHandler()


@contextmanager
def log_shown() -> Iterator[None]:
    """Within this context, what the library logs is shown, from INFO on."""
    if HANDLER in ROOT.handlers:
        yield
        return
    before = ROOT.level
    ROOT.addHandler(HANDLER)
    ROOT.setLevel(INFO)
    try:
        yield
    finally:
        ROOT.setLevel(before)
        ROOT.removeHandler(HANDLER)


class JsonLines(Guarded):
    """Standard error for a program: each message, and each line that something else writes, is a JSON object."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._begun = ""

    def add(self, level: str, message: str, logger: str = "gristmill.cli", fields: object = None) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "level": level, "logger": logger, "message": message, "fields": fields or {}}
        super().write(json_text(line) + "\n")
        self.flush()

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if line.strip():
                self.add("info", line.rstrip())
        return len(text)

    def isatty(self) -> bool:
        return False


def log(message: str) -> None:
    """Print a message on standard error at once. Wrapped lines are indented on a terminal."""
    if isinstance(sys.stderr, JsonLines):
        sys.stderr.add("info", message)
        return
    text, screen = indented(message), Screen(stderr=True)
    log_unwrapped(fitted(Text(text), screen.width, "  ").plain if screen.is_fitted else text)


def log_unwrapped(text: str) -> None:
    """Print lines on standard error that are already laid out."""
    if isinstance(sys.stderr, JsonLines):
        sys.stderr.add("error", text)
        return
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()


def print_json(value: object) -> None:
    """Print one JSON object on one line, so that the last line of the output is always whole."""
    sys.stdout.write(json_text(value) + "\n")


def json_text(value: object, indent: int | None = None) -> str:
    """JSON that is safe on a terminal: control characters become JSON escapes. Bytes are hexadecimal."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=_plain)
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _plain(value: object) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return int(value) if isinstance(value, numbers.Integral) else str(value)


def write_bytes(data: bytes) -> None:
    """Write raw bytes to a pipe or a file; on a terminal, write printable text."""
    stream = sys.stdout.stream if isinstance(sys.stdout, Guarded) else sys.stdout
    if stream.isatty():
        say(data.decode("utf-8", "backslashreplace"))
        return
    with printing():
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


def speaking(command: Callable[[], int | None]) -> int:
    """Run a command and return its exit code. Everything that the process prints meanwhile is made printable.

    If the reader is gone (`| head`), the command ends silently with the exit code of SIGPIPE.
    """
    before = guard_streams()
    if LOG_JSON in sys.argv[1:]:  # before the command line is parsed, which may fail
        sys.stderr = cast(Any, JsonLines(cast(Guarded, sys.stderr).stream))
    try:
        with log_shown():
            code = command()
        sys.stdout.flush()
        return code or 0
    except CannotPrint as failure:
        _hang_up()
        if failure.is_reader_gone:
            return 128 + signal.SIGPIPE
        with suppress(CannotPrint):
            complain(f"{failure}. Finished work is kept. Free some space, or redirect the output, and run again.")
        return 2
    finally:
        sys.stdout, sys.stderr = before


def _hang_up() -> None:
    """Redirect streams that cannot be written to /dev/null, so that the interpreter does not fail on them at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except CannotPrint:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
