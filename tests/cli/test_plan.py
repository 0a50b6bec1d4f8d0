"""What plan says of things that only a run used to say."""

import json

import pytest

from gristmill.engine.mill import find_warnings
from gristmill.errors import UserError
from sharded import Corpus

MIX = "mix: {tokens: %s, domains: {notes: 0.7, tales: 0.3}, max_epochs: 9}"


@pytest.fixture
def corpus(project):
    made = Corpus(project)
    made.recipe(MIX % "40k")
    return made


def test_a_mixture_that_cannot_be_is_told_as_run_tells_it(corpus, say):
    """As soon as the shards are there, also to a program; before that nothing is said."""
    recipe = corpus.project.recipe
    corpus.recipe(MIX % "100B")
    assert say("plan", recipe).code == 0
    corpus.recipe(MIX % "40k")
    corpus.run()
    assert say("plan", recipe).code == 0

    corpus.recipe(MIX % "100B")
    planned, result = say("plan", recipe), say("plan", recipe, "--json")
    with pytest.raises(UserError, match="the mixture needs 100,000,000,000 tokens") as refused:
        corpus.run()
    assert (planned.code, planned.err) == (2, f"gristmill: {refused.value}\n")
    assert "all/mix" in planned.out
    assert (result.code, json.loads(result.out)["mixture"]["fault"]) == (2, str(refused.value))

    corpus.write("tales", 30, 13)  # other shards: what they will hold nobody knows
    assert say("plan", recipe).code == 0


def test_what_run_will_warn_of_is_told_by_plan(corpus, say):
    """The same words; once the mixture is made, it is not said again."""
    recipe = corpus.project.recipe
    corpus.run()
    corpus.recipe(MIX.replace("max_epochs: 9", "max_epochs: {notes: 9, tales: 1}") % "40k")
    planned = say("plan", recipe)
    (warned,) = [line for line in planned.out.splitlines() if line.startswith("WARNING")]
    assert "max_epochs limits tales to" in warned
    assert planned.code == 0
    assert warned.removeprefix("WARNING: ") in find_warnings(corpus.project.run())
    assert "WARNING" not in say("plan", recipe).out


def test_a_tokenizer_that_is_named_is_waited_for_by_nobody(corpus, say, edit):
    """Its bytes are known before it is taken in: what is to be encoded with it is told at once."""
    corpus.run()
    other = corpus.folder / "other.json"
    other.write_bytes((corpus.folder / "tokenizer.json").read_bytes() + b"\n")
    edit(corpus.project.recipe, "file: tokenizer.json", "file: other.json")
    result = json.loads(say("plan", corpus.project.recipe, "--json").out)
    stages = {one["stage"]: one for one in result["stages"]}
    assert stages["all/tokenizer"]["to_run"] == 1
    assert (stages["all/tokens"]["to_run"], stages["all/tokens"]["waiting"]) == (2, 0)
    assert stages["all/tokens"]["why"] == ["its input changed (2 tasks)"]
    assert stages["all/shards"]["why"] == ["waits for all/tokens"]
    assert result["disk"]["needed_bytes"][0] >= other.stat().st_size


def test_tiers_and_weights_without_shards_are_said_to_do_nothing(project, say, edit):
    """Once, by plan and by run, also to a program; a recipe with shards hears nothing."""
    project.write_recipe("  - stagebox.length")
    assert "no effect" not in say("plan", project.recipe).out
    edit(project.recipe, "kind: text,", "kind: text, tier: A, weight: text_bytes,")
    hint = "tier (of notes) and weight (of notes) have no effect as long as the recipe has no shards: section."
    assert say("plan", project.recipe).out.count(hint) == 1
    assert json.loads(say("plan", project.recipe, "--json").out)["idle"] == hint
    ran = say("run", project.recipe)
    assert (ran.out + ran.err).count("no effect") == 1
    assert json.loads(say("run", project.recipe, "--json").out)["notes"] == [hint]


def test_nothing_is_said_of_tiers_where_there_are_shards(corpus, say):
    """They sort them."""
    assert "no effect" not in say("plan", corpus.project.recipe).out


def test_steps_that_many_sources_have_each_for_itself_are_one_line(project, say):
    """Where they say the same; with few sources each has its line."""
    for number, expected in ((3, "s1/corpus"), (5, "corpus of 5 sources")):
        sources = "".join(
            f"  s{one}: {{kind: text, read: {{format: jsonl, paths: ['in/0{one % 4}.jsonl']}}}}\n"
            for one in range(number)
        )
        project.recipe.write_text(f"recipe: many\nstore: ./store\nsources:\n{sources}steps: [signals]\n")
        shown = say("plan", project.recipe).out
        assert expected in shown
        assert ("s1/corpus" in shown) == (number == 3)
        assert "s1/ingest" in shown
