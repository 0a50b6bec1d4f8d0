"""Nothing in a file makes the work of reading it grow faster than the file.

Work is counted (fuzz/meter.py), not timed: every input of attacks.py is read at three sizes, each twice the one before.
"""

import importlib
import math
from pathlib import Path

import pytest
from fuzz.meter import METER, METERED, TooMuchWork
from tests.laws.attacks import ATTACKS, Attack

SMALL = {
    "stages.ingest.walk": {"FIRST_READ_BYTES": 128, "SEARCH_BYTES": 1 << 11, "ARC_REACH": 256},
    "stages.ingest.pages": {"FIRST_READ_BYTES": 128},
    "stages.ingest.source": {"WINDOW_BYTES": 1 << 13, "HOP_BYTES": 1 << 8},
    "stages.ingest.tape": {"FORGET_BYTES": 1 << 8},
    "stages.ingest.frames": {"STEP_BYTES": dict.fromkeys(("gzip", "zstd", "lz4"), 64), "OUTPUT_BYTES": 1 << 10},
    "stages.ingest.resync": {
        "SHORT_LOOK_BYTES": 64,
        "LEAVE_SHARE": 16,
        "BACK_BYTES": 1 << 7,
        "VERBATIM_BYTES": dict.fromkeys(("gzip", "zstd", "lz4"), 1 << 8),
    },
    "stages.ingest.stream": {"CHUNK_BYTES": 1 << 8},
    "stages.ingest.jsonl": {"_HEAD_BYTES": 1 << 8},
    "stages.ingest.json_values": {"_HEAD_BYTES": 1 << 8},
    "stages.ingest.csv_rows": {"_HEAD_BYTES": 1 << 8},
    "stages.ingest.csv_cut": {"FREE_BYTES": 1 << 8},
    "stages.ingest.parquet": {
        "MOST_RATIO": 2,
        "MOST_ROWS_BYTES": 1 << 10,
        "_BATCH_BYTES": 1 << 12,
        "_SPELLED_BYTES": 1 << 12,
    },
    "engine.files": {"MOST_STRETCHES": 8},
}
"""Windows and steps, 16 to 1024 times smaller than they are: so small inputs go through all that large ones would."""

QUICK = {
    ("warc", "headers without end"),
    ("warc", "gzip members in a body"),
    ("warc_gz", "newlines"),
    ("warc_gz", "gzip magic with flags b'\\x08'"),
    ("jsonl", "newlines in gzip"),
    ("jsonl", "gzip members of a line"),
    ("json", "opened objects"),
    ("csv", "records that never end"),
    ("parquet", "one text for all rows"),
    ("markdown", "rulers"),
    ("code", "SPDX tags"),
    ("robots", "agents"),
    ("recipe", "merges of merges"),
    ("recipe", "opened lists"),
    ("ranks", "a long token"),
    ("manifest", "opened lists"),
    ("index", "zeros"),
}
"""For the quick tests: what was found to take hours, and one of each kind."""

MOST_EXPONENT = 1.15
MOST_WORK_PER_BYTE = 3000
"""Of decoded input: the price of the smallest record, with all that is looked at around it."""


def _rows(module_name: str, name: str):
    def run(path: Path) -> None:
        module = importlib.import_module(f"gristmill.stages.ingest.{module_name}")
        contract = importlib.import_module("gristmill.stages.contract")
        for _ in module.read(contract.Piece(str(path), name), module.Config()):
            pass

    return run


def _stretches(module_name: str, name: str):
    """The same, in as many stretches as a planner makes of a large file."""

    def run(path: Path) -> None:
        module = importlib.import_module(f"gristmill.stages.ingest.{module_name}")
        contract = importlib.import_module("gristmill.stages.contract")
        step = -(-path.stat().st_size // importlib.import_module("gristmill.engine.files").MOST_STRETCHES)
        for start in range(0, path.stat().st_size, step):
            for _ in module.read(contract.Piece(str(path), name, start, start + step), module.Config()):
                pass

    return run


def _robots(path: Path) -> None:
    importlib.import_module("gristmill.stages.select.robots_txt").rules_for(path.read_text(), "mill-x")


def _lists(path: Path) -> None:
    importlib.import_module("gristmill.stages.select.lists").load("block_domains", str(path), "domains")


def _recipe(path: Path) -> None:
    _refused(importlib.import_module("gristmill.recipe.load").load, path, env={"A": "x"})


def _tokenizer(path: Path) -> None:
    _refused(importlib.import_module("gristmill.stages.tokenizer.files").load, str(path))


def _ranks(path: Path) -> None:
    _refused(importlib.import_module("gristmill.stages.tokenizer.files").load, str(path), "gpt2")


def _manifest(path: Path) -> None:
    _refused(importlib.import_module("gristmill.loader.manifest").read_manifest, path)


def _index(path: Path) -> None:
    _refused(importlib.import_module("gristmill.loader.index").read_index, path)


def _refused(load, *given, **named) -> None:
    """Loads, or says why not."""
    try:
        load(*given, **named)
    except importlib.import_module("gristmill.errors").UserError:
        pass


READERS = {
    "warc": _rows("warc", "x.warc"),
    "warc_gz": _rows("warc", "x.warc.gz"),
    "stretches": _stretches("warc", "x.warc.gz"),
    "jsonl": _rows("jsonl", "x.jsonl"),
    "stretches_jsonl": _stretches("jsonl", "x.jsonl"),
    "json": _rows("json_values", "x.json"),
    "csv": _rows("csv_rows", "x.csv"),
    "parquet": _rows("parquet", "x.parquet"),
    "markdown": _rows("text", "x.md"),
    "code": _rows("code", "x"),
    "robots": _robots,
    "lists": _lists,
    "recipe": _recipe,
    "tokenizer": _tokenizer,
    "ranks": _ranks,
    "manifest": _manifest,
    "index": _index,
}


def work_at(attack: Attack, size: int, folder: Path) -> float:
    path = folder / "input"
    path.write_bytes(attack.make(size))
    with METERED:
        modules = {name: vars(importlib.import_module(f"gristmill.{name}")) for name in SMALL}
        usual = {name: {key: modules[name][key] for key in values} for name, values in SMALL.items()}
        try:
            for name, values in SMALL.items():
                modules[name].update(values)
            METER.reset(1_000_000 + MOST_WORK_PER_BYTE * size)
            READERS[attack.reader](path)
        finally:
            for name, values in usual.items():
                modules[name].update(values)
    return METER.work


def _row(attack: Attack):
    name = f"{attack.reader}-{attack.what}".replace(" ", "_")
    return pytest.param(attack, id=name, marks=() if attack[:2] in QUICK else pytest.mark.slow)


@pytest.mark.parametrize("attack", [_row(attack) for attack in ATTACKS])
def test_work_grows_no_faster_than_the_input(attack: Attack, tmp_path: Path) -> None:
    """Twice the input is at most 2.2 times the work, and no byte costs more than a small record may."""
    sizes = [attack.size << doubling for doubling in range(3)]
    try:
        work = [work_at(attack, size, tmp_path) for size in sizes]
    except TooMuchWork:
        pytest.fail(f"the work for {sizes} bytes passes every bound")
    exponent = math.log2(work[2] / work[0]) / 2
    assert exponent <= MOST_EXPONENT, f"work {work} for {sizes} bytes grows with the power {exponent:.2f}"
