"""Serve an application on 127.0.0.1 until the process is stopped."""

import secrets
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from gristmill.errors import UserError
from gristmill.stopping import heeded
from gristmill_explore.app import PageGroup, create_app
from gristmill_explore.security import HOSTS, TOKEN


class ExplorerServer(uvicorn.Server):
    """Returns after a signal to stop. Uvicorn would raise the signal again, and nothing would be cleaned up."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in heeded()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class MemoryReleased:
    """ASGI middleware that returns freed memory to the system after every answer. Each page may read whole columns."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        pa.set_memory_pool(pa.system_memory_pool())  # its `release_unused` trims the heap of the C library

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        pa.default_memory_pool().release_unused()


def serve(title: str, groups: Sequence[PageGroup], port: int, tell: Callable[[str], None]) -> None:
    """Serve pages; `tell` gets the address once the port is open. Port 0 is any free port."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOSTS[0], port))
        except OSError as error:
            raise UserError(
                f"Port {port} of {HOSTS[0]} cannot be opened ({error.strerror}), so nothing is served. "
                "Name another port, or 0 for any free one."
            ) from None
        listener.listen()
        port, token = listener.getsockname()[1], secrets.token_urlsafe(32)
        app = MemoryReleased(create_app(title, groups, token, port))
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, server_header=False, ws="none", lifespan="off"
        )
        tell(f"http://{HOSTS[0]}:{port}/?{TOKEN}={token}")
        ExplorerServer(config).run([listener])
