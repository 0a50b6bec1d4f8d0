"""Which documents a query names, by its URL: the same for every spelling that browsers treat as that URL."""

import re
import unicodedata
from urllib.parse import quote, unquote, unquote_to_bytes

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.stages.matches import match_domains, match_prefixes, match_urls

HOSTS = ["example.com", "müller.de", "例え.jp", "a.b.example.com"]
SEGMENTS = ["café", "Ångström", "x", "y", "日本", "e", "%2F", "한글"]


def matched(make, queries, urls):
    return sorted({row for row, _, _ in make([queries])(pa.array(urls, pa.string()))})


def quote_all(sign):
    return "".join(f"%{byte:02x}" for byte in sign.encode())


@st.composite
def pages(draw):
    """A host, and the segments of a path."""
    return draw(st.sampled_from(HOSTS)), draw(st.lists(st.sampled_from(SEGMENTS), max_size=3))


@st.composite
def spellings(draw, page):
    """A URL of a page as written by someone who does not want it to be found."""
    host, segments = page
    if draw(st.booleans()):
        host = host.encode("idna").decode()
    elif draw(st.booleans()):
        host = quote(host)
    if draw(st.booleans()):
        host = unicodedata.normalize("NFD", host)
    host = draw(st.sampled_from([host, host.upper()])) + draw(st.sampled_from(["", ".", "%2E", "。"]))
    spelt = []
    for segment in segments:
        form = unicodedata.normalize(draw(st.sampled_from(["NFC", "NFD"])), segment)
        if segment != "%2F":
            form = "".join(quote_all(sign) if draw(st.booleans()) else sign for sign in form)
        spelt.append(re.sub("%..", lambda code: draw(st.sampled_from([code[0].lower(), code[0].upper()])), form))
    slash = st.sampled_from(["/", "/", "\\"])
    scheme = draw(st.sampled_from(["http:", "https:", "HTTP:"]))
    start = draw(st.sampled_from(["//", "\\\\", "///", "/", "/\\"]))
    user, port = (
        draw(st.sampled_from(["", "u@", "u:p@", "other.example@"])),
        draw(st.sampled_from(["", ":80", ":443", ":"])),
    )
    url = (
        scheme
        + start
        + user
        + host
        + port
        + "".join(draw(slash) + one for one in spelt)
        + draw(st.sampled_from(["", "/"]))
    )
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(url)))
        url = url[:at] + draw(st.sampled_from("\t\n\r")) + url[at:]
    return draw(st.sampled_from(["", " ", "\x00\x1f "])) + url + draw(st.sampled_from(["", " ", "\x1f"]))


def plainly(url):
    """The oracle: host and path of a URL, by Python's own URLs, Unicode and IDNA."""
    url = re.sub("[\t\n\r]", "", url).strip("".join(map(chr, range(33)))).replace("\\", "/")
    authority, _, path = re.sub("^https?:/*", "", url, flags=re.I).partition("/")
    host = unquote(re.sub("^.*@|:[0-9]*$", "", authority)).replace("。", ".").rstrip(".")
    parts = [
        unicodedata.normalize("NFC", unquote_to_bytes(one).decode()).encode() for one in path.rstrip("/").split("/")
    ]
    return host.lower().encode("idna").lower(), parts


@settings(max_examples=40)
@given(st.data())
def test_a_page_is_named_in_every_spelling_and_no_other_is(data):
    """By URL, by prefix and by domain; query and document each in their own spelling."""
    page, other = data.draw(pages()), data.draw(pages())
    queries = "".join(one for one in data.draw(spellings(page)) if one.isprintable()).strip()
    urls = [data.draw(spellings(page)), data.draw(spellings(other))]
    (host, path), there = plainly(queries), [plainly(url) for url in urls]
    assert there[0] == (host, path)
    assert matched(match_urls, queries, urls) == [row for row in (0, 1) if there[row] == (host, path)]
    assert matched(match_domains, host.decode(), urls) == [
        row for row in (0, 1) if b"." + there[row][0] == b"." + host or there[row][0].endswith(b"." + host)
    ]
    above = [part for part in path if part]
    assert matched(match_prefixes, queries.rstrip("/\\") + "/", urls) == [
        row for row in (0, 1) if there[row][0] == host and there[row][1][: len(above)] == above
    ]


PREFIXES = [
    ("https://a.com/p", ["/p", "/pets", "/p?q=1", "/p/x#y"], ["/o", "/"]),
    ("https://a.com/p/", ["/p", "/p/x", "/p/?q=1", "/p;jsessionid=2/x"], ["/pets", "/"]),
    (
        "https://a.com/p?id=",
        ["/p?id=3", "/p/?id=3", "/p?id=3&a=1", "/p?utm_source=m&id=3"],
        ["/p", "/p?a=1", "/p?ID=3"],
    ),
    ("https://a.com/p?", ["/p?a", "/p?utm_source=m"], ["/p", "/pets?a"]),
    ("https://a.com/p?utm_source=m", ["/p?utm_source=m2"], ["/p", "/pets"]),
    ("https://a.com/p?b=1&a=2", ["/p?b=1&a=2", "/p?a=2&b=1&c=3"], ["/p?b=1", "/p?a=2"]),
    ("https://a.com/.", ["/.git", "/.well-known/x"], ["/", "/git"]),
    ("https://a.com", ["", "/", "/x", "?q"], []),
    ("https://a.com/x#s", ["/x#s", "/x#section"], ["/x", "/x#t"]),
    ("https://a.com/x?utm_source=m", ["/x?utm_source=m2"], ["/", "/x", "/xx"]),
]


@pytest.mark.parametrize(("prefix", "named", "others"), PREFIXES, ids=[row[0] for row in PREFIXES])
def test_a_prefix_names_what_begins_so_and_nothing_else(prefix, named, others):
    urls = [f"http://A.com{rest}" for rest in (*named, *others)] + ["https://a.community/p", "ftp://a.com/p"]
    assert matched(match_prefixes, prefix, urls) == list(range(len(named)))


def test_a_domain_names_the_hosts_below_it_and_an_address_only_itself():
    hosts = ["a.com", "x.a.com", "ba.com", "a.com.de", "10.0.0.1", "9.10.0.0.1", "[::1]"]
    urls = [f"http://{host}/" for host in hosts]
    found = {
        queries: matched(match_domains, queries, urls) for queries in ("a.com", "com", "0.0.1", "10.0.0.1", "[::1]")
    }
    assert found == {"a.com": [0, 1], "com": [0, 1, 2], "0.0.1": [], "10.0.0.1": [4], "[::1]": [6]}
