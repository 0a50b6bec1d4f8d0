"""Repeated passages of 500 bytes: ours against a suffix array (divsufsort), same texts, one core, CPU time.

The texts get planted copies: every tenth contains a passage of 600 to 3000 bytes of another. numpy brings the suffix
array's answer to the same form, outside the timing: a window that an earlier document has is repeated, so that one copy
stays. Both must mark the same bytes, or the bench fails. The peer is slower, so it gets fewer texts. Ours is measured
on these and then on more and more, to show that the rate does not fall with the size.

Every measurement is a new process that has only the texts in memory: a process with free memory from earlier work would
not grow. Memory is its largest growth per byte of text.
"""

import multiprocessing
import random
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bench.inputs import measurement, scratch, texts
from gristmill.kernels.dedup.repeated_spans import repeated_spans

SIZE = 500
PEER_BYTES = 20_000_000
SIZES_MB = (25, 50, 100, 200)
PEER = "pydivsufsort, suffix array and LCP"

Texts = tuple[Any, Any]
"""The bytes of all texts, and the offsets."""
SMALL: dict[str, object] = {"PEER_BYTES": 100_000, "SIZES_MB": (1,)}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    found = planted(texts(data, SIZES_MB[-1] * 10**6))
    few = first(found, PEER_BYTES)
    (spans,), seconds, memory = measured("ours", few)
    size = len(few[0])
    peer_rate = peer_memory = None
    try:
        import pydivsufsort  # noqa: F401
    except ImportError:
        pass
    else:
        (suffixes, common), peer_seconds, grown = measured("peer", few)
        peer_rate, peer_memory = size / peer_seconds / 1e6, grown / size
        marks = marked(few, spans)
        if not np.array_equal(marks, keep_first(few, suffixes, common)):
            raise AssertionError("the suffix array marks other bytes")
        yield measurement("substring.repeated", int(marks.sum()) / size, "of the bytes, the same as the peer's")
    unit = f"MB/s, {size / 1e6:.0f} MB"
    yield measurement("substring.find", size / seconds / 1e6, unit, PEER, peer_rate)
    yield measurement("substring.memory", memory / size, "bytes a byte of text", PEER, peer_memory, less=True)
    for megabytes in SIZES_MB:
        some = first(found, megabytes * 10**6)
        _, seconds, memory = measured("ours", some)
        name = f"{len(some[0]) / 1e6:.0f}_mb"
        yield measurement(f"substring.find_{name}", len(some[0]) / seconds / 1e6, "MB/s")
        yield measurement(f"substring.memory_{name}", memory / len(some[0]), "bytes a byte of text")


def planted(found: list[str]) -> Texts:
    """The texts; every tenth has a passage of another in its middle."""
    draw = random.Random(1)
    encoded = [text.encode() for text in found]
    for place in range(0, len(encoded), 10):
        other = draw.choice(encoded)
        begin, middle = draw.randrange(len(other) + 1), len(encoded[place]) // 2
        stretch = other[begin : begin + draw.randint(600, 3000)]
        encoded[place] = encoded[place][:middle] + stretch + encoded[place][middle:]
    draw.shuffle(encoded)
    return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([0, *map(len, encoded)])


def first(given: Texts, size: int) -> Texts:
    """The first whole texts up to a total size; at least one."""
    data, offsets = given
    count = max(1, int(np.searchsorted(offsets, size, "right")) - 1)
    return data[: offsets[count]], offsets[: count + 1]


def marked(given: Texts, spans: Any) -> Any:
    """A mask of the bytes in the spans."""
    edges = np.zeros(len(given[0]) + 1, np.int32)
    np.add.at(edges, spans[:, 1], 1)
    np.add.at(edges, spans[:, 2], -1)
    return np.cumsum(edges[:-1]) > 0


def keep_first(given: Texts, suffixes: Any, common: Any) -> Any:
    """The bytes of windows that an earlier text has, from the suffix array and the bytes that its neighbours share."""
    data, offsets = given
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)).astype(np.int32)
    whole = offsets[row + 1] - np.arange(len(data)) >= SIZE
    row[~whole] = len(offsets)  # no window of a text: it is not the first of any
    starts = np.flatnonzero(np.concatenate([[True], common[: len(data) - 1] < SIZE]))
    best = np.minimum.reduceat(row[suffixes], starts)
    repeated = np.zeros(len(data), np.bool_)
    repeated[suffixes] = row[suffixes] > np.repeat(best, np.diff(starts, append=len(data)))
    windows = np.flatnonzero(repeated & whole)
    return marked(given, np.stack([windows, windows, windows + SIZE], axis=1))


def measured(which: str, given: Texts) -> tuple[list[Any], float, int]:
    """The result arrays, CPU seconds, and the largest growth of a fresh process in bytes (Linux; 0 elsewhere)."""
    with scratch() as folder, ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        for name, array in zip(("data", "offsets"), given, strict=True):
            np.save(folder / f"{name}.npy", array)
        seconds, memory, count = fresh.submit(work, which, folder).result()
        return [np.load(folder / f"{number}.npy") for number in range(count)], seconds, memory


def work(which: str, folder: Path) -> tuple[float, int, int]:
    """Runs in the fresh process: a small call that loads what is needed, then the measured call."""
    find = {"ours": ours, "peer": suffix_array}[which]
    find(np.arange(2000, dtype=np.uint32).astype(np.uint8), np.array([0, 1000, 2000]))
    data, offsets = np.load(folder / "data.npy"), np.load(folder / "offsets.npy")
    before = memory_bytes("VmRSS", forget=True)
    begun = time.process_time()
    found = find(data, offsets)
    seconds, memory = time.process_time() - begun, memory_bytes("VmHWM") - before
    for number, array in enumerate(found):
        np.save(folder / f"{number}.npy", array)
    return seconds, memory, len(found)


def ours(data: Any, offsets: Any) -> list[Any]:
    return [repeated_spans(data, offsets, np.arange(len(offsets) - 1), SIZE)[0]]


def suffix_array(data: Any, offsets: Any) -> list[Any]:
    from pydivsufsort import divsufsort, kasai

    suffixes = divsufsort(data)
    return [suffixes, kasai(data, suffixes)]


def memory_bytes(name: str, forget: bool = False) -> int:
    """A memory figure of this process; `forget` resets its high-water mark."""
    try:
        if forget:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
    except OSError:
        return 0
