"""Lists in files: which lines are entries, and what each kind of entry finds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.stages.shared import lists

LINES = st.text("abAB#é. \t\r\n", max_size=40)


def entries_of(text: str) -> set[str]:
    """The syntax of a list, line by line."""
    entries = (re.sub(r"(^|(?<=[ \t]))#.*", "", line.strip(" \t")).strip(" \t") for line in re.split("\r|\n", text))
    return {entry.lower() for entry in entries if entry}


@pytest.fixture
def load(tmp_path):
    def loaded(kind: str, *entries: str) -> lists.Lists:
        (tmp_path / "list").write_text("\n".join(entries) + "\n")
        lists._kept.clear()
        return lists.load("field", str(tmp_path / "list"), kind)

    return loaded


@given(LINES, st.booleans())
def test_a_list_is_its_lines_without_comments_spaces_and_case(tmp_path_factory, text, marked):
    path = tmp_path_factory.mktemp("list") / "list"
    path.write_bytes(("\ufeff" * marked + text).encode())
    listed = lists.load("field", str(path), "substrings")
    assert set(listed.words) == entries_of(text)
    assert (listed.faults, listed.entries) == ((0,), (len(entries_of(text)),))


@pytest.mark.parametrize(
    ("entry", "blocked", "free"),
    [
        ("example.com", ["example.com", "www.example.com"], ["notexample.com", "com"]),
        ("*.example.com", ["example.com", "x.example.com"], ["example.com.uk", "example"]),
        ("0.0.0.0 ads.example.com", ["ads.example.com"], ["0.0.0.0", "example.com"]),
        ("https://Example.com/", ["example.com"], ["other.org"]),
        ("uk", ["a.b.co.uk"], ["uk.com"]),
        ("10.0.0.1", ["10.0.0.1"], ["110.0.0.1", "1.10.0.0.1"]),
        ("[::1]", ["[::1]"], ["[::11]"]),
        ("bücher.example", ["www.xn--bcher-kva.example"], ["bcher.example"]),
    ],
)
def test_a_domain_covers_itself_and_every_host_below_it(load, entry, blocked, free):
    """On the boundaries of labels, and an address for itself alone."""
    assert list(load("domains", entry).domains(blocked + free)) == blocked


def test_entries_of_another_kind_are_faults(load):
    """A page of a site in a list of domains must not take the whole site with it."""
    assert load("domains", "example.com/bad/page", "?", "fine.example/", "# example.org").faults == (2,)
    assert load("urls", "urn:uuid:1", "example.com/page").faults == (1,)
    assert load("words", "two words", "one", "a-b").faults == (2,)
    assert load("digests", "ab" * 16, "ab" * 20, "ab" * 32, "xy" * 16, "ab " * 16).faults == (3,)
    assert load("hashes", "ab" * 16, "ab" * 20, "ab" * 32, "ab" * 31).faults == (1,)


TEXTS = st.text("abé-/.", max_size=12)


@given(st.sets(st.text("abé-", min_size=1, max_size=3), max_size=4), TEXTS)
def test_substrings_are_found_where_python_finds_them(tmp_path_factory, entries, text):
    """The first place with a listed entry counts, and of several there the shortest."""
    path = tmp_path_factory.mktemp("list") / "list"
    path.write_text("\n".join(entries))
    places = [(text.find(entry), len(entry), entry) for entry in entries if entry in text]
    found = lists.load("field", str(path), "substrings").substrings_in(text)
    assert found == [min(places)[2]] if places else not found


def test_words_are_whole_different_and_in_their_order(load):
    listed = load("words", "spam", "é", "bad")
    assert listed.words_in("h.example/bad-spam/é.spammer/spam%20") == ["bad", "spam", "é"]
