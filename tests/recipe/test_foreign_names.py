"""Names of other pipelines are errors that say what to write here."""

from pathlib import Path

import pytest
import yaml
from tests.stages.decontaminate.suites import write_suite

from gristmill import stages
from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import FOREIGN
from gristmill.recipe.load import load

PAGE = (Path(__file__).parents[2] / "docs" / "other-pipelines.md").read_text()
READ = "{kind: text, read: {format: jsonl, paths: [a.jsonl]}%s}"


def refused(tmp_path, steps="[]", source="", more=""):
    path = tmp_path / "r.yaml"
    path.write_text(f"recipe: r\nsources: {{a: {READ % source}}}\nsteps: {steps}\n{more}")
    with pytest.raises(UserError) as error:
        load(path)
    return str(error.value)


@pytest.mark.parametrize(("name", "ours"), FOREIGN["steps"].items())
def test_every_step_of_another_pipeline_names_ours(tmp_path, name, ours):
    message = refused(tmp_path, f"[{name}: {{}}]")
    assert f"{name} is not a step. In Gristmill this is {ours}." in message
    assert any(step in ours for step in stages.STEPS)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("[near_dedup: {perms: 112}]", "perms is not a field. In Gristmill this is bands times rows"),
        ("[near_dedup: {jaccard_thresh: 0.8}]", "In Gristmill this is verify_jaccard"),
        ("[near_dedup: {per_snapshot: true}]", "In Gristmill this is scope: snapshot"),
        ("[keep_quality: {score: quality.a, keep_percentile: 0.9}]", "keep_percentile: 0.9 is keep_best: 0.1"),
        ("[near_dedup: {banbs: 2}]", "Did you mean bands?"),
    ],
)
def test_a_field_of_another_pipeline_names_ours(tmp_path, steps, message):
    """A mere typing error is answered as before."""
    assert message in refused(tmp_path, steps)


def test_a_license_and_a_range_of_snapshots_are_explained(tmp_path):
    assert "write LicenseRef- and the name of your contract" in refused(tmp_path, source=", license: licensed")
    assert "In Gristmill this is read.paths" in refused(tmp_path, source=", snapshots: [a]")
    path = tmp_path / "r.yaml"
    read = "{format: warc, paths: [crawl], snapshot: CC-MAIN-2023-06..CC-MAIN-2024-10}"
    path.write_text(f"recipe: r\nsources: {{a: {{kind: web, read: {read}}}}}\nsteps: [extract]\n")
    with pytest.raises(UserError, match=r"a range of snapshots is no name.*snapshot: \"crawl/"):
        load(path)


def test_the_recipe_of_the_page_is_valid_and_every_name_of_the_sketch_is_answered(tmp_path):
    """The sketch and the recipe stand side by side in the docs."""
    sketch, recipe = (part.split("```")[0] for part in (PAGE.split("```text\n")[1], PAGE.split("```yaml\n")[1]))
    (tmp_path / "r.yaml").write_text(recipe)
    write_suite(tmp_path / "evals", {"b": [{"id": "1", "q": "Who built the mill by the river?", "a": "Anna"}]})
    assert [step.name for step in load(tmp_path / "r.yaml").routes["crawl"]][:2] == ["extract", "language"]
    steps = yaml.safe_load(sketch)["steps"]
    foreign = [name for step in steps if isinstance(step, dict) for name in step if name not in stages.STEPS]
    assert set(foreign) == {"lang_id", "minhash", "decontam"} <= FOREIGN["steps"].keys()
    assert {"perms", "jaccard_thresh", "per_snapshot", "keep_percentile", "weights", "snapshots"} <= FOREIGN[
        "fields"
    ].keys()
