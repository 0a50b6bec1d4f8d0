"""Eval suites: a mistake in a description or a file is one UserError, and reading again gives the same."""

import json
from collections.abc import Iterator
from pathlib import Path

from fuzz.target import Target, hold, words
from gristmill.errors import UserError
from gristmill.stages.decontaminate.suite.suite import read_suite

_RECORD = {"q": "How many?", "a": "B", "c": ["one", "two"], "d": {"e": [{"t": "x"}]}}
_LINES = (json.dumps(_RECORD) + "\n").encode() * 2
_SUITE = b"""suite: s
version: "1"
benchmarks:
  one: {files: "*.jsonl", question: "{q} {d.e.0.t}", choices: c, answer_choice: a, counted_from: A}
  two: {files: [q.json], question: q, choices: [c, d.e.t], protect: [question], prompt: true}
  three: {files: t.csv, question: q, id: n, allow_broken: 2}
  four: {files: m.jsonl, like: multiple_choice}
"""
_MULTIPLE = json.dumps({"query": "Question: a", "choices": ["b"], "gold": 0}).encode()
_TABLE = b'q,n\n"a,b",1\nc,2\n'
_ARRAY = b"[" + _LINES.replace(b"\n", b",")[:-1] + b"]"
_FILES = {"q.jsonl": _LINES, "q.json": _ARRAY, "t.csv": _TABLE, "m.jsonl": _MULTIPLE}


def _read(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    try:
        suite = read_suite(str(folder))
    except UserError as error:
        hold(str(folder) in str(error), "the message does not name the file")
        hold(len(str(error)) < 200_000, "the message is longer than a book")
        return
    hold(bool(suite.items), "a suite without an item")
    hold(read_suite(str(folder)) == suite, "the same files are another suite")


def _check_description(data: bytes, folder: Path) -> None:
    _read(folder, {**_FILES, "suite.yaml": data})


def _check_file(data: bytes, folder: Path) -> None:
    entry = "{files: q.csv, question: q, allow_broken: 1000}"
    _read(folder, {"q.csv": data, "suite.yaml": f"suite: s\nversion: 1\nbenchmarks: {{b: {entry}}}\n".encode()})


def _descriptions() -> Iterator[bytes]:
    yield _SUITE


def _tables() -> Iterator[bytes]:
    yield _TABLE


_WORDS = words(
    b"&a |*a|<<: *a\n|- |? |: |{|}|[|]|\"|'|!!int |\t|---\n|#|**|../|/|\\0|files: |like: |gsm8k|arc|question: "
    b"|{q}|{|}|d.e.t|d.e.0|blank: |code: |labels: c|prompt: true|protect: "
    b"|format: json|format: parquet|0|-1|1e9|true|null|q.json|t.csv|*"
)
TARGETS = [
    Target("suite", _descriptions, _check_description, _WORDS, work_per_byte=200_000),
    Target("suite_table", _tables, _check_file, words(b'"|""|,|\r\n|\n\n')),
]
