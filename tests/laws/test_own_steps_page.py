"""docs/own-steps.md and docs/model-step.md are true: its files, its commands and its messages, as printed."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from gristmill.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "own-steps.md").read_text()
MODEL_PAGE = (Path(__file__).parents[2] / "docs" / "model-step.md").read_text()
MESSAGES = re.findall(r"^    ((?:recipe\.yaml|spelled\.yaml|all/).*(?:\n      .*)*)$", PAGE, re.M)


def write_files(folder, page=PAGE):
    """Write the files that the page shows: a path, a colon, and the content."""
    for name, text in re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```", page, re.M | re.S):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


@pytest.fixture
def typed(tmp_path, monkeypatch, capfd, forgotten):
    """Runs a command in a folder with the page's files; returns its exit code and its output."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)

    def typed(line):
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as ended:
            main()
        output = capfd.readouterr()
        return ended.value.code or 0, output.out, output.err

    return typed


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(typed, monkeypatch):
    """The commands run in order, the steps give the printed reasons, and a step re-runs after its file changed."""
    commands = re.findall(r"^    (gristmill .*)$", PAGE, re.M)
    assert len(commands) == 6
    for line in commands:
        code, out, err = typed(line)
        assert code == 0, err
        if " inspect " in line:
            assert "not_long_enough" in out
            assert "not_calm" in out
    code, out, _ = typed("gristmill inspect mine/listed.yaml --dropped")
    assert out.count("on_list") == 2
    assert "each task needs 400 MB of memory" in typed("gristmill plan mine/spelled.yaml")[1]
    assert "the water-wheel began to turn" in " ".join(typed("gristmill inspect mine/spelled.yaml")[1].split())
    Path("mine/sites.txt").write_text("b.example\n")
    _, out, _ = typed("gristmill plan mine/listed.yaml")
    assert re.search(r"all/site_list +0 +1 +config.sites", out)
    assert re.search(r"all/elsewhere .* waits for all/site_list", out)
    Path("mine/words.py").write_text(Path("mine/words.py").read_text() + "LEAST = 3\n")
    _, out, _ = typed("gristmill plan mine/recipe.yaml")
    changed = [line.split()[0] for line in out.splitlines() if "words.py changed" in line]
    assert changed == ["all/long_enough", "all/calm", "all/fault_of_site"]
    monkeypatch.chdir("mine")
    code, out, err = typed("gristmill steps words.long_enough")
    assert code == 0, err
    assert "min_chars" in out


@pytest.mark.slow
def test_the_page_of_a_model_does_what_it_says(typed):
    """Its commands run, the model judges as printed, and a change of its code under a pin runs nothing again."""
    write_files(Path(), MODEL_PAGE)
    outputs = []
    for line in re.findall(r"^    (gristmill .*)$", MODEL_PAGE, re.M):
        code, out, err = typed(line)
        assert code == 0, err
        outputs.append(out)
    assert outputs[1].count("not_calm_enough") == 1
    assert "BUY FLOUR" in outputs[1]
    Path("scored/calm.py").write_text(Path("scored/calm.py").read_text().replace("MINI_BATCH = 64", "MINI_BATCH = 2"))
    assert "pins version=1" in typed("gristmill plan scored/recipe.yaml")[1]
    assert '"executed": 0' in typed("gristmill run scored/recipe.yaml --workers 1 --json")[1]


@pytest.mark.slow
def test_the_page_shows_the_real_messages(typed, edit, monkeypatch):
    """Each mistake on the page gives the message on the page."""
    monkeypatch.chdir("mine")
    files = {name: Path(name).read_text() for name in ("recipe.yaml", "shape.py", "words.py", "spelling.py")}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert len(MESSAGES) == 5
    for (name, old, new), message in zip(
        [
            ("spelling.py", "gpus=0", "gpus=1"),
            ("recipe.yaml", "words.calm:", "words.clam:"),
            ("shape.py", "apply=apply)", "apply=apply, only_keep=True)"),
            ("shape.py", "capitals.cast(pa.float32())", "capitals.cast(pa.float64())"),
            ("words.py", ">= min_chars", ">= min_chras"),
        ],
        MESSAGES,
        strict=True,
    ):
        edit(Path(name), old, new)
        if "cast" in old:
            edit(Path(name), "schema=SCHEMA)", 'names=["shouting"])')
        recipe = "spelled.yaml" if name == "spelling.py" else "recipe.yaml"
        code, _, err = typed(f"gristmill run {recipe} --workers 1")
        assert code == 2
        assert " ".join(message.split()) in " ".join(err.split()), err
        for name_before, text in files.items():
            Path(name_before).write_text(text)


def test_the_test_on_the_page_passes(typed, monkeypatch):
    """The test that the page shows passes."""
    monkeypatch.syspath_prepend("mine")
    names: dict[str, object] = {}
    exec(compile(Path("mine/test_words.py").read_text(), "test_words.py", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()
    for name in ("words", "shape"):
        del sys.modules[name]
