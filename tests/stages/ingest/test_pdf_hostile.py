"""Hostile PDF files become rows with reasons, with bounded memory, and the same rows every time."""

import pytest
from fuzz.targets.pdfs import HOSTILE, SLOW, TEXT
from fuzz.targets.reading import check_rows

from gristmill.stages.contract import Piece
from gristmill.stages.ingest import pdf
from gristmill.stages.pdf.child import PdfChild

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
