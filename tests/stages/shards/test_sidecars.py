"""Sidecars, parsed exactly as each format defines; `bench/readers.py` uses the real readers."""

import csv
import gzip
import io
import struct
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.errors import UserError
from gristmill.shardformat.index import read_index
from gristmill.stages.shards import shards, sidecars
from stages.shards.made import PAD, corpus, documents_of, locator, pieces_of, written

BOTH = pytest.mark.parametrize("kind", ["<u2", "<u4"])
PACKS = pytest.mark.parametrize("pack", ["best_fit", "whole", "concat"])


def shard(folder, documents, kind="<u2", pack="best_fit"):
    written(folder, documents, kind, pack=pack)
    return read_index(folder / "tokens.index"), np.fromfile(folder / "tokens.bin", kind)


def read_megatron(data):
    """dtype code, lengths, pointers, document indices."""
    magic, version, code, sequences, documents = struct.unpack_from("<9sQBQQ", data)
    assert (magic, version) == (b"MMIDIDX\0\0", 1)
    at = struct.calcsize("<9sQBQQ")
    arrays = []
    for dtype, count in (("<i4", sequences), ("<i8", sequences), ("<i8", documents)):
        arrays.append(np.frombuffer(data, dtype, count, at).tolist())
        at += np.dtype(dtype).itemsize * count
    assert at == len(data)
    return code, *arrays


def documents_by_megatron(data, raw, kind):
    _, lengths, pointers, begins = read_megatron(data)
    sequences = [np.frombuffer(raw, kind, n, at).tolist() for n, at in zip(lengths, pointers, strict=True)]
    assert (begins[0], begins[-1]) == (0, len(sequences))
    return [[token for sequence in sequences[begin:end] for token in sequence] for begin, end in pairwise(begins)]


@BOTH
@PACKS
def test_megatron_finds_each_document_whole(tmp_path, kind, pack):
    """The sequences of a document, joined, are its tokens; documents are in the order of the shard."""
    documents = corpus()
    index, ids = shard(tmp_path, documents, kind, pack)
    data = sidecars.megatron_index(index)
    assert documents_by_megatron(data, ids.tobytes(), kind) == [
        documents[name] for _, _, name, offset, _ in pieces_of(tmp_path) if offset == 0
    ]
    assert read_megatron(data)[0] == {"<u2": 8, "<u4": 4}[kind]


def test_megatron_gets_a_concatenated_document_as_one_sequence(tmp_path):
    """A document that crosses samples is one run of bytes, so it is not split."""
    documents = corpus()
    index, _ = shard(tmp_path, documents, pack="concat")
    _, lengths, _, begins = read_megatron(sidecars.megatron_index(index))
    assert begins == list(range(len(documents) + 1))
    assert sorted(lengths) == sorted(map(len, documents.values()))


def test_whole_leaves_a_document_in_two_runs_at_most(tmp_path):
    """One run if it fits into a sample; otherwise its full samples next to each other, and the rest."""
    documents = corpus()
    index, _ = shard(tmp_path, documents, pack="whole")
    first, _, length = sidecars.runs_of(index)
    found = {}
    for piece, tokens in zip(first.tolist(), length.tolist(), strict=True):
        found.setdefault(index.doc_id[piece].tobytes(), []).append(tokens)
    for name, tokens in found.items():
        assert len(tokens) == 1 or sorted(tokens) == sorted(
            [len(documents[name]) % 64, len(documents[name]) // 64 * 64]
        )
    assert any(len(tokens) == 2 for tokens in found.values())


def test_a_run_too_long_for_megatron_stays_in_pieces(tmp_path, monkeypatch):
    """Lengths are int32 there; a longer document keeps its pieces and is still complete."""
    documents = corpus()
    index, ids = shard(tmp_path, documents)
    whole = sidecars.megatron_index(index)
    monkeypatch.setattr(sidecars, "_INT32_END", 100)
    cut = sidecars.megatron_index(index)
    assert max(read_megatron(whole)[1]) > 64
    assert max(read_megatron(cut)[1]) == 64
    assert documents_by_megatron(cut, ids.tobytes(), "<u2") == documents_by_megatron(whole, ids.tobytes(), "<u2")


@BOTH
@PACKS
def test_datatrove_splits_windows_where_pieces_begin(tmp_path, kind, pack):
    """Ends within a window of seq_len tokens are ends of pieces; padding is a separate run after them."""
    index, ids = shard(tmp_path, corpus(), kind, pack)
    ends = np.frombuffer(sidecars.datatrove_index(index), "<u8").tolist()
    assert ends == sorted(set(ends))
    assert ends[-1] == len(ids)
    begins = {sample * 64 + offset for sample, offset, *_ in pieces_of(tmp_path)}
    begins |= {at for at in range(len(ids)) if ids[at] == PAD and (at == 0 or ids[at - 1] != PAD or at % 64 == 0)}
    assert {end for end in ends if end % 64} == {begin for begin in begins if begin % 64}


def test_datatrove_gets_tokenizer_and_tokens(tmp_path):
    """Name and size of an id, tokens of the file, and the same number in short form with three digits."""
    index, ids = shard(tmp_path, corpus())
    lines = sidecars.datatrove_metadata(index).decode().split("\n")
    assert lines[:2] == ["f" * 64 + "|2", str(len(ids))]
    assert lines[2] == f"{len(ids) / 1000:.{3 - len(str(len(ids) // 1000))}f} kT"


@BOTH
@PACKS
def test_olmo_finds_each_run_and_no_padding(tmp_path, kind, pack):
    """Rows are start, end, doc_id, source and locator; together they cover every token except padding, once."""
    documents = corpus()
    index, ids = shard(tmp_path, documents, kind, pack)
    data = sidecars.olmo_metadata(index, pq.read_table(tmp_path / "lineage.parquet"))
    covered = np.zeros(len(ids), np.int64)
    found = {}
    for start, end, name, source, place in csv.reader(io.StringIO(gzip.decompress(data).decode())):
        covered[int(start) : int(end)] += 1
        assert (source, place) == ("web", locator(bytes.fromhex(name)))
        found.setdefault(bytes.fromhex(name), []).append(ids[int(start) : int(end)].tolist())
    assert covered.tolist() == (ids != PAD).astype(int).tolist()
    for name, stretches in found.items():
        assert sorted(token for one in stretches for token in one) == sorted(documents[name])
        assert any(one == documents[name][: len(one)] for one in stretches)
    assert documents_of(tmp_path).keys() == found.keys()


def test_olmo_reads_line_by_line_for_any_locator(tmp_path):
    """Commas are quoted and line breaks removed, so that the first two fields of every line are numbers."""
    index, _ = shard(tmp_path, corpus(20))
    lineage = pq.read_table(tmp_path / "lineage.parquet")
    odd = pa.array([f'a,"b"\r\nc{row}' for row in range(lineage.num_rows)])
    data = sidecars.olmo_metadata(index, lineage.set_column(lineage.schema.get_field_index("locator"), "locator", odd))
    lines = gzip.decompress(data).decode().splitlines()
    assert len(lines) == len(sidecars.runs_of(index)[0])
    assert all(int(line.split(",")[0]) < int(line.split(",")[1]) for line in lines)
    assert next(csv.reader(lines[:1]))[4].startswith('a,"b" c')


def test_the_lineage_of_another_shard_is_refused(tmp_path):
    """The number of rows and pieces must be equal."""
    index, _ = shard(tmp_path, corpus(20))
    with pytest.raises(UserError, match="belong to different shards"):
        sidecars.olmo_metadata(index, pq.read_table(tmp_path / "lineage.parquet").slice(1))


def test_each_trainer_gets_its_files_and_always_the_same_bytes(tmp_path):
    """Only the requested files are written, and their bytes never change."""
    shard(tmp_path, corpus())
    made = sidecars.sidecars(
        read_index(tmp_path / "tokens.index"), tmp_path / "lineage.parquet", ("megatron", "datatrove", "olmo")
    )
    assert set(made) == {name for names in shards.SIDECARS.values() for name in names}
    for kind, names in shards.SIDECARS.items():
        assert sidecars.sidecars(read_index(tmp_path / "tokens.index"), tmp_path / "lineage.parquet", (kind,)) == {
            name: made[name] for name in names
        }
    assert made["tokens.csv.gz"][4:10] == bytes([0, 0, 0, 0, 0, 255])  # no time, no system


def test_a_shard_without_samples_has_sidecars_without_rows(tmp_path):
    """A shard without documents has the same files as any other."""
    written(tmp_path, {})
    made = sidecars.sidecars(
        read_index(tmp_path / "tokens.index"), tmp_path / "lineage.parquet", ("megatron", "datatrove", "olmo")
    )
    assert read_megatron(made["tokens.idx"]) == (8, [], [], [0])
    assert made["tokens.ds.index"] == b""
    assert made["tokens.ds.metadata"].endswith(b"|2\n0\n0 T")
    assert gzip.decompress(made["tokens.csv.gz"]) == b""
