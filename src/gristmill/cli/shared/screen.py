"""The one way from the commands and the log to a terminal or a pipe. Nothing else in the project prints.

Nothing here reads markup: a `[red]` or `:smile:` in a text is those characters. Styles are given beside the words
that they are for (`words`). Whatever is laid out is made printable first, so that widths are right, and again when it
is rendered, so that nothing can be forgotten. A pipe gets the same as a terminal: what is piped is read on a terminal
later. The exception is `write_bytes`, for a command whose purpose is the bytes.
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
"""Columns where there is no terminal, and COLUMNS says nothing: a table cut to 80 is of no use in a log."""


class Screen(Console):
    """A console that shows what data says and does nothing that it says."""

    def __init__(self, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        is_plain = isinstance(stream, JsonLines) or not isinstance(stream, Guarded)
        plain = stream if is_plain else cast(Guarded, stream).stream  # our own colours have to pass
        super().__init__(file=cast(IO[str], Outlet(plain)), markup=False, emoji=False, highlight=False, soft_wrap=False)
        self.is_fitted = (self.is_terminal or "COLUMNS" in os.environ) and not isinstance(stream, JsonLines)
        """Whether paragraphs are broken between words; a pipe gets each in one line, which `grep` finds."""
        if not self.is_fitted:
            self.width = PIPE_WIDTH

    def print(self, *objects: Any, **options: Any) -> None:
        """As Rich does, but text is broken between words for a terminal, and not at all for a pipe."""
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
    made = Text()
    for part in parts:
        if isinstance(part, Text):
            made.append_text(part)
        else:
            text, style = (part, "") if isinstance(part, str) else part
            made.append(one_line(text), style)
    return made


def passage(text: str, style: str = "") -> Text:
    """A text that may have several lines."""
    return Text(printable(text), style)


def fitted(text: Text, width: int, indent: str = "") -> Text:
    """The text in lines that are broken between words. A word that is wider, such as a path, stays whole."""
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


def print_paragraph(text: str, stderr: bool = False) -> None:
    """Sentences in one line, which a terminal breaks between words and a pipe gets unbroken."""
    Screen(stderr).print(words(text))


def say(message: str) -> None:
    """A line on standard output that is never broken."""
    sys.stdout.write(printable(message) + "\n")


def complain(message: object) -> None:
    """A message on standard error about what went wrong."""
    if isinstance(sys.stderr, JsonLines):
        sys.stderr.add("error", str(message))
    else:
        log(f"gristmill: {message}")


def warn(message: str) -> None:
    """A warning of a run, at its end."""
    if isinstance(sys.stderr, JsonLines):
        sys.stderr.add("warning", message)
    else:
        print_paragraph(f"WARNING: {message}", stderr=True)


class LogHandler(logging.Handler):
    """Shows the log on standard error."""

    show: Callable[[str], None] | None = None
    """Where it goes while there is progress to show."""

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
    """Meanwhile what the library logs is shown, from INFO on."""
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

    def add(self, level: str, message: str, logger: str = "gristmill.cli", fields: Any = None) -> None:
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
    """A message on standard error, at once. Where a line is too long for a terminal, the rest of it is indented."""
    if isinstance(sys.stderr, JsonLines):
        sys.stderr.add("info", message)
        return
    text, screen = indented(message), Screen(stderr=True)
    log_as_it_is(fitted(Text(text), screen.width, "  ").plain if screen.is_fitted else text)


def log_as_it_is(text: str) -> None:
    """Lines on standard error that are laid out already."""
    if isinstance(sys.stderr, JsonLines):
        sys.stderr.add("error", text)
        return
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()


def print_json(value: Any) -> None:
    """One JSON object on one line, so that the last line of the output is always whole."""
    sys.stdout.write(json_text(value) + "\n")


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON that a terminal shows: what would steer it is escaped the way JSON escapes. Bytes are hexadecimal."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=_plain)
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return int(value) if isinstance(value, numbers.Integral) else str(value)


def read_line(prompt: str) -> str | None:
    """What a person types at a prompt, or the next line of a pipe, which sees none; None at its end."""
    if not sys.stdin.isatty():
        line = sys.stdin.buffer.readline().decode("utf-8", "replace")
        return line.rstrip("\n") if line else None
    with suppress(ImportError):
        import readline  # noqa: F401  # input() uses it: arrows and a history

    try:
        return input(prompt)
    except EOFError:
        say("")
        return None


def write_bytes(data: bytes) -> None:
    """Bytes as they are into a pipe or a file; on a terminal as text that does nothing."""
    stream = sys.stdout.stream if isinstance(sys.stdout, Guarded) else sys.stdout
    if stream.isatty():
        say(data.decode("utf-8", "backslashreplace"))
        return
    with printing():
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


def speaking(command: Callable[[], int | None]) -> int:
    """The exit code of a command. While it lasts, whatever this process prints is printable, whoever prints it.

    A reader that is gone (`| head`) ends the command in silence, with the code of a process that SIGPIPE ended.
    """
    before = guard_streams()
    if LOG_JSON in sys.argv[1:]:  # before the command line is read, which may be wrong
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
            complain(f"{failure}. What is finished is kept. Free some space, or print to another place, and run again.")
        return 2
    finally:
        sys.stdout, sys.stderr = before


def _hang_up() -> None:
    """What a stream cannot write now would be written at the end of the process, in vain: it goes nowhere."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except CannotPrint:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
