"""One connection to an OpenAI-compatible server: limits in seconds and bytes, and which side a fault belongs to."""

import contextlib
import http.client
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from gristmill.errors import UserError
from gristmill_generate.api_key import KeyRemover
from gristmill_generate.settings import RequestLimits

PATH = "/chat/completions"
LOST = "connection_lost"
MOST_EXCERPT = 200
MOST_TOKENS = 1 << 24
"""No model reads or writes more in one request."""
_MOST_LENGTH_DIGITS = 18
_IMAGE = re.compile(rb'"data:image/[a-z]+;base64,[^"]*"')
IMAGE_BYTES = 10_000
"""What the image of a page counts where tokens are estimated: 2,500 tokens of four bytes, as many as Qwen2.5-VL makes
of a page at 150 dots per inch."""


_MOST_PAUSE_S = 1e6
"""A pause that is longer, which no server means, is shown as this."""
FINISHED = frozenset(("stop", "length", "content_filter", "tool_calls", "eos_token", "stop_sequence"))
"""How servers say that an answer has ended; any other word means that it was broken off."""


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


class Deadlines:
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


class _Response(http.client.HTTPResponse):
    """A response with its headers in a plain dictionary, by name in lower case: Python's parser of mail headers took a
    third of the CPU time of a request. Of headers with one name, the first one counts.

    Its chunks have sizes: Python reads a chunk of -1 bytes to the end of the connection.
    """

    fields: dict[str, str]

    def begin(self) -> None:
        status = 100
        while status == 100:
            version, status, self.reason = self._read_status()  # type: ignore[attr-defined]
            lines = http.client._read_headers(self.fp)  # type: ignore[attr-defined]
        self.code = self.status = status
        self.version = 10 if version in ("HTTP/1.0", "HTTP/0.9") else 11
        fields: dict[str, str] = {}
        for line in lines:
            name, _, value = line.decode("iso-8859-1").partition(":")
            fields.setdefault(name.lower(), value.strip())
        self.fields = self.headers = self.msg = fields  # type: ignore[assignment]
        self.chunked = fields.get("transfer-encoding", "").lower() == "chunked"
        self.chunk_left = None
        self.length = None
        size = fields.get("content-length", "")
        if not self.chunked and size.isascii() and size.isdigit() and len(size) <= _MOST_LENGTH_DIGITS:
            self.length = int(size)
        if status in (204, 304) or 100 <= status < 200:
            self.length = 0
        has_end = self.chunked or self.length is not None
        self.will_close = self._check_close() or not has_end  # type: ignore[attr-defined]

    def _read_next_chunk_size(self) -> int:
        size: int = super()._read_next_chunk_size()  # type: ignore[misc]
        if size < 0:
            raise http.client.HTTPException("a chunk has a negative size")
        return size


class ModelConnection:
    """One connection to a server, kept open between requests. It follows no redirect and uses no proxy of the
    environment, so the API key goes to that server only.
    """

    def __init__(self, address: str, limits: RequestLimits, key: str | None, deadlines: Deadlines) -> None:
        parts = urlsplit(address)
        self._host, self._path = parts.netloc, parts.path.rstrip("/") + PATH
        self._is_tls = parts.scheme == "https"
        self._limits, self._deadlines = limits, deadlines
        self._remover = KeyRemover(key)
        lines = [
            f"POST {self._path} HTTP/1.1",
            f"Host: {self._host.encode('idna').decode()}",
            "Accept-Encoding: identity",
            "Content-Type: application/json",
            "Accept: application/json",
            *([] if key is None else [f"Authorization: Bearer {key}"]),
            "Content-Length: ",
        ]
        self._head = "\r\n".join(lines).encode("iso-8859-1")
        self._connection: http.client.HTTPConnection | None = None
        self._readable = select.poll()
        """Whether the connection, without a request in progress, has something to read."""

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(self, body: bytes) -> Reply:
        """The answer to a request."""
        status, headers, data = self._exchange(body)
        if status == 200:
            return read_reply(data, self._remover, body)
        said = excerpt(data.decode("utf-8", "replace"), MOST_EXCERPT, self._remover)
        if status in (429, 502, 503, 504):
            raise ServerFault(f"HTTP {status}", retry_after_s(headers.get("retry-after"), headers.get("date")))
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

    def _exchange(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        is_reused = self._connection is not None
        try:
            return self._once(body)
        except (ConnectionError, http.client.HTTPException, ssl.SSLError, OSError) as error:
            self.close()
            if is_reused and isinstance(error, ConnectionError | http.client.RemoteDisconnected):
                return self._exchange(body)  # the server closed a connection that was idle
            raise _as_fault(error) from None

    def _once(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if self._connection is not None and self._readable.poll(0):
            self.close()  # by the server, or it sent more than one answer, and the rest is of no request
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
            self._readable = select.poll()
            self._readable.register(connection.sock, select.POLLIN)
        sock = connection.sock
        self._deadlines.begin(self, self._limits.total_s, lambda: _cut(sock))
        try:
            sock.sendall(b"%s%d\r\n\r\n%s" % (self._head, len(body), body))
            response = _Response(sock, method="POST")
            response.begin()
            data = response.read(self._limits.answer_bytes + 1)
            if len(data) > self._limits.answer_bytes:
                self.close()
                raise FailedRequest("answer_too_large", f"more than {self._limits.answer_bytes:,} bytes")
            if response.length:  # `read` returns what came before the end of the connection
                raise http.client.IncompleteRead(data, response.length)
        finally:
            if not self._deadlines.end(self):  # whatever the cut connection looked like
                self.close()
                raise TimeoutError(f"not complete after {self._limits.total_s:g} s")
        if response.will_close:
            self.close()
        return response.status, response.fields, data


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _as_fault(error: Exception) -> Exception:
    if isinstance(error, ssl.SSLError):
        return ServerFault(f"TLS: {error.reason or type(error).__name__}")
    if isinstance(error, TimeoutError):
        return FailedRequest("server_timeout", str(error) or "timed out")
    if isinstance(error, http.client.RemoteDisconnected):
        return FailedRequest(LOST, "the server closed the connection without an answer")
    if isinstance(error, http.client.IncompleteRead):
        return FailedRequest(LOST, "the answer was cut off")
    return FailedRequest(LOST, type(error).__name__)


def retry_after_s(value: str | None, date: str | None) -> float | None:
    """Seconds, from a number or a date; None if the server does not say. A date is compared with the `Date` of the same
    response, since the two clocks may differ.
    """
    if value is None:
        return None
    try:
        if value.strip().isdigit():
            return min(float(value), _MOST_PAUSE_S)
        now = time.time() if date is None else parsedate_to_datetime(date).timestamp()
        return max(parsedate_to_datetime(value).timestamp() - now, 0.0)
    except (TypeError, ValueError, OverflowError):
        return None


def excerpt(text: str, most: int, remover: KeyRemover) -> str:
    """The first characters of a text that a server sent, for a message. The key is replaced before the cut, so that no
    part of it is left; without zero bytes, UTF-16 cannot hide it.
    """
    return remover.clean(text.replace("\0", ""))[:most]


def read_reply(data: bytes, remover: KeyRemover, request: bytes) -> Reply:
    """The answer in a response, read strictly. A server may repeat the API key that it was sent: the key
    is replaced in the decoded texts, since JSON can write it in many ways. Raises FailedRequest.
    """
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
        raise FailedRequest("answer_not_json", f"it begins with {excerpt(text, 40, remover)!r}") from None
    if finish is not None and finish not in FINISHED:  # vLLM ends requests with "abort" when it shuts down
        raise FailedRequest("answer_unfinished", f"finish_reason {excerpt(finish, 40, remover)!r}")
    usage = value.get("usage")
    used = usage if isinstance(usage, dict) else {}
    said, finish, refusal = (None if one is None else remover.clean(one) for one in (said, finish, refusal))
    sent = _tokens(used.get("prompt_tokens"), without_images(request))
    return Reply(said, finish, refusal, sent, _tokens(used.get("completion_tokens"), (said or "").encode()))


def without_images(body: bytes) -> bytes:
    """A request in which each image is as long as the text that has as many tokens."""
    return _IMAGE.sub(b'"%s"' % (b" " * IMAGE_BYTES), body)


def _tokens(stated: Any, data: bytes) -> int:
    """The tokens that a server states; one for every four bytes if it states no plausible whole number."""
    return stated if type(stated) is int and 0 < stated <= MOST_TOKENS else -(-len(data) // 4)
