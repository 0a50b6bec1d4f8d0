"""What a run reports at its end about records that could not be read."""

import json
import re
import shlex
from dataclasses import replace

from gristmill.cli.run import run as run_command
from gristmill.cli.run.run import _unread_details, _unread_lines, unread_records
from gristmill.cli.shared.options import as_typed
from gristmill.cli.shared.show import listed_steps
from gristmill.engine.mill import find_warnings
from gristmill.engine.plan.inputs import unread
from gristmill.engine.publish.run_record import names_in
from gristmill.store.store import Store

RECIPE = """
recipe: few
store: ./store
sources:
  table: {kind: text, read: {format: csv, paths: [a.csv, b.csv]}}
  lines: {kind: text, read: {format: jsonl, paths: [a.jsonl]}}
  whole: {kind: text, read: {format: jsonl, paths: [b.jsonl]}}
steps: [stagebox.length]
"""


def test_a_run_reports_unreadable_records_once_per_source(project, say):
    """The line has the counts and reasons, and the command in it shows the records. A source without any is not listed,
    an empty text is not a fault, and a wholly unreadable file is reported separately.
    """
    for name, text in {
        "a.csv": 'id,text\n1,a,b\n2,good\n3,x,y\n4,"never\n5,good\n',
        "b.csv": "id,body\n1,a mill\n",
        "a.jsonl": '{"text": "good"}\n{broken\n{"text": ""}\n',
        "b.jsonl": '{"text": "good"}\n{"text": ""}\n',
    }.items():
        (project.folder / name).write_text(text)
    project.recipe.write_text(RECIPE)
    run = project.run()
    assert unread_records(run) == {
        "table": {"wrong_field_count": 2, "unclosed_quote": 1},
        "lines": {"invalid_json": 1},
    }
    details = "\n".join(_unread_details(run, as_typed(run.graph.recipe, None)))
    assert "table: 3 of 6 records could not be read (wrong_field_count 2, unclosed_quote 1).\n" in details
    assert "lines: 1 of 3 records could not be read (invalid_json 1).\n" in details
    assert "whole" not in details
    commands = re.findall("To see them: gristmill (.*)", details)
    assert [say(*shlex.split(command)).out.count(" by ingest: ") for command in commands] == [2, 1]
    summary, hint = _unread_lines(run, as_typed(run.graph.recipe, None))
    assert summary == "4 records could not be read (table 3, lines 1)."
    assert say(*shlex.split(hint.removeprefix("To see them: gristmill "))).out.count(" by ingest: ") >= 4
    lost, table, lines = [line for line in find_warnings(run) if "could not be read" in line]
    assert lost.startswith("table/ingest: files, or the rest of them, could not be read (missing_column 1)")
    assert table.startswith("table/ingest: 3 of 6 records could not be read (wrong_field_count 2, unclosed_quote 1).")
    assert lines.startswith("lines/ingest: 1 of 3 records could not be read (invalid_json 1).")


def test_a_command_in_a_warning_works_as_printed(project, say, tmp_path):
    """It has the recipe and the options of the run, in text and in JSON."""
    (project.folder / "in").rename(project.folder / "i")
    (project.folder / "a.csv").write_text("id,text\n1,a mill\n")
    (project.folder / "b.csv").write_text("id,body\n1,a mill\n")
    project.recipe.write_text(RECIPE.replace("  lines:", "  #").replace("  whole:", "  #"))
    store = tmp_path / "other store"
    run_output = say("run", project.recipe, "--store", store, "--workers", 1, "--json")
    (warning,) = [one["text"] for one in json.loads(run_output.out)["warnings"] if "could not be read" in one["text"]]
    assert warning in run_output.err.replace("WARNING: ", "")
    (command,) = re.findall(r"gristmill (inspect .*) shows which", warning)
    inspected = say(*shlex.split(command))
    assert inspected.code == 0, inspected.err
    assert "missing_column by ingest" in inspected.out


def test_a_printed_command_names_the_same_run(project):
    """It has the sample and the store, if any, and is quoted for a shell."""
    recipe = project.mill().recipe
    assert as_typed(recipe, None) == str(project.recipe)
    assert shlex.split(as_typed(replace(recipe, path="a b.yaml", sample=0.05), "s t")) == [
        "a b.yaml",
        "--sample",
        "5%",
        "--store",
        "s t",
    ]


def test_normal_records_are_not_faults():
    """Skipped pages, requests, empty texts and faults that are reported elsewhere do not count."""
    not_faults = (
        "http_status",
        "not_text",
        "request_record",
        "empty_text",
        "empty_file",
        "truncated_gzip",
        "worker_crashed",
    )
    assert unread(dict.fromkeys(not_faults, 5)) == {}
    assert list(unread({**dict.fromkeys(not_faults, 9), "b": 1, "c": 2, "a": 1})) == ["c", "a", "b"]


def test_a_run_prints_a_short_summary_and_its_warnings_last(project, say):
    """Its length does not depend on the number of steps and reasons; --verbose adds the funnel above it."""
    project.write_recipe("  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n")
    output = say("run", project.recipe)
    assert output.code == 0, output.err
    lines = output.out.splitlines()
    assert re.fullmatch(r"Read 4\d\d documents from 1 source; kept [\d,]+ \([\d.]+%\), [\d.]+ KB of text\.", lines[0])
    assert re.fullmatch(r"project version \w{12}: \d+ tasks? run, \d+ cached; \d warnings?\.", lines[1])
    assert lines[2] == "4 records could not be read (notes 4)."
    assert lines[-1] == f"What was dropped, and why: gristmill funnel {project.recipe}"
    assert len(lines) == 5
    assert len([line for line in output.err.splitlines() if line.startswith("WARNING: ")]) == int(lines[1].split()[-2])
    assert "not_longer" not in output.out
    verbose = say("run", project.recipe, "-v").out
    assert "not_longer" in verbose
    assert verbose.splitlines()[-2:] == lines[2:4]


def test_long_lists_of_names_are_shortened(tmp_path, monkeypatch):
    """Sources with faults, steps, versions and recipes are cut to the first few and a count."""
    sources = {f"source_{number:03}": {"bad": 2} for number in range(300)}
    left_out = {name: {"suffix": {"files": 1, "example": "a"}} for name in sources}
    monkeypatch.setattr(run_command, "unread_records", lambda run: sources)
    monkeypatch.setattr(run_command, "unread_files", lambda run: left_out)
    records, _, files = _unread_lines(None, "r.yaml")
    assert records.endswith("source_004 2 and 295 more).")
    assert "source_004 1 and 295 more)" in files
    assert listed_steps([f"all/step_{number}" for number in range(50)], ()).endswith("all/step_9 and 40 more")
    store = Store(str(tmp_path))
    for number in range(50):
        store.write_file(f"versions/v{number:02}.json", b"{}")
        store.write_file(f"runs/r{number:02}/run-1.json", b"{}")
    assert "v09 and 40 more. Recipes" in names_in(store)
    assert names_in(store).endswith("r09 and 40 more.")
