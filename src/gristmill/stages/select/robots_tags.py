"""What a page itself says to robots: its X-Robots-Tag header and its `<meta name="robots">` tags."""

import html
import re
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.kernels.html.meta_tags import find_tags
from gristmill.stages.buffers import bytes_of

HEAD_BYTES = 64 << 10
"""How much of a page is searched for its head."""

_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_AGENT = re.compile(r"\s*([A-Za-z][\w.\-]*)\s*:(.*)", re.S | re.A)
# A name begins where another cannot go on, and gives no letter back: a tag may be one word of 64 KiB.
_ATTRIBUTE = re.compile(r"(?<![^\s\"'>/=])([^\s\"'>/=]++)\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
_SPACES = re.compile(r"[\s,;]+")


def find_in_headers(meta: pa.Array, wanted: Sequence[str], agent: str) -> dict[int, str]:
    """Row -> the first of the wanted directives in its `x_robots_tag`."""
    found = {}
    some = pc.match_substring(meta, '"x_robots_tag"').fill_null(False)
    for row in pc.indices_nonzero(some).to_pylist():
        directive = _in_header(_header(meta[row].as_py()), wanted, agent)
        if directive:
            found[row] = directive
    return found


def _header(meta: str) -> str:
    try:
        value: Any = orjson.loads(meta)
    except orjson.JSONDecodeError:
        return ""
    value = value.get("x_robots_tag") if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def _in_header(value: str, wanted: Sequence[str], agent: str) -> str | None:
    """`noindex, nofollow` is for all; after `otherbot:` comes what is for that one, up to the next name or line."""
    said: set[str] = set()
    for line in value.lower().split("\n"):
        ours = True
        for directive in line.split(","):
            named = _AGENT.match(directive)
            if named and named[1] not in _WITH_VALUE:
                ours = named[1] in (agent.lower(), "robots")
                directive = named[2]
            if ours:
                said.add(directive.strip())
    return next((directive for directive in wanted if directive.lower() in said), None)


def find_in_pages(pages: pa.Array, wanted: Sequence[str], agent: str) -> dict[int, str]:
    """Row -> the first of the wanted directives in a meta tag for all robots or for `agent`, in the page's head."""
    words, word_offsets = bytes_of(pa.array([directive.lower() for directive in wanted], pa.string()))
    data, offsets = bytes_of(pages)
    found: dict[int, str] = {}
    for row, begin, end in find_tags(data, offsets, HEAD_BYTES, words, word_offsets).tolist():
        directive = _in_tag(bytes(data[begin:end]).decode("utf-8", "replace"), wanted, agent)
        if directive:
            found.setdefault(row, directive)
    return found


def _in_tag(tag: str, wanted: Sequence[str], agent: str) -> str | None:
    attributes: dict[str, str] = {}
    for name, double, single, bare in _ATTRIBUTE.findall(tag):
        attributes.setdefault(name.lower(), html.unescape(double or single or bare))
    if attributes.get("name", "").strip().lower() not in ("robots", agent.lower()):
        return None
    said = set(_SPACES.split(attributes.get("content", "").lower()))
    return next((directive for directive in wanted if directive.lower() in said), None)
