"""The normal form of URLs: exact against plain Python, and what it makes one and what it keeps apart."""

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.kernels.urls.normal import FRAGMENT, HASHBANG, MOST_SORTED, NO_FRAGMENT, normal_urls, odd_hosts
from gristmill.kernels.urls.parts import split_urls
from gristmill.kernels.urls.spelling import names
from gristmill.stages.buffers import bytes_of, strings

TRACKING = ("utm_*", "gclid", "PHPSESSID", "jsessionid")
UNRESERVED = set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
FORBIDDEN = set(b'"<>^`{|}\\') | set(range(33)) | set(range(127, 256))


def normal(urls, tracking=TRACKING, sort=True, www=False, fragment=HASHBANG):
    ends, data = normal_urls(*bytes_of(pa.array(urls, pa.string())), names(tracking), sort, www, fragment)
    return strings(ends.astype(np.int32), data).to_pylist()


def spell(data):
    """%XX in its one spelling."""

    def code(found):
        byte = int(found[1], 16)
        return bytes([byte]) if byte in UNRESERVED else b"%%%02X" % byte

    parts = re.split(rb"(%[0-9A-Fa-f]{2})", data)
    return b"".join(
        re.sub(rb"%(..)", code, part)
        if place % 2
        else b"".join(b"%%%02X" % byte if byte in FORBIDDEN else bytes([byte]) for byte in part)
        for place, part in enumerate(parts)
    )


def tracks(name, tracking):
    name = name.lower()
    patterns = [pattern.lower().encode() for pattern in tracking]
    return any(name.startswith(one[:-1]) if one.endswith(b"*") else name == one for one in patterns)


def plain_path(path, tracking):
    kept = []
    for segment in re.split(rb"[/\\]", path)[1:]:
        first, *rest = segment.split(b";")
        spelt = [spell(parameter) for parameter in rest]
        segment = b";".join([spell(first), *(one for one in spelt if not tracks(one.split(b"=")[0], tracking))])
        if segment == b"..":
            del kept[-1:]
        elif segment != b".":
            kept.append(segment)
    return b"".join(b"/" + segment for segment in kept).rstrip(b"/")


def plain_query(query, tracking, sort):
    kept = [spell(re.sub(rb"^(amp;)+", b"", one, flags=re.I)) for one in query.split(b"&")]
    kept = [one for one in kept if one and not tracks(one.split(b"=")[0], tracking)]
    if sort and len(kept) <= MOST_SORTED:
        kept.sort(key=lambda one: one.split(b"=")[0])
    return b"?" + b"&".join(kept) if kept else b""


def plainly(url, tracking, sort, www, fragment):
    """The oracle, with `urls.split`, which has its own, for host and port."""
    data = url.encode()
    begin = len(data) - len(data.lstrip(bytes(range(33))))
    data = data.strip(bytes(range(33)))
    spans = split_urls(*bytes_of(pa.array([url], pa.string())))[0] - begin
    host, port = data[spans[0] : spans[1]].lower(), data[spans[2] : spans[3]].lstrip(b"0")
    if not host:
        return data.decode()
    scheme = re.match(rb"([^:/\\?#@]+):[/\\]{2}", data)
    scheme = scheme[1].lower() if scheme else b""
    web = scheme in (b"", b"http", b"https")
    if web and port in (b"80", b"443"):
        port = b""
    if www and host.startswith(b"www.") and b"." in host[4:]:
        host = host[4:]
    path, _, query = data[spans[4] : spans[5]].partition(b"?")
    after = data[spans[5] :]
    stays = len(after) > 1 and (fragment == FRAGMENT or (fragment == HASHBANG and after[1:2] == b"!"))
    return (
        (b"" if web else scheme + b":")
        + b"//"
        + host
        + (b":" + port if port else b"")
        + plain_path(path, tracking)
        + plain_query(query, tracking, sort)
        + (b"#" + spell(after[1:]) if stays else b"")
    ).decode()


def pieces(*samples):
    return st.sampled_from(samples) | st.text("ab./%2eE41;=&?#\\ é|~:@", max_size=6)


URLS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["http://", "HTTPS://", "", "//", "ftp://", "http:\\\\", " \thttp://", "urn:", "http:"]),
        st.sampled_from(["a.de", "WWW.A.de", "www.de", "u:p@a.de", "[::1]", "a.de.", "é.de", "", "localhost"]),
        st.sampled_from(["", ":80", ":443", ":0080", ":08080", ":x", ":"]),
        pieces(
            "", "/", "/a/../b", "/a/./b/", "/a//b//", "/%7Eme/%2e%2E/x", "/a;jsessionid=1;v=2/b;PHPSESSID", "/..", "/é%"
        ),
        pieces("", "?", "?b=1&a=2&a=1", "?utm_x=1&a", "?&&a=&b=%zz&%41=+", "?a=1&amp;GCLID=2&amp;amp;b", "?gclid=1"),
        pieces("", "#", "#top", "#!/page?é", "#!"),
    ),
)  # fmt: skip
OPTIONS = st.tuples(
    st.sampled_from([TRACKING, (), ("a", "utm_*", "u*")]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([NO_FRAGMENT, HASHBANG, FRAGMENT]),
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(URLS, max_size=4), OPTIONS)
def test_the_kernel_is_exact(urls, options):
    """For any URL and any option, the result is byte for byte that of plain Python, with any neighbours."""
    assert normal(urls, *options) == [plainly(url, *options) for url in urls]


@given(URLS, OPTIONS)
def test_the_normal_form_is_its_own_normal_form(url, options):
    """Normalising twice changes nothing, wherever there is a host that can be one."""
    (once,) = normal([url], *options)
    if re.match(r"//[a-z0-9é.:\[\]]+([/?#]|$)", once):
        assert normal([once], *options) == [once]


@pytest.mark.parametrize(
    "spellings",
    [
        ["http://a.de/x", "https://A.DE:443/x/", "a.de/x", "//a.de./x", "http://me@a.de:80/x#top", " http://a.de/x\n"],
        ["http://a.de", "http://a.de/", "http://a.de/?", "http://a.de/?&", "http://a.de//", "http://a.de/x/.."],
        ["http://a.de/b/~c", "http://a.de/./b/%7Ec", "http://a.de/x/../b/%7ec/", "http://a.de\\b\\~c"],
        ["http://a.de/é x", "http://a.de/%C3%A9%20x", "http://a.de/%c3%a9%20x"],
        ["http://a.de/?x=1&y=2", "http://a.de?y=2&x=1", "http://a.de/?utm_source=q&y=2&UTM_Campaign=z&x=1&gclid"],
        ["http://a.de/?x=1&y=2", "http://a.de/?x=1&amp;y=2"],
        ["http://a.de/x", "http://a.de/x;jsessionid=AB12", "http://a.de/x;JSESSIONID=AB12?phpsessid=3"],
        ["http://a.de/#!/p%7e", "https://a.de/#!/p~"],
    ],
)
def test_spellings_of_one_address_are_equal(spellings):
    """Scheme, case of the host, ports, dots, slashes, codes, order, tracking and anchors do not make another URL."""
    assert len(set(normal(spellings))) == 1


def test_different_addresses_stay_apart():
    """Servers distinguish paths by case, values, repeated parameters by order, ports, hosts, other schemes."""
    urls = [
        "http://a.de/x", "http://a.de/X", "http://a.de/x?y", "http://a.de/x?y=", "http://a.de/x?y=1&y=2",
        "http://a.de/x?y=2&y=1", "http://a.de/x%2Fy", "http://a.de/x/y", "http://a.de:8080/x", "http://www.a.de/x",
        "http://b.de/x", "ftp://a.de/x", "http://a.de/x?Y", "http://a.de/x#!y", "http://a.de/x//y", "urn:a.de/x",
        "http://a.de/x?y=a+b", "http://a.de/x?y=a%20b", "http://a.de/x?sid=4",
    ]  # fmt: skip
    assert len(set(normal(urls))) == len(urls)


def test_a_query_of_any_number_of_parameters_is_bounded_work():
    """Past the limit the order stays as it is, instead of costing the square of the parameters."""
    many = "http://a.de/?" + "&".join(f"p{place:06}=1" for place in range(100_000, 0, -1))
    few = "http://a.de/?" + "&".join(f"p{place}" for place in range(MOST_SORTED, 0, -1))
    one, two = normal([many, few])
    assert one == "//a.de?" + many.partition("?")[2]
    assert two == "//a.de?" + "&".join(sorted(few.partition("?")[2].split("&")))


def test_odd_hosts_are_those_that_are_not_plain_ascii():
    """Only the host counts: most URLs outside ASCII have the other characters in their path."""
    urls = ["http://é.de/", "http://a.de/é", "http://%C3%A9.de", "http://a.de/%C3", "http://xn--9ca.de", ""]
    data, offsets = bytes_of(pa.array(urls, pa.string()))
    assert odd_hosts(data, split_urls(data, offsets)).tolist() == [True, False, True, False, False, False]
