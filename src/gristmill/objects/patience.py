"""Retries: a store that is busy, slow or unreachable for a moment does not stop a run.

The wait before a retry is random, between half and all of a limit that doubles each time, so that a thousand workers
that failed together do not retry together, and none gives up a store that is away for half a minute.
"""

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from gristmill.errors import UserError
from gristmill.log import DEBUG, WARNING, Log, Note
from gristmill.objects.requests import count

Answer = TypeVar("Answer")

TRIES = 10
"""Attempts of one request: 42 to 85 seconds of waiting in total."""
FIRST_TRIES = 3
"""Attempts if this store has never answered this run: its address is probably wrong."""
WAIT_SECONDS = 0.2
LONGEST_SECONDS = 20.0
WARN_TRIES = 5
"""After this many attempts, which take some seconds, the user is warned about the wait."""
WARN_AFTER_S = 5.0
"""The user is also warned after this many seconds: a server may accept connections and never answer."""
WARN_EVERY_S = 60.0
POLL_S = 0.2
"""Seconds between checks whether the process should stop."""
LAST_POLLS = 5
"""Checks that a request may still take after that, so that a run that stops can write its record."""
BUSY = (408, 425, 429)
"""HTTP statuses that are worth a retry. All from 500 on are too, except 501, which is permanent."""


HURRIED = threading.Event()
"""Set when the process should stop: retries end at once."""
IN_RUN = threading.Event()
"""Set in a worker: the stores have answered the process that started it, so their addresses are right."""


class _Listener:
    """Reports long waits of this process to a function."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._warned_s = -WARN_EVERY_S

    def waits(self, uri: str, fault: "RequestFault") -> None:
        """Report a wait, unless one was reported a moment ago: many requests wait at the same time."""
        with self._lock:
            now = time.monotonic()
            if now - self._warned_s < WARN_EVERY_S:
                return
            self._warned_s = now
        self._note(
            f"requests to {uri} fail ({fault.text}); retrying for about a minute",
            WARNING,
        )


_LOG = Log("objects")
_listener = _Listener(_LOG)


@contextmanager
def report_waits(note: Note) -> Iterator[None]:
    """Within this context, `note` receives reports of long waits of any thread; otherwise the log does."""
    global _listener
    before, _listener = _listener, _Listener(note)
    try:
        yield
    finally:
        _listener = before


class Unreachable(UserError):
    """An object store cannot be used, at least not now. Its data is not damaged."""

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why = why

    def __reduce__(self) -> tuple[type["Unreachable"], tuple[str, str]]:
        return Unreachable, (str(self), self.why)


class RequestFault(NamedTuple):
    """A failed request, as obstore reports it."""

    status: int | None
    """The HTTP status; None if there was no complete answer."""
    code: str
    """The error code of the store (SlowDown, NoSuchBucket), or an empty string."""
    text: str

    @property
    def is_answer(self) -> bool:
        """Whether the server answered at all, even incompletely."""
        return self.status is not None or "body error" in self.text

    @property
    def may_pass(self) -> bool:
        return self.status is None or self.status in BUSY or (self.status >= 500 and self.status != 501)


_CAUSES = {
    "connection refused": "connection refused",
    "dns error": "unknown host",
    "operation timed out": "no answer in time",
    "certificate": "its certificate is not trusted",
    "corrupt message": "it does not speak TLS",
}


def fault_of(error: BaseException) -> RequestFault:
    # obstore uses one class for nearly all errors; its text has the status and the body. The rest of the text is debug
    # output.
    text = str(error).split("\n\nDebug source")[0].strip()
    status = re.search(r"status code: (\d{3})", text)
    code, said = (re.search(rf"<{name}>([^<]*)</{name}>", text) for name in ("Code", "Message"))
    # Leave out the URL, which is long, and the body, which is XML.
    short = re.sub(r"^Generic \w+ error: ", "", text.split("<?xml")[0].split("\n")[0]).strip(" :")
    cause = re.search(
        r"Connection refused|dns error|certificate|operation timed out|corrupt message", str(error), re.IGNORECASE
    )
    if cause and cause[0] not in short:
        short = f"{short} ({_CAUSES[cause[0].lower()]})"
    description = f"{code[1]}: {said[1]}" if code and said else short
    return RequestFault(int(status[1]) if status else None, code[1] if code else "", description)


class WaitStopped(Unreachable):
    """A request was abandoned because the process should stop."""

    def __init__(self, *_: str) -> None:
        super().__init__(
            "A request to an object store was abandoned because the run was stopped.", "the run was stopped"
        )


def stoppable(act: Callable[[], Answer]) -> Answer:
    """Call `act` in another thread: a slow server can block it for minutes, and a blocked thread misses signals."""
    answers: list[Answer] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            answers.append(act())
        except BaseException as error:
            errors.append(error)
        done.set()

    threading.Thread(target=work, name="gristmill-request", daemon=True).start()
    polls = 0
    while not done.wait(POLL_S):
        polls += HURRIED.is_set()
        if polls > LAST_POLLS:
            raise WaitStopped
    if errors:
        raise errors[0]
    return answers[0]


def patiently(
    act: Callable[[], Answer], refused: Callable[[RequestFault], Exception | None], has_answered: bool, uri: str
) -> Answer:
    """Call `act` and retry after temporary faults, up to TRIES times. A permanent fault, or the last one, becomes the
    exception that `refused` returns; if it returns None, the original error is raised. `uri` is named in messages.
    """
    from obstore.exceptions import BaseError

    tries, answered, begun_s = 0, has_answered, time.monotonic()
    while True:
        tries += 1
        try:
            return stoppable(act)
        except (FileNotFoundError, FileExistsError):
            raise
        except (BaseError, OSError) as error:
            fault = fault_of(error)
            answered = answered or fault.is_answer
            if not fault.may_pass or HURRIED.is_set() or tries >= (TRIES if answered else FIRST_TRIES):
                exception = refused(fault)
                if exception is None:
                    raise
                raise exception from None
            count(retries=1)
            _LOG(f"{uri}: attempt {tries} failed ({fault.text})", DEBUG, uri=uri, attempt=tries)
            if tries >= WARN_TRIES or time.monotonic() - begun_s > WARN_AFTER_S:
                _listener.waits(uri, fault)
            limit = min(LONGEST_SECONDS, WAIT_SECONDS * 2**tries)
            HURRIED.wait(random.uniform(limit / 2, limit))
