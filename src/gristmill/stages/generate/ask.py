"""Asks OpenAI-compatible servers, many requests at once, and stores each answer the moment it arrives.

Threads with one connection each take 0.16 ms of CPU per request; an asynchronous client (aiohttp) took 0.27 ms.

Which side is at fault decides what happens (law 9):

- The server is busy or gone (429, 502, 503, 504, no connection): it is left alone for as long as it says
  (`Retry-After`), or for twice as long each time. If no server answers for `patience_s`, the run stops.
- The server refuses everyone (401, 403, 404): the run stops at once.
- One request fails (a timeout, 400, 500, an answer that is no JSON, too large, or cut off): this counts only if the
  same server answers another request meanwhile, or a control request after it. Otherwise it counts as a fault of the
  server. A request that fails twice is tried once more, alone. If it fails again, the fault is stored as its answer.
"""

import contextlib
import http.client
import os
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from gristmill.errors import UserError
from gristmill.stages.calls import StoredAnswers
from gristmill.stages.generate.settings import GenerateConfig, RequestLimits

PATH = "/chat/completions"
FIRST_WAIT_S, MOST_WAIT_S = 0.25, 60.0
MOST_RETRY_AFTER_S = 3600.0
CONTROL = b"Answer with the word yes."
TOGETHER = 2
"""Attempts of a request next to others, before it is tried alone."""
EXCERPT = 200
READ_BYTES = 1 << 16


@dataclass(eq=False)
class Ask:
    """A request."""

    key: bytes
    fault_key: bytes
    """The key under which a fault of the request is stored."""
    body: bytes
    failures: int = 0


class Reply(NamedTuple):
    """A valid answer of a server."""

    text: str | None
    finish: str | None
    refusal: str | None
    prompt_tokens: int
    completion_tokens: int


class ServerFault(Exception):
    """A fault of a server; another server, or the same one later, may answer."""

    def __init__(self, fact: str, retry_after_s: float | None = None) -> None:
        super().__init__(fact)
        self.retry_after_s = retry_after_s


class FailedRequest(Exception):
    """A fault that may be due to the request."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


class Refused(UserError):
    """A server that refuses every request: the settings are wrong."""


@dataclass(eq=False)
class Server:
    """A server, and how it does."""

    address: str
    successes: int = 0
    failures: int = 0
    """In a row."""
    failing_since: float = 0.0
    resumes_at: float = 0.0
    last_fault: str = ""
    is_down: bool = False
    control: threading.Lock = field(default_factory=threading.Lock)


def api_key(config: GenerateConfig) -> str | None:
    """The API key in the environment. Raises UserError if it is not set."""
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env, "")
    if not key or not key.isascii() or not key.isprintable():
        raise UserError(
            f"The environment variable {config.api_key_env}, which api_key_env names, has no API key, so no request "
            "was sent. Set it where workers run, and run again."
        )
    return key


class Asker:
    """Sends requests to the servers of one step."""

    def __init__(self, config: GenerateConfig, addresses: Sequence[str], answers: StoredAnswers) -> None:
        self._config = config
        self._limits: RequestLimits = config.limits
        self._key = api_key(config)
        self._answers = answers
        self._servers = [Server(address) for address in addresses]
        self._pending: deque[Ask] = deque()
        self._suspects: list[Ask] = []
        self._busy = 0
        self._wake = threading.Condition()
        self._stop: BaseException | None = None
        self._writing = threading.Lock()
        self._connections = _Deadlines()
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
        with self._connections:
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
        if self._stop is not None:
            raise self._stop
        return self._found

    # Threads

    def _work(self, server: Server) -> None:
        link = _Link(server.address, self._limits, self._key, self._connections)
        try:
            while (ask := self._take(server)) is not None:
                try:
                    self._attempt(server, link, ask)
                finally:
                    with self._wake:
                        self._busy -= 1
                        self._wake.notify_all()
        except BaseException as error:
            self._end(error)
        finally:
            link.close()

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
                    self._stop = self._over_budget(len(self._pending))
                    if self._stop is not None:
                        break
                    self._busy += 1
                    return self._pending.popleft()
                self._wake.wait(wait_s if wait_s > 0 else None)
            self._wake.notify_all()
        return None

    def _attempt(self, server: Server, link: "_Link", ask: Ask) -> None:
        before = server.successes
        try:
            self._keep(ask, link.send(ask.body))
            self._succeeded(server)
        except ServerFault as fault:
            self._failed(server, ask, fault)
        except FailedRequest as fault:
            try:
                if server.successes == before:
                    self._send_control(server, link, before)
            except ServerFault as down:
                self._failed(server, ask, ServerFault(f"{fault}; then a control request: {down}"))
                return
            ask.failures += 1
            with self._wake:
                (self._pending if ask.failures < TOGETHER else self._suspects).append(ask)

    def _send_control(self, server: Server, link: "_Link", before: int) -> None:
        """Check that a server answers another request. Raises ServerFault if it does not."""
        with server.control:
            if server.successes != before:
                return
            try:
                link.send(self._control_body)
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
            if now - server.failing_since > self._limits.patience_s:
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
            while self._stop is None:
                server = min((one for one in self._servers if not one.is_down), key=lambda one: one.resumes_at)
                time.sleep(max(server.resumes_at - time.monotonic(), 0))
                link = _Link(server.address, self._limits, self._key, self._connections)
                try:
                    self._keep(ask, link.send(ask.body))
                    break
                except ServerFault as fault:
                    self._failed(server, ask, fault)
                except FailedRequest as fault:
                    try:
                        self._send_control(server, link, server.successes)
                    except ServerFault as down:
                        self._failed(server, ask, down)
                        continue
                    tries = (
                        f"{ask.failures + 1} times, the last time alone, while the server answered a control request"
                    )
                    self._add(ask, ask.fault_key, {"fault": fault.reason, "detail": f"{fault.detail}; {tries}"}, 0, 0)
                    break
                except BaseException as error:
                    self._end(error)
                finally:
                    link.close()

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
        return f"{answers:,} answers ({sent + said:,} tokens) are stored."

    def _over_budget(self, left: int) -> UserError | None:
        budget = self._config.budget
        if budget is None:
            return None
        sent, said, _ = self._answers.usage()
        tokens, money = sent + said, cost_of(sent, said, self._config)
        if (budget.tokens is None or tokens < budget.tokens) and (budget.money is None or money < budget.money):
            return None
        limit = f"{budget.tokens:,} tokens" if budget.money is None or money < budget.money else f"{budget.money:g}"
        return UserError(
            f"The budget of {limit} is spent, so the run stops with {left:,} requests of this part left. "
            f"{self._stored()} Raise budget and run again: only missing answers are requested."
        )


def cost_of(prompt_tokens: float, completion_tokens: float, config: GenerateConfig) -> float:
    """What the servers charge for some answers."""
    return (prompt_tokens * config.price.input + completion_tokens * config.price.output) / 1e6


class _Deadlines:
    """Ends connections that take too long: a server that sends a byte now and then never runs into an idle limit."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[float, Callable[[], None]]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.25):
            now = time.monotonic()
            for number, (ends, cut) in list(self._open.items()):
                if now > ends and self._open.pop(number, None) is not None:
                    cut()

    def begin(self, link: object, seconds: float, cut: Callable[[], None]) -> None:
        self._open[id(link)] = (time.monotonic() + seconds, cut)

    def end(self, link: object) -> bool:
        """Whether the connection was in time."""
        return self._open.pop(id(link), None) is not None


class _Link:
    """One connection to a server, kept open between requests."""

    def __init__(self, address: str, limits: RequestLimits, key: str | None, deadlines: _Deadlines) -> None:
        parts = urlsplit(address)
        self._host, self._path = parts.netloc, parts.path.rstrip("/") + PATH
        self._is_tls = parts.scheme == "https"
        self._limits, self._deadlines = limits, deadlines
        self._secret = None if key is None else key.encode()
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(self, body: bytes) -> Reply:
        """The answer to a request."""
        status, headers, data = self._exchange(body)
        if status == 200:
            return read_reply(data)
        said = data[:EXCERPT].decode("utf-8", "replace")
        if status in (429, 502, 503, 504):
            raise ServerFault(f"HTTP {status}", _retry_after_s(headers.get("Retry-After")))
        if status in (401, 403):  # without its text, which may repeat the key
            raise Refused(
                f"{self._host} refuses the API key (HTTP {status}), so the run stops. Stored answers are kept. Correct "
                "the variable that api_key_env names, and run again."
            )
        if status == 404 or 300 <= status < 400:
            raise Refused(
                f"{self._host}{self._path} answers with HTTP {status} ({said}), so the run stops. Stored answers are "
                "kept. Correct servers (up to and including /v1) or model, and run again."
            )
        raise FailedRequest("server_error" if status >= 500 else "request_rejected", f"HTTP {status}: {said}")

    def _exchange(self, body: bytes) -> tuple[int, http.client.HTTPMessage, bytes]:
        is_reused = self._connection is not None
        try:
            return self._once(body)
        except (ConnectionError, http.client.HTTPException, ssl.SSLError, OSError) as error:
            self.close()
            if is_reused and isinstance(error, ConnectionError | http.client.RemoteDisconnected):
                return self._exchange(body)  # the server closed a connection that was idle
            raise _as_fault(error) from None

    def _once(self, body: bytes) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = self._connection
        if connection is None:
            kind = http.client.HTTPSConnection if self._is_tls else http.client.HTTPConnection
            connection = self._connection = kind(self._host, timeout=self._limits.idle_s)
            try:
                connection.connect()
            except OSError as error:
                self.close()
                raise ServerFault(f"no connection ({error.strerror or type(error).__name__})") from None
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = connection.sock
        self._deadlines.begin(self, self._limits.total_s, lambda: _cut(sock))
        try:
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
            data = response.read(self._limits.answer_bytes + 1)
            if len(data) > self._limits.answer_bytes:
                self.close()
                raise FailedRequest("answer_too_large", f"more than {self._limits.answer_bytes:,} bytes")
        finally:
            in_time = self._deadlines.end(self)
            if not in_time:
                self.close()
        if not in_time:
            raise TimeoutError(f"not complete after {self._limits.total_s:g} s")
        if response.will_close:
            self.close()
        if self._secret is not None:  # a server may repeat what it was sent
            data = data.replace(self._secret, b"[API key]")
        return response.status, response.headers, data


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _as_fault(error: Exception) -> Exception:
    if isinstance(error, ssl.SSLError):
        return ServerFault(f"TLS: {error.reason or type(error).__name__}")
    if isinstance(error, TimeoutError):
        return FailedRequest("server_timeout", str(error) or "timed out")
    if isinstance(error, http.client.RemoteDisconnected):
        return FailedRequest("connection_lost", "the server closed the connection without an answer")
    return FailedRequest("connection_lost", type(error).__name__)


def _retry_after_s(value: str | None) -> float | None:
    """Seconds, from a number or a date; None if the server does not say."""
    if value is None:
        return None
    try:
        return (
            max(float(value), 0.0)
            if value.strip().isdigit()
            else max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
        )
    except (TypeError, ValueError, OverflowError):
        return None


def read_reply(data: bytes) -> Reply:
    """The answer in a response, read strictly. Raises FailedRequest."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FailedRequest("answer_not_utf8", f"byte {error.start:,}") from None
    try:
        value = orjson.loads(text)
        choice = value["choices"][0]
        message = choice["message"]
        said, finish, refusal = message.get("content"), choice.get("finish_reason"), message.get("refusal")
        if not all(one is None or isinstance(one, str) for one in (said, finish, refusal)):
            raise TypeError
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError, AttributeError):
        raise FailedRequest("answer_not_json", f"it begins with {text[:40]!r}") from None
    usage = value.get("usage")
    used = usage if isinstance(usage, dict) else {}
    return Reply(
        said, finish, refusal, _tokens(used.get("prompt_tokens")), _tokens(used.get("completion_tokens"), said or "")
    )


def _tokens(stated: Any, text: str = "") -> int:
    """The tokens that a server states, or one for every four bytes if it states none."""
    return stated if isinstance(stated, int) and 0 <= stated < 1 << 32 else -(-len(text.encode()) // 4)
