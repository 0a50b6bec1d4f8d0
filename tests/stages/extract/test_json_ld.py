import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.stages.extract.json_ld import read_scripts

NOTHING: dict[str, list[str]] = {"title": [], "author": [], "date": [], "site": []}


def read(*values: Any) -> dict[str, list[str]]:
    """The values that are found."""
    scripts = [value.encode() if isinstance(value, str) else json.dumps(value).encode() for value in values]
    return {name: found for name, found in read_scripts(scripts).items() if found}


@pytest.mark.parametrize(
    ("value", "author"),
    [
        ("Ann", ["Ann"]),
        ({"name": "Ann"}, ["Ann"]),
        ({"@type": "Person", "name": {"@value": "Ann"}}, ["Ann"]),
        ([{"name": "Ann"}, "Bo", {"name": ["Cy", None, 1.5]}], ["Ann", "Bo", "Cy", "1.5"]),
        ({"@id": "#ann"}, ["Ann of the graph"]),
        ({"@id": "#ann", "name": "Ann"}, ["Ann"]),
        ({"@id": "#nobody"}, None),
        ({"@id": ["#ann"]}, None),
        (None, None),
        (True, None),
        ([[[]]], None),
    ],
)
def test_authors_are_texts_things_or_references(value: Any, author: list[str] | None) -> None:
    """A string, an object with a name, the id of another object, or a list of these."""
    graph = {"@graph": [{"@type": "Article", "author": value}, {"@id": "#ann", "name": "Ann of the graph"}]}
    assert read(graph).get("author") == author
    assert read([graph["@graph"]]).get("author") == author
    assert read(*graph["@graph"]).get("author") == author


def test_the_article_comes_before_other_things_of_the_page() -> None:
    """Comments and pictures do not count."""
    comment = {"@type": "Comment", "author": "C", "datePublished": "2003"}
    picture = {"@type": ["Thing", "ImageObject"], "author": "I", "datePublished": "2004"}
    page = {"@type": "WebPage", "author": "P", "datePublished": "2002", "publisher": {"name": "Q"}}
    article = {"@type": ["NewsArticle"], "headline": "H", "author": "A", "datePublished": 20010101}
    wanted = {"title": ["H"], "author": ["A"], "date": ["20010101", "2002"], "site": ["Q"]}
    assert read([comment, picture, page, article]) == wanted
    assert read({**page, "mainEntity": article}, comment) == wanted


@pytest.mark.parametrize(
    "text",
    [
        '{"author":"A"}',
        ' \n<!-- {"author":"A"} -->',
        '//<![CDATA[\n{"author":"A"}\n//]]>',
        '/*<![CDATA[*/{"author":"A"}/*]]>*/',
        '{"author":"A"};',
        '{"author":"A","text":"a\n\tb\x00","n":' + "9" * 9_000 + ',"x":NaN}',
    ],
)
def test_wrapped_and_careless_json_is_read(text: str) -> None:
    """Comments and CDATA around it, control characters in it, numbers of any length."""
    assert read(text) == {"author": ["A"]}


@pytest.mark.parametrize(
    "text", ["", "{", "[1,]", "{'author':'A'}", "null", '"author"', "1", "<!--", "\ufeff{}", "// {"]
)
def test_invalid_json_is_ignored(text: str) -> None:
    """It does not affect the other scripts."""
    assert read_scripts([text.encode()]) == NOTHING
    assert read(text, {"author": "A"}, text) == {"author": ["A"]}


KEYS = st.sampled_from(["@graph", "@type", "@id", "@value", "author", "name", "publisher", "headline", "mainEntity"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["Article", "#a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
)


@given(st.lists(VALUES, max_size=3), st.binary(max_size=9))
def test_any_json_is_accepted(values: list[Any], junk: bytes) -> None:
    """For any values, the results are strings."""
    found = read_scripts([junk, *(json.dumps(value).encode() for value in values)])
    assert found.keys() == NOTHING.keys()
    assert all(isinstance(text, str) for texts in found.values() for text in texts)
