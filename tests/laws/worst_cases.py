"""For every stage the inputs that might make it work more than they are long, and how it is run over them.

Work is what the meter counts (fuzz/meter.py) and, with the plugin tests/kernels/counted_work.py, the blocks of code
that compiled kernels run.
"""

import hashlib
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from fuzz.meter import METER

FOOTER = " all rights reserved by the miller of the mill on the river in the valley"


def words(number: int, count: int) -> str:
    """Words that no other number has."""
    return " ".join(f"w{number}x{place}" for place in range(count))


def many(count: int, text: Callable[[int], str], url: Callable[[int], str]) -> list[tuple[str, str]]:
    return [(text(number), url(number)) for number in range(count)]


def one(text: str = "the mill", url: str = "https://a.example/") -> list[tuple[str, str]]:
    return [(text, url)]


SHAPES: dict[str, Callable[[int], list[tuple[str, str]]]] = {
    "one word again and again": lambda size: one("mill " * (size // 5)),
    "different words of one line": lambda size: one(words(0, size // 6)),
    "one word without end": lambda size: one("x" * size),
    "lines of a letter": lambda size: one("a\n" * (size // 2)),
    "equal lines": lambda size: one("the mill stands by the river.\n" * (size // 30)),
    "digits and signs": lambda size: one("1.2-3@4:5/" * (size // 10)),
    "letters of other scripts": lambda size: one("水é" * (size // 5)),
    "opened tags": lambda size: one("<div><b>" * (size // 8)),
    "a footer that all share": lambda size: many(
        size // 100, lambda n: words(n, 4) + FOOTER, lambda n: f"https://a.example/{n}"
    ),
    "equal texts at one address": lambda size: many(
        size // 40, lambda _: "the mill by the river " * 2, lambda _: "http://a.de"
    ),
    "a host of many labels": lambda size: one(url=f"http://{'a.' * (size // 2)}com/"),
    "a host of one label": lambda size: one(url=f"http://{'é' * (size // 2)}.com/"),
    "a path of dots": lambda size: one(url=f"http://a.com{'/a/..' * (size // 5)}"),
    "a query of names": lambda size: one(url="http://a.com/?" + "&".join(f"a{n}" for n in range(size // 6))),
    "combining marks": lambda size: one(url="http://a.com/e" + "%CC%81" * (size // 6)),
}
"""(text, url) of documents, of about so many bytes in all."""


def table_of(rows: list[tuple[str, str]]) -> pa.Table:
    """The columns that readers make, and those that every step may read."""
    count = len(rows)
    texts = [text for text, _ in rows]
    return pa.table(
        {
            "text": pa.array(texts),
            "text_bytes": pa.array([len(text.encode()) for text in texts], pa.int64()),
            "html": pa.array([f"<html><body><p>{text}</p></body></html>" for text in texts]),
            "doc_id": pa.array([hashlib.md5(b"%d" % n).digest() for n in range(count)], pa.binary(16)),
            "url": pa.array([url for _, url in rows]),
            "source": pa.array(["mill"] * count),
            "snapshot": pa.array(["2026"] * count),
            "timestamp": pa.array([0] * count, pa.timestamp("us", tz="UTC")),
            "locator": pa.array([f"mill/{n}.py" for n in range(count)]),
            "language_hint": pa.array(["python"] * count),
            "license": pa.array(["MIT OR ISC"] * count),
            "ingest.text": pa.array(texts),
            "ingest.drop": pa.nulls(count, pa.string()),
            "corpus.drop": pa.nulls(count, pa.string()),
        }
    )


def work_of(task: Callable[[], Any]) -> int:
    """Of Python and of kernels."""
    plugin = sys.modules.get("tests.kernels.counted_work")
    if plugin is not None:
        plugin.BLOCKS[0] = 0
    METER.reset()
    task()
    return METER.work + (0 if plugin is None else int(plugin.BLOCKS[0]))


def imported(name: str) -> Any:
    return importlib.import_module(name)


def with_layers(table: pa.Table, names: list[str]) -> pa.Table:
    """The same with columns of other steps, which those make of it."""
    steps = imported("gristmill.stages").STEPS
    interface = imported("gristmill.stages.stage_interface")
    for name in names:
        step = name.rpartition(".")[0]
        if name in table.column_names:
            continue
        if step not in steps:
            table = table.append_column(name, pa.nulls(len(table), pa.string()))
            continue
        module = imported(steps[step])
        reads = interface.reads_of(module, module.Config())
        table = with_layers(table, list(reads))
        batch = pa.RecordBatch.from_arrays([table[one].combine_chunks() for one in reads], names=list(reads))
        made = module.apply(batch, module.Config())
        for own in (one for one in made.schema.names if f"{step}.{one}" not in table.column_names):
            table = table.append_column(f"{step}.{own}", made[own])
    return table


def run_step(name: str, config: dict[str, Any], table: pa.Table) -> Callable[[], Any]:
    """A step with the stages that it is made of, ready to be run."""
    module = imported(imported("gristmill.stages").STEPS[name])
    exchanged, interface = imported("exchanged"), imported("gristmill.stages.stage_interface")
    made = module.Config.model_validate(config)
    parts = [*exchanged.stages_of(module, made)]
    own = {part for _, _, part in parts}
    for stage, part, _ in parts:
        reads = (*interface.reads_of(stage, part), *interface.may_read_of(stage, part))
        table = with_layers(table, [one for one in reads if one.split(".")[0] not in own])
    return lambda: exchanged.run_step(module, made, [table])


def takedown(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """All three stages: half of the documents are named by their domain, and by as many prefixes."""
    match, sets, judge = (
        imported(f"gristmill.stages.takedown.{name}") for name in ("takedown_match", "takedown_sets", "takedown")
    )
    prefixes = [f"https://a.example/{number}" for number in range(len(table))]
    request = {"id": "r", "domains": ["a.example", "a.de", "a.com"], "url_prefixes": prefixes}
    (folder / "requests.yaml").write_text(json.dumps([request]))
    asked = {"requests": (str(folder / "requests.yaml"),), "names": ("",)}
    half = table.slice(0, (len(table) + 1) // 2)
    judge.MOST = judge.COMPARED = 4  # as small against these inputs as the bounds are against a corpus

    def columns(some: pa.Table, names: Any) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([some[name].combine_chunks() for name in names], names=list(names))

    def run() -> None:
        match.rules_of.cache_clear()
        judge.open_sets.cache_clear()
        named = match.apply(columns(half, match.READS), match.Config(**asked))
        match.metrics(columns(half, match.READS), named, match.Config(**asked))
        read = pa.RecordBatch.from_arrays(
            [half["doc_id"].combine_chunks(), named["request"], named["shingles"]], names=list(sets.READS)
        )
        sets.fit(iter([read]), sets.Config(**asked), folder / "sets")
        nobody = pa.nulls(len(table), pa.string())
        batch = pa.RecordBatch.from_arrays([table["text"].combine_chunks(), nobody, nobody], names=list(judge.READS))
        answers = judge.apply(batch, judge.Config(), {"takedown_sets": folder / "sets"})
        judge.metrics(batch, answers, judge.Config())

    return run


def index(folder: Path, table: pa.Table) -> Callable[[], Any]:
    stage = imported("gristmill.stages.select.index")
    config = stage.Config(source="mill")
    entries = stage.layout({}, config)["mill"]
    batch = pa.RecordBatch.from_arrays([table[name].combine_chunks() for name in stage.READS], names=list(stage.READS))

    def run() -> None:
        records = stage.emit(batch, config, entries)
        records = records.append_column("part", pa.array(np.full(records.num_rows, 7, np.uint64)))
        stage.build(pa.Table.from_batches([records]), config, entries[0], folder)

    return run


def request_lines(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """A file of requests whose lines are the texts and addresses."""
    requests = imported("gristmill.stages.takedown.requests")

    def run() -> None:
        for text in (*table["text"].to_pylist(), *table["url"].to_pylist()):
            try:
                requests._recognised(f"{text[:-1]}.*", "requests.txt:1")
            except imported("gristmill.errors").UserError:
                pass

    return run


def copies_left(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """As many groups of documents as there are documents: each is a source with its own dedup step."""
    stage, exchanged = imported("gristmill.stages.dedup.copies_left"), imported("exchanged")
    names = [f"mill{number}" for number in range(len(table))]
    table = table.set_column(table.column_names.index("source"), "source", pa.array(names))
    config = stage.Config(groups={name: (f"{name}.exact_dedup", "snapshot") for name in names})
    parts = [table.slice(number, 1) for number in range(len(table))]
    return lambda: exchanged.run_stage(stage, config, parts)


CUSTOM: dict[str, Callable[[Path, pa.Table], Callable[[], Any]]] = {
    "takedown": takedown,
    "index": index,
    "copies_left": copies_left,
    "requests": request_lines,
}
COVERED = {
    "takedown": ("takedown.takedown", "takedown.takedown_match", "takedown.takedown_sets"),
    "index": ("select.index",),
    "copies_left": ("dedup.copies_left",),
}
"""Custom runs -> the stages that they run; a step runs itself and what it is made of."""
LEFT_OUT = {
    "decontaminate.decontaminate": "tests/stages/decontaminate counts the work of its scans",
    **dict.fromkeys(
        [
            "decontaminate.eval_index", "decontaminate.eval_index_new", "decontaminate.eval_match",
            "decontaminate.eval_scan", "decontaminate.eval_scan_new", "decontaminate.eval_suite",
        ],
        "part of decontaminate",
    ),
    **dict.fromkeys(
        [
            "quality.classifier_of_files", "quality.language_model_of_files", "tokenizer.tokenizer_file",
            "tokenizer.tokenizer_pin", "mix.mix", "mix.manifest",
        ],
        "reads files of its user, not documents",
    ),
    **dict.fromkeys(
        [
            "quality.classifier", "quality.language_model", "quality.sample", "quality.texts", "tokenizer.tokenizer",
            "tokenizer.tokenizer_sample", "tokenizer.tokenizer_text", "shards.tokens", "shards.shard_groups",
            "shards.shards", "select.corpus",
        ],
        "behind the selection of documents: no worst case yet",
    ),
}  # fmt: skip
"""Stages without a worst case, and why."""
