"""What the commands say of documents that were given up because they kill their worker."""

import json
import sys
from types import SimpleNamespace

import pytest

from gristmill.cli.main import main


@pytest.fixture
def typed(monkeypatch, capfd):
    """A command; where it does tasks, a worker does them, which the poison kills."""

    def run(*arguments):
        if arguments[0] in ("run", "verify"):
            arguments += ("--workers", "1")
        monkeypatch.setattr(sys, "argv", ["gristmill", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=said.out, err=said.err)

    return run


@pytest.mark.slow
def test_a_run_says_what_it_gave_up_and_the_commands_that_it_names_work(project, typed):
    """At its end, also when all was cached, and in --json; then look at them, verify, and have them back."""
    texts = [f"sack {number}" for number in range(9)] + ["POISON"]
    for path in (project.folder / "in").iterdir():
        path.unlink()
    (project.folder / "in" / "a.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    project.write_recipe(f"  - stagebox.deadly: {{mended: '{project.folder / 'mended'}'}}\n")
    for done in (typed("run", project.recipe), typed("run", project.recipe)):
        assert done.code == 0
        assert "1 document given up because every attempt killed the worker (1 by all/deadly)." in done.out
        assert f"gristmill inspect {project.recipe} --dropped --reason worker_crashed" in done.out
        assert f"gristmill run {project.recipe} --retry-crashed" in done.out
    assert json.loads(typed("run", project.recipe, "--json").out)["given_up"] == {"all/deadly": 1}
    shown = typed("inspect", project.recipe, "--dropped", "--reason", "worker_crashed").out
    assert "3 of 3 times alone (SIGSEGV)" in shown
    checked = typed("verify", project.recipe, "--recompute", "100%")
    assert checked.code == 0
    assert "0 gave different output" in checked.out
    (project.folder / "mended").touch()
    checked = typed("verify", project.recipe, "--recompute", "100%")
    assert checked.code == 1
    assert "but now pass: 1. To include them again: gristmill run" in checked.out
    assert json.loads(typed("verify", project.recipe, "--recompute", "1", "--json").out)["survivors"] == 1
    back = json.loads(typed("run", project.recipe, "--retry-crashed", "--json").out)
    assert back["given_up"] == {}
    assert back["rows"] == 10
    assert "given up" not in typed("run", project.recipe).out
