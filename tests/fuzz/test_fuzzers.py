"""The fuzzers run, and what they once found is found no more."""

import dataclasses
import importlib
import itertools
import json
import random
from pathlib import Path

import pytest
from fuzz.meter import METER, METERED
from fuzz.mutate import change_json
from fuzz.target import Target

NAMES = (
    "warc",
    "wet",
    "arc",
    "jsonl",
    "json",
    "csv",
    "parquet",
    "text",
    "html",
    "code",
    "mediawiki",
    "epub",
    "jats",
    "office",
    "latex",
    "notebook",
    "subtitles",
    "stack_exchange",
    "mbox",
    "pdf",
    "page",
    "recipe",
    "tokenizer_json",
    "tokenizer_ranks",
    "index",
    "manifest",
    "suite",
    "suite_table",
)
SLOW_TARGETS = ("recipe", "tokenizer_json", "tokenizer_ranks")
"""A try takes a tenth of a second, or one."""


def fuzzed(name: str, tries: int, seed: int = 0, seeds: int | None = None, corpus_holds: bool = False):
    with METERED:
        run = importlib.import_module("fuzz.run")
        target = importlib.import_module("fuzz.targets").TARGETS[name]
        target = dataclasses.replace(target, seeds=lambda of=target.seeds: itertools.islice(of(), seeds))
        return run.fuzz(target, seed, tries=tries, corpus_holds=corpus_holds)


def told(found) -> str:
    return "\n".join(f"{fault.place}\n{fault.report}" for fault in found.values())


@pytest.mark.slow
def test_every_target_is_tried_here() -> None:
    """A target that is not in the list would rot."""
    with METERED:
        assert tuple(importlib.import_module("fuzz.targets").TARGETS) == NAMES


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if "tokenizer" in name or name == "page" else ()) for name in NAMES],
)
def test_old_findings_hold(name: str) -> None:
    """A seed, every file of the corpus, and some changes to them, break nothing."""
    fuzzer = fuzzed(name, 0 if name in SLOW_TARGETS else 4, seeds=1)
    assert not fuzzer.found, told(fuzzer.found)
    assert len(fuzzer.edges) > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_changed_files_break_nothing(name: str) -> None:
    """All seeds, and some changed files for each kind; `make fuzz` tries as many as there is time.

    The corpus is among what is changed; the test above tries it as it is.
    """
    fuzzer = fuzzed(name, 10 if name in SLOW_TARGETS else 40, seed=1, corpus_holds=True)
    assert not fuzzer.found, told(fuzzer.found)


def test_the_same_seed_is_the_same_run() -> None:
    """What a fuzzer tries comes from its seed and from nothing else."""
    one, other = fuzzed("manifest", 40, 5), fuzzed("manifest", 40, 5)
    assert one.files == other.files
    assert fuzzed("manifest", 40, 6).files != one.files


def test_a_fault_is_found_made_small_and_told_once(tmp_path: Path) -> None:
    """A reader that breaks on one byte is caught with an input of little more than that byte."""
    with METERED:
        run = importlib.import_module("fuzz.run")

        def check(data: bytes, folder: Path) -> None:
            METER.reach(len(data) % 7)
            if b"!" in data:
                raise RuntimeError("boom")

        target = Target("made_up", lambda: [b"abc" * 50], check, (b"!",))
        fuzzer = run.fuzz(target, 0, tries=60)
        assert [found.data for found in fuzzer.found.values()] == [b"!"]
        [path] = run.write_findings(fuzzer, tmp_path)
        assert path.read_bytes() == b"!"
        assert "boom" in path.with_suffix(".txt").read_text()


def test_numbers_grow_only_as_far_as_json_writes_them() -> None:
    """A number that is changed again and again stays one that can be written and read."""
    data = b"[1]"
    for number in range(800):
        changed = change_json(random.Random(number), data)
        data = changed if json.loads(changed) and len(changed) < 5000 else b"[%d]" % (1 << number)


def test_only_the_check_is_bound() -> None:
    """Seeds and changes of files may work as much as they like, in modules that count."""
    with METERED:
        run = importlib.import_module("fuzz.run")

        def seeds() -> list[bytes]:
            METER.add(1 << 40)
            return [b"abc"]

        def check(data: bytes, folder: Path) -> None:
            METER.add(1000)

        def change(draw: random.Random, data: bytes) -> bytes:
            METER.add(1 << 40)
            return data + b"x"

        target = Target("made_up", seeds, check, mutations=(change,))
        assert not run.fuzz(target, 0, tries=20).found
        assert not run.fuzz(target, 0, tries=0).found


def test_a_hang_is_found_by_counting() -> None:
    """A check that works for ever is stopped by its work, not by a clock."""
    with METERED:
        run = importlib.import_module("fuzz.run")

        def check(data: bytes, folder: Path) -> None:
            while True:
                METER.add(1000)

        fuzzer = run.fuzz(Target("made_up", lambda: [b"abc"], check), 0, tries=0)
    assert list(fuzzer.found) == ["TooMuchWork"]
