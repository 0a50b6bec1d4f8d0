"""Reads books in EPUB, one document per file: the chapters in the order of the spine, then notes outside of it.

Title, language and rights are those of the package file. Tables of contents and the marks of notes are left out; the
notes stay. Of a book with a few damaged chapters, the others are read; `meta` has the number of those left out. Members
are read from the zip file in memory, by names that it lists, and never written.
"""

import posixpath
import re
from collections.abc import Iterator
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from gristmill.schema import Record
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import spdx
from gristmill.stages.ingest.whole_file import TreeConfig, one_record, tree_reader
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.fields import dump
from gristmill.stages.reading.timestamps import microseconds
from gristmill_formats.xml_text import Writer
from gristmill_formats.xml_tree import Members, descendants, parse_xml, words

_CONTAINER = "META-INF/container.xml"
_TYPES = ("application/xhtml+xml", "text/html")
_BLOCKS = (
    "address article aside blockquote body caption center dd div dl dt fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hr main p section summary details tbody thead tfoot"
)
ROLES = {
    **dict.fromkeys(_BLOCKS.split(), "block"),
    **dict.fromkeys(("head", "script", "style", "nav", "template", "svg", "audio", "video", "iframe", "rp"), "skip"),
    **dict.fromkeys(("ul", "menu", "dir"), "list"),
    **dict.fromkeys(("td", "th"), "cell"),
    **{name: name for name in ("pre", "sup", "sub", "math", "table")},
    "rt": "reading",
    "ol": "numbered",
    "li": "item",
    "tr": "row",
    "br": "break",
}
_MARKS = re.compile(
    r"\b(?:noteref|doc-noteref|headerlink|pagebreak|doc-pagebreak|backlink|doc-backlink|fn-bracket|ocn"
    r"|footnote-reference|footnote-ref|footnote-back|fn-backref|backrefs)\b"
)
_CONTENTS = {
    *("toc", "doc-toc", "toctree-wrapper", "toctree-wrapper compound", "list-of-tables", "list-of-figures"),
    *("navigation", "contentinfo"),
}
_FEWEST_LINKS = 5
_MOST_LINKED = 0.75
"""A page of a book with this share of its letters in links to pages of the book is its table of contents or index."""


class Config(TreeConfig):
    suffixes: tuple[str, ...] = (".epub",)


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `not_a_zip`, `truncated_zip`, `corrupt_zip`, `encrypted`, `missing_member`, `invalid_xml`,
    `xml_entities`, `nested_too_deeply`, `too_many_elements`, `too_many_attributes`, and those of every file."""
    return one_record(piece, config, "application/epub+zip", _parse)


def _parse(data: bytes, record: Record, config: Config) -> None:
    members = Members(data, config.max_record_bytes)
    container = min((one for one in members.names if one.endswith(f"/{_CONTAINER}")), default=_CONTAINER)
    container = _CONTAINER if _CONTAINER in members.names else container  # or the book is in a folder of the zip file
    rootfiles = descendants(parse_xml(members.read(container)), "rootfile")
    package = container.removesuffix(_CONTAINER) + next((one.get("full-path", "") for one in rootfiles), "")
    root = parse_xml(members.read(package))
    facts = {name: words(next(root.iter(name), None)) for name in ("title", "language", "rights", "date", "creator")}
    record.title, record.language_hint = facts["title"] or None, facts["language"] or None
    record.license, record.timestamp_us = spdx.creative_commons(facts["rights"]), microseconds(facts["date"])
    if facts["date"].startswith("0"):  # calibre writes the year 101 if there is no date
        record.timestamp_us = None
    items = {one.get("id"): one for one in root.iter("item")}
    listed = list(root.iter("itemref"))
    ordered = [one for one in listed if one.get("linear") != "no"] + [
        one for one in listed if one.get("linear") == "no"
    ]
    chapters = [items[one.get("idref")] for one in ordered if one.get("idref") in items]
    writer = Writer(ROLES, _role)
    used: set[str] = set()
    left_out: list[ReadFault] = []
    for chapter in chapters:
        file = unquote(chapter.get("href", "").partition("#")[0])
        name = posixpath.normpath(posixpath.join(posixpath.dirname(package), file))
        if chapter.get("media-type") not in _TYPES or "nav" in chapter.get("properties", "").split() or name in used:
            continue
        used.add(name)
        try:
            page = parse_xml(members.read(name))
            if not _is_contents(page):
                writer.add(page)
        except ReadFault as fault:
            if fault.reason == "invalid_xml" and "META-INF/encryption.xml" in members.names:
                raise ReadFault("encrypted", f"{name[:200]} is encrypted") from fault
            if fault.reason not in ("invalid_xml", "missing_member"):
                raise ReadFault(fault.reason, f"{name[:200]}: {fault.detail}") from fault
            left_out.append(fault)
            if 2 * len(left_out) > len(chapters):
                raise ReadFault(fault.reason, f"most chapters, such as {name[:200]}: {fault.detail}") from fault
    about = {name: facts[name] for name in ("creator", "rights") if facts[name]} | {"chapters": len(used)}
    record.meta = dump(about | ({"chapters_left_out": len(left_out)} if left_out else {}))
    record.text = writer.text()


def _is_contents(page: Element) -> bool:
    links = letters = linked = 0
    remaining = [(next(page.iter("body"), page), False)]
    while remaining:
        element, is_link = remaining.pop()
        if _role(element) in ("skip", "gone") or ROLES.get(element.tag) == "skip":
            continue
        if element.tag == "a" and element.get("href") and ":" not in element.get("href", ""):
            is_link = True
            links += 1
        for part in (element.text, *(child.tail for child in element)):
            size = len((part or "").strip())
            letters, linked = letters + size, linked + size * is_link
        remaining += [(child, is_link) for child in element]
    return links >= _FEWEST_LINKS and linked >= _MOST_LINKED * letters


def _role(element: Element) -> str | None:
    """What attributes say. Marks of notes, of pages and of headings are not text, nor is a table of contents."""
    if element.tag in ("div", "section"):
        return "skip" if _CONTENTS & {element.get("class"), element.get("type"), element.get("role")} else None
    if element.tag == "dt" and element.get("class") == "label":  # of a note; that of a citation has letters
        return None if any(map(str.isalpha, words(element))) else "skip"
    if element.tag not in ("a", "span", "sup", "label"):
        return None
    kinds = " ".join(element.get(name, "") for name in ("type", "role", "class"))
    return "gone" if kinds.strip() and _MARKS.search(kinds) else None


STAGE = tree_reader(6, Config, read, ("orjson",))
