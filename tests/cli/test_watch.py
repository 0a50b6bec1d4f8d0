"""gristmill watch: a seeded regression raises the alarm that names it, and another sample raises none."""

import json
import random
import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import Project
from tests.cli.seeded_regressions import EXTRACTOR, SEEDED, caught, write

from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent, alarm_lines, find_warnings
from gristmill.errors import UserError
from gristmill.query.documents.histograms import DrawnValues
from gristmill.query.versions import comparisons
from gristmill.query.versions.distances import (
    changes_of_shares,
    count_limit,
    distance,
    ks_limit,
    moved_limit,
    rate_limit,
)
from gristmill.query.watch import compare, make_watch, open_against
from gristmill.recipe.sections.watch import WatchFields

NOUNS = ("miller", "river", "village", "harvest", "flour", "baker", "market", "barn", "meadow", "carpenter", "wheel")
VERBS = ("carried", "repaired", "watched", "painted", "followed", "visited", "opened", "described", "measured")
PLACES = ("near the old town", "in the early morning", "before the rain came", "after a long walk", "on the hill")
MENU = "<ul>" + "".join(f"<li><a href='/{noun}'>{noun}</a></li>" for noun in NOUNS) + "</ul>"


def article(draw):
    """About 100 words of English, in lines of one sentence."""
    sentences = []
    for _ in range(9):
        who, whom = draw.sample(NOUNS, 2)
        sentences.append(
            f"The {who} {draw.choice(VERBS)} the {whom} and that {draw.choice(NOUNS)} {draw.choice(PLACES)}."
        )
    return sentences


def documents(number):
    """Pages with menus, and notes. A page at an odd place, of the second snapshot, often repeats the one before it."""
    draw = random.Random(3)
    pages = []
    for place in range(number):
        repeats = place % 2 == 1 and draw.random() < 0.3
        lines = lines if repeats else article(draw)  # noqa: F821
        body = "".join(f"<p>{line}</p>" for line in lines)
        pages.append(f"<html><body><nav>{MENU}</nav><article>{body}</article><footer>{MENU}</footer></body></html>")
    return pages, ["\n".join(article(draw)) for _ in range(number // 2)]


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A project whose store holds a run, tagged v1."""
    project = Project(tmp_path_factory.mktemp("watched"))
    write(project.folder, *documents(160), seed=0)
    (project.folder / "keeps_all.py").write_text(EXTRACTOR)
    run = project.run()
    project.mill().store.write_json("versions/v1.json", project.mill().newest_whole())
    return SimpleNamespace(project=project, run=run, text=project.recipe.read_text())


@pytest.fixture
def recipe(watched):
    """Write the recipe with changes; it is restored afterwards."""

    def change(*replaced, top="", shards=False):
        text = watched.text if shards else watched.text.partition("tokenizer:")[0]
        for before, after in replaced:
            assert before in text
            text = text.replace(before, after)
        watched.project.recipe.write_text(f"{text}\n{top}\n")
        return watched.project

    yield change
    watched.project.recipe.write_text(watched.text)


@pytest.mark.parametrize("name", SEEDED)
def test_a_seeded_regression_is_named(name, watched, recipe):
    """With default settings, an alarm of the right kind names the cause, and it is shown first."""
    before, after, what, where = SEEDED[name]
    run = recipe((before, after), shards=name == "tokenizer").run()
    found = compare(run, open_against(run.store, "v1"))
    assert caught(found, what, where), [alarm.message for alarm in found.alarms]
    (named, *_) = [alarm for alarm in found.alarms if alarm.what == what and where in alarm.message]
    assert named.cause == 0
    (line,) = alarm_lines(found.as_record()["alarms"])
    assert line.startswith(found.alarms[0].message.partition(" To look: ")[0])
    assert found.alarms[0].step == {"navigation": "web/extract"}.get(name, named.step)
    assert all(alarm.distance > alarm.limit for alarm in found.alarms)


def test_the_same_documents_raise_no_alarm(watched):
    """Compared with itself, nothing changed."""
    found = compare(watched.run, open_against(watched.run.store, "v1"))
    assert found.alarms == []
    assert found.notes == []


@pytest.mark.slow
def test_another_sample_raises_no_alarm(watched, tmp_path):
    """Other halves of the same documents differ, and only by chance."""
    for seed in (1, 2):
        other = Project(tmp_path / str(seed))
        write(other.folder, *documents(160), seed=seed)
        other.recipe.write_text(watched.text.partition("tokenizer:")[0])
        assert compare(other.run(), watched.run).alarms == []


def side(sources, snapshots=None, every=1):
    """A version with these numbers of documents, by source, and by (source, snapshot)."""
    empty = {"first": {}, "extracted": {}, "cut": {}}
    states = {
        f"{name}/corpus": SimpleNamespace(metrics={"funnel": {**empty, "read": {"rows": rows}}})
        for name, rows in sources.items()
    }
    found = {(name, ""): rows for name, rows in sources.items()} if snapshots is None else snapshots
    names = [key for key, rows in found.items() for _ in range(rows // every)]
    drawn = DrawnValues({}, np.zeros(0, bool), [one for one, _ in names], [one for _, one in names], [], every)
    return SimpleNamespace(chains=dict.fromkeys(sources, ()), states=states, nodes={}), drawn


def lost(then, now):
    """The alarms about numbers of documents."""
    (other, before), (view, after) = then, now
    found = comparisons.documents(comparisons.Sides((other, view), (before, after), [], WatchFields(against="v1")))
    return [alarm.message.removeprefix("watch: ").partition(". ")[0] for alarm in found]


@pytest.mark.parametrize(
    ("before", "after"), [(24, 1), (100, 52), (440, 310), (442, 331), (600, 470), (1, 0), (30, 99)]
)
def test_a_source_that_loses_documents_is_an_alarm(before, after):
    """It needs no other source that loses as many; one that is missing is an alarm, however small it was."""
    has = f"has {after} document{'s' * (after > 1)}" if after else "is missing"
    expected = [f"source one {has}; v1 has {before} document{'s' * (before > 1)}"]
    assert lost(side({"one": before, "two": 40}), side({"one": after, "two": 36})) == expected
    assert lost(side({"one": before}, every=50), side({"one": after}, every=40)) == expected


@pytest.mark.parametrize(("before", "after"), [(24, 12), (100, 70), (440, 352), (9, 1), (10, 30), (5000, 4001)])
def test_a_small_change_of_a_source_is_no_alarm(before, after):
    """It is within the limit, or two random halves of the same documents may differ as much."""
    assert lost(side({"one": before}), side({"one": after})) == []


def test_snapshots_are_compared_if_both_versions_have_them():
    """An estimate needs more documents; a source that is gone is one alarm; a new pattern of snapshots is none."""
    then = side({"one": 900}, {("one", "a"): 600, ("one", "b"): 300})
    assert lost(then, side({"one": 2500}, {("one", "a"): 400, ("one", "b"): 300, ("one", "c"): 1800})) == [
        "snapshot a of one has 400 documents; v1 has 600 documents"
    ]
    assert lost(then, side({"one": 0}, {})) == ["source one is missing; v1 has 900 documents"]
    assert lost(then, side({"one": 890})) == lost(side({"one": 890}), then) == []
    assert lost(then, side({"one": 700}, {("one", "a"): 400, ("one", "b"): 300}, every=10)) == []


POPULATION = np.random.default_rng(5).lognormal(6, 2, 20_000).round()


@pytest.mark.parametrize("rows", [40, 400, 10_000])
def test_limits_hold_for_samples_of_the_same_documents(rows):
    """Twenty samples: distributions, rates, shares of a whole and numbers of documents are within the limits of
    chance, and a real change is beyond them as soon as there are enough documents.
    """
    draw = np.random.default_rng(rows)
    first = draw.choice(POPULATION, rows, replace=False)
    for _ in range(20):
        other = draw.choice(POPULATION, rows, replace=False)
        assert distance(np.sort(first), np.sort(other)) <= ks_limit(rows, rows)
        kept = [(int((one > 400).sum()), rows) for one in (first, other)]
        assert abs(kept[0][0] - kept[1][0]) / rows <= rate_limit(*kept)
        shares = [Counter((np.log2(one + 1) // 2).tolist()) for one in (first, other)]
        moved = sum(map(abs, changes_of_shares(*shares).values())) / 2
        assert moved <= moved_limit(*shares, (rows, rows))
        half, again = draw.binomial(2 * rows, 0.5, 2)
        assert abs(again / half - 1) <= count_limit(half, again)
        every = draw.binomial(half, 0.1) * 10, draw.binomial(again, 0.1) * 10
        assert abs(every[1] / every[0] - 1) <= count_limit(*every, (10, 10))
    worse = draw.choice(POPULATION, rows, replace=False) * 4
    is_beyond = distance(np.sort(first), np.sort(worse)) > ks_limit(rows, rows)
    assert is_beyond == (rows >= 400)


def watch(project):
    """Run as the command does: the version to compare with is opened before any work."""
    mill = project.mill()
    mill.executor = lambda *_: InlineExecutor(mill.store)
    mill.watch = make_watch(mill)
    return mill.run(None, Silent())


LANGUAGE = ("min_probability: 0.5", "min_probability: 0.99")


def test_an_alarm_is_a_warning_and_stays_with_the_run(watched, recipe):
    """It changes no byte of the corpus; the warning names the recipe, and the record of the run has all alarms."""
    project = recipe(LANGUAGE)
    plain = project.run().ended
    run = watch(recipe(LANGUAGE, top="watch: v1"))
    assert run.ended["version"] == plain["version"]
    assert plain["watch"] == {}
    assert run.ended["watch"]["against"] == "v1"
    alarms = run.ended["watch"]["alarms"]
    assert {"what", "where", "before", "after", "distance", "limit", "message", "source", "step", "cause"} == {
        *alarms[0]
    }
    (warned,) = [line for line in find_warnings(run, "my.yaml") if line.startswith("watch: ")]
    assert "of the documents of pages that reach web/keep_language are removed, in v1 0.0%" in warned
    assert f"in v1 0.0%. {len(alarms) - 1} more alarms may follow from it. To look: corpus.doc" in warned


def test_a_strict_run_with_an_alarm_publishes_nothing(watched, recipe):
    """The version before it stays the newest; work is kept, and a run that ignores the alarms ends at once."""
    changes = (LANGUAGE, ("recipe: watched", "recipe: strictly"))
    names = ("no_effect", "no_document", "language_lost", "source_lost")
    accept = "\n".join(["accept:", *(f"  {name}: only alarms count here" for name in names)])
    with pytest.raises(UserError) as raised:
        watch(recipe(*changes, top=f"strict: true\nwatch: v1\n{accept}"))
    assert "strict is true and watch raised" in str(raised.value)
    assert "so nothing was published. All work is stored" in str(raised.value)
    assert "and run again. watch: " in str(raised.value)
    assert watched.project.mill().newest_whole() is None
    assert watched.project.mill().last_run()["status"] == "stopped: UserError"
    kinds = "[survival, language, distribution, clusters, web/keep_language]"
    run = watch(recipe(*changes, top=f"strict: true\nwatch: {{against: v1, ignore: {kinds}}}\n{accept}"))
    assert run.ended["watch"]["alarms"] == []
    assert not any(state.executed for state in run.states.values())
    assert watched.project.mill().newest_whole()["version"] == run.ended["version"]


def test_a_version_that_does_not_exist_is_an_error_before_any_work(watched, recipe):
    """The known ones are listed. The recipe's own name is its last run; before there is one, nothing is compared."""
    with pytest.raises(UserError, match=r"store@v2: .* has no finished run of that name\. Versions: v1\."):
        watch(recipe(top="watch: v2"))
    project = recipe(("recipe: watched", "recipe: fresh"), top="watch: fresh")
    assert watch(project).watched["notes"] == ["watch: fresh has no finished run yet, so this run is not compared."]
    assert watch(project).watched == {"against": "fresh", "alarms": [], "notes": []}


def test_a_sample_is_compared_by_its_distributions_only(watched, recipe):
    """The share of duplicates depends on the size of a sample; the run says so. An unknown name to ignore as well."""
    run = watch(recipe(top="sample: 50%\nwatch: {against: v1, ignore: [no_such]}"))
    assert run.watched["alarms"] == []
    notes = " ".join(run.watched["notes"])
    assert "this run read 50% of the records, and v1 100%, so documents, survival and clusters are not" in notes
    assert "watch.ignore: no_such is not compared, so it has no effect. Known: documents, steps, " in notes


def spent(view, step, seconds, compiling=0.0):
    whole = seconds + compiling
    view.states[step].cost |= {"cpu_s": whole, "wall_s": whole, "compile_s": compiling}


def test_a_step_at_many_times_its_cost_for_a_byte_is_an_alarm(watched):
    """Compilation does not count, nor do steps of a few seconds; a cheaper step before it is no cause of it."""
    run, other = (open_against(watched.run.store, "v1") for _ in range(2))
    for before, now, expected in [(10, 49, []), (10, 51, ["web/extract"]), (0.1, 4.9, []), (0.1, 26, ["web/extract"])]:
        spent(other, "web/extract", before)
        spent(run, "web/extract", now, compiling=900.0)
        found = compare(run, other, WatchFields(against="v1"))
        assert [(alarm.what, alarm.where) for alarm in found.alarms] == [("cost", step) for step in expected]
    spent(run, "web/language", 6)
    edited(run, "language", bytes_in=1e6)
    edited(other, "language", bytes_in=1e8)
    found = compare(run, other, WatchFields(against="v1"))
    assert [(alarm.where, alarm.cause) for alarm in found.alarms] == [("web/extract", 0), ("web/language", 1)]
    assert "web/language takes 6 CPU seconds for each MB, in v1 at most 0.05. To look: " in found.alarms[1].message
    assert compare(run, other, WatchFields(against="v1", cost=200.0)).alarms == []


def test_a_budget_of_a_step_raises_an_alarm(recipe, monkeypatch):
    """Also in the first run, which is compared with nothing; a step that does not exist is an error before any work."""
    monkeypatch.setattr(comparisons, "LEAST_CPU_S", 0.0)
    fresh = ("recipe: watched", "recipe: budgeted")
    for against in ("budgeted", "v1"):
        run = watch(recipe(fresh, top=f"watch: {{against: {against}, most_s_per_mb: {{extract: 0.0001}}}}"))
        [alarm] = [one for one in run.watched["alarms"] if one["what"] == "cost"]
        assert "watch: web/extract takes " in alarm["message"]
        assert alarm["message"].endswith(" CPU seconds for each MB, more than its budget of 0.0001.")
        assert any("web/extract takes" in line for line in find_warnings(run))
    assert watch(recipe(fresh, top="watch: {against: v1, most_s_per_mb: {extract: 9999}}")).watched["alarms"] == []
    with pytest.raises(
        UserError, match=r"watch\.most_s_per_mb: extrakt is not a step of this recipe\. Did you mean ex"
    ):
        watch(recipe(fresh, top="watch: {against: v1, most_s_per_mb: {extrakt: 1}}"))


@pytest.mark.usefixtures("in_this_process")
def test_the_command_lists_alarms(watched, recipe, say):
    """Exit code 1 with alarms; `--json` has the same as the record; the recipe's own version is the default."""
    project = recipe(LANGUAGE)
    project.run()
    shown = say("watch", project.recipe, "--against", "v1")
    answer = json.loads(say("watch", project.recipe, "--against", "v1", "--json").out)
    assert shown.code == 1
    assert f"{len(answer['alarms'])} alarms against v1." in shown.out
    assert f"gristmill inspect {project.recipe} --reason unsure_language" in shown.err
    assert say("watch", f"{project.store}@v1", "--against", "v1").out == "0 alarms against v1.\n"
    lacks = say("watch", project.recipe)
    assert lacks.code == 2
    assert "has no watch:, so there is nothing to compare it with. Name a version with --against" in lacks.err


@pytest.mark.parametrize(
    ("written", "telling"),
    [
        ("watch: 3", "watch must be the name of a version, or a mapping with against, not 3."),
        ("watch: {distance: 0.2}", "watch.against is missing"),
        ("watch: {against: v1, distance: 2}", "watch.distance must be below 1.0, not 2"),
        ("watch: {against: v1, ignroe: [survival]}", "watch.ignroe is not a field. Did you mean ignore?"),
    ],
)
def test_a_mistake_in_watch_is_reported_with_its_line(written, telling, recipe):
    """Before any work, like every other mistake in a recipe."""
    with pytest.raises(UserError, match=re.escape(telling)):
        recipe(top=written).mill()


def edited(view, name, **metrics):
    """Change the metrics of the first step of this name."""
    node = next(one for one in view.nodes.values() if one.name == name)
    view.states[node.id].metrics = {**view.states[node.id].metrics, **metrics}


def test_shares_of_the_whole_are_compared(watched):
    """Cluster sizes, languages, tokens per group; a slower step is a note. The name that changed most is named."""
    view, other = (open_against(watched.run.store, "v1") for _ in range(2))
    edited(view, "near_dedup", clusters_by_size={"2": 9, "3-4": 1})
    edited(other, "near_dedup", clusters_by_size={"2": 1, "3-4": 3})
    edited(
        other,
        "corpus",
        languages={"en": {"read": 50, "kept": 10, "first": {}}, "de": {"read": 200, "kept": 200, "first": {}}},
    )
    edited(other, "shard_groups", groups={"pages": {"pages": {"tokens": 1, "documents": 1}}})
    found = compare(view, other)
    messages = {alarm.what: alarm.message for alarm in found.alarms}
    assert [*messages] == ["clusters", "language", "tokens"]
    assert (
        "of the clusters of all/near_dedup have the size 3-4, in v1 75.0%; 65.0% of the whole moved"
        in messages["clusters"]
    )
    moved = "of the kept documents are in (de|en), in v1"  # both moved by as much
    assert any(re.search(moved, alarm.message) for alarm in found.alarms)
    assert "of the available tokens are of pages, in v1 0.04%" in messages["tokens"]


def test_a_missing_step_is_an_alarm(watched, recipe):
    """Even a step that removes few documents; a new step is not one."""
    run = recipe(("    - heuristics: {rules: [gopher_quality, gopher_repetition]}\n", "    - scrub\n")).run()
    alarm = compare(run, open_against(run.store, "v1")).alarms[0]
    assert alarm.message == "watch: all/heuristics is missing on the route of pages; v1 has it. Check the steps."
