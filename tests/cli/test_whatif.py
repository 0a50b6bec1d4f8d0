"""`gristmill whatif` on a recipe with several routes: what each figure covers, which steps a change means, and
mistakes.
"""

import json
import shutil

import pytest

from gristmill.query.removal.funnel import funnels


@pytest.fixture
def whatif_json(routes, say):
    def run_whatif(*changes):
        output = say("whatif", routes.project.recipe, *changes, "--json")
        assert output.code == 0, output.err
        return [json.loads(line) for line in output.out.splitlines()]

    return run_whatif


def test_figures_equal_the_funnel_and_name_their_sources(routes, whatif_json, say):
    """They count documents of the sources that pass the step, and show the corpus after the change."""
    change = "web/heuristics.gopher_quality.min_words=1000"
    (answer,) = whatif_json(change)
    funnel = funnels(routes.run)["crawl"]
    assert answer["documents"] == funnel["read"]["rows"] < funnel["records"]
    assert (answer["corpus"], answer["corpus_bytes"]) == (funnel["kept"]["rows"], funnel["kept"]["text_bytes"])
    assert answer["go"]["documents"] > 0
    assert answer["corpus_after"] == answer["corpus"] - answer["go"]["documents"]
    assert answer["corpus_after_bytes"] == answer["corpus_bytes"] - answer["go"]["bytes"]
    shown = say("whatif", routes.project.recipe, change).out
    assert "of crawl " in shown
    assert f"of the {answer['documents']} read" in shown
    assert "corpus after" in shown
    assert "Not included, because they do not pass web/heuristics: notes, lists." in shown


def test_examples_fit_a_narrow_screen(routes, say, monkeypatch):
    """Examples are cut to the width of the screen."""
    monkeypatch.setenv("COLUMNS", "60")
    output = say("whatif", routes.project.recipe, "web/heuristics.gopher_quality.min_words=1000")
    examples = output.out.partition("would be removed, by reason")[2].splitlines()[1:]
    assert len(examples) > 3
    assert max(map(len, examples)) <= 60


def test_only_steps_that_can_drop_are_listed_as_not_judged(whatif_json):
    """The passes of a deduplication that only collect are not listed."""
    (answer,) = whatif_json("web/heuristics.gopher_quality.min_words=1")
    assert answer["not_judged_by"] == ["web/near_dedup", "all/exact_dedup"]


@pytest.mark.slow
def test_a_plain_step_name_applies_to_every_route_that_has_it(whatif_json, say, routes):
    """Each answer names its step; a full name means one step; a rule set means the steps that use it."""
    for change, steps in (
        ("keep_language.keep.en=0.99", ["web/keep_language", "text/keep_language"]),
        ("keep_language.min_probability=0.2", ["web/keep_language", "text/keep_language"]),
        ("text/keep_language.keep.en=0.99", ["text/keep_language"]),
        ("heuristics.gopher_quality.min_words=20", ["web/heuristics", "text/heuristics"]),
        ("heuristics.c4.min_sentences=3", ["web/heuristics"]),
    ):
        assert [answer["step"] for answer in whatif_json(change)] == steps
    shown = say("whatif", routes.project.recipe, "keep_language.keep.en=0.99").out
    assert 0 <= shown.find("web/keep_language keep.en: 0.5") < shown.find("text/keep_language keep.en: 0.5")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "web/heuristics.gopher_quality.min_words=1",
            "does not apply to de: the recipe has another value. "
            "To change that: web/heuristics.gopher_quality.by_language.de.min_words=VALUE",
        ),
        (
            "web/keep_language.min_probability=0.99",
            "does not apply to en: the recipe has another value. To change that: web/keep_language.keep.en=VALUE",
        ),
    ],
)
def test_a_setting_with_exceptions_lists_them(routes, say, whatif_json, change, message):
    """They explain an answer of zero documents."""
    assert message in say("whatif", routes.project.recipe, change).out
    assert message in whatif_json(change)[0]["exceptions"][0]
    assert whatif_json("text/heuristics.gopher_quality.min_stop_words=1")[0]["exceptions"] == []
    (message,) = whatif_json("text/heuristics.gopher_quality.max_mean_word_chars=11")[0]["exceptions"]
    assert message.startswith("gopher_quality.max_mean_word_chars overrides the thresholds of other languages")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "text.heuristics.gopher_quality.min_words=1",
            "no step text that can be evaluated. Steps that can be evaluated: ",
        ),
        ("gopher_quality.min_words=1", "no step gopher_quality that can be evaluated. Steps that can be evaluated: "),
        ("heuristcs.gopher_quality.min_words=1", "mean heuristics.gopher_quality.min_words?"),
        ("heuristics.min_sentences=1", "heuristics.min_sentences is not a field. Fields: rules, "),
        ("signals.blocked_terms=[a]", "web/signals drops no document"),
    ],
)
def test_a_wrong_path_is_refused_with_the_right_names(routes, say, change, message):
    """The exit code is 2."""
    output = say("whatif", routes.project.recipe, change)
    assert output.code == 2
    assert message in output.err


@pytest.mark.parametrize("command", [("plan", "RUN"), ("whatif", "RUN", "heuristics.c4.min_sentences=3")])
def test_a_run_instead_of_a_recipe_is_refused_with_advice(routes, say, command):
    """The message says how to get the recipe and what the store alone can show; a wrong name gets a suggestion."""
    store = routes.project.store
    output = say(*(f"{store}@routes" if word == "RUN" else word for word in command))
    assert output.code == 2
    assert "needs the recipe file, its inputs" in output.err
    assert f"gristmill status {store}@routes --recipe > recipe.yaml" in output.err
    assert f"gristmill funnel {store}@routes --by rule" in output.err
    assert "Did you mean routes?" in say(*(f"{store}@rotes" if word == "RUN" else word for word in command)).err


def test_the_recipe_of_a_run_is_in_its_store(routes, say):
    """`status --recipe` prints it unchanged."""
    output = say("status", f"{routes.project.store}@routes", "--recipe")
    assert output.out.strip() == routes.project.recipe.read_text().strip()


def test_without_inputs_the_message_points_to_the_store(routes, say, tmp_path):
    """The store knows what was removed and why."""
    recipe, store = tmp_path / "recipe.yaml", routes.project.store
    shutil.copy(routes.project.recipe, recipe)
    for command in (("whatif", recipe, "heuristics.c4.min_sentences=3"), ("plan", recipe)):
        output = say(*command, "--store", store)
        assert output.code == 2
        assert "matches no file" in output.err
        assert f"gristmill funnel {store}@routes --by rule" in output.err


@pytest.mark.slow
def test_only_steps_of_the_recipe_are_named(everything, copy_of, say, edit):
    """Internal stages are never suggested or listed; the step or field that they belong to is."""
    recipe = copy_of(everything).recipe
    answer = json.loads(say("whatif", recipe, "web/keep_language.keep.en=0.4", "--json").out)
    assert answer["not_judged_by"][-1] == "all/scrub"  # shards are made of what is kept
    assert "all/line_counts" not in answer["not_judged_by"]
    for change, named in (
        ("tokens.x=1", "shards compares many documents"),
        ("near_candidates.bands=3", "all/near_dedup compares"),
    ):
        refused = say("whatif", recipe, change)
        assert refused.code == 2
        assert named in refused.err
        assert "all/tokens" not in refused.err
    edit(recipe, "max_count: 3", "max_count: 2")
    waits = say("whatif", recipe, "web/keep_language.keep.en=0.4").err
    assert "6 steps have not run with the current recipe (the first: all/line_dedup)" in waits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seq_len_tokens: 128", "seq_len_tokens: 64"),
        ("mix: {tokens: 4k", "mix: {tokens: 5k"),
        ("file: tokenizer.json", "train: {vocab: 520, sample_bytes: {web: 1KB, text: 1KB}}"),
    ],
)
def test_whatif_needs_no_run_of_shards_and_mix(everything, copy_of, say, edit, old, new):
    """Mix, shards and tokenizer judge no document, so the answer is the same before and after a change of them."""
    recipe = copy_of(everything).recipe
    command = ("whatif", recipe, "web/keep_language.keep.en=0.999", "--json")
    before = say(*command).out
    edit(recipe, old, new)
    after = say(*command)
    assert after.code == 0, after.err
    assert after.out == before
    assert json.loads(before)["corpus"] == funnels(everything.run)["crawl"]["kept"]["rows"]


def test_a_built_in_exception_is_named_as_such(project, say):
    """Rules for code have built-in exceptions by language; a rule that is off is shown as none, as in the docs."""
    (project.folder / "in" / "src").mkdir()
    (project.folder / "in" / "src" / "mill.py").write_text("# grinds\nprint('the mill grinds grain')\n" * 20)
    project.recipe.write_text(
        "recipe: project\nseed: 3\nstore: ./store\nsources:\n"
        "  code: {kind: code, read: {format: code, paths: ['in/src/*.py']}}\n"
        "steps:\n  - signals\n  - code_signals\n"
        "  - heuristics: {code: {by_language: {go: {min_chars: 10}, yaml: {min_chars: 60}}}}\n"
    )
    project.run()
    output = say("whatif", project.recipe, "heuristics.code.min_chars=200").out
    assert "all/heuristics code.min_chars: none -> 200" in output
    assert "does not apply to json: a built-in exception applies. To change that: all/" in output
    assert "does not apply to yaml, go: the recipe has another value." in output
    shown = say("whatif", project.recipe, "heuristics.code.notebook=false").out
    assert "code.notebook: true -> false" in shown


def test_a_recipe_without_an_evaluable_step_is_refused(project, say):
    """The message says so instead of printing an empty list."""
    project.write_recipe("  - exact_dedup\n")
    output = say("whatif", project.recipe, "exact_dedup.scope=source")
    assert output.code == 2
    assert output.err.rstrip().endswith("It has no step that can be evaluated.")


@pytest.mark.parametrize(
    "change", ["near_dedup.verify_jaccard=0.5", "near_dedup.ngram=3", "near_dedup.keep.by=[length]"]
)
def test_an_unanswerable_near_dedup_change_says_what_to_run(routes, say, change):
    """The store only has the results of the current settings."""
    output = say("whatif", routes.project.recipe, change)
    assert output.code == 2
    assert "web/near_dedup compares many documents, and the store only has the results" in output.err
    assert "recipe.yaml --sample 10%" in output.err


def test_an_answer_is_a_bound_when_a_later_step_may_keep_another_copy(project, say):
    """Each text occurs three times with different spaces; when the kept one is removed, exact_dedup keeps the next."""
    texts = [f"the{gap}mill{gap}number{gap}{number} grinds" for number in range(3) for gap in (" ", "  ", "   ")]
    (project.folder / "in" / "00.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    steps = "  - signals\n  - heuristics: {{rules: [], own: ['signals.chars > {} -> too_long']}}\n  - exact_dedup\n"
    project.write_recipe(steps.format(99), pattern="in/00.jsonl")
    first = funnels(project.run())["notes"]["kept"]
    kept_chars = 0 if not first["rows"] else first["text_bytes"] // first["rows"]
    change = f"heuristics.own=['signals.chars == {kept_chars} -> too_long']"
    answer = json.loads(say("whatif", project.recipe, change, "--json").out)
    shown = say("whatif", project.recipe, change).out
    project.recipe.write_text(project.recipe.read_text().replace("> 99", f"== {kept_chars}"))
    after = funnels(project.run())["notes"]["kept"]["rows"]
    assert (first["rows"], answer["go"]["documents"], answer["corpus_after"], after) == (3, 3, 0, 3)
    assert (answer["corpus_after_is"], answer["copies_may_return_by"]) == ("at_least", ["all/exact_dedup"])
    assert "corpus after, at least" in shown
    assert "Removed documents may have copies that all/exact_dedup dropped or cut; those would then be kept." in shown


def test_a_mixture_is_tried_by_a_run(everything, say):
    """It costs seconds."""
    output = say("whatif", everything.project.recipe, "mix.tokens=3k")
    assert output.code == 2
    assert "The mixture is computed again in seconds" in output.err


@pytest.mark.parametrize(("min_words", "bound"), [(3, "at_most"), (30, "at_most"), (80, "estimate")])
def test_a_later_share_makes_the_answer_a_bound(project, say, min_words, bound):
    """A run with the setting keeps at most that many documents, even if no document of the corpus changes sides: the
    share of fewer documents is smaller.
    """
    texts = [f"{n} " + "mill " * n for n in range(2, 102)]
    (project.folder / "in.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    steps = "  - signals\n  - heuristics: {gopher_quality: {min_words: 20, min_stop_words: null}}\n"
    steps += "  - keep_quality: {score: signals.words, keep_best: 0.5}"
    project.write_recipe(steps, pattern="in.jsonl")
    before = funnels(project.run())["notes"]["kept"]["rows"]
    change = f"heuristics.gopher_quality.min_words={min_words}"
    (answer,) = [json.loads(line) for line in say("whatif", project.recipe, change, "--json").out.splitlines()]
    assert (answer["corpus_after_is"], answer["shares_kept_by"]) == (bound, ["all/keep_quality"])
    assert "all/keep_quality keeps a share" in say("whatif", project.recipe, change).out
    project.write_recipe(steps.replace("min_words: 20", f"min_words: {min_words}"), pattern="in.jsonl")
    after = funnels(project.run())["notes"]["kept"]["rows"]
    assert after != before
    if bound == "at_most":
        assert after < answer["corpus_after"]
    unchanged = say("whatif", project.recipe, change, "--json").out
    assert json.loads(unchanged)["corpus_after_is"] == "exact"
