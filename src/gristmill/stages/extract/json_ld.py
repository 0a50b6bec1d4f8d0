"""Reads metadata from the JSON-LD of a page (schema.org, in scripts of type application/ld+json)."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

# Numbers are kept as text, since some pages write 20120304 for a date.
_DECODER = json.JSONDecoder(strict=False, parse_int=str, parse_float=str, parse_constant=str)
_WRAPPING = re.compile(r"(?:\s|//|/\*|\*/|<!--|<!\[CDATA\[)*")
_ABOUT_THE_PAGE = ("article", "posting", "report")
"""Suffixes of the types that describe the page's own text: NewsArticle, BlogPosting. Other nodes come after them."""
_PART_OF_IT = {"comment", "review", "imageobject", "rating"}
"""Types that have their own authors and dates."""

MAX_VALUES = 32
"""The most values of one property that are read."""

Node = dict[str, Any]


def read_scripts(scripts: Iterable[bytes]) -> dict[str, list[str]]:
    """Values for the columns title, author, date and site, the best first. Invalid JSON is ignored.

    The scan that finds the scripts bounds their depth and size.
    """
    nodes = [node for script in scripts for node in _nodes(_parsed(script))]
    names = {node["@id"]: node for node in nodes if isinstance(node.get("@id"), str) and "name" in node}
    found: dict[str, list[str]] = {"title": [], "author": [], "date": [], "site": []}
    for node in sorted(nodes, key=lambda node: not any(kind.endswith(_ABOUT_THE_PAGE) for kind in _types(node))):
        if _types(node) & _PART_OF_IT:
            continue
        found["title"] += _first(_texts(node.get("headline"), names))
        found["author"] = found["author"] or _first(_texts(node.get("author"), names))
        found["date"] += _first(_texts(node.get("datePublished"), names))
        found["site"] += _first(_texts(node.get("publisher"), names))
    return found


def _first(texts: Iterator[str]) -> list[str]:
    """The first few values, since a page may refer a thousand times to a node with a thousand names."""
    return list(islice(texts, MAX_VALUES))


def _parsed(script: bytes) -> Any:
    text = script.decode("utf-8", "ignore")
    begin = _WRAPPING.match(text)
    try:
        return _DECODER.raw_decode(text, begin.end() if begin else 0)[0]
    except ValueError:
        return None


def _nodes(value: object) -> Iterator[Node]:
    """The nodes that a script describes: one, a list, a graph, and a page's main entity."""
    if isinstance(value, list):
        for item in value:
            yield from _nodes(item)
    elif isinstance(value, dict):
        yield value
        yield from _nodes(value.get("@graph"))
        if isinstance(value.get("mainEntity"), dict):
            yield from _nodes(value["mainEntity"])


def _types(node: Node) -> set[str]:
    kinds = node.get("@type")
    return {kind.lower() for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)}


def _texts(value: object, names: dict[str, Node]) -> Iterator[str]:
    """Strings, names of nodes or of referenced nodes, or lists of these."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, names)
    elif isinstance(value, dict):
        identity = value.get("@id")
        if "name" not in value and "@value" not in value and isinstance(identity, str):
            value = names.get(identity, {})
        yield from _texts(value.get("@value"), {})
        yield from _texts(value.get("name"), {})
