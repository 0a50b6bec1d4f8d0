"""Measurements of bench.loader that run in separate processes, so that imports and memory are the loader's alone."""

import json
import os
import random
import re
import sys
import time
from pathlib import Path

SEQ_LEN, BATCH = 8192, 32
ROUNDS = int(sys.argv[3])
"""The best of so many counts."""


def start_up(manifest: Path) -> dict:
    begun = time.perf_counter()
    from gristmill.loader import Loader

    imported = time.perf_counter()
    with Loader(manifest, batch_samples=BATCH) as loader:
        next(iter(loader))
        taken = time.perf_counter() - imported
    # Not getrusage: its maximum includes the time before exec, when the process was its parent.
    memory = int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) / 1000
    return {"seconds": taken, "import_seconds": imported - begun, "mb": memory}


def seek(manifest: Path) -> dict:
    """Reads random samples: computes the location of a sample, opens its shard and copies its tokens."""
    from gristmill.loader import Loader

    draw, found = random.Random(0), {}
    with Loader(manifest) as loader:
        for name in ("cold", "warm"):
            if name == "cold":
                numbers = [draw.randrange(loader.samples) for _ in range(2_000)]
            else:
                first = draw.randrange(loader.samples - 10_000)
                numbers = [first + draw.randrange(1_000) for _ in range(2_000)]
                loader.sample(first)
            times = []
            for number in numbers:
                begun = time.perf_counter()
                loader.sample(number).tokens.copy()
                times.append((time.perf_counter() - begun) * 1e3)
            found |= {name: sum(times) / len(times), f"{name}_99": sorted(times)[len(times) * 99 // 100]}
    return found


def rate(manifest: Path) -> dict:
    """Million tokens per second on one core, the best of several rounds."""
    from gristmill.loader import Loader

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    def best(read=lambda batch: batch.tokens, samples: int = BATCH, threads: int = 0) -> float:
        found = 0.0
        for _ in range(ROUNDS):
            with Loader(manifest, batch_samples=samples, threads=threads) as loader:
                begun, tokens = time.process_time(), 0
                for batch in loader:
                    read(batch)
                    tokens += batch.tokens.size
                found = max(found, tokens / (time.process_time() - begun) / 1e6)
        return found

    return {
        "memmap": max(memmap_rate(manifest) for _ in range(ROUNDS)),
        "tokens": best(),
        "tokens_one_thread": best(threads=1),
        "batch_of_1": best(samples=1),
        "with_spans": best(lambda batch: batch.cu_seqlens),
        "with_positions": best(lambda batch: (batch.cu_seqlens, batch.positions)),
    }


def memmap_rate(manifest: Path) -> float:
    """Copies rows from everywhere into batches: no loader can do less work."""
    import numpy as np

    maps = [np.memmap(path, np.uint16, "r").reshape(-1, SEQ_LEN) for path in sorted(manifest.parent.glob("*.bin"))]
    draw = random.Random(0)
    rows = [(which, row) for which in range(len(maps)) for row in range(len(maps[which]))]
    draw.shuffle(rows)
    begun = time.process_time()
    for first in range(0, len(rows) - BATCH, BATCH):
        batch = np.empty((BATCH, SEQ_LEN), np.uint16)
        for number, (which, row) in enumerate(rows[first : first + BATCH]):
            batch[number] = maps[which][row]
    return len(rows) * SEQ_LEN / (time.process_time() - begun) / 1e6


def waiting(manifest: Path) -> dict:
    from gristmill.loader import Loader

    with Loader(manifest, batch_samples=BATCH) as loader:
        for number, batch in enumerate(loader):
            batch.cu_seqlens, batch.positions  # noqa: B018 - what a trainer would ask for
            time.sleep(0.01)
            if number == 300:
                break
        stats = loader.stats()
    return {"share": stats["starved_share"], "batches": stats["starved_batches"], "of": stats["batches"]}


if __name__ == "__main__":
    what = {"start_up": start_up, "seek": seek, "rate": rate, "waiting": waiting}[sys.argv[1]]
    print(json.dumps(what(Path(sys.argv[2]))))
