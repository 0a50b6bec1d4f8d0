"""Memory of reducers, merges and builders at growing inputs: it depends on their limits, not on the corpus.

The documents are generated, about 1.5 KB each. One in ten is the same page of one site, so a single URL, text, line,
bucket and host has a tenth of all records. Every step that exchanges records runs alone on them, and the shards after
it. The peak is the kernel's high-water mark of each task. GIGABYTES=1,4,16 in the environment sets other sizes than 1
GB.
"""

import json
import os
import random
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.inputs import made_up_texts, measurement, scratch
from gristmill.engine.mill import Mill, Silent
from gristmill.recipe.load import load
from gristmill.store.store import Store

STEPS = {
    "url_dedup": "url_dedup: {scope: global}",
    "exact_dedup": "exact_dedup: {scope: global}",
    "robots": "robots: {scope: all, missing: drop}",
    "line_dedup": "line_dedup: {min_chars: 8}",
    "near_dedup": "near_dedup: {scope: global}",
    "simhash_dedup": "simhash_dedup: {scope: global}",
    "substring_dedup": "substring_dedup: {scope: global}",
}
SHARDS = "tokenizer: {train: {vocab: 4096, sample_bytes: {all: 50MB}}}\nshards: {seq_len_tokens: 4096}\n"
GIGABYTES = os.environ.get("GIGABYTES", "1")
FILES = 16
OTHERS = ("emit", "merge", "collect", "gather", "build")
"""Verbs of tasks that are not reducers."""


def run(data: Path | None) -> Iterable[dict]:
    for gigabytes in [float(size) for size in GIGABYTES.split(",")]:
        with scratch() as folder:
            (folder / "in").mkdir()
            with ProcessPoolExecutor() as pool:
                list(pool.map(_write, range(FILES), [folder] * FILES, [gigabytes * 1e9 / FILES] * FILES))
            for name, step in STEPS.items():
                yield from _measure(folder, name, f"steps: [{{{step}}}]\n", f"{gigabytes:g}")
            yield from _measure(folder, "shards", f"steps: []\n{SHARDS}", f"{gigabytes:g}")


def _measure(folder: Path, name: str, steps: str, size: str) -> Iterable[dict]:
    """Measures one step on the corpus, which is read once for all steps."""
    recipe = folder / f"{name}.yaml"
    fields = "fields: {url: url}"
    recipe.write_text(
        f"recipe: {name}\nseed: 1\nstore: ./store\nsources:\n  big: {{kind: text, domain: all, "
        f"read: {{format: jsonl, paths: ['in/*.jsonl'], {fields}}}}}\n{steps}"
    )
    made = Mill(load(recipe)).run(os.cpu_count(), Silent()).states
    peaks: dict[str, list[float]] = {}
    store = Store(str(folder / "store"))
    for state in made.values():
        for key in state.tasks:
            record = store.read_json(f"tasks/{key}.json") or {}
            verb = record.get("inputs", {}).get("verb")
            if verb in ("merge", "build") or (verb and verb not in OTHERS):
                kind = verb if verb in OTHERS else "reduce"
                peaks.setdefault(kind, []).append(record["cost"]["peak_rss_bytes"] / 1e6)
    for kind in sorted(peaks):
        unit = f"MB at {size} GB, the largest of {len(peaks[kind])} (goal: under 1000)"
        yield measurement(f"reducers.{name}.{kind}", max(peaks[kind]), unit)


def _write(number: int, folder: Path, size: float) -> None:
    """Writes a file of documents: pieces of texts in new orders, so that few are alike except for the repeated page."""
    draw = random.Random(number)
    texts = made_up_texts()
    sentences = [sentence for _ in range(2000) for sentence in next(texts).split(". ") if len(sentence) > 20]
    page = "\n".join(["Home | About us | Contact", *sentences[:12], "All rights reserved by the millers of the valley"])
    common = json.dumps({"text": page, "url": "https://giant.example/page"}) + "\n"
    written, count = 0, 0
    with (folder / "in" / f"{number:02}.jsonl").open("w") as file:
        while written < size:
            lines = []
            for _ in range(900):
                count += 1
                text = "\n".join(draw.choices(sentences, k=draw.randint(4, 24))) + f"\nLine {number} {count}"
                lines.append(json.dumps({"text": text, "url": f"https://site{count % 5000}.example/{number}/{count}"}))
            written += file.write("\n".join(lines) + "\n" + common * 100)
