# ruff: noqa: E501 (sources are clearer on one line)
"""Wikis, books, articles, office files, papers, notebooks, subtitles, posts and mails."""

import bz2
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from fuzz.target import Target, words
from fuzz.targets.packing import size
from fuzz.targets.reading import check_reader
from gristmill_formats import (
    epub,
    jats,
    latex,
    mbox,
    mediawiki,
    notebook,
    office,
    stack_exchange,
    subtitles,
)


def _check(module: ModuleType, name: str) -> Callable[[bytes, Path], None]:
    def check(data: bytes, folder: Path) -> None:
        check_reader(module, data, folder, name, max_record_bytes=1 << 16)

    return check


def _zipped(**members: str) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as file:
        for name, content in members.items():
            file.writestr(name.replace("__", "/").replace("_", "."), content)
    return sink.getvalue()


_PAGES = (
    b"<mediawiki><page><title>Mill</title><ns>0</ns><id>1</id><revision><text>'''Mill''' {{convert|5|to|6|mi}} [[a|b]]"
    b"&lt;ref&gt;x&lt;/ref&gt;&lt;math&gt;a&lt;/math&gt;\n== A ==\n* b\n{|\n! c\n|-\n| d || e\n|}</text></revision></page>"
    b'<page><title>B</title><ns>1</ns><id>2</id><redirect title="C" /><text>x</text></page></mediawiki>'
)
_XHTML = "<html><body><h1>Mill</h1><p>10<sup>6</sup></p><ul><li>a</li></ul><tr><td>b</td></tr></body></html>"
_ARTICLE = (
    b"<article><front><article-meta><title-group><article-title>M</article-title></title-group></article-meta></front>"
    b"<body><p>a<xref ref-type='bibr'>1</xref><alternatives><math><msup><mi>a</mi><mn>2</mn></msup></math><tex-math>$a$"
    b"</tex-math></alternatives></p></body></article>"
)
_PAPER = (
    rb"\documentclass{a}\newcommand{\b}[2][x]{#1#2}\title{M}\begin{document}\section{S} \b{y} $a$ \cite{k} "
    rb"\begin{equation}c\end{equation}\begin{itemize}\item d\end{itemize}\begin{tabular}{l}e & f\\ \end{tabular}\input{g}\end{document}"
)


def _books() -> Iterator[bytes]:
    package = '<package><item id="a" href="a.xhtml" media-type="text/html"/><itemref idref="a"/></package>'
    container = '<container><rootfile full-path="a.opf"/></container>'
    yield _zipped(**{"META-INF__container_xml": container, "a_opf": package, "a_xhtml": _XHTML})


def _texts() -> Iterator[bytes]:
    yield _zipped(word__document_xml="<d><p><r><t>a</t></r></p><tbl><tr><tc><p/></tc></tr></tbl></d>")
    yield _zipped(mimetype="application/vnd.oasis.opendocument.text", content_xml="<d><p>a<span>b</span></p></d>")


_XML = words(
    b"<p>|</p>|<a>|</a>|<tr>|<td>|<sup>|<math>|<mfrac>|&nbsp;|&#0;|<!DOCTYPE a [|]>|<!ENTITY a 'b'>|&a;|<![CDATA[|]]>"
)
_WIKI = words(
    b"{{|}}|[[|]]|{||\n|}|\n!|\n|-|&lt;ref&gt;|&lt;math&gt;|&lt;sup&gt;|&lt;!--|''|==|<page>|</page>|<text>|{{convert|"
)
_TEX = words(
    rb"\begin{equation}|\end{equation}|\begin{verbatim}|\def\a#1{#1\a}|\newcommand{\c}{|$|$$|{|}|%|&|\\|\a|\input{a}|\title{"
)

TARGETS = [
    Target(
        "mediawiki",
        lambda: [_PAGES, bz2.compress(_PAGES[:200]) + bz2.compress(_PAGES[200:])],
        _check(mediawiki, "a.xml.bz2"),
        _WIKI,
        size=size,
    ),
    Target("epub", _books, _check(epub, "a.epub"), _XML),
    Target("jats", lambda: [_ARTICLE], _check(jats, "a.xml"), _XML),
    Target("office", _texts, _check(office, "a.docx"), _XML),
    Target("latex", lambda: [_PAPER], _check(latex, "a.tex"), _TEX),
    Target(
        "notebook",
        lambda: [b'{"cells": [{"cell_type": "code", "source": ["a"], "outputs": [{"text": "b"}]}]}'],
        _check(notebook, "a.ipynb"),
        words(b'"|[|]|{|}|"cells"|"source"|"text"|null|```'),
    ),
    Target(
        "subtitles",
        lambda: [b"1\n00:00:01,000 --> 00:00:02,000\n<v A>b\n\n"],
        _check(subtitles, "a.srt"),
        words(b"00:00:01,000 --> 00:00:02,000\n|\n|<v |>|WEBVTT\n|{\\an8}"),
    ),
    Target(
        "stack_exchange",
        lambda: [
            b'<posts>\n<row Id="1" PostTypeId="1" Title="a" Body="b &amp; c" Tags="&lt;d&gt;" CreationDate="2020-01-01"/>\n</posts>'
        ],
        _check(stack_exchange, "Posts.xml"),
        words(b'<row |/>|\n|Id="2"|PostTypeId="2"|ParentId="1"|<comments>|&#xA;|&a;'),
    ),
    Target(
        "mbox",
        lambda: [
            b"From a 1:11\nMessage-ID: <a@b>\nSubject: =?utf-8?q?c?=\nContent-Type: multipart/mixed; boundary=d\n\n--d\n\ne\n> f\n-- \ng\n"
        ],
        _check(mbox, "a.mbox"),
        words(
            b"\n\nFrom a 1:11\n|Content-Type: text/html; charset=utf-16\n|Content-Transfer-Encoding: base64\n|--d\n|--d--\n|> |-- \n|=?b?q?c?=|\xff"
        ),
    ),
]
