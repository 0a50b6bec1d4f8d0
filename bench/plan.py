"""`gristmill plan --cluster` against the truth: a corpus ten times its sample, predicted from the sample and then run.

The documents of the data folder (texts, and pages if it has some) are in files in random order, so that a tenth of the
files is a fair sample. The bench does not measure what a sample cannot know, such as a corpus of another kind. CPU
seconds are those of all tasks, without compilation, with one worker per core. The prediction knows nothing about the
whole corpus.
"""

import io
import json
import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import zstandard
from fastwarc.warc import ArchiveIterator

from bench.inputs import measurement, scratch, texts, warc_files
from gristmill.engine.mill import Mill, Silent
from gristmill.engine.work.memory import available_cores
from gristmill.query.sizing.sizing import FACTOR, Machines, MeasuredRun, last_measured, size_up
from gristmill.recipe.load import load

FILES = 100
TEXT_BYTES = 60_000_000
SHARE = "10%"
RECIPE = """
recipe: sized
seed: 7
store: ./store
sources:
  crawl: {kind: web, domain: web, tier: B, read: {format: warc, paths: ["crawl/*.warc.gz"], part_bytes: 1MB}}
  texts: {kind: text, domain: text, tier: A, read: {format: jsonl, paths: ["texts/*.zst"], part_bytes: 1MB}}
steps:
  web:
    - robots: {agent: CCBot}
    - extract
    - language
    - keep_language: {keep: {en: 0.5, de: 0.5}}
    - signals
    - heuristics: {rules: [gopher_repetition, gopher_quality]}
  all:
    - url_dedup
    - exact_dedup
    - line_dedup
    - near_dedup
tokenizer: {train: {vocab: 8000, sample_bytes: {web: 2MB, text: 2MB}}}
shards: {seq_len_tokens: 2048}
"""


def run(data: Path | None) -> Iterable[dict]:
    with scratch() as folder:
        recipe = _write(data, folder)
        sample = _measured(recipe, folder / "sample", SHARE)
        whole = _measured(recipe, folder / "whole", None)
        cluster = Machines(1, available_cores())
        planned = size_up(sample, sample.tokens / sample.share, cluster)
    cpu_s = sum(step.cpu_s for step in whole.steps)
    unit = f"of the truth, {cpu_s:.0f} CPU s: {planned.cpu_s:.0f} predicted (goal: within a factor of {FACTOR:g})"
    yield measurement("plan.cpu", planned.cpu_s / cpu_s, unit)
    yield measurement(
        "plan.tokens", sample.tokens / sample.share / whole.tokens, f"of {whole.tokens / 1e6:.1f}M tokens"
    )
    stored = sum(step.stored_bytes for step in whole.steps)
    yield measurement("plan.store", planned.stored_bytes / stored, f"of {stored / 1e6:.0f} MB in the store")
    yield measurement("plan.tasks", planned.tasks / whole.tasks, f"of {whole.tasks:,} tasks")
    most = max(step.memory_bytes for step in whole.steps)
    yield measurement("plan.memory", planned.memory_bytes / most, f"of {most / 1e6:.0f} MB in a worker at most")


def _measured(recipe: Path, store: Path, sample: str | None) -> MeasuredRun:
    mill = Mill(load(recipe, store=str(store), sample=sample))
    mill.run(None, Silent())
    return last_measured(mill)


def _write(data: Path | None, folder: Path) -> Path:
    """Writes the documents to files, each of which is a fair sample of the whole."""
    draw = random.Random(3)
    pages = [page for path in warc_files(data, folder) for page in _members(path)]
    lines = [json.dumps({"text": text}).encode() for text in texts(data, TEXT_BYTES)]
    for some in (pages, lines):
        draw.shuffle(some)
    (folder / "crawl").mkdir()
    (folder / "texts").mkdir()
    for number in range(FILES):
        (folder / "crawl" / f"{number:03}.warc.gz").write_bytes(b"".join(pages[number::FILES]))
        packed = zstandard.compress(b"\n".join([*lines[number::FILES], b""]))
        (folder / "texts" / f"{number:03}.jsonl.zst").write_bytes(packed)
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder / "recipe.yaml"


def _members(path: Path) -> list[bytes]:
    """The compressed records of a file, up to where it can be read."""
    data, places = path.read_bytes(), []
    try:
        for record in ArchiveIterator(io.BytesIO(data), parse_http=False):
            places.append(record.stream_pos)
    except OSError:
        pass
    return [data[start:stop] for start, stop in pairwise(places)]
