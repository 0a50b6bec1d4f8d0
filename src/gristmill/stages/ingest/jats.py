"""Reads articles in JATS XML (PubMed Central and publishers), one document per file.

The text is title, abstract, body, and notes; the list of references and the marks of citations are left out. Formulas
are the article's TeX, or what its MathML becomes. The license is that of the article's permissions.
"""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from gristmill.schema import Record
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import spdx
from gristmill.stages.ingest.text import TreeConfig
from gristmill.stages.ingest.whole_file import one_record, tree_reader
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.fields import dump
from gristmill.stages.reading.timestamps import microseconds
from gristmill.stages.reading.xml_text import Writer
from gristmill.stages.reading.xml_tree import descendants, parse_xml, words

_BLOCKS = (
    "abstract ack app article-title attrib body boxed-text caption def def-item disp-formula disp-quote fig fn glossary"
    " p sec speech statement subtitle table-wrap table-wrap-foot term title trans-abstract verse-group verse-line"
)
_SKIPPED = (
    "ref-list object-id graphic media supplementary-material inline-graphic counts related-article kwd-group"
    " funding-group custom-meta-group permissions contrib-group processing-meta sig-block"
)
_NO_TEXT = frozenset(("label", "title", *_SKIPPED.split()))
ROLES = {
    **dict.fromkeys(_BLOCKS.split(), "block"),
    **dict.fromkeys(_SKIPPED.split(), "skip"),
    **dict.fromkeys(("td", "th", "entry"), "cell"),
    **dict.fromkeys(("preformat", "code"), "pre"),
    **{name: name for name in ("sup", "sub", "math")},
    **dict.fromkeys(("tr", "row"), "row"),
    "list": "list",
    "list-item": "item",
    "break": "break",
    "tex-math": "tex",
    "alternatives": "either",
}
_FORMULAS = ("math", "tex-math")
_LONGEST_MARK = 3
"""Characters of the mark of a note, such as `a` or `12`."""


class Config(TreeConfig):
    suffixes: tuple[str, ...] = (".nxml", ".xml", ".jats")


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `not_jats`, `invalid_xml`, `xml_entities`, `nested_too_deeply`, `too_many_elements`,
    `too_many_attributes`, and those of every file."""
    return one_record(piece, config, "application/jats+xml", _parse)


def _parse(data: bytes, record: Record, config: Config) -> None:
    root = parse_xml(data)
    article = next(descendants(root, "article"), None)
    if article is None:
        raise ReadFault("not_jats", f"the root is <{root.tag[:40]}>, and there is no <article>")
    meta = next(article.iter("article-meta"), article)
    _facts(article, meta, record)
    for note in [*article.iter("fn"), *article.iter("list-item")]:  # their marks
        for label in note.findall("label"):
            note.remove(label)
    writer = Writer(ROLES, _role)
    for part in (*meta.iter("article-title"), *meta.iter("abstract")):
        writer.add(part)
    for name in ("body", "back", "floats-group"):
        if (section := article.find(name)) is not None:
            writer.add(section)
    record.text = writer.text()


def _facts(article: Element, meta: Element, record: Record) -> None:
    record.title = words(next(meta.iter("article-title"), None)) or None
    record.language_hint = article.get("lang")
    ids = {one.get("pub-id-type", ""): words(one) for one in meta.iter("article-id")}
    if ids.get("doi"):
        record.url = f"https://doi.org/{ids['doi']}"
    licenses = [one for permitted in meta.iter("permissions") for one in permitted.iter()]
    stated = " ".join(one.get("href", "") for one in licenses) + " ".join(map(words, meta.iter("license")))
    record.license = spdx.creative_commons(stated)
    dates = [_date(one) for one in meta.iter("pub-date")]
    record.timestamp_us = min((one for one in dates if one is not None), default=None)
    journal = words(next(article.iter("journal-title"), None))
    record.meta = dump({"journal": journal, "type": article.get("article-type"), **ids})


def _date(date: Element) -> int | None:
    year, month, day = (words(date.find(name)) for name in ("year", "month", "day"))
    return microseconds("-".join([year, *([month.zfill(2), day.zfill(2)] if month and day else [])]))


def _role(element: Element) -> str | None:
    """Citations by number are left out, and sections without text, as that of supplements; alternatives are forms of a
    formula only if they contain one."""
    if element.tag in ("sec", "app") and all(one.tag in _NO_TEXT for one in element):
        return "skip"
    if element.tag == "xref":
        kind = element.get("ref-type")
        if kind in ("fn", "table-fn") and len(words(element)) <= _LONGEST_MARK:
            return "skip"
        return "cite" if kind in ("bibr", "fn", "table-fn", "aff", "corresp") else None
    if element.tag == "alternatives" and not any(True for _ in descendants(element, *_FORMULAS)):
        return "inline"
    return None


STAGE = tree_reader(5, Config, read, ("orjson",))
