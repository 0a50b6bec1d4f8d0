"""Warnings have names, can be accepted with a reason, and are compared with those of the last run."""

import json

import pytest

from gristmill.cli.run.run import merged
from gristmill.engine.mill import find_warnings
from gristmill.engine.run_options import sort_warnings
from gristmill.errors import UserError
from gristmill.warned import Warned

STEPS = "  - signals\n  - heuristics: {own: ['signals.words > 1e9 -> far_too_long']}"


@pytest.fixture
def quiet(project):
    """A recipe with one warning: its own rule matches nothing."""
    (project.folder / "in.jsonl").write_text("".join(json.dumps({"text": f"the mill {n}"}) + "\n" for n in range(30)))

    def write(top="", steps=STEPS):
        project.write_recipe(steps, top=top, pattern="in.jsonl")
        return project

    return write


def names(run):
    found = sort_warnings(run)
    return [one.name for one in found.new], [one.name for one in found.known], [one.name for one, _ in found.accepted]


def test_a_warning_has_the_name_of_its_kind_and_its_step(quiet):
    """The name is that of the step for a stage that names none."""
    (warning,) = find_warnings(quiet().run())
    assert (warning.name, warning.step) == ("no_effect", "all/heuristics")
    assert warning == "all/heuristics: own rule far_too_long matched no document"


@pytest.mark.parametrize(
    "accepts",
    [
        "{no_effect: a test}",
        "[{name: no_effect, reason: a test}]",
        "[{name: no_effect, reason: a test, step: all/heuristics}]",
        "[{name: no_effect, reason: a test, step: heuristics}]",
    ],
)
def test_an_accepted_warning_does_not_fail_a_strict_run(quiet, accepts):
    """By its name alone, or only of one step."""
    run = quiet(f"strict: true\naccept: {accepts}").run()
    assert names(run) == ([], [], ["no_effect"])
    assert sort_warnings(run).in_words() == "0 warnings, 1 accepted"
    sort_warnings(run).refuse(run.graph.recipe)


@pytest.mark.parametrize("accepts", ["{other: a test}", "[{name: no_effect, reason: a test, step: signals}]"])
def test_accepting_what_a_run_does_not_have_is_a_warning(quiet, accepts):
    assert names(quiet(f"accept: {accepts}").run()) == (["no_effect", "accept_unused"], [], [])


def test_a_strict_run_with_warnings_publishes_nothing(quiet):
    """The newest version stays the one before it, and each warning has its line."""
    project = quiet("accept: {no_effect: a test}")
    first = project.run().ended["version"]
    project = quiet("strict: true\naccept: {other: a test}")
    with pytest.raises(UserError, match=r"(?s)nothing was published.*\n  .* \[no_effect\]\n  accept: .* has no effect"):
        project.run()
    assert project.mill().newest_whole()["version"] == first


def test_a_part_of_a_run_may_lack_an_accepted_warning(quiet):
    """Before the step that would warn, and in a sample, there is nothing to accept."""
    project = quiet("accept: {no_effect: a test}")
    assert names(project.run(until="signals")) == ([], [], [])
    quiet("accept: {no_effect: a test, other: a test}\nsample: 50%")
    assert names(project.run()) == ([], [], ["no_effect"])


def test_accepting_changes_no_key_and_no_byte(quiet):
    """Nothing runs again, and the version is the same."""
    project = quiet()
    first = project.run()
    again = quiet("accept: {no_effect: a test}").run()
    assert project.executed(again) == {}
    assert first.ended["version"] == again.ended["version"]


def test_new_warnings_are_told_from_those_of_the_last_run(quiet):
    """A count of the same size is no news; another warning is."""
    project = quiet()
    first = sort_warnings(project.run())
    assert (first.is_first, first.in_words()) == (True, "1 warning")
    assert names(project.run()) == ([], ["no_effect"], [])
    more = STEPS + "\n  - scrub"
    found = sort_warnings(quiet(steps=more).run())
    assert [one.step for one in found.new] == ["all/scrub"]
    assert found.in_words() == "2 warnings (1 as in the last run, 1 new)"
    with (project.folder / "in.jsonl").open("a") as file:
        file.write('{"text": "one more mill"}\n')
    found = sort_warnings(project.run())
    assert (found.new, len(found.known)) == ([], 2)
    with (project.folder / "in.jsonl").open("a") as file:
        file.write('{"text": "one more mill"}\n' * 100)
    found = sort_warnings(project.run())
    assert [one for one in found.new if "scrub" in one] == [
        "all/scrub: nothing was found in 131 documents, searched for " + found.new[-1].partition("searched for ")[2]
    ]


@pytest.mark.parametrize(
    ("accepts", "message"),
    [
        ("no_effect", "accept must be a mapping (name: value) or a list, not 'no_effect'."),
        ("{no_effect: ''}", "accept.no_effect must be the reason as text, not ''."),
        ("{no_effect: }", "accept.no_effect must be the reason as text, not nothing."),
        ("[no_effect]", "accept[0] must be {name, reason}, not 'no_effect'."),
        ("[{name: no_effect}]", "accept[0].reason is missing (why it is accepted)"),
        ("[{name: no_effect, reason: a, stpe: b}]", "accept[0].stpe is not a field. Did you mean step?"),
    ],
)
def test_a_mistake_in_accept_is_an_error_with_its_line(quiet, accepts, message):
    with pytest.raises(UserError) as refused:
        quiet(f"accept: {accepts}").mill()
    assert str(refused.value).startswith(f"{quiet().recipe}:4: {message}")


def test_warnings_that_only_differ_in_their_step_are_one_line():
    """With all of the steps; others stay apart."""
    same = [Warned("no_effect", f"{name}/signals: nothing has a text", f"{name}/signals") for name in "ab"]
    others = [Warned("no_text", "a/signals: nothing has a text", "a/signals"), Warned("watch", "slow: much slower")]
    assert merged([*same, *others]) == [
        "a/signals, b/signals: nothing has a text [no_effect]",
        "a/signals: nothing has a text [no_text]",
        "slow: much slower [watch]",
    ]
