"""Memory is bounded by the part, not the corpus: peak memory of a worker on 1 GB and on 8 GB of the same kind of input.

The input is one plain JSONL file, and the steps read and rewrite every text. The peak is the kernel's high-water mark
of each task.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from bench.engine import timed
from bench.inputs import made_up_texts, measurement, scratch

GIGABYTES = (1, 8)


def run(data: Path | None) -> Iterable[dict]:
    peaks = []
    for gigabytes in GIGABYTES:
        with scratch() as folder:
            write_input(folder / "big.jsonl", gigabytes * 10**9)
            recipe = folder / "big.yaml"
            recipe.write_text(
                "recipe: big\nsources:\n  big: {kind: text, read: {format: jsonl, paths: [big.jsonl]}}\n"
                "steps: [extract]\n"
            )
            seconds, run = timed(recipe, folder / "store", 2)
        peaks.append(max(made.cost["peak_rss_bytes"] for made in run.states.values()) / 1e6)
        yield measurement(f"memory.speed_{gigabytes}_gb", gigabytes * 1e3 / seconds, "MB/s with two workers")
    yield measurement(
        "memory.peak_worker",
        peaks[-1],
        "MB at 8 GB (goal: within 10%, under 1500)",
        "the same at 1 GB",
        peaks[0],
        less=True,
    )


def write_input(path: Path, size: int) -> None:
    """Writes blocks of 64 MB of generated documents, each with different ids, until the size is reached."""
    texts = made_up_texts()
    written = 0
    with path.open("w", encoding="utf-8") as file:
        number = 0
        block = [next(texts) for _ in range(8000)]
        while written < size:
            for text in block:
                written += file.write(json.dumps({"id": number, "text": f"{number} {text}"}, ensure_ascii=False) + "\n")
                number += 1
