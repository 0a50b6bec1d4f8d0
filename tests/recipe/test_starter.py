"""The recipe that `gristmill init` writes can run."""

import re
from pathlib import Path

from gristmill.recipe.fields import ReadFields
from gristmill.recipe.load import load
from gristmill.recipe.starter import STARTER
from gristmill.stages.config_types import parse_bytes


def test_starter_loads_as_it_is(tmp_path: Path) -> None:
    """The starter has no mistake in any environment, and all its paths are in its folder."""
    file = tmp_path / "recipe.yaml"
    file.write_text(STARTER)
    recipe = load(file, env={})
    assert list(recipe.sources) == ["crawl"]
    assert [step.id for step in recipe.routes["crawl"]] == ["web/extract"]
    assert recipe.store == f"{tmp_path}/store"
    assert recipe.sources["crawl"].paths == (f"{tmp_path}/data/crawl/**/*.warc.gz",)


def test_the_comments_of_the_starter_load_too(tmp_path: Path) -> None:
    """Removing the # of any suggested field or source gives a recipe without a mistake."""
    commented = re.compile(r"^(\s+)# (?=[a-z_]+:| )", re.MULTILINE)
    text, taken_off = commented.subn(r"\1", STARTER)
    assert taken_off == 16
    file = tmp_path / "recipe.yaml"
    file.write_text(text)
    recipe = load(file, env={})
    assert list(recipe.sources) == ["crawl", "notes", "projects"]
    crawl = recipe.sources["crawl"]
    assert (crawl.license, crawl.part_bytes) == ("CC-BY-4.0", 64 * 2**20)
    assert crawl.snapshots_of(["/x/crawl/2024-10/a.warc.gz"]) == ["2024-10"]


def test_the_starter_offers_the_steps_of_fineweb(tmp_path: Path) -> None:
    """Removing the # gives the steps of the recipe of that name in its order, except line_dedup and quality."""
    text, taken_off = re.subn(r"^(\s+)# (?=- )", r"\1", STARTER, flags=re.MULTILINE)
    assert taken_off == 11
    (tmp_path / "recipe.yaml").write_text(text)
    offered = load(tmp_path / "recipe.yaml", env={}).routes["crawl"]
    web = load(
        Path(__file__).parents[2] / "recipes" / "web.yaml", env={"CRAWL": str(tmp_path), "REFERENCE": str(tmp_path)}
    )
    ours = re.compile("robots|line_counts|line_dedup|quality.*|keep_quality")
    names = [step.name for step in web.routes["crawl"]]
    assert [step.name for step in offered] == [name for name in names if not ours.fullmatch(name)]


def test_starter_says_the_defaults() -> None:
    """A value that the starter shows in a comment as the default is the default."""
    shown = re.search(r"# part_bytes: (\S+)", STARTER)
    assert shown
    assert parse_bytes(shown[1]) == ReadFields.model_fields["part_bytes"].default
