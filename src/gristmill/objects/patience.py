"""Asking again: a store that is busy, slow or cut off for a moment is no reason to stop.

The wait before a new attempt is drawn from zero to a limit that doubles (full jitter): a thousand workers that were
refused at the same moment do not come back at the same moment.
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
"""Of one request: about half a minute of waiting in all, a minute at most."""
FIRST_TRIES = 3
"""Of one that nobody answers at all, of a store that has never answered this process: an address that is wrong."""
WAIT_SECONDS = 0.2
LONGEST_SECONDS = 20.0
WARN_TRIES = 5
"""After so many, some seconds, somebody is told what is waited for."""
WARN_AFTER_S = 5.0
"""After so many seconds, too: a server may take connections and say nothing."""
WARN_EVERY_S = 60.0
POLL_S = 0.2
"""Seconds between polls at whether the process is asked to stop."""
LAST_POLLS = 5
"""That a request has left then: what stops writes down how far it came."""
BUSY = (408, 425, 429)
"""Answers that mean: later. All from 500 on do, too, but for 501, which no waiting changes."""


HURRIED = threading.Event()
"""Set when the process is asked to stop: nothing is waited out any more."""


class _Listener:
    """Who wants to know of long waits in this process."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._warned_s = -WARN_EVERY_S

    def waits(self, uri: str, fault: "RequestFault") -> None:
        """Many requests wait at once, and one message is enough for all."""
        with self._lock:
            now = time.monotonic()
            if now - self._warned_s < WARN_EVERY_S:
                return
            self._warned_s = now
        self._note(
            f"{uri} does not do what it is asked ({fault.text}); waiting and asking again, for a minute at most",
            WARNING,
        )


_LOG = Log("objects")
_listener = _Listener(_LOG)


@contextmanager
def report_waits(note: Note) -> Iterator[None]:
    """Meanwhile `note` receives the long waits for an object store, of any thread; else the log does."""
    global _listener
    before, _listener = _listener, _Listener(note)
    try:
        yield
    finally:
        _listener = before


class Unreachable(UserError):
    """An object store that cannot be used, or not now. It is no fault of what lies there."""

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why = why

    def __reduce__(self) -> tuple[type["Unreachable"], tuple[str, str]]:
        return Unreachable, (str(self), self.why)


class RequestFault(NamedTuple):
    """What obstore says of a request that failed."""

    status: int | None
    """Of HTTP; None: there was no answer, or only half of one."""
    code: str
    """The store's own word for it (SlowDown, NoSuchBucket), or none."""
    text: str

    @property
    def is_answer(self) -> bool:
        """Whether somebody was there: with half of an answer, too."""
        return self.status is not None or "body error" in self.text

    @property
    def may_pass(self) -> bool:
        return self.status is None or self.status in BUSY or (self.status >= 500 and self.status != 501)


_CAUSES = {
    "connection refused": "connection refused",
    "dns error": "no machine of that name",
    "operation timed out": "no answer in time",
    "certificate": "its certificate is not accepted",
    "corrupt message": "it does not speak TLS",
}


def fault_of(error: BaseException) -> RequestFault:
    # obstore has one class for nearly all of them, and says the status and the body in its text; more behind it is
    # for those who work on obstore.
    text = str(error).split("\n\nDebug source")[0].strip()
    status = re.search(r"status code: (\d{3})", text)
    code, said = (re.search(rf"<{name}>([^<]*)</{name}>", text) for name in ("Code", "Message"))
    # Without the address, which is long, and the body, which is XML.
    short = re.sub(r"^Generic \w+ error: ", "", text.split("<?xml")[0].split("\n")[0]).strip(" :")
    cause = re.search(
        r"Connection refused|dns error|certificate|operation timed out|corrupt message", str(error), re.IGNORECASE
    )
    if cause and cause[0] not in short:
        short = f"{short} ({_CAUSES[cause[0].lower()]})"
    told = f"{code[1]}: {said[1]}" if code and said else short
    return RequestFault(int(status[1]) if status else None, code[1] if code else "", told)


class WaitStopped(Unreachable):
    """Nobody waits for the answer any more: the process is asked to stop."""

    def __init__(self, *_: str) -> None:
        super().__init__("An object store was not waited for, because the run is stopped.", "the run is stopped")


def stoppable(act: Callable[[], Answer]) -> Answer:
    """What `act` answers, in a thread of its own: a server that sends a byte a second keeps a request busy for minutes,
    and no signal is heard by the thread that is in it.
    """
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
    """What `act` answers. Faults that may pass are waited out, so many times; others, and the last one, become what
    `refused` makes of them (None: it is a bug, and shows itself). `uri` is what is said to be waited for.
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
                told = refused(fault)
                if told is None:
                    raise
                raise told from None
            count(retries=1)
            _LOG(f"{uri}: attempt {tries} failed ({fault.text})", DEBUG, uri=uri, attempt=tries)
            if tries >= WARN_TRIES or time.monotonic() - begun_s > WARN_AFTER_S:
                _listener.waits(uri, fault)
            HURRIED.wait(random.uniform(0, min(LONGEST_SECONDS, WAIT_SECONDS * 2**tries)))
