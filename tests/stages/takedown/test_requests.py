"""Files of requests: all valid items are read, and every mistake is one message with its line."""

import re

import pytest
from fuzz.steps import Steps

from gristmill.errors import UserError
from gristmill.stages.takedown import requests
from gristmill.stages.takedown.requests import Request, read_all, read_requests

ID = "0123456789abcdef" * 2
ALIASES = f"- id: r\n  domains: &a [{', '.join(['a.b'] * 100)}]\n" + "".join(
    f"- id: r{n}\n  domains: *a\n" for n in range(100)
)


def read(tmp_path, text, name="requests.yaml"):
    (tmp_path / name).write_text(text)
    return read_requests(str(tmp_path / name))


def test_a_request_may_name_every_kind_of_item(tmp_path):
    found = read(
        tmp_path,
        f"- id: a\n  date: 2026-11-02\n  reason: no\n  urls: [https://x.example/1]\n  url_prefixes: https://x.example/p\n"
        f"  domains: [x.example]\n  doc_ids: [{ID.upper()}]\n  content_hashes: [{ID * 2}]\n  texts: [t.txt]\n",
    )
    expected = {
        "urls": ("https://x.example/1",),
        "url_prefixes": ("https://x.example/p",),
        "domains": ("x.example",),
        "doc_ids": (ID,),
        "content_hashes": (ID * 2,),
        "texts": ("t.txt",),
    }
    assert found == (Request("a", "2026-11-02", "no", **expected),)


def test_lines_of_a_text_file_are_recognised(tmp_path):
    lines = f"# a comment\n\nhttps://x.example/1\nhttps://x.example/p*\nx.example\n{ID}\n{ID * 2}\n"
    (found,) = read(tmp_path, lines, "dmca 7.txt")
    assert found == Request(
        "dmca-7",
        urls=("https://x.example/1",),
        url_prefixes=("https://x.example/p",),
        domains=("x.example",),
        doc_ids=(ID,),
        content_hashes=(ID * 2,),
    )


def test_a_star_and_a_dot_are_accepted(tmp_path):
    (found,) = read(
        tmp_path, "- id: a\n  url_prefixes: ['https://x.example/p*']\n  domains: ['.x.example', '*.y.example']\n"
    )
    assert (found.url_prefixes, found.domains) == (("https://x.example/p",), ("x.example", "y.example"))


def test_ids_are_unique_over_several_files(tmp_path):
    for name, text in {
        "a.yaml": "- id: a\n  domains: [a.b]\n",
        "b.txt": "c.d\n",
        "c.yaml": "- id: b\n  domains: [e.f]\n",
    }.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in ("a.yaml", "b.txt")]
    assert [request.id for request in read_all(paths)] == ["a", "b"]
    with pytest.raises(UserError, match="request in another file"):
        read_all([*paths, str(tmp_path / "c.yaml")])


def test_an_empty_file_has_no_requests(tmp_path):
    assert read(tmp_path, "") == read(tmp_path, "[]") == read(tmp_path, "# none yet\n") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id: a", ":1: requests must be a list"),
        ("- a", ":1: a request must be a mapping"),
        ("- urls: [https://x.example]", ":1: a request needs an id"),
        ("- id: a b\n  urls: [https://x.example]", ":1: a request needs an id"),
        ("- id: a\n  urls: []", ":1: the request a names nothing"),
        ("- id: a\n  urls: [x.example/1]", "2: 'x.example/1' is not a URL"),
        ("- id: a\n  domains:\n  - https://x.example", ":3: 'https://x.example' is not a domain"),
        ("- id: a\n  urls: [x.example/a]", "'x.example/a' is not a URL: it has no scheme. Write https://x.example/a"),
        ("- id: a\n  url_prefixes: ['https://']", ":2: 'https://' has no host"),
        ("- id: a\n  domains: ['*']", ":2: '*' is not a domain"),
        ("- id: a\n  date: 2026-99-99", ":2: '2026-99-99' is not a date"),
        ("- id: a\n  doc_ids: [12]", "2: '12' is not valid in doc_ids"),
        (f"- id: a\n  content_hashes: [{ID}]", "is not valid in content_hashes"),
        ("- id: a\n  uris: [x]", ":2: 'uris' is not a field of a request"),
        ("- id: a\n  urls: [https://x.example]\n  urls: [https://y.example]", ":3: urls occurs twice"),
        (
            "- id: a\n  domains: [x.example]\n- id: a\n  domains: [y.example]",
            ":3: an earlier request also has the id 'a'",
        ),
        ("- id: a\n  urls: {x: y}", ":2: urls must be text"),
        ("- id: [a", "is not valid YAML"),
        ("- &a [*a]", ":1: a request must be a mapping"),
        ("[" * 5000, ""),
        (ALIASES, "aliases make more items"),
        ("- id: a\n  urls: " + "[" * 50_000, ":2: the values are nested too deeply"),
        ("- " * 50_000 + "a", ":1: the line is indented too deeply"),
        ('- id: a\n  texts: ["a\\0b"]', "cannot be printed"),
        ("- id: a\n  urls: ['https://a.b/1, https://a.b/2']", "has a space, so it is not one URL"),
    ],
)
def test_a_mistake_is_an_error_with_its_line(tmp_path, text, expected):
    with pytest.raises(UserError, match=r"requests.yaml") as error:
        read(tmp_path, text)
    assert expected in str(error.value)


def test_an_unknown_line_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"r.txt:2: 'what is this' is not a URL"):
        read(tmp_path, "https://x.example\nwhat is this\n", "r.txt")
    with pytest.raises(UserError, match="cannot be read"):
        read_requests(str(tmp_path / "absent.yaml"))
    (tmp_path / "bytes.yaml").write_bytes(b"- id: a\n  reason: \xff")
    with pytest.raises(UserError, match=r"bytes.yaml:2: not UTF-8"):
        read_requests(str(tmp_path / "bytes.yaml"))


def test_a_line_is_recognised_in_linear_time():
    """The worst line has endless labels followed by a sign that no host has."""
    for name, pattern in vars(requests).items():
        if isinstance(pattern, re.Pattern):
            for whole in (False, True):
                less, more = (Steps(pattern).search("a." * count + "*", not whole, whole) for count in (50, 200))
                assert more <= 5 * less, name
