"""`limit` and `sample`: a small part of a source, the same in every run, and never mistaken for the whole."""

import json

import pytest

from gristmill.cli.main import run_command
from gristmill.engine.mill import Mill
from gristmill.errors import UserError
from gristmill.recipe.load import load
from gristmill.store.parquet import PartReader


@pytest.fixture
def limited(project):
    """The usual project (four files, 201 records each, in parts of 4 KB) with a limit."""

    def write(limit):
        project.write_recipe(read=f", limit: {limit}")
        return project

    return write


def located(project, run, store):
    reader = Mill(load(project.recipe, store=str(store))).store
    return [
        locator
        for document in run.documents["notes"]
        for locator in PartReader(reader, document.part).read_group(0, ["locator"]).column(0).to_pylist()
    ]


@pytest.mark.parametrize("limit", [1, 30, 250, 804, 5000])
def test_a_limit_takes_the_first_records_in_order(project, limit):
    """Good and bad records count; a limit beyond the end has no effect."""
    store = project.folder / "whole"
    everything = located(project, project.run(store=str(store), until="ingest"), store)
    project.write_recipe(read=f", limit: {limit}")
    assert located(project, project.run(until="ingest"), project.store) == everything[:limit]


def test_a_limit_reads_and_hashes_no_file_that_it_does_not_need(limited):
    """Of four files the first is enough: the others may be deleted right after they were listed."""
    project = limited(20)
    run = project.run()
    assert run.inputs["notes"].record().keys() == {"00.jsonl"}
    assert len(run.states["notes/ingest"].tasks) == 1
    assert project.executed(project.run()) == {}
    assert project.dry_run().states["notes/corpus"].waiting == 0


def test_a_limit_is_the_same_for_any_number_of_workers(limited):
    """The records, and every part made from them."""
    project = limited(300)
    parts = [project.parts(project.run(workers, store=str(project.folder / f"s{workers}"))) for workers in (None, 2)]
    assert parts[0] == parts[1]


def test_a_limit_is_in_the_key_and_no_limit_is_not(project):
    """Another limit reads again; the whole is found where it was."""
    project.run()
    project.write_recipe(read=", limit: 30")
    assert project.executed(project.run())["notes/ingest"] == 1
    project.write_recipe()
    assert project.executed(project.run()) == {}


def test_a_misplaced_limit_is_reported_with_where_it_belongs(project, edit):
    """A common mistake."""
    edit(project.recipe, "kind: text, read", "kind: text, limit: 10, read")
    with pytest.raises(
        UserError, match=r"sources\.notes\.limit is not a field\. It belongs one level down, under read"
    ):
        project.mill()


def sampled(project, share, **more):
    text = project.recipe.read_text()
    project.recipe.write_text(f"{text}sample: {share}\n")
    try:
        return project.run(**more)
    finally:
        project.recipe.write_text(text)


def test_a_sample_takes_about_its_share(project):
    """Of all records, good and bad, and each of them is one of the whole's."""
    store = project.folder / "whole"
    everything = located(project, project.run(store=str(store), until="ingest"), store)
    taken = located(project, sampled(project, "10%", until="ingest"), project.store)
    assert set(taken) < set(everything)
    assert 40 <= len(taken) <= 130  # of 804


def test_a_sample_reads_few_pieces_of_many(project):
    """A thousand files, one of a hundred: ten are read and hashed, and every record in them is taken."""
    for number in range(1000):
        (project.folder / "in" / f"n{number:04}.jsonl").write_text(json.dumps({"text": f"the mill of {number}"}) + "\n")
    project.write_recipe(steps=" []", pattern="in/n*.jsonl")
    run = sampled(project, "1%", until="ingest")
    assert len(run.inputs["notes"].record()) == 10
    assert run.states["notes/ingest"].metrics["rows"] == 10
    run = sampled(project, "20%", until="ingest")
    assert run.states["notes/ingest"].metrics["rows"] == 200


def test_a_sample_is_never_empty(project):
    """A small source gives at least one record, or later steps would have nothing to process."""
    assert sum(document.part.rows for document in sampled(project, "0.0001%").documents["notes"]) >= 1


@pytest.mark.slow
def test_a_sample_is_the_same_for_any_number_of_workers(project):
    """The choice of records, and every part made from them."""
    parts = [
        project.parts(sampled(project, "10%", workers=workers, store=str(project.folder / f"s{workers}")))
        for workers in (None, 2)
    ]
    assert parts[0] == parts[1]


def test_a_sample_has_its_own_name(project):
    """Its runs are stored separately, the whole is unchanged, and neither is mistaken for the other."""
    first = project.run()
    sampled(project, "10%")
    assert sorted(path.name for path in (project.store / "runs").iterdir()) == ["project", "project-sample-10pct"]
    again = project.run()
    assert project.executed(again) == {}
    assert project.parts(again) == project.parts(first)
    assert len(list((project.store / "inputs").iterdir())) == 1  # what was hashed for one is known to the other


def test_a_field_that_no_record_has_stops_a_sample_too(project):
    """The first records of the pieces decide, not the few that the sample takes."""
    project.write_recipe(read=", fields: {text: content}", pattern="in/00.jsonl")
    project.recipe.write_text(project.recipe.read_text().replace("4KB", "64KB"))
    with pytest.raises(UserError, match=r"100 records.*missing_text"):
        sampled(project, "1%")


@pytest.mark.parametrize("share", ["0%", "100%", "1", "-1%", "half", "true"])
def test_a_share_is_a_percentage(project, share):
    """`1` might be one percent or all of it, so it is neither."""
    with pytest.raises(UserError, match="Write a percentage above 0% and below 100%"):
        sampled(project, share)


@pytest.mark.parametrize(
    ("mix", "shares"),
    [
        ("{tokens: 100B}", []),
        ("{tokens: 100B, phases: [{name: a, tokens: 10B}, {name: b, share: 0.5}, {name: c}]}", [0.1, 0.45, None]),
        ("{phases: [{name: a, tokens: 30B}, {name: b, tokens: 10B}]}", [0.75, None]),
    ],
)
def test_a_sample_is_mixed_without_the_budget_of_the_whole(tmp_path, mix, shares):
    """100 billion tokens of one record in a hundred would be hundreds of epochs; phases keep their proportions."""
    (tmp_path / "r.yaml").write_text(
        "recipe: x\nsources:\n  a: {kind: text, domain: d, read: {format: jsonl, paths: [in]}}\nsteps: []\n"
        f"tokenizer: {{train: {{vocab: 512, sample_bytes: {{d: 1MB}}}}}}\nshards: {{}}\nmix: {mix}\n"
    )
    config = load(tmp_path / "r.yaml", sample="1%").steps[-1].config
    assert (config.tokens, config.recipe) == (None, "x-sample-1pct")
    assert [(phase.tokens, phase.share) for phase in config.phases] == [(None, pytest.approx(one)) for one in shares]
    assert load(tmp_path / "r.yaml").steps[-1].config.recipe == "x"


def command(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["gristmill", *map(str, words)])
    return run_command()


def test_every_command_that_opens_a_recipe_takes_a_sample(project, monkeypatch, capsys):
    """Run, show and plan have the same option; a version's name is for the whole."""
    project.write_recipe(steps="  - stagebox.length")
    assert command(monkeypatch, "run", project.recipe, "--workers", 1, "--sample", "10%") == 0
    assert (
        "This is a sample of about 10% of every source (at least one record of each), stored as project-sample-10pct"
        in capsys.readouterr().out
    )
    assert command(monkeypatch, "plan", project.recipe, "--sample", "10%") == 0
    assert "Nothing to do" in capsys.readouterr().out
    assert command(monkeypatch, "inspect", project.recipe, "--sample", "10%", "--json", "-n", "3") == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert command(monkeypatch, "plan", project.recipe) == 0
    assert "Nothing to do" not in capsys.readouterr().out
    assert command(monkeypatch, "run", project.recipe, "--sample", "10%", "--tag", "v1") == 2
    assert "Omit --tag" in capsys.readouterr().err
    assert command(monkeypatch, "run", project.recipe, "--sample", "1") == 2
    assert "--sample: '1' is not a share" in capsys.readouterr().err
