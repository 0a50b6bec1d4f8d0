"""HTML pages: for any content, the result is a text or a reason, and depends on nothing but the page."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from demo.articles import Article, Block
from demo.pages import Site, render
from fuzz.target import Target, hold, words
from gristmill.kernels.html.bounds import as_words
from gristmill.stages.extract import extract
from gristmill.stages.extract.main_text import Extractor, TooManyBlocks
from gristmill.stages.shared.normalise import normalise

_PAGE = (
    "<!doctype html><html lang=en><title>The mill</title><body><nav><ul><li><a href=/>Home</a></ul></nav><article>"
    "<h1>The mill</h1><p>The <b>stones</b> turn <i>slowly</i>, and <a href=/x>the wheel</a> says <q>more</q>.<br>So."
    "<ol start=3><li>one<li>two<ul><li>three</ul></ol><pre>def f():\n    return &amp;x</pre><blockquote>a<p>b"
    "</blockquote><table><tr><th>a<th>b<tr><td>1<td>2</table><ruby>漢<rp>(</rp><rt>kan</rt></ruby>"
    '<math alttext="x"><mi>x</mi></math><math><mfrac><mi>a</mi><mn>2</mn></mfrac></math><img class=tex alt=y>'
    '<script type="math/tex; mode=display">z</script><span class=katex-html>w</span></article><div class=comments>'
    "<p>First!</div><footer hidden style='display: none'>Imprint</footer>"
)
_OPTIONS = [(comments, markdown) for comments in (False, True) for markdown in (False, True)]
_USED = {options: Extractor(None, *options) for options in _OPTIONS}


def _seeds() -> Iterator[bytes]:
    yield _PAGE.encode()
    blocks = [Block("p", "The stones turn slowly, and the wheel is the reason."), Block("h2", "Why"), Block("li", "x")]
    article = Article("mill.stones", "The stones of the mill", (*blocks, Block("pre", "turn(\n    1)"), *blocks))
    yield render(article, Site("a.example", "The mill", ["a.b", "c"]), Random(0)).encode()
    yield "<p>Mühle</p>".encode("utf-16")
    yield b"<div>" * 1000 + b"<p>\xff\xfe\x00text"


def _check(data: bytes, folder: Path) -> None:
    comments, markdown = options = _OPTIONS[zlib.adler32(data) % len(_OPTIONS)]
    _check_bytes(data, _USED[options])
    page = data.decode("utf-8", "replace")
    config = extract.Config(comments=comments, markdown=markdown)
    pages = [None, page, _PAGE, page]
    rows = extract.apply(_batch(pages), config).to_pylist()
    hold(rows[1] == rows[3], "the text of a page depends on the pages before it")
    hold(rows[1] == extract.apply(_batch(pages).slice(1, 1), config).to_pylist()[0], "it depends on its place")
    hold((rows[1]["text"] is None) == (rows[1]["drop"] is not None), "neither text nor a reason, or both")
    hold(rows[1]["text"] is None or normalise(rows[1]["text"]) == rows[1]["text"], "the text is in no plain form")


def _check_bytes(data: bytes, used: Extractor) -> None:
    """Bytes that are not text work too. `used` has extracted other pages before; a new extractor has not."""
    array, its_words = as_words(np.frombuffer(data, np.uint8))
    texts = []
    for extractor in (used, Extractor(None, used.comments, used.markdown)):
        try:
            texts.append(extractor.text(array, its_words, 0, len(data)))
        except TooManyBlocks:
            texts.append(b"")
    hold(texts[0] == texts[1], "the text of a page depends on the pages before it")


def _batch(pages: list[str | None]) -> pa.RecordBatch:
    none = pa.nulls(len(pages), pa.string())
    columns = [pa.array(pages, pa.string()) if name == "html" else none for name in extract.READS]
    return pa.RecordBatch.from_arrays(columns, names=list(extract.READS))


_WORDS = words(
    b"<div>|</div>|<p>|</p>|<b>x|</b>|<table>|<tr>|<td>|</table>|<ul>|<ol start=9>|<li>|</ul>|<blockquote>|<pre>|</pre>"
    b"|<br>|<q>|</q>|<ruby>|<rt>|</rt>|<rp>|<a href=x>|</a>|<math>|</math>|<math alttext=x>|<mjx-container>"
    b"|</mjx-container>|<annotation encoding=tex>|<span class=katex-html>|<span class=MathJax>|</span>|<svg>|</svg>"
    b"|<svg/>|<noscript>|</noscript>|<script>|</script>|<script type=math/tex>|<template>|</template>|<title>|<img "
    b"class=tex alt=x>|</img>|<input>|<h2>|<code>|<i>|<hr>|<!--|-->|<!|<|</|&|&amp|&nGt;|&#x|&#0;|&nbsp;|\xff|\xe3\x81"
    b"| class=comment| hidden| style='display:none'| x='| y=\"|/>|\0|\n|  |. "
)
TARGETS = [Target("page", _seeds, _check, _WORDS)]
