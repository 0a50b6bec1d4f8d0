"""obstore against s3fs on an S3 server on this machine: range reads, and many small writes.

    pip install obstore s3fs boto3 'moto[server]' && moto_server -p 5011 &
    export AWS_ENDPOINT_URL=http://127.0.0.1:5011 AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=S3RVER
    python -m bench object_clients

The server is as busy as its clients and takes its share of the cores, so only the ratio matters. Both clients make
AT_ONCE requests at a time from threads, as workers do. Without a server (AWS_ENDPOINT_URL) there is nothing to measure.
"""

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.inputs import measurement

AT_ONCE = 16
OBJECT_BYTES = 16 << 20
RANGES = ((64 << 10, 128), (1 << 20, 48), (8 << 20, 12))
"""Bytes of a range, and how many ranges are read."""
WRITES, WRITE_BYTES = 300, 4096
ROUNDS = 2
BUCKET = "gristmill-bench"


def run(data: Path | None) -> Iterable[dict]:
    if not os.environ.get("AWS_ENDPOINT_URL"):
        yield measurement("object_clients.skipped", 0, "no server: AWS_ENDPOINT_URL is not set", "s3fs")
        return
    clients = {"obstore": _obstore(), "s3fs": _s3fs()}
    whole = random.Random(1).randbytes(OBJECT_BYTES)
    clients["obstore"][1]("large", whole)
    for size, count in RANGES:
        starts = [random.Random(size + number).randrange(OBJECT_BYTES - size) for number in range(count)]
        took = dict(_best(clients, lambda client, starts=starts, size=size: _read(client[0], starts, size, whole)))
        speed = {name: count * size / 1e6 / seconds for name, seconds in took.items()}
        name = f"object_clients.ranges_of_{size >> 10}_kib"
        yield measurement(name, speed["obstore"], "MB/s", "s3fs", speed["s3fs"])
    took = dict(_best(clients, lambda client: _write(client[1])))
    yield measurement(
        "object_clients.small_writes", WRITES / took["obstore"], "writes/s", "s3fs", WRITES / took["s3fs"]
    )


def _best(clients: dict[str, Any], act: Callable[[Any], None]) -> Iterator[tuple[str, float]]:
    """The fastest of several alternating rounds."""
    took: dict[str, list[float]] = {name: [] for name in clients}
    for _ in range(ROUNDS):
        for name, client in clients.items():
            begun = time.perf_counter()
            act(client)
            took[name].append(time.perf_counter() - begun)
    return ((name, min(seconds)) for name, seconds in took.items())


def _read(read: Callable[[str, int, int], bytes], starts: list[int], size: int, whole: bytes) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for start, found in zip(starts, pool.map(lambda at: read("large", at, at + size), starts), strict=True):
            assert found == whole[start : start + size]


def _write(write: Callable[[str, bytes], None]) -> None:
    content = bytes(WRITE_BYTES)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda number: write(f"small/{number}", content), range(WRITES)))


def _obstore() -> tuple[Callable[[str, int, int], bytes], Callable[[str, bytes], None]]:
    import boto3
    import obstore
    from obstore.store import S3Store

    server = boto3.client("s3", region_name="us-east-1")
    if BUCKET not in [one["Name"] for one in server.list_buckets()["Buckets"]]:
        server.create_bucket(Bucket=BUCKET)
    store = S3Store(BUCKET, region="us-east-1", client_options={"allow_http": True})
    return (
        lambda key, start, stop: bytes(obstore.get_range(store, key, start=start, end=stop)),
        lambda key, content: obstore.put(store, key, content, use_multipart=False) and None,
    )


def _s3fs() -> tuple[Callable[[str, int, int], bytes], Callable[[str, bytes], None]]:
    import s3fs

    system = s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    return (
        lambda key, start, stop: system.cat_file(f"{BUCKET}/{key}", start=start, end=stop),
        lambda key, content: system.pipe_file(f"{BUCKET}/{key}", content),
    )
