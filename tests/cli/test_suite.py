"""gristmill suite: its output shows what is in the files; a mistake is one message and exit code 2."""

import json

import pytest
from tests.stages.decontaminate.suites import item, prose, write_suite

from demo import evals
from gristmill.cli.main import run_command
from gristmill.stages.decontaminate import eval_index
from gristmill.stages.decontaminate.suite.describe import ready_names
from gristmill.stages.decontaminate.suite.suite import read_suite

ITEMS = {"short": [evals.Item(f"s{n}", f"Which millstone is {n} plus one?", str(n + 1)) for n in range(5)]}


@pytest.fixture
def folder(tmp_path):
    evals.write(tmp_path / "evals", ITEMS)
    return tmp_path / "evals"


@pytest.fixture
def run_suite(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["gristmill", "suite", *map(str, arguments)])
        code = run_command()
        output = capsys.readouterr()
        assert "Traceback" not in output.err
        return code, output

    return run


def describe(folder, setting):
    """Add a setting to the benchmark."""
    file = folder / "suite.yaml"
    file.write_text(file.read_text().replace("{files:", f"{{{setting}, files:", 1))


def test_word_counts_are_those_used_for_matching(tmp_path, run_suite):
    """In scripts without spaces, each character is a word."""
    write_suite(tmp_path, {"th": [item(0, q="เมืองหลวงของประเทศไทยคือเมืองอะไร")]})
    _, output = run_suite("show", tmp_path, "--json")
    assert json.loads(output.out)["fewest_words"] > 20


def test_show_describes_a_suite(folder, run_suite):
    """It shows the hash, items, words and roles, and -n examples."""
    code, output = run_suite("show", folder, "-n", 2)
    assert code == 0
    assert read_suite(str(folder)).hash in output.out
    assert [line.split()[:5] for line in output.out.splitlines() if line.startswith("short ")] == [
        ["short", "question,", "answer", "own", "5"],
        ["short", "s0"],
        ["short", "s1"],
    ]
    code, output = run_suite("show", folder / "suite.yaml", "--json", "-n", 1)
    result = json.loads(output.out)
    assert (result["items"], result["median_words"], result["fewest_words"], result["duplicates"]) == (5, 6, 6, 0)
    assert [item["answer"] for item in result["examples"]] == ["1"]


def test_show_prints_the_matched_texts_of_an_item(tmp_path, run_suite):
    """A prompt is split into its parts, and each text says when it flags a document."""
    long_item = {"query": "Question: Which stone of the old mill grinds the rye? Choices: A. bed B. runner Answer:"}
    short_item = {"query": "Why is it so?\nA. bed\nB. runner", "choices": ["A", "B"], "gold": 0}
    lines = [{**long_item, "choices": ["bed", "runner"], "gold": 1}, short_item]
    for name, record in zip("ab", lines, strict=True):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(record))
    each = ", ".join(f"{name}: {{files: {name}.jsonl, like: arc}}" for name in "ab")
    (tmp_path / "suite.yaml").write_text(f"suite: s\nversion: 1\nbenchmarks: {{{each}}}\n")
    shown = [line for line in run_suite("show", tmp_path)[1].out.splitlines() if line.startswith("  ")]
    choices = [
        "  choices (counts together with the question): bed",
        "  choices (counts together with the question): runner",
    ]
    assert shown == [
        "  question (flags a document): Which stone of the old mill grinds the rye?",
        "  answer (counts together with the question): runner",
        *choices,
        "  question (too short, flags only with an answer or choices): Why is it so?",
        "  answer (counts together with the question): bed",
        *choices,
    ]


def test_check_prints_the_line_that_pins_a_suite_in_a_recipe(folder, run_suite):
    """A run with another suite stops (tests/stages/decontaminate)."""
    code, output = run_suite("check", folder)
    assert code == 0
    assert f"suite_hash: {read_suite(str(folder)).hash[:16]}" in output.out


def test_check_names_items_that_cannot_be_protected(folder, run_suite):
    """A run warns of them, too."""
    evals.write(folder, {"short": [*ITEMS["short"], evals.Item("s5", "Why so?", "")]})
    code, output = run_suite("check", folder)
    assert code == 0
    assert "WARNING: 1 item of the suite cannot be protected" in output.out
    assert "short s5" in output.out
    assert json.loads(run_suite("check", folder, "--json")[1].out)["unprotected"] == 1


def test_check_reads_everything(folder, run_suite):
    """It exits with 0 when everything can be read, and with 2 and the location otherwise; it writes nothing."""
    assert run_suite("check", folder)[0] == 0
    with (folder / "short.jsonl").open("a") as file:
        file.write('{"question": ""}\n')
    code, output = run_suite("check", folder)
    assert code == 2
    assert "short.jsonl:6: no question: question is empty" in output.err
    assert output.out == ""
    assert sorted(path.name for path in folder.iterdir()) == ["short.jsonl", "suite.yaml"]


def test_show_without_a_folder_lists_the_built_in_descriptions(run_suite):
    """Each is listed with its forms."""
    code, output = run_suite("show", "--json")
    assert code == 0
    result = [json.loads(line) for line in output.out.splitlines()]
    assert [entry["name"] for entry in result] == ready_names()
    assert all(entry["forms"] for entry in result)
    assert run_suite("show")[0] == 0


@pytest.mark.parametrize(
    ("before", "after", "shared"),
    [
        ("Answer the question about mills. ", "", 'begin with "Answer the question about mills."'),
        ("Q: Who?\nA: I\n\nQ: ", "", 'begin with "Q: Who? A: I Q:"'),
        ("", "\nNow pick the best one:", 'end with "Now pick the best one:"'),
    ],
)
def test_a_prompt_shared_by_most_questions_gives_a_warning(tmp_path, run_suite, before, after, shared):
    """show, check and a run warn with count, consequence and fix; a prompt in half of the questions gives none."""
    items = [item(n, q=f"{before}{prose(n)}?{after}") for n in range(5)] + [item(n) for n in range(5, 9)]
    write_suite(tmp_path, {"own": items, "half": items[1:], "few": items[1:6]})
    for command in ("show", "check"):
        (warning,) = [line for line in run_suite(command, tmp_path)[1].out.splitlines() if line.startswith("WARNING")]
        assert f"5 of 9 questions of own {shared}, so a page with only the question may not be found." in warning
        assert "`prompt: true`" in warning
    assert json.loads(run_suite("check", tmp_path, "--json")[1].out)["warnings"] == [warning.removeprefix("WARNING: ")]
    counts = eval_index.make(config := eval_index.Config(suite=str(tmp_path)), tmp_path / "index")
    assert warning.removeprefix("WARNING: ") in eval_index.warnings(counts, config)


def test_words_shared_by_the_questions_themselves_give_no_warning(tmp_path, run_suite):
    """This covers a common opening (MBPP), one question for all items, and a prompt that is split off."""
    opening = [item(n, q=f"Write a function to {prose(n)}.") for n in range(6)]
    same = [item(n, q="What is the cause of it all?") for n in range(6)]
    prompts = [item(n, q=f"Answer the following question.\n\nQuestion: {prose(n)}?\nAnswer:") for n in range(6)]
    for folder, setting, count in (("a", ", prompt: true", 0), ("b", "", 1)):
        benchmarks = {"opening": opening, "same": same, "prompts": prompts}
        write_suite(tmp_path / folder, benchmarks, {"prompts": setting})
        code, output = run_suite("check", tmp_path / folder)
        assert (code, output.out.count("WARNING")) == (0, count)
