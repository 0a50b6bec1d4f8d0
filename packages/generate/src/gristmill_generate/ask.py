"""Asks OpenAI-compatible servers, many requests at once in threads, and stores each answer the moment it arrives.

Which side is at fault decides what happens (law 9):

- The server is busy or gone (429, 502, 503, 504, no connection): it is left alone for as long as it says
  (`Retry-After`), or for twice as long each time. If no server answers for `patience_s`, or all of them request a
  pause of more than an hour, the run stops.
- The server refuses everyone (401, 403, 404): the run stops at once.
- One request fails (a timeout, 400, 500, an answer that is no JSON, too large, or cut off): this counts only if the
  same server answers another request meanwhile, or a control request after it. Otherwise it counts as a fault of the
  server. A request that fails twice is tried once more, alone, and one that loses its connection several times more,
  with pauses. If it fails again, the fault is stored as its answer.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.stages.calls import StoredAnswers
from gristmill_generate.api_key import api_key
from gristmill_generate.connection import (
    LOST,
    FailedRequest,
    ModelAddress,
    Reply,
    ServerFault,
    without_images,
)
from gristmill_generate.settings import RequestConfig, RequestLimits

FIRST_WAIT_S, MOST_WAIT_S = 0.25, 60.0
MOST_RETRY_AFTER_S = 3600.0
CONTROL = b"Answer with the word yes."
TOGETHER = 2
"""Attempts of a request next to others, before it is tried alone."""
LOST_TRIES = 5
"""Attempts alone of a request that loses its connection; `patience_s` limits the pauses between them."""


@dataclass(eq=False)
class Ask:
    """A request."""

    key: bytes
    fault_key: bytes
    """The key under which a fault of the request is stored."""
    body: bytes
    failures: int = 0

    @property
    def text_bytes(self) -> int:
        """The bytes of its messages, from which a model's tokens are: not the keys, settings and escapes around them,
        which are a quarter of a short request.
        """
        contents = [message["content"] for message in orjson.loads(without_images(self.body))["messages"]]
        return sum(len(one.encode()) if isinstance(one, str) else sum(map(_part_bytes, one)) for one in contents)


@dataclass(eq=False)
class Server:
    """A server, and how it does."""

    address: str
    link: ModelAddress
    successes: int = 0
    failures: int = 0
    """In a row."""
    failing_since: float = 0.0
    resumes_at: float = 0.0
    last_fault: str = ""
    is_down: bool = False
    control: threading.Lock = field(default_factory=threading.Lock)


class _BudgetSpent(Exception):
    """The budget is spent: no more requests are sent."""


class Asker:
    """Sends requests to the servers of one step."""

    def __init__(
        self,
        config: RequestConfig,
        addresses: Sequence[str],
        answers: StoredAnswers,
        failure: Callable[[], tuple[str, str] | None] | None = None,
    ) -> None:
        """failure: says how the server of this worker ended, if it has, and its last output."""
        self._config = config
        self._failure = failure
        self._limits: RequestLimits = config.limits
        key = api_key(config)
        self._answers = answers
        self._servers = [Server(address, ModelAddress(address, config.limits, key)) for address in addresses]
        self._pending: deque[Ask] = deque()
        self._suspects: list[Ask] = []
        self._busy = 0
        self._wake = threading.Condition()
        self._stop: BaseException | None = None
        self._writing = threading.Lock()
        self._found: dict[bytes, tuple[bytes, Any]] = {}
        control = {"messages": [{"role": "user", "content": CONTROL.decode()}], "model": config.model, "max_tokens": 8}
        self._control_body = orjson.dumps(control)

    def ask(self, asks: Sequence[Ask]) -> dict[bytes, tuple[bytes, Any]]:
        """The stored answers of the requests, by key. Raises UserError if no server answers, or the budget is spent;
        what was answered until then is stored.
        """
        self._pending.extend(asks)
        most = min(self._config.concurrency, -(-len(asks) // len(self._servers)))
        threads = [
            threading.Thread(target=self._work, args=(server,), daemon=True)
            for _ in range(most)
            for server in self._servers
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException as error:
            self._end(error)
            raise
        if self._stop is None:
            self._try_alone()
        if isinstance(self._stop, _BudgetSpent):
            raise self._over_budget(str(self._stop))  # with the answers that were in progress
        if self._stop is not None:
            raise self._stop
        return self._found

    # Threads

    def _work(self, server: Server) -> None:
        try:
            while (ask := self._take(server)) is not None:
                try:
                    self._attempt(server, ask)
                finally:
                    with self._wake:
                        self._busy -= 1
                        self._wake.notify_all()
        except BaseException as error:
            self._end(error)

    def _end(self, error: BaseException) -> None:
        with self._wake:
            self._stop = self._stop or error
            self._wake.notify_all()

    def _take(self, server: Server) -> Ask | None:
        """The next request for a server; waits while the server is left alone. None: there is nothing more to do."""
        with self._wake:
            while self._stop is None and not server.is_down and (self._pending or self._busy):
                wait_s = server.resumes_at - time.monotonic()
                if self._pending and wait_s <= 0:
                    if (spent := self._spent_budget()) is not None:
                        self._stop = _BudgetSpent(spent)
                        break
                    self._busy += 1
                    return self._pending.popleft()
                self._wake.wait(wait_s if wait_s > 0 else None)
            self._wake.notify_all()
        return None

    def _attempt(self, server: Server, ask: Ask) -> None:
        before = server.successes
        try:
            self._keep(ask, server.link.send(ask.body))
            self._succeeded(server)
        except ServerFault as fault:
            self._failed(server, ask, fault)
        except FailedRequest as fault:
            try:
                if server.successes == before:
                    self._send_control(server, before)
            except ServerFault as down:
                self._failed(server, ask, ServerFault(f"{fault}; then a control request: {down}"))
                return
            ask.failures += 1
            with self._wake:
                (self._pending if ask.failures < TOGETHER else self._suspects).append(ask)

    def _send_control(self, server: Server, before: int) -> None:
        """Check that a server answers another request. Raises ServerFault if it does not."""
        with server.control:
            if server.successes != before:
                return
            try:
                server.link.send(self._control_body)
            except FailedRequest as fault:
                raise ServerFault(str(fault)) from None
            self._succeeded(server)

    def _succeeded(self, server: Server) -> None:
        with self._wake:
            server.successes += 1
            server.failures, server.resumes_at = 0, 0.0

    def _failed(self, server: Server, ask: Ask, fault: ServerFault) -> None:
        """Leave a server alone for a while; the request goes to another one, or waits."""
        with self._wake:
            now = time.monotonic()
            if not server.failures:
                server.failing_since = now
            if now >= server.resumes_at:  # requests that failed together count once
                server.failures += 1
                wait_s = min(FIRST_WAIT_S * 2 ** (server.failures - 1), MOST_WAIT_S)
                if fault.retry_after_s is not None:
                    wait_s = min(fault.retry_after_s, MOST_RETRY_AFTER_S)
                    server.failing_since += wait_s  # it said so, which is not silence
                server.resumes_at = now + wait_s
            server.last_fault = str(fault)
            self._pending.appendleft(ask)
            if self._failure is not None and (ended := self._failure()) is not None:
                self._stop = self._stop or UserError(
                    f"{ended[0]}, so the run stops. {self._stored()} Correct the command and run again: only missing "
                    f"answers are requested. Its last output: {ended[1]}"
                )
            is_long = (fault.retry_after_s or 0) > MOST_RETRY_AFTER_S
            if is_long:
                server.last_fault += f", and requests a pause of {fault.retry_after_s:,.0f} s"
            if is_long or now - server.failing_since > self._limits.patience_s:
                server.is_down = True
                if all(one.is_down for one in self._servers):
                    self._stop = self._stop or self._no_server()
            self._wake.notify_all()

    def _no_server(self) -> UserError:
        facts = "; ".join(f"{one.address}: {one.last_fault}" for one in self._servers)
        return UserError(
            f"No server of {self._config.model} answers ({facts}), so the run stops. {self._stored()} Start the "
            "server, or correct servers, and run again: only missing answers are requested."
        )

    def _try_alone(self) -> None:
        """Try requests that failed next to others again, one at a time."""
        for ask in self._suspects:
            begun, lost = time.monotonic(), 0
            while self._stop is None:
                server = min((one for one in self._servers if not one.is_down), key=lambda one: one.resumes_at)
                time.sleep(max(server.resumes_at - time.monotonic(), 0))
                try:
                    self._keep(ask, server.link.send(ask.body))
                    break
                except ServerFault as fault:
                    self._failed(server, ask, fault)
                except FailedRequest as fault:
                    try:
                        self._send_control(server, server.successes)
                    except ServerFault as down:
                        self._failed(server, ask, down)
                        continue
                    pause_s = FIRST_WAIT_S * 2**lost
                    ask.failures, lost = ask.failures + 1, lost + 1
                    has_time = time.monotonic() - begun + pause_s <= self._limits.patience_s
                    if fault.reason == LOST and lost < LOST_TRIES and has_time:
                        time.sleep(pause_s)
                        continue
                    tries = f"{ask.failures} times, the last time alone, while the server answered a control request"
                    self._add(ask, ask.fault_key, {"fault": fault.reason, "detail": f"{fault.detail}; {tries}"}, 0, 0)
                    break
                except BaseException as error:
                    self._end(error)

    # Storing

    def _keep(self, ask: Ask, reply: Reply) -> None:
        body = [reply.text, reply.finish, reply.refusal]
        self._add(ask, ask.key, body, reply.prompt_tokens, reply.completion_tokens)

    def _add(self, ask: Ask, key: bytes, body: Any, prompt_tokens: int, completion_tokens: int) -> None:
        with self._writing:
            stored = self._answers.add(key, body, prompt_tokens, completion_tokens)
        if not self._answers.is_immediate:
            with self._writing:
                self._answers.flush()  # everything that arrived while another thread was writing
        self._found[ask.key] = stored

    def _stored(self) -> str:
        sent, said, answers = self._answers.usage(0)
        are = "is" if answers == 1 else "are"
        return f"{counted(answers, 'answer')} ({counted(sent + said, 'token')}) {are} stored."

    def _spent_budget(self) -> str | None:
        """The budget, if it is spent."""
        budget = self._config.budget
        if budget is None:
            return None
        sent, said, _ = self._answers.usage()
        if budget.tokens is not None and sent + said >= budget.tokens:
            return counted(budget.tokens, "token")
        is_spent = budget.money is not None and cost_of(sent, said, self._config) >= budget.money
        return f"{budget.money:g}" if is_spent else None

    def _over_budget(self, spent: str) -> UserError:
        left = counted(len(self._pending) + len(self._suspects), "request")
        return UserError(
            f"The budget of {spent} is spent, so the run stops with {left} of this part left. "
            f"{self._stored()} Raise budget and run again: only missing answers are requested."
        )


def cost_of(prompt_tokens: float, completion_tokens: float, config: RequestConfig) -> float:
    """What the servers charge for some answers."""
    return (prompt_tokens * config.price.input + completion_tokens * config.price.output) / 1e6


def _part_bytes(part: dict[str, Any]) -> int:
    return len(part["text"].encode() if "text" in part else part["image_url"]["url"])
