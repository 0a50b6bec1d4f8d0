"""What the commands report about documents that were given up because they killed their worker."""

import json
import sys
from types import SimpleNamespace

import pytest

from gristmill.cli.main import main


@pytest.fixture
def run_command(monkeypatch, capfd):
    """Run a command; a worker process does its tasks, so that the poison document kills the worker."""

    def run(*arguments):
        if arguments[0] in ("run", "verify"):
            arguments += ("--workers", "1")
        monkeypatch.setattr(sys, "argv", ["gristmill", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=output.out, err=output.err)

    return run


@pytest.mark.slow
def test_a_run_reports_given_up_documents_and_its_commands_work(project, run_command):
    """Cached runs and --json report them too; `inspect` and `verify` work as printed."""
    texts = [f"sack {number}" for number in range(9)] + ["POISON"]
    for path in (project.folder / "in").iterdir():
        path.unlink()
    (project.folder / "in" / "a.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    project.write_recipe(f"  - stagebox.deadly: {{mended: '{project.folder / 'mended'}'}}\n")
    for done in (run_command("run", project.recipe), run_command("run", project.recipe)):
        assert done.code == 0
        assert "1 document given up because every attempt killed the worker (1 by all/deadly)." in done.out
        assert f"gristmill inspect {project.recipe} --dropped --reason worker_crashed" in done.out
        assert "Another version of the step or of its libraries tries them again." in done.out
    assert json.loads(run_command("run", project.recipe, "--json").out)["given_up"] == {"all/deadly": 1}
    shown = run_command("inspect", project.recipe, "--dropped", "--reason", "worker_crashed").out
    assert "3 of 3 times alone (SIGSEGV)" in shown
    checked = run_command("verify", project.recipe, "--recompute", "100%")
    assert checked.code == 0
    assert "0 gave different output" in checked.out
    (project.folder / "mended").touch()
    checked = run_command("verify", project.recipe, "--recompute", "100%")
    assert checked.code == 1
    assert "but now pass: 1. A run with another version of the step" in checked.out
    assert json.loads(run_command("verify", project.recipe, "--recompute", "1", "--json").out)["survivors"] == 1
