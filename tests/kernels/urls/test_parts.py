"""Hosts, domains and exact URLs, against plain Python."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.kernels.hash.hashset import build, hash_words, labels_of
from gristmill.kernels.urls.parts import (
    cut,
    find_domains,
    hash_domain_lines,
    hash_url_lines,
    hash_urls,
    split_urls,
)
from gristmill.kernels.urls.words import find_inside, find_words, openings
from lent_arrays import lent

LABEL = st.sampled_from(["a", "b", "WWW", "example", "com", "co", "uk", "xn--p1ai", "é", "1", "x-y", ""])
HOST = st.one_of(
    st.lists(LABEL, min_size=1, max_size=5).map(".".join), st.sampled_from(["[::1]", "10.0.0.1", "[2001:DB8::a]"])
)
URLS = st.one_of(
    st.builds(
        "{}{}{}{}{}{}".format,
        st.sampled_from(
            [
                "",
                "http://",
                "HTTPS://",
                "//",
                "://",
                "a:/",
                "ftp://",
                "http:\\\\",
                " http://",
                "http:/",
                "https:///",
                "http:",
            ]
        ),
        st.sampled_from(["", "user@", "u:p@", "a@b@"]),
        HOST,
        st.sampled_from(["", ":80", ":443", ":8080", ":", ":x", ":080"]),
        st.sampled_from(["", "/", "/a", "/A/", "/a//", "\\b", "/%7Eu", "/a:b@c"]),
        st.sampled_from(["", "?q=1", "?q=http://e.com/", "#top", "?a/#b", " "]),
    ),
    st.text("ab.:/\\?#@[]% 8", max_size=14),
)


def arrow(values: list[str]) -> tuple[np.ndarray, np.ndarray]:
    data = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, data)]).astype(np.int32)
    return lent(np.frombuffer(b"".join(data) or b"\0", np.uint8).copy(), offsets)


def lines(values: list[str]) -> np.ndarray:
    return np.frombuffer(("\n".join(values) + "\n").encode(), np.uint8)


def lowered(text: str) -> str:
    return re.sub("[A-Z]", lambda letter: letter[0].lower(), text)


def oracle(url: str) -> tuple[str, str, str]:
    """Host, port without a default, path and query: one regular expression for each step."""
    url = url.strip(" ")
    web = re.fullmatch(r"(?si)(https?):[/\\]*([^/\\].*)", url)
    scheme, url = (web or re.fullmatch(r"(?s)(?:([^/\\:?#@]+):(?=[/\\]{2}))?(.*)", url)).groups()
    url = url if web else re.sub(r"^[/\\]{2}", "", url)
    authority, rest = re.fullmatch(r"(?s)([^/\\?#]*)([^#]*)(?:#.*)?", url).groups()
    authority = authority.rpartition("@")[2]
    bracketed = re.fullmatch(r"(?s)(\[[^\]]*\]?[^:]*)(?::(.*))?", authority)
    host, port = bracketed.groups() if bracketed else (authority.partition(":")[0], authority.partition(":")[2])
    port = port or ""
    if not re.fullmatch(r"[0-9]*", port):
        return "", "", rest
    known = {"http": [80], "https": [443], None: [80, 443]}.get(scheme and scheme.lower(), [])
    return lowered(host.rstrip(".")), "" if int(port or 0) in [0, *known] else port, rest


def domains_of(host: str) -> list[str]:
    """Every domain that contains a host, shortest first."""
    labels = host.split(".")
    if host.startswith("[") or labels[-1][:1].isdigit():
        return [host]
    found = [".".join(labels[start:]) for start in range(len(labels) - 1, -1, -1)]
    return [domain for domain in found if domain and not domain.startswith(".")]


def exact(url: str) -> str:
    host, port, rest = oracle(url)
    rest = rest if "?" in rest else rest.rstrip("/\\")
    return host + (":" + port if port else "") + ("/" if rest.startswith("?") else "") + rest


@settings(max_examples=200, deadline=None)
@given(URLS)
def test_the_parts_of_a_url_are_those_of_the_plain_parser(url):
    """Schemes, user names, ports, brackets, trailing dots, back slashes, fragments, and junk."""
    data, offsets = arrow([url])
    found = split_urls(data, offsets)[0]
    host, port, rest = (bytes(data[found[at] : found[at + 1]]).decode() for at in (0, 2, 4))
    assert (lowered(host), port, rest) == oracle(url)


@pytest.mark.parametrize(
    ("entry", "blocked", "free"),
    [
        (
            "example.com",
            ["http://example.com/", "https://www.EXAMPLE.com:8080/a", "a.b.example.com."],
            ["notexample.com"],
        ),
        ("*.example.com", ["example.com", "x.example.com"], ["example.com.uk", "example", "com"]),
        ("0.0.0.0 ads.example.com", ["ads.example.com"], ["0.0.0.0", "example.com"]),
        ("https://Example.com/", ["example.com/deep/path"], ["https://other.org/?u=example.com"]),
        ("uk", ["a.b.co.uk"], ["uk.com"]),
        ("10.0.0.1", ["http://10.0.0.1/", "u@10.0.0.1:81"], ["http://110.0.0.1/", "http://1.10.0.0.1/"]),
        ("[::1]", ["http://[::1]:3000/"], ["http://[::11]/"]),
        ("bücher.example", ["https://www.bücher.example/"], ["https://xn--bcher-kva.example/"]),
    ],
)
def test_a_domain_covers_itself_and_every_host_below_it(entry, blocked, free):
    """On the boundaries of labels, and an address for itself alone."""
    hashes, faults = hash_domain_lines(lines([entry]))
    domains, _ = build([(hashes, 0)])
    data, offsets = arrow(blocked + free)
    found, _ = find_domains(domains, data, split_urls(data, offsets))
    assert faults == 0
    assert [label == 0 for label in found.tolist()] == [True] * len(blocked) + [False] * len(free)


@given(st.lists(HOST, max_size=6), st.lists(URLS, min_size=1, max_size=6))
@pytest.mark.slow
def test_lookups_of_domains_equal_those_in_a_set_of_text(entries, urls):
    """The shortest domain that is listed is found, with the place where it begins in the URL."""
    listed = {oracle("http://" + entry)[0].removeprefix("*.").lstrip(".") for entry in entries} - {""}
    domains, _ = build([(hash_domain_lines(lines(["http://" + entry for entry in entries]))[0], 3)])
    data, offsets = arrow(urls)
    spans = split_urls(data, offsets)
    found, begin = find_domains(domains, data, spans)
    shown_offsets, shown = cut(data, begin, np.where(begin < 0, begin, spans[:, 1]))
    for row, url in enumerate(urls):
        wanted = next((domain for domain in domains_of(oracle(url)[0]) if domain in listed), None)
        assert found[row] == (3 if wanted else -1)
        assert shown[shown_offsets[row] : shown_offsets[row + 1]].tobytes().decode() == (wanted or "")


@given(st.lists(URLS, max_size=6), st.lists(URLS, min_size=1, max_size=6))
@pytest.mark.slow
def test_lookups_of_urls_equal_those_in_a_set_of_text(entries, urls):
    """Two spellings are one URL when the plain parser makes one text of them."""
    entries = [entry.replace(" ", "") for entry in entries]
    good = [entry for entry in entries if not entry.startswith("#") and oracle(entry)[0]]
    hashes, faults = hash_url_lines(lines(entries))
    listed, _ = build([(hashes, 0)])
    data, offsets = arrow(urls)
    found = labels_of(listed, hash_urls(data, offsets))
    wanted = {exact(entry) for entry in good}
    assert [label == 0 for label in found.tolist()] == [exact(url) in wanted for url in urls]
    assert faults == sum(1 for entry in entries if entry and not entry.startswith("#")) - len(good)


def test_a_domain_list_refuses_pages_and_counts_them():
    """A page of a site in a list of domains must not take the whole site with it."""
    hashes, faults = hash_domain_lines(lines(["example.com/bad/page", "?", "fine.example/", "# example.org"]))
    assert (len(hashes), faults) == (1, 2)


WORDS = st.sampled_from(["spam", "é", "casino", "bad", "a", "2"])
PIECES = st.lists(
    st.one_of(WORDS, st.sampled_from([".", "-", "/", "%20", "%C3%A9", "%73pam", "%", "S", "x", "%ff"])), max_size=9
)


def folded(url: str) -> bytes:
    """Host, path and query in lower case, with %XX decoded in each."""
    host, _, rest = oracle(url)
    parts = [re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), p.encode()) for p in (host, rest)]
    return re.sub(rb"[A-Z]", lambda letter: letter[0].lower(), b"".join(parts))


def hash_words_of(entries: set[str]) -> np.ndarray:
    return hash_words(lines(sorted(entries)))[0]


@pytest.mark.slow
@given(st.sets(WORDS, max_size=4), PIECES, st.integers(1, 3))
def test_words_of_urls_are_whole_and_different(words, pieces, wanted):
    """A URL is found when it has the required number of different listed words; they are shown in their order."""
    url = "http://h.example/" + "".join(pieces)
    listed, _ = build([(hash_words_of(words), 5)])
    data, offsets = arrow(["none.example", url])
    found, shown_offsets, shown = find_words(listed, data, split_urls(data, offsets), wanted)
    tokens = re.findall(rb"[a-z0-9\x80-\xff]+", folded(url))
    met = list(dict.fromkeys(token for token in tokens if token in {word.encode() for word in words}))
    assert found.tolist() == [-1, 5 if len(met) >= wanted else -1]
    expected = b", ".join(met[:wanted]) if len(met) >= wanted else b""
    assert shown[shown_offsets[1] : shown_offsets[2]].tobytes() == expected


@pytest.mark.slow
@given(st.sets(st.one_of(WORDS, st.sampled_from(["m-c", "pam", "x", "é/"])), max_size=4), PIECES)
def test_letters_inside_urls_are_found_where_python_finds_them(entries, pieces):
    """The first place with a listed entry counts, and of several there the shortest."""
    url = "http://h.test/" + "".join(pieces)
    listed, _ = build([(hash_words_of(entries), 1)])
    pairs, lengths = np.zeros(1 << 16, np.bool_), np.zeros(256, np.bool_)
    openings(lines(sorted(entries)), pairs, lengths)
    data, offsets = arrow([url])
    found, shown_offsets, shown = find_inside(listed, pairs, lengths, data, split_urls(data, offsets))
    text = folded(url)
    places = [(text.find(entry.encode()), len(entry.encode())) for entry in entries if entry.encode() in text]
    at, size = min(places, default=(0, 0))
    assert found.tolist() == [1 if places else -1]
    assert shown[: shown_offsets[1]].tobytes() == text[at : at + size]
