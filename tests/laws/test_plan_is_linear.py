"""The work of `gristmill plan` is proportional to the sources and files of a recipe.

Work is counted (fuzz/meter.py), not timed. Counts are the same on every machine, so the bound is tight.
"""

import math
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from fuzz.meter import METER, METERED

MOST_EXPONENT = 1.03
"""A loop over all nodes for each source has exponent 1.08 at these sizes."""


def write(folder: Path, sources: int = 2, files: int = 1, between: str = "/") -> Path:
    for source in range(sources):
        for file in range(files):
            path = folder / f"s{source:03}{between}{file}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f'{{"id": "{file}", "text": "A mill."}}\n')
    listed = "\n".join(
        f"  s{source:03}: {{kind: text, read: {{format: jsonl, paths: ['s{source:03}{between}*.jsonl']}}}}"
        for source in range(sources)
    )
    recipe = folder / "recipe.yaml"
    recipe.write_text(f"recipe: many\nstore: store\nsources:\n{listed}\nsteps: [signals, exact_dedup]\n")
    return recipe


def work_of_plan(recipe: Path) -> dict[str, int]:
    """The work of loading the recipe, building its graph and searching the store, and the folder entries listed."""
    real: Any = os.scandir
    listed: list[int] = []  # threads append; a sum that they share would lose some

    def scan(folder: str = ".") -> object:
        if str(folder).startswith(str(recipe.parent)):  # threads of other tests may list folders of their own
            listed.append(len(os.listdir(folder)))
        return real(folder)

    with METERED, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", scan)
        load, mill = import_module("gristmill.recipe.load").load, import_module("gristmill.engine.mill").Mill
        METER.reset()
        read = load(recipe)
        loaded = METER.work
        opened = mill(read)
        planned = METER.work
        opened.dry_run()
        return {"load": loaded, "graph": planned - loaded, "look": METER.work - planned, "listed": sum(listed)}


@pytest.mark.slow
@pytest.mark.parametrize(("what", "between"), [("sources", "/"), ("files", "/"), ("sources", "-")])
def test_four_times_as_much_in_a_recipe_is_four_times_the_work(what: str, between: str, tmp_path: Path) -> None:
    """Loading, planning and searching are measured separately. With "-", all sources read one folder."""
    few, many = (work_of_plan(write(tmp_path / str(count), **{what: count}, between=between)) for count in (25, 100))
    for part, small in few.items():
        large = many[part]
        exponent = math.log(large / small, 4)
        assert exponent <= MOST_EXPONENT, f"{part}: {small} and {large} grow with the power {exponent:.3f}"


@pytest.mark.slow
def test_the_graph_does_the_same_work_for_each_source(tmp_path: Path) -> None:
    """A source takes about 10,000 steps, so a list of all nodes per source would not show in an exponent."""
    work = []
    for count in (20, 20, 40, 80):  # the first run fills the caches
        recipe = write(tmp_path / f"{len(work)}", count)
        with METERED:
            load, mill = import_module("gristmill.recipe.load").load, import_module("gristmill.engine.mill").Mill
            read = load(recipe)
            METER.reset()
            mill(read)
            work.append(METER.work)
    assert work[3] - work[2] <= 1.002 * 2 * (work[2] - work[1]), f"work {work[1:]}"
