"""`gristmill explore` before a run has finished, and the options of `run` that report its progress."""

import json
import sys

import pytest

from gristmill.cli.main import main
from gristmill.store.leases import hold
from gristmill.store.store import Store
from gristmill_explore import serving


@pytest.fixture
def served(monkeypatch):
    """The titles of the pages that a command would serve."""
    found = []

    def serve(title, groups, port, tell):
        found.append((title, [group.title for group in groups]))
        if len(groups) == 1:  # otherwise it would also start to index the corpus
            tell("http://127.0.0.1:1/?token=x")

    monkeypatch.setattr(serving, "serve", serve)
    return found


def command(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["gristmill", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    output = capsys.readouterr()
    return ended.value.code or 0, output.out + output.err


def journal(project, run, **fields):
    """A journal of a run with this id."""
    record = {"run": run, "status": "running", "started": "2026-01-01T00:00:00+00:00", **fields}
    Store(str(project.store)).write_json(f"progress/project/{run}.json", record)


def test_a_run_that_has_not_finished_can_be_watched(project, served, monkeypatch, capsys):
    """Only the page Live is served while the first run goes on; inputs are not hashed for that."""
    with hold(Store(str(project.store)), "run", "project") as lease:
        journal(project, lease.id)
        code, text = command(monkeypatch, capsys, "explore", project.recipe, "--no-open")
    assert (code, served) == (0, [(str(project.recipe), ["Live"])])
    assert "No run of it has finished, so only the page Live is served." in text
    assert not (project.store / "inputs").exists()


def test_while_a_run_goes_on_the_last_finished_corpus_is_explored(project, served, monkeypatch, capsys):
    """The recipe may have changed since, and its own corpus is not known yet. The same holds after a kill."""
    project.run()
    project.write_recipe("  - stagebox.length\n")
    journal(project, "ab" * 16, started="2999-01-01T00:00:00+00:00")
    code, text = command(monkeypatch, capsys, "explore", project.recipe, "--no-open")
    assert code == 0, text
    [(title, pages)] = served
    assert title == f"{project.store}@project"
    assert pages[-1] == "Live"
    assert "Documents" in pages


@pytest.mark.usefixtures("in_this_process")
def test_a_run_writes_metrics_and_events(project, monkeypatch, capsys):
    """Both files have the end of the run."""
    project.write_recipe("  - stagebox.length\n")
    metrics, events = project.folder / "run.prom", project.folder / "events.jsonl"
    code, text = command(
        monkeypatch,
        capsys,
        *("run", project.recipe, "--json"),
        *("--observe", f"metrics={metrics}", "--observe", f"openlineage={events}"),
    )
    assert code == 0, text
    assert 'gristmill_run{recipe="project",gristmill_run="finished"} 1' in metrics.read_text()
    assert [json.loads(line)["eventType"] for line in events.read_text().splitlines()] == ["START", "COMPLETE"]


@pytest.mark.parametrize(
    ("name", "value"), [("metrics", "none/x"), ("openlineage", "none/x"), ("openlineage", "s3://b/x")]
)
def test_a_place_that_cannot_be_written_is_refused_before_any_work(project, monkeypatch, capsys, name, value):
    """One message, exit code 2."""
    monkeypatch.chdir(project.folder)
    code, text = command(monkeypatch, capsys, "run", project.recipe, "--observe", f"{name}={value}")
    assert code == 2
    assert f"gristmill: {value} cannot " in text
    assert "nothing was run" in text
    assert not project.store.exists()


@pytest.mark.parametrize(
    ("requests", "fact"),
    [
        (["prometheus=x"], "prometheus is not an observer"),
        (["metric=x"], "Did you mean metrics?"),
        (["metrics"], "must be NAME=TARGET"),
        (["metrics=a", "metrics=b"], "once for each NAME"),
    ],
)
def test_a_wrong_request_for_an_observer_is_refused_before_any_work(project, monkeypatch, capsys, requests, fact):
    """The message has the form and the names."""
    options = [word for request in requests for word in ("--observe", request)]
    code, text = command(monkeypatch, capsys, "run", project.recipe, *options)
    assert (code, project.store.exists()) == (2, False)
    assert fact in " ".join(text.split())
