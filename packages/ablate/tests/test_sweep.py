"""Sweeps: every value is a recipe with that setting changed, and all are judged together. Needs no torch."""

import numpy as np
import pytest

from gristmill.engine.mill import Mill, Silent
from gristmill.errors import UserError
from gristmill.recipe.load import load
from gristmill_ablate.ablation import AblationResult
from gristmill_ablate.proxy.verdict import OVERALL, TaskScore
from gristmill_ablate.setups import setup_of
from gristmill_ablate.sweep import judge, make_variants

RECIPE = """# ours
recipe: small
store: {store}
sources:
  tales: {{kind: text, read: {{format: jsonl, paths: [tales.jsonl]}}, domain: tales}}
steps:
  - signals
  - heuristics: {{gopher_quality: {{min_words: 3}}}}  # why
  - exact_dedup
"""


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "tales.jsonl").write_text("".join(f'{{"text": "one two {"x " * n}"}}\n' for n in range(1, 30)))
    (tmp_path / "small.yaml").write_text(RECIPE.format(store=tmp_path / "store"))
    return load(tmp_path / "small.yaml")


def test_a_grid_has_every_combination_and_changes_nothing_else(recipe):
    """Names say the values; comments stay; a step that is a bare name gets its setting."""
    sweeps = ["heuristics.gopher_quality.min_words=5,10", "exact_dedup.scope=global,source"]
    found = make_variants(recipe, sweeps)
    assert [one.label for one in found] == [
        f"min_words={words} scope={scope}" for words in (5, 10) for scope in ("global", "source")
    ]
    first = found[0].recipe
    assert first.name == "small-min_words-5-scope-global"
    assert "min_words: 5}}  # why" in first.text
    assert first.text.startswith("# ours\n")
    configs = [step.config for step in found[3].recipe.steps if step.at]
    assert configs[1].gopher_quality.min_words == 10
    assert configs[2].scope == "source"


def test_what_is_before_the_change_comes_from_the_cache(recipe):
    """The reader does not run again for a variant, and what is measured of the texts neither."""
    Mill(recipe).run(1, Silent())
    (variant,) = make_variants(recipe, ["heuristics.gopher_quality.min_words=10"])
    run = Mill(variant.recipe).run(1, Silent())
    executed = {name for name, state in run.states.items() if state.executed}
    assert "tales/ingest" not in executed
    assert "all/heuristics" in executed
    assert run.ended["recipe"] == "small-heuristics.gopher_quality.min_words-10"


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ("min_words=3", "is not a change. Write STEP.FIELD=VALUE: keep_quality.keep_best=0.2,0.1,0.05"),
        ("heuristic.x=1", "has no step heuristic, so nothing was run. Did you mean heuristics?"),
        ("exact_dedup.scope=", "has no value"),
        ("exact_dedup.scope=world", "scope"),
        ("exact_dedup.nothing=1", "nothing"),
        ("seed.x=1", "seed"),
        (f"seed.x={','.join('1' * 65)}", "65 variants, and up to 64"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_before_anything_runs(recipe, sweep, said):
    with pytest.raises(UserError, match=r".") as refused:
        make_variants(recipe, [sweep])
    assert said in str(refused.value)


def test_the_same_setting_twice_is_refused(recipe):
    with pytest.raises(UserError, match=r"exact_dedup\.scope is swept twice"):
        make_variants(recipe, ["exact_dedup.scope=global", "exact_dedup.scope=source"])


def test_verdicts_of_a_sweep_are_corrected_for_their_number():
    """One p of 0.03 is a verdict; among five without evidence it is not, and one of 0.001 still is."""

    def result(p):
        overall = TaskScore(OVERALL, "", 9, 1, 1, -0.02, 0.01, -0.04, 0, p, "better", 0.03, {}, 1.0)
        return AblationResult(setup_of("3m"), 3, [overall], {}, [])

    assert [one.verdict for one in judge({"x=1": result(0.03)})] == ["better"]
    many = judge({f"x={number}": result(p) for number, p in enumerate([0.03, 0.001, *np.linspace(0.3, 0.9, 3)])})
    assert [one.verdict for one in many] == ["no evidence", "better", *["no evidence"] * 3]
    assert [one.name for one in many] == [f"x={number}" for number in range(5)]
