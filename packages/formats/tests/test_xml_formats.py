# ruff: noqa: E501 (markup is clearer on one line)
"""Books, articles and office documents: their text in order, what they state about themselves, and hostile files."""

import io
import zipfile

import pytest

from gristmill.stages.contract import Piece
from gristmill_formats import epub, jats, office
from gristmill_formats.xml_tree import parse_xml

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
<w:numPr><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>item</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc>
<w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl><w:p><m:oMath><m:f><m:fPr/><m:num><m:r><m:t>1</m:t></m:r></m:num>
<m:den><m:r><m:t>x</m:t></m:r></m:den></m:f></m:oMath></w:p></w:body></w:document>"""
NOTES = '<w:footnotes xmlns:w="x"><w:footnote w:type="separator"><w:p/></w:footnote><w:footnote><w:p><w:r><w:t>A note.</w:t></w:r></w:p></w:footnote></w:footnotes>'
CORE = '<p xmlns:dc="x" xmlns:d="y"><dc:title>T</dc:title><dc:language>de</dc:language><d:modified>2020-01-02T00:00:00Z</d:modified></p>'
LEVEL = '<w:lvl w:ilvl="{}"><w:start w:val="{}"/><w:numFmt w:val="{}"/><w:lvlText w:val="{}"/></w:lvl>'
NUMBERING = f"""<w:numbering xmlns:w="x"><w:abstractNum w:abstractNumId="1">{LEVEL.format(0, 1, "bullet", "•")}</w:abstractNum>
<w:abstractNum w:abstractNumId="2">{LEVEL.format(0, 3, "decimal", "%1.")}{LEVEL.format(1, 1, "lowerLetter", "%1.%2)")}
{LEVEL.format(2, 1, "upperRoman", "(%3)")}</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>
<w:num w:numId="2"><w:abstractNumId w:val="2"/></w:num><w:num w:numId="3"><w:abstractNumId w:val="2"/>
<w:lvlOverride w:ilvl="0"><w:startOverride w:val="9"/></w:lvlOverride></w:num></w:numbering>"""
WORD = {
    "word/numbering.xml": NUMBERING,
    "word/document.xml": DOCX,
    "word/footnotes.xml": NOTES,
    "docProps/core.xml": CORE,
}
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
DECLARED = " ".join(f'a{number} CDATA "x"' for number in range(1001))


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
    body = "As and Smith 2005 say. $x^2$ $a^2=\\frac{b}{c}$"
    assert found.text == f"On mills\n\nShort.\n\nIntro\n\n{body}\n\nA mark."
    assert (found.title, found.language_hint, found.license) == ("On mills", "en", "CC-BY-4.0")
    assert (found.url, found.timestamp_us) == ("https://doi.org/10.1/a", 1_577_923_200_000_000)


def test_an_article_has_no_marks_of_notes_and_all_cells(tmp_path):
    """Marks that are letters, and tables of the OASIS model."""
    table = "<oasis:row><oasis:entry>a</oasis:entry><oasis:entry>b</oasis:entry></oasis:row>"
    body = f'<p>years<xref ref-type="fn">c</xref>, <xref ref-type="fn">see note</xref></p>{table}'
    article = f'<article xmlns:oasis="o"><body>{body}</body></article>'
    assert row(tmp_path, jats, article).text == "years, see note\n\na | b"


def test_an_object_in_many_places_is_read_once(tmp_path):
    """Text does not grow beyond the file; a box with text in a picture is read."""
    many = '<c xmlns:l="u"><p>' + '<object l:href="Formula-1"/>' * 100 + "</p></c>"
    assert row(tmp_path, office, OPEN | {"content.xml": many}).text == "$x$"
    box = f"<w:p><w:r><graphicData><txbxContent>{paragraph('box')}</txbxContent></graphicData></w:r></w:p>"
    assert row(tmp_path, office, in_word(box)).text == "box"


def test_what_is_left_out_leaves_no_gap(tmp_path):
    """Citations in brackets before a sign, and the brackets of notes."""
    cite = '<xref ref-type="bibr">[{}]</xref>'
    body = f"seen {cite.format(1)}, {cite.format(2)}–{cite.format(4)}. As {cite.format(5)} says {cite.format(6)}it"
    empty = (
        "<sec><label>2</label><title>Supplement</title><supplementary-material><p>x</p></supplementary-material></sec>"
    )
    assert row(tmp_path, jats, f"<article><body><p>{body}</p>{empty}</body></article>").text == "seen. As says it"
    note = '<p>a</p><aside><span><span class="fn-bracket">[</span><a role="doc-backlink">1</a><span class="fn-bracket">]</span></span><p>n</p></aside>'
    assert row(tmp_path, epub, BOOK | {"OEBPS/1.xhtml": f"<body>{note}</body>"}).text.startswith("a\n\nn\n")


def test_items_of_an_article_have_their_numbers_and_tables_are_apart(tmp_path):
    """Labels are marks, unless they are bullets; of notes, nothing is left."""
    item = "<list-item>{}<p>{}</p></list-item>".format
    inner = f'<list list-type="alpha-lower">{item("", "b")}</list>'
    lists = (
        f'<list list-type="order">{item("", f"a{inner}")}{item("", "c")}</list><list>{item("<label>(i)</label>", "d")}'
    )
    lists += item("<label>•</label>", "e") + "</list>"
    table = "<table><tr><td>k</td><td>v</td></tr></table>"
    note = 'A note<xref ref-type="fn"><sup>1</sup></xref> <xref ref-type="fn">2</xref>.'
    body = f"<p>{note}</p>{lists}<table-wrap>{table}</table-wrap><table-wrap>{table}</table-wrap>"
    assert row(tmp_path, jats, f"<article><body>{body}</body></article>").text == (
        "A note.\n\n1. a\n  a. b\n2. c\n(i) d\n- e\n\nk | v\n\nk | v"
    )


def test_a_file_of_articles_has_a_row_for_each(tmp_path):
    """As PubMed Central sends several articles."""
    path = tmp_path / "in"
    path.write_text(
        f"<pmc-articleset>{ARTICLE[ARTICLE.index('<article') :]}<article/><article><body><p>b</p></body></article></pmc-articleset>"
    )
    found = list(jats.read(Piece(str(path), "in"), jats.Config()))
    assert [(one.position, one.title, one.drop) for one in found] == [
        (0, "On mills", None),
        (1, None, "empty_text"),
        (2, None, None),
    ]


def test_pages_of_links_and_navigation_are_not_text_of_a_book(tmp_path):
    """Tables of contents and indexes are mostly links to pages of the book; lists of addresses stay."""
    links = "".join(f'<li><a href="{place}{number}">The mill</a></li>' for number in range(6) for place in ("{}",))
    page = "<body><h1>C</h1><ul>{}</ul></body>".format
    assert row(tmp_path, epub, BOOK | {"OEBPS/1.xhtml": page(links.format(*["1.xhtml#"] * 6))}).text == "Two\n\nA note."
    kept = row(tmp_path, epub, BOOK | {"OEBPS/1.xhtml": page(links.format(*["http://a.example/"] * 6))})
    assert kept.text.startswith("C\n\n- The mill\n")
    parts = (
        '<div role="navigation">next</div><ol start="4"><li>Fig\xadure <ruby>漢<rp>(</rp><rt>かん</rt></ruby></li></ol>'
    )
    parts += '<label class="ocn">7</label><table><tr><td>a</td></tr></table><table><tr><td>b</td></tr></table>'
    found = row(tmp_path, epub, BOOK | {"OEBPS/1.xhtml": f"<body>{parts}<div role='contentinfo'>x</div></body>"})
    assert found.text == "4. Figure 漢(かん)\n\na\n\nb\n\nTwo\n\nA note."


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


def test_marks_of_notes_that_sphinx_writes_are_left_out(tmp_path):
    """Docutils before and after 0.18; the label of a citation has letters and stays."""
    page = (
        '<p>Flour <a class="footnote-reference brackets" href="#a">1</a>. Bran <a class="footnote-reference">2</a> too.</p>'
        '<dl class="footnote brackets"><dt class="label"><span class="brackets"><a class="fn-backref">1</a></span></dt>'
        '<dd><p>White.</p></dd><dt class="label"><span class="brackets">2</span><span class="fn-backref">(<a>1</a>,<a>2</a>)'
        "</span></dt><dd><p>Brown.</p></dd></dl>"
        '<aside class="footnote"><span class="label"><span class="fn-bracket">[</span><a role="doc-backlink">3</a>'
        '<span class="fn-bracket">]</span></span><span class="backrefs">(<a>1</a>)</span><p>Rye.</p></aside>'
        '<dl class="citation"><dt class="label"><span class="brackets">Knuth84</span></dt><dd><p>A book.</p></dd></dl>'
    )
    book = BOOK | {"OEBPS/1.xhtml": f"<html><body>{page}</body></html>", "notes.xhtml": "<html/>"}
    assert row(tmp_path, epub, book).text == (
        "Flour. Bran too.\n\nWhite.\n\nBrown.\n\nRye.\n\nKnuth84\n\nA book.\n\nTwo"
    )


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("mc<sup>2</sup>7000", "mc^{2}7000"),
        ("<i>mc<sup>2</sup></i>7000", "mc^{2}7000"),
        ("mc<sup>2</sup><i>7000</i>", "mc^{2}7000"),
        ("x<sub>i</sub>y H<sub>2</sub>O", "x_{i}y H_2O"),
        ("10<sup>6</sup>, 10<sup>6</sup> g 10<sup>12</sup>3", "10^6, 10^6 g 10^{12}3"),
    ],
)
def test_raised_text_is_apart_from_the_word_or_number_after_it(tmp_path, markup, text):
    """mc^27000 would be another number."""
    assert row(tmp_path, jats, f"<article><body><p>{markup}</p></body></article>").text == text


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


def paragraph(text, level=None, number=2, style=None, run=""):
    stated = f'<w:pStyle w:val="{style}"/>' if style else ""
    stated += f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>' if level is not None else ""
    return f'<w:p><w:pPr>{stated}</w:pPr><w:r><w:rPr>{run}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def in_word(*paragraphs):
    return {
        "word/document.xml": f'<w:document xmlns:w="x">{"".join(paragraphs)}</w:document>',
        "word/numbering.xml": NUMBERING,
        "word/styles.xml": STYLES,
    }


STYLES = """<w:styles xmlns:w="x"><w:style w:styleId="Listing"><w:name w:val="Source Code"/><w:basedOn w:val="Circle"/></w:style>
<w:style w:styleId="Circle"><w:basedOn w:val="Listing"/></w:style><w:style w:styleId="Title1"><w:pPr><w:outlineLvl w:val="0"/>
<w:numPr><w:numId w:val="2"/></w:numPr></w:pPr></w:style></w:styles>"""


def test_items_and_headings_of_word_have_their_numbers(tmp_path):
    """Levels, forms, restarts of inner levels, a list that goes on after a paragraph, and one that states its start."""
    items = [("a", 0), ("b", 1), ("c", 2), ("d", 1), ("e", 0), ("f", 1)]
    found = row(
        tmp_path,
        office,
        in_word(
            *(paragraph(*one) for one in items),
            paragraph("x"),
            paragraph("g", 0),
            paragraph("h", 0, 3),
            paragraph("i", 0, 3),
            paragraph("j", 0, 1),
            paragraph("k", style="Title1"),
        ),
    )
    assert found.text == "3. a\n  3.a) b\n    (I) c\n  3.b) d\n4. e\n  4.a) f\n\nx\n\n5. g\n9. h\n10. i\n- j\n\n11. k"


OPEN_LISTS = """<c xmlns:t="x" xmlns:s="y"><s:automatic-styles><t:list-style s:name="L"><t:list-level-style-number t:level="1"
s:num-format="1" s:num-suffix="."/><t:list-level-style-number t:level="2" s:num-format="a" s:num-prefix="(" s:num-suffix=")"
t:display-levels="2"/></t:list-style><s:style s:name="P1" s:parent-style-name="Preformatted_20_Text"/></s:automatic-styles>
<t:list t:style-name="L"><t:list-header><t:p>head</t:p></t:list-header><t:list-item><t:p>a</t:p><t:list><t:list-item><t:p>b</t:p>
</t:list-item></t:list></t:list-item><t:list-item t:start-value="7"><t:p>c</t:p></t:list-item></t:list><t:p>x</t:p><t:list
t:style-name="L" t:continue-numbering="true"><t:list-item><t:p>d</t:p></t:list-item></t:list><t:list t:style-name="L"><t:list-item>
<t:h>e</t:h></t:list-item></t:list><t:p t:style-name="P1">if<t:s/>x:</t:p><t:p t:style-name="P1"><t:s t:c="4"/>y
 =<t:tab/>1</t:p></c>"""


def test_items_and_headings_of_an_open_document_have_their_numbers_and_code_its_spaces(tmp_path):
    """Numbers of outer levels, stated values, lists that continue; a style that inherits from that of code."""
    found = row(tmp_path, office, OPEN | {"content.xml": OPEN_LISTS})
    assert found.text == "head\n1. a\n  (1.a) b\n7. c\n\nx\n\n8. d\n\n1. e\n\nif x:\n    y =\t1"


BLANK = """<w:numbering xmlns:w="x"><w:abstractNum w:abstractNumId="8"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/><w:lvlText w:val=" "/>
</w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/><w:lvlText w:val=""/><w:lvlPicBulletId w:val="0"/></w:lvl></w:abstractNum>
<w:num w:numId="9"><w:abstractNumId w:val="8"/></w:num>"""


def test_a_paragraph_with_a_blank_bullet_continues_its_item(tmp_path):
    """A picture is a bullet; code below an item is code."""
    code = paragraph("if  x", 0, 9, run='<w:rFonts w:ascii="Courier New"/>')
    members = in_word(paragraph("a", 0, 2), paragraph("b", 0, 9), paragraph("c", 1, 9), paragraph("d", 0, 2), code)
    members["word/numbering.xml"] = NUMBERING.replace('<w:numbering xmlns:w="x">', BLANK)
    assert row(tmp_path, office, members).text == "3. a\n  b\n  - c\n4. d\n\nif  x"


OPEN_PLACED = """<c xmlns:t="x" xmlns:s="y"><s:automatic-styles><s:style s:name="T1" s:parent-style-name="T0"/><s:style s:name="T0">
<s:text-properties s:text-position="33% 80%"/></s:style><s:style s:name="T2"><s:text-properties s:text-position="-8.5% 80%"/></s:style>
<s:style s:name="T3"><s:text-properties s:text-position="0% 100%"/></s:style></s:automatic-styles><t:p>10<t:span t:style-name="T1">-6
</t:span> H<t:span t:style-name="T2">2</t:span>O x<t:span t:style-name="T3">3</t:span> mc<t:span
t:style-name="T1">2</t:span>7000</t:p><t:table><t:table-row><t:table-cell>
<t:p>a</t:p><t:p>b</t:p></t:table-cell><t:table-cell><t:list><t:list-item><t:p>c</t:p></t:list-item><t:list-item><t:p>d</t:p>
</t:list-item></t:list></t:table-cell></t:table-row></t:table></c>"""


def test_an_open_document_has_raised_text_by_its_height_and_rows_of_one_line(tmp_path):
    found = row(tmp_path, office, OPEN | {"content.xml": OPEN_PLACED})
    assert found.text == "10^{-6} H_2O x3 mc^{2}7000\n\na b | c d"


STATED = (
    """<Relationships><Relationship Type="http://x/officeDocument" Target="/word/document2.xml"/></Relationships>"""
)
CAP = '<w:p><w:pPr><w:framePr w:dropCap="drop"/></w:pPr><w:r><w:t>O</w:t></w:r></w:p>'
TITLE = '<w:style w:styleId="Titel"><w:name w:val="Title"/></w:style>'


def test_a_word_document_has_one_text_wherever_it_is(tmp_path):
    """Its main part may have another name; a drop cap is part of its paragraph; the title may only be in the text;
    an index is left out, as contents are."""
    members = in_word(
        paragraph("Mills", style="Titel"), CAP, CAP, paragraph("nce"), CAP, paragraph("mill, 1", style="Index1")
    )
    members |= {"_rels/.rels": STATED, "word/document2.xml": members.pop("word/document.xml")}
    members["word/styles.xml"] = STYLES.replace("</w:styles>", f"{TITLE}</w:styles>")
    found = row(tmp_path, office, members)
    assert (found.title, found.text) == ("Mills", "Mills\n\nO\n\nOnce")
    assert row(tmp_path, office, members | {"_rels/.rels": STATED.replace("2", "3")}).drop == "not_a_text_document"


OPEN_HIDDEN = """<c xmlns:t="x" xmlns:s="y"><s:automatic-styles><s:style s:name="T1"><s:text-properties t:display="none"/>
</s:style><s:style s:name="P1" s:parent-style-name="T1"/><s:style s:name="P2" s:parent-style-name="Title"/></s:automatic-styles>
<t:p t:style-name="P1">a</t:p><t:p t:style-name="P2">Mills<t:span t:style-name="T1">b</t:span></t:p><t:section t:display="none">
<t:p>c</t:p></t:section><t:p>x<t:hidden-text t:is-hidden="true">d</t:hidden-text></t:p><t:illustration-index><t:p>e</t:p>
</t:illustration-index><chart><table-row><table-cell><t:p>1</t:p></table-cell></table-row></chart></c>"""


def test_an_open_document_has_what_is_shown(tmp_path):
    """Hidden text, indexes and the numbers behind a chart are left out; the title may only be in the text."""
    found = row(tmp_path, office, OPEN | {"content.xml": OPEN_HIDDEN})
    assert (found.title, found.text) == ("Mills", "Mills\n\nx")


def test_code_of_word_keeps_its_spaces_and_lines(tmp_path):
    """Code is known by the name of its style, also through others, which may form a circle, or by its font."""
    mono = '<w:rFonts w:ascii="Courier New"/>'
    code = [
        paragraph("if x:", style="Listing"),
        paragraph("    y</w:t><w:br/><w:tab/><w:t>z", run=mono),
        paragraph("", style="Listing"),
        paragraph("end  if", run=mono),
    ]
    found = row(tmp_path, office, in_word(paragraph("a   b"), *code, paragraph("c")))
    assert found.text == "a b\n\nif x:\n    y\n\tz\n\nend  if\n\nc"


R = "<r><t>{}</t></r>"
N = '<r><rPr><sty val="p"/></rPr><t>{}</t></r>'


def omml(name, properties="", **arguments):
    inside = "".join(
        f"<{kind}>{R.format(text) if len(text) < 4 else text}</{kind}>" for kind, text in arguments.items()
    )
    return f"<{name}><{name}Pr>{properties}</{name}Pr>{inside}</{name}>"


@pytest.mark.parametrize(
    ("formula", "tex"),
    [
        (omml("nary", sub="0", sup="1", e="x"), r"\int_0^1x"),
        (omml("nary", '<chr val="∏"/><limLoc val="undOvr"/><supHide val="1"/>', sub="k", sup="", e="x"), r"\prod_kx"),
        (
            omml(
                "d", '<begChr val="["/><endChr val=")"/><sepChr val=";"/>', e=f"{R.format('a')}</e><e>{R.format('b')}"
            ),
            "[a;b)",
        ),
        (omml("d", e=omml("f", '<type val="noBar"/>', num="n", den="k")), r"\binom{n}{k}"),
        (omml("f", '<type val="lin"/>', num="a", den="b") + omml("f", '<type val="skw"/>', num="c", den="d"), "a/bc/d"),
        (
            omml("d", e="<m><mr><e/><e><r><t>1</t></r></e></mr><mr><e><r><t>2</t></r></e><e/></mr></m>"),
            r"\begin{pmatrix}&1\\2&\end{pmatrix}",
        ),
        (omml("bar", '<pos val="top"/>', e="ab") + omml("bar", e="c"), r"\overline{ab}\underline{c}"),
        (omml("acc", e="x") + omml("acc", '<chr val="⃗"/>', e="AB"), r"\hat{x}\overrightarrow{AB}"),
        (omml("groupChr", e="x") + omml("groupChr", '<chr val="→"/>', e="f"), r"\underbrace{x}\xrightarrow{f}"),
        (omml("limLow", e=N.format("max"), lim="x") + omml("limUpp", e="=", lim="def"), r"\max_x\overset{def}{=}"),
        (
            omml("eqArr", e=f"{R.format('a&amp;=b')}</e><e>{R.format('c')}"),
            r"\begin{aligned}a&=b\\c\end{aligned}",
        ),
        (
            omml("func", fName=N.format("sin"), e="x") + omml("func", fName=N.format("foo"), e="y"),
            r"\sin x\operatorname{foo}y",
        ),
        (omml("rad", '<degHide val="1"/>', deg="", e="x") + omml("rad", deg="3", e="y"), r"\sqrt{x}\sqrt[3]{y}"),
        (omml("sPre", sub="2", sup="", e="F") + omml("sSubSup", e="x", sub="i", sup="2"), "{}_2Fx_i^2"),
        ("<r><rPr><nor/></rPr><t>if so </t></r>" + R.format("𝑥≤ℝ2.5𝐁"), r"\text{if so}x\leq\mathbb{R}2.5\mathbf{B}"),
        (
            '<r><rPr><scr val="fraktur"/></rPr><t>g</t></r>' + N.format("kg") + R.format("ab"),
            r"\mathfrak{g}\operatorname{kg}ab",
        ),
        (R.format("a,\u2001\u2001b"), r"a,\qquad b"),
        (omml("borderBox", e="x") + omml("phant", '<show val="0"/>', e="y") + omml("box", e="z"), r"\boxed{x}z"),
    ],
)
def test_formulas_of_word_are_exact(tmp_path, formula, tex):
    """Signs, bounds, fences, tables, accents, functions and alphabets."""
    members = in_word(f"<w:p><oMath>{formula}</oMath><w:r><w:t>.</w:t></w:r></w:p>")
    assert row(tmp_path, office, members).text == f"${tex}$."


@pytest.mark.parametrize("module", [epub, jats, office])
def test_mathml_is_that_of_extract(tmp_path, module):
    """A binomial is no fraction, and a matrix keeps its rows."""
    binomial = '<mo>(</mo><mfrac linethickness="0"><mi>n</mi><mi>k</mi></mfrac><mo>)</mo>'
    formula = f"<math><mrow>{binomial}</mrow></math>"
    content = {
        epub: BOOK | {"OEBPS/1.xhtml": f"<body><p>{formula}</p></body>"},
        jats: f"<article><body><p>{formula}</p></body></article>",
        office: OPEN | {"Formula-1/content.xml": formula},
    }[module]
    assert r"$\binom{n}{k}$" in row(tmp_path, module, content).text


@pytest.mark.parametrize(("module", "members"), [(epub, BOOK), (office, WORD)])
@pytest.mark.parametrize("size", [4, 100, -1])
def test_a_file_that_is_cut_says_so(tmp_path, module, members, size):
    """A zip file has its list of members at the end; without it, it is not another kind of file."""
    (tmp_path / "cut").write_bytes(packed(members)[:size])
    [found] = module.read(Piece(str(tmp_path / "cut"), "cut"), module.Config())
    assert (found.drop, found.text) == ("truncated_zip", None)


@pytest.mark.parametrize(
    ("module", "content", "reason"),
    [
        (epub, "words", "not_a_zip"),
        (office, "%PDF-1.5", "not_a_zip"),
        (epub, {"a": "b"}, "missing_member"),
        (epub, BOOK | {"OEBPS/1.xhtml": "<p>never", "OEBPS/2 b.xhtml": "<p>", "notes.xhtml": "<p>"}, "invalid_xml"),
        (epub, BOOK | {"OEBPS/1.xhtml": "\x01\x02", "META-INF/encryption.xml": "<e/>"}, "encrypted"),
        (epub, BOOK | {"OEBPS/1.xhtml": f"{BOMB}<a>&c;</a>"}, "xml_entities"),
        (epub, BOOK | {"OEBPS/1.xhtml": "<p>" + "x" * (1 << 20) + "</p>"}, "record_too_large"),
        (jats, DEEP, "nested_too_deeply"),
        (jats, "<html/>", "not_jats"),
        (jats, f"{BOMB}<article><body>&c;</body></article>", "xml_entities"),
        (jats, '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><article>&b;</article>', "xml_entities"),
        (jats, f"<!DOCTYPE a [<!ATTLIST p {DECLARED}>]><article/>", "too_many_attributes"),
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


def test_a_declared_default_is_not_repeated_for_each_element():
    """The memory of a document does not grow with the product of its elements and a default value."""
    document = f"<!DOCTYPE a [<!ATTLIST p b CDATA '{'x' * 1000}'>]><a>{'<p/>' * 100}<p b='y'/></a>"
    assert [one.get("b") for one in parse_xml(document.encode())] == [None] * 100 + ["y"]
