"""Golden pages: a run says where extraction no longer gives the expected text, before any work and in every run."""

import json
import os
import shutil
from collections import Counter

import pytest
from conftest import Project

from gold_pages import page, text_of
from gristmill.engine.mill import find_warnings
from gristmill.errors import UserError
from gristmill.stages.extract import golden
from gristmill.stages.extract.extract import Config, pages_of
from gristmill.stages.extract.main_text import DEFAULT

RECIPE = """
recipe: pages
store: ./store
strict: STRICT
sources:
  pages: {kind: web, read: {format: html, paths: [in]}}
steps:
  - extract: {golden: golden}
"""
CAFE = "Le café du port ouvre à sept heures, et le boulanger y apporte le pain pour tous les gens du quartier."


def write_recipe(project, strict="false", more=""):
    text = RECIPE.replace("STRICT", strict).replace("golden: golden", f"golden: golden{more}")
    project.recipe.write_text(text)


@pytest.fixture
def pages(tmp_path):
    """A project with one page to read, and two golden pages, one of them in Latin-1."""
    project = Project(tmp_path)
    for name in ("in", "golden"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "a.html").write_text(page(text_of(0)))
    (tmp_path / "golden" / "mill.html").write_text(page(text_of(1)))
    (tmp_path / "golden" / "mill.txt").write_text(text_of(1).replace("\n", "\n\n") + "\n")
    markup = page(CAFE, '<meta charset="iso-8859-1">')
    (tmp_path / "golden" / "café.html").write_bytes(markup.encode("latin-1"))
    (tmp_path / "golden" / "café.txt").write_text(CAFE, encoding="utf-8")
    write_recipe(project)
    return project


def test_a_run_warns_about_each_page_that_differs_even_if_all_is_cached(pages, say):
    """The warning has F1 and the first line that differs; another folder of golden pages runs no task again."""
    assert find_warnings(pages.run()) == []
    (pages.folder / "golden" / "mill.txt").write_text(text_of(1).replace("\n", "\n\n").replace("line 2", "line two"))
    again = pages.run()
    assert pages.executed(again) == {}
    (warning,) = find_warnings(again, "RECIPE.yaml")
    assert warning.startswith(f"all/extract: the text of the golden page {pages.folder}/golden/mill.html has changed")
    assert "F1 0.99" in warning
    assert "line 5 is '…" in warning
    assert "line 2.' instead of" in warning
    assert warning.endswith("accept the new text: gristmill golden RECIPE.yaml, with its option update")


def test_strict_refuses_before_any_work(pages, say):
    """A strict recipe does not read a document if a golden page differs."""
    write_recipe(pages, "true")
    (pages.folder / "golden" / "mill.txt").write_text("another text")
    output = say("run", pages.recipe)
    assert output.code == 2
    assert "strict is true, so nothing was run: all/extract: the text of the golden page" in output.err
    assert f"gristmill golden {pages.recipe} --update" in output.err
    assert pages.mill().last_run() is None
    (pages.folder / "golden" / "mill.txt").write_text(text_of(1).replace("\n", "\n\n"))
    assert say("run", pages.recipe).code == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("new.html", page(CAFE).encode(), "new.html has no new.txt next to it"),
        ("alone.txt", b"a text", "alone.txt is neither a page NAME.html nor the NAME.txt of one"),
        ("old.htm", b"<p>a page", "old.htm is neither"),
        ("mill.txt", b"caf\xe9", "mill.txt is not UTF-8 (byte 3)"),
        ("paper.html", b"%PDF-1.4", "paper.html cannot be read as a page (not_text: application/pdf)"),
        ("none.html", b" ", "none.html cannot be read as a page (empty_file"),
        ("long.html", b"<p>" + b"x" * 3000, "long.html cannot be read as a page (record_too_large"),
    ],
)
def test_a_fault_of_the_folder_is_one_message(pages, say, monkeypatch, name, content, message):
    """It names the file, the line of the recipe and the fix, and nothing is run."""
    monkeypatch.setattr(golden, "MAX_BYTES", 2000)
    (pages.folder / "golden" / name).write_bytes(content)
    output = say("run", pages.recipe)
    assert output.code == 2
    (line,) = (line for line in output.err.splitlines() if line.startswith("gristmill: "))
    assert line.startswith(f"gristmill: {pages.recipe}:8: golden: ")
    assert message in line
    assert pages.mill().last_run() is None


@pytest.mark.parametrize("name", ["mill.html", "mill.txt"])
def test_a_file_that_cannot_be_read_is_one_message(pages, say, name):
    """A link to nowhere, a folder and a pipe have the names of a page or a text."""
    file = pages.folder / "golden" / name
    for make, message in (
        (lambda: file.symlink_to("nowhere"), "cannot be read (No such file or directory), so it is not checked"),
        (file.mkdir, f"{file} is a folder, not a file"),
        (lambda: os.mkfifo(file), f"{file} is a pipe, not a file"),
    ):
        file.rmdir() if file.is_dir() else file.unlink()
        make()
        output = say("golden", pages.recipe)
        assert (output.code, message in output.err) == (2, True), output.err


def test_an_empty_folder_and_a_missing_one_are_refused(pages, say):
    """A check that checks nothing is a mistake."""
    shutil.rmtree(pages.folder / "golden")
    assert "golden does not exist" in say("run", pages.recipe).err
    (pages.folder / "golden").mkdir()
    output = say("run", pages.recipe)
    assert (output.code, "is not a folder with pages NAME.html" in output.err) == (2, True)


def test_the_command_compares_and_accepts(pages, say):
    """It exits with 1 if a text is new or changed; after --update all texts are the same, and so is the run."""
    (pages.folder / "golden" / "mill.txt").unlink()
    (pages.folder / "golden" / "café.txt").write_text("le café")
    output = say("golden", pages.recipe)
    assert output.code == 1
    assert "mill.html: new" in output.out
    assert "café.html: changed: F1 0.174, line 1 is" in output.out
    assert say("golden", pages.recipe, "--update").code == 0
    output = say("golden", pages.recipe, "--json")
    assert output.code == 0
    assert [json.loads(line)["state"] for line in output.out.splitlines()] == ["same", "same"]
    assert (pages.folder / "golden" / "café.txt").read_text("utf-8") == f"{CAFE}\n"
    assert find_warnings(pages.run()) == []
    pages.recipe.write_text(pages.recipe.read_text().replace("golden: golden", ""))
    output = say("golden", pages.recipe)
    assert (output.code, "has no golden pages" in output.err) == (2, True)


def test_a_page_that_is_dropped_differs_with_its_reason(pages):
    """Extraction that finds no text is told apart from extraction of another text."""
    (pages.folder / "golden" / "mill.html").write_text("<html><body></body></html>")
    (_, mill) = pages_of(Config(golden=str(pages.folder / "golden")))
    assert mill.difference.startswith("it is dropped as no_main_content; F1 0.000, line 1 is '' instead of 'The mill")


def test_a_recipe_may_also_name_a_model(pages):
    """Tasks use the store's copy of the model; the golden folder has no copy, since no task reads it."""
    shutil.copyfile(DEFAULT, pages.folder / "own.model")
    write_recipe(pages, more=", model: own.model")
    assert find_warnings(pages.run()) == []


def test_f1_counts_words(pages):
    """It equals the F1 of a plain count; empty texts agree."""
    one, other = "The mill grinds rye. Rye!", "the mill 麦 grinds 麦子"
    found, wanted = (
        Counter(["the", "mill", "grinds", "rye", "rye"]),
        Counter(["the", "mill", "麦", "grinds", "麦", "子"]),
    )
    expected = 2 * (found & wanted).total() / (found.total() + wanted.total())
    shown = golden.GoldenPage(pages.folder, pages.folder, other, one, None)
    assert shown.f1 == expected
    assert golden.GoldenPage(pages.folder, pages.folder, "", "", None).f1 == 1
    with pytest.raises(UserError):
        list(pages_of(Config(golden=str(pages.recipe))))


def test_an_update_never_writes_through_a_link(pages, say):
    """A link in the folder may lead anywhere, so nothing is written, and the message names it."""
    (pages.folder / "other.txt").write_text("another file")
    (pages.folder / "golden" / "mill.txt").unlink()
    (pages.folder / "golden" / "mill.txt").symlink_to("../other.txt")
    answer = say("golden", pages.recipe, "--update")
    assert answer.code == 2
    assert "mill.txt is a link, so nothing was written. Replace or remove the link." in answer.err
    assert (pages.folder / "other.txt").read_text() == "another file"
