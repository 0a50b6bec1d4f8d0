"""URLs: their parts, and the normal form, which makes spellings of one address equal and keeps different ones apart."""

import unicodedata
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.stages.shared.urls import NO_URL, TRACKING, UrlForm, domains_of, normal_form, parse, spelled


def pieces(*samples):
    return st.sampled_from(samples) | st.text("ab./%2eE41;=&?#\\ é|~:@", max_size=6)


URLS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["http://", "HTTPS://", "", "//", "ftp://", "http:\\\\", " \thttp://", "urn:", "http:", "s3://"]),
        st.sampled_from(["a.de", "WWW.A.de", "www.de", "u:p@a.de", "[::1]", "a.de.", "é.de", "", "localhost", "10.1"]),
        st.sampled_from(["", ":80", ":443", ":0080", ":08080", ":x", ":"]),
        pieces("", "/", "/a/../b", "/a//b//", "/%7Eme/%2e%2E/x", "/a;jsessionid=1;v=2/b;PHPSESSID", "/..", "/é%"),
        pieces("", "?", "?b=1&a=2&a=1", "?utm_x=1&a", "?&&a=&b=%zz&%41=+", "?a=1&amp;GCLID=2&amp;amp;b", "?gclid=1"),
        pieces("", "#", "#top", "#!/page?é", "#!"),
    ),
)  # fmt: skip
FORMS = st.builds(
    UrlForm,
    tracking=st.sampled_from([TRACKING, (), ("a", "utm_*", "u*")]),
    sort_query=st.booleans(),
    strip_www=st.booleans(),
    fragments=st.sampled_from(["drop", "hashbang", "keep"]),
)


@given(URLS | st.text(max_size=30), FORMS)
def test_the_normal_form_is_its_own_normal_form(url, form):
    """Any text has a normal form. Normalising twice changes nothing where there is a host."""
    once = normal_form(url, form)
    if parse(url).host:
        assert normal_form(once, form) == once


@pytest.mark.parametrize(
    "spellings",
    [
        ["http://a.de/x", "https://A.DE:443/x/", "a.de/x", "//a.de./x", "http://me@a.de:80/x#top", " http://a.de/x\n"],
        ["http://a.de", "http://a.de/", "http://a.de/?", "http://a.de/?&", "http://a.de//", "http://a.de/x/.."],
        ["http://a.de/b/~c", "http://a.de/./b/%7Ec", "http://a.de/x/../b/%7ec/", "http://a.de\\b\\~c"],
        ["http://a.de/é x", "http://a.de/%C3%A9%20x", "http://a.de/%c3%a9%20x", "http://a.de/e%CC%81 x"],
        ["http://a.de/?x=1&y=2", "http://a.de?y=2&x=1", "http://a.de/?utm_source=q&y=2&UTM_Campaign=z&x=1&gclid"],
        ["http://a.de/?x=1&y=2", "http://a.de/?x=1&amp;y=2"],
        ["http://a.de/x", "http://a.de/x;jsessionid=AB12", "http://a.de/x;JSESSIONID=AB12?phpsessid=3"],
        ["http://a.de/#!/p%7e", "https://a.de/#!/p~"],
        ["http://müller.de/", "http://m%C3%BCller.de", "http://xn--mller-kva.de", "http://MU\u0308LLER。de"],
        ["localhost:8000/x", "http://localhost:8000/x"],
    ],
)
def test_spellings_of_one_address_are_equal(spellings):
    """Scheme, case of the host, ports, dots, slashes, codes, order, tracking and anchors do not make another URL."""
    assert len({normal_form(url, UrlForm()) for url in spellings}) == 1


def test_different_addresses_stay_apart():
    """Servers distinguish paths by case, values, repeated parameters by order, ports, hosts, other schemes."""
    urls = [
        "http://a.de/x", "http://a.de/X", "http://a.de/x?y", "http://a.de/x?y=", "http://a.de/x?y=1&y=2",
        "http://a.de/x?y=2&y=1", "http://a.de/x%2Fy", "http://a.de/x/y", "http://a.de:8080/x", "http://www.a.de/x",
        "http://b.de/x", "ftp://a.de/x", "http://a.de/x?Y", "http://a.de/x#!y", "http://a.de/x//y", "urn:a.de/x",
        "http://a.de/x?y=a+b", "http://a.de/x?y=a%20b", "http://a.de/x?sid=4",
    ]  # fmt: skip
    assert len({normal_form(url, UrlForm()) for url in urls}) == len(urls)


@pytest.mark.parametrize(
    "url", ["urn:uuid:1", "dns:example.com", "data:x://y", "http://a.de:x/", "", "http://a b/", None]
)
def test_what_has_no_host_is_no_url(url):
    """A list never contains it."""
    assert parse(url) == NO_URL


def test_a_host_is_as_long_as_dns_allows():
    """So the work for its domains is bounded."""
    assert parse("http://" + "a." * 120 + "de").host
    assert not parse("http://" + "a." * 130 + "de").host
    assert len(domains_of("a." * 120 + "de")) == 121


def test_an_address_is_its_only_domain():
    assert domains_of("a.b.co.uk") == ["uk", "co.uk", "b.co.uk", "a.b.co.uk"]
    assert domains_of("10.0.0.1") == ["10.0.0.1"]
    assert domains_of("[::1]") == ["[::1]"]


MARKS = st.lists(st.sampled_from("e\u0301\u0316\u0344\u0f73\u0327é한각\u1100\u1161"), max_size=40).map("".join)


@given(MARKS)
def test_characters_are_composed_in_any_spelling(text):
    """NFC is applied to decoded characters, with the letter before an accent."""
    expected = quote(unicodedata.normalize("NFC", text))
    assert spelled(text) == spelled(quote(text).lower()) == spelled(unicodedata.normalize("NFD", text)) == expected


@given(st.binary(max_size=12))
def test_bytes_that_are_not_utf8_stay(data):
    """Old sites encode paths in other character sets."""
    code = "".join(f"%{byte:02X}" for byte in data if byte >= 0x80)
    assert len(spelled(code)) <= len(code)
    assert spelled(spelled(code)) == spelled(code)
