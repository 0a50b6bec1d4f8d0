"""A real HTTP server that answers like a language model: deterministic answers, and every kind of misbehaviour.

It runs in a thread. The answer to a text depends on the request alone. `requests` has the bodies in order of arrival,
`answered` the number of times that each body was answered in full.
"""

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Say = Callable[[dict[str, Any], "Handler"], "str | bytes | int | dict[str, Any] | None"]
"""Decides on a request: a text to answer with, raw bytes, a status, a whole response body, or None (it did it all)."""


def words_of(body: dict[str, Any]) -> str:
    """A deterministic answer."""
    text = json.dumps(body, sort_keys=True)
    return f"Generated {hashlib.sha256(text.encode()).hexdigest()[:16]} from {body['messages'][-1]['content'][-30:]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "ModelServer"

    def do_GET(self) -> None:
        self.reply(200, b"{}")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(raw)
        with self.server.lock:
            self.server.requests.append(body)
            self.server.bodies.append(raw)
            self.server.headers.append(dict(self.headers))
        said = self.server.say(body, self)
        if isinstance(said, bytes):
            self.reply(200, said)
        elif isinstance(said, int):
            self.reply(said, b'{"error": "no"}')
        elif said is not None:
            if isinstance(said, str):
                said = completion(said)
            self.reply(200, json.dumps(said).encode())
            with self.server.lock:
                self.server.answered[raw] += 1

    def reply(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def raw(self, data: bytes) -> None:
        """Send the rest of a response as it is, and close the connection."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\n" + data)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


def completion(text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """The body of an answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return {"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}


class ModelServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, say: Say) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.say = say
        self.lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.answered: Counter[bytes] = Counter()
        self.over = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, *_: Any) -> None:
        """A client that goes away is no news."""

    def settle(self) -> None:
        """Wait until no request has come for a while: workers of a killed run may outlive it."""
        before = -1
        while len(self.bodies) != before:
            before = len(self.bodies)
            self.over.wait(1.0)

    @property
    def texts(self) -> list[str]:
        """The user messages, in order of arrival."""
        return [body["messages"][-1]["content"] for body in self.requests]


def plain(body: dict[str, Any], _: Handler) -> str:
    return words_of(body)


@contextmanager
def serving(say: Say = plain) -> Iterator[ModelServer]:
    """A running server."""
    server = ModelServer(say)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


def drip(handler: Handler, every_s: float = 0.05) -> None:
    """Send a byte now and then, forever."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not handler.server.over.wait(every_s):
        try:
            handler.wfile.write(b" ")
            handler.wfile.flush()
        except OSError:
            return


def hang(handler: Handler) -> None:
    """Never answer."""
    handler.server.over.wait()
    handler.close_connection = True
