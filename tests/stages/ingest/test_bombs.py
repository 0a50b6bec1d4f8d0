"""Small files that unpack to very much: they are read in bounded memory and dropped with a reason, never silently."""

import gzip
import io
import itertools
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.stages.ingest.archives import http, packed, page, reasons, record, rows

from gristmill.stages.contract import Piece
from gristmill.stages.ingest import jsonl, parquet
from gristmill.stages.ingest.http import LEAST_LIMIT_BYTES, MOST_RATIO
from gristmill.stages.reading.decompress import CHUNK_BYTES, unpack
from gristmill_formats import jats, latex, mbox, mediawiki, notebook, stack_exchange, subtitles


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "input"


def peak_of(task) -> int:
    tracemalloc.start()
    task()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b" \t\n"])
def test_endless_blank_lines_are_skipped(path: Path, line: bytes) -> None:
    """24 MB of them in a file of 24 KB: they give no rows, and the text after them is found."""
    packer = zlib.compressobj(9, wbits=31)
    blank = line * ((1 << 20) // len(line))
    data = b"".join(packer.compress(blank) for _ in range(24)) + packer.compress(b'{"text": "x"}\n') + packer.flush()
    path.write_bytes(data)
    found = []
    peak = peak_of(lambda: found.extend(jsonl.read(Piece(str(path), "x.jsonl.gz"), jsonl.Config())))
    assert [(row.text, row.position) for row in found] == [("x", 24 * len(blank))]
    assert peak < 24 << 20
    archive = packed("gzip", page(1)) + zlib.compress(b"\r\n" * (2 << 20), wbits=31) + packed("gzip", page(2))
    assert reasons(rows(archive, path)) == [None, None]


_READ_FIVE_TIMES = """
import gc, resource, sys
from pathlib import Path
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import jsonl

gc.disable()
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
for _ in range(5):
    print([row.drop for row in jsonl.read(Piece(sys.argv[1], "x.jsonl.zst"), jsonl.Config())])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory cannot be bound")
def test_running_out_of_memory_is_not_damage_and_a_fault_keeps_no_memory(path: Path) -> None:
    """A broken frame with a window of 2 GiB: one after the other they need no more than one, and where that is not
    to be had the reading fails instead of saying something about the file.
    """
    path.write_bytes(b"\x28\xb5\x2f\xfd\x00\xa8" + bytes([0x75, 0, 0]) + b"\x19  \n\x02\x00\r@\xc0\x14\x04\xd2tC")

    def read(bound: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", _READ_FIVE_TIMES, str(path), str(bound)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert read(3 << 30).stdout == "['corrupt_zstd']\n" * 5
    short = read(1 << 30)
    assert "corrupt" not in short.stdout
    assert short.stderr.splitlines()[-1].startswith("MemoryError: no memory to decompress a file")


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_an_archive_without_records_is_one_row(path: Path, kind: str) -> None:
    """Frames without content, lines without a record: the file gives one row, read in pieces of any size."""
    for data in (packed(kind, b"") * 3, packed(kind, b"\r\n" * 50), b"\r\n" * 100):
        found = rows(data, path, f"x.warc.{kind[0]}z")
        assert [(row.position, row.drop) for row in found] == [(0, "empty_file")]
        cut = len(data) // 2
        assert rows(data, path, "x", 0, cut) + rows(data, path, "x", cut) == found


def test_layers_of_an_encoding_unpack_no_further_than_one_layer_can(path: Path) -> None:
    """Three layers of gzip turn 100 bytes into 64 MB: no more than one layer can reach is unpacked."""
    bomb = bytes(32 << 20)
    for _ in range(3):
        bomb = gzip.compress(bomb, 9, mtime=0)
    kind = "Content-Type: text/html"
    data = record(http(bomb, kind, "Content-Encoding: gzip, gzip, gzip"))
    found = []
    peak = peak_of(lambda: found.extend(rows(data, path)))
    assert reasons(found) == ["body_too_large"]
    assert peak < 8 * (LEAST_LIMIT_BYTES + MOST_RATIO * len(bomb)) + (2 << 20)
    page_of_one_letter = record(http(gzip.compress(b"<p>" + b"a" * 1_000_000, 9), kind, "Content-Encoding: gzip"))
    assert reasons(rows(page_of_one_letter, path)) == [None]


def test_a_header_that_runs_into_the_next_costs_itself(path: Path) -> None:
    """A record whose header lost its end is a bad header; the next record is whole."""
    broken = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 5\r\n"
    for data in (broken + page(1), packed("gzip", broken + page(1))):
        assert reasons(rows(data, path)) == ["bad_warc_header", None]
    many = rows(b"WARC/1.0\r\nA:" * 3000, path)
    assert [row.position for row in many] == [12 * n for n in range(3000)]


def test_members_with_a_false_size_are_read(path: Path) -> None:
    """A claimed length of 16 MB after a member of 30 bytes allocates no memory."""
    lying = packed("gzip", b"x")[:-4] + (16 << 20).to_bytes(4, "little")
    found = []
    data = (lying + packed("gzip", page(1))) * 50
    peak = peak_of(lambda: found.extend(rows(data, path)))
    assert [row.drop for row in found if row.drop is None] == [None] * 50
    assert peak < 12 << 20


def bomb(rows: int, text: str, **options) -> bytes:
    sink = io.BytesIO()
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))
    pq.write_table(pa.table({"text": column}), sink, dictionary_pagesize_limit=1 << 30, store_schema=False, **options)
    return sink.getvalue()


def test_a_dictionary_of_one_long_text_is_expanded_in_steps(path: Path) -> None:
    """A file of a kilobyte says that 20,000 rows have the same 8 MB: 160 GB. Rows are read up to the limit."""
    path.write_bytes(bomb(20_000, "x" * (8 << 20), compression="zstd"))
    assert path.stat().st_size < 4096
    before = pa.total_allocated_bytes()
    found, largest = [], 0
    for row in parquet.read(Piece(str(path), "x.parquet"), parquet.Config()):
        found.append((row.position, row.drop, len(row.text or "")))
        largest = max(largest, pa.total_allocated_bytes() - before)
    assert found[0] == (0, None, 8 << 20)
    assert found[-1] == (len(found) - 1, "unpacks_too_large", 0)
    assert len(found) < 140
    assert largest < 512 << 20


@pytest.mark.parametrize("nest", ["list", "struct", "map", "large_list"])
def test_a_dictionary_within_other_types_is_expanded_in_steps(path: Path, nest: str) -> None:
    """Each of 3,000 rows has the same 1 MB at some depth; `meta` would have 3 GB of them."""
    count, texts = 3000, pa.DictionaryArray.from_arrays(pa.array(np.zeros(3000, np.int32)), pa.array(["x" * (1 << 20)]))
    offsets = pa.array(np.arange(count + 1, dtype=np.int32))
    column = {
        "list": lambda: pa.ListArray.from_arrays(offsets, texts),
        "large_list": lambda: pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), texts),
        "struct": lambda: pa.StructArray.from_arrays([texts], ["a"]),
        "map": lambda: pa.MapArray.from_arrays(offsets, pa.array([f"{n}" for n in range(count)]), texts),
    }[nest]()
    table = pa.table({"text": ["a"] * count, "deep": column})
    pq.write_table(table, path, dictionary_pagesize_limit=1 << 30, store_schema=False, compression="zstd")
    assert path.stat().st_size < 64 << 10
    before = pa.total_allocated_bytes()
    largest, kept, last = 0, 0, None
    for row in parquet.read(Piece(str(path), "x.parquet"), parquet.Config()):
        largest = max(largest, pa.total_allocated_bytes() - before)
        kept, last = kept + (row.drop is None), row
    assert last is not None
    assert last.drop == "unpacks_too_large"
    assert 1000 < kept < 1500
    assert largest < 256 << 20


def test_equal_texts_that_are_honest_are_all_read(path: Path) -> None:
    """A text that many rows share is not a bomb."""
    path.write_bytes(bomb(5000, "the mill " * 100, compression="zstd"))
    found = list(parquet.read(Piece(str(path), "x.parquet"), parquet.Config()))
    assert [row.position for row in found] == list(range(5000))
    assert {row.text for row in found} == {"the mill " * 100}


@pytest.mark.parametrize("size", [2 * CHUNK_BYTES, 2 * CHUNK_BYTES + 5000, 4 * CHUNK_BYTES])
def test_members_that_hold_very_much_are_each_read_once(size: int) -> None:
    """zlib names the bytes after such a member twice: they were skipped, or the member was read again without end."""
    text = b"grain " * (size // 6)
    members = gzip.compress(text, mtime=0) * 3
    chunks = itertools.islice(unpack("gzip", io.BytesIO(members)), 3 * size // CHUNK_BYTES + 10)
    assert b"".join(chunks) == text * 3


@pytest.mark.parametrize(
    ("module", "head"),
    [
        (notebook, b'{"cells": [{"cell_type": "code", "source": "'),
        (jats, b"<article><body><p>"),
        (latex, b"\\documentclass{a}"),
        (subtitles, b"00:00:01,000 --> 00:00:02,000\n"),
        (mediawiki, b"<mediawiki><page><text>"),
        (stack_exchange, b'<posts>\n<row Body="'),
        (mbox, b"From a 1:11\n\n"),
    ],
    ids=lambda value: value.__name__.rpartition(".")[2] if hasattr(value, "__name__") else "",
)
def test_a_cell_or_text_without_end_is_never_held(path: Path, module, head: bytes) -> None:
    """32 MiB in a file of 150 KB, for a reader that takes 1 MiB: one row, in memory for a few chunks."""
    path.write_bytes(gzip.compress(head + b"x" * (32 << 20), 1))
    found = []
    config = module.Config(max_record_bytes=1 << 20)
    assert peak_of(lambda: found.extend(module.read(Piece(str(path), "a.gz"), config))) < 12 << 20
    assert [row.drop for row in found] in (["record_too_large"], ["truncated_page"])
