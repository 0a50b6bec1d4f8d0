"""PDF files in a corpus: from files and from web archives, with page and box in the lineage, and with takedowns."""

import json
import re

import pytest
from explored import ORIGIN, TOKEN, explored
from pdf_files import column, pdf, text
from starlette.testclient import TestClient
from tests.stages.ingest.archives import http, record

from gristmill.engine.mill import find_warnings
from gristmill.query.documents.documents import rows

URL = "https://example.com/mill.pdf"


@pytest.fixture
def corpus(project):
    """A folder of PDF files, and a web archive with another one."""
    folder = project.folder / "files"
    folder.mkdir()
    bodies = [
        pdf(column(60, 700, 6, first=100 * n)[0], [text(60, 300, f"A paper about the {name} mill.")])
        for n, name in enumerate(("upper", "lower", "new"))
    ]
    (folder / "one.pdf").write_bytes(bodies[0])
    (folder / "two.pdf").write_bytes(bodies[1])
    (project.folder / "crawl.warc").write_bytes(record(http(bodies[2], mime="application/pdf"), url=URL))
    project.recipe.write_text(
        "recipe: project\nstore: ./store\ntakedowns: requests.yaml\nsources:\n"
        "  files: {kind: text, read: {format: pdf, paths: [files]}}\n"
        "  crawl: {kind: text, read: {format: warc, paths: [crawl.warc], bodies: {pdf: {}}}}\nsteps: []\n"
    )
    (project.folder / "requests.yaml").write_text("[]\n")
    project.run()
    return project


def test_lineage_names_page_and_box_of_words_and_a_takedown_removes_by_url_and_by_file(corpus, say):
    """A PDF file is found by its words; its page and box are shown. Requests by URL and by id remove such documents."""
    output = say("lineage", corpus.recipe, "about the lower mill", "--json")
    assert output.code == 0, output.err
    [found] = map(json.loads, output.out.splitlines())
    [box] = found["page_boxes"]
    assert (found["origin"]["file"], box["page"], box["left"]) == ("two.pdf", 2, 60)
    assert box["top"] < 500 < box["bottom"]
    shown = say("lineage", corpus.recipe, "about the new mill").out
    assert "on page 2, box 60 49" in shown
    request = f"- {{id: notice, date: 2026-11-18, reason: owner, urls: ['{URL}'], doc_ids: [{found['doc_id']}]}}\n"
    (corpus.folder / "requests.yaml").write_text(request)
    kept = list(rows(corpus.run(), None, False, None))
    assert [row.fields["locator"] for row in kept] == ["one.pdf#0"]


def test_a_page_is_shown_beside_its_image_from_the_input_file(corpus, say, monkeypatch):
    """By `inspect` and in the explorer, from a folder and from a web archive; not for withheld documents."""
    monkeypatch.chdir(corpus.folder)
    output = say("inspect", corpus.recipe, "--page", "2", "--json")
    assert output.code == 0, output.err
    found = {row["locator"]: row for row in map(json.loads, output.out.splitlines())}
    assert len(found) == 3
    for name, row in zip(("upper", "lower", "new"), found.values(), strict=True):
        assert row["text"] == f"A paper about the {name} mill."
        image = (corpus.folder / row["columns"]["image"]).read_bytes()
        assert (image[:4], int.from_bytes(image[16:20])) == (b"\x89PNG", 1250)
        assert row["columns"]["image"] == f"{row['doc_id']}-page-2.png"
    one = found["one.pdf#0"]["doc_id"]
    output = say("inspect", corpus.recipe, "--id", one, "--page", "3")
    assert (output.code, "There is no page 3: the document has 2 pages." in output.err) == (2, True)
    request = f"- {{id: notice, date: 2026-11-18, reason: owner, doc_ids: [{found['two.pdf#0']['doc_id']}]}}\n"
    (corpus.folder / "requests.yaml").write_text(request)
    corpus.run()
    with explored(corpus, corpus.folder / "labels.jsonl") as site:
        client = TestClient(site.app, base_url=ORIGIN)
        client.get(f"/?token={TOKEN}")
        numbers = {
            document.doc_id: document.number for document in site.explorer.index.documents("true", [], "number", 9)
        }
        taken, kept = numbers.pop(found["two.pdf#0"]["doc_id"]), numbers[one]
        page = client.get(f"/document/{kept}?page=2").text
        assert "Page 2 of 2" in page
        assert "A paper about the upper mill." in page
        assert f'hx-get="/document/{kept}/page/2"' in page
        sheet = client.get(f"/document/{kept}/page/2").text
        assert "data:image/png;base64,iVBORw0KGgo" in sheet
        assert re.search(r'viewBox="0 0 600 800".*<rect x="60" y="49\d" width="1\d\d" height="1\d"', sheet, re.DOTALL)
        assert "Page 1" not in client.get(f"/document/{taken}").text
        assert client.get(f"/document/{taken}/page/1").status_code == 403
        (corpus.folder / "files" / "one.pdf").write_bytes(pdf([text(60, 700, "Another paper, with other words.")]))
        changed = client.get(f"/document/{kept}/page/2")
        assert (changed.status_code, "data:image" in changed.text) == (404, False)
        assert re.search(r"There is no page image: \S*one.pdf", changed.text)
        assert "run again" not in changed.text.lower()
        (corpus.folder / "files" / "one.pdf").unlink()
        assert "existed when the run began and is gone now" in client.get(f"/document/{kept}/page/2").text


def test_pages_are_shown_of_all_documents_that_have_them(corpus, say, monkeypatch):
    """A shorter file is counted, not an error. If input files have changed, the last run still has the text."""
    monkeypatch.chdir(corpus.folder)
    (corpus.folder / "files" / "two.pdf").write_bytes(pdf([text(60, 700, "A single page.")]))
    output = say("inspect", f"{corpus.store}@project", "--page", "2", "--json")
    assert (output.code, len(output.out.splitlines())) == (0, 3)
    assert output.err.count("There is no page image: page images are made from the input files") == 3
    corpus.run()
    output = say("inspect", corpus.recipe, "--page", "2", "--json")
    found = [json.loads(line) for line in output.out.splitlines()]
    assert [one["locator"] for one in found] == ["one.pdf#0", "crawl.warc#0"]
    assert all((corpus.folder / one["columns"]["image"]).exists() for one in found)
    assert "1 document has no page 2." in output.err


def test_a_cut_file_is_one_record_that_could_not_be_read(corpus):
    """Also in a web archive: no other document is lost with it."""
    cut = record(http(b"%PDF-1.4 and no more", mime="application/pdf"))
    with (corpus.folder / "crawl.warc").open("ab") as crawl:
        crawl.write(cut)
    (said,) = [one for one in find_warnings(corpus.run()) if "corrupt_pdf" in one]
    assert "1 of 2 records could not be read (corrupt_pdf 1)" in said
