"""Sinks: files made from all documents, a catalogue of them, and nothing is built again without need."""

import json

import pytest

from gristmill.query.sizing.plan import make_plan
from gristmill.store.store import Part


def catalogue(project, run):
    part, _ = run.states["all/bundle"].layers["", (0, 0)]
    return json.loads((project.store / "parts" / part.hash[:2] / f"{part.hash}.json").read_text())


def texts_of(project, found):
    texts = []
    for output in found["outputs"]:
        part = Part(**output["files"]["texts.txt"])
        texts += (project.store / "parts" / part.hash[:2] / f"{part.hash}.{part.suffix}").read_text().split("\n")
    return texts


def survivors(run):
    from gristmill.query.documents.columns import ColumnReader

    return [text for batch in ColumnReader(run, ["text"]).batches() for text in batch.column(0).to_pylist()]


def test_the_files_hold_every_survivor_once(project):
    """No document is lost on the way to the files, and none comes twice."""
    run = project.run()
    found = catalogue(project, run)
    assert sorted(texts_of(project, found)) == sorted(survivors(run))
    assert len(found["outputs"]) > 2
    assert found["facts"] == {"per_bundle": 50}


def test_entries_are_in_the_order_of_the_layout(project):
    """The catalogue does not depend on which build ended first."""
    found = catalogue(project, project.run())
    numbers = [output["entry"]["bundle"] for output in found["outputs"]]
    assert numbers == sorted(numbers)


@pytest.mark.slow
def test_removing_a_document_rebuilds_only_the_files_that_had_it(project):
    """One line of one file is blanked: one bundle is built again, and all others keep their bytes."""
    path = project.folder / "in" / "02.jsonl"
    lines = [json.dumps({"id": str(n), "text": f"a text about mill number {n}"}) for n in range(60)]
    path.write_text("\n".join(lines))
    project.write_recipe(read=", fields: {key: id}")
    before = catalogue(project, project.run())
    path.write_text("\n".join([*lines[:17], " " * len(lines[17]), *lines[18:]]))
    run = project.run()
    after = catalogue(project, run)
    old = {output["files"]["texts.txt"]["hash"] for output in before["outputs"]}
    changed = [output for output in after["outputs"] if output["files"]["texts.txt"]["hash"] not in old]
    assert len(changed) == 1
    made = run.states["all/bundle"]
    builds = [label for key, label in made.tasks.items() if key in made.executed and not label.endswith("emit")]
    assert len(builds) == 2, "the bundle and the catalogue; what other parts send has not changed"


@pytest.mark.slow
def test_a_changed_config_builds_again_and_a_second_run_does_not(project):
    """The config of a sink is in the keys of its tasks; files that it no longer writes are not named."""
    project.run()
    text = project.recipe.read_text().replace("- stagebox.bundle", "- stagebox.bundle: {with_sizes: false}")
    project.recipe.write_text(text)
    run = project.run()
    assert project.executed(run)["all/bundle"] > 2
    assert set(catalogue(project, run)["outputs"][0]["files"]) == {"texts.txt"}
    assert project.executed(project.run()) == {}


@pytest.mark.slow
def test_a_plan_counts_what_a_sink_would_build(project):
    """Before the first run everything waits; after a lost file the plan names what it would build again."""
    stages = {stage.id: stage for stage in make_plan(project.mill(), project.dry_run())}
    assert stages["all/bundle"].waiting > 0
    found = catalogue(project, project.run())
    lost = found["outputs"][0]["files"]["sizes.txt"]["hash"]
    (project.store / "parts" / lost[:2] / f"{lost}.txt").unlink()
    stages = {stage.id: stage for stage in make_plan(project.mill(), project.dry_run())}
    assert stages["all/bundle"].to_run == 1
    assert catalogue(project, project.run()) == found


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.slow
def test_a_sink_gives_the_same_catalogue_for_any_workers(project, workers):
    """Files and catalogue are a function of the recipe."""
    first = catalogue(project, project.run(workers=workers))
    project.store.rename(project.folder / "old")
    assert catalogue(project, project.run(workers=3 - workers)) == first
