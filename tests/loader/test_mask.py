"""The tokens of documents that were taken down are masked, and nothing else changes."""

import json
import pickle
import random

import numpy as np
import pytest

from gristmill.errors import UserError
from gristmill.loader import IGNORE, Loader, read_manifest
from gristmill.loader.batch import BatchNames, batch_of
from gristmill.shardformat.index import read_index
from loader.small import Corpus, all_documents, change_manifest, write_manifest, write_receipt

SAME = ("positions", "documents", "cu_seqlens", "doc_spans", "doc_ids", "doc_offsets", "is_padding", "group_ids")
PADDING = 7


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Documents of three pieces, most of which are in two samples; the padding id is not 0."""
    phases = [(60, {"crawl/B": 40, "wiki/A": 20}), (40, {"wiki/A": 30, "crawl/B": 10})]
    corpus = Corpus({"crawl/B": [17, 11], "wiki/A": [9, 8], "spare": [3]}, phases, pieces_of_a_document=3)
    path = corpus.write(tmp_path_factory.mktemp("masked"))
    change_manifest(path, tokenizer={**json.loads(path.read_text())["tokenizer"], "padding": PADDING})
    return path


@pytest.fixture(scope="module")
def documents(shards):
    """A seventh of all documents; a fifth of those have no location."""
    found = all_documents(shards)
    random.Random(3).shuffle(found)
    found = found[: len(found) // 7]
    assert any(len(one["rows"]) > 1 for one in found)
    for one in found[::5]:
        one |= {"group": None, "shard": None, "rows": []}
    return found


@pytest.fixture(scope="module")
def receipt(shards, documents, tmp_path_factory):
    return write_receipt(tmp_path_factory.mktemp("receipt"), shards, documents)


@pytest.fixture(scope="module")
def expected(shards, documents):
    """(samples, seq_len): the tokens of those documents, by walking over the pieces of every sample's row."""
    taken = {one["doc_id"] for one in documents}
    manifest = read_manifest(shards)
    with Loader(shards) as loader:
        places = [loader.order.place(number) for number in range(loader.samples)]
    masked = np.zeros((len(places), manifest.seq_len), bool)
    for number, place in enumerate(places):
        index = read_index(manifest.where(manifest.groups[place.group].shards[place.shard].index))
        at = 0
        for piece in range(int(index.first_piece[place.row]), int(index.first_piece[place.row + 1])):
            length = int(index.length[piece])
            masked[number, at : at + length] = bytes(index.doc_id[piece]).hex() in taken
            at += length
    assert 0.05 < masked.mean() < 0.3
    return masked


def check(batch, plain, masked, mask_tokens):
    """A batch equals the one without receipts, except for the masked tokens."""
    assert np.array_equal(batch.is_masked, masked)
    tokens, labels = plain.tokens.copy(), plain.labels.copy()
    if mask_tokens == "padding":
        tokens[masked] = PADDING
    labels[masked] = IGNORE
    # No other token predicts a token of such a document either.
    assert not (masked[:, 1:] & (labels[:, :-1] != IGNORE)).any()
    assert np.array_equal(batch.tokens, tokens)
    assert np.array_equal(batch.labels, labels)
    assert np.array_equal(batch.loss_mask, plain.loss_mask & ~masked)
    assert (batch.first_sample, batch.state) == (plain.first_sample, plain.state)
    assert batch.tokens.dtype == plain.tokens.dtype
    for name in SAME:
        assert np.array_equal(getattr(batch, name), getattr(plain, name)), name


@pytest.mark.parametrize("mask_tokens", ["keep", "padding"])
@pytest.mark.parametrize(("world", "size", "threads"), [(1, 1, 0), (1, 7, 2), (3, 4, 1), (5, 6, 0), (2, 32, 3)])
def test_exactly_the_tokens_of_those_documents_are_masked(shards, receipt, expected, mask_tokens, world, size, threads):
    """This holds for any world size, batch size and number of threads, and from the middle of a run."""
    for rank in range(world):
        shape = {"batch_samples": size, "rank": rank, "world_size": world, "threads": threads, "drop_last": False}
        for start in (0, 37):
            with (
                Loader(shards, start=start, **shape) as plain,
                Loader(shards, start=start, mask=receipt, mask_tokens=mask_tokens, **shape) as masked,
            ):
                for batch, same in zip(masked, plain, strict=True):
                    check(batch, same, expected[same.first_sample : same.first_sample + len(same)], mask_tokens)


@pytest.mark.parametrize("mask_tokens", ["keep", "padding"])
def test_a_sample_is_masked_and_its_shard_is_not_written_to(shards, receipt, expected, mask_tokens):
    """A sample with padding in it is a copy, any other is a view of the shard; both can be batched or pickled."""
    with Loader(shards) as plain, Loader(shards, mask=receipt, mask_tokens=mask_tokens) as masked:
        names = BatchNames.of(plain.manifest)
        pairs = [(masked[number], plain[number]) for number in range(0, 100, 3)]
        for sample, same in pairs:
            assert np.array_equal(sample.is_masked, expected[sample.number])
            assert sample.tokens.flags.owndata == (mask_tokens == "padding" and bool(sample.is_masked.any()))
            assert not sample.tokens.flags.writeable
            assert np.array_equal(sample.doc_spans, same.doc_spans)
        batch, same = (batch_of(samples, names) for samples in zip(*pairs, strict=True))
        check(batch, same, expected[0:100:3], mask_tokens)
        again = batch_of([pickle.loads(pickle.dumps(sample)) for sample, _ in pairs], names)
        check(again, same, expected[0:100:3], mask_tokens)


def test_batches_and_loaders_keep_the_mask_in_other_processes(shards, receipt, expected):
    """The workers of a DataLoader receive it too."""
    with Loader(shards, batch_samples=10, mask=receipt, mask_tokens="padding", start=20) as loader:
        batch = next(iter(loader))
        moved = pickle.loads(pickle.dumps(batch))
        again = pickle.loads(pickle.dumps(loader))
    with Loader(shards, batch_samples=10, start=20) as plain, again:
        same = iter(plain)
        check(moved, next(same), expected[20:30], "padding")
        check(next(iter(again)), next(same), expected[30:40], "padding")


def test_a_shard_without_such_documents_needs_no_lookup(shards, documents, tmp_path):
    """A single document is masked alone, in every epoch."""
    one = next(document for document in documents if len(document["rows"]) > 1)
    receipt = write_receipt(tmp_path, shards, [one])
    with Loader(shards, batch_samples=100, mask=receipt) as loader:
        batch = next(iter(loader))
        opened = dict(loader._reader.shards._open)
        holding = [key for key, shard in opened.items() if shard.masked]
    assert holding == [(loader.manifest.numbers[one["group"]], one["shard"])]
    assert len(opened) > 1
    rows, begins, ends = batch.doc_spans.T
    of_it = batch.doc_ids == np.frombuffer(bytes.fromhex(one["doc_id"]), "V16")
    assert batch.is_masked.sum() == (ends - begins)[of_it].sum() > 0
    assert len(set(rows[of_it].tolist())) > 2


def test_receipts_add_up_and_later_receipts_apply_to_earlier_shards(shards, receipt, documents, expected, tmp_path):
    """Order does not matter. The later receipt gives locations in other shards, so its documents are found by id."""
    before = read_manifest(shards).hash
    half = len(documents) // 2
    first = write_receipt(tmp_path / "first", shards, documents[:half], after={"manifest": "e" * 64})
    moved = [{**one, "group": "elsewhere", "shard": 99} for one in documents[half:]]
    second = write_receipt(tmp_path / "second", shards, moved, before={"manifest": "e" * 64})
    for receipts in ([first, second], (str(second), first / "receipt.json"), [receipt], [receipt, receipt]):
        with Loader(shards, batch_samples=100, mask=receipts, manifest_hash=before) as loader:
            assert np.array_equal(next(iter(loader)).is_masked, expected)
    with Loader(shards, batch_samples=100, mask=[]) as loader:
        assert not next(iter(loader)).is_masked.any()
    with pytest.raises(UserError, match=r"second/receipt.json was made for the manifest e{64}"):
        Loader(shards, mask=second)


def test_a_receipt_of_the_continued_manifest_applies(shards, receipt, expected, tmp_path):
    """Its documents are searched for in all shards, because groups that were not drawn from may have other shards."""
    content = json.loads(shards.read_text())
    content["phases"][1]["weights"] = {"wiki/A": 20, "crawl/B": 10, "spare": 10}
    content["files"] = {digest: str(shards.parent / name) for digest, name in content["files"].items()}
    path = write_manifest(tmp_path, content)
    with pytest.raises(UserError, match=r"was made for the manifest .* continues="):
        Loader(path, mask=receipt)
    with Loader(path, batch_samples=100, mask=receipt, continues=shards, start=0) as loader:
        batch = next(iter(loader))
    assert np.array_equal(batch.is_masked[:60], expected[:60])
    taken = {bytes.fromhex(one["doc_id"]) for one in json.loads((receipt / "receipt.json").read_text())["documents"]}
    for (row, begin, end), doc_id in zip(batch.doc_spans.tolist(), batch.doc_ids.tolist(), strict=True):
        assert (batch.is_masked[row, begin:end] == (doc_id in taken)).all()
