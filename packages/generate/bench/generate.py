"""Asking a model server: CPU time and memory of the client per request, and runs that are killed again and again.

`REQUESTS=1000000 python -m bench generate` sends as many tiny requests to a local server in another process, through
the step's own code: cutting, prompts, hashes, HTTP, storing, children. `KILLS=100` kills whole runs with SIGKILL, each
after a few more answers, and compares the result with that of a run that was never killed; `EXECUTORS=local,ray` says
where they run; Ray needs a running cluster (`ray start --head`). An answer that is in the store when the run dies must
never be requested again. A request that is in progress at that moment may be.
"""

import ctypes
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
from bench.inputs import measurement, scratch

from gristmill.recipe.load import load
from gristmill.store.answers import AnswerLog
from gristmill.store.store import Store
from gristmill_generate import generate
from gristmill_generate.settings import ready_path

REQUESTS = int(os.environ.get("REQUESTS", "20000"))
PER_BATCH, PER_TASK = 5_000, 100_000
KILLS = int(os.environ.get("KILLS", "3"))
EXECUTORS = os.environ.get("EXECUTORS", "local").split(",")
DOCUMENTS = 600
CONCURRENCY = 8
CLIENTS_GONE_S = 300
"""Seconds in which the workers of a run that was killed must be gone."""

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
SMALL: dict[str, object] = {"REQUESTS": 300, "KILLS": 1, "DOCUMENTS": 60}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    yield from overhead()
    for executor in EXECUTORS if KILLS else ():
        yield from killed(executor)


# Overhead


def overhead() -> Iterator[dict]:
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


# Kills


class Counting(ThreadingHTTPServer):
    """Answers deterministically, and remembers every request.

    After `limit` answers it leaves requests open, so no run can end before it is killed.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[bytes] = []
        self.limit: int | None = None
        self.answers = 0
        self.connections = 0
        self.is_full = threading.Event()
        self.lock = threading.Lock()

    def answer_at_most(self, limit: int | None) -> None:
        with self.lock:
            self.limit, self.answers = limit, 0
            self.is_full.clear()

    def may_answer(self, body: bytes) -> bool:
        with self.lock:
            self.bodies.append(body)
            if self.limit is not None and self.answers >= self.limit:
                self.is_full.set()
                return False
            self.answers += 1
            return True

    def handle_error(self, *_: object) -> None:
        """A run that is killed leaves connections behind."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Counting

    def handle(self) -> None:
        with self.server.lock:
            self.server.connections += 1
        try:
            super().handle()
        finally:
            with self.server.lock:
                self.server.connections -= 1

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.server.may_answer(body):
            self.rfile.read(1)  # until the client is gone
            self.close_connection = True
            return
        text = f"Answer {hashlib.sha256(body).hexdigest()}"
        choice = {"message": {"content": text}, "finish_reason": "stop"}
        data = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def counting() -> Iterator[Counting]:
    server = Counting()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def killed(executor: str) -> Iterator[dict]:
    with scratch() as folder, counting() as server:
        (folder / "in").mkdir()
        for number in range(6):
            lines = [json.dumps({"text": f"Document {number}-{n} about a mill."}) for n in range(DOCUMENTS // 6)]
            (folder / "in" / f"{number}.jsonl").write_text("\n".join(lines))
        recipe = folder / "recipe.yaml"
        recipe.write_text(
            "recipe: killed\nsources:\n"
            "  notes: {kind: text, read: {format: jsonl, paths: ['in/*.jsonl'], part_bytes: 4KB}}\n"
            "  born: {kind: generated, generate: {parents: notes, prompts: [rephrase, table], model: tiny,\n"
            f"         servers: ['http://127.0.0.1:{server.server_address[1]}/v1'], concurrency: {CONCURRENCY}}}}}\n"
            "steps: {text: [], generated: [], all: []}\n"
        )
        config = load(recipe).sources["born"].maker.config
        assert isinstance(config, generate.Config)
        whole = parts_after(recipe, folder / "whole", "local")
        server.bodies.clear()
        kills = again = in_progress = 0
        paid: set[bytes] = set()
        for _ in range(KILLS):
            begun = len(server.bodies)
            server.answer_at_most(2 * DOCUMENTS // (KILLS + 1))
            process = start(recipe, folder / "store", executor)
            while not server.is_full.wait(0.01) and process.poll() is None:
                pass
            assert process.poll() is None, f"a run ended before it was killed: {errors_of(folder / 'store')}"
            kills += 1
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            wait_for_clients(server)
            sent = [key_of(body, config) for body in server.bodies[begun:]]
            again += sum(key in paid for key in sent)
            log = AnswerLog(Store(str(folder / "store")), generate.scope_of(config))
            keys = list({key_of(body, config) for body in server.bodies})
            paid = set(log.find(keys)) if keys else set()
            in_progress += len(set(sent) - paid)
            log.close()
        begun = len(server.bodies)
        server.answer_at_most(None)
        same = parts_after(recipe, folder / "store", executor) == whole
        again += sum(key_of(body, config) in paid for body in server.bodies[begun:])
        yield measurement(f"generate.kills_{executor}", kills, "runs killed")
        yield measurement(f"generate.asked_again_{executor}", again, "stored answers that were requested again")
        yield measurement(f"generate.in_progress_{executor}", in_progress, "requests in progress when a run died")
        yield measurement(f"generate.same_bytes_{executor}", int(same), "1: the same bytes as an unharmed run")


def key_of(body: bytes, config: generate.Config) -> bytes:
    return generate.make_ask(body, 0, config).key


def wait_for_clients(server: Counting) -> None:
    """Wait until the workers have closed their connections: those of a cluster outlive the run for a moment."""
    ends = time.monotonic() + CLIENTS_GONE_S
    while server.connections:
        assert time.monotonic() < ends, "workers of a run that was killed still have connections"
        time.sleep(0.01)


def start(recipe: Path, store: Path, executor: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gristmill", "run", str(recipe), "--store", str(store), "--workers", "2"]
    command += [] if executor == "local" else ["--executor", executor]
    with _errors(store).open("wb") as errors:
        return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=errors)


def _errors(store: Path) -> Path:
    return store.with_suffix(".errors")


def errors_of(store: Path) -> str:
    """The last words of the run that was started last."""
    return _errors(store).read_text(errors="replace")[-2000:]


def parts_after(recipe: Path, store: Path, executor: str) -> list[str]:
    """The hashes of all documents of the generated source after a run to its end."""
    process = start(recipe, store, executor)
    assert process.wait() == 0, errors_of(store)
    found = Store(str(store))
    records = [found.read_json(name) for name, _ in found.list_files("datasets")]
    made = [one for one in records if one and one["produced_by"]["node"] in ("born/ingest", "born/generate")]
    return sorted(part["hash"] for one in made for part in one["parts"])
