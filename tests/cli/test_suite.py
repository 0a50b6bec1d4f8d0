"""gristmill suite: what it shows is what is in the files; what is wrong is one message and exit code 2."""

import json

import pytest
from tests.stages.decontaminate.suites import item, prose, write_suite

from demo import evals
from gristmill.cli.main import run_command
from gristmill.stages.decontaminate import eval_suite
from gristmill.stages.decontaminate.suite.ready_benchmarks import ready_names
from gristmill.stages.decontaminate.suite.suite import read_suite

ITEMS = {"short": [evals.Item(f"s{n}", f"Which millstone is {n} plus one?", str(n + 1)) for n in range(5)]}


@pytest.fixture
def folder(tmp_path):
    evals.write(tmp_path / "evals", ITEMS)
    return tmp_path / "evals"


@pytest.fixture
def typed(monkeypatch, capsys):
    def type_(*words):
        monkeypatch.setattr("sys.argv", ["gristmill", "suite", *map(str, words)])
        code = run_command()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said

    return type_


def describe(folder, setting):
    """Add a setting to the benchmark."""
    file = folder / "suite.yaml"
    file.write_text(file.read_text().replace("{files:", f"{{{setting}, files:", 1))


def test_words_are_those_that_are_compared(tmp_path, typed):
    """A letter of a script without spaces is one; white space counts none of them."""
    write_suite(tmp_path, {"th": [item(0, q="เมืองหลวงของประเทศไทยคือเมืองอะไร")]})
    _, said = typed("show", tmp_path, "--json")
    assert json.loads(said.out)["fewest_words"] > 20


def test_show_tells_what_a_suite_holds(folder, typed):
    """Its hash, items, words and roles, and as many examples as are asked for."""
    code, said = typed("show", folder, "-n", 2)
    assert code == 0
    assert read_suite(str(folder)).hash in said.out
    assert [line.split()[:5] for line in said.out.splitlines() if line.startswith("short ")] == [
        ["short", "question,", "answer", "own", "5"],
        ["short", "s0"],
        ["short", "s1"],
    ]
    code, said = typed("show", folder / "suite.yaml", "--json", "-n", 1)
    result = json.loads(said.out)
    assert (result["items"], result["median_words"], result["fewest_words"], result["duplicates"]) == (5, 6, 6, 0)
    assert [item["answer"] for item in result["examples"]] == ["1"]


def test_show_prints_what_is_compared_of_one_item(tmp_path, typed):
    """Without -n, too: the prompt is taken apart, and each text says when it flags."""
    asked = {"query": "Question: Which stone of the old mill grinds the rye? Choices: A. bed B. runner Answer:"}
    short = {"query": "Why is it so?\nA. bed\nB. runner", "choices": ["A", "B"], "gold": 0}
    lines = [{**asked, "choices": ["bed", "runner"], "gold": 1}, short]
    for name, one in zip("ab", lines, strict=True):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(one))
    each = ", ".join(f"{name}: {{files: {name}.jsonl, like: arc}}" for name in "ab")
    (tmp_path / "suite.yaml").write_text(f"suite: s\nversion: 1\nbenchmarks: {{{each}}}\n")
    shown = [line for line in typed("show", tmp_path)[1].out.splitlines() if line.startswith("  ")]
    beside = [
        "  choices (counts together with the question): bed",
        "  choices (counts together with the question): runner",
    ]
    assert shown == [
        "  question (flags a document): Which stone of the old mill grinds the rye?",
        "  answer (counts together with the question): runner",
        *beside,
        "  question (too short, flags only with an answer or choices): Why is it so?",
        "  answer (counts together with the question): bed",
        *beside,
    ]


def test_pin_prints_the_line_for_the_recipe(folder, typed):
    """And says what is new; the same version for another content is remarked upon."""
    code, said = typed("pin", folder)
    assert code == 0
    assert f"suite_hash: {read_suite(str(folder)).hash[:16]}" in said.out
    evals.write(folder, {"short": [*ITEMS["short"], evals.Item("s5", "And what is new?", "this")]})
    code, said = typed("show", folder)
    assert "6 items, in generations of 5, 1." in said.out
    code, said = typed("pin", folder)
    assert "2 generations of 5, 1 items; 1 new and 0 removed" in said.out
    assert "version is still 1" in said.out
    code, said = typed("pin", folder, "--compact", "--json")
    assert json.loads(said.out)["generations"] == [6]


def test_pin_tells_a_change_of_protection(folder, typed):
    """The items are the same, and the hash is not."""
    typed("pin", folder)
    describe(folder, "coverage: 0.7")
    code, said = typed("pin", folder)
    assert code == 0
    assert "The items are the same" in said.out


def test_check_tells_what_was_forgiven(folder, typed):
    """How many records of which benchmark, where allow_broken lets them pass."""
    with (folder / "short.jsonl").open("a") as file:
        file.write('{"question": ""}\n')
    describe(folder, "allow_broken: 1")
    code, said = typed("check", folder)
    assert code == 0
    assert "all read except 1 record of short (allow_broken)" in said.out
    assert json.loads(typed("check", folder, "--json")[1].out)["broken"] == 1


def test_check_reads_everything(folder, typed):
    """0 where all of it can be read, 2 with the place where not; nothing is written."""
    assert typed("check", folder)[0] == 0
    with (folder / "short.jsonl").open("a") as file:
        file.write('{"question": ""}\n')
    code, said = typed("check", folder)
    assert code == 2
    assert "short.jsonl:6: no question: question is empty" in said.err
    assert said.out == ""
    assert sorted(path.name for path in folder.iterdir()) == ["short.jsonl", "suite.yaml"]


def test_list_names_the_ready_descriptions(typed):
    """Every one, with its forms."""
    code, said = typed("list", "--json")
    assert code == 0
    result = [json.loads(line) for line in said.out.splitlines()]
    assert [one["name"] for one in result] == ready_names()
    assert all(one["forms"] for one in result)
    assert typed("list")[0] == 0


@pytest.mark.parametrize(
    ("before", "after", "shared"),
    [
        ("Answer the question about mills. ", "", 'begin with "Answer the question about mills."'),
        ("Q: Who?\nA: I\n\nQ: ", "", 'begin with "Q: Who? A: I Q:"'),
        ("", "\nPick the best one:", 'end with "Pick the best one:"'),
    ],
)
def test_a_prompt_that_most_questions_share_is_warned_of(tmp_path, typed, before, after, shared):
    """By show, check and a run, with count, consequence and fix; not where half of the questions have it."""
    items = [item(n, q=f"{before}{prose(n)}?{after}") for n in range(5)] + [item(n) for n in range(5, 9)]
    write_suite(tmp_path, {"own": items, "half": items[1:], "few": items[1:6]})
    for command in ("show", "check"):
        (result,) = [line for line in typed(command, tmp_path)[1].out.splitlines() if line.startswith("WARNING")]
        assert f"5 of 9 questions of own {shared}, so a page with only the question may not be found." in result
        assert "`prompt: true`" in result
    assert json.loads(typed("check", tmp_path, "--json")[1].out)["warnings"] == [result.removeprefix("WARNING: ")]
    found = eval_suite.make(config := eval_suite.Config(suite=str(tmp_path)), tmp_path / "suite.json")
    assert result.removeprefix("WARNING: ") in eval_suite.warnings(found, config)


def test_shared_words_of_the_questions_themselves_are_not_warned_of(tmp_path, typed):
    """Neither an opening of some words (MBPP), nor one question of all items, nor a prompt that is taken apart."""
    opening = [item(n, q=f"Write a function to {prose(n)}.") for n in range(6)]
    same = [item(n, q="What is the cause of it all?") for n in range(6)]
    prompts = [item(n, q=f"Answer the following question.\n\nQuestion: {prose(n)}?\nAnswer:") for n in range(6)]
    for folder, setting, count in (("a", ", prompt: true", 0), ("b", "", 1)):
        benchmarks = {"opening": opening, "same": same, "prompts": prompts}
        write_suite(tmp_path / folder, benchmarks, {"prompts": setting})
        code, said = typed("check", tmp_path / folder)
        assert (code, said.out.count("WARNING")) == (0, count)
