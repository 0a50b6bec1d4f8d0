"""Asking a model server: CPU time and memory of the client per request, and runs that are killed again and again.

`REQUESTS=1000000 python -m bench generate` sends as many tiny requests to a local server in another process, through
the step's own code: cutting, prompts, hashes, HTTP, storing, children. `KILLS=100` kills whole runs with SIGKILL, each
after a few more answers, and compares the result with that of a run that was never killed; `EXECUTORS=local,ray` says
where they run; Ray needs a running cluster (`ray start --head`). An answer that is in the store when the run dies must
never be requested again. A request that is in progress at that moment may be.
"""

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
from gristmill.stages.generate import generate
from gristmill.stages.generate.prompts import ready_path
from gristmill.store.answers import AnswerLog
from gristmill.store.store import Store

REQUESTS = int(os.environ.get("REQUESTS", "20000"))
PER_BATCH, PER_TASK = 5_000, 100_000
KILLS = int(os.environ.get("KILLS", "3"))
EXECUTORS = os.environ.get("EXECUTORS", "local").split(",")
DOCUMENTS = 600
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
            store, first = Store(str(folder)), 0
            cpu, wall = time.process_time(), time.perf_counter()
            for begun in range(0, REQUESTS, PER_BATCH):
                if begun % PER_TASK == 0:
                    log = AnswerLog(store, generate.scope_of(config))
                rows = generate.apply(batch(begun, min(PER_BATCH, REQUESTS - begun)), config, answers=log)
                assert rows.num_rows == min(PER_BATCH, REQUESTS - begun)
                if (begun + PER_BATCH) % PER_TASK == 0 or begun + PER_BATCH >= REQUESTS:
                    log.close()
                first = first or (peak_bytes() if begun >= REQUESTS // 10 else 0)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            stored = sum(size for _, size in store.list_files("answers"))
        yield measurement("generate.requests", REQUESTS, "requests")
        yield measurement("generate.cpu", 1e3 * cpu / REQUESTS, "ms of CPU a request")
        yield measurement("generate.rate", REQUESTS / wall, "requests/s")
        yield measurement("generate.memory_growth", (peak_bytes() - first) / 1e6, "MB after the first tenth")
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
        **dict.fromkeys(("title", "url", "license", "language_hint"), none),
    }
    return pa.RecordBatch.from_pydict(columns)


def peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# Kills


class Counting(ThreadingHTTPServer):
    """Answers deterministically, and remembers every request."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[bytes] = []
        self.lock = threading.Lock()

    def handle_error(self, *_: object) -> None:
        """A run that is killed leaves connections behind."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Counting

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.bodies.append(body)
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
        config = load(recipe).sources["born"].generate
        assert isinstance(config, generate.Config)
        whole = parts_after(recipe, folder / "whole", "local")
        server.bodies.clear()
        kills = again = in_progress = 0
        paid: set[bytes] = set()
        for _ in range(KILLS):
            begun = len(server.bodies)
            process = start(recipe, folder / "store", executor)
            wanted = begun + max(1, 2 * DOCUMENTS // (KILLS + 1))
            while process.poll() is None and len(server.bodies) < wanted:
                time.sleep(0.005)
            if process.poll() is None:
                kills += 1
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if executor == "ray":
                wait_for_silence(server)
            sent = [key_of(body, config) for body in server.bodies[begun:]]
            again += sum(key in paid for key in sent)
            log = AnswerLog(Store(str(folder / "store")), generate.scope_of(config))
            keys = list({key_of(body, config) for body in server.bodies})
            paid = set(log.find(keys)) if keys else set()
            in_progress += len(set(sent) - paid)
            log.close()
        begun = len(server.bodies)
        same = parts_after(recipe, folder / "store", executor) == whole
        again += sum(key_of(body, config) in paid for body in server.bodies[begun:])
        yield measurement(f"generate.kills_{executor}", kills, "runs killed")
        yield measurement(f"generate.asked_again_{executor}", again, "stored answers that were requested again")
        yield measurement(f"generate.in_progress_{executor}", in_progress, "requests in progress when a run died")
        yield measurement(f"generate.same_bytes_{executor}", int(same), "1: the same bytes as an unharmed run")


def key_of(body: bytes, config: generate.Config) -> bytes:
    return generate.make_ask(body, 0, config).key


def wait_for_silence(server: Counting) -> None:
    """Workers of a cluster may outlive the run that was killed."""
    while True:
        before = len(server.bodies)
        time.sleep(1.0)
        if len(server.bodies) == before:
            return


def start(recipe: Path, store: Path, executor: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gristmill", "run", str(recipe), "--store", str(store), "--workers", "2"]
    command += [] if executor == "local" else ["--executor", executor]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def parts_after(recipe: Path, store: Path, executor: str) -> list[str]:
    """The hashes of all documents of the generated source after a run to its end."""
    process = start(recipe, store, executor)
    assert process.wait() == 0
    found = Store(str(store))
    records = [found.read_json(name) for name, _ in found.list_files("datasets")]
    made = [one for one in records if one and one["produced_by"]["node"] in ("born/ingest", "born/generate")]
    return sorted(part["hash"] for one in made for part in one["parts"])
