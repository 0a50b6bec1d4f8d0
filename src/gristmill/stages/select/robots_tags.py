"""Finds the directives of a page for robots: its X-Robots-Tag header and its `<meta name="robots">` tags."""

import html
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.buffers import bytes_of

HEAD_BYTES = 64 << 10
"""The number of bytes of a page that are searched."""

_MARKUP = re.compile(
    rb"<!--.*?(?:-->|\Z)|<(script|style)[\s/>].*?(?:</\1|\Z)|(?P<end></head[\s/>]|<body[\s/>])|(?P<meta><meta[\s/][^<>]*>)",
    re.DOTALL | re.IGNORECASE,
)
"""Comments and scripts, which are not markup; the end of the head; meta tags. Each byte is read once."""

_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_AGENT = re.compile(r"\s*([A-Za-z][\w.\-]*)\s*:(.*)", re.S | re.A)
# A name starts only after a separator, and the match is possessive: a tag may be one word of 64 KiB.
_ATTRIBUTE = re.compile(r"(?<![^\s\"'>/=])([^\s\"'>/=]++)\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
_SPACES = re.compile(r"[\s,;]+")


def find_in_headers(meta: pa.Array, wanted: Sequence[str], agent: str) -> dict[int, str]:
    """The first of the wanted directives in the `x_robots_tag` of each row that has one."""
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
    """`noindex, nofollow` is for all robots; directives after `otherbot:` are for that robot, up to the next name."""
    present: set[str] = set()
    for line in value.lower().split("\n"):
        ours = True
        for directive in line.split(","):
            named = _AGENT.match(directive)
            if named and named[1] not in _WITH_VALUE:
                ours = named[1] in (agent.lower(), "robots")
                directive = named[2]
            if ours:
                present.add(directive.strip())
    return next((directive for directive in wanted if directive.lower() in present), None)


def find_in_pages(pages: pa.Array, wanted: Sequence[str], agent: str) -> dict[int, str]:
    """The first wanted directive of each row that has one, in a meta tag for all robots or for `agent`, in the head."""
    data, offsets = bytes_of(pages)
    names, words = (b"robots", agent.lower().encode()), [directive.lower().encode() for directive in wanted]
    found: dict[int, str] = {}
    for row, (start, stop) in enumerate(pairwise(offsets.tolist())):
        head = data[start : min(stop, start + HEAD_BYTES)].tobytes().partition(b"</head>")[0]
        lowered = head.lower()
        if any(name in lowered for name in names) and any(word in lowered for word in words):
            directive = next(filter(None, (_in_tag(tag, wanted, agent) for tag in _meta_tags(head))), None)
            if directive:
                found[row] = directive
    return found


def _meta_tags(head: bytes) -> Iterator[str]:
    for part in _MARKUP.finditer(head):
        if part["end"]:
            return
        if part["meta"]:
            yield part["meta"].decode("utf-8", "replace")


def _in_tag(tag: str, wanted: Sequence[str], agent: str) -> str | None:
    attributes: dict[str, str] = {}
    for name, double, single, bare in _ATTRIBUTE.findall(tag):
        attributes.setdefault(name.lower(), html.unescape(double or single or bare))
    if attributes.get("name", "").strip().lower() not in ("robots", agent.lower()):
        return None
    present = set(_SPACES.split(attributes.get("content", "").lower()))
    return next((directive for directive in wanted if directive.lower() in present), None)
