"""Hostile PDF files become rows with reasons, with bounded memory, and the same rows every time."""

import pytest
from fuzz.targets.pdfs import HOSTILE, SLOW, TEXT, _document, _stream
from fuzz.targets.reading import check_rows

from gristmill.stages.contract import Piece
from gristmill_pdf import reader as pdf
from gristmill_pdf.layout.child import PdfChild

READABLE = (
    "a good file",
    "a script that runs at opening",
    "a program to start and an address to send to",
    "an embedded file",
    "encrypted, and open to all",
)
"""Their text is read; what they want to start is not."""
REASONS = {
    "encrypted with a real password": "encrypted",
    "more glyphs than a page may have": "too_large",
    "a path of three million segments": "too_large",
    "a hundred forms that draw 30,000 segments": "too_large",
    "a form that draws itself": "pdf_crashed",
    "forms that draw forms, a billion times": "pdf_crashed",
}
ENDLESS = ("a form that draws itself", "forms that draw forms, a billion times")
"""They take all memory there is, at 100 MB/s: less memory is the same end sooner."""
SMALL_MEMORY_BYTES = 128 << 20


def rows_of(folder, data):
    path = folder / "x.pdf"
    path.write_bytes(data)
    return list(pdf.read(Piece(str(path), "x.pdf"), pdf.Config()))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in HOSTILE]
)
def test_a_hostile_file_is_one_row(name, tmp_path, monkeypatch):
    """With text or with a reason, and the next file is read as if nothing had happened."""
    if name in ENDLESS:
        monkeypatch.setattr(pdf, "_child", PdfChild(SMALL_MEMORY_BYTES))
    data = HOSTILE[name]()
    rows = rows_of(tmp_path, data)
    check_rows(rows)
    assert len(rows) == 1
    assert rows[0].drop == REASONS.get(name, rows[0].drop)
    if name in ENDLESS:
        assert rows[0].detail == "it takes more than 128 MiB of memory (SIGABRT), twice; a control file was read"
    if name in READABLE:
        assert "The stones of the mill" in rows[0].text
    (after,) = rows_of(tmp_path, HOSTILE["a good file"]())
    assert after.drop is None
    assert rows_of(tmp_path, data) == rows


@pytest.mark.parametrize(
    "contents",
    [
        pytest.param(_stream(b"0 0 612 792 re f " * 1_000), id="a thousand layers"),
        pytest.param(_stream(b"/X Do " * 10), id="layers in forms"),
        pytest.param(_stream(b"q 600 0 0 700 0 0 cm /Y Do Q"), id="a picture of 10 billion pixels"),
    ],
)
def test_a_page_that_draws_too_much_is_not_rendered(tmp_path, contents):
    """What it would draw is counted, so the verdict is the same on every machine. A page of small parts is rendered."""
    form = _stream(
        b"0 0 6120 7920 re f " * 100, b"/Type/XObject/Subtype/Form/BBox[0 0 6120 7920]/Matrix[.1 0 0 .1 0 0]"
    )
    size = b"/Subtype/Image/Width 99999/Height 99999/BitsPerComponent 8/ColorSpace/DeviceGray"
    resources = b"/Resources<</XObject<</X 6 0 R/Y 7 0 R>>>>"
    data = _document(contents, page=b"", more=(form, _stream(b"x", size))).replace(
        b"/Resources<</Font<</F 5 0 R>>/XObject<</X 6 0 R>>>>", resources
    )
    found = pdf._child.render(data, 0)
    assert (found.get("drop"), found.get("detail")) == ("too_large", "page 1 draws more than 1,000,000,000 pixels")
    data = data.replace(b"0 0 612 792 re", b"0 0 6.1 7.9 re").replace(b"0 0 6120 7920 re", b"0 0 61.2 79.2 re")
    if b"/Y Do" not in data:
        assert pdf._child.render(data, 0)["images"]


def test_the_text_of_the_files_is_not_lost():
    """The hostile files differ from a good one only by what makes them hostile."""
    assert sum(TEXT in make() for name, make in HOSTILE.items() if name not in SLOW) > 15


@pytest.mark.slow
def test_two_workers_write_the_same_bytes_as_one(project):
    """Good and hostile files, many parts: the parts have the same hashes, which name them."""
    folder = project.folder / "files"
    folder.mkdir()
    names = [*READABLE, *(name for name in HOSTILE if name not in (*SLOW, *READABLE))][:8]
    for number, name in enumerate(names):
        (folder / f"{number}.pdf").write_bytes(HOSTILE[name]())
    hashes = []
    for workers in (1, 2):
        store = f"store{workers}"
        project.recipe.write_text(
            f"recipe: project\nstore: ./{store}\nsources:\n"
            "  files: {kind: text, read: {format: pdf, paths: [files], part_bytes: 1KB}}\nsteps: []\n"
        )
        project.run(workers=workers)
        hashes.append(sorted(path.name for path in (project.folder / store / "parts").rglob("*") if path.is_file()))
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) > 1
