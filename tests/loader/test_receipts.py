"""An invalid receipt is rejected with the fact and the fix; `seen_before` finds when a document was used."""

import json
import logging

import pytest

from gristmill.errors import UserError
from gristmill.loader import Loader, read_manifest
from gristmill.loader.order import Order
from gristmill.loader.receipts import seen_before
from gristmill.shardformat.receipt import read_receipt
from loader.small import all_documents, write_receipt

DOCUMENT = {"doc_id": "0" * 32, "request": "r1", "group": None, "shard": None, "rows": []}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ('{"format": 1, "before": ', "is not JSON.*copy it again"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not the receipt of a takedown"),
        ('{"format": "gristmill manifest", "groups": []}', "is not the receipt of a takedown"),
    ],
)
def test_a_file_that_is_not_a_receipt_is_rejected(corpus, tmp_path, text, message):
    """It is rejected before a token is read."""
    (tmp_path / "receipt.json").write_text(text)
    with pytest.raises(UserError, match=message):
        Loader(corpus, mask=tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "has format 2.*reads format 1"),
        ({"format": True}, "has format True"),
        ({"format": "1"}, "has format '1'"),
        ({"before": None}, "has a missing or wrong field"),
        ({"before": {}}, "KeyError: 'manifest'"),
        ({"before": {"manifest": 5}}, "5 is not text"),
        ({"before": {"manifest": "f" * 64}}, "was made for the manifest f{64}, but .*Name the receipt of a takedown"),
        ({"after": []}, "has a missing or wrong field"),
        ({"documents": {}}, "documents is not a list"),
        ({"documents": [5]}, "has a missing or wrong field"),
        ({"documents": [{**DOCUMENT, "doc_id": "00"}]}, "is not 32 hex digits"),
        ({"documents": [{**DOCUMENT, "doc_id": "00 " * 16}]}, "is not 32 hex digits"),
        ({"documents": [{**DOCUMENT, "doc_id": "x" * 32}]}, "non-hexadecimal"),
        ({"documents": [{**DOCUMENT, "doc_id": None}]}, "None is not text"),
        ({"documents": [{"doc_id": "0" * 32}]}, "KeyError: 'group'"),
        ({"documents": [{**DOCUMENT, "group": 1}]}, "1 is not text"),
        ({"documents": [{**DOCUMENT, "shard": -1}]}, "-1 is not a number of 0 or more"),
        ({"documents": [{**DOCUMENT, "shard": 1.0}]}, "1.0 is not a number"),
        ({"documents": [{**DOCUMENT, "rows": 3}]}, "rows 3 is not a list"),
        ({"documents": [{**DOCUMENT, "rows": [True]}]}, "True is not a number"),
        ({"documents": [{**DOCUMENT, "group": "code", "shard": 1}]}, "shard 1 of group 'code', but .* no such shard"),
        ({"documents": [{**DOCUMENT, "group": "gone", "shard": 0}]}, "shard 0 of group 'gone', but .* no such shard"),
    ],
)
def test_a_receipt_with_a_wrong_field_is_rejected(corpus, tmp_path, changes, message):
    """Otherwise a document could be missed."""
    receipt = write_receipt(tmp_path, corpus, [DOCUMENT], **changes)
    with pytest.raises(UserError, match=message):
        Loader(corpus, mask=receipt)


def test_a_folder_without_a_receipt_is_rejected(corpus, tmp_path):
    """The message says what to name."""
    with pytest.raises(UserError, match=r"does not exist.*Name a receipt.json, or its folder"):
        Loader(corpus, mask=[tmp_path])


def test_the_receipt_that_led_to_these_shards_is_recognized_and_rejected(corpus, tmp_path):
    """These shards have nothing left to mask."""
    about = {"before": {"manifest": "f" * 64}, "after": {"manifest": read_manifest(corpus).hash}}
    with pytest.raises(UserError, match=r"no longer contain its documents.*Leave it out"):
        Loader(corpus, mask=write_receipt(tmp_path, corpus, [DOCUMENT], **about))


def test_only_two_actions_for_masked_tokens_are_accepted(corpus):
    """Nothing is guessed."""
    with pytest.raises(UserError, match=r"mask_tokens is 'pad'.*keep.*padding"):
        Loader(corpus, mask_tokens="pad")


@pytest.mark.parametrize("threads", [0, 2])
def test_a_shard_without_the_document_of_the_receipt_is_rejected_when_it_is_opened(corpus, tmp_path, threads):
    """No sample of the shard is returned. A document without a location in the receipt may be missing."""
    receipt = write_receipt(tmp_path, corpus, [{**DOCUMENT, "group": "wiki/A", "shard": 1, "rows": [0]}])
    with Loader(corpus, mask=receipt, threads=threads) as loader:
        returned = []
        with pytest.raises(UserError, match=r"document 0{32} is in shard 1 of group wiki/A, but it is not"):
            returned.extend(batch.first_sample for batch in loader)
        places = [loader.order.place(number) for number in range(loader.samples)]
    assert returned == list(range([(place.group, place.shard) for place in places].index((1, 1))))
    with Loader(corpus, mask=write_receipt(tmp_path, corpus, [DOCUMENT]), batch_samples=50) as loader:
        assert not any(batch.is_masked.any() for batch in loader)


def test_a_receipt_without_documents_causes_a_warning(corpus, tmp_path, caplog):
    """It masks nothing."""
    with caplog.at_level(logging.WARNING), Loader(corpus, mask=write_receipt(tmp_path, corpus, [])):
        assert "names no document, so it masks nothing" in caplog.text


def test_seen_before_equals_a_walk_over_all_samples(corpus, tmp_path):
    """For documents of every group, at the start, in the middle, at the end of a phase, and at the end."""
    documents = all_documents(corpus)[::30]
    documents[1] = {**documents[1], "group": None, "shard": None, "rows": []}
    receipt = read_receipt(write_receipt(tmp_path, corpus, documents))
    order = Order(read_manifest(corpus), seed=99)
    walked: dict[tuple[str, int, int], list[int]] = {}
    for number in range(order.samples):
        place = order.place(number)
        walked.setdefault((order.manifest.groups[place.group].name, place.shard, place.row), []).append(number)
    for sample in (0, 1, 170, 300, 450):
        found = seen_before(receipt, order, sample)
        for one in documents:
            places = [(one["group"], one["shard"], row) for row in one["rows"]]
            expected = sorted(number for place in places for number in walked.get(place, ()) if number < sample)
            assert found[bytes.fromhex(one["doc_id"])] == (expected if one["group"] else None)
    assert max(len(samples or ()) for samples in found.values()) > 3


def test_seen_before_rejects_mismatched_arguments(corpus, tmp_path):
    """Another manifest, a sample beyond the end, and a row beyond the shard."""
    order, documents = Order(read_manifest(corpus)), all_documents(corpus)[:2]
    receipt = read_receipt(write_receipt(tmp_path, corpus, documents))
    with pytest.raises(UserError, match="Sample 451 is outside"):
        seen_before(receipt, order, 451)
    other = read_receipt(write_receipt(tmp_path, corpus, documents, before={"manifest": "f" * 64}))
    with pytest.raises(UserError, match="was made for the manifest"):
        seen_before(other, order, 10)
    beyond = read_receipt(write_receipt(tmp_path, corpus, [{**documents[0], "rows": [17]}]))
    with pytest.raises(UserError, match=r"row 17 of shard 0 of group crawl/B, which has 17 rows"):
        seen_before(beyond, order, 10)


def test_a_receipt_may_contain_more_than_a_loader_reads(corpus, tmp_path):
    """A receipt may contain requests, lineage and other notes; upper-case digits are the same id."""
    one = {**all_documents(corpus)[0], "url": "https://example.com", "lineage": {"deep": [1]}}
    folder = write_receipt(tmp_path, corpus, [{**one, "doc_id": one["doc_id"].upper()}], requests=[{"id": "r1"}])
    (read,) = read_receipt(folder / "receipt.json").documents
    assert (read.doc_id.hex(), read.group, read.shard) == (one["doc_id"], one["group"], one["shard"])
    assert json.loads((folder / "receipt.json").read_text())["requests"]
