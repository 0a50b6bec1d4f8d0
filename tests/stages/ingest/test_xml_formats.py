# ruff: noqa: E501 (markup is clearer on one line)
"""Books, articles and office documents: their text in order, what they state about themselves, and hostile files."""

import io
import zipfile

import pytest

from gristmill.stages.contract import Piece
from gristmill.stages.ingest import epub, jats, office

CONTAINER = '<container><rootfiles><rootfile full-path="OEBPS/a.opf"/></rootfiles></container>'
PACKAGE = """<package xmlns:dc="x"><metadata><dc:title>The Mill</dc:title><dc:language>en</dc:language>
<dc:rights>http://creativecommons.org/licenses/by-sa/4.0/</dc:rights><dc:date>2020-01-02</dc:date></metadata><manifest>
<item id="two" href="2%20b.xhtml" media-type="application/xhtml+xml"/>
<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="notes" href="../notes.xhtml" media-type="application/xhtml+xml"/>
<item id="out" href="../../../etc/passwd" media-type="application/xhtml+xml"/>
<item id="one" href="1.xhtml" media-type="application/xhtml+xml"/></manifest>
<spine><itemref idref="nav"/><itemref idref="notes" linear="no"/><itemref idref="one"/><itemref idref="two"/>{}</spine>
</package>"""
ONE = """<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body><h1>One<a class="headerlink">¶</a>
</h1><p>Flour&nbsp;is <b>ground</b>.<a epub:type="noteref" xmlns:epub="y" href="n">1</a></p><ul><li>a<ol><li>b</li></ol>
</li><li><p>c</p></li></ul><table><tr><th>k</th><td><p>v</p> w</td><td/></tr></table><pre>if x:
    y</pre><p>10<sup>6</sup> H<sub>2</sub>O, 1<sup>st</sup><br/>next</p></body></html>"""
BOOK = {
    "META-INF/container.xml": CONTAINER,
    "OEBPS/a.opf": PACKAGE.format(""),
    "OEBPS/1.xhtml": ONE,
    "OEBPS/2 b.xhtml": "<html><body><p>Two</p></body></html>",
    "OEBPS/nav.xhtml": "<html><body><nav>Contents</nav></body></html>",
    "notes.xhtml": "<html><body><aside>A note.</aside></body></html>",
}
ARTICLE = """<!DOCTYPE article SYSTEM "jats.dtd"><article xmlns:xlink="x" xmlns:mml="y" xml:lang="en"><front><article-meta>
<article-id pub-id-type="doi">10.1/a</article-id><title-group><article-title>On <italic>mills</italic></article-title>
</title-group><pub-date><day>2</day><month>1</month><year>2020</year></pub-date><permissions>
<license xlink:href="https://creativecommons.org/licenses/by/4.0/"/></permissions><abstract><p>Short.</p></abstract>
</article-meta></front><body><sec><title>Intro</title><p>As [<xref ref-type="bibr">1</xref>,
<xref ref-type="bibr">2</xref>] and <xref ref-type="bibr">Smith 2005</xref> say<sup><xref ref-type="bibr">3</xref></sup>.
<inline-formula><alternatives><mml:math><mml:mi>z</mml:mi></mml:math><tex-math>\\begin{document}$x^2$\\end{document}
</tex-math></alternatives></inline-formula> <mml:math><mml:msup><mml:mi>a</mml:mi><mml:mn>2</mml:mn></mml:msup><mml:mo>=
</mml:mo><mml:mfrac><mml:mi>b</mml:mi><mml:mi>c</mml:mi></mml:mfrac></mml:math></p><table-wrap><table-wrap-foot><fn><label>a</label><p>A mark.</p></fn></table-wrap-foot></table-wrap></sec></body><back><ref-list><ref>
Old work</ref></ref-list></back></article>"""
DOCX = """<w:document xmlns:w="x" xmlns:m="y"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Mill</w:t>
</w:r></w:p><w:p><w:r><w:t>H</w:t></w:r><w:r><w:rPr><w:vertAlign w:val="subscript"/></w:rPr><w:t>2</w:t></w:r><w:r>
<w:t>O</w:t></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:footnoteReference/></w:r></w:p><w:p><w:pPr><w:pStyle w:val="TOC1"/></w:pPr><w:r><w:t>Mill 1</w:t></w:r></w:p><w:p><w:pPr>
<w:numPr/></w:pPr><w:r><w:t>item</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc>
<w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl><w:p><m:oMath><m:f><m:fPr/><m:num><m:r><m:t>1</m:t></m:r></m:num>
<m:den><m:r><m:t>x</m:t></m:r></m:den></m:f></m:oMath></w:p></w:body></w:document>"""
NOTES = '<w:footnotes xmlns:w="x"><w:footnote w:type="separator"><w:p/></w:footnote><w:footnote><w:p><w:r><w:t>A note.</w:t></w:r></w:p></w:footnote></w:footnotes>'
CORE = '<p xmlns:dc="x" xmlns:d="y"><dc:title>T</dc:title><dc:language>de</dc:language><d:modified>2020-01-02T00:00:00Z</d:modified></p>'
WORD = {"word/document.xml": DOCX, "word/footnotes.xml": NOTES, "docProps/core.xml": CORE}
OPEN = {
    "mimetype": "application/vnd.oasis.opendocument.text",
    "content.xml": """<c xmlns:t="x" xmlns:s="y" xmlns:d="z" xmlns:l="u"><s:automatic-styles><s:style s:name="T1">
<s:text-properties s:text-position="super 58%"/></s:style></s:automatic-styles><t:h>Mill</t:h><t:p>10<t:span
t:style-name="T1">6</t:span><t:note><t:note-citation>1</t:note-citation><t:note-body><t:p>A note.</t:p></t:note-body>
</t:note> sacks <d:object l:href="./Formula-1"/></t:p><t:list><t:list-item><t:p>item</t:p></t:list-item></t:list></c>""",
    "Formula-1/content.xml": "<math><mi>x</mi></math>",
}
BOMB = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;&b;">]>'
DEEP = "<a>" * 100_000


def packed(members):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return sink.getvalue()


def row(tmp_path, module, content, **config):
    path = tmp_path / "in"
    path.write_bytes(packed(content) if isinstance(content, dict) else content.encode())
    [found] = module.read(Piece(str(path), "in"), module.Config(**config))
    return found


def test_a_book_has_its_chapters_in_the_order_of_the_spine(tmp_path):
    """Without contents, marks of notes and of headings; notes outside the order come last."""
    found = row(tmp_path, epub, BOOK)
    assert found.text == (
        "One\n\nFlour is ground.\n\n- a\n  1. b\n- c\n\nk | v w | -\n\nif x:\n    y\n\n10^6 H_2O, 1st\nnext\n\nTwo\n\nA note."
    )
    assert (found.title, found.language_hint, found.license) == ("The Mill", "en", "CC-BY-SA-4.0")
    assert (found.timestamp_us, found.meta is not None and '"chapters":3' in found.meta) == (
        1_577_923_200_000_000,
        True,
    )


def test_an_article_is_title_abstract_and_body(tmp_path):
    """Citations by number and references are left out; formulas are TeX; the license is that of its address."""
    found = row(tmp_path, jats, ARTICLE)
    body = "As and Smith 2005 say. $x^2$ $a^{2} = \\frac{b}{c}$"
    assert found.text == f"On mills\n\nShort.\n\nIntro\n\n{body}\n\nA mark."
    assert (found.title, found.language_hint, found.license) == ("On mills", "en", "CC-BY-4.0")
    assert (found.url, found.timestamp_us) == ("https://doi.org/10.1/a", 1_577_923_200_000_000)


def test_what_is_left_out_leaves_no_gap(tmp_path):
    """Citations in brackets before a sign, and the brackets of notes."""
    cite = '<xref ref-type="bibr">[{}]</xref>'
    body = f"seen {cite.format(1)}, {cite.format(2)}–{cite.format(4)}. As {cite.format(5)} says {cite.format(6)}it"
    assert row(tmp_path, jats, f"<article><body><p>{body}</p></body></article>").text == "seen. As says it"
    note = '<p>a</p><aside><span><span class="fn-bracket">[</span><a role="doc-backlink">1</a><span class="fn-bracket">]</span></span><p>n</p></aside>'
    assert row(tmp_path, epub, BOOK | {"OEBPS/1.xhtml": f"<body>{note}</body>"}).text.startswith("a\n\nn\n")


@pytest.mark.parametrize(
    "changes",
    [
        {"OEBPS/1.xhtml": "<p>never closed"},
        {"OEBPS/1.xhtml": "<body/>", "OEBPS/a.opf": PACKAGE.format('<itemref idref="out"/>')},
    ],
    ids=["invalid", "outside"],
)
def test_a_damaged_chapter_is_left_out(tmp_path, changes):
    """The other chapters are read; `meta` has the number of those left out, such as one outside of the book."""
    found = row(tmp_path, epub, BOOK | changes)
    assert (found.text, '"chapters_left_out":1' in found.meta) == ("Two\n\nA note.", True)


def test_a_book_is_found_in_a_folder_and_its_contents_are_left_out(tmp_path):
    """Many zip files have the book in a folder; a chapter may be named with a place in it, and have a table of
    contents. The year 101 is calibre's for no date."""
    one = '<body><div class="toc"><p>Contents</p></div><p>One</p></body>'
    package = PACKAGE.format("").replace('href="1.xhtml"', 'href="1.xhtml#top"').replace("2020-01-02", "0101-01-01")
    book = {f"book/{name}": text for name, text in (BOOK | {"OEBPS/1.xhtml": one, "OEBPS/a.opf": package}).items()}
    found = row(tmp_path, epub, book)
    assert (found.text, found.timestamp_us) == ("One\n\nTwo\n\nA note.", None)


@pytest.mark.parametrize(
    ("members", "text", "facts"),
    [
        (WORD, "Mill\n\nH_2O\n\n- item\n\na | b\n\n$\\frac{1}{x}$\n\nA note.", ("T", "de", 1_577_923_200_000_000)),
        (OPEN, "Mill\n\n10^6 sacks $x$\n\n- item\n\nA note.", (None, None, None)),
    ],
    ids=["docx", "odt"],
)
def test_an_office_document_has_paragraphs_lists_tables_formulas_and_notes(tmp_path, members, text, facts):
    """Deleted text is left out."""
    found = row(tmp_path, office, members)
    assert (found.text, (found.title, found.language_hint, found.timestamp_us)) == (text, facts)


@pytest.mark.parametrize(
    ("module", "content", "reason"),
    [
        (epub, "words", "not_a_zip"),
        (epub, {"a": "b"}, "missing_member"),
        (epub, BOOK | {"OEBPS/1.xhtml": "<p>never", "OEBPS/2 b.xhtml": "<p>", "notes.xhtml": "<p>"}, "invalid_xml"),
        (epub, BOOK | {"OEBPS/1.xhtml": "\x01\x02", "META-INF/encryption.xml": "<e/>"}, "encrypted"),
        (epub, BOOK | {"OEBPS/1.xhtml": f"{BOMB}<a>&c;</a>"}, "xml_entities"),
        (epub, BOOK | {"OEBPS/1.xhtml": "<p>" + "x" * (1 << 20) + "</p>"}, "record_too_large"),
        (jats, DEEP, "nested_too_deeply"),
        (jats, "<html/>", "not_jats"),
        (jats, f"{BOMB}<article><body>&c;</body></article>", "xml_entities"),
        (jats, '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><article>&b;</article>', "xml_entities"),
        (jats, '<?xml version="1.0" encoding="no-such"?><article/>', "invalid_xml"),
        (jats, "<article><body/></article>", "empty_text"),
        (office, {"a": "b"}, "not_a_text_document"),
        (office, "\xd0\xcf\x11\xe0", "not_a_zip"),
        (office, WORD | {"word/document.xml": DEEP}, "nested_too_deeply"),
        (office, WORD | {"word/document.xml": " " * (1 << 20)}, "record_too_large"),
    ],
)
def test_a_hostile_file_is_a_row_with_a_reason(tmp_path, module, content, reason):
    """Entities, deep nesting, bombs and paths out of the archive; the row has no text."""
    found = row(tmp_path, module, content, max_record_bytes=500_000)
    assert (found.drop, found.text) == (reason, None)
