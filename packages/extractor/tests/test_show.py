"""gristmill extractor show: every block of a page and whether it was kept, as an HTML page without active content."""

import gzip
import json
import re
from functools import partial
from html.parser import HTMLParser

import pytest

from gold_pages import PROSE, page, text_of, write_archive
from gristmill.stages.extract import extract
from gristmill.stages.extract.main_text import DEFAULT, Extractor
from gristmill.stages.ingest import warc
from gristmill_extractor.pages import InputPage, page_of_file, show

EVIL = (
    "</style></textarea></pre></div><script>alert(1)</script><img src=x onerror=alert(2)>"
    "\"'`&amp;lt;b&amp;gt; \x00 \x1b[31m \u202e javascript:alert(3)"
)


class ParsedPage(HTMLParser):
    """The elements, attributes and text that a browser would see in a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.names, self.data = [], set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.data.append(data)


@pytest.fixture
def show_page(say, tmp_path, monkeypatch):
    """Return a function that runs the command and returns its output, its page and the parsed page."""
    monkeypatch.chdir(tmp_path)

    def run_show(*words):
        done = say("extractor", "show", *words)
        assert done.code == 0, done.err
        text = (tmp_path / "extractor-show.html").read_text()
        return done, text, ParsedPage(text)

    return run_show


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "pages.warc.gz"
    pages = {f"https://mill{number}.example/": page(text_of(number)) for number in range(3)}
    ids = write_archive(path, {**pages, "https://pdf.example/": b"%PDF-1.4"})
    return path, ids


def test_every_block_has_its_score_and_kept_blocks_make_up_the_text(show_page, tmp_path):
    """Kept blocks give the text word for word; dropped blocks are not in it."""
    (tmp_path / "a.html").write_text(page(text_of(1), '<meta name=author content="A. Miller">'))
    done, text, parsed = show_page("a.html")
    result = show(page_of_file("a.html"))
    assert [block.text for block in result.blocks if not block.kept] == ["Home Contact Imprint"]
    assert "\n\n".join(block.text for block in result.blocks if block.kept) == result.text
    for kept, name in ((True, "kept"), (False, "dropped")):
        assert text.count(f'<article class="{name}">') == sum(block.kept is kept for block in result.blocks)
    (menu,) = [block for block in result.blocks if not block.kept]
    assert (menu.kind, menu.words, menu.in_links, menu.inside) == ("nav", 3, 1.0, ("nav",))
    assert menu.chance < 0.5 < min(block.chance for block in result.blocks if block.kept)
    for wanted in (f"{menu.chance:.1%}", f"expected F1 {result.promised:.1%}", "A. Miller", "A page", "3 words"):
        assert wanted in " ".join(parsed.data)
    words = len(result.text.split())
    summary = f"4 of 5 blocks kept; {words / (words + 3):.1%} of {words + 3} words; expected F1 {result.promised:.1%}"
    assert done.out == f"extractor-show.html: {summary}.\n"
    assert summary in parsed.data


@pytest.mark.parametrize("options", [(), ("--markdown",), ("--comments",)])
def test_the_page_has_no_active_content(show_page, tmp_path, options):
    """Tags, quotes, end tags, escapes and NUL in a text, title or URL are shown as text; no link works."""
    hostile = EVIL.replace("<", "&lt;").replace("\x1b", "&#27;")
    head = f'<meta name=author content="{hostile.replace(chr(34), "&quot;")}"><link rel=canonical href="javascript:x">'
    body = page(f"{PROSE} {hostile}\n{PROSE} <a href='https://evil.example/'>there</a> {PROSE}", head)
    body = body.replace("A page", hostile)
    (tmp_path / "a.html").write_text(body + "<script>alert(4)</script><textarea>alert(5)</textarea>")
    _, text, parsed = show_page("a.html", *options)
    allowed = "html head meta title style body h1 h2 p table tr th td main section article b div pre"
    assert set(parsed.tags) <= set(allowed.split())
    assert parsed.names <= {"lang", "charset", "name", "content", "http-equiv", "class", "dir"}
    assert "alert(1)" in "".join(parsed.data)  # it is shown as text
    assert "alert(4)" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    policy = re.search('Content-Security-Policy" content="([^"]+)"', text)
    assert policy[1] == "default-src 'none'; style-src 'unsafe-inline'"
    assert text.index("Content-Security-Policy") < text.index("<title>")
    assert text.count("<style>") == text.count("</style>") == 1


def test_a_page_of_an_archive_is_selected_by_record_url_or_number(show_page, archive):
    """All three options select the same page."""
    path, ids = archive
    url = "https://mill1.example/"
    texts = {show_page(path, *options)[1] for options in (("--url", url), ("--record", ids[url]), ("--number", 2))}
    assert len(texts) == 1
    assert "Number 1, line 3" in texts.pop()


def test_a_document_of_a_corpus_uses_the_settings_of_its_step(show_page, everything, routes):
    """It is selected by a part of its URL, from the recipe or from the store alone."""
    project = everything.project
    _, from_recipe, _ = show_page(project.recipe, "--url", "mill.example/asked")
    _, from_store, _ = show_page(f"{project.store}@v1", "--url", "mill.example/asked")
    assert from_recipe == from_store
    assert "How many sacks of rye" in from_recipe
    done, _, _ = show_page(routes.project.recipe, "--url", "mill.example/1")
    assert "--url mill.example/1 matches more than one document; this is the first" in done.err


def test_options_override_the_settings_of_the_step(project, say, monkeypatch, tmp_path):
    """The model and `comments` come from the step; for another tool, a note says that these are not its blocks."""
    monkeypatch.chdir(tmp_path)
    (project.folder / "own.model").write_bytes(DEFAULT.read_bytes())
    write_archive(project.folder / "in" / "a.warc.gz", {"https://mill.example/": page(text_of(1))})
    source = "{kind: web, read: {format: warc, paths: ['in/a.warc.gz']}}"
    for step in ("extract: {comments: true, model: own.model}", "extract: {tool: resiliparse}"):
        project.recipe.write_text(f"recipe: p\nstore: ./store\nsources:\n  crawl: {source}\nsteps:\n  - {step}\n")
        project.run()
        (from_recipe, from_store) = (
            json.loads(say("extractor", "show", where, "--url", "mill", "--markdown", "--json").out)
            for where in (project.recipe, f"{project.store}@p")
        )
        assert from_recipe["settings"]["markdown"] is True
        assert from_recipe["blocks"] == from_store["blocks"]
        if "own.model" in step:
            assert from_recipe["settings"]["comments"] is from_store["settings"]["comments"] is True
            assert from_recipe["settings"]["model"].endswith("own.model")
            assert from_store["settings"]["model"].startswith(str(project.store))
            assert from_recipe["notes"] == []
        else:
            (note,) = from_recipe["notes"]
            assert "has tool: resiliparse, which has no blocks" in note


def test_json_writes_a_page_only_with_out(say, tmp_path, monkeypatch):
    """The output is one object; a page without text has a reason."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.html").write_text(page(text_of(1)))
    result = json.loads(say("extractor", "show", "a.html", "--json").out)
    assert result["text"] == text_of(1).replace("\n", "\n\n")
    assert [block["kind"] for block in result["blocks"] if block["kept"]] == ["p"] * 4
    assert not (tmp_path / "extractor-show.html").exists()
    (tmp_path / "a.html").write_text("<html><body></body></html>")
    assert json.loads(say("extractor", "show", "a.html", "--json", "--out", "b.html").out)["text"] is None
    assert "dropped as no_main_content" in (tmp_path / "b.html").read_text()


def test_a_page_that_the_step_refuses_is_shown_with_the_reason():
    """A page that is too large or has too many nodes has no blocks."""
    for limit, reason in (({"max_html_bytes": 10}, "html_too_large"), ({"max_nodes": 2}, "too_many_nodes")):
        result = show(InputPage("here", None, page(text_of(1)), extract.Config(**limit)))
        assert (result.drop, result.blocks, result.promised, result.text) == (reason, (), None, None)


def test_extreme_scores_become_probabilities(monkeypatch):
    """A user's model may give any score; none overflows."""
    judged = Extractor.judged

    def wild(self, html):
        result = judged(self, html)
        result.scores[:2] = -(2**31), 2**31 - 1
        return result

    monkeypatch.setattr(Extractor, "judged", wild)
    result = show(InputPage("here", None, page(text_of(1)), extract.Config()))
    assert [block.chance for block in result.blocks[:2]] == [0.0, 1.0]


def test_only_its_own_pages_are_overwritten(say, tmp_path, monkeypatch):
    """An earlier page of the command is replaced; any other file requires --force."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.html").write_text(page(text_of(1)))
    assert say("extractor", "show", "a.html").code == 0
    (tmp_path / "a.html").write_text(page(text_of(2)))
    assert say("extractor", "show", "a.html").code == 0
    assert "Number 2" in (tmp_path / "extractor-show.html").read_text()
    before = (tmp_path / "a.html").read_text()
    done = say("extractor", "show", "a.html", "--out", "a.html")
    assert (done.code, (tmp_path / "a.html").read_text()) == (2, before)
    assert "a.html exists and is not a page of this command. Nothing was done" in done.err
    assert say("extractor", "show", "a.html", "--out", "a.html", "--force").code == 0
    assert "Number 2" in (tmp_path / "a.html").read_text()
    assert not list(tmp_path.glob(".*"))


def test_mistakes_are_one_message(say, tmp_path, archive, everything, monkeypatch):
    """The exit code is 2, and no page is written."""
    monkeypatch.chdir(tmp_path)
    path, ids = archive
    recipe = everything.project.recipe
    for name, data in (
        ("pdf.html", b"%PDF-1.4 <html>"),
        ("empty.html", b""),
        ("prose.html", PROSE.encode()),
        ("bytes.html", bytes(range(256)) * 20),
        ("page.html", page(text_of(1)).encode()),
        ("cut.html.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00"),
        ("no.model", b"nothing"),
        ("a.parquet", b"PAR1" + bytes(100) + b"<p>PAR1"),
        ("a.jsonl", b'{"html": "<p>A page</p>"}\n' * 2),
        ("a.lz4", b"\x04\x22\x4d\x18<p>"),
        ("zeros", b"GIF" + bytes(100)),
    ):
        (tmp_path / name).write_bytes(data)
    write_archive(tmp_path / "none.warc.gz", {"https://pdf.example/": b"%PDF-1.4"})
    for arguments, message in (
        (("none.html",), "none.html cannot be read: No such file or directory. Nothing was done. Check the path."),
        (("a.parquet",), "is not an HTML page but a Parquet file, so"),
        (("a.jsonl",), "is not an HTML page but JSON Lines, so"),
        (("a.lz4",), "but compressed with lz4"),
        (("zeros",), "is not an HTML page"),
        (("none.warc.gz", "--number", "1"), "It has 0 pages: name an archive with HTML responses."),
        ((tmp_path,), "is a folder, not a file"),
        (("pdf.html",), "is not an HTML page (application/pdf)"),
        (("empty.html",), "is not an HTML page (empty body)"),
        (("prose.html",), "is not an HTML page (no tag in it)"),
        (("bytes.html",), "is not an HTML page"),
        (("cut.html.gz",), "cannot be unpacked"),
        (("https://mill.example/",), "nothing is downloaded"),
        (("page.html", "--url", "x"), "--url does not apply to page.html, which is one page"),
        (("page.html", "--sample", "1%"), "only applies to recipes"),
        (("page.html", "--model", "no.model"), "no.model is not an extractor model"),
        (("page.html", "--out", "none/a.html"), "there is no folder none"),
        (("page.html", "--out", "."), "is a folder"),
        ((path,), "is a web archive, and no page of it is named"),
        ((path, "--url", "x", "--number", "1"), "more than one page is named"),
        ((path, "--id", "00"), "--id does not apply to"),
        ((path, "--number", "9"), "has no page number 9, so there is nothing to show. It has 3 pages"),
        ((path, "--record", "urn:uuid:none"), "has no record urn:uuid:none"),
        ((path, "--url", "https://pdf.example/"), "has no markup (not_text (application/pdf))"),
        ((path, "--record", ids["https://pdf.example/"]), "has no markup (not_text (application/pdf))"),
        ((recipe,), "is a corpus, and no page of it is named"),
        ((recipe, "--record", "x"), "--record does not apply to"),
        ((recipe, "--url", "nowhere.example"), "has no such document"),
        ((recipe, "--id", "xyz"), "--id xyz is not an id"),
        ((everything.project.store, "--url", "x"), "write STORE@NAME"),
    ):
        done = say("extractor", "show", *arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert message in done.err, (arguments, done.err)
        assert "Traceback" not in done.err
    assert not (tmp_path / "extractor-show.html").exists()


def test_plain_text_of_a_corpus_has_no_blocks(say, everything, tmp_path, monkeypatch):
    """The message says that notes were read as plain text."""
    monkeypatch.chdir(tmp_path)
    rows = say("inspect", everything.project.recipe, "--source", "notes", "-n", 1, "--json").out
    done = say("extractor", "show", everything.project.recipe, "--id", json.loads(rows)["doc_id"])
    assert done.code == 2
    assert "was read as plain text" in done.err


def test_archives_are_detected_by_their_first_bytes(tmp_path, archive, say, monkeypatch):
    """The file name does not matter."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.html").write_bytes(archive[0].read_bytes())
    assert say("extractor", "show", "a.html", "--number", 1).code == 0


def test_a_decompression_bomb_is_not_unpacked(say, tmp_path, monkeypatch):
    """A page may not be larger than the limit for a record."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warc, "Config", partial(warc.Config, max_record_bytes=1000))
    (tmp_path / "a.html.gz").write_bytes(gzip.compress(page(text_of(1) * 10).encode()))
    done = say("extractor", "show", "a.html.gz")
    assert done.code == 2
    assert "a.html.gz has more than 1.0 KB, too much for a page" in done.err
