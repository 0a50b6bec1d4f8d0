"""Packages add formats, commands and report pages through entry points, as docs/plugins.md shows."""

import re
import sys

import pytest
from tests.packages import installed_from, write_metadata

import gristmill
from gristmill import installed
from gristmill.cli.main import run_command
from gristmill.errors import UserError
from gristmill.recipe.load import load
from gristmill.recipe.settings import all_entries, entry

RECIPE = """
recipe: apples
store: ./store
sources:
  trees: {kind: text, read: {format: orchard, paths: [trees.txt]}}
steps: []
"""


@pytest.fixture
def orchard(tmp_path, monkeypatch, forgotten):
    """The package of docs/plugins.md, installed, and a recipe that reads its format."""
    (tmp_path / "apples.yaml").write_text(RECIPE)
    (tmp_path / "trees.txt").write_text("Boskoop: a sour <b>apple</b>\n<i>Cox</i>: a sweet apple\n")
    monkeypatch.chdir(tmp_path)
    with installed_from("plugins.md", tmp_path / "site", monkeypatch) as site:
        yield site


@pytest.fixture
def typed(monkeypatch, capsys):
    def typed(line):
        monkeypatch.setattr(sys, "argv", ["gristmill", *line.split()])
        monkeypatch.setenv("COLUMNS", "100")
        code = run_command()
        return code, *capsys.readouterr()

    return typed


def test_a_recipe_reads_an_installed_format(orchard, edit):
    """Its settings are checked, it is listed with ours, and its code is in the key."""
    corpus = gristmill.open("apples.yaml")
    corpus.run(workers=1, executor="inline")
    assert [row["title"] for row in corpus.documents().rows()] == ["Boskoop", "<i>Cox</i>"]
    assert gristmill.open("apples.yaml").plan().is_done
    edit(orchard / "orchard" / "reader.py", "title.strip()", "title.strip().upper()")
    (first, *_) = gristmill.open("apples.yaml").plan()
    assert first["step"] == "trees/ingest"
    assert first["why"].startswith("orchard/reader.py changed")
    assert "orchard" in [one.name for one in all_entries() if one.kind == "format"]
    assert [setting.name for setting in entry("orchard").settings] == ["separator"]


def test_a_recipe_uses_an_installed_step(orchard, edit, tmp_path):
    """Under its name, with its settings and its columns; its code is in the key."""
    edit(tmp_path / "apples.yaml", "steps: []", "steps: [ripe: {min_chars: 14}]")
    corpus = gristmill.open("apples.yaml")
    corpus.run(workers=1, executor="inline")
    assert [row["title"] for row in corpus.documents().rows()] == ["Boskoop"]
    edit(tmp_path / "apples.yaml", "14}]", "14}, heuristics: {rules: [ripe], ripe: {max_chars: 18}}]")
    corpus = gristmill.open("apples.yaml")
    corpus.run(workers=1, executor="inline")
    dropped = corpus.documents(kept=False, columns=["title", "heuristics.drop"]).rows()
    assert {row["heuristics.drop"] for row in dropped} == {"overripe", None}
    edit(orchard / "orchard" / "ripe.py", '"unripe"', '"green"')
    why = {row["step"]: row["why"] for row in gristmill.open("apples.yaml").plan()}
    assert why["all/ripe"].startswith("orchard/ripe.py changed")
    assert [setting.name for setting in entry("ripe").settings] == ["min_chars", "heuristics.ripe.max_chars"]
    edit(tmp_path / "apples.yaml", "min_chars", "min_char")
    with pytest.raises(UserError, match=r"min_char.* Did you mean min_chars\?"):
        load("apples.yaml")


def test_a_name_of_ours_that_another_package_registers_is_not_hidden(tmp_path, monkeypatch):
    """Only ocr of gristmill-pdf needs gristmill-generate."""
    write_metadata(tmp_path, "yard", "1.0", {installed.STEPS: {"ocr": "yard.ocr", "threads": "yard.threads"}})
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    assert {*installed.installed(installed.STEPS)} == {"ocr", "threads"}


@pytest.mark.parametrize(
    ("written", "package", "name"),
    [("format: latex", "formats", "latex"), ("format: orchard", "formats", "threads")],
)
def test_what_a_missing_package_of_ours_adds_names_the_package(
    orchard, edit, tmp_path, monkeypatch, written, package, name
):
    """Not a guess at another name."""
    monkeypatch.setattr(installed, "_installed", lambda group, path: {})
    edit(tmp_path / "apples.yaml", "format: orchard", written)
    edit(tmp_path / "apples.yaml", "steps: []", "steps: [threads]")
    with pytest.raises(
        UserError, match=rf"{name} needs the package gristmill-{package}, .* -m pip install .*/{package}"
    ):
        load("apples.yaml")


@pytest.mark.parametrize("name", ["generate", "faithful", "latex"])
def test_the_reference_of_a_missing_package_names_the_package(monkeypatch, name):
    monkeypatch.setattr(installed, "_installed", lambda group, path: {})
    with pytest.raises(UserError, match=f"{name} needs the package gristmill-"):
        entry(name)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("read: {format: orchard, paths: [trees.txt]}", "generate: {parents: trees}", "generate needs the package"),
        ("steps: []", "steps: [faithful]", "faithful needs the package"),
        ("steps: []", "steps: [heuristics: {rules: [faithful]}]", r"rules\[0\]: faithful needs the package"),
    ],
)
def test_a_missing_source_or_set_of_rules_names_its_package(orchard, edit, tmp_path, monkeypatch, old, new, message):
    monkeypatch.setattr(installed, "_installed", lambda group, path: {})
    edit(tmp_path / "apples.yaml", "format: orchard", "format: text")
    edit(tmp_path / "apples.yaml", old.replace("format: orchard", "format: text"), new)
    with pytest.raises(UserError, match=rf"{message} gristmill-generate, .* -m pip install .*/generate"):
        load("apples.yaml")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("orchid", r"apples.yaml:5: orchid is not a format\. Did you mean orchard\?"),
        ("orchard, separatr: x", r"separatr.* Did you mean separator\?"),
    ],
)
def test_an_error_lists_the_fields_of_the_package(orchard, edit, tmp_path, written, message):
    edit(tmp_path / "apples.yaml", "orchard", written)
    with pytest.raises(UserError, match=message):
        load("apples.yaml")


def test_a_reader_next_to_the_recipe_cannot_replace_an_installed_one(orchard, tmp_path):
    (tmp_path / "orchard.py").write_text("STAGE = None\n")
    with pytest.raises(UserError, match=r"that an installed package adds \(orchard\.reader\), but orchard\.py next to"):
        load("apples.yaml")


def test_a_folder_next_to_the_recipe_that_hides_the_package_is_refused(orchard, tmp_path, monkeypatch):
    """A copy would run instead of it, unless Python finds that copy anyway (an editable install)."""
    (tmp_path / "orchard").mkdir()
    for file in (orchard / "orchard").glob("*.py"):
        (tmp_path / "orchard" / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])  # "" is the working directory
    with pytest.raises(UserError, match=r"a format of the installed package orchard, but .* hides it\. Move"):
        load("apples.yaml")
    monkeypatch.syspath_prepend(str(tmp_path))
    load("apples.yaml")


def test_an_error_in_an_installed_command_shows_only_the_lines_of_the_package(orchard, edit, typed):
    """The exit code is 2, as for a step."""
    gristmill.open("apples.yaml").run(workers=1, executor="inline")
    edit(orchard / "orchard" / "pick.py", "for document in", "raise ValueError('bruise')\n    for document in")
    code, _, err = typed("pick apples.yaml")
    assert code == 2
    assert err.startswith("gristmill: ValueError: bruise, in the package orchard 1.0:")
    assert "in pick: raise ValueError('bruise')" in " ".join(err.split())
    assert "typer" not in err
    assert "Traceback" not in err


def test_an_installed_command_is_a_gristmill_command(orchard, typed):
    """It runs, and the help and the error for a wrong name list it; our commands are looked up in no package."""
    gristmill.open("apples.yaml").run(workers=1, executor="inline")
    assert typed("pick apples.yaml --number 2") == (0, "Boskoop\n<i>Cox</i>\n", "")
    _, out, _ = typed("--help")
    assert re.search(r"\n\nCommands from other packages:\n(.*\n)*  pick +A command from orchard 1\.0\.\n", out)
    assert typed("pikc")[2].endswith("Did you mean gristmill pick?\n")
    assert "Missing argument 'recipe'" in typed("pick")[2]


def test_a_page_is_written_by_its_name(orchard, typed, tmp_path):
    """A wrong name lists the pages, and an unfinished corpus has none."""
    code, _, err = typed("report apples.yaml --page harvest --out page.html")
    assert (code, "has not finished with the current recipe" in err) == (2, True)
    gristmill.open("apples.yaml").run(workers=1, executor="inline")
    assert typed("report apples.yaml --page harvest --out page.html") == (0, "page.html: the page harvest, 93 B.\n", "")
    assert (tmp_path / "page.html").read_text() == (
        "<!doctype html><title>apples</title><ul><li>Boskoop</li><li>&lt;i&gt;Cox&lt;/i&gt;</li></ul>\n"
    )
    code, _, err = typed("report apples.yaml --page harvets --out page.html")
    assert code == 2
    message = " ".join(err.split())
    assert "harvets is not a report page, so nothing was written. Did you mean harvest? Pages: " in message
    assert message.endswith("harvest.")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("return f", "return b'' or 1, f", "returned tuple, but a page must be HTML as str"),
        ("def page", "def pages", r"cannot be imported from orchard\.harvest:page"),
    ],
)
def test_a_failing_page_is_one_error_message(orchard, edit, old, new, message):
    gristmill.open("apples.yaml").run(workers=1, executor="inline")
    edit(orchard / "orchard" / "harvest.py", old, new)
    with pytest.raises(UserError, match=message):
        gristmill.open("apples.yaml").page("harvest")


def test_two_packages_with_the_same_name_are_rejected(orchard, typed):
    """Gristmill does not guess which one to use; the help says so as well."""
    points = {"gristmill.formats": {"orchard": "vineyard.reader"}, "gristmill.commands": {"pick": "vineyard:pick"}}
    write_metadata(orchard, "vineyard", "2.0", points)
    with pytest.raises(UserError, match=r"Two installed packages, orchard 1\.0 and vineyard 2\.0, register orchard in"):
        load("apples.yaml")
    assert "orchard 1.0 and vineyard 2.0, register pick" in " ".join(typed("-h")[2].split())
