"""The step `faithful`: its speed, and what its rules find on real texts with planted changes.

Every text is cut into chunks of at most CHUNK characters at empty lines, as for a generator. A chunk gets each of the
faithful edits (reordered, reformatted, shortened), and each planted change that it has something for, on top of one of
these edits. Recall is the share of planted changes that a rule of the set `faithful` flags; false alarms are faithful
edits that one flags. Chunks are split in halves by their site or collection; thresholds and word lists were chosen on
one half, and the other one is reported.
"""

import hashlib
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
from backports import zstd
from bench._faithful_edits import FAITHFUL, PLANTS, names_in
from bench.inputs import made_up_texts, measurement, texts

from gristmill.stages.shared.vectors import ColumnVectors
from gristmill.stages.shared.verdicts import failing, rule_set
from gristmill_generate.faithful import SCHEMA, Config, apply
from gristmill_generate.faithful_rules import RULES
from gristmill_generate.faithful_rules import Config as Rules

CHUNK = 3000
TEXTS = 2000
"""Chunks in each half."""
LIMIT_BYTES = 1_000_000
ROUNDS = 3
ADDED = ("negation", "swap")
"""Changes that are reported but cannot be found reliably without a model."""
SMALL: dict[str, object] = {"LIMIT_BYTES": 100_000, "ROUNDS": 1, "TEXTS": 20}
"""The constants that set its size, for its test."""


class SourceChunk(NamedTuple):
    text: str
    site: str


def run(data: Path | None) -> Iterable[dict]:
    texts_in = data / "text" if data and (data / "text").is_dir() else data
    found = texts(texts_in, LIMIT_BYTES)
    rng = random.Random(0)
    chunks = [one for text in found for one in cut(text)]
    one_each = [(FAITHFUL[rng.choice(list(FAITHFUL))](one, rng, ()) or one, one) for one in chunks]
    yield measurement("faithful.child_text", rate(one_each), "MB/s")
    all_edits = [(edit(one, rng, ()) or one, one) for one in chunks for edit in FAITHFUL.values()]
    yield measurement("faithful.three_children_of_each_parent", rate(all_edits), "MB/s")
    for name, (flagged, edits) in results(some_chunks(data, True)).items():
        kind = "recall" if name in PLANTS else "false_alarms"
        yield measurement(f"faithful.{kind}_{name}", flagged / max(1, edits), f"of {edits:,} texts")


def rate(pairs: list[tuple[str, str]]) -> float:
    """MB of child text in a second of CPU time."""
    children, parents = zip(*pairs, strict=True)
    batch = pa.record_batch({"text": pa.array(children), "parent_text": pa.array(parents)})
    apply(batch.slice(0, 1), Config())
    size = sum(len(child.encode()) for child in children)
    return size / min(seconds(batch) for _ in range(ROUNDS)) / 1e6


def seconds(batch: pa.RecordBatch) -> float:
    begun = time.process_time()
    apply(batch, Config())
    return time.process_time() - begun


def cut(text: str) -> Iterator[str]:
    """Chunks of a text at empty lines; a longer paragraph is cut off."""
    chunk = ""
    for paragraph in text.split("\n\n"):
        if chunk and len(chunk) + len(paragraph) > CHUNK:
            yield chunk
            chunk = ""
        chunk = f"{chunk}\n\n{paragraph[:CHUNK]}" if chunk else paragraph[:CHUNK]
    if chunk.strip():
        yield chunk


def is_reported(site: str) -> bool:
    """Whether results are reported on the texts of a site; the others are for choosing thresholds and word lists."""
    return hashlib.sha256(site.encode()).digest()[0] % 2 == 1


def some_chunks(data: Path | None, reported: bool) -> list[SourceChunk]:
    """TEXTS chunks of one half, spread over sites and collections."""
    sites: dict[str, list[SourceChunk]] = {}
    for text, site in texts_by_site(data):
        if is_reported(site) == reported:
            long = [one for one in cut(text) if len(one) > 300]
            if long:
                sites.setdefault(site, []).extend(SourceChunk(one, site) for one in long[:8])
    rng = random.Random(1)
    for chunks in sites.values():
        rng.shuffle(chunks)
    found: list[SourceChunk] = []
    while len(found) < TEXTS and sites:
        for site in list(sites):
            found.append(sites[site].pop())
            if not sites[site]:
                del sites[site]
    return found[:TEXTS]


def texts_by_site(
    data: Path | None, folders: tuple[str, ...] = ("text", "gold", "quality")
) -> Iterator[tuple[str, str]]:
    """Texts and their sites: the host, or a tenth of a collection without hosts."""
    if data is None:
        yield from ((text, f"site {number}") for number, text in enumerate(islice(made_up_texts(), 4 * TEXTS)))
        return
    for path in sorted(data.rglob("*.jsonl.zst")):
        if path.parent.name not in folders:
            continue
        with zstd.open(path) as lines:
            for line in lines:
                record = json.loads(line)
                text = record.get("text")
                if isinstance(text, str):
                    host = urlsplit(record.get("url") or "").hostname
                    part = hashlib.sha256(text[:99].encode()).digest()[0] % 10
                    yield text, host if host and not path.parent.name.startswith("text") else f"{path.name} {part}"


def results(chunks: list[SourceChunk]) -> dict[str, tuple[int, int]]:
    """For each edit: flagged texts and all texts."""
    pairs = edited(chunks)
    flagged = flags([child for _, child, _ in pairs], [parent for _, _, parent in pairs])
    counts: dict[str, tuple[int, int]] = dict.fromkeys((*FAITHFUL, *PLANTS), (0, 0))
    for (name, _, _), reasons in zip(pairs, flagged, strict=True):
        before = counts[name]
        counts[name] = before[0] + bool(reasons), before[1] + 1
    return counts


def edited(chunks: list[SourceChunk]) -> list[tuple[str, str, str]]:
    """(edit, child, parent) of every edit that a chunk allows."""
    rng = random.Random(2)
    ordinary = {word for chunk in chunks for word in re.findall("[a-z]+", chunk.text)}
    names = sorted({name for chunk in chunks for name in names_in(chunk.text) if name.lower() not in ordinary})
    found = []
    for chunk in chunks:
        faithful = {name: edit(chunk.text, rng, names) or chunk.text for name, edit in FAITHFUL.items()}
        found += [(name, child, chunk.text) for name, child in faithful.items()]
        for name, plant in PLANTS.items():
            child = plant(rng.choice(list(faithful.values())), rng, names)
            if child is not None:
                found.append((name, child, chunk.text))
    return found


def flags(children: list[str], parents: list[str]) -> list[list[str]]:
    """The reasons of all rules that each text fails."""
    batch = pa.record_batch({"text": pa.array(children), "parent_text": pa.array(parents)})
    layer = apply(batch, Config())
    named = pa.RecordBatch.from_arrays(layer.columns, names=[f"faithful.{name}" for name in SCHEMA.names])
    found = failing(rule_set(RULES, Rules(), "language.label", {}), ColumnVectors(named))
    return [[one.reason for one in found if one.fails[row]] for row in range(len(children))]


def summary(chunks: list[SourceChunk]) -> Counter:
    """Reasons by edit, for reading."""
    pairs = edited(chunks)
    found = flags([child for _, child, _ in pairs], [parent for _, _, parent in pairs])
    return Counter((name, reason) for (name, _, _), reasons in zip(pairs, found, strict=True) for reason in reasons)
