"""Reads articles in JATS XML (PubMed Central and publishers), one document per article; a file may have several.

The text is title, abstract, body, and notes; the list of references and the marks of citations are left out. Formulas
are the article's TeX, or what its MathML becomes. The license is that of the article's permissions.
"""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from gristmill.schema import Record
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import spdx
from gristmill.stages.ingest.whole_file import TreeConfig, one_record, tree_reader
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.fields import dump
from gristmill.stages.reading.timestamps import microseconds
from gristmill_formats.office_text.numerals import numeral
from gristmill_formats.xml_text import Writer
from gristmill_formats.xml_tree import descendants, parse_xml, words

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
    **{name: name for name in ("sup", "sub", "math", "table")},
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
_NUMBERED = {"order": "1", "alpha-lower": "a", "alpha-upper": "A", "roman-lower": "i", "roman-upper": "I"}
"""{type of a list: how its items are numbered}"""


_TYPE = "application/jats+xml"


class Config(TreeConfig):
    suffixes: tuple[str, ...] = (".nxml", ".xml", ".jats")


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `not_jats`, `invalid_xml`, `xml_entities`, `nested_too_deeply`, `too_many_elements`,
    `too_many_attributes`, and those of every file."""
    others: list[Element] = []

    def parse(data: bytes, record: Record, config: Config) -> None:
        root = parse_xml(data)
        articles = list(descendants(root, "article"))
        if not articles:
            raise ReadFault("not_jats", f"the root is <{root.tag[:40]}>, and there is no <article>")
        others.extend(articles[1:])
        _read(articles[0], record)

    yield from one_record(piece, config, _TYPE, parse)
    for position, article in enumerate(others, 1):
        record = Record(position, content_type=_TYPE)
        _read(article, record)
        if not record.text:
            record = Record(position, content_type=_TYPE, drop="empty_text", detail="the article has no text")
        yield record


def _read(article: Element, record: Record) -> None:
    meta = next(article.iter("article-meta"), article)
    _facts(article, meta, record)
    marks = _marks(article)
    for note in [*article.iter("fn"), *article.iter("list-item")]:  # their marks
        for label in note.findall("label"):
            note.remove(label)
    writer = Writer(ROLES, _role, marks)
    for part in (*meta.iter("article-title"), *meta.iter("abstract")):
        writer.add(part)
    for name in ("body", "back", "floats-group"):
        if (section := article.find(name)) is not None:
            writer.add(section)
    record.text = writer.text()


def _marks(article: Element) -> dict[Element, tuple[int, str]]:
    """{item of a list: its level, and its label or number}"""
    marks: dict[Element, tuple[int, str]] = {}
    remaining = [(article, -1)]
    while remaining:
        element, level = remaining.pop()
        if element.tag == "list":
            level += 1
            form = _NUMBERED.get(element.get("list-type", ""))
            for number, item in enumerate(element.findall("list-item"), 1):
                label = words(item.find("label"))
                if any(map(str.isalnum, label)):
                    marks[item] = level, label
                elif form:
                    marks[item] = level, f"{numeral(number, form)}."
        remaining += [(child, level) for child in element]
    return marks


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
            return "gone"
        return "cite" if kind in ("bibr", "fn", "table-fn", "aff", "corresp") else None
    if element.tag == "alternatives" and not any(True for _ in descendants(element, *_FORMULAS)):
        return "inline"
    return None


STAGE = tree_reader(7, Config, read, ("orjson",), "the number of the article in the file, from 0")
