"""Near duplicates: the whole stage from sketch to verdicts, its memory, its growth, and its result against all pairs.

Documents are real ones with their letters exchanged, differently in each round, until there are enough bytes. Words and
lengths are realistic, and rounds have nothing in common. Every fourth document is followed by one or two copies with
about one word in fifty changed. Documents are read before the clock starts; it stops when every verdict is stored.
"""

import json
import os
import random
import re
import string
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numba import njit

from bench.inputs import _texts, measurement, scratch, texts
from gristmill.engine.mill import Mill, Silent
from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.dedup.sketch import shingle_sets
from gristmill.recipe.load import load
from gristmill.stages.buffers import bytes_of

GIGABYTES = tuple(float(size) for size in os.environ.get("BENCH_GB", "0.25,0.5,1,2,4").split(","))
DOCUMENTS = 20_000
SMALL: dict[str, object] = {"GIGABYTES": (0.0003, 0.0004, 0.0005), "DOCUMENTS": 100}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    yield from against_all_pairs(data)
    yield from growth(data)


def growth(data: Path | None) -> Iterable[dict]:
    """Speed and memory, and the exponent of time over size."""
    base = [text for text in texts(data, 60_000_000) if text.isascii() and len(text) < 200_000]
    seconds = {}
    for gigabytes in GIGABYTES:
        with scratch() as folder:
            size = write_documents(folder / "in", base, int(gigabytes * 1e9))
            recipe = write_recipe(folder)
            taken, peak, _ = timed_stage(recipe)
        seconds[size] = taken
        yield measurement(f"neardup.stage_{gigabytes:g}_gb", size / taken / 1e6, "MB/s, two cores (goal: 60 at 1 GB)")
        yield measurement(f"neardup.peak_{gigabytes:g}_gb", peak / 1e6, "MB, all processes (goal: under 2000 at 1 GB)")
    if len(seconds) > 2:
        exponent = np.polyfit(np.log(list(seconds)), np.log(list(seconds.values())), 1)[0]
        yield measurement("neardup.exponent", float(exponent), "time ~ size^x (goal: at most 1.05)")


def against_all_pairs(data: Path | None) -> Iterable[dict]:
    """Recall of pairs by their similarity, and precision, on real documents."""
    found: list[str] = []
    for text in _texts(data):
        found.append(text)
        if len(found) == DOCUMENTS:
            break
    with scratch() as folder:
        (folder / "in").mkdir()
        with (folder / "in" / "all.jsonl").open("w", encoding="utf-8") as file:
            for number, text in enumerate(found):
                file.write(json.dumps({"id": str(number), "text": text}, ensure_ascii=False) + "\n")
        recipe = write_recipe(folder)
        _, _, run = timed_stage(recipe)
        mill = Mill(load(recipe))
        clusters, links = read_layer(mill, run)
    ones, others, similar = all_pairs(found, 0.5)
    for low, high in ((0.8, 0.85), (0.85, 0.9), (0.9, 1.01), (0.85, 1.01)):
        here = (similar >= low) & (similar < high)
        same = (clusters[ones] == clusters[others]) & (clusters[ones] >= 0)
        name = f"neardup.recall_{low:g}" + (f"_to_{high:g}" if high < 1 else "")
        recall = float(same[here].mean()) if here.any() else 1.0  # if there are no pairs, none is missed
        yield measurement(name, recall, f"of {here.sum()} pairs of {len(found)} documents")
    exact = {(int(one), int(other)): float(value) for one, other, value in zip(ones, others, similar, strict=True)}
    wrong = sum(exact.get((max(pair), min(pair)), 0.0) < 0.8 for pair in links)
    yield measurement("neardup.precision", 1 - wrong / max(len(links), 1), f"of {len(links)} links have Jaccard >= 0.8")


def read_layer(mill: Mill, run) -> tuple[np.ndarray, set[tuple[int, int]]]:
    """The number of each document's keeper (-1: alone), and all links."""
    from gristmill.store.parquet import PartReader

    keeper, linked, of = {}, {}, {}
    for document in run.documents["texts"]:
        ids = PartReader(mill.store, document.part).read(["doc_id", "locator"])
        layer = run.states["all/near_dedup"].layers["texts", document.order][0]
        table = PartReader(mill.store, layer).read(["cluster", "linked_to"])
        for name, locator, cluster, links in zip(
            *(ids[c].to_pylist() for c in ("doc_id", "locator")),
            *(table[c].to_pylist() for c in ("cluster", "linked_to")),
            strict=True,
        ):
            of[name] = int(locator.rsplit("#", 1)[1])
            keeper[name], linked[name] = cluster, links or ()
    clusters = np.full(len(of), -1)
    for name, cluster in keeper.items():
        if cluster is not None:
            clusters[of[name]] = of[cluster]
    return clusters, {(of[name], of[other]) for name, others in linked.items() for other in others}


def all_pairs(found: list[str], least: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pairs with a Jaccard similarity of at least `least`, by counting the shingles that two documents share."""
    data, offsets = bytes_of(pa.array(found, pa.string()))
    ends, values = shingle_sets(data, offsets, 5, word_tables())
    _, number = np.unique(values, return_inverse=True)
    owners = np.repeat(np.arange(len(found)), np.diff(ends))
    order = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[order], np.arange(number.max() + 2))
    return count_shared(ends, number, owners[order], starts, least)


@njit(nogil=True)
def count_shared(ends, number, owners, starts, least):  # type: ignore[no-untyped-def]
    documents = len(ends) - 1
    shared = np.zeros(documents, np.int64)
    ones, others, similar = [np.int64(0)], [np.int64(0)], [0.0]
    for one in range(documents):
        shared[:] = 0
        for at in range(ends[one], ends[one + 1]):
            for place in range(starts[number[at]], starts[number[at] + 1]):
                if owners[place] >= one:
                    break
                shared[owners[place]] += 1
        size = ends[one + 1] - ends[one]
        for other in range(one):
            union = size + ends[other + 1] - ends[other] - shared[other]
            if shared[other] >= least * union:
                ones.append(one)
                others.append(other)
                similar.append(shared[other] / union)
    return np.array(ones[1:]), np.array(others[1:]), np.array(similar[1:])


def write_documents(folder: Path, base: list[str], size: int) -> int:
    """Writes files of 256 MB; returns the bytes of text in them."""
    folder.mkdir()
    written, file_number, in_file = 0, 0, 0
    file = (folder / "0.jsonl").open("w")
    for text in documents(base):
        file.write(json.dumps({"text": text}) + "\n")
        written += len(text)
        in_file += len(text)
        if in_file > 256e6:
            file.close()
            file_number, in_file = file_number + 1, 0
            file = (folder / f"{file_number}.jsonl").open("w")
        if written >= size:
            break
    file.close()
    return written


def documents(base: list[str]) -> Iterator[str]:
    draw = random.Random(1)
    while True:
        letters = list(string.ascii_lowercase)
        draw.shuffle(letters)
        exchanged = str.maketrans(string.ascii_lowercase + string.ascii_uppercase, "".join(letters) * 2)
        for number, text in enumerate(base):
            text = text.translate(exchanged)
            yield text
            if number % 4 == 0:
                for _ in range(draw.randint(1, 2)):
                    yield changed(text, draw)


def changed(text: str, draw: random.Random) -> str:
    words = re.split(r"(\s+)", text)
    for _ in range(max(1, len(words) // 200)):
        words[draw.randrange(len(words))] = "changed"
    return "".join(words)


def write_recipe(folder: Path, fields: str = "") -> Path:
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        "recipe: neardup\nstore: store\n"
        "sources: {texts: {kind: text, read: {format: jsonl, paths: ['in/*.jsonl'], fields: {key: id}}}}\n"
        f"steps: [near_dedup: {{{fields}scope: global}}]\n"
    )
    return recipe


def timed_stage(recipe: Path) -> tuple[float, int, object]:
    """Seconds and peak memory of near_dedup alone; documents are read before."""
    Mill(load(recipe), "ingest").run(2, Silent())
    with Watch() as watch:
        begun = time.perf_counter()
        run = Mill(load(recipe), "near_dedup").run(2, Silent())
        taken = time.perf_counter() - begun
    return taken, watch.peak, run


class Watch:
    """The peak memory of this process and its children together (proportional share of shared pages)."""

    def __enter__(self) -> "Watch":
        self.peak, self._before, self._over = 0, _memory([os.getpid()]), threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            self.peak = max(self.peak, _memory(_family()) - self._before)


def _family() -> list[int]:
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    family = {os.getpid()}
    for _ in range(4):
        family |= {process for process, parent in parents.items() if parent in family}
    return sorted(family)


def _memory(processes: list[int]) -> int:
    total = 0
    for process in processes:
        try:
            found = re.search(r"Pss:\s+(\d+)", Path(f"/proc/{process}/smaps_rollup").read_text())
        except OSError:
            continue
        total += int(found[1]) * 1024 if found else 0
    return total
