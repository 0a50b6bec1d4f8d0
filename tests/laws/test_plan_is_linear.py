"""`gristmill plan` does work in proportion to the sources and files of a recipe.

Work is counted (fuzz/meter.py), not timed. Counts are the same on every machine, so the bound is tight.
"""

import math
from importlib import import_module
from pathlib import Path

import pytest
from fuzz.meter import METER, METERED

MOST_EXPONENT = 1.03
"""A loop over all nodes for each source is 1.08 at these sizes."""


def write(folder: Path, sources: int = 2, files: int = 1) -> Path:
    for source in range(sources):
        (folder / f"s{source}").mkdir(parents=True)
        for file in range(files):
            (folder / f"s{source}" / f"{file}.jsonl").write_text(f'{{"id": "{file}", "text": "A mill."}}\n')
    listed = "\n".join(
        f"  s{source}: {{kind: text, read: {{format: jsonl, paths: [s{source}/*.jsonl]}}}}" for source in range(sources)
    )
    recipe = folder / "recipe.yaml"
    recipe.write_text(f"recipe: many\nstore: store\nsources:\n{listed}\nsteps: [signals, exact_dedup]\n")
    return recipe


def work_of_plan(recipe: Path) -> list[int]:
    """To load the recipe and make its graph, and to look for everything in the store."""
    with METERED:
        load, mill = import_module("gristmill.recipe.load").load, import_module("gristmill.engine.mill").Mill
        executor = import_module("gristmill.engine.executors.executor").InlineExecutor
        METER.reset()
        made = mill(load(recipe), executor=lambda _: executor())
        loaded = METER.work
        made.look()
        return [loaded, METER.work - loaded]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["sources", "files"])
def test_four_times_as_much_in_a_recipe_is_four_times_the_work(what: str, tmp_path: Path) -> None:
    """Loading and looking, each for itself."""
    few, many = ([work_of_plan(write(tmp_path / str(count), **{what: count}))] for count in (25, 100))
    for part, small, large in zip(("load", "look"), *few, *many, strict=True):
        exponent = math.log(large / small, 4)
        assert exponent <= MOST_EXPONENT, f"{part}: {small} and {large} grow with the power {exponent:.3f}"
