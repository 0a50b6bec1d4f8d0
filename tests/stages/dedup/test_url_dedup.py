"""URL deduplication: the best document of one URL, by the keep order, stays."""

import random
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from exchanged import carry_out
from gristmill.stages.dedup import url_dedup, url_parts
from gristmill.stages.dedup.url_dedup import Config
from gristmill.stages.shared.keep_order import KeepOrder


def parts_of(urls, **fields):
    batch = pa.record_batch({"url": pa.array(urls, pa.string())})
    answers = url_parts.apply(batch, url_parts.Config(**fields))
    assert answers.schema == url_parts.SCHEMA
    return answers


def hashes_of(urls, **fields):
    return parts_of(urls, **fields).column("url_hash").to_pylist()


def answers_of(rows, config, cuts=()):
    """The result of the stage for rows of (url, source, snapshot, doc_id), with url_parts before it."""
    edges = [0, *sorted(cuts), len(rows)]
    batches = []
    for start, stop in pairwise(edges):
        here = rows[start:stop]
        hashes = parts_of([row[0] for row in here]).column("url_hash")
        columns = {
            "url_parts.url_hash": hashes,
            "source": pa.array([row[1] for row in here], pa.string()),
            "snapshot": pa.array([row[2] for row in here], pa.string()),
            "doc_id": pa.array([row[3] for row in here], pa.binary(16)),
        }
        batches.append(pa.record_batch({name: columns[name] for name in url_dedup.reads(config)}))
    found = carry_out(url_dedup, batches, config)
    return [tuple(answer.values()) for table in found for answer in table.to_pylist()]


def test_one_url_in_two_sources_and_snapshots_is_kept_once_by_default():
    """The default scope compares all documents."""
    rows = [("https://a.de/x", "web", "1", bytes([3]) * 16), ("https://a.de/x", "books", "2", bytes([9]) * 16)]
    assert [drop for _, drop, _ in answers_of(rows, Config(keep=KeepOrder(by=())))].count("duplicate_url") == 1


def test_the_smallest_rank_stays_and_is_named_in_the_verdicts():
    """Spellings of one URL form one group; the others are dropped with the keeper's id; rows without a URL have no
    result.
    """
    rows = [
        ("http://a.de/x?utm_source=1", "s", "1", bytes([9]) * 16),
        ("https://A.de/x/", "s", "1", bytes([3]) * 16),
        ("https://a.de/y", "s", "1", bytes([1]) * 16),
        (None, "s", "1", bytes([2]) * 16),
        (" ", "s", "1", bytes([4]) * 16),
        (None, "s", "1", bytes([5]) * 16),
    ]
    found = answers_of(rows, Config(keep=KeepOrder(by=())))
    lost = (2, "duplicate_url", "of " + "03" * 16)
    nothing = (None, None, None)
    assert found == [lost, (2, None, None), (1, None, None), nothing, nothing, nothing]


def test_the_scope_decides_which_documents_are_compared():
    """snapshot, where documents without a snapshot are one group; source; global."""
    rows = [
        ("http://a.de", source, snapshot, bytes([place]) * 16)
        for place, (source, snapshot) in enumerate(
            [("s", "1"), ("s", "1"), ("s", "2"), ("t", "1"), ("s", None), ("s", None), ("s", "None"), ("t", None)]
        )
    ]
    keep = KeepOrder(by=())
    counts = {
        scope: [answer[0] for answer in answers_of(rows, Config(scope=scope, keep=keep))]
        for scope in ("snapshot", "source", "source_and_snapshot", "global")
    }
    assert counts == {
        "snapshot": [3, 3, 1, 3, 3, 3, 1, 3],
        "source": [6, 6, 6, 2, 6, 6, 6, 2],
        "source_and_snapshot": [2, 2, 1, 1, 2, 2, 1, 1],
        "global": [8] * 8,
    }


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.none() | st.sampled_from(["a.de", "a.de/", "b.de"]), st.sampled_from("st")), max_size=12),
    st.randoms(use_true_random=False),
    st.lists(st.integers(0, 12), max_size=3),
)
def test_verdicts_do_not_depend_on_order_or_batches(pairs, draw, cuts):
    """Every document gets the same verdict for any order and batches of the rows."""
    rows = [(url, source, None, random.Random(place).randbytes(16)) for place, (url, source) in enumerate(pairs)]
    config = Config(keep=KeepOrder(by=("source",), sources=("t",)))
    expected = {row[3]: answer for row, answer in zip(rows, answers_of(rows, config), strict=True)}
    draw.shuffle(rows)
    found = answers_of(rows, config, [min(cut, len(rows)) for cut in cuts])
    assert {row[3]: answer for row, answer in zip(rows, found, strict=True)} == expected


def test_domains_come_with_every_url():
    """Public suffixes, ports, users, IDN in any spelling, addresses; null without a host."""
    urls = [
        "http://news.BBC.co.uk:8080/x", "https://me@www.example.com", "http://www.müller.de/", "http://m%C3%BCller.de",
        "http://xn--mller-kva.de/x", "http://10.0.0.1/", "http://[::1]/", "urn:uuid:1", None, "", "localhost",
    ]  # fmt: skip
    idn = "xn--mller-kva.de"
    expected = ["bbc.co.uk", "example.com", idn, idn, idn, "10.0.0.1", "[::1]", None, None, None, "localhost"]
    assert parts_of(urls).column("domain").to_pylist() == expected


def test_hosts_of_other_scripts_are_one_in_every_spelling():
    """IDN as letters, as %XX and as xn-- are one host; a host that IDNA refuses is still a URL."""
    one, two, three, refused = hashes_of(
        ["http://müller.de/é", "http://M%C3%9CLLER.de/%C3%A9", "https://xn--mller-kva.de/é", "http://ü..de/"]
    )
    assert one == two == three
    assert refused not in (None, one)


def test_every_option_changes_which_urls_are_equal():
    """For each option, the same pair of URLs is two without it and one with it, or the other way round."""
    for urls, default, fields in [
        (["http://a.de?x=1&y=2", "http://a.de?y=2&x=1"], 1, {"sort_query": False}),
        (["http://www.a.de", "http://a.de"], 2, {"strip_www": True}),
        (["http://a.de#x", "http://a.de"], 1, {"fragments": "keep"}),
        (["http://a.de#!x", "http://a.de"], 2, {"fragments": "drop"}),
        (["http://a.de?gclid=1", "http://a.de"], 1, {"tracking": ()}),
        (["http://a.de?own_id=1", "http://a.de"], 2, {"tracking": ("own_*",)}),
    ]:
        assert len(set(hashes_of(urls))) == default, urls
        assert len(set(hashes_of(urls, **fields))) == 3 - default, urls


def test_a_slice_gives_the_results_of_its_rows():
    """The stage processes each row separately, so any slice of a part gives a slice of the result."""
    urls = ["http://a.de", None, "http://é.de", "x.co.uk/?b&a", "", "http://a.de/", "http://é.de"]
    whole = parts_of(urls)
    batch = pa.record_batch({"url": pa.array(urls)})
    for start in range(len(urls) + 1):
        for size in (0, 1, 3):
            here = url_parts.apply(batch.slice(start, size), url_parts.Config())
            assert here.to_pylist() == whole.slice(start, size).to_pylist()


@pytest.mark.parametrize("pattern", ["*", "", "a*b", "größe"])
def test_patterns_that_mean_nothing_are_refused(pattern):
    """A pattern that would drop every parameter, or never match, is an error before any work."""
    with pytest.raises(ValidationError, match=r"drop every parameter|not a parameter name"):
        Config(tracking=(pattern,))


def test_the_stage_before_has_a_part_of_the_config():
    """The fields of url_parts are also fields of url_dedup, so that a recipe sets them in one place."""
    fields = url_parts.Config.model_fields
    assert set(fields) < set(Config.model_fields)
    assert not {"keep", "scope"} & set(fields)
    assert (url_parts.__name__,) == url_dedup.PREREQUISITES


def test_many_fragments_are_warned_about():
    """If documents differ only in fragments, the run warns that fragments are ignored, until the user has chosen."""
    urls = [f"http://a.de/{place}" for place in range(300)] + ["http://a.de#1", "http://a.de#!2", "http://a.de#", None]
    batch = pa.record_batch({"url": pa.array(urls)})
    found = url_parts.metrics(batch, parts_of(urls), url_parts.Config())
    assert found == {"urls": 303, "anchors": 1}
    assert not url_parts.warnings(found, url_parts.Config())
    many = {"urls": 303, "anchors": 4}
    (warned,) = url_parts.warnings(many, url_parts.Config())
    assert warned.startswith("4 of 303 URLs have a #fragment")
    for chosen in ("keep", "drop"):
        assert not url_parts.warnings(many, url_parts.Config(fragments=chosen))


def test_documents_without_any_url_are_warned_about():
    """The step did nothing and warns; a run without documents does not warn."""
    (warned,) = url_dedup.warnings({"rows_sent": 5, "records": 0}, Config())
    assert "no document has a URL" in warned
    assert not url_dedup.warnings({"rows_sent": 0, "records": 0}, Config())
    assert not url_dedup.warnings({"rows_sent": 5, "records": 3}, Config())
