"""Verification of a shard: every kind of damage is found and named."""

import hashlib
import re
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.shardformat.index import read_index, write_index
from stages.shards.checked_shard import check_shard
from stages.shards.made import END, PAD, corpus, written

FILES = ("tokens.bin", "tokens.index", "lineage.parquet")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    written(folder, corpus())
    return folder


@pytest.fixture
def folder(good, tmp_path):
    for name in FILES:
        shutil.copy(good / name, tmp_path / name)
    return tmp_path


def faults(folder, **more):
    return check_shard(*(folder / name for name in FILES), **more)


def change_index(folder, header=None, **arrays):
    """Write the index again with other values."""
    index = read_index(folder / "tokens.index")
    index = replace(index, header=replace(index.header, **(header or {})), **arrays)
    write_index(folder / "new", index)
    (folder / "new").replace(folder / "tokens.index")


def change_tokens(folder, change):
    """Other tokens with a correct hash, so that only the tokens themselves are wrong."""
    ids = np.fromfile(folder / "tokens.bin", "<u2")
    change(ids)
    (folder / "tokens.bin").write_bytes(ids.tobytes())
    change_index(folder, {"bin": hashlib.sha256(ids.tobytes()).hexdigest()})


def places(folder):
    """The ends of pieces, the end of a split document's first piece, and the padding; in tokens."""
    ids = np.fromfile(folder / "tokens.bin", "<u2")
    lineage = pq.read_table(folder / "lineage.parquet").to_pylist()
    full = next(row for row in lineage if row["length"] == 64 and row["doc_offset"] == 0)
    return np.flatnonzero(ids == END), full["sample"] * 64 + 63, np.flatnonzero(ids == PAD)


def only(found, pattern):
    assert len(found) == 1, found
    assert re.search(pattern, found[0]), found


def test_a_good_shard_has_no_fault(good):
    """This holds with and without lineage and vocabulary."""
    assert faults(good, vocab_size=258) == []
    assert check_shard(good / "tokens.bin", good / "tokens.index") == []


@pytest.mark.parametrize("pack", ["best_fit", "whole", "concat"])
@pytest.mark.parametrize("kind", ["<u2", "<u4"])
def test_padding_with_the_end_of_document_token_is_not_a_fault(tmp_path, pack, kind):
    """If a tokenizer has no padding token, the padding has the end-of-document id."""
    written(tmp_path, corpus(), kind, pack=pack, padding=END)
    assert faults(tmp_path) == []


def test_a_truncated_or_missing_bin(folder):
    """Some or all bytes are missing."""
    data = (folder / "tokens.bin").read_bytes()
    (folder / "tokens.bin").write_bytes(data[:-2])
    only(faults(folder), r"tokens\.bin has \d+ bytes instead of [\d,]+ for \d+ samples")
    (folder / "tokens.bin").unlink()
    only(faults(folder), "cannot be read")


def test_a_changed_token(folder):
    """One bit, which only the hash detects."""
    data = bytearray((folder / "tokens.bin").read_bytes())
    assert data[0] ^ 1 != END % 256
    data[0] ^= 1
    (folder / "tokens.bin").write_bytes(data)
    only(faults(folder), "sha256 of tokens.bin")


def test_a_truncated_index_or_another_file(folder):
    """This fault hides all others."""
    data = (folder / "tokens.index").read_bytes()
    (folder / "tokens.index").write_bytes(data[:-1])
    only(faults(folder), "damaged")
    (folder / "tokens.index").write_bytes(b"")
    only(faults(folder), "not the index")


@pytest.mark.parametrize(("name", "value"), [("token_bytes", 3), ("seq_len", 0), ("seq_len", 2**63), ("recipe", "x")])
def test_a_header_that_makes_no_sense(folder, name, value):
    """Impossible numbers are named, and nothing is computed with them."""
    change_index(folder, {name: value})
    data = (folder / "tokens.index").read_bytes()
    if name == "recipe":
        (folder / "tokens.index").write_bytes(data.replace(b"x" + bytes(127), b"\xff" + bytes(127), 1))
    found = faults(folder)
    assert re.search({"recipe": "has a name", "seq_len": "samples have", "token_bytes": "ids have 3"}[name], found[0])


def test_pieces_that_do_not_fit_their_samples(folder):
    """first_piece that decreases or ends elsewhere, empty pieces, overfull samples."""
    index = read_index(folder / "tokens.index")
    first = index.first_piece.copy()
    first[3] = first[2]
    change_index(folder, first_piece=first)
    only(faults(folder), "does not increase at sample 2")
    first = index.first_piece.copy()
    first[-1] += 1
    change_index(folder, first_piece=first)
    only(faults(folder), "first_piece goes from 0 to")
    first = index.first_piece.copy()
    several = int(np.flatnonzero(np.diff(first) > 1)[1])
    first[several] += 1
    change_index(folder, first_piece=first)
    only(faults(folder), rf"sample {several - 1} has pieces of \d+ tokens, more than its length of 64")
    length = index.length.copy()
    length[5] = 0
    change_index(folder, {"tokens": int(length.sum())}, first_piece=index.first_piece, length=length)
    only(faults(folder), "piece 5 has no tokens")


@pytest.mark.parametrize("name", ["tokens", "documents"])
def test_wrong_counts_in_the_header(folder, name):
    """Tokens and documents are counted again."""
    change_index(folder, {name: getattr(read_index(folder / "tokens.index").header, name) + 1})
    only(faults(folder), f"the header says .* {name}")


def test_documents_that_are_not_whole(folder):
    """A gap in the offsets, and a piece of another document."""
    index = read_index(folder / "tokens.index")
    split = int(np.flatnonzero(index.doc_offset)[0])
    offset = index.doc_offset.copy()
    offset[split] += 1
    change_index(folder, doc_offset=offset)
    found = faults(folder)
    assert any("that begins at token" in fault for fault in found)
    assert any("and the index differ in doc_offset" in fault for fault in found)
    doc_id = index.doc_id.copy()
    doc_id[split] = doc_id[doc_id != doc_id[split]][0]
    change_index(folder, doc_id=doc_id, doc_offset=index.doc_offset)
    assert any("that begins at token" in fault for fault in faults(folder))


def test_a_document_that_occurs_twice(folder):
    """Two whole documents have the same id."""
    index = read_index(folder / "tokens.index")
    single = np.flatnonzero((index.doc_offset == 0) & (index.length < 64))
    doc_id = index.doc_id.copy()
    doc_id[single[1]] = doc_id[single[0]]
    change_index(folder, {"documents": index.header.documents - 1}, doc_id=doc_id)
    assert any("that begins at token" in fault for fault in faults(folder))


def test_padding_with_other_tokens(folder):
    """A token after the last piece is not the padding id."""
    *_, padding = places(folder)
    change_tokens(folder, lambda ids: ids.__setitem__(padding[-1], 65))
    only(faults(folder), rf"the padding of sample {padding[-1] // 64} has an id other than {PAD}")


def test_missing_and_extra_ends_of_documents(folder):
    """The end id must be once at the end of each document, not within it, and not where only a piece ends."""
    ends, full, _ = places(folder)
    change_tokens(folder, lambda ids: ids.__setitem__(ends[3], 65))
    only(faults(folder), "has no end-of-document id")
    change_tokens(folder, lambda ids: ids.__setitem__([ends[3], full], END))
    only(faults(folder), f"at {full % 64}, where no document ends")


def test_padding_instead_of_the_end(folder):
    """A padding id within a piece is not an end-of-document id."""
    ends, *_ = places(folder)
    change_tokens(folder, lambda ids: ids.__setitem__(ends[0], PAD))
    only(faults(folder), "has no end-of-document id")


def test_an_id_beyond_the_vocabulary(folder):
    """This is checked if the size of the vocabulary is given."""
    change_tokens(folder, lambda ids: ids.__setitem__(0, 999))
    assert faults(folder) == []
    only(faults(folder, vocab_size=258), "tokens.bin has the id 999, but the tokenizer has only 258 ids")


@pytest.mark.parametrize("name", ["sample", "offset", "length", "doc_offset", "doc_id", "source"])
def test_a_lineage_of_another_shard(folder, name):
    """One wrong cell in any column."""
    table = pq.read_table(folder / "lineage.parquet")
    place = table.schema.get_field_index(name)
    values = table[name].to_pylist()
    values[7] = {"doc_id": bytes(16), "source": "other"}.get(name, 63)
    changed = table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    assert changed != table
    pq.write_table(changed, folder / "lineage.parquet")
    only(faults(folder), r"a source other than" if name == "source" else rf"differ in (a )?{name}")


def test_a_truncated_lineage_or_another_file(folder):
    """Too few rows; not Parquet; no file."""
    table = pq.read_table(folder / "lineage.parquet")
    pq.write_table(table.slice(1), folder / "lineage.parquet")
    only(faults(folder), "rows, but the index has")
    pq.write_table(table.drop_columns(["doc_offset"]), folder / "lineage.parquet")
    only(faults(folder), "not the lineage")
    (folder / "lineage.parquet").write_bytes(b"PAR1")
    only(faults(folder), "not the lineage")
    (folder / "lineage.parquet").unlink()
    only(faults(folder), "not the lineage")


def test_blocks_of_samples_are_combined(good, monkeypatch):
    """A shard is read in blocks; positions and hash are those of the whole."""
    monkeypatch.setattr("stages.shards.checked_shard.BLOCK_TOKENS", 200)
    assert faults(good) == []


def test_a_lineage_with_a_source_that_is_not_text(folder):
    """Readers of Parquet accept bytes as text without a check, and fail later."""
    table = pq.read_table(folder / "lineage.parquet")
    wrong = pa.array([b"\xff"] * table.num_rows).view(pa.string())
    pq.write_table(table.set_column(table.schema.names.index("source"), "source", wrong), folder / "lineage.parquet")
    only(faults(folder), "not the lineage.*decode")
