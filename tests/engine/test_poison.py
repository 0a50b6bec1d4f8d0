"""A record that kills its worker costs itself, not the run (law 6); a kill from outside costs nothing (law 9)."""

import json
import os
import random
import signal

import pyarrow.parquet as pq
import pytest

from gristmill.engine.executors import attempts
from gristmill.engine.executors.local import LocalExecutor
from gristmill.engine.mill import Silent
from gristmill.errors import UserError
from gristmill.places import exact, shown
from gristmill.query.documents.documents import rows
from gristmill.query.versions.verify import verify

CRASHED = "killed its worker 3 of 3 times alone (SIGSEGV)"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """The length of pauses changes no verdict."""
    monkeypatch.setattr(attempts, "PAUSE_S", 0.0)


def texts(*poisoned):
    lines = [f"the miller has sack number {number}" for number in range(60)]
    for number in poisoned:
        lines[number] += " POISON"
    return lines


def write_texts(project, lines):
    for path in (project.folder / "in").iterdir():
        path.unlink()
    (project.folder / "in" / "all.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))


def shoot(monkeypatch, share, most):
    """From now on kill some workers as soon as they have started, until this many are dead; returns the victims."""
    draw, shot, start = random.Random(5), [], LocalExecutor._start

    async def start_and_maybe_kill(executor, *gpus):
        worker = await start(executor, *gpus)
        if len(shot) < most and draw.random() < share:
            shot.append(worker._process.pid)
            os.kill(shot[-1], signal.SIGKILL)
        return worker

    monkeypatch.setattr(LocalExecutor, "_start", start_and_maybe_kill)
    return shot


def given_up(project, run):
    return [(row.text, row.step, row.detail) for row in rows(run, None, True, "worker_crashed")]


@pytest.mark.slow
def test_fatal_records_become_rows_with_a_reason_and_the_run_continues(project):
    """Two records of sixty kill every worker that processes them: only they are found and given up."""
    write_texts(project, texts(17, 41))
    project.write_recipe("  - stagebox.deadly\n  - stagebox.length\n")
    run = project.run(workers=2)
    lines = texts(17, 41)
    assert given_up(project, run) == [(lines[17], "all/deadly", CRASHED), (lines[41], "all/deadly", CRASHED)]
    assert run.states["all/length"].metrics["rows"] == 60
    assert any("searching for the record" in note for note in project.notes)


@pytest.mark.slow
def test_the_evidence_is_in_the_record_of_the_task(project):
    """A later run reads it there."""
    write_texts(project, texts(17))
    project.write_recipe("  - stagebox.deadly\n")
    for run in (project.run(workers=2), project.dry_run()):
        assert [result.poisoned for _, result in run.tasks.kept] == [[[17, CRASHED]]]


@pytest.mark.slow
def test_a_record_that_exits_its_worker_is_given_up(project):
    write_texts(project, texts(0))
    project.write_recipe("  - stagebox.deadly: {how: exit}\n")
    [found] = given_up(project, project.run(workers=2))
    assert found == (texts(0)[0], "all/deadly", "killed its worker 3 of 3 times alone (exit code 3)")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGKILL", "MemoryError"])
def test_a_record_that_dies_as_if_from_outside_stops_the_run(project, how):
    """A document that is too large for the memory may be innocent: the message names what the task reads."""
    write_texts(project, texts(0))
    project.write_recipe(f"  - stagebox.deadly: {{how: {how}}}\n")
    with pytest.raises(UserError, match=rf"{how} 17 times.*no document was given up.*reads 60 documents"):
        project.run(workers=2)


@pytest.mark.slow
def test_a_record_without_neighbours_is_given_up(project):
    """A part with one document: the control reads the same part without any row."""
    write_texts(project, ["POISON"])
    project.write_recipe("  - stagebox.deadly\n")
    assert given_up(project, project.run(workers=2)) == [("POISON", "all/deadly", CRASHED)]


@pytest.mark.slow
def test_poison_is_found_the_same_with_one_worker_and_two(project):
    """The same verdicts with the same words: the output is a function of recipe and inputs."""
    write_texts(project, texts(3, 59))
    project.write_recipe("  - stagebox.deadly\n")
    one = project.run(workers=1, store=str(project.folder / "one"))
    two = project.run(workers=2, store=str(project.folder / "two"))
    assert project.parts(one) == project.parts(two)


@pytest.mark.parametrize(
    ("how", "kills"), [("SIGKILL", 1), ("SIGKILL", 16), pytest.param("SIGTERM", 16, marks=pytest.mark.slow)]
)
def test_a_storm_of_kills_gives_no_document_up(project, how, kills):
    """The first workers die on any input, as when the kernel reclaims memory; then the storm is over."""
    write_texts(project, texts())
    (project.folder / "kills").mkdir()
    storm = f"{{word: '', how: {how}, kills: '{project.folder / 'kills'}', most: {kills}}}"
    project.write_recipe(f"  - stagebox.deadly: {storm}\n")
    run = project.run(workers=2)
    assert len(list((project.folder / "kills").iterdir())) == kills
    assert given_up(project, run) == []
    assert run.states["all/deadly"].metrics["dropped"] == {}
    if kills == 1:
        assert len([note for note in project.notes if "trying again" in note]) == 1


@pytest.mark.slow
def test_a_real_poison_is_found_in_the_middle_of_a_storm(project, monkeypatch):
    """Kills from outside do not lead the search: only the right record is blamed."""
    write_texts(project, texts(23))
    project.write_recipe("  - stagebox.deadly\n")
    shot = shoot(monkeypatch, share=0.3, most=15)
    run = project.run(workers=2)
    assert len(shot) > 3
    assert [text for text, _, _ in given_up(project, run)] == [texts(23)[23]]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGSEGV", "SIGKILL"])
def test_a_stage_that_kills_on_everything_stops_the_run_with_advice(project, how):
    """Giving up every record would hide a broken machine: the run stops, and says what happened and what to do."""
    write_texts(project, texts())
    project.write_recipe(f"  - stagebox.deadly: {{word: '', how: {how}}}\n")
    with pytest.raises(UserError, match=rf"{how} \d+ times.* the cause.*no document was given up.*GB of memory.*fewer"):
        project.run(workers=1)
    assert not [path for path in project.store.glob("tasks/*.json") if "deadly" in path.read_text()]


@pytest.mark.slow
def test_every_kind_of_task_outlives_kills(project, monkeypatch):
    """Hashing, reading, maps, exchanges, fits and sinks: the first six workers are killed, then every tenth."""
    whole = project.run(store=str(project.folder / "undisturbed"))
    first = shoot(monkeypatch, share=1, most=6)
    assert project.parts(project.run(workers=2)) == project.parts(whole)
    assert len(first) == 6
    assert any("hashing" in note and "trying again" in note for note in project.notes)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["emit", "reduce"])
def test_an_exchange_outlives_a_storm(project, when):
    """Records of a reduce cannot be given up one by one, and need not be."""
    write_texts(project, texts())
    (project.folder / "kills").mkdir()
    storm = f"word: '', how: SIGKILL, kills: '{project.folder / 'kills'}', most: 4"
    project.write_recipe(f"  - stagebox.deadly_exact: {{when: {when}, {storm}}}\n")
    run = project.run(workers=2)
    assert run.states["all/deadly_exact"].metrics["dropped"] == {}


@pytest.mark.slow
def test_a_record_that_is_fatal_to_send_is_given_up_by_the_exchange(project):
    """The emit task finds it, and the layer that comes back says how."""
    write_texts(project, texts(30))
    project.write_recipe("  - stagebox.deadly_exact\n")
    assert given_up(project, project.run(workers=2)) == [(texts(30)[30], "all/deadly_exact", CRASHED)]


@pytest.mark.slow
def test_a_reduce_that_crashes_each_time_stops_the_run(project):
    """None of its records can be tried alone: one message, not a verdict."""
    write_texts(project, texts())
    project.write_recipe("  - stagebox.deadly_exact: {when: reduce}\n")
    with pytest.raises(UserError, match=r"SIGSEGV 5 times.*no single record is the cause"):
        project.run(workers=2)


@pytest.mark.slow
def test_given_up_documents_come_back_with_another_key(project):
    """The same key is not tried again; verify --recompute counts what would pass now; another key includes it."""
    write_texts(project, texts(17))
    project.write_recipe(f"  - stagebox.deadly: {{mended: '{project.folder / 'mended'}'}}\n  - stagebox.exact\n")
    first = project.run(workers=2)
    assert first.states["all/deadly"].given_up == 1
    still = verify(project.dry_run(), 1.0, project.mill().executor(2), Silent())
    assert (still.survivors, still.different) == (0, [])
    (project.folder / "mended").touch()
    again = project.run(workers=2)
    assert (project.executed(again), again.states["all/deadly"].given_up) == ({}, 1)
    now = verify(project.dry_run(), 1.0, project.mill().executor(2), Silent())
    assert (now.survivors, now.different) == (1, [])
    project.write_recipe(
        f"  - stagebox.deadly: {{mended: '{project.folder / 'mended'}', most: 1}}\n  - stagebox.exact\n"
    )
    retried = project.run(workers=2)
    assert retried.states["all/deadly"].given_up == 0
    assert given_up(project, retried) == []
    assert project.parts(retried) == project.parts(project.run(store=str(project.folder / "never-crashed")))


@pytest.mark.usefixtures("lines_reader")
@pytest.mark.parametrize("middle", ["1", pytest.param(os.fsdecode(b"caf\xe9"), marks=pytest.mark.slow)])
def test_a_record_that_kills_its_reader_is_cut_out(project, middle):
    """The reader dies on one line in the middle of a group of files, of any name: all other lines are read."""
    for path in (project.folder / "in").iterdir():
        path.unlink()
    for name in ("0", middle, "z"):
        lines = [f"line {row} of file {shown(name)}" for row in range(50)]
        if name == middle:
            lines[30] = "POISON"
        (project.folder / "in" / f"{name}.lines").write_text("\n".join(lines) + "\n")
    project.write_recipe("  - stagebox.length\n", pattern="in/*.lines")
    project.recipe.write_text(project.recipe.read_text().replace("jsonl, ", "lines, ").replace("4KB", "1MB"))
    run = project.run(workers=2)
    kept = list(rows(run, None, False, None))
    lost = list(rows(run, None, True, None))
    assert len(kept) == 149
    assert [row.reason for row in lost] == ["worker_crashed"]
    assert lost[0].fields["locator"].startswith(f"{shown(middle)}.lines#")
    [found] = [result for _, result in run.tasks.kept if result.poisoned]
    assert found.poisoned[0][0] == exact(f"{middle}.lines")


@pytest.mark.usefixtures("lines_reader")
@pytest.mark.slow
def test_a_position_that_no_reader_can_pass_ends_only_its_file(project):
    """What comes before the position is kept, the loss is a row, and other files are read as a whole."""
    for path in (project.folder / "in").iterdir():
        path.unlink()
    (project.folder / "in" / "a.lines").write_text("first\nsecond\nWALL\nfourth\n")
    (project.folder / "in" / "b.lines").write_text("fifth\n")
    project.write_recipe("  - stagebox.length\n", pattern="in/*.lines")
    project.recipe.write_text(project.recipe.read_text().replace("jsonl, ", "lines, ").replace("4KB", "1MB"))
    run = project.run(workers=2)
    kept = [row.text for row in rows(run, None, False, None)]
    lost = list(rows(run, None, True, None))
    assert kept == ["first", "second", "fifth"]
    assert [(row.reason, "rest of the file" in row.detail) for row in lost] == [("worker_crashed", True)]


@pytest.mark.slow
def test_a_poisoned_part_keeps_its_rows_and_row_groups(project):
    """A layer with a given-up row is aligned with its documents like any other."""
    write_texts(project, texts(0))
    project.write_recipe("  - stagebox.deadly\n")
    run = project.run(workers=2)
    for (_, order), (part, _) in run.states["all/deadly"].layers.items():
        document = run.states["notes/ingest"].layers["notes", order][0]
        paths = [project.store / "parts" / name.hash[:2] / f"{name.hash}.parquet" for name in (part, document)]
        assert pq.read_metadata(paths[0]).num_rows == pq.read_metadata(paths[1]).num_rows


def test_a_step_that_dies_on_any_document_costs_six_workers(project, monkeypatch):
    """Two next to others, one alone, and three that each read one document: then the step is the cause."""
    started, start = [], LocalExecutor._start

    async def counted(executor, *gpus):
        started.append(await start(executor, *gpus))
        return started[-1]

    monkeypatch.setattr(LocalExecutor, "_start", counted)
    write_texts(project, texts())
    project.write_recipe("  - stagebox.deadly: {word: ''}\n")
    with pytest.raises(UserError, match=r"SIGSEGV 6 times\), and any single document is enough, so the step is"):
        project.run(workers=1)
    assert len(started) <= 6
