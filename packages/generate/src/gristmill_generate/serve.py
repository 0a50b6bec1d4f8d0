"""Starts the server of a model in a worker, waits until it is ready, and stops it."""

import http.client
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from gristmill.errors import UserError
from gristmill_generate import guard
from gristmill_generate.api_key import KeyRemover
from gristmill_generate.settings import Serve

POLL_S = 0.2
TAIL_LENGTH = 2000


class LocalServer:
    """A server of this worker; it starts when its address is first needed."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._address = ""

    def address(self, key: str | None = None) -> str:
        """The address of the running server. If it does not start, its output is shown without the API key."""
        if self._process is None or self._process.poll() is not None:
            self._start(KeyRemover(key))
        return self._address

    def _start(self, remover: KeyRemover) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [one.replace("{port}", str(port)) for one in self._serve.command]
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, str(Path(guard.__file__)), *command],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
        )
        self._address = f"http://127.0.0.1:{port}/v1"
        ends = time.monotonic() + self._serve.ready_s
        while not self._is_ready(port):
            code = self._process.poll()
            if code is not None or time.monotonic() > ends:
                fact = (
                    f"ended with exit code {code}"
                    if code is not None
                    else f"is not ready after {self._serve.ready_s:g} s"
                )
                tail = self._tail(remover)
                self.stop()
                raise UserError(
                    f"serve.command ({command[0]}) {fact}, so nothing can be generated. Stored answers are kept. "
                    f"Correct the command and run again. Its last output: {tail}"
                )
            time.sleep(POLL_S)

    def failure(self, key: str | None = None) -> tuple[str, str] | None:
        """What happened to the server if it has ended, and its last output without the API key."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return None
        return f"serve.command ({self._serve.command[0]}) ended with exit code {code}", self._tail(KeyRemover(key))

    def _is_ready(self, port: int) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", self._serve.health)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _tail(self, remover: KeyRemover) -> str:
        assert self._output is not None
        size = self._output.seek(0, 2)
        self._output.seek(max(size - 2 * TAIL_LENGTH, 0))  # a key at the cut is whole
        text = remover.clean(self._output.read().decode("utf-8", "replace"))
        return text[-TAIL_LENGTH:].strip() or "none"

    def stop(self) -> None:
        """Stop the server, if it runs: its guard ends it when the pipe closes."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None
