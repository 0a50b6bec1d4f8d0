"""A pinned tokenizer: an edit elsewhere trains nothing, and encodes only what it changed."""

import json
import random
import sys

import pytest

from gristmill.cli.main import main
from gristmill.errors import UserError
from gristmill.loader import Loader
from gristmill.query.sizing.disk import estimate
from gristmill.query.sizing.plan import make_plan
from gristmill.query.versions.pinning import tokenizer_hint

WORDS = ["mill", "grain", "stone", "water", "wheel", "flour"]
TOKENIZER = """tokenizer:  # of our own
  # as much as there is
  train: {vocab: 520, held_out_share: 0.1, sample_bytes: {prose: 8KB}}
"""


@pytest.fixture
def small(project):
    """Two parts: only the second has documents that a higher threshold drops."""
    for path in (project.folder / "in").iterdir():
        path.unlink()
    draw = random.Random(3)
    for name, least in (("a", 12), ("b", 2)):
        texts = [" ".join(draw.choices(WORDS, k=draw.randint(least, 20))) for _ in range(40)]
        (project.folder / "in" / f"{name}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    project.recipe.write_text(
        "recipe: project\nseed: 3\nstore: ./store\nsources:\n"
        "  notes: {kind: text, domain: prose, read: {format: jsonl, paths: ['in/*.jsonl'], part_bytes: 3KB}}\n"
        f"steps:\n  - stagebox.length\n  - stagebox.longer_than: {{chars: 12}}\n{TOKENIZER}"
        "shards: {seq_len_tokens: 64, shard_tokens: 2000}\nmix: {tokens: 4k, max_epochs: 50}\n"
    )
    return project


def pin(project, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gristmill", "tokenizer", "pin", str(project.recipe)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def hint(project):
    mill = project.mill()
    return tokenizer_hint(mill, mill.dry_run())


def plan(project):
    mill = project.mill()
    return make_plan(mill, mill.dry_run())


def waits(project, step):
    return next(stage.why for stage in plan(project) if stage.id == step)


@pytest.mark.slow
def test_a_pinned_tokenizer_outlives_a_threshold(small, edit, monkeypatch):
    """Unpinned, a plan says what an edit costs; pinned, it costs the parts that it changed."""
    assert hint(small) is None
    first = small.run()
    before = small.parts(first)
    assert hint(small) is None
    edit(small.recipe, "chars: 12", "chars: 40")
    documents = first.states["all/tokens"].metrics["documents"]
    fix = f"`gristmill tokenizer pin {small.recipe}`"
    reported = f"trained again, and all {documents} documents encoded again. To keep the current one: {fix}"
    assert reported in hint(small)

    assert pin(small, monkeypatch) == 0
    assert "is that of the last run" in hint(small)
    assert "it is not trained again" in hint(small)
    assert waits(small, "all/tokens") == ("waits for all/longer_than",)
    edit(small.recipe, "chars: 40", "chars: 12")
    assert [stage.id for stage in plan(small) if stage.to_run or stage.waiting] == ["all/tokenizer"]
    mill = small.mill()
    disk = estimate(mill.dry_run(), mill.store, mill.known_before())
    assert disk.added_bytes <= 4 * 4096  # records, and no tokenizer
    edit(small.recipe, "chars: 12", "chars: 40")
    file = small.folder / "recipe.tokenizer.json"
    pinned = file.read_bytes()
    file.write_bytes(pinned + b"\n")
    assert f"differs from that of the last run ({first.states['all/tokenizer'].layers['', (0, 0)][0].hash[:12]})" in (
        hint(small)
    )
    assert f"all documents ({documents} in the last run) are encoded again" in hint(small)
    file.write_bytes(pinned)
    assert f"  # as much as there is\n  pin: recipe.tokenizer.json\n  train: {{{TOKENIZER.split('{')[1]}" in (
        small.recipe.read_text()
    )
    edit(small.recipe, "chars: 40", "chars: 12")
    same = small.run()
    assert "all/tokens" not in small.executed(same)
    assert small.parts(same)["all/shards"] == before["all/shards"]
    assert small.parts(same)["all/tokenizer"] == before["all/tokenizer"]

    edit(small.recipe, "chars: 12", "chars: 40")
    changed = small.run()
    assert "all/tokenizer" not in small.executed(changed)
    assert small.executed(changed)["all/tokens"] == 1 < len(changed.states["all/tokens"].tasks)
    assert changed.states["all/tokens"].metrics["documents"] < documents
    with Loader(changed.shards) as loader:
        assert len(loader)


@pytest.mark.slow
def test_there_must_be_something_to_pin(small, edit, monkeypatch, capfd):
    """A tokenizer that was trained before, and a file whose name is free."""
    assert pin(small, monkeypatch) == 2
    assert "has no tokenizer of" in capfd.readouterr().err
    small.run(until="tokenizer")
    (small.folder / "recipe.tokenizer.json").write_text("{}")
    recipe = small.recipe.read_text()
    assert pin(small, monkeypatch) == 2
    assert "exists with other content" in capfd.readouterr().err
    assert small.recipe.read_text() == recipe
    (small.folder / "recipe.tokenizer.json").unlink()
    (small.folder / "recipe.tokenizer.json").mkdir()
    assert pin(small, monkeypatch) == 2
    assert "is a folder, so nothing was written. Name a file: --out" in capfd.readouterr().err
    (small.folder / "recipe.tokenizer.json").rmdir()
    assert pin(small, monkeypatch) == 0
    edit(small.recipe, "  pin: recipe.tokenizer.json\n", "")
    edit(small.recipe, "  train:", "  file: recipe.tokenizer.json\n  #")
    assert pin(small, monkeypatch) == 2
    assert "trains no tokenizer, so there is nothing to pin" in capfd.readouterr().err


def test_pinning_twice_changes_nothing_and_says_so(small, edit, monkeypatch, capfd):
    """Unless the last run used another one than the recipe names: then the message says how to use that one."""
    small.run(until="tokenizer")
    assert pin(small, monkeypatch) == 0
    before = {path: path.read_bytes() for path in (small.recipe, small.folder / "recipe.tokenizer.json")}
    for _ in range(2):  # also after a run that goes by the pin
        capfd.readouterr()
        assert pin(small, monkeypatch) == 0
        assert "is already pinned to recipe.tokenizer.json" in capfd.readouterr().out
        small.run(until="tokenizer")
    assert before == {path: path.read_bytes() for path in before}
    edit(small.recipe, "  pin: recipe.tokenizer.json\n", "")
    edit(small.recipe, "vocab: 520", "vocab: 530")
    small.run(until="tokenizer")
    small.recipe.write_bytes(before[small.recipe])
    assert pin(small, monkeypatch) == 2
    assert "its last run used another tokenizer" in (said := capfd.readouterr().err)
    assert "remove the line `pin: recipe.tokenizer.json` from the recipe" in said
    assert small.recipe.read_bytes() == before[small.recipe]


def test_a_tokenizer_that_is_a_file_needs_no_run(small, edit, monkeypatch, capfd):
    """Pinned or named, the commands use it, even if no part of the current recipe has run."""

    def typed(*arguments):
        monkeypatch.setattr(sys, "argv", ["gristmill", "tokenizer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capfd.readouterr()

    small.run(until="tokenizer")
    tokens, show = ("show", small.recipe, "the mill", "--json"), ("show", small.recipe)
    before = [typed(*tokens), typed(*show)]
    assert [code for code, _ in before] == [0, 0]
    assert pin(small, monkeypatch) == 0
    capfd.readouterr()
    assert [typed(*tokens), typed(*show)] == before
    edit(small.recipe, "  pin: recipe.tokenizer.json\n", "")
    edit(small.recipe, "  train:", "  file: recipe.tokenizer.json\n  #")
    with (small.folder / "in" / "a.jsonl").open("a") as file:
        file.write('{"text": "one more"}\n')
    assert [typed(*tokens), typed(*show)] == before
    assert [typed(*one, "--store", small.folder / "empty") for one in (tokens, show)] == before
    _, said = typed("audit", small.recipe, "--out", small.folder / "audit.json", "--sizes", "512")
    assert "Run: gristmill" not in said.err
    assert (small.folder / "audit.json").exists()


def test_only_what_a_recipe_trained_can_be_pinned(small, edit):
    """Another tokenizer may need the library, whose version must then be in every key."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    Tokenizer(WordLevel({"<|endoftext|>": 0, "mill": 1}, "mill")).save(str(small.folder / "other.json"))
    edit(small.recipe, "  train:", "  pin: other.json\n  train:")
    with pytest.raises(UserError, match=r"not a tokenizer that a recipe trained.*file"):
        small.run()
