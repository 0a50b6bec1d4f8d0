"""Asking a model server: CPU time and memory of the client per request.

`REQUESTS=1000000 python -m bench generate` sends as many tiny requests to a local server in another process, through
the step's own code: cutting, prompts, hashes, HTTP, storing, children.
"""

import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from bench.inputs import measurement, scratch

from gristmill.store.answers import AnswerLog
from gristmill.store.store import Store
from gristmill_generate import generate
from gristmill_generate.settings import ready_path

REQUESTS = int(os.environ.get("REQUESTS", "20000"))
PER_BATCH, PER_TASK = 5_000, 100_000
CONCURRENCY = 8

SERVER = r"""
import asyncio, sys
BODY = (b'{"choices":[{"index":0,"message":{"role":"assistant","content":"An answer of a few words."},'
        b'"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}')
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY


class Answering(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.held = transport, b""

    def data_received(self, data):
        self.held += data
        while (end := self.held.find(b"\r\n\r\n")) >= 0:
            head = self.held[:end].lower()
            length = int(head[head.find(b"content-length:") + 15:].split(b"\r\n")[0])
            if len(self.held) < end + 4 + length:
                return
            self.held = self.held[end + 4 + length:]
            self.transport.write(REPLY)


async def main():
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
"""
SMALL: dict[str, object] = {"REQUESTS": 300}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        config = generate.Config(
            prompts=[ready_path("rephrase")], model="tiny", servers=[address], concurrency=CONCURRENCY
        )
        with scratch() as folder:
            store, first, first_in_use = Store(str(folder)), 0, 0
            cpu, wall = time.process_time(), time.perf_counter()
            for begun in range(0, REQUESTS, PER_BATCH):
                if begun % PER_TASK == 0:
                    log = AnswerLog(store, generate.scope_of(config))
                rows = generate.apply(batch(begun, min(PER_BATCH, REQUESTS - begun)), config, answers=log)
                assert rows.num_rows == min(PER_BATCH, REQUESTS - begun)
                if (begun + PER_BATCH) % PER_TASK == 0 or begun + PER_BATCH >= REQUESTS:
                    log.close()
                first = first or (peak_bytes() if begun >= REQUESTS // 10 else 0)
                first_in_use = first_in_use or heap_bytes()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            stored = sum(size for _, size in store.list_files("answers"))
        yield measurement("generate.requests", REQUESTS, "requests")
        yield measurement("generate.cpu", 1e3 * cpu / REQUESTS, "ms of CPU a request")
        yield measurement("generate.rate", REQUESTS / wall, "requests/s")
        yield measurement("generate.memory_growth", (peak_bytes() - first) / 1e6, "MB after the first tenth")
        yield measurement(
            "generate.heap_growth", (heap_bytes() - first_in_use) / 1e6, "MB in use after the first batch"
        )
        yield measurement("generate.stored", stored / REQUESTS, "bytes a request")
    finally:
        server.kill()
        server.wait()


def batch(first: int, rows: int) -> pa.RecordBatch:
    numbers = range(first, first + rows)
    none = pa.nulls(rows, pa.string())
    columns = {
        "doc_id": pa.array([number.to_bytes(16, "big") for number in numbers], pa.binary(16)),
        "source": pa.array(["made"] * rows),
        "text": pa.array([f"Document {number} about a mill." for number in numbers]),
        **dict.fromkeys(("title", "url", "license", "language_hint", "snapshot"), none),
    }
    return pa.RecordBatch.from_pydict(columns)


def peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class _Heap(ctypes.Structure):
    """The `struct mallinfo2` of glibc."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in ("arena", *"abc", "mapped", *"de", "in_use", *"fg"))


def heap_bytes() -> int:
    """Bytes that malloc's main heap has in use: without the free space, which stays resident after a peak."""
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Heap
    heap = library.mallinfo2()
    return int(heap.in_use + heap.mapped)
