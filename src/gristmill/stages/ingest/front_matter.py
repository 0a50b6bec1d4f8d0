"""Reads front matter and the first heading at the top of a text file."""

import re
from itertools import pairwise
from typing import Any

import yaml

_OPEN = re.compile(r"---[ \t]*\r?\n")
_CLOSE = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_FRONT_CHARACTERS = 1 << 16
# Aliases are not allowed in front matter: an alias (`*x`) can expand a kilobyte to gigabytes of JSON.
_FRONT_DEPTH = 32
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def split_front_matter(text: str) -> tuple[dict[Any, Any], str]:
    """The fields of YAML front matter and the text after it. `---` lines without a mapping between them are kept."""
    opening = _OPEN.match(text)
    closing = opening and _CLOSE.search(text, opening.end(), opening.end() + _FRONT_CHARACTERS)
    if not opening or not closing:
        return {}, text
    fields = _mapping(text[opening.end() : closing.start()])
    return ({}, text) if fields is None else (fields, text[closing.end() :])


def _mapping(source: str) -> dict[Any, Any] | None:
    depth = 0
    try:
        for event in yaml.parse(source, Loader=_Loader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > _FRONT_DEPTH or isinstance(event, yaml.AliasEvent):
                return None
        fields = yaml.load(source, Loader=_Loader)
        if not isinstance(fields, dict):
            return None
    # Constructors raise ValueError for dates such as 2013-99-99, TypeError for keys that are lists.
    except (yaml.YAMLError, ValueError, TypeError, OverflowError):
        return None
    return fields


_HEADING_LINES = 200
_TITLE_CHARACTERS = 300
_FENCE = re.compile(r" {0,3}(```|~~~)")
_HASHES = re.compile(r" {0,3}#{1,6}[ \t]++(.*)")
_SETEXT = re.compile(r" {0,3}(?:=+|-{2,})[ \t]*")
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*")
_ASCIIDOC = re.compile(r"={1,6}[ \t]+(.+)")
_ORG = re.compile(r"(?:#\+title:|\*+)[ \t]+(.+)", re.IGNORECASE)
_TEX = re.compile(r"[^%]*\\(?:title|chapter|section)\*?\{([^{}]+)\}.*")


def first_heading(text: str, content_type: str) -> str | None:
    """The first heading of the markup in the first 200 lines; plain text has no headings."""
    lines = [line.rstrip("\r") for line in text[: _HEADING_LINES * 200].split("\n")[:_HEADING_LINES]]
    if content_type == "text/markdown":
        found = _markdown(lines)
    elif content_type == "text/x-rst":
        found = _rst(lines)
    else:
        patterns = {"text/asciidoc": _ASCIIDOC, "text/org": _ORG, "text/x-tex": _TEX}
        pattern = patterns.get(content_type)
        matches = (pattern.fullmatch(line) for line in lines) if pattern else ()
        found = next((match[1] for match in matches if match), None)
    found = (found or "").strip()[:_TITLE_CHARACTERS]
    return found or None


def _markdown(lines: list[str]) -> str | None:
    fence = None
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if mark := _FENCE.match(line):
            fence = None if fence == mark[1] else fence or mark[1]
        elif fence is None:
            if found := _HASHES.fullmatch(line):
                title = found[1].rstrip()
                unclosed = title.rstrip("#")
                return unclosed if unclosed.endswith((" ", "\t")) else title
            if line.strip() and not line.startswith(("    ", "\t", "-", ">", "|")) and _SETEXT.fullmatch(below):
                return line
    return None


def _rst(lines: list[str]) -> str | None:
    for line, below in pairwise(lines):
        title = line.strip() and not _UNDERLINE.fullmatch(line)
        if title and _UNDERLINE.fullmatch(below) and len(below.rstrip()) >= len(line.rstrip()):
            return line
    return None
