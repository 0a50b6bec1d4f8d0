"""Requests to an OpenAI-compatible server: limits in seconds and bytes, and which side a fault belongs to.

Each request has its own connection, so that nothing of one answer can reach the next: models take seconds, a
connection takes a millisecond. httpcore (the transport of httpx) follows no redirect, uses no proxy of the environment
and decompresses nothing.
"""

import re
import ssl
import time
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpcore
import orjson

from gristmill.errors import UserError
from gristmill_generate.api_key import KeyRemover
from gristmill_generate.settings import RequestLimits

PATH = "/chat/completions"
LOST = "connection_lost"
MOST_EXCERPT = 200
MOST_TOKENS = 1 << 24
"""No model reads or writes more in one request."""
_WRITE_BYTES = 1 << 16
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


class _Timed(httpcore.NetworkStream):
    """A connection that ends at a time: a server that sends a byte now and then never runs into an idle limit."""

    def __init__(self, stream: httpcore.NetworkStream, ends: float) -> None:
        self._stream, self._ends = stream, ends

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _WRITE_BYTES):
            self._stream.write(buffer[start : start + _WRITE_BYTES], self._left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Timed(self._stream.start_tls(ssl_context, server_hostname, self._left(timeout)), self._ends)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def _left(self, timeout: float | None) -> float:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left if timeout is None else min(left, timeout)


class _TimedBackend(httpcore.SyncBackend):
    def __init__(self, ends: float) -> None:
        self._ends = ends

    def connect_tcp(self, *where: Any, **more: Any) -> httpcore.NetworkStream:
        return _Timed(super().connect_tcp(*where, **more), self._ends)


class ModelAddress:
    """A server, and how to send it a request. The API key goes to it only."""

    def __init__(self, address: str, limits: RequestLimits, key: str | None) -> None:
        parts = urlsplit(address)
        self._host, self._path = parts.netloc, parts.path.rstrip("/") + PATH
        host = (parts.hostname or "").encode("idna")
        self._url = httpcore.URL(scheme=parts.scheme, host=host, port=parts.port, target=self._path)
        self._limits, self._remover = limits, KeyRemover(key)
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._headers = [
            (b"Host", self._host.encode("idna")),
            (b"Connection", b"close"),
            (b"Accept-Encoding", b"identity"),
            (b"Content-Type", b"application/json"),
            (b"Accept", b"application/json"),
            *([] if key is None else [(b"Authorization", b"Bearer " + key.encode())]),
        ]

    def send(self, body: bytes) -> Reply:
        """The answer to a request."""
        status, headers, data = self._exchange(body)
        if status == 200:
            return read_reply(data, self._remover, body)
        if status in (429, 502, 503, 504):
            raise ServerFault(f"HTTP {status}", retry_after_s(headers.get("retry-after"), headers.get("date")))
        if status in (401, 403):  # without its text, which may repeat the key
            raise Refused(
                f"{self._host} refuses the API key (HTTP {status}), so the run stops. Stored answers are kept. Correct "
                "the variable that api_key_env names, and run again."
            )
        said = excerpt(data.decode("utf-8", "replace"), MOST_EXCERPT, self._remover)
        if status == 404 or 300 <= status < 400:
            raise Refused(
                f"{self._host}{self._path} answers with HTTP {status} ({said}), so the run stops. Stored answers are "
                "kept. Correct servers (up to and including /v1) or model, and run again."
            )
        raise FailedRequest("server_error" if status >= 500 else "request_rejected", f"HTTP {status}: {said}")

    def _exchange(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        limits, ends = self._limits, time.monotonic() + self._limits.total_s
        seconds = dict.fromkeys(("connect", "read", "write"), limits.idle_s)
        connection = httpcore.HTTPConnection(self._url.origin, self._ssl, network_backend=_TimedBackend(ends))
        headers = [*self._headers, (b"Content-Length", b"%d" % len(body))]
        try:
            with (
                connection,
                connection.stream(
                    "POST", self._url, headers=headers, content=body, extensions={"timeout": seconds}
                ) as response,
            ):
                data = bytearray()
                for chunk in response.iter_stream():
                    data += chunk
                    if len(data) > limits.answer_bytes:
                        raise FailedRequest("answer_too_large", f"more than {limits.answer_bytes:,} bytes")
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            raise ServerFault(f"no connection ({_why(error)})") from None
        except httpcore.TimeoutException:
            is_over = time.monotonic() >= ends
            fact = f"not complete after {limits.total_s:g} s" if is_over else "timed out"
            raise FailedRequest("server_timeout", fact) from None
        except (httpcore.NetworkError, httpcore.ProtocolError):  # whose text may repeat the key
            raise FailedRequest(LOST, "the answer was cut off, or is not HTTP") from None
        fields = {name.decode("iso-8859-1").lower(): value for name, value in reversed(response.headers)}
        return response.status, {name: value.decode("iso-8859-1") for name, value in fields.items()}, bytes(data)


def _why(error: Exception) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):
        return f"TLS: {cause.reason or type(cause).__name__}"
    return getattr(cause, "strerror", None) or "timed out"


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
        return min(max(parsedate_to_datetime(value).timestamp() - now, 0.0), _MOST_PAUSE_S)
    except (TypeError, ValueError, OverflowError):
        return None


def excerpt(text: str, most: int, remover: KeyRemover) -> str:
    """The first characters of a text that a server sent, as one line for a message. The key is replaced before the cut,
    so that no part of it is left; without zero bytes, UTF-16 cannot hide it.
    """
    return " ".join(remover.clean(text.replace("\0", "")).split())[:most]


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
    said, finish = (None if one is None else remover.clean(one) for one in (said, finish))
    refusal = None if refusal is None else excerpt(refusal, MOST_EXCERPT, remover)
    sent = _tokens(used.get("prompt_tokens"), without_images(request))
    return Reply(said, finish, refusal, sent, _tokens(used.get("completion_tokens"), (said or "").encode()))


def without_images(body: bytes) -> bytes:
    """A request in which each image is as long as the text that has as many tokens."""
    return _IMAGE.sub(b'"%s"' % (b" " * IMAGE_BYTES), body)


def _tokens(stated: Any, data: bytes) -> int:
    """The tokens that a server states; one for every four bytes if it states no plausible whole number."""
    return stated if type(stated) is int and 0 < stated <= MOST_TOKENS else -(-len(data) // 4)
