"""Columns and models are bound once: a run finds what a recipe may name; a source has the model of its own route."""

import json
from collections import Counter

import pytest

from gristmill.errors import UserError
from gristmill.query.documents.documents import rows
from gristmill.recipe.load import load

pytestmark = pytest.mark.usefixtures("forgotten")

COPY = """
import pyarrow as pa
from gristmill.stages.contract import Map, StageConfig
SCHEMA = pa.schema([("copied", pa.string())])
class Config(StageConfig):
    column: str
def reads(config): return (config.column,)
def apply(batch, config):
    return pa.RecordBatch.from_arrays([pa.array(map(str, batch.column(0).to_pylist()))], schema=SCHEMA)
STAGE = Map(config=Config, reads=reads, schema=SCHEMA, apply=apply)
"""
USERS = {
    "sent": """
import pyarrow as pa
from gristmill.stages.contract import Exchange, StageConfig
RECORD_SCHEMA = pa.schema([("text", pa.string())])
SCHEMA = pa.schema([("seen", pa.bool_())])
class Config(StageConfig): pass
def emit(batch, config, models): raise AssertionError
def reduce(records, config): raise AssertionError
STAGE = Exchange(
    config=Config, uses=("vocabulary",), reads=("text",), schema=SCHEMA, record_schema=RECORD_SCHEMA,
    emit=emit, reduce=reduce,
)
""",
    "fitted": """
from gristmill.stages.contract import Fit, StageConfig
class Config(StageConfig): pass
def fit(batches, config, path, models): raise AssertionError
STAGE = Fit(config=Config, uses=("vocabulary",), reads=("text",), fit=fit)
""",
}


@pytest.mark.parametrize(
    ("name", "step", "is_there"),
    [
        ("text", "upper", True),
        ("text_bytes", "upper", True),
        ("upper.text_bytes", "upper", True),
        ("all/upper.text_bytes", "upper", True),
        ("upper.detail", "upper", True),
        ("length.detail", "length", True),
        ("ingest.text_bytes", "ingest", True),
        ("length.text_bytes", "length", False),
        ("ingest.chars", "ingest", False),
        ("vocabulary.text", "upper", False),
        ("notes/upper.text", "upper", False),
        ("nobody.text", "upper", False),
    ],
)
def test_a_run_reads_what_the_check_of_a_recipe_allows(project, name, step, is_there):
    """A step's own columns and those that every layer has (`extract.text_bytes`), by any name of the step; a missing
    one is reported at load, with the line.
    """
    project.write_inputs(files=1, records=20)
    (project.folder / "copy_of.py").write_text(COPY)
    steps = "  - stagebox.length\n  - stagebox.upper\n  - stagebox.vocabulary\n"
    project.write_recipe(f"{steps}  - copy_of: {{column: {name}}}\n")
    if not is_there:
        with pytest.raises(UserError, match=r"recipe\.yaml:\d+: all/copy_of reads .*"):
            load(project.recipe)
        return
    run = project.run()
    column = name.rpartition(".")[2]
    for document in run.documents["notes"]:
        at = ("notes", document.order)
        layer = document.part if step == "ingest" else run.states[f"all/{step}"].layers[at][0]
        copied = run.states["all/copy_of"].layers[at][0]
        assert _column(run, copied, "copied") == [str(value) for value in _column(run, layer, column)]


def _column(run, part, name):
    from gristmill.store.parquet import PartReader

    return PartReader(run.store, part).read_group(0, (name,)).column(0).to_pylist()


@pytest.fixture
def two_kinds(project):
    """Two sources of two kinds, each with its own vocabulary, and no word in common."""
    words = {"pages": ["mill", "grain", "stone"], "files": ["gear", "sack", "dam"]}
    for source, some in words.items():
        (project.folder / source).mkdir()
        lines = [json.dumps({"text": " ".join(some[: 1 + n % 3])}) for n in range(30)]
        (project.folder / source / "a.jsonl").write_text("\n".join([*lines, ""]))

    def write(last, of_kinds="stagebox.vocabulary"):
        project.recipe.write_text(
            "recipe: project\nseed: 3\nsources:\n"
            "  pages: {kind: web, read: {format: jsonl, paths: ['pages/*.jsonl']}}\n"
            "  files: {kind: code, read: {format: jsonl, paths: ['files/*.jsonl']}}\n"
            f"steps:\n  web:\n  - {of_kinds}\n  code:\n  - {of_kinds}\n  all:\n  - {last}\n"
        )
        return project

    return write


def test_each_source_has_the_model_of_its_own_route(two_kinds):
    """A step for all, after a fit of the same name in each route: neither gets the other's model."""
    project = two_kinds("stagebox.rarity")
    run = project.run()
    for source in ("pages", "files"):
        found = [(row.text, row.columns["rarest"]) for row in rows(run, "rarity", False, None, (source,))]
        counts = Counter(word for text, _ in found for word in text.split())
        assert len(found) == 30
        assert all(rarest == min(counts[word] for word in text.split()) for text, rarest in found)
    assert project.executed(project.run()) == {}
    assert not project.dry_run().unfinished()


def test_another_model_of_one_route_runs_nothing_on_the_other(two_kinds):
    """Its documents run again, and those of the other source do not."""
    project = two_kinds("stagebox.rarity")
    project.run()
    with (project.folder / "files" / "a.jsonl").open("a") as file:
        file.write(json.dumps({"text": "gear"}) + "\n")
    executed = project.run().states
    assert len(executed["all/rarity"].executed) == 1
    assert not executed["web/vocabulary"].executed
    assert executed["code/vocabulary"].executed


@pytest.mark.parametrize("step", USERS)
def test_a_step_over_all_sources_has_one_model_or_is_refused(two_kinds, step):
    """An exchange or a fit over routes with different models is ambiguous, and the message has its line."""
    project = two_kinds(step)
    (project.folder / f"{step}.py").write_text(USERS[step])
    with pytest.raises(UserError) as text_shown:
        load(project.recipe)
    assert f"recipe.yaml:12: all/{step} uses one model of a step vocabulary" in str(text_shown.value)
    assert "web/vocabulary (source pages), code/vocabulary (source files)" in str(text_shown.value)


def test_a_sink_without_the_step_that_counts_is_refused_at_load(project):
    """It was a traceback of the graph."""
    project.write_recipe("  - stagebox.length\n  - stagebox.bundle\n")
    with pytest.raises(UserError, match=r"all/bundle needs the counts of a step weigh, .* Add - weigh above\."):
        load(project.recipe)
