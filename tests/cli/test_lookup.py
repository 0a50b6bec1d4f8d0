"""Finding documents: every query gives the same answer as a plain scan of all rows."""

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
def view(request, everything):
    """The run opened from the recipe, from the store record, and without an index."""
    if request.param == "recipe":
        return everything.run
    opened = see(everything.run.store, "v1")
    if request.param == "no index":
        opened.chains = {
            source: tuple(node_id for node_id in chain if opened.nodes[node_id].name != "index")
            for source, chain in opened.chains.items()
        }
        opened.nodes = {node_id: node for node_id, node in opened.nodes.items() if node.name != "index"}
    return opened


@pytest.fixture
def all_rows(view):
    return list(rows(view, None, None, None))


def ids(places):
    return sorted(place.doc_id for place in places)


def test_every_document_is_found_by_its_id_or_a_prefix_of_it(view, all_rows):
    """The answer also says whether the document was kept."""
    wanted = [row.fields["doc_id"].hex() for row in all_rows]
    found = find(view, doc_id=wanted)
    assert [place.doc_id for place in found] == [row.fields["doc_id"] for row in all_rows]
    assert [place.is_kept for place in found] == [row.reason is None for row in all_rows]
    prefix = wanted[0][:7].upper()
    assert ids(find(view, doc_id=prefix)) == sorted(
        bytes.fromhex(doc_id) for doc_id in wanted if doc_id.startswith(wanted[0][:7])
    )


def test_a_url_is_found_in_another_spelling(view, all_rows):
    """Case, scheme, default port, tracking parameters and fragment do not matter."""
    row = next(row for row in all_rows if row.fields["url"] and row.reason is None)
    variant = row.fields["url"].replace("https://mill.example", "HTTP://Mill.Example:80") + "?utm_source=x#top"
    assert variant != row.fields["url"]
    assert row.fields["doc_id"] in ids(find(view, url=variant))


def test_a_domain_covers_the_host_and_its_subdomains_only(view, all_rows):
    """A suffix that is not a whole label finds nothing."""
    within = [row.fields["doc_id"] for row in all_rows if "mill.example/" in (row.fields["url"] or "")]
    assert within
    assert ids(find(view, domain="Mill.example")) == sorted(within)
    assert set(ids(find(view, domain="example"))) > set(within)
    assert find(view, domain="ill.example") == []


def test_a_url_prefix_needs_a_whole_host_and_ignores_the_scheme(view, all_rows):
    """http and https are the same."""
    prefix = "https://mill.example/c"
    within = [row.fields["doc_id"] for row in all_rows if (row.fields["url"] or "").startswith(prefix)]
    assert within
    assert ids(find(view, url_prefix="http://MILL.example/c")) == sorted(within)
    assert find(view, url_prefix="https://mill.exam") == []


def test_kept_texts_are_found_by_hash_by_quotation_and_by_similarity(view, all_rows):
    """Only similar texts have a similarity below 1."""
    kept = sorted((row for row in all_rows if row.reason is None), key=lambda row: len(row.text))
    text = kept[-1].text
    same = sorted(row.fields["doc_id"] for row in kept if row.text == text)
    assert ids(find(view, content_hash=hashlib.sha256(text.encode()).hexdigest())) == same
    found = find(view, text=text)
    assert sorted(place.doc_id for place in found if place.similarity is None) == same
    similar = find(view, text=f"{text} and three more words")
    assert all(place.similarity is not None for place in similar)
    assert 0.5 < similar[0].similarity < 1
    assert kept[-1].fields["doc_id"] in ids(similar)


def test_several_queries_are_answered_together(view, all_rows):
    """The answer equals that of the single queries."""
    one, two = all_rows[0].fields["doc_id"].hex(), all_rows[1].fields["doc_id"].hex()
    found = find(view, doc_id=[one, two], domain="mill.example")
    assert {(place.by, place.query) for place in found} >= {("doc_id", one), ("doc_id", two)}
    assert sorted(map(str, found)) == sorted(
        map(str, [*find(view, doc_id=[one, two]), *find(view, domain="mill.example")])
    )


@pytest.mark.parametrize(
    ("query", "message"),
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
def test_an_invalid_query_is_refused(view, query, message):
    """The message names the fault."""
    with pytest.raises(UserError, match=message):
        find(view, **query)


def test_a_missing_index_is_reported_once(everything, view, all_rows):
    """With an index there is no such note."""
    row = next(row for row in all_rows if row.fields["url"] and row.reason is None)
    messages = []
    find(view, url=row.fields["url"], doc_id=row.fields["doc_id"].hex(), domain="mill.example", note=messages.append)
    if has_index(view, "crawl"):
        assert messages == []
    else:
        assert messages == ["There is no index for crawl, notes: doc_id and url of 2 parts are read instead."]


def test_only_parts_named_by_the_index_are_opened(everything, monkeypatch, all_rows):
    """A query for a note opens no part of the crawl."""
    notes = [row for row in all_rows if row.fields["source"] == "notes"]
    opened = []

    def open_part(store, part, **more):
        opened.append(part)
        return PartReader(store, part, **more)

    monkeypatch.setattr(lookup, "PartReader", open_part)
    found = find(everything.run, doc_id=notes[0].fields["doc_id"].hex())
    assert {place.document.source for place in found} == {"notes"}
    assert {part.hash for part in opened}.isdisjoint(
        documents.part.hash for documents in everything.run.documents["crawl"]
    )
    assert find(everything.run, doc_id="0" * 32) == []


def test_a_hash_collision_in_the_index_changes_no_answer(everything, monkeypatch, all_rows):
    """Candidates are compared with the row, so an index that names every row gives the same answer."""
    wanted = all_rows[0].fields["doc_id"].hex()
    every_row = {documents: np.arange(documents.part.rows) for documents in everything.run.documents["crawl"]}
    monkeypatch.setattr(lookup.CorpusIndex, "candidates", lambda self, kind, queries: every_row)
    assert ids(find(everything.run, doc_id=wanted, sources=["crawl"])) == [bytes.fromhex(wanted)]
    assert find(everything.run, url="https://mill.example/nowhere", sources=["crawl"]) == []
