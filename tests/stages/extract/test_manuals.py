"""Reference manuals in the style of each common generator: what describes the API stays, navigation does not."""

from collections.abc import Callable

import pytest
from tests.stages.extract.test_extract import one

from gristmill.stages.extract.extract import Config

VERBS = ("open", "close", "read", "write", "wait", "reset", "seek", "tell", "flush", "lock")
PARTS = ("lock", "header", "forum", "widget", "media", "share")
SAYINGS = (
    "Opens the {}.",
    "Returns the number of the {} that was opened last, or -1.",
    "Deprecated since version 3.3: use another {}.",
    "Sets the {} back.",
    "A flag of the {}.",
    "Raises an error if there is no {}.",
    "Same as above, for a {} of another thread.",
)
NAMES = [f"{part}_{verb}" for part in PARTS for verb in VERBS]
SENTENCES = [SAYINGS[n % len(SAYINGS)].format(name.split("_")[0]) for n, name in enumerate(NAMES)]
PROSE = (
    "<p>This module handles the locks of other threads, and it is used by all programs that wait for them, as long as "
    "they are written in this way. Nothing else has to be done.</p>"
)
MENU = "".join(f'<li><a href="p{n}.html">{word} pages</a></li>' for n, word in enumerate(("Locks", "Files", "Time")))
PAIRS = tuple(zip(NAMES, SENTENCES, strict=True))


def sphinx() -> str:
    entries = "".join(
        f'<dl class="py function"><dt class="sig sig-object py" id="forum.header.{name}"><span class="sig-prename '
        f'descclassname"><span class="pre">locks.</span></span><span class="sig-name descname">{name}</span><span '
        f'class="sig-paren">(</span><em class="sig-param">number</em><span class="sig-paren">)</span><a '
        f'class="headerlink" href="#locks.{name}" title="Permalink">¶</a></dt><dd><p>{text}</p></dd></dl>'
        for name, text in PAIRS
    )
    return (
        f'<div class="related" role="navigation"><h3>Navigation</h3><ul>{MENU}</ul></div><div class="document"><div '
        'class="documentwrapper"><div class="bodywrapper"><div class="body" role="main"><section '
        'id="module-locks"><span id="locks-handling"></span><h1><code class="xref py py-mod docutils literal '
        'notranslate"><span class="pre">locks</span></code> — Lock handling<a class="headerlink" '
        'href="#module-locks">¶</a></h1><dl class="py class"><dt class="sig sig-object py" '
        'id="forum.header.Media"><em class="property"><span class="pre">class</span></em><span class="sig-name '
        'descname"><span class="pre">Media</span></span><a class="headerlink" href="#l">¶</a></dt><dd>'
        f"<p>All of it.</p>{entries}</dd></dl></section></div></div>"
        f'</div><div class="sphinxsidebar" role="navigation"><div><h4>Previous topic</h4><ul>{MENU}</ul></div></div>'
        '</div><div class="footer">© Copyright 2020, The Authors. Created using a generator.</div>'
    )


def mkdocs() -> str:
    entries = "".join(f'<h3 id="{name}">{name}()</h3><p>{text}</p>' for name, text in PAIRS)
    return (
        f'<header class="md-header"><nav class="md-header__inner">Locks</nav></header><div class="md-container"><main '
        f'class="md-main"><div class="md-sidebar"><nav class="md-nav"><ul class="md-nav__list">{MENU}</ul></nav></div>'
        f'<div class="md-content"><article class="md-content__inner md-typeset"><h1 id="locks">Locks</h1>{entries}'
        f'</article></div></main><footer class="md-footer"><nav><ul>{MENU}</ul></nav></footer></div>'
    )


def javadoc() -> str:
    entries = "".join(
        f'<li><section class="detail" id="{name}(int)"><h3>{name}</h3><div class="member-signature"><span '
        f'class="modifiers">public static</span> <span class="return-type">int</span> <span class="element-name">{name}'
        f'</span>(int number)</div><div class="block">{text}</div></section></li>'
        for name, text in PAIRS
    )
    return (
        f'<div class="flex-box"><header role="banner" class="flex-header"><nav role="navigation"><div class="top-nav">'
        f'<ul class="nav-list">{MENU}</ul></div></nav></header><div class="flex-content"><main role="main"><div '
        'class="header"><div class="sub-title">Package org.locks</div><h1 class="title">Class Locks</h1></div><section '
        'class="class-description"><div class="type-signature">public class Locks extends Object</div><div '
        'class="block">Handles locks of other threads.</div></section><section class="details"><ul '
        f'class="details-list"><li><section class="method-details" id="method-detail"><h2>Method Details</h2><ul '
        f'class="member-list">{entries}'
        "</ul></section></li></ul></section></main></div></div>"
    )


def doxygen() -> str:
    entries = "".join(
        f'<h2 class="memtitle"><span class="permalink"><a href="#a1">◆&#160;</a></span>{name}()</h2><div '
        f'class="memitem"><div class="memproto"><table class="memname"><tr><td class="memname">int '
        f'{name}</td><td>(</td><td class="paramtype">int</td><td '
        f'class="paramname"><em>number</em></td><td>)</td></tr></table></div><div '
        f'class="memdoc"><p>{text}</p></div></div>'
        for name, text in PAIRS
    )
    return (
        f'<div id="top"><div id="titlearea">Locks 1.0</div><div id="main-nav"><ul>{MENU}</ul></div></div><div '
        'id="doc-content"><div class="header"><div class="headertitle"><div class="title">locks.h File Reference</div>'
        f'</div></div><div class="contents"><h2 class="groupheader">Function '
        f'Documentation</h2>{entries}</div></div><div id="nav-path" class="navpath"><ul>{MENU}</ul></div>'
    )


def texinfo() -> str:
    entries = "".join(
        f'<dl class="def"><dt id="index-{name}"><span class="category">Function: </span><span><em>int</em> <strong>'
        f"{name}</strong> <em>(int number)</em></span></dt><dd><p>{text}</p></dd></dl>"
        for name, text in PAIRS
    )
    return (
        '<div class="header"><p>Next: <a href="n.html">Files pages</a>, Up: <a href="t.html">Time pages</a> '
        '[<a href="c.html">Contents</a>]</p></div><h3 class="section">2.1 Locks</h3><p>The following functions handle '
        f"locks of other threads.</p>{entries}"
    )


def gtk_doc() -> str:
    entries = "".join(
        f'<div class="refsect2"><a name="{name}"></a><h3>{name}&#160;()</h3><pre class="programlisting"><span '
        f'class="returnvalue">int</span> {name} (<em class="parameter"><code>int '
        f"number</code></em>);</pre><p>{text}</p>"
        "</div><hr>"
        for name, text in PAIRS
    )
    return (
        f'<table class="navigation" id="top"><tr><td class="shortcuts"><a href="#d">Files pages</a></td><td><a '
        'href="i.html">Time pages</a></td></tr></table><div class="refentry"><div class="refnamediv"><h2><span '
        'class="refentrytitle">Locks</span></h2><p>Locks — handling of locks</p></div><div '
        f'class="refsect1"><h2>Functions</h2>{entries}</div></div><div class="footer"><hr>Generated by a tool</div>'
    )


def rustdoc() -> str:
    entries = "".join(
        f'<section id="method.{name}" class="method has-srclink"><div class="rightside"><a class="srclink" '
        f'href="s">source</a></div><h4 class="code-header">pub fn <a class="fnname" href="#{name}">{name}</a>(number: '
        f'usize) -> usize</h4></section><div class="docblock"><p>{text}</p></div>'
        for name, text in PAIRS
    )
    return (
        f'<nav class="sidebar"><h2 class="location">Lock</h2><div class="block"><ul>{MENU}</ul></div></nav><main><div '
        'class="width-limiter"><section id="main-content" class="content"><div class="main-heading"><h1 '
        'class="fqn">Struct locks::Lock</h1></div><div class="docblock item-decl"><pre class="rust struct"><code>pub '
        f'struct Lock {{ }}</code></pre></div><details class="top-doc"><div class="docblock"><p>Handles locks of other '
        f'threads.</p></div></details><h2 id="implementations">Implementations</h2><div '
        f'id="implementations-list">{entries}</div></section></div></main>'
    )


def docbook() -> str:
    entries = "".join(
        f'<dt><span class="term"><code '
        f'class="function">{name}</code>(<em>number</em>)</span></dt><dd><p>{text}</p></dd>'
        for name, text in PAIRS
    )
    return (
        '<div class="navheader"><table summary="Navigation header"><tr><td><a href="p.html">Files pages</a></td><td><a '
        'href="n.html">Time pages</a></td></tr></table><hr></div><div class="sect1"><div class="titlepage"><h2 '
        f'class="title">Locks</h2></div><p>The following functions handle locks of other threads.</p><div '
        f'class="variablelist"><dl class="variablelist">{entries}</dl></div></div><div class="navfooter"><hr><table '
        'summary="Navigation footer"><tr><td><a href="p.html">Files pages</a></td></tr></table></div>'
    )


def manual_page() -> str:
    entries = "".join(f'<dt id="{name}"><b>{name}</b>(<i>number</i>)</dt><dd>{text}</dd>' for name, text in PAIRS)
    return (
        '<div class="manual-text"><section class="Sh"><h1 class="Sh" id="NAME">NAME</h1><p class="Pp">locks - handle '
        f'locks of other threads</p></section><section class="Sh"><h1 class="Sh">DESCRIPTION</h1><dl '
        f'class="Bl-tag">{entries}'
        "</dl></section></div>"
    )


@pytest.mark.parametrize("prose", [0, 4, 16])
@pytest.mark.parametrize(
    "generator", [sphinx, mkdocs, javadoc, doxygen, texinfo, gtk_doc, rustdoc, docbook, manual_page]
)
def test_the_api_of_a_manual_is_kept(generator: Callable[[], str], prose: int) -> None:
    """Also after a long introduction, next to which short entries look like a menu."""
    body = generator()
    heading = next(end for end in ("</h1>", "</h2>", "</h3>") if end in body)
    body = body.replace(heading, heading + PROSE * prose, 1)
    row = one(html=f"<html><head><title>Locks — Manual 1.0</title></head><body>{body}</body></html>")
    assert [name for name in NAMES if name not in row["text"]] == []
    assert [text for text in SENTENCES if text not in row["text"]] == []
    assert "Files pages" not in row["text"]
    assert 0.6 < row["expected_f1"] <= 1


@pytest.mark.parametrize("prose", [0, 4, 16])
def test_few_entries_are_kept_between_two_tables_of_contents(prose: int) -> None:
    """As on most pages of the manual of Python; the introduction has links, as those tables have."""
    pairs = PAIRS[:8]
    term = '<a class="reference internal" href="g.html"><span class="xref std std-term">bytes-like object</span></a>'
    introduction = (
        f"<p>This module provides functions for encoding {term} to printable ASCII characters and decoding such "
        "encodings back to binary data. It provides encoding and decoding functions for the encodings specified in "
        '<a class="rfc" href="y"><strong>RFC 4648</strong></a>, which defines the algorithms.</p>'
    )
    contents = "".join(
        f'<li><a class="reference internal" href="#locks.{name}"><code>{name}()</code></a></li>' for name, _ in pairs
    )
    entries = "".join(
        f'<dl class="py method">\n<dt class="sig sig-object py" id="locks.{name}">\n<span class="sig-prename '
        f'descclassname"><span class="pre">locks.</span></span><span class="sig-name descname"><span class="pre">{name}'
        '</span></span><span class="sig-paren">(</span><em class="sig-param"><span class="n">number</span></em><span '
        f'class="sig-paren">)</span><a class="headerlink" href="#locks.{name}" title="Permalink">¶</a>'
        f"</dt>\n<dd><p>{text} {term}</p></dd></dl>\n"
        for name, text in pairs
    )
    body = (
        '<div class="mobile-nav"><nav class="menu" role="navigation"><div><h3>Table of Contents</h3><ul>'
        f'{contents}</ul></div><div><h4>Previous topic</h4><p class="topless"><a href="m">mimetypes</a></p></div><div '
        'role="note"><h3>This Page</h3><ul class="this-page-menu"><li><a href="b">Report a Bug</a></li></ul></div>'
        f'</nav></div><div class="related" role="navigation"><h3>Navigation</h3><ul>{MENU}</ul></div><div '
        'class="document"><div class="documentwrapper"><div class="bodywrapper"><div class="body" role="main"><section '
        'id="module-locks"><h1>locks<a class="headerlink" href="#m">¶</a></h1><p><strong>Source code:</strong> <a '
        f'href="x">Lib/locks.py</a></p><hr class="docutils"/>{introduction * prose}{entries}</section></div></div>'
        '</div><div class="sphinxsidebar" role="navigation"><div class="sphinxsidebarwrapper"><h3>Contents</h3>'
        f"<ul>{contents}</ul><h4>Previous topic</h4><ul>{MENU}</ul></div></div></div>"
    )
    text = one(html=f"<html><head><title>locks</title></head><body>{body}</body></html>")["text"]
    assert [name for name, _ in pairs if f"locks.{name}(number)" not in text] == []
    assert [saying for _, saying in pairs if saying not in text] == []
    assert "Report a Bug" not in text


def test_only_texts_that_the_model_chose_have_an_expected_f1() -> None:
    assert one(text="Plain text.")["expected_f1"] is None
    assert one(Config(whole=True), html="<p>Some words.")["expected_f1"] is None
    assert one(Config(tool="resiliparse"), html="<p>Some words.")["expected_f1"] is None
    assert one(html=f"<p>{PROSE}")["expected_f1"] > 0.5
