"""`plan` reports faults and warnings before the run does."""

import json
import re

import pytest

from gristmill.engine.mill import find_warnings
from gristmill.errors import UserError
from sharded import Corpus

MIX = "mix: {tokens: %s, domains: {notes: 0.7, tales: 0.3}, max_epochs: 9}"


@pytest.fixture
def corpus(project):
    corpus_project = Corpus(project)
    corpus_project.recipe(MIX % "40k")
    return corpus_project


def test_an_impossible_mixture_is_reported_as_run_reports_it(corpus, say):
    """It is reported once the shards exist, in text and in JSON; before that, plan says nothing about it."""
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

    corpus.write("tales", 30, 13)  # the sizes of the new shards are not known yet
    assert say("plan", recipe).code == 0


def test_plan_shows_the_warnings_of_the_coming_run(corpus, say):
    """The text is the same; once the mixture is built, plan does not repeat it."""
    recipe = corpus.project.recipe
    corpus.run()
    corpus.recipe(MIX.replace("max_epochs: 9", "max_epochs: {notes: 9, tales: 1}") % "40k")
    planned = say("plan", recipe)
    (warned,) = [line for line in planned.out.splitlines() if line.startswith("WARNING")]
    assert "max_epochs limits tales to" in warned
    assert planned.code == 0
    assert warned.removeprefix("WARNING: ") in find_warnings(corpus.project.run())
    assert "WARNING" not in say("plan", recipe).out


def test_no_step_waits_for_a_tokenizer_file(corpus, say, edit):
    """Its bytes are known before the run, so plan knows at once what has to be encoded."""
    corpus.run()
    other = corpus.folder / "other.json"
    other.write_bytes((corpus.folder / "tokenizer.json").read_bytes() + b"\n")
    edit(corpus.project.recipe, "file: tokenizer.json", "file: other.json")
    result = json.loads(say("plan", corpus.project.recipe, "--json").out)
    stages = {stage["stage"]: stage for stage in result["stages"]}
    assert stages["all/tokenizer"]["to_run"] == 1
    assert (stages["all/tokens"]["to_run"], stages["all/tokens"]["waiting"]) == (2, 0)
    assert stages["all/tokens"]["why"] == ["its input changed (2 tasks)"]
    assert stages["all/shards"]["why"] == ["waits for all/tokens"]
    assert result["disk"]["needed_bytes"] >= other.stat().st_size


def test_tiers_and_weights_without_shards_give_a_hint(project, say, edit):
    """Plan and run show it once, in text and in JSON."""
    project.write_recipe("  - stagebox.length")
    assert "no effect" not in say("plan", project.recipe).out
    edit(project.recipe, "kind: text,", "kind: text, tier: A, weight: text_bytes,")
    hint = "tier (of notes) and weight (of notes) have no effect as long as the recipe has no shards: section."
    assert say("plan", project.recipe).out.count(hint) == 1
    assert json.loads(say("plan", project.recipe, "--json").out)["idle"] == hint
    ran = say("run", project.recipe)
    assert (ran.out + ran.err).count("no effect") == 1
    assert json.loads(say("run", project.recipe, "--json").out)["notes"] == [hint]


def test_tiers_with_shards_give_no_hint(corpus, say):
    """Tiers sort the shards."""
    assert "no effect" not in say("plan", corpus.project.recipe).out


def test_equal_steps_of_many_sources_share_one_line(project, say):
    """With few sources, each has its own line."""
    for number, expected in ((3, "s1/corpus"), (5, "corpus of 5 sources")):
        sources = "".join(
            f"  s{index}: {{kind: text, read: {{format: jsonl, paths: ['in/0{index % 4}.jsonl']}}}}\n"
            for index in range(number)
        )
        project.recipe.write_text(f"recipe: many\nstore: ./store\nsources:\n{sources}steps: [signals]\n")
        shown = say("plan", project.recipe).out
        assert expected in shown
        assert ("s1/corpus" in shown) == (number == 3)
        assert "s1/ingest" in shown


def test_plan_explains_a_mixture_without_weights(corpus, say):
    """In one line: each domain's share of the tokens, once they are known, and how to weigh."""
    recipe = corpus.project.recipe
    corpus.recipe("mix: {tokens: 40k}")
    assert "proportion to its tokens (the run counts them)" in " ".join(say("plan", recipe).out.split())
    corpus.run()
    corpus.recipe("mix: {tokens: 50k}")
    shown = " ".join(say("plan", recipe).out.split())
    assert re.search(
        r"its tokens: \w+ \d\d\.\d%, \w+ \d\d\.\d%\. .*To weigh: mix: {domains: {notes: 0\.5, tales: 0\.5}}", shown
    )
    assert json.loads(say("plan", recipe, "--json").out)["before_publishing"][-1].startswith("mix has no weights")
    for weights in ("domains: {notes: 0.7, tales: 0.3}", "temperature: 2", "upsample: {notes: 2}"):
        corpus.recipe(f"mix: {{tokens: 40k, {weights}}}")
        assert "mix has no weights" not in say("plan", recipe).out


def test_plan_and_the_report_name_what_unguarded_shards_lack(corpus, say, tmp_path):
    """Shards without decontaminate and scrub; a step that only some sources take counts for these."""
    recipe, page = corpus.project.recipe, tmp_path / "report.html"
    lacks = (
        "Published without decontaminate (benchmarks may be in the text) and without scrub (personal data and secrets"
    )
    assert lacks in " ".join(say("plan", recipe).out.split())
    assert say("run", recipe).code == 0
    assert say("report", recipe, "--out", page).code == 0
    assert lacks in page.read_text()
    text = recipe.read_text()
    recipe.write_text(text.replace("steps: []", "steps: [scrub]"))
    assert "Published without decontaminate (benchmarks may be in the text)." in say("plan", recipe).out
    recipe.write_text(
        text.replace("  tales: {kind: text", "  tales: {kind: code").replace("[]", "{text: [scrub], code: []}")
    )
    assert "secrets may be in the text, sources tales)" in " ".join(say("plan", recipe).out.split())
    recipe.write_text(text.partition("tokenizer:")[0])
    assert "Published" not in say("plan", recipe).out
