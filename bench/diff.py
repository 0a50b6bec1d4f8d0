"""`gristmill diff` of two versions of a corpus: the whole command, from typing it to the answer.

The bench generates documents of about 60 words, measures and judges them (not timed). A second version judges them by
another threshold, and a third version splits them into other parts, so that no part is in two versions and every
document must be found by its id. The peer holds the ids and verdicts of both versions in dictionaries and counts the
same documents; it reads no languages and no scores. BENCH_DOCUMENTS sets the number of documents.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.inputs import measurement
from bench.whatif import write_documents
from gristmill.engine.mill import Mill, Silent
from gristmill.engine.publish.run_record import see
from gristmill.recipe.load import load
from gristmill.store.parquet import PartReader
from gristmill.store.store import Store

DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", "50_000"))
RECIPE = """
recipe: two
store: ./store
sources:
  made: {kind: text, read: {format: jsonl, paths: [documents.jsonl], part_bytes: PART}}
steps:
  - language
  - signals
  - heuristics: {gopher_quality: {min_words: WORDS}, gopher_repetition: {}, fineweb: {}}
"""


def run(data: Path | None) -> Iterable[dict]:
    with TemporaryDirectory(prefix="gristmill-bench-") as name:
        folder = Path(name)
        write_documents(folder / "documents.jsonl", DOCUMENTS)
        hashes = []
        for part, words in (("32MiB", "50"), ("32MiB", "30"), ("24MiB", "30")):
            (folder / "recipe.yaml").write_text(RECIPE.replace("PART", part).replace("WORDS", words))
            hashes.append(Mill(load(folder / "recipe.yaml")).run(None, Silent()).ended["version"])
        first, second, third = hashes
        yield measurement("diff.documents", DOCUMENTS, "documents")
        for what, before, now in (("threshold", first, second), ("other_parts", first, third)):
            seconds, cpu, answer = ask(folder, before, now)
            begun = time.perf_counter()
            counts = count_in_dictionaries(folder / "store", before, now)
            peer = time.perf_counter() - begun
            assert counts == (answer["came"]["documents"], answer["went"]["documents"]), (counts, answer["came"])
            yield measurement(f"diff.{what}", seconds, "s (goal: under 10)", "dictionaries", peer, less=True)
            yield measurement(f"diff.{what}.cpu", cpu, "s of CPU")
            yield measurement(f"diff.{what}.came", answer["came"]["documents"], "documents")


def ask(folder: Path, before: str, now: str) -> tuple[float, float, dict]:
    """Wall seconds, CPU seconds (the better figure on a busy machine) and the answer."""
    command = [sys.executable, "-m", "gristmill.cli.main", "diff", str(folder / "store"), before, now, "--json"]
    begun, used = time.perf_counter(), _cpu_of_children()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - begun, _cpu_of_children() - used, json.loads(done.stdout)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def count_in_dictionaries(store: Path, before: str, now: str) -> tuple[int, int]:
    """The number of added and of removed documents."""
    kept = []
    for name in (before, now):
        view, found = see(Store(str(store)), name), {}
        for document in view.documents["made"]:
            ids = PartReader(view.store, document.part).read(["doc_id"])["doc_id"].to_pylist()
            corpus = view.states["made/corpus"].layers["made", document.order][0]
            drops = PartReader(view.store, corpus).read(["drop"])["drop"].to_pylist()
            found.update(zip(ids, drops, strict=True))
        kept.append({doc_id for doc_id, drop in found.items() if drop is None})
    return len(kept[1] - kept[0]), len(kept[0] - kept[1])
