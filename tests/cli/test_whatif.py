"""`gristmill whatif` on a recipe of several routes: of what each figure is, which steps are meant, what is wrong."""

import json
import random
import shutil

import pytest

from conftest import WORDS
from gristmill.engine.publish.folder import read_model
from gristmill.query.removal.funnel import funnels
from gristmill.stages.mix.tally import tally


@pytest.fixture
def asked(routes, say):
    def ask(*changes):
        told = say("whatif", routes.project.recipe, *changes, "--json")
        assert told.code == 0, told.err
        return [json.loads(line) for line in told.out.splitlines()]

    return ask


def test_figures_are_those_of_the_funnel_and_say_of_what_they_are(routes, asked, say):
    """Documents alone, of the sources that pass the step; and the corpus as it would be."""
    change = "web/heuristics.gopher_quality.min_words=1000"
    (told,) = asked(change)
    funnel = funnels(routes.run)["crawl"]
    assert told["documents"] == funnel["read"]["rows"] < funnel["records"]
    assert (told["corpus"], told["corpus_bytes"]) == (funnel["kept"]["rows"], funnel["kept"]["text_bytes"])
    assert told["go"]["documents"] > 0
    assert told["corpus_after"] == told["corpus"] - told["go"]["documents"]
    assert told["corpus_after_bytes"] == told["corpus_bytes"] - told["go"]["bytes"]
    shown = say("whatif", routes.project.recipe, change).out
    assert "of crawl " in shown
    assert f"of the {told['documents']} read" in shown
    assert "corpus after" in shown
    assert "Not included, because they do not pass web/heuristics: notes, lists." in shown


def test_examples_fit_a_narrow_screen(routes, say, monkeypatch):
    """They were cut to so many characters, whatever the width."""
    monkeypatch.setenv("COLUMNS", "60")
    told = say("whatif", routes.project.recipe, "web/heuristics.gopher_quality.min_words=1000")
    examples = told.out.partition("would be removed, by reason")[2].splitlines()[1:]
    assert len(examples) > 3
    assert max(map(len, examples)) <= 60


def test_only_steps_that_can_drop_are_named_as_still_to_come(asked):
    """Not the parts of a deduplication that only gather."""
    (told,) = asked("web/heuristics.gopher_quality.min_words=1")
    assert told["not_judged_by"] == ["web/near_dedup", "all/exact_dedup"]


@pytest.mark.slow
def test_a_plain_name_is_asked_in_every_route_that_has_it(asked, say, routes):
    """And each answer says which; a full name is one of them; a set of rules is asked where it is used."""
    for change, steps in (
        ("keep_language.keep.en=0.99", ["web/keep_language", "text/keep_language"]),
        ("keep_language.min_probability=0.2", ["web/keep_language", "text/keep_language"]),
        ("text/keep_language.keep.en=0.99", ["text/keep_language"]),
        ("heuristics.gopher_quality.min_words=20", ["web/heuristics", "text/heuristics"]),
        ("heuristics.c4.min_sentences=3", ["web/heuristics"]),
    ):
        assert [told["step"] for told in asked(change)] == steps
    shown = say("whatif", routes.project.recipe, "keep_language.keep.en=0.99").out
    assert 0 <= shown.find("web/keep_language keep.en: 0.5") < shown.find("text/keep_language keep.en: 0.5")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "told"),
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
def test_a_setting_that_others_override_says_which(routes, say, asked, change, told):
    """An answer of nothing is no surprise then."""
    assert told in say("whatif", routes.project.recipe, change).out
    assert told in asked(change)[0]["exceptions"][0]
    assert asked("text/heuristics.gopher_quality.min_stop_words=1")[0]["exceptions"] == []
    (told,) = asked("text/heuristics.gopher_quality.max_mean_word_chars=11")[0]["exceptions"]
    assert told.startswith("gopher_quality.max_mean_word_chars overrides the thresholds of other languages")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("text.heuristics.gopher_quality.min_words=1", "mean text/heuristics.gopher_quality.min_words?"),
        ("steps.web.heuristcs.c4.min_sentences=1", "mean web/heuristics.c4.min_sentences?"),
        ("my_module.heuristics.gopher_quality.min_words=1", "mean heuristics.gopher_quality.min_words?"),
        ("gopher_qualities.heuristics.gopher_quality.min_words=1", "mean heuristics.gopher_quality.min_words?"),
        ("gopher_quality.min_words=1", "mean heuristics.gopher_quality.min_words?"),
        ("heuristcs.gopher_quality.min_words=1", "mean heuristics.gopher_quality.min_words?"),
        ("heuristics.min_sentences=1", "mean c4.min_sentences?"),
        ("signals.blocked_terms=[a]", "web/signals drops no document"),
    ],
)
def test_a_path_from_another_level_names_the_right_one(routes, say, change, told):
    """Exit code 2."""
    said = say("whatif", routes.project.recipe, change)
    assert said.code == 2
    assert told in said.err


@pytest.mark.parametrize("command", [("plan", "RUN"), ("whatif", "RUN", "heuristics.c4.min_sentences=3")])
def test_a_run_in_place_of_a_recipe_says_where_the_recipe_is(routes, say, command):
    """And what comes from the store alone; a wrong name lists the right ones."""
    store = routes.project.store
    said = say(*(f"{store}@routes" if word == "RUN" else word for word in command))
    assert said.code == 2
    assert "needs the recipe file, its inputs" in said.err
    assert f"gristmill status {store}@routes --recipe > recipe.yaml" in said.err
    assert f"gristmill removed {store}@routes" in said.err
    assert "Did you mean routes?" in say(*(f"{store}@rotes" if word == "RUN" else word for word in command)).err


def test_the_recipe_of_a_run_is_in_its_store(routes, say):
    """As it was, ready for a file."""
    said = say("status", f"{routes.project.store}@routes", "--recipe")
    assert said.out.strip() == routes.project.recipe.read_text().strip()


def test_without_inputs_a_question_says_what_can_be_had(routes, say, tmp_path):
    """The store has what was removed and why."""
    recipe, store = tmp_path / "recipe.yaml", routes.project.store
    shutil.copy(routes.project.recipe, recipe)
    for command in (("whatif", recipe, "heuristics.c4.min_sentences=3"), ("plan", recipe)):
        said = say(*command, "--store", store)
        assert said.code == 2
        assert "matches no file" in said.err
        assert f"gristmill removed {store}@routes" in said.err


@pytest.mark.slow
def test_no_stage_is_named_that_nobody_wrote(everything, copy_of, say, edit):
    """Not as one to ask about, nor as one that has not judged or not run: the step or the field it stands for is."""
    recipe = copy_of(everything).recipe
    told = json.loads(say("whatif", recipe, "web/keep_language.keep.en=0.4", "--json").out)
    assert told["not_judged_by"][-1] == "all/scrub"  # shards are made of what is kept
    assert "all/line_counts" not in told["not_judged_by"]
    for asked, named in (
        ("tokens.x=1", "shards compares many documents"),
        ("near_candidates.bands=3", "all/near_dedup compares"),
    ):
        refused = say("whatif", recipe, asked)
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
def test_what_comes_behind_the_steps_need_not_have_run(everything, copy_of, say, edit, old, new):
    """Mix, shards and tokenizer decide about no document: the answer is the same before and after an edit of them."""
    recipe = copy_of(everything).recipe
    question = ("whatif", recipe, "web/keep_language.keep.en=0.999", "--json")
    before = say(*question).out
    edit(recipe, old, new)
    after = say(*question)
    assert after.code == 0, after.err
    assert after.out == before
    assert json.loads(before)["corpus"] == funnels(everything.run)["crawl"]["kept"]["rows"]


def test_an_exception_that_the_recipe_does_not_have_is_said_to_be_built_in(project, say):
    """Rules for code come with exceptions by language; and a rule that is off is none, as the docs say."""
    (project.folder / "in" / "src").mkdir()
    (project.folder / "in" / "src" / "mill.py").write_text("# grinds\nprint('the mill grinds grain')\n" * 20)
    project.recipe.write_text(
        "recipe: project\nseed: 3\nstore: ./store\nsources:\n"
        "  code: {kind: code, read: {format: code, paths: ['in/src/*.py']}}\n"
        "steps:\n  - signals\n  - code_signals\n"
        "  - heuristics: {code: {by_language: {go: {min_chars: 10}, yaml: {min_chars: 60}}}}\n"
    )
    project.run()
    said = say("whatif", project.recipe, "heuristics.code.min_chars=200").out
    assert "all/heuristics code.min_chars: none -> 200" in said
    assert "does not apply to json: a built-in exception applies. To change that: all/" in said
    assert "does not apply to yaml, go: the recipe has another value." in said
    shown = say("whatif", project.recipe, "heuristics.code.notebook=false").out
    assert "code.notebook: true -> false" in shown


def test_a_recipe_without_a_step_to_ask_about_says_so(project, say):
    """In place of an empty list."""
    project.write_recipe("  - exact_dedup\n")
    told = say("whatif", project.recipe, "exact_dedup.scope=source")
    assert told.code == 2
    assert told.err.rstrip().endswith("It has no step that can be evaluated.")


def _clusters(seed, sizes):
    """Texts of 120 words, in clusters of copies that differ in one to four words."""
    draw = random.Random(seed)
    words = [f"{one}{other}" for one in WORDS[:30] for other in WORDS[:30]]
    texts = []
    for size in sizes:
        base = draw.choices(words, k=120)
        for _ in range(size):
            copy = [*base]
            for place in draw.sample(range(120), draw.randint(0, 2)):
                copy[place] = draw.choice(words)
            texts.append(" ".join(copy))
    return texts


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "is_exact"), [((2,) * 8, True), ((2, 3, 4, 5, 3), False)])
def test_a_higher_threshold_of_near_dedup_is_answered(project, say, sizes, is_exact):
    """From the pairs in the store: exactly for clusters of two, and as an upper bound otherwise."""
    lines = [json.dumps({"text": text}) for text in _clusters(5, sizes)]
    (project.folder / "in" / "00.jsonl").write_text("\n".join(lines) + "\n")
    steps = "  - near_dedup: {{scope: global, verify_jaccard: {}}}\n"
    project.write_recipe(steps.format(0.6), pattern="in/00.jsonl")
    project.run()
    told = {}
    for threshold in (0.6, 0.9, 0.97):
        said = say("whatif", project.recipe, f"near_dedup.verify_jaccard={threshold}", "--json")
        told[threshold] = json.loads(said.out)
    came = []
    for threshold, answer in told.items():
        project.write_recipe(steps.format(threshold), pattern="in/00.jsonl")
        kept = funnels(project.run())["notes"]["kept"]
        assert answer["corpus_after_is"] in (("exact",) if is_exact else ("exact", "at_most"))
        assert answer["corpus_after"] >= kept["rows"]
        if answer["corpus_after_is"] == "exact":
            assert (answer["corpus_after"], answer["corpus_after_bytes"]) == (kept["rows"], kept["text_bytes"])
        came.append(answer["come"]["documents"])
    assert 0 == came[0] < came[1] <= came[2]
    assert any(answer["corpus_after_is"] == "at_most" for answer in told.values()) != is_exact


@pytest.mark.parametrize(
    "change", ["near_dedup.verify_jaccard=0.5", "near_dedup.ngram=3", "near_dedup.keep.by=[length]"]
)
def test_what_near_dedup_cannot_answer_says_why_and_what_to_run(routes, say, change):
    """A lower threshold and other shingles find pairs that no store holds."""
    said = say("whatif", routes.project.recipe, change)
    assert said.code == 2
    assert "For web/near_dedup, only a higher verify_jaccard can be evaluated. The store only has the pairs" in said.err
    assert "recipe.yaml --sample 10%" in said.err


def test_an_answer_is_a_bound_where_a_later_step_may_keep_another_copy(project, say):
    """Each text is there three times with other spaces; where the kept one goes, exact_dedup keeps the next."""
    texts = [f"the{gap}mill{gap}number{gap}{number} grinds" for number in range(3) for gap in (" ", "  ", "   ")]
    (project.folder / "in" / "00.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    steps = "  - signals\n  - heuristics: {{rules: [], own: ['signals.chars > {} -> too_long']}}\n  - exact_dedup\n"
    project.write_recipe(steps.format(99), pattern="in/00.jsonl")
    first = funnels(project.run())["notes"]["kept"]
    kept_chars = 0 if not first["rows"] else first["text_bytes"] // first["rows"]
    change = f"heuristics.own=['signals.chars == {kept_chars} -> too_long']"
    told = json.loads(say("whatif", project.recipe, change, "--json").out)
    shown = say("whatif", project.recipe, change).out
    project.recipe.write_text(project.recipe.read_text().replace("> 99", f"== {kept_chars}"))
    after = funnels(project.run())["notes"]["kept"]["rows"]
    assert (first["rows"], told["go"]["documents"], told["corpus_after"], after) == (3, 3, 0, 3)
    assert (told["corpus_after_is"], told["copies_may_return_by"]) == ("at_least", ["all/exact_dedup"])
    assert "corpus after, at least" in shown
    assert "Removed documents may have copies that all/exact_dedup dropped or cut; those would then be kept." in shown


@pytest.mark.slow
def test_another_mixture_is_answered_as_the_step_would_mix_it(everything, copy_of, say, edit):
    """The manifest of a run with that change, and no shards are made; a wrong domain is told."""
    project = copy_of(everything)
    recipe = project.recipe
    told = json.loads(say("whatif", recipe, "mix.domains={web: 0.8, text: 0.2}", "mix.tokens=3k", "--json").out)
    shown = say("whatif", recipe, "mix.tokens=3k").out
    wrong = say("whatif", recipe, "mix.domains={wbe: 1}")
    edit(recipe, "mix: {tokens: 4k, domains: {web: 0.5, text: 0.5}", "mix: {tokens: 3k, domains: {web: 0.8, text: 0.2}")
    after = read_model(project.run(), "mix")
    assert told["then"] == tally(after) != told["now"]
    assert "mix tokens: 4000 -> 3k" in shown
    assert shown.count("phase, domain, group") == 2
    assert wrong.code == 2
    assert "domains lists wbe, but the sources have text, web, so nothing was computed." in wrong.err


@pytest.mark.slow
def test_a_step_with_a_model_is_asked_with_its_model(everything, say):
    """decontaminate judges with the index of the suite, which the answer needs as a run does."""
    said = say("whatif", everything.project.recipe, "decontaminate.action=cut", "--json")
    assert said.code == 0, said.err
