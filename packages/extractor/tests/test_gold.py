"""Gold pages are read as written, assigned to their domains, split by domain, and scored by their words."""

import gzip
import json
import os
from collections import Counter
from types import SimpleNamespace

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as some

from gold_pages import page, text_of, write_archive, write_gold, write_rows
from gristmill.errors import UserError
from gristmill_extractor.gold import read_gold
from gristmill_extractor.gold_domains import EVERYWHERE, KINDS, domain_of, folds
from gristmill_extractor.gold_scores import Score, mean, score_segments, score_text


def test_pages_are_joined_with_their_gold_by_the_id_of_their_record(tmp_path):
    """A page has its own set, language, domain, markup and gold; angle brackets and order do not matter."""
    rows = write_gold(tmp_path)
    write_rows(tmp_path, [{**row, "warc_record_id": row["warc_record_id"].strip("<>")} for row in reversed(rows)])
    pages = {one.record_id: one for one in read_gold(tmp_path)}
    assert len(pages) == len(rows)
    for number, row in enumerate(rows):
        found = pages[row["warc_record_id"].strip("<>")]
        assert (found.set, found.language, found.text) == (row["set"], row["lang"], row.get("text"))
        assert (found.domain, found.domain_from) == (f"mill{number}.example", "url")
        assert found.html == page(text_of(number))
        assert found.must_have == tuple(row.get("must_have", ()))
        assert found.score(text_of(number)) == Score(1.0, *([None, None] if "must_have" in row else [1.0, 1.0]))


@pytest.mark.parametrize(("suffix", "packed"), [(".gz", gzip.compress), (".zst", zstd.compress)])
def test_gold_may_be_compressed_and_in_any_subfolder(tmp_path, suffix, packed):
    """Files without the name of a gold file are not read."""
    rows = write_gold(tmp_path)
    plain = tmp_path / "gold" / "extraction_gold.jsonl"
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / f"my-Gold.jsonl{suffix}").write_bytes(packed(plain.read_bytes()))
    plain.rename(tmp_path / "index.jsonl")
    assert len(read_gold(tmp_path)) == len(rows)


def test_pages_are_decoded_as_recipes_decode_them(tmp_path):
    """The page's <meta> decides if the server gave no charset."""
    write_gold(tmp_path)
    html = page("Die Mühle mahlt für das Dorf.", '<meta charset="iso-8859-1">')
    (tmp_path / "warc" / "pages.warc.gz").unlink()
    ids = write_archive(tmp_path / "warc" / "latin.warc.gz", {"https://m.example/": html.encode("latin-1")})
    write_rows(tmp_path, [{"warc_record_id": ids["https://m.example/"], "set": "s", "text": "x"}])
    (found,) = read_gold(tmp_path)
    assert "Die Mühle mahlt" in found.html
    assert found.url == "https://m.example/"  # the record's own, if the gold has none


def test_a_limit_takes_the_same_pages_each_time(tmp_path):
    """The order of the gold does not matter."""
    rows = write_gold(tmp_path)
    first = [one.record_id for one in read_gold(tmp_path, 5)]
    write_rows(tmp_path, rows[::-1])
    assert [one.record_id for one in read_gold(tmp_path, 5)] == first
    assert len(set(first)) == 5


GOOD = {"warc_record_id": "<urn:uuid:1>", "set": "s", "text": "t"}
BAD = {
    "not JSON": ("{broken", ":2: invalid json"),
    "no object": ("[1]", ":2: not an object"),
    "neither text nor segments": (json.dumps({**GOOD, "text": None}), ":2 has neither text nor segments"),
    "empty segments": (
        json.dumps({"warc_record_id": "x", "set": "s", "must_have": [], "must_not": []}),
        ":2 has neither text nor segments",
    ),
    "no id": (json.dumps({"set": "s", "text": "t"}), ":2 has no warc_record_id"),
    "a text that is a number": (json.dumps({**GOOD, "text": 3}), ":2: text must be text, not 3."),
    "segments that are a text": (json.dumps({**GOOD, "must_have": "a"}), ":2: must_have must be a list, not"),
    "a segment that is none": (json.dumps({**GOOD, "must_not": ["a", 1]}), ":2: must_not.1 must be text, not 1."),
    "an empty text": (json.dumps({**GOOD, "text": " "}), ":2 has an empty text, so no tool"),
    "an empty set": (json.dumps({**GOOD, "set": ""}), ":2 has an empty set."),
    "an empty id": (json.dumps({**GOOD, "warc_record_id": "<>"}), ":2 has an empty warc_record_id."),
    "an empty segment": (json.dumps({**GOOD, "must_have": ["a", ""]}), ":2 has an empty must_have, which every text"),
    "an empty segment not to have": (json.dumps({**GOOD, "must_not": ["\n"]}), ":2 has an empty must_not, which every"),
    "the same page twice": (json.dumps(GOOD), "has, too, so it is not clear"),
}


@pytest.mark.parametrize("what", BAD)
def test_an_invalid_gold_line_is_named(tmp_path, what):
    """The message gives the file, the line number and the fix, even after blank lines."""
    line, result = BAD[what]
    write_gold(tmp_path)
    lines = [json.dumps({**GOOD, "warc_record_id": "<urn:uuid:1>"}), line]
    (tmp_path / "gold" / "extraction_gold.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError) as error:
        read_gold(tmp_path)
    assert result in str(error.value)
    assert "extraction_gold.jsonl:2" in str(error.value)


def test_line_numbers_count_blank_lines(tmp_path):
    """Editors count the same way."""
    write_gold(tmp_path)
    (tmp_path / "gold" / "extraction_gold.jsonl").write_text(f"\n{json.dumps(GOOD)}\n\n\n{{broken\n")
    with pytest.raises(UserError, match=r"gold\.jsonl:5: invalid json"):
        read_gold(tmp_path)


def test_damaged_gold_is_rejected(tmp_path):
    """A truncated file, even an unreadable one, and a pipe, which would block forever."""
    rows = write_gold(tmp_path)
    plain = tmp_path / "gold" / "extraction_gold.jsonl"
    packed = gzip.compress(plain.read_bytes())
    for kept, line in ((len(packed) - 9, len(rows) + 1), (12, 1)):
        plain.write_bytes(packed[:kept])
        with pytest.raises(UserError, match=rf"gold\.jsonl:{line}: truncated gzip"):
            read_gold(tmp_path)
    plain.unlink()
    os.mkfifo(plain)
    with pytest.raises(UserError, match="is a pipe, not a file"):
        read_gold(tmp_path)


def test_an_incomplete_folder_is_rejected(tmp_path):
    """No folder, no gold, gold without a line, no archive, or gold for pages that are missing or not pages."""

    def result(folder):
        with pytest.raises(UserError) as error:
            read_gold(folder)
        return str(error.value)

    assert "is not a folder" in result(tmp_path / "none")
    rows = write_gold(tmp_path)
    gold, archive = tmp_path / "gold" / "extraction_gold.jsonl", tmp_path / "warc" / "pages.warc.gz"
    write_rows(tmp_path, [*rows, {**GOOD, "warc_record_id": "<urn:uuid:elsewhere>"}])
    assert "1 of 13 pages with gold are in no WARC file" in result(tmp_path)
    assert "a record urn:uuid:elsewhere (" in result(tmp_path)
    ids = write_archive(tmp_path / "warc" / "empty.warc.gz", {"https://m.example/": " "})
    write_rows(tmp_path, [{**GOOD, "warc_record_id": ids["https://m.example/"]}])
    assert "dropped as empty_body" in result(tmp_path)
    gold.write_text("\n\n")
    assert "is empty, so there is no gold" in result(tmp_path)
    gold.unlink()
    assert "has no gold file" in result(tmp_path)
    write_rows(tmp_path, rows)
    archive.unlink()
    (tmp_path / "warc" / "empty.warc.gz").unlink()
    assert "have no WARC file" in result(tmp_path)


def test_two_pages_with_the_same_id_are_rejected(tmp_path):
    """The order of the files does not matter; a page without gold may repeat."""
    rows = write_gold(tmp_path)
    archive = tmp_path / "warc" / "pages.warc.gz"
    (tmp_path / "warc" / "copy.warc.gz").write_bytes(archive.read_bytes())
    with pytest.raises(UserError, match=r"pages\.warc\.gz has a page with the id .*copy\.warc\.gz.*gold\.jsonl:\d"):
        read_gold(tmp_path)
    archive.unlink()
    write_archive(archive, {"https://elsewhere.example/": page(text_of(1))})
    assert len(read_gold(tmp_path)) == len(rows)


OWN = {
    "canonical": '<link rel="canonical" href="https://www.mill.co.uk/a">',
    "og:url": "<meta property='og:url' content='//blog.mill.co.uk/a'>",
    "base": "<BASE HREF=http://mill.co.uk/>",
    "links": '<a href="http://mill.co.uk/a">a</a><a href="http://news.mill.co.uk/b">b</a><a href="http://other.de/">c</a>',
}


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize(
    "url", [None, "https://unknown.invalid/1", "http://10.0.0.1/a", "http://[::1]/", "http://intra/"]
)
def test_a_page_without_a_url_gets_its_domain_from_its_markup(kind, url):
    """The sources are tried in the order of KINDS; a relative URL is ignored."""
    html = page("text", '<link rel=canonical href="/a">' if kind != "canonical" else "", OWN[kind])
    assert domain_of(url, html, "id") == ("mill.co.uk", kind)
    assert domain_of("https://a.b.known.com.au/x", html, "id") == ("known.com.au", "url")


def test_the_strongest_source_of_a_domain_wins():
    """Each kind wins over all later ones."""
    html = "".join(markup.replace("mill", f"mill{KINDS.index(kind)}") for kind, markup in reversed(OWN.items()))
    assert domain_of(None, html, "id") == ("mill1.co.uk", "canonical")


def test_links_to_common_sites_are_ignored_and_images_count_more():
    """Five links to Twitter do not assign a page to Twitter; links to the host of its images count twice."""
    assert "twitter.com" in EVERYWHERE
    links = '<a href="https://twitter.com/x">x</a>' * 5
    assert domain_of(None, links, "id") == ("id", "none")
    links += '<a href="http://b.org/">b</a>' * 2 + '<img src="http://img.b.org/1.png">'
    assert domain_of(None, links + '<a href="http://a.org/">a</a>' * 3, "id") == ("b.org", "links")
    assert domain_of(None, links + '<a href="http://a.org/">a</a>' * 5, "id") == ("a.org", "links")


some_pages = some.lists(
    some.builds(
        lambda domain, name: SimpleNamespace(domain=f"d{domain}", set=name),
        some.integers(0, 12),
        some.sampled_from(["a", "b", "c"]),
    ),
    min_size=1,
    max_size=60,
)


@given(some_pages, some.integers(2, 6), some.randoms())
def test_no_domain_is_in_two_folds(pages, count, random):
    """Every fold has pages, all pages of a domain are together, and the order of the pages does not matter."""
    if len({one.domain for one in pages}) < count:
        with pytest.raises(UserError, match="cannot be split"):
            folds(pages, count)
        return
    found = folds(pages, count)
    assert set(found) == set(range(count))
    of = dict(zip((one.domain for one in pages), found, strict=True))
    assert [of[one.domain] for one in pages] == found
    shuffled = random.sample(pages, len(pages))
    assert folds(shuffled, count) == [of[one.domain] for one in shuffled]


def test_the_fold_of_a_domain_in_two_sets_does_not_depend_on_their_order():
    """The domain has equally many pages in both sets."""
    both = [SimpleNamespace(domain="both", set=name) for name in "ab"]
    others = [SimpleNamespace(domain=name, set=name) for name in "aaaaabbbb"]
    assert folds([*both, *others], 2) == folds([*reversed(both), *others], 2)


def test_each_set_is_spread_over_the_folds():
    """If domains are small, no fold has more than one page of a set above another."""
    pages = [
        SimpleNamespace(domain=f"{name}{number}", set=name)
        for name, size in (("a", 23), ("b", 8), ("c", 5))
        for number in range(size)
    ]
    counts = Counter(zip((one.set for one in pages), folds(pages, 5), strict=True))
    for name in "abc":
        sizes = [counts[name, fold] for fold in range(5)]
        assert max(sizes) - min(sizes) <= 1, (name, sizes)


alphabet = "aAbé \n.,米粉ééЖ1_"


@given(some.text(alphabet, max_size=30), some.text(alphabet, max_size=30))
def test_f1_equals_matching_words_one_by_one(text, gold):
    """The oracle crosses out words; CJK is written with spaces around each character."""

    def words(side):
        spaced = "".join(f" {sign} " if sign in "米粉" else sign for sign in side.lower())
        return "".join(sign if sign.isalnum() or sign == "_" else " " for sign in spaced).split()

    text_words, left = words(text), words(gold)
    gold_count, common = len(left), 0
    for word in text_words:
        if word in left:
            left.remove(word)
            common += 1
    found = score_text(text, gold)
    if not text_words and not gold_count:
        assert found == Score(1.0, 1.0, 1.0)
        return
    precision = common / len(text_words) if text_words else 0.0
    recall = common / gold_count if gold_count else 0.0
    assert (found.precision, found.recall) == (precision, recall)
    both = precision + recall
    assert found.value == pytest.approx(2 * precision * recall / both if both else 0.0)


def test_segments_are_scored_by_presence_and_absence():
    """Whitespace does not matter; one of two is half right."""
    assert score_segments("a b\n c", ["b c", "d"], ["a b c d", "a"]) == Score(0.5)
    assert score_segments("", [], []) == Score(1.0)


def test_a_mean_of_precision_leaves_out_pages_without_one():
    """Segments have no precision."""
    assert mean([Score(1.0, 0.5, 0.25), Score(0.0)]) == Score(0.5, 0.5, 0.25)
    assert mean([Score(0.5)]) == Score(0.5)
