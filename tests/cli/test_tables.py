"""Tables on a narrow screen: every line fits, and numbers stay whole."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from gristmill.cli.shared.show import table

COMMANDS = (
    "funnel R",
    "status R",
    "plan R",
    "removed R",
    "removed R --by source",
    "sample R",
    pytest.param("tokenizer show R", marks=pytest.mark.slow),
    "steps",
    "steps near_dedup",
    "steps heuristics",
    "budget --params 7e9 --tokens 2T --gpus 512",
    "versions R",
    "versions show R",
    "inspect R -n 2",
    "sample R",
    "suite touched R",
    "gc R --dry-run",
    "whatif R heuristics.gopher_quality.min_words=30",
    "takedown check R",
    "funnel R --jsn",
    "funnel no/such/recipe.yaml",
    "versions show R nothing",
    "funel R",
)


def render(renderable, width):
    out = io.StringIO()
    Console(file=out, width=width).print(renderable)
    return out.getvalue()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_line_of_a_command_fits(everything, say, monkeypatch, command):
    """Only a line of one word, such as a path, may be wider than the screen."""
    arguments = [str(everything.project.recipe) if word == "R" else word for word in command.split()]
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        shown = say(*arguments)
        text = shown.out + shown.err
        assert not [line for line in text.splitlines() if len(line) > width and len(line.split()) > 1]


def test_plan_run_and_funnel_fit_with_long_names(project, say, monkeypatch):
    """Source names wider than a column are broken."""
    project.write_recipe("\n  - stagebox.length\n")
    long = "common_crawl_2026_40_english_pages_of_the_web_part_one"
    project.recipe.write_text(project.recipe.read_text().replace("notes:", f"{long}:"))
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        for command in (("plan",), ("run", "--executor", "inline"), ("funnel",)):
            output = say(*command, project.recipe)
            assert output.code == 0, output.err
            lines = output.out.splitlines()
            assert not [line for line in lines if len(line) > width and len(line.split()) > 1]
            assert command[0] == "run" or long in "".join(line[:width].split("  ")[0] for line in lines)


def test_a_pipe_gets_each_message_in_one_line(say, monkeypatch):
    """A program that searches the output finds whole sentences, unless the user sets COLUMNS."""
    message = say("funnel", "no/such/recipe.yaml").err
    assert message.count("\n") == 1
    assert len(message) > 80
    monkeypatch.setenv("COLUMNS", "40")
    first, *rest = say("funnel", "no/such/recipe.yaml").err.splitlines()
    assert " ".join([first, *(line.removeprefix("  ") for line in rest)]) == message.rstrip("\n")
    assert rest
    assert all(line.startswith("  ") for line in rest)


def test_a_number_and_its_unit_stay_together():
    """Names are broken first."""
    result = table(("name", "size"), [("a name of many words", "-123.4 KB")])
    assert "-123.4 KB" in render(result, 18)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.text("ab1 _/.", max_size=40), st.integers(0, 10**9)), max_size=4), st.integers(40, 100))
def test_cells_keep_all_their_letters(rows, width):
    """No character is lost or repeated, and no line is wider than the screen."""
    rows = [(name, f"{number:,}") for name, number in rows]
    result = render(table(("one", "other"), rows), width)
    assert all(len(line) <= width for line in result.splitlines())
    letters = sorted("".join(("oneother", *(cell for row in rows for cell in row))).replace(" ", ""))
    assert sorted("".join(result.split())) == letters
