"""Dumps of MediaWiki: one row per page, the same rows in ranges, and the text that a reader of the page sees."""

import bz2
import gzip
from itertools import pairwise

import pytest

from gristmill.stages import NO_FAULT
from gristmill.stages.contract import Piece
from gristmill_formats import latex, mediawiki
from gristmill_formats.wiki.wikitext import MAX_DEPTH, plain_text

HEAD = (
    '<mediawiki xml:lang="de"><siteinfo><base>https://de.example.org/wiki/Hauptseite</base>'
    '<namespace key="6" case="first-letter">Datei</namespace></siteinfo>\n'
)


def page(key, text, title="The mill", namespace=0, more="", model="wikitext"):
    return (
        f"<page><title>{title}</title><ns>{namespace}</ns><id>{key}</id>{more}<revision><id>9{key}</id>"
        f"<timestamp>2016-05-01T10:00:00Z</timestamp><model>{model}</model>"
        f'<text xml:space="preserve">{text}</text></revision></page>\n'
    )


def rows(tmp_path, content, name="dump.xml", start=0, stop=None, **config):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(mediawiki.read(Piece(str(path), name, start, stop), mediawiki.Config(**config)))


def test_a_page_is_a_document(tmp_path):
    """With its address, time, language, id and namespace; the last revision counts."""
    two = page(7, "older").replace("</page>", "") + page(7, "x &amp;amp; &lt;b&gt;y&lt;/b&gt;").partition("</id>")[2]
    [found] = rows(tmp_path, HEAD + two.replace("The mill", "The old mill") + "</mediawiki>")
    assert (found.text, found.title, found.language_hint) == ("x & y", "The old mill", "de")
    assert found.url == "https://de.example.org/wiki/The_old_mill"
    assert (found.timestamp_us, found.meta) == (1_462_096_800_000_000, '{"page_id":"7","namespace":0}')


@pytest.mark.parametrize(
    ("content", "reason", "setting"),
    [
        (page(1, "x", namespace=1), "other_namespace", {"namespaces": (0, 1)}),
        (page(1, "#REDIRECT [[B]]", more='<redirect title="B" />'), "redirect", {"redirects": True}),
        (page(1, "A mill may be:\n* a\n{{Disambiguation}}"), "disambiguation_page", {"disambiguation": True}),
    ],
    ids=["talk", "redirect", "disambiguation"],
)
def test_a_setting_keeps_pages_that_are_not_articles(tmp_path, content, reason, setting):
    """They are dropped with a reason by default."""
    assert [row.drop for row in rows(tmp_path, HEAD + content)] == [reason]
    assert [row.drop for row in rows(tmp_path, HEAD + content, **setting)] == [None]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b" ", "empty_file"),
        (b"<rss>" * 9, "not_mediawiki"),
        ('<!DOCTYPE a [<!ENTITY b "c">]>' + HEAD + page(1, "x &b;"), "xml_entities"),
        ((HEAD + page(1, "x")).encode("utf-16"), "not_mediawiki"),
        (HEAD + "</mediawiki>", "empty_file"),
        (HEAD + page(1, "x", model="javascript"), "not_wikitext"),
        (HEAD + page(1, "{{box}}"), "empty_text"),
        ((HEAD + page(1, "x")).encode().replace(b">x<", b">\xff<"), "invalid_utf8"),
        (HEAD + page(1, "x" * 5000), "record_too_large"),
        (HEAD + page(1, "x")[:-20], "truncated_page"),
        (bz2.compress((HEAD + page(1, "x")).encode())[:-20], "truncated_bzip2"),
        (gzip.compress((HEAD + page(1, "x")).encode())[:-20], "truncated_gzip"),
    ],
)
def test_a_page_that_cannot_be_used_is_a_row_with_a_reason(tmp_path, content, reason):
    """The row has no text."""
    found = rows(tmp_path, content, max_record_bytes=4096)
    assert [(row.drop, row.text) for row in found][-1] == (reason, None)


def test_pages_that_are_not_articles_are_no_fault():
    """Half of a dump are redirects: a run does not warn that they could not be read. Nor of the parts of a paper."""
    assert {*mediawiki.STAGE.beside, *latex.STAGE.beside} <= NO_FAULT


def test_ranges_give_the_rows_of_the_whole_file(tmp_path):
    """A plain file, a file of many bzip2 streams, and one whose streams end within pages."""
    pages = [page(n, f"mill {n} " * 40) for n in range(12)]
    data = (HEAD + "".join(pages) + "</mediawiki>").encode()
    multistream = b"".join(
        map(bz2.compress, [HEAD.encode(), *("".join(pages[n : n + 3]).encode() for n in (0, 3, 6, 9))])
    )
    blocks = b"".join(bz2.compress(data[at : at + 501]) for at in range(0, len(data), 501))
    tag = data.index(b"<page>")
    cuts = [0, *range(tag - 1, tag + 8), len(data)]
    bytewise = b"".join(bz2.compress(data[start:stop]) for start, stop in pairwise(cuts))
    texts = [f"mill {n} " * 39 + f"mill {n}" for n in range(12)]
    for name, content in (("a.xml", data), ("a.xml.bz2", multistream), ("b.xml.bz2", blocks), ("c.bz2", bytewise)):
        whole = rows(tmp_path, content, name)
        assert [row.text for row in whole] == texts
        cuts = [0, *range(1, len(content), 97), *(row.position for row in whole), None]
        edges = sorted({cut for cut in cuts if cut is not None})
        parts = [row for start, stop in pairwise([*edges, None]) for row in rows(tmp_path, content, name, start, stop)]
        assert parts == whole


def test_a_page_inside_a_page_begins_a_page(tmp_path):
    """So every range agrees where pages begin."""
    content = HEAD + "<page>" + page(1, "mill")
    whole = rows(tmp_path, content)
    assert [row.text or row.drop for row in whole] == ["truncated_page", "mill"]
    cut = whole[1].position
    assert rows(tmp_path, content, stop=cut) + rows(tmp_path, content, start=cut) == whole


def test_damage_ends_the_page_that_it_is_in(tmp_path):
    """The pages before it are kept."""
    streams = [bz2.compress((HEAD if n == 0 else page(n, f"mill {n}")).encode()) for n in range(4)]
    streams[2] = streams[2][:30] + bytes(9) + streams[2][39:]
    found = rows(tmp_path, b"".join(streams), "a.bz2")
    assert [row.text or row.drop for row in found] == ["mill 1", "corrupt_bzip2"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("'''Flour''' is ''ground''.__NOTOC__", "Flour is ground."),
        (
            "the [[mill]], [[water mill|mills]], [[:Category:A]], [[fr:Moulin]][[Category:B]]",
            "the mill, mills, Category:A,",
        ),
        ("[[File:a.jpg|thumb|A [[mill]]]]a [http://a.example the mill] b [http://b.example]", "a the mill b"),
        ("{{convert|5|to|10|mi|km}}, {{convert|5|ft|6|in|m}}, {{cvt|3|sqmi}}", "5 to 10 mi, 5 ft 6 in, 3 sq mi"),
        (
            "{{convert|29|km|0|abbr=on}}, {{convert|1.5|to|2|m|1}}, {{convert|5|ft|6|in|0}}",
            "29 km, 1.5 to 2 m, 5 ft 6 in",
        ),
        ("{{formatnum:1234.5}} {{val|1.2|0.1|e=6|u=m}} {{frac|3|1|2}}", "1234.5 1.2 ± 0.1×10^{6} m 3 1/2"),
        ("{{lang|de|Mühle}} {{lang-fr|moulin}} {{nihongo|mill|水車|suisha}}", "Mühle moulin mill (水車, suisha)"),
        ("{{as of|2010|5|lc=y}}; {{birth date|1879|3|14|df=y}}", "as of May 2010; 14 March 1879"),
        ("a<ref name=x>{{cite web|url=[[a]]}}</ref>b<ref name=x/> c<!-- [[ -->d {{cn|{{a}}}} e", "ab cd e"),
        (
            "<math display=block>a''^2 |x| {{b}}</math> 10<sup>6</sup> 1<sup>st</sup> H<sub>2</sub>O",
            "$$a''^2 |x| {{b}}$$ 10^6 1st H_2O",
        ),
        ("<nowiki>[[a]] ''b''</nowiki> &amp;nbsp; &ndash;", "[[a]] ''b'' &nbsp; –"),
        ("* a\n** b\n# c\n: d\n; e", "- a\n  - b\n1. c\nd\ne"),
        ("# a\n## b\n## c\n#: d\n# e\nf\n# g", "1. a\n  1. b\n  2. c\nd\n2. e\nf\n1. g"),
        ("{|\n|\n#[[a]]\n#b\n| c:\n* d\n* e\n|\nf\n|}", "a; b | c: d; e | f"),
        ("''{{GGY}}'' (UK), {{bra|x}} {{BRA}} {{TOC}}", "GGY (UK), ⟨x| BRA"),
        ("{{1/3}} of {{HMS|Hood|51}} {{script/Arabic|ﷲ}} {{US patent|5}}", "1/3 of HMS Hood ﷲ U.S. Patent 5"),
        ("a\n== B ==\nc\n=== D ===\n== References ==\n{{reflist}}", "a\n\nB\n\nc"),
        ("== A ==\n=== B ===\nc", "A\n\nB\n\nc"),
        (
            '{| class="w"\n|+ Cap\n! a !! b\n|-\n| style="x" | 1 || 2\n| \n|-\n|{{!}}\nlong\n|}\nafter',
            "Cap\na | b\n1 | 2 | -\nlong\n\nafter",
        ),
        ("words (; {{audio|x}}) and ({{audio|x}}, more)", "words and (more)"),
        (
            "{{IPA-fr|x}} {{IPA|/y/}} {{IPA|m}} {{IPA|fr|n}} {{IPAc-en|f|uː}} {{respell|FOO|bar}}",
            "[x] /y/ m [n] /fuː/ FOO-bar",
        ),
        ("{{quote|text=a|author=B}} {{cquote|c|D}} {{blockquote|e}}", "a — B c — D e"),
        ("{{circa|1800|1810}} {{circa|1790}} {{sort|1|one}} {{sort|2}}", "c. 1800 – 1810 c. 1790 one 2"),
        ("{{convert|1|e6km2}} {{val|5|+2|-1}} {{val|5(2)|e=3|s=+}}", "1 million km² 5 +2 −1 5(2)×10^{3}+"),
        ("{{coord|51|30|N|0|7|W}} {{coord|1|2|display=title}}{{coord|1.5|-2}}", "51°30′N 0°7′W 1.5, -2"),
        ("{{transl|ar|ALA|a}} {{ill|B|de|lt=C}} {{zh|s=d|p=e}}", "a C simplified Chinese: d; pinyin: e"),
        ("{{date|3|mars|2001}} {{s|XIX|e}} {{XVe siècle}}", "3 mars 2001 XIXe siècle XVe siècle"),
        ("See {{cite book|last=Cox|year=2006|title=A}}.\n* {{cite book|title=B}}", 'See Cox, "A" (2006).'),
        ("l'''Odyssée''; '''b'''\nl'''ami''' d", "l'Odyssée; b\nlami d"),
        ("-{zh-hans:a;zh-hant:b}- -{T|zh-hans:c}--{d}- {{{1|e}}}", "a d e"),
        ("<math chem>H2O</math> {{chem2|C6H12O6}}", "$\\ce{H2O}$ C_{6}H_{12}O_{6}"),
        ("__KEIN_INHALTSVERZEICHNIS____NOTOC__ __init__ [[Datei:a.png|b]]", "__init__"),
        ('{|\n|colspan="5"\n|bgcolor=w colspan="3" {{tmain}}N/A\n|a=b\n|}', "- | N/A | a=b"),
        ("{{OldStyleDate|February 2|1905|January 20}} {{Carbon}}<sub>2</sub>", "February 2, 1905 C_2"),
        ("never {{closed and [[open", "never closed and open"),
        ("a }} b ]] c", "a  b  c"),
    ],
)
def test_wikitext_becomes_the_text_that_is_seen(source, text):
    """Templates that carry text are written out, tables become rows, references are cut."""
    assert plain_text(source) == text


@pytest.mark.parametrize("word", ["REDIRECT", "WEITERLEITUNG", "redirection", "ПЕРЕНАПРАВЛЕНИЕ", "重定向"])
def test_a_redirect_is_known_by_its_first_word(tmp_path, word):
    """In dumps without <redirect>, in every language; a list that begins with a link is not one."""
    found = rows(tmp_path, HEAD + page(1, f"#{word} [[B]]") + page(2, "#[[B]]\n#mill [[C]]"))
    assert [row.drop for row in found] == ["redirect", None]


def test_references_to_characters_are_wikitext(tmp_path):
    """Other programs write '' as &#39;&#39; in XML; of MediaWiki, &amp;#91; is a character that the page shows."""
    [found] = rows(tmp_path, HEAD + page(1, "&#39;&#39;a&apos;&#x27; &#91;[b&#93;] &amp;#91;&amp;#91;c]] &#0;&#xD800;"))
    assert found.text == "a b [[c ?"


def test_nested_templates_are_bounded():
    """A thousand of them inside each other leave no braces; the work stays linear (tests/laws/attacks.py)."""
    assert plain_text("{{small|" * MAX_DEPTH + "x" + "}}" * MAX_DEPTH) == "x"
    assert "{" not in plain_text("{{small|" * 1000 + "x" + "}}" * 1000)
