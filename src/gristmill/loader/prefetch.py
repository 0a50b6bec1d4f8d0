"""Threads that prepare batches ahead of use: in order, bounded, and ended when the consumer is gone."""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gristmill.errors import UserError

T = TypeVar("T")


@dataclass
class Waits:
    """How long the consumer waited."""

    batches: int = 0
    starved_batches: int = 0
    """Batches that were not ready when requested, except the first of a run."""
    starved_seconds: float = 0.0
    first_seconds: float = 0.0
    """Seconds until the first batch of a run: start-up, not starvation."""
    running_seconds: float = 0.0
    """Seconds from the first batch to the latest."""


@dataclass
class _PrefetchState:
    """The state that threads and consumer share. Threads reference nothing else, so an unused consumer is collected."""

    make: Callable[[int], object]
    next: int
    stop: int
    stride: int
    depth: int
    taken: int
    ready: dict[int, tuple[object, BaseException | None]] = field(default_factory=dict)
    closed: bool = False
    reason: str = ""
    """Why it was closed, if the consumer was not at the end and must get an error."""
    change: threading.Condition = field(default_factory=threading.Condition)


def _work(shared: _PrefetchState) -> None:
    while True:
        with shared.change:
            while not shared.closed and shared.next < shared.stop and shared.next >= shared.taken + shared.depth:
                shared.change.wait()
            if shared.closed or shared.next >= shared.stop:
                return
            number = shared.next
            shared.next += shared.stride
        try:
            result: tuple[object, BaseException | None] = (shared.make(number), None)
        except BaseException as error:  # any error must reach the consumer, which would wait forever otherwise
            result = (None, error)
        with shared.change:
            if not shared.closed:
                shared.ready[number] = result
            shared.change.notify_all()
            if result[1] is not None:
                return
        del result


def _end(shared: _PrefetchState, threads: list[threading.Thread]) -> None:
    """End the threads. A busy thread ends after its work; we wait at most a second for it."""
    with shared.change:
        shared.closed = True
        shared.ready.clear()
        shared.change.notify_all()
    for thread in threads:
        if thread is not threading.current_thread() and thread.ident is not None:
            thread.join(1.0)


class Prefetch(Generic[T]):
    """Yields make(first), make(first + stride), … below `stop`, in order, at most `depth` ahead (0 threads: none)."""

    def __init__(
        self, make: Callable[[int], T], first: int, stop: int, stride: int, threads: int, depth: int, waits: Waits
    ) -> None:
        self._shared = _PrefetchState(make, first, stop, stride, max(depth, threads, 1) * stride, first)
        self._waits = waits
        self._begun: float | None = None
        self._process = os.getpid()
        self._threads = [
            threading.Thread(target=_work, args=(self._shared,), name=f"gristmill-loader-{number}", daemon=True)
            for number in range(threads)
        ]
        # Runs once: at close, when this is collected, or before the interpreter exits. The threads must end then, and
        # the lock must not be taken again: a thread that the interpreter stops may hold it forever.
        self._ending = weakref.finalize(self, _end, self._shared, self._threads)
        for thread in self._threads:
            thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if os.getpid() != self._process:
            raise UserError(
                "This iterator was started before a fork, and its threads do not exist in this process. "
                "Start the loop, or open the loader, after the fork."
            )
        shared = self._shared
        number = shared.taken
        if shared.closed or number >= shared.stop:
            self.close()
            raise self._over()
        start = time.perf_counter()
        if self._threads:
            with shared.change:
                late = number not in shared.ready
                while number not in shared.ready and not shared.closed:
                    shared.change.wait()
                if shared.closed:
                    raise self._over()
                result, error = shared.ready.pop(number)
                shared.taken += shared.stride
                shared.change.notify_all()
        else:
            late, error, result = True, None, shared.make(number)
            shared.taken += shared.stride
        self._count(start, late)
        if error is not None:
            self.close()
            raise error
        return result  # type: ignore[return-value]

    def close(self, reason: str = "") -> None:
        """End the threads; further calls do nothing. The next request of the consumer raises the reason."""
        if self._ending.alive and self._shared.taken < self._shared.stop:
            self._shared.reason = reason
        self._ending()

    def _over(self) -> Exception:
        return UserError(self._shared.reason) if self._shared.reason else StopIteration()

    def _count(self, start: float, late: bool) -> None:
        now, waits = time.perf_counter(), self._waits
        waits.batches += 1
        if self._begun is None:
            waits.first_seconds += now - start
        else:
            waits.running_seconds += now - self._begun
            waits.starved_batches += late
            waits.starved_seconds += now - start if late else 0.0
        self._begun = now
