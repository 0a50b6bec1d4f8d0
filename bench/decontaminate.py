"""Decontamination: its speed, the share of planted items that it finds, and the share of clean texts that it flags.

    speed    the stage on texts, one core, CPU time, best of the rounds: with 30,000 items and with 30 of them,
             drawn evenly from all benchmarks, prose and code separately; against datatrove's filter with the same items
    recall   items of every benchmark put into real texts in many ways (_plants.py); an item counts as found if its
             document is flagged for it
    clean    documents, pages, and modules of Python without an item

`HALF=report` measures recall and false flags with benchmarks, and on texts, that the rules were not tuned with;
`HALF=tune` with those that they were tuned with. Without it, both count.

datatrove's filter has an index of all 12-grams of questions and answers, built by its own indexer class without the
step that would download the benchmarks. It looks for n-grams only, and stops at the first match in a text.
"""

import hashlib
import os
import random
import sysconfig
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from bench._eval_suite import build_suite, records
from bench._plants import WAYS, WITHIN, planted
from bench.inputs import made_up_texts, measurement, scratch, web_pages
from gristmill.stages.decontaminate import eval_match, eval_scan
from gristmill.stages.decontaminate.matching.findings import find
from gristmill.stages.decontaminate.matching.index import key_of, open_index, write_index
from gristmill.stages.decontaminate.matching.words import hash_words
from gristmill.stages.decontaminate.suite.form import Item
from gristmill.stages.decontaminate.suite.suite import Suite, read_suite
from gristmill.stages.extract import extract

HALF = os.environ.get("HALF", "")
ITEMS, FEW_ITEMS = 30_000, 30
LIMIT_BYTES = 60_000_000
PEER_BYTES = 400_000
ROUNDS = 5
PER_BENCHMARK = 400
"""The number of planted items of each benchmark, chosen by their hash."""
CLEAN = 50_000
CARRIER_CHARS = 3000
SHORT = 13
"""A question with fewer words has no n-gram."""
BATCH = 1000
NGRAM, FUZZY = 13, 0.8
"""The defaults of the step."""
PEER = "datatrove NGramsDecontFilter"
SMALL: dict[str, object] = {
    "ITEMS": 90,
    "LIMIT_BYTES": 100_000,
    "PEER_BYTES": 5_000,
    "ROUNDS": 1,
    "PER_BENCHMARK": 4,
    "CLEAN": 60,
}
"""The constants that set its size, for its test."""


class Judge(NamedTuple):
    """A suite and its index."""

    suite: Suite
    index: Path

    def flags(self, texts: Sequence[str]) -> dict[int, list[dict[str, Any]]]:
        """The evidence of each flagged text, with all texts as one corpus."""
        config = eval_match.Config()
        found = []
        for part, begin in enumerate(range(0, len(texts), BATCH)):
            column = pa.array(texts[begin : begin + BATCH], pa.string())
            models = {"eval_index": self.index}
            hits = eval_scan.apply(pa.record_batch([column], names=["text"]), eval_scan.Config(), models)
            emitted = pa.Table.from_batches([eval_match.emit(hits.select(["hits"]), config, models)])
            found.append(emitted.append_column("part", pa.array(np.full(len(emitted), part, np.uint64))))
        flagged = defaultdict(list)
        for one in eval_match.by_item(pa.concat_tables(found), config)[0].to_pylist():
            flagged[one["part"] * BATCH + one["row"]].append(one)
        return dict(flagged)


def judge_of(folder: Path) -> Judge:
    suite = read_suite(str(folder))
    index = folder.parent / "index"
    write_index(suite, NGRAM, FUZZY, index)
    return Judge(suite, index)


def run(data: Path | None) -> Iterator[dict]:
    with scratch() as folder:
        judge = judge_of(build_suite(data, folder / "real", HALF))
        if not HALF:
            yield from speed(data, folder / "filled", ITEMS - len(judge.suite.items))
        yield from recall(data, judge)
        yield from clean(data, judge, folder)


def speed(data: Path | None, folder: Path, fill: int) -> Iterator[dict]:
    """The speed of the stage with all items of a filled-up suite, and with a few."""
    suite = read_suite(str(build_suite(data, folder, fill=fill)))
    few = evenly(suite.items, FEW_ITEMS)
    paths = folder / "all", folder / "few"
    for path, items in zip(paths, (suite.items, few), strict=True):
        write_index(suite._replace(items=items), NGRAM, FUZZY, path)
    for name, found in scanned(data).items():
        column = pa.array(found, pa.string())
        size = sum(map(len, map(str.encode, found)))
        # In turns, so that other load on the machine affects both.
        times = [[seconds(find, column, open_index(path)) for path in paths] for _ in range(ROUNDS)]
        ours, with_few = (size / min(taken) / 1e6 for taken in zip(*times, strict=True))
        yield measurement(f"decontaminate.{name}", ours, "MB/s", f"ours with {len(few)} items", with_few)
        sample = some_of(found, PEER_BYTES)
        theirs = datatrove_seconds(sample, suite.items)
        rate = sum(map(len, map(str.encode, sample))) / theirs / 1e6 if theirs else None
        yield measurement(f"decontaminate.{name}_against_datatrove", ours, "MB/s", PEER, rate)


def scanned(data: Path | None) -> dict[str, list[str]]:
    """Texts in random order."""
    if data is None:
        made = made_up_texts(seed=3)
        return {"prose": up_to(made, LIMIT_BYTES)}
    draw = random.Random(5)
    kinds: dict[str, list[str]] = {"prose": [], "code": []}
    for path in sorted(data.glob("text*/*.jsonl.zst")):
        kinds["code" if path.name.startswith("code") else "prose"] += [one["text"] for one in records(path)]
    for texts in kinds.values():
        draw.shuffle(texts)
    both = [*kinds["prose"], *kinds["code"]]
    draw.shuffle(both)
    return {name: up_to(iter(texts), LIMIT_BYTES) for name, texts in {**kinds, "both": both}.items()}


def up_to(texts: Iterator[str], size: int) -> list[str]:
    found: list[str] = []
    for text in texts:
        found.append(text)
        size -= len(text.encode())
        if size <= 0:
            break
    return found


def some_of(texts: Sequence[str], size: int) -> list[str]:
    """Texts that are not very long, up to a total size."""
    return up_to((text for text in texts if len(text) < 20_000), size)


def seconds(work: Callable[..., object], *given: object) -> float:
    begun = time.process_time()
    work(*given)
    return time.process_time() - begun


def datatrove_seconds(texts: Sequence[str], items: Sequence[Item]) -> float | None:
    """CPU seconds of datatrove's filter; None if datatrove or its tokenizer is not installed."""
    try:
        import spacy  # noqa: F401
        from datatrove.data import Document
        from datatrove.pipeline.decont.n_grams import NGramsDecontConfig, NGramsDecontFilter, NGramsDecontIndexer
    except ImportError:
        return None
    config = NGramsDecontConfig(find_query_ngrams=True)
    NGramsDecontIndexer._requires_dependencies = []  # lighteval would download benchmarks
    with scratch() as folder:
        indexer = NGramsDecontIndexer(str(folder), config=config)
        hashes = {one for item in items for one in indexer.compute_hashes(item.answer, item.question)}
        np.array(sorted(hashes), config.hash_config.np_descr).tofile(folder / "items.index.hashes")
        step = NGramsDecontFilter(str(folder), config=config)
        step.filter(Document(text="It loads the tokenizer and the index.", id="0"))
        documents = [Document(text=text, id=str(number)) for number, text in enumerate(texts)]
        return seconds(list, map(step.filter, documents))


def recall(data: Path | None, judge: Judge) -> Iterator[dict]:
    """The share of planted items that their documents are flagged for, by way and for short items."""
    chosen = sample_of(judge.suite.items)
    sizes = hash_words([item.question for item in chosen]).sizes().tolist()
    places = carriers(data)
    words = [word for text in places[:60] for word in text.split() if word.isalpha()]
    for name, way in WAYS.items():
        draw = random.Random(name)
        texts = [way(item, draw, words) for item in chosen]
        numbers = [number for number, text in enumerate(texts) if text is not None]
        documents = [planted(texts[one] or "", places[one % len(places)], name == WITHIN) for one in numbers]
        flags = judge.flags(documents) if documents else {}
        # Code is reported by benchmark, because it differs; questions as all and short ones.
        groups: dict[str, list[bool]] = {}
        for row, number in enumerate(numbers):
            is_flagged = key_of(chosen[number]) in {flag["item"] for flag in flags.get(row, ())}
            named = [chosen[number].benchmark] if name.startswith("code") else ["all", "short"]
            for group in named[: 1 + (sizes[number] < SHORT)]:
                groups.setdefault(group, []).append(is_flagged)
        for group, flagged in groups.items():
            yield measurement(
                f"decontaminate.recall, {name}, {group}, {len(flagged)}", float(np.mean(flagged)), "share"
            )


def sample_of(items: Sequence[Item]) -> list[Item]:
    return [item for own in by_benchmark(items).values() for item in own[:PER_BENCHMARK]]


def evenly(items: Sequence[Item], count: int) -> list[Item]:
    """Takes the same number from each benchmark, including code: 30 drawn from all would be only questions and
    sentences.
    """
    rounds = zip_longest(*by_benchmark(items).values())
    return [item for one in rounds for item in one if item][:count]


def by_benchmark(items: Sequence[Item]) -> dict[str, list[Item]]:
    """The items of each benchmark, ordered by their hash."""
    found: dict[str, list[Item]] = {}
    for item in sorted(items, key=lambda item: item.digest):
        found.setdefault(item.benchmark, []).append(item)
    return found


def carriers(data: Path | None) -> list[str]:
    """Passages of real documents that items are inserted into."""
    if data is None:
        return up_to(made_up_texts(seed=4), 300_000)
    found = []
    for path in sorted(data.glob("text/*.jsonl.zst")):
        for one in list(records(path))[:200]:
            text = one["text"][: 20 * CARRIER_CHARS]
            found += [text[at : at + CARRIER_CHARS] for at in range(0, len(text) - CARRIER_CHARS, CARRIER_CHARS)]
    random.Random(6).shuffle(found)
    return found


def clean(data: Path | None, judge: Judge, folder: Path) -> Iterator[dict]:
    """The number of clean texts that are flagged, with all of them as one corpus."""
    half = (text for source, text in sources(data, folder) if HALF in ("", half_of(source)))
    texts = list(islice(half, CLEAN))
    flags = judge.flags(texts)
    yield measurement(f"decontaminate.clean, {len(texts)} documents", len(flags), "flagged")


def half_of(source: str) -> str:
    """Returns `tune` or `report` for the name of a source. The rules were chosen on texts of the half `tune`."""
    return ("tune", "report")[hashlib.sha256(source.encode()).digest()[0] & 1]


def sources(data: Path | None, folder: Path) -> Iterator[tuple[str, str]]:
    """Texts with their source: collections and sites of the data, and the modules of Python and its packages."""
    if data is None:
        yield from (("made up", text) for text in made_up_texts(seed=2))
        return
    for path in sorted(data.glob("text*/*.jsonl.zst")):
        name = path.name.removesuffix(".jsonl.zst")
        for record in records(path):
            own = record["url"].split("/")[4:5] if name == "code" else [str(record.get("lang", ""))]
            yield f"{name}/{''.join(own)}", record["text"]
    pages = web_pages(data / "warc", folder)
    absent = pa.nulls(len(pages), pa.string())
    columns = [pa.array([str(page.html) for page in pages], pa.string()), *[absent] * (len(extract.READS) - 1)]
    batch = pa.RecordBatch.from_arrays(columns, names=list(extract.READS))
    texts = extract.apply(batch, extract.Config(tool="resiliparse")).column("text").to_pylist()
    yield from (
        (f"site/{urlsplit(page.url or '').netloc}", text) for page, text in zip(pages, texts, strict=True) if text
    )
    for root in map(Path, (sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"])):
        for path in sorted(root.rglob("*.py")):
            if root.name == "site-packages" or "site-packages" not in path.parts:
                yield f"{root.name}/{path.relative_to(root).parts[0]}", path.read_text(errors="ignore")
