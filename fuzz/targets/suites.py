"""Eval suites: a mistake in a description or an archive is one UserError, and reading again gives the same."""

import io
import json
import tarfile
import zipfile
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
  one: {files: "*.jsonl", question: "{q} {d.e.0.t}", choices: c, answer_choice: a, counted_from: A, coverage: 0.7}
  two: {files: [x.tar], inside: "**/*.jsonl", question: q, choices: [c, d.e.t], protect: [question], fuzzy: false}
  three: {files: t.csv, header: false, question: 0, id: 1, allow_broken: 2, rule: whole}
  four: {files: x.zip, inside: q.jsonl, answer_file: a.lst, like: multiple_choice}
"""


def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in ("q.jsonl", "n" * 200 + "/q.jsonl"):
            info = tarfile.TarInfo(name)
            info.size = len(_LINES)
            archive.addfile(info, io.BytesIO(_LINES))
    return file.getvalue()


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("q.jsonl", json.dumps({"query": "Question: a", "choices": ["b"], "gold": 0}))
        archive.writestr("a.lst", "0\n")
    return file.getvalue()


_FILES = {"q.jsonl": _LINES, "x.tar": _tar(), "t.csv": b'"a,b",1\nc,2\n', "x.zip": _zip()}


def _read(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    try:
        suite = read_suite(str(folder))
    except UserError as error:
        hold(str(folder) in str(error), "the message does not name the file")
        hold(len(str(error)) < 200_000, "the message is longer than a book")
        return
    hold(bool(suite.items) and len(suite.items) == len(suite.generations), "a suite without an item")
    hold(read_suite(str(folder)) == suite, "the same files are another suite")


def _check_description(data: bytes, folder: Path) -> None:
    _read(folder, {**_FILES, "suite.yaml": data})


def _check_archive(data: bytes, folder: Path) -> None:
    name = "x.zip" if data[:2] == b"PK" else "x.tar"
    entry = f"{{files: {name}, inside: '**', format: jsonl, question: q, allow_broken: 1000}}"
    _read(folder, {name: data, "suite.yaml": f"suite: s\nversion: 1\nbenchmarks: {{b: {entry}}}\n".encode()})


def _descriptions() -> Iterator[bytes]:
    yield _SUITE


def _archives() -> Iterator[bytes]:
    yield _tar()
    yield _zip()


_WORDS = words(
    b"&a |*a|<<: *a\n|- |? |: |{|}|[|]|\"|'|!!int |\t|---\n|#|**|../|/|\\0|files: |inside: |like: |gsm8k|arc|question: "
    b"|{q}|{|}|d.e.t|d.e.0|blank: |split_choices: |strip_prefix: |code: |labels: c|lines_per_item: |records: "
    b"|format: lines|format: json|format: parquet|0|-1|1e9|true|null|suite.lock|x.zip|*"
)
TARGETS = [
    Target("suite", _descriptions, _check_description, _WORDS, work_per_byte=200_000),
    Target("suite_archive", _archives, _check_archive, words(b"PK\1\2|PK\3\4|ustar|L|x|K|S|0000000|7777777")),
]
