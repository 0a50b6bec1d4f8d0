"""A record that kills its worker costs itself, not the run (law 6)."""

import json

import pyarrow.parquet as pq
import pytest

from gristmill.engine.look import rows
from gristmill.errors import UserError


def texts(project, *poisoned):
    lines = [f"the miller has sack number {number}" for number in range(60)]
    for number in poisoned:
        lines[number] += " POISON"
    return lines


def write_texts(project, lines):
    for path in (project.folder / "in").iterdir():
        path.unlink()
    (project.folder / "in" / "all.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))


def test_fatal_records_become_rows_with_a_reason_and_the_rest_goes_on(project):
    """Two records of sixty kill every worker that sees them: they are found, and only they are given up."""
    write_texts(project, texts(project, 17, 41))
    project.write_recipe("  - stagebox.deadly\n  - stagebox.length\n", read=", ", top="")
    project.recipe.write_text(project.recipe.read_text().replace(", }", "}").replace("4KB", "1MB"))
    run = project.run(workers=2)
    found = list(rows(project.mill(), run, "deadly", True, None))
    assert [(row.reason, row.step) for row in found] == [("worker_crashed", "all/deadly")] * 2
    assert all("POISON" in row.text for row in found)
    assert run.made["all/length"].metrics["rows"] == 60
    assert any("looking for the record" in note for note in project.notes)


def test_poison_is_found_the_same_with_one_worker_and_two(project):
    """The search is deterministic, so its result is too."""
    write_texts(project, texts(project, 3, 59))
    project.write_recipe("  - stagebox.deadly\n")
    one = project.run(workers=1, store=str(project.folder / "one"))
    two = project.run(workers=2, store=str(project.folder / "two"))
    assert project.parts(one) == project.parts(two)


def test_a_worker_killed_from_outside_costs_one_retry(project):
    """A death that does not repeat blames no record."""
    write_texts(project, texts(project, 20))
    project.write_recipe(f"  - stagebox.deadly: {{once: '{project.folder / 'died'}'}}\n")
    run = project.run(workers=1)
    assert not run.made["all/deadly"].metrics["dropped"]
    assert len([note for note in project.notes if "trying again" in note]) == 1


@pytest.mark.slow
def test_a_stage_that_kills_on_everything_stops_the_run_with_advice(project):
    """Giving up every record would hide a broken machine: the run stops and says what to do."""
    write_texts(project, texts(project))
    project.write_recipe("  - stagebox.deadly: {always: true}\n")
    with pytest.raises(UserError, match=r"no single record is to blame.*memory"):
        project.run(workers=1)


@pytest.mark.usefixtures("lines_reader")
def test_a_record_that_kills_its_reader_is_cut_out(project):
    """The reader dies on one line in the middle of a group of files: all the other lines are read."""
    for path in (project.folder / "in").iterdir():
        path.unlink()
    for number in range(3):
        lines = [f"line {row} of file {number}" for row in range(50)]
        if number == 1:
            lines[30] = "POISON"
        (project.folder / "in" / f"{number}.lines").write_text("\n".join(lines) + "\n")
    project.write_recipe("  - stagebox.length\n", pattern="in/*.lines")
    project.recipe.write_text(project.recipe.read_text().replace("jsonl, ", "lines, ").replace("4KB", "1MB"))
    run = project.run(workers=2)
    kept = list(rows(project.mill(), run, None, False, None))
    lost = list(rows(project.mill(), run, None, True, None))
    assert len(kept) == 149
    assert [row.reason for row in lost] == ["worker_crashed"]
    assert lost[0].fields["locator"].startswith("1.lines#")


@pytest.mark.usefixtures("lines_reader")
def test_a_place_that_no_reader_gets_past_ends_its_file_only(project):
    """What lies before the place is kept, the loss is a row, and other files are read whole."""
    for path in (project.folder / "in").iterdir():
        path.unlink()
    (project.folder / "in" / "a.lines").write_text("first\nsecond\nWALL\nfourth\n")
    (project.folder / "in" / "b.lines").write_text("fifth\n")
    project.write_recipe("  - stagebox.length\n", pattern="in/*.lines")
    project.recipe.write_text(project.recipe.read_text().replace("jsonl, ", "lines, ").replace("4KB", "1MB"))
    run = project.run(workers=2)
    kept = [row.text for row in rows(project.mill(), run, None, False, None)]
    lost = list(rows(project.mill(), run, None, True, None))
    assert kept == ["first", "second", "fifth"]
    assert [(row.reason, "rest of the file" in row.detail) for row in lost] == [("worker_crashed", True)]


def test_a_poisoned_part_keeps_its_rows_and_row_groups(project):
    """A layer with a given-up row is aligned with its documents like any other."""
    write_texts(project, texts(project, 0))
    project.write_recipe("  - stagebox.deadly\n")
    run = project.run(workers=2)
    for (_, order), (part, _) in run.made["all/deadly"].layers.items():
        document = run.made["notes/ingest"].layers["notes", order][0]
        paths = [project.store / "parts" / name.hash[:2] / f"{name.hash}.parquet" for name in (part, document)]
        assert pq.read_metadata(paths[0]).num_rows == pq.read_metadata(paths[1]).num_rows
