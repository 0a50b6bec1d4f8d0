"""Reads text documents of word processors, .docx (Office Open XML) and .odt (OpenDocument), one document per file.

The text has paragraphs, headings, lists, tables, formulas and notes; comments and deleted text are left out. A record's
title, language and date are those of the document's properties.
"""

import posixpath
import re
from collections.abc import Iterator
from itertools import pairwise
from xml.etree.ElementTree import Element

from gristmill.schema import Record
from gristmill.stages.contract import Piece
from gristmill.stages.ingest.whole_file import TreeConfig, one_record, tree_reader
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.timestamps import microseconds
from gristmill_formats.office_text.docx_paragraphs import CONTINUED, Paragraphs
from gristmill_formats.office_text.odt_paragraphs import OdtStyles
from gristmill_formats.xml_text import Writer
from gristmill_formats.xml_tree import Members, parse_xml, words

_DOCX = "word/document.xml"
_RELATIONS = "_rels/.rels"
_ODT = "content.xml"
_DOCX_SKIPPED = (
    "instrText delText del moveFrom Fallback pPr rPr tblPr trPr tcPr sectPr footnoteReference endnoteReference"
    " commentReference"
)
_DOCX_ROLES = {
    **dict.fromkeys(_DOCX_SKIPPED.split(), "skip"),
    **dict.fromkeys(("br", "cr"), "break"),
    "tab": "tab",
    "tr": "row",
    "tc": "cell",
    "oMath": "math",
}
_ODT_SKIPPED = (
    "annotation tracked-changes note-citation sequence-decls forms automatic-styles font-face-decls scripts"
    " table-of-content illustration-index table-index object-index user-index alphabetical-index image desc title chart"
)
_ODT_ROLES = {
    **dict.fromkeys(_ODT_SKIPPED.split(), "skip"),
    **dict.fromkeys(("p", "h"), "block"),
    "s": "space",
    "tab": "tab",
    "list": "list",
    "list-item": "item",
    "table-row": "row",
    "table-cell": "cell",
    "line-break": "break",
    "note": "note",
    "math": "math",
}
_BLANKS = re.compile(r"\s+")
_CONTENTS = re.compile(
    r"(?:TOC|TM|Verzeichnis|TDC|Sommario|Inhopg|Spistreci|Index)\d|TOCHeading|TableofFigures|IndexHeading"
)
"""Styles of a table of contents or an index in Word, in some languages."""


class Config(TreeConfig):
    suffixes: tuple[str, ...] = (".docx", ".odt")


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `not_a_zip`, `truncated_zip`, `not_a_text_document`, `corrupt_zip`, `encrypted`, `invalid_xml`,
    `xml_entities`, `nested_too_deeply`, `too_many_elements`, `too_many_attributes`, and those of every file."""
    return one_record(piece, config, "application/zip", _parse)


def _parse(data: bytes, record: Record, config: Config) -> None:
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise ReadFault(
            "encrypted", "an OLE file: an old .doc, or a .docx with a password. Save it as .docx without one"
        )
    members = Members(data, config.max_record_bytes)
    if main := _main_part(members):
        record.content_type = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
        writer, title = _docx(members, main)
        facts = "docProps/core.xml"
    elif _ODT in members.names and b"opendocument.text" in members.read("mimetype"):
        record.content_type = "application/vnd.oasis.opendocument.text"
        writer, title = _odt(members)
        facts = "meta.xml"
    else:
        raise ReadFault("not_a_text_document", f"the zip file has neither {_DOCX} nor {_ODT} of a text")
    record.text, record.title = writer.text(), title or None
    if facts in members.names:
        root = parse_xml(members.read(facts))
        found = {name: words(next(root.iter(name), None)) for name in ("title", "language", "modified", "date")}
        record.title, record.language_hint = found["title"] or record.title, found["language"] or None
        record.timestamp_us = microseconds((found["modified"] or found["date"])[:19])


def _main_part(members: Members) -> str:
    """The text of a .docx: `word/document.xml`, or another member that the file states. "" for other files."""
    if _DOCX in members.names:
        return _DOCX
    stated = parse_xml(members.read(_RELATIONS)).iter("Relationship") if _RELATIONS in members.names else ()
    targets = (one.get("Target", "").lstrip("/") for one in stated if one.get("Type", "").endswith("/officeDocument"))
    return next((name for name in targets if name in members.names and name.startswith("word/")), "")


def _docx(members: Members, main: str) -> tuple[Writer, str]:
    """The text and its title. Styles and numbers say which paragraphs are headings, code and items of lists."""
    styles, numbering = (
        parse_xml(members.read(name)) if name in members.names else None
        for name in ("word/styles.xml", "word/numbering.xml")
    )
    paragraphs = Paragraphs(styles, numbering)
    roles: dict[Element, str] = {}
    marks: dict[Element, tuple[int, str]] = {}
    writer = Writer(_DOCX_ROLES, lambda element: roles.get(element) or _docx_role(element), marks)
    title = ""
    for name in (main, "word/footnotes.xml", "word/endnotes.xml"):
        if name not in members.names:
            continue
        root = parse_xml(members.read(name))
        for element in root.iter():  # only <t> has text; the rest is indentation
            element.tail = None
            if element.tag != "t":
                element.text = "\u2011" if element.tag == "noBreakHyphen" else None
        _join_drop_caps(root)
        for paragraph in root.iter("p"):
            title = title or (words(paragraph) if paragraphs.is_title(paragraph) else "")
            kind, mark = paragraphs.kind(paragraph), paragraphs.mark(paragraph)
            if kind == "heading":
                paragraph.text = f"{mark[1]} " if mark and mark[1] not in ("", "-", CONTINUED) else None
            elif mark and mark[1] and not (kind and mark[1] == CONTINUED):
                roles[paragraph], marks[paragraph] = "mark", mark
            elif kind:
                roles[paragraph] = kind
        writer.add(root)
    return writer, title


def _join_drop_caps(root: Element) -> None:
    """A large first letter is a paragraph in a frame; its text belongs to the next paragraph."""
    for parent in root.iter():
        for cap, below in pairwise([one for one in parent if one.tag == "p"]):
            if _is_drop_cap(cap) and not _is_drop_cap(below):
                for run in cap.findall("r")[::-1]:
                    cap.remove(run)
                    below.insert(1 if len(below) and below[0].tag == "pPr" else 0, run)


def _is_drop_cap(paragraph: Element) -> bool:
    frame = paragraph.find("pPr/framePr")
    return frame is not None and frame.get("dropCap") in ("drop", "margin")


def _docx_role(element: Element) -> str | None:
    """Contents and hidden text are left out; raised and lowered runs are known by their properties."""
    properties = next((one for one in element if one.tag in ("pPr", "rPr")), None)
    if element.tag == "p":
        found = properties.find("pStyle") if properties is not None else None
        style = found.get("val", "") if found is not None else ""
        if _CONTENTS.fullmatch(style):
            return "skip"
        return "mark" if style.startswith(("ListBullet", "ListNumber")) else "block"
    if element.tag == "r" and properties is not None:
        hidden = properties.find("vanish")
        if hidden is not None and hidden.get("val", "1") not in ("0", "false", "off"):
            return "skip"
        placed = properties.find("vertAlign")
        kind = placed.get("val") if placed is not None else None
        return {"superscript": "sup", "subscript": "sub"}.get(kind or "")
    if element.tag in ("footnote", "endnote"):
        return "skip" if element.get("type") else None
    return None


def _odt(members: Members) -> tuple[Writer, str]:
    """The text and its title. Styles say which text is raised, lowered or code; a formula is a member of the file."""
    root = parse_xml(members.read(_ODT))
    unused = set(members.names)  # an object has one place; in many, it would be more text than the file
    for drawn in root.iter("object"):
        name = posixpath.normpath(drawn.get("href", "") + "/content.xml")
        if name in unused:
            unused.discard(name)
            drawn.append(parse_xml(members.read(name)))
    styles = OdtStyles([root, *(parse_xml(members.read(name)) for name in ("styles.xml",) if name in members.names)])
    marks = styles.number(root)

    def role(element: Element) -> str | None:
        if styles.is_hidden(element):
            return "skip"
        if element.tag == "span":
            return styles.placed(element)
        if element.tag != "p" or not styles.is_code(element):
            return None
        for one in element.iter():  # the spaces of code are elements
            one.text, one.tail = (_BLANKS.sub(" ", text) if text else text for text in (one.text, one.tail))
        return "code"

    writer, title = (Writer(_ODT_ROLES, role, marks) for _ in range(2))
    writer.add(root)
    for paragraph in (one for one in root.iter("p") if styles.is_title(one)):
        title.add(paragraph)
    return writer, title.text().partition("\n")[0]


STAGE = tree_reader(5, Config, read)
