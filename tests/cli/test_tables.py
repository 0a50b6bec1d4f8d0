"""Tables on a narrow screen: every line fits, and no word is broken."""

import io
import re

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
JOINT = re.compile(r"(?<=[_/.:=])")


def render(renderable, width):
    out = io.StringIO()
    Console(file=out, width=width).print(renderable)
    return out.getvalue()


def pieces(text):
    """Return all strings that may appear between two spaces: words, and their pieces when broken at joints."""
    strings = set()
    for word in text.split():
        parts = JOINT.split(word)
        strings |= {"".join(parts[a:b]) for a in range(len(parts)) for b in range(a + 1, len(parts) + 1)}
    return strings


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_breaks_a_word(everything, say, monkeypatch, command):
    """A narrow screen shows the words of a wide one, without the columns that were dropped. Only a line of one word,
    such as a path, may be wider than the screen.
    """
    arguments = [str(everything.project.recipe) if word == "R" else word for word in command.split()]
    monkeypatch.setenv("COLUMNS", "400")
    wide = say(*arguments)
    allowed = pieces(wide.out + wide.err)
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        narrow = say(*arguments)
        narrow_text = re.sub(r"Columns left out to fit .*?\.\n", "", narrow.out + narrow.err, flags=re.DOTALL)
        assert not [line for line in narrow_text.splitlines() if len(line) > width and len(line.split()) > 1]
        broken = {word for word in narrow_text.split() if word.strip("─")} - allowed
        assert not broken


def test_plan_run_and_funnel_fit_with_long_names(project, say, monkeypatch):
    """Source names wider than a column are broken at joints."""
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


def test_a_less_important_column_is_dropped_and_the_table_says_so():
    """It is dropped before a name is broken; the rest is unchanged."""
    rows = [("all/near_candidates", "12", "3.4 MB"), ("all/tokens", "1", "10 KB")]
    result = table(("stage", "tasks", "peak memory"), rows, spare=("peak memory",))
    assert sorted(render(result, 34).split()) == sorted(render(result, 80).split())
    assert "Columns left out to fit the width of 27: peak memory." in " ".join(render(result, 27).split())
    assert "all/near_candidates     12" in render(result, 27)
    assert "all/near_" in render(result, 20).splitlines()[1]


def test_a_number_and_its_unit_stay_together():
    """Names are broken first."""
    result = table(("name", "size"), [("a name of many words", "-123.4 KB")])
    assert "-123.4 KB" in render(result, 18)


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.text("ab1 _/.", max_size=40), min_size=3, max_size=3), max_size=4),
    st.integers(40, 100),
)
def test_cells_keep_all_their_letters(rows, width):
    """No character is lost or repeated, and no line is wider than the screen."""
    result = render(table(("one", "other", "third"), rows), width)
    assert all(len(line) <= width for line in result.splitlines())
    letters = sorted("".join(("oneotherthird", *(cell for row in rows for cell in row))).replace(" ", ""))
    assert sorted("".join(result.split())) == letters
