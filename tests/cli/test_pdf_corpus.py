"""PDF files in a corpus: from files and from web archives, with page and box in the lineage, and with takedowns."""

import json

import pytest
from tests.stages.ingest.archives import http, record

from gristmill.query.documents.documents import rows
from pdf_files import column, pdf, text

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
        "  crawl: {kind: text, read: {format: warc, paths: [crawl.warc]}}\nsteps: []\n"
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
