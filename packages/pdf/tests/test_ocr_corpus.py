"""Scanned PDF files in a corpus: their page images reach the engine, and its text reaches the corpus."""

import base64
import json
import sys
from io import BytesIO

import pypdfium2
import pytest
from model_server import completion, serving
from pdf_files import pdf, scanned, text
from tests.stages.ingest.archives import http, record

from gristmill.engine.mill import find_warnings
from gristmill.query.documents.documents import rows
from gristmill.query.sizing.asking import asking_lines

LINES = ("The stones of the mill turn day and night.", "They grind 24 sacks of corn each week.")
PAGE = [text(72, 700 - 30 * n, line, 18) for n, line in enumerate(LINES)]
ENGINE = """
import struct
import numpy
class Answer:
    pass
class RapidOCR:
    def __init__(self, params):
        pass
    def load_img(self, png):
        width, height = struct.unpack(">II", png[16:24])
        return numpy.zeros((height, width, 3), numpy.uint8)
    def __call__(self, pixels):
        with open(__file__ + ".calls", "a") as calls:
            calls.write(".")
        answer = Answer()
        answer.scores = [0.99]
        answer.txts = ["An image of %d by %d pixels." % pixels.shape[1::-1]]
        answer.boxes = numpy.array([[(100, 200), (500, 200), (500, 225), (100, 225)]])
        return answer
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Packages in place of the engine: it says how large an image is."""
    folder = tmp_path / "packages"
    for name, code in (("rapidocr", ENGINE), ("onnxruntime", "")):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(code)
        (folder / f"{name}-1.0.dist-info").mkdir()
        (folder / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    monkeypatch.syspath_prepend(str(folder))
    yield folder / "rapidocr" / "__init__.py.calls"
    for name in ("rapidocr", "onnxruntime"):
        sys.modules.pop(name, None)


def write_recipe(project, images, steps):
    project.recipe.write_text(
        "recipe: project\nstore: ./store\nsources:\n"
        f"  files: {{kind: text, read: {{format: pdf, paths: [files], images: {images}}}}}\n"
        f"  crawl: {{kind: text, read: {{format: warc, paths: [crawl.warc], bodies: {{pdf: {{images: {images}}}}}}}}}\n"
        f"steps:\n  text: [{steps}]\n"
    )


@pytest.fixture
def scans(project):
    """A scanned file, one with a scanned page among others, an empty one, and a scanned one in a web archive."""
    (project.folder / "files").mkdir()
    for name, data in (("scan", scanned(pdf(PAGE))), ("text", pdf(PAGE)), ("void", pdf([]))):
        (project.folder / "files" / f"{name}.pdf").write_bytes(data)
    page = http(b"<p>The wheel of the mill turns, and the miller sleeps until the corn is ground to flour.</p>")
    crawl = record(http(scanned(pdf(PAGE)), mime="application/pdf")) + record(page)
    (project.folder / "crawl.warc").write_bytes(crawl)
    return project


def texts_of(version):
    """{locator: (text, reason)} of all rows."""
    return {row.fields["locator"]: (row.text, row.reason) for row in rows(version, None, None, None)}


def test_scanned_files_and_responses_get_the_text_of_the_engine(scans, stand_in):
    """Other documents keep theirs, and a file without text and without pictures keeps its reason."""
    write_recipe(scans, "true", "ocr, extract")
    found = texts_of(scans.run())
    read = ("An image of 1250 by 1667 pixels.", None)
    assert found.pop("scan.pdf#0") == read
    assert found.pop("crawl.warc#0") == read
    assert found.pop("void.pdf#0")[1] == "empty_text"
    assert found.pop("text.pdf#0") == (" ".join(LINES), None)
    ((text, reason),) = found.values()
    assert (text.startswith("The wheel of the mill"), reason) == (True, None)


def test_text_of_an_engine_is_shown_with_its_page(scans, stand_in, say, monkeypatch):
    """`inspect --page` shows it beside the image, and lineage names its page and where it is there."""
    monkeypatch.chdir(scans.folder)
    write_recipe(scans, "true", "ocr, extract")
    scans.run()
    shown = {
        row["locator"]: row
        for row in map(json.loads, say(*["inspect", "--page", "1", "--json"], scans.recipe).out.splitlines())
    }
    assert shown["scan.pdf#0"]["text"] == "An image of 1250 by 1667 pixels."
    assert shown["text.pdf#0"]["text"] == " ".join(LINES)
    output = say("lineage", scans.recipe, "of 1250 by", "--json")
    found = [json.loads(line)["page_boxes"] for line in output.out.splitlines()]
    assert [{"page": 1, "left": 48, "top": 93, "right": 240, "bottom": 108}] in found


def test_a_page_that_was_read_is_not_read_again_after_its_task_was_lost(scans, stand_in):
    """Its text is stored when it is read, not when its part is done. The two files have the same image."""
    write_recipe(scans, "true", "ocr, extract")
    found = texts_of(scans.run())
    assert len(stand_in.read_text()) == 1
    for path in scans.store.rglob("*"):
        if path.is_file() and "answers" not in path.parts:
            path.unlink()
    assert texts_of(scans.run()) == found
    assert len(stand_in.read_text()) == 1


def test_a_damaged_answer_of_the_engine_is_read_again(scans, stand_in):
    """Its checksum is wrong, so it counts as absent, and the text is the same."""
    write_recipe(scans, "true", "ocr, extract")
    found = texts_of(scans.run())
    for path in scans.store.rglob("*"):
        if path.suffix == ".log" and "answers" in path.parts:
            path.write_bytes(path.read_bytes().replace(b"An image of", b"An imagf of"))
        elif path.is_file() and "answers" not in path.parts:
            path.unlink()
    assert texts_of(scans.run()) == found
    assert len(stand_in.read_text()) == 2


def test_a_run_that_drops_scanned_pages_names_the_step_that_reads_them(scans):
    """Its user may not know that there is one."""
    write_recipe(scans, "false", "extract")
    (said,) = [one for one in find_warnings(scans.run()) if "files/ingest" in one and "needs_ocr 1" in one]
    assert said.endswith("shows them. Read them by OCR: `images: true`, and the step `ocr`")


def test_scanned_pages_of_documents_that_stay_are_a_warning(scans, stand_in):
    """Their text is missing in the corpus."""
    mixed, saved = pypdfium2.PdfDocument(pdf(PAGE, PAGE)), BytesIO()
    mixed.import_pages(pypdfium2.PdfDocument(scanned(pdf(PAGE))))
    mixed.save(saved)
    (scans.folder / "files" / "mixed.pdf").write_bytes(saved.getvalue())
    write_recipe(scans, "false", "extract")
    (said,) = [one for one in find_warnings(scans.run()) if "1 page of documents that were read" in one]
    assert said.endswith("than they show. Read them by OCR: `images: true`, and the step `ocr`")
    write_recipe(scans, "true", "ocr, extract")
    assert not [one for one in find_warnings(scans.run()) if "documents that were read" in one]


@pytest.mark.parametrize("images", ["true", "scans"])
def test_hidden_text_is_a_witness_of_what_is_read_on_the_picture_above_it(project, stand_in, images):
    """Only with `images: scans`. Numbers that the engine invents are cut; the page then keeps its text layer."""
    (project.folder / "files").mkdir()
    lines = [*LINES, "The miller has ground corn here for longer than anybody in the valley remembers."]
    page = [b"3 Tr", *(text(72, 700 - 30 * n, line, 12) for n, line in enumerate(lines))]
    (project.folder / "files" / "scan.pdf").write_bytes(pdf(page))
    write_recipe(project, images, "ocr")
    project.recipe.write_text(project.recipe.read_text().replace("  crawl:", "  # crawl:"))
    run = project.run()
    found = run.states["text/ocr"].metrics
    counts = {"pages": 1, "compared": 1, "new_numbers": 2, "cut_sentences": 1}
    assert {name: found[name] for name in counts} == (counts if images == "scans" else dict.fromkeys(counts, 0))
    assert texts_of(run)["scan.pdf#0"][0].split() == " ".join(lines).split()


@pytest.mark.parametrize(
    ("images", "steps", "message"),
    [
        ("true", "language", "read.images keeps page images, but no step of its route reads them"),
        (
            "false",
            "ocr",
            "ocr reads the column images, which neither the documents nor an earlier step has. Set",
        ),
    ],
)
def test_images_and_the_step_that_reads_them_come_together(scans, stand_in, say, images, steps, message):
    """One without the other is a mistake of the recipe."""
    write_recipe(scans, images, steps)
    output = say("plan", scans.recipe)
    assert output.code == 2
    assert message in " ".join(output.err.split())


def test_a_vision_model_reads_pages_once_and_is_checked(project, monkeypatch):
    """It gets the images of pages, and nothing else. Its answers are paid for once, its loops are cut, its key is
    nowhere in the store, and a refusal is no text.
    """
    key = "sk-" + "9f8e7d6c" * 4
    monkeypatch.setenv("VISION_KEY", key)
    (project.folder / "files").mkdir()
    for name, dpi in (("loop", 150), ("refused", 75)):
        (project.folder / "files" / f"{name}.pdf").write_bytes(scanned(pdf(PAGE), dpi))
    (project.folder / "files" / "text.pdf").write_bytes(pdf(PAGE))

    def say(body, handler):
        assert handler.headers["Authorization"] == f"Bearer {key}"
        ((said, image),) = [message["content"] for message in body["messages"]]
        png = base64.b64decode(image["image_url"]["url"].removeprefix("data:image/png;base64,"))
        assert (said["type"], png[:4]) == ("text", b"\x89PNG")
        looped = "```\nThe wheel turns. " + "On and on. " * 30 + "\n```"
        return completion(None, refusal=f"no {key}") if len(server.requests) > 1 else looped

    with serving(say) as server:
        model = f"ocr: {{model: eye, servers: ['{server.address}'], api_key_env: VISION_KEY, concurrency: 1}}"
        write_recipe(project, "true", model)
        project.recipe.write_text(project.recipe.read_text().replace("  crawl:", "  # crawl:"))
        project.run(until="ingest")
        (line,) = asking_lines(project.dry_run())
        assert not server.requests
        run = project.run()
        for path in project.store.rglob("*"):
            if path.is_file() and "answers" not in path.parts:
                path.unlink()
        assert project.parts(project.run()) == project.parts(run)
        assert len(server.requests) == 2
    found = texts_of(run)
    assert line.startswith("text/ocr: about 2 requests, 2 not answered before: ")
    assert found["loop.pdf#0"] == ("The wheel turns. On and on.", None)
    assert found["refused.pdf#0"] == (None, "no_text_on_images")
    assert found["text.pdf#0"] == (" ".join(LINES), None)
    assert run.states["text/ocr"].metrics["faults"] == {"refused": 1}
    for path in project.store.rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes()


@pytest.mark.slow
def test_the_engine_reads_a_scanned_page(scans):
    """With the real engine, word for word: also code, whose lines its classifier takes for upside-down ones."""
    code = text(72, 600, "gnuplot -persist -e \"set title 'Sine curve'; plot sin(x)\"", 9)
    (scans.folder / "files" / "code.pdf").write_bytes(scanned(pdf([*PAGE, code])))
    pytest.importorskip("onnxruntime", reason="the engine is not installed: pip install './packages/pdf[ocr]'")
    write_recipe(scans, "true", "ocr, extract")
    found = texts_of(scans.run())
    assert found["scan.pdf#0"] == found["crawl.warc#0"] == (" ".join(LINES), None)
    assert found["code.pdf#0"][0].endswith("gnuplot -persist -e \"set title 'Sine curve'; plot sin(x)\"")
