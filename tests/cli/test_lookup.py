"""Finding documents: every question is answered by what a plain look at all rows says."""

import hashlib

import numpy as np
import pytest

from gristmill.engine.publish.run_record import see
from gristmill.errors import UserError
from gristmill.query.documents import lookup
from gristmill.query.documents.candidates import has_index
from gristmill.query.documents.documents import rows
from gristmill.query.documents.lookup import find
from gristmill.store.parquet import PartReader


@pytest.fixture(params=["recipe", "record", "no index"])
def seen(request, everything):
    """The run as the recipe has it now, as the store alone tells of it, and as one that has no index."""
    if request.param == "recipe":
        return everything.run
    found = see(everything.run.store, "v1")
    if request.param == "no index":
        found.chains = {
            source: tuple(node_id for node_id in chain if found.nodes[node_id].name != "index")
            for source, chain in found.chains.items()
        }
        found.nodes = {node_id: node for node_id, node in found.nodes.items() if node.name != "index"}
    return found


@pytest.fixture
def all_rows(seen):
    return list(rows(seen, None, None, None))


def ids(places):
    return sorted(place.doc_id for place in places)


def test_every_document_is_found_by_its_id_and_by_how_it_begins(seen, all_rows):
    wanted = [row.fields["doc_id"].hex() for row in all_rows]
    found = find(seen, doc_id=wanted)
    assert [place.doc_id for place in found] == [row.fields["doc_id"] for row in all_rows]
    assert [place.is_kept for place in found] == [row.reason is None for row in all_rows]
    begins = wanted[0][:7].upper()
    assert ids(find(seen, doc_id=begins)) == sorted(
        bytes.fromhex(one) for one in wanted if one.startswith(wanted[0][:7])
    )


def test_a_url_is_found_in_another_spelling(seen, all_rows):
    row = next(row for row in all_rows if row.fields["url"] and row.reason is None)
    spelt = row.fields["url"].replace("https://mill.example", "HTTP://Mill.Example:80") + "?utm_source=x#top"
    assert spelt != row.fields["url"]
    assert row.fields["doc_id"] in ids(find(seen, url=spelt))


def test_a_domain_is_the_host_and_all_below_it_and_nothing_beside(seen, all_rows):
    within = [row.fields["doc_id"] for row in all_rows if "mill.example/" in (row.fields["url"] or "")]
    assert within
    assert ids(find(seen, domain="Mill.example")) == sorted(within)
    assert set(ids(find(seen, domain="example"))) > set(within)
    assert find(seen, domain="ill.example") == []


def test_a_prefix_has_a_whole_host_and_http_and_https_are_one(seen, all_rows):
    begins = "https://mill.example/c"
    within = [row.fields["doc_id"] for row in all_rows if (row.fields["url"] or "").startswith(begins)]
    assert within
    assert ids(find(seen, url_prefix="http://MILL.example/c")) == sorted(within)
    assert find(seen, url_prefix="https://mill.exam") == []


def test_kept_texts_are_found_by_hash_and_by_quotation_and_when_they_are_only_alike(seen, all_rows):
    kept = sorted((row for row in all_rows if row.reason is None), key=lambda row: len(row.text))
    text = kept[-1].text
    same = sorted(row.fields["doc_id"] for row in kept if row.text == text)
    assert ids(find(seen, content_hash=hashlib.sha256(text.encode()).hexdigest())) == same
    found = find(seen, text=text)
    assert sorted(place.doc_id for place in found if place.similarity is None) == same
    like = find(seen, text=f"{text} and three more words")
    assert all(place.similarity is not None for place in like)
    assert 0.5 < like[0].similarity < 1
    assert kept[-1].fields["doc_id"] in ids(like)


def test_questions_are_answered_together(seen, all_rows):
    one, two = all_rows[0].fields["doc_id"].hex(), all_rows[1].fields["doc_id"].hex()
    found = find(seen, doc_id=[one, two], domain="mill.example")
    assert {(place.by, place.query) for place in found} >= {("doc_id", one), ("doc_id", two)}
    assert sorted(map(str, found)) == sorted(
        map(str, [*find(seen, doc_id=[one, two]), *find(seen, domain="mill.example")])
    )


@pytest.mark.parametrize(
    ("question", "result"),
    [
        ({"doc_id": "xyz"}, "is not a document id"),
        ({"content_hash": "abc"}, "is not the SHA-256"),
        ({"domain": "/"}, "has no host"),
        ({"url_prefix": "urn:x"}, "has no host"),
        ({"url": " "}, "empty URL"),
        ({"text": ""}, "empty text"),
        ({}, "No query was given"),
    ],
)
def test_what_cannot_be_asked_is_told(seen, question, result):
    with pytest.raises(UserError, match=result):
        find(seen, **question)


def test_an_index_is_asked_and_without_one_that_is_said_once(everything, seen, all_rows):
    row = next(row for row in all_rows if row.fields["url"] and row.reason is None)
    result = []
    find(seen, url=row.fields["url"], doc_id=row.fields["doc_id"].hex(), domain="mill.example", note=result.append)
    if has_index(seen, "crawl"):
        assert result == []
    else:
        assert result == ["There is no index for crawl, notes: doc_id and url of 2 parts are read instead."]


def test_no_part_is_opened_that_the_index_does_not_name(everything, monkeypatch, all_rows):
    notes = [row for row in all_rows if row.fields["source"] == "notes"]
    opened = []

    def open_part(store, part, **more):
        opened.append(part)
        return PartReader(store, part, **more)

    monkeypatch.setattr(lookup, "PartReader", open_part)
    found = find(everything.run, doc_id=notes[0].fields["doc_id"].hex())
    assert {place.document.source for place in found} == {"notes"}
    assert {part.hash for part in opened}.isdisjoint(one.part.hash for one in everything.run.documents["crawl"])
    assert find(everything.run, doc_id="0" * 32) == []


def test_a_key_that_is_that_of_another_document_answers_nothing(everything, monkeypatch, all_rows):
    """What the index says is compared with the row: one that names every row changes no answer."""
    wanted = all_rows[0].fields["doc_id"].hex()
    whole = {one: np.arange(one.part.rows) for one in everything.run.documents["crawl"]}
    monkeypatch.setattr(lookup.CorpusIndex, "candidates", lambda self, kind, queries: whole)
    assert ids(find(everything.run, doc_id=wanted, sources=["crawl"])) == [bytes.fromhex(wanted)]
    assert find(everything.run, url="https://mill.example/nowhere", sources=["crawl"]) == []
