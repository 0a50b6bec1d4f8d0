"""JSON Lines, JSON arrays, CSV, Parquet, and trees of text, of pages and of code."""

import bz2
import gzip
import io
import json
import lzma
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from backports import zstd

from fuzz.target import Target, words
from fuzz.targets.packing import repack, size
from fuzz.targets.reading import check_reader, check_rows
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import code, csv_rows, html_files, json_values, jsonl, parquet, text
from gristmill.stages.reading import csv_cut

_LINES = [
    {"text": "the mill stands by the river", "url": "http://a.example/", "timestamp": "2021-03-04T05:06:07Z"},
    {"text": "Mühle 水車 👩‍👩‍👧", "meta": {"a": [1, 2.5, None, True]}, "license": "MIT", "language": "de"},
    {"html": "<p>x</p>", "timestamp": 1614834367, "title": "t"},
    {"text": ""},
    {"id": 7},
    [1],
]
_JSONL = b"\n".join(json.dumps(line).encode() for line in _LINES) + b'\n{"text": "\\ud800", "n": NaN}\n\r\n{broken\n'


def _jsonl_seeds() -> Iterator[bytes]:
    yield _JSONL
    yield gzip.compress(_JSONL, mtime=0)
    yield b"".join(gzip.compress(line + b"\n", mtime=0) for line in _JSONL.split(b"\n"))
    yield zstd.compress(_JSONL) + b"\x50\x2a\x4d\x18\x02\0\0\0xx" + zstd.compress(b'{"text": "y"}\n')
    yield bz2.compress(_JSONL) + bz2.compress(b'{"text": "y"}')
    yield lzma.compress(_JSONL) + bytes(4) + lzma.compress(b'{"text": "y"}')
    yield b"\xef\xbb\xbf" + _JSONL


def _check_jsonl(data: bytes, folder: Path) -> None:
    check_reader(jsonl, data, folder, "x.jsonl", fields={"text": "text", "html": "html", "key": None})


def _json_seeds() -> Iterator[bytes]:
    rows = [*_LINES, "words", 1, None, {"text": '\\ [x] {y} "', "meta": [[{"a": "]"}]]}]
    array = json.dumps(rows).encode()
    yield array
    yield json.dumps(rows, indent=1, ensure_ascii=False).encode()
    yield gzip.compress(array, mtime=0)
    yield b"\xef\xbb\xbf" + b"\n".join(json.dumps(row).encode() for row in rows)
    yield array[:-40] + b"{broken]}," + array[-40:]
    yield b'[{"text": "a"}, {"text": NaN, "b": "\\ud800"}, bare, {"text": "cut'


def _check_json(data: bytes, folder: Path) -> None:
    check_reader(json_values, data, folder, "x.json", max_record_bytes=1 << 10)


_TABLE = (
    b'id,text,url\n1,the mill,http://a.example/\n2,"a ""mill"", two\nlines",x\r\n3,5" pipe,\n\n'
    b'4,"Wasserm\xc3\xbchle",\n5,too,many,fields\n6,few\n7,\xff,x\n8,"never\n9,closed,y\n'
)


def _csv_seeds() -> Iterator[bytes]:
    yield _TABLE
    yield b"\xef\xbb\xbf" + _TABLE
    yield _TABLE.replace(b",", b"\t")
    yield gzip.compress(_TABLE, mtime=0)
    yield b"text,text,,html\n" + b'"a","b","c","d"\n' * 5
    yield b"".join(zstd.compress(line + b"\n") for line in _TABLE.split(b"\n"))


def _check_csv(data: bytes, folder: Path) -> None:
    csv_cut.FREE_BYTES = 1 << 8  # here, a file with nothing but faults is a small one
    name = _by_name(data, ("x.csv", "x.tsv", "x.csv.gz"))
    check_reader(csv_rows, data, folder, name, max_record_bytes=1 << 8, quotes=zlib.adler32(data) % 7 != 0)


def _parquet_seeds() -> Iterator[bytes]:
    texts = ["the mill", None, "Mühle", "", "x" * 300, "the mill"]
    table = pa.table(
        {
            "text": texts,
            "url": pa.array(texts).dictionary_encode(),
            "timestamp": pa.array([0, 1, None, 3, 4, 5], pa.timestamp("ns", "Europe/Berlin")),
            "meta": [
                {"a": [1, 2], "b": None},
                None,
                {"a": [], "b": "x"},
                {"a": None, "b": ""},
                {"a": [3], "b": "y"},
                None,
            ],
            "raw": [b"\xff", None, b"", b"x", b"y", b"z"],
            "n": pa.array([1.5, None, float("nan"), 2, 3, 4]),
        }
    )
    for options in (
        {"compression": "none"},
        {"compression": "zstd", "row_group_size": 2},
        {"compression": "gzip", "use_dictionary": False, "data_page_version": "2.0", "write_page_checksum": True},
    ):
        sink = io.BytesIO()
        pq.write_table(table, sink, **options)
        yield sink.getvalue()


def _check_parquet(data: bytes, folder: Path) -> None:
    check_reader(parquet, data, folder, "x.parquet", max_record_bytes=1 << 16)


_MARKDOWN = b"---\ntitle: The mill\ntags: [a, b]\ndate: 2020-01-02\n---\n# The mill\n\nText of it.\n\n```\n# no\n```\n"


def _text_seeds() -> Iterator[bytes]:
    yield _MARKDOWN
    yield gzip.compress(_MARKDOWN, mtime=0)
    yield b"The mill\n========\n\nText\n"
    yield "\ufeffDie Mühle".encode("utf-16")
    yield b"\\documentclass{x}\\title{The mill} % no\n"
    yield "# -*- coding: latin-1 -*-\nMühle für öde Wälder".encode("latin-1")
    yield b"= The mill\n\n* one\n"


def _by_name(data: bytes, names: tuple[str, ...]) -> str:
    return names[zlib.adler32(data) % len(names)]


def _check_text(data: bytes, folder: Path) -> None:
    name = _by_name(data, ("a.md", "a.rst", "a.adoc", "a.org", "a.tex", "a.txt", "README", "a.md.gz"))
    check_reader(text, data, folder, name, max_record_bytes=1 << 16)


def _check_html(data: bytes, folder: Path) -> None:
    check_reader(html_files, data, folder, _by_name(data, ("a.html", "a.xhtml.gz")), max_record_bytes=1 << 16)


def _code_seeds() -> Iterator[bytes]:
    yield (
        b"#!/usr/bin/env python3\n"
        b"# SPDX-License-Identifier: MIT OR (Apache-2.0 WITH LLVM-exception AND GPL-2+)\nx = 1\n"
    )
    yield b"// SPDX-License-Identifier: Apache-2.0\n#include <x.h>\ntemplate <class T> class A { public: };\n"
    yield b"%% x\nfunction y = f(x)\nend\n"
    yield b"\\NeedsTeXFormat{x}\nuse strict;\nmy $x = 1;\n"
    yield b"Permission is hereby granted, free of charge, to any person obtaining a copy of this software\n"


def _check_code(data: bytes, folder: Path) -> None:
    name = _by_name(
        data, ("a.py", "a.h", "a.m", "a.pl", "a.v", "a.cls", "a.fs", "a.inc", "a.l", "a.1", "a", "a.b", "a.t")
    )
    check_reader(code, data, folder, name, max_record_bytes=1 << 16)
    beside = folder / "LICENSE"
    beside.write_bytes(data)
    companions = [Piece(str(beside), "LICENSE"), Piece(str(beside), "LICENSE-MIT")]
    check_rows(list(code.read(Piece(str(folder / "input"), name), code.Config(), companions=companions)))


def _packs(*kinds: str) -> Callable[[random.Random, bytes], bytes]:
    return lambda draw, data: repack(draw, data, kinds)


_JSON_WORDS = words(
    b'{"text": "|"}\n|{"a":|[[[[|"|\\|\\ud800|\\udc00|\\u0000|NaN|-Infinity|1e999|\n|\r\n|  \n|null|{}|\xff'
    b"|\xef\xbb\xbf"
)
_CSV_WORDS = words(b'"|""|,"|",|,|\t|;|\n|\r\n|\r|"\n|\n"|text|,,|\xff|\0|"a","b')
_TEXT_WORDS = words(
    b"---\n|...\n|# |===\n|```\n|&a |*a |<<: |title: |- |? |: |{|}|[|]|\"|'|!!x |\t|\r\n|\\title{|%|2020-01-01|0x"
)
_CODE_WORDS = words(b"SPDX-License-Identifier: |(|)|AND |OR |WITH |MIT|#!|env |class |end\n|\t|\n|:-|^|.TH |<?php")

TARGETS = [
    Target(
        "jsonl", _jsonl_seeds, _check_jsonl, _JSON_WORDS, (_packs("gzip", "zstd", "bzip2", "xz", "plain"),), size=size
    ),
    Target("json", _json_seeds, _check_json, _JSON_WORDS, (_packs("gzip", "zstd", "xz", "plain"),), size=size),
    Target("csv", _csv_seeds, _check_csv, _CSV_WORDS, (_packs("gzip", "zstd", "xz", "plain"),), size=size),
    Target("parquet", _parquet_seeds, _check_parquet, (b"PAR1", b"\x15\x00", b"\x19", b"\xff\xff\xff\x7f")),
    Target("text", _text_seeds, _check_text, _TEXT_WORDS, (_packs("gzip", "zstd", "bzip2", "xz", "plain"),), size=size),
    Target(
        "html",
        _text_seeds,
        _check_html,
        (b"<p>", b"<meta charset=", b"\xff\xfe"),
        (_packs("gzip", "plain"),),
        size=size,
    ),
    Target("code", _code_seeds, _check_code, _CODE_WORDS),
]
