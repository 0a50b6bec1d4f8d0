"""An invalid command line gives one message of our own, and help has whole sentences."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click import Context
from typer.main import get_command

import gristmill
from gristmill.cli.main import COMMANDS, make_app
from gristmill.recipe.settings import all_entries

REFUSED = {
    "inspect r.yaml -n 0": "-n must be at least 1, not 0. Nothing was done. -n N: How many to show.",
    "inspect r.yaml --number=two": "--number must be a whole number, not 'two'. Nothing was done. --number N: How many",
    "inspect r.yaml --skip -1": "--skip must be at least 0, not -1. Nothing was done. --skip N: Skip the first N.",
    "run r.yaml --workers two": "--workers must be a whole number, not 'two'. Nothing was done. --workers N: Processes",
    "budget --params 7e9 --mfu half": "--mfu must be a number, not 'half'. Nothing was done. --mfu SHARE: Share of the",
    "inspect r.yaml -n 99999999999999999999": "-n must be at most 1000000000000000",
    "inspect r.yaml --skip 99999999999999999999": "--skip must be at most 1000000000000000",
    "inspect r.yaml --dropt": "inspect has no option --dropt, so nothing was done. Did you mean --dropped?",
    "plan r.yaml --procs 2": "plan has no option --procs, so nothing was done. gristmill plan -h lists its options.",
    "plan r.yaml -x": "plan has no option -x, so nothing was done. gristmill plan -h lists its options.",
    "--verison": "gristmill has no option --verison, so nothing was done. Did you mean --version?",
    "run r.yaml --workers": "--workers requires a value. Nothing was done. Write --workers",
    "run r.yaml --json=3": "--json takes no value, but one was given. Nothing was done. Write --json",
    "plan": "gristmill plan requires RECIPE. Nothing was done. RECIPE: The recipe's YAML file. "
    "Example: gristmill plan recipes/demo.yaml",
    "budget": "gristmill budget requires --params. Nothing was done. --params N: Parameters",
    "budget r.yaml": "requires --params. Nothing was done. --params N: Parameters of the model: "
    "7e9, 7B, 1.5T. Write --corpus r.yaml for the recipe. Example: gristmill budget",
    "versions nostore": "nostore: there is no such file or store folder. A recipe is a YAML file, and a store is the "
    "folder that its `store` names. Correct the path.",
    "gc nostore": "nostore: there is no such file or store folder. A recipe is a YAML file, and a store is the folder",
    "gc none.yaml": "none.yaml: there is no such file. Correct the path, or run gristmill init.",
    "tokenizer compare": "tokenizer compare requires TOKENIZER.... Nothing",
    "plan r.yaml again": "plan takes only RECIPE, but also got again. Nothing was done. Leave it",
    "shards find r.yaml 0 1 2": "shards find takes only SHARDS and DOC_ID, but also got 1 2.",
    "budget --params 7e9 r.yaml": "budget takes options only, but also got r.yaml. Nothing "
    "was done. Write --corpus r.yaml for the recipe.",
    "inspekt": "gristmill has no command inspekt, so nothing was done. Did you mean gristmill inspect?",
    "tokenizer trane": "gristmill tokenizer has no command trane, so nothing was done. Did you mean gristmill",
    "shards frobnicate": "gristmill shards has no command frobnicate, so nothing was done. Commands: verify, head",
}


@pytest.mark.parametrize("line", REFUSED)
def test_an_invalid_command_line_is_one_message(say, line):
    """It has the fact, the consequence and the fix, no text of the library, and nothing on standard output."""
    done = say(*shlex.split(line))
    assert done.code == 2
    assert REFUSED[line] in done.err
    assert done.err.startswith("gristmill: ")
    assert done.err.count("\n") == 1
    assert not any(words in done.err for words in ("Usage:", "Error:", "Invalid value", "Try '"))
    assert done.out == ""


@pytest.mark.parametrize("group", [(), ("tokenizer",), ("shards",), ("versions",), ("extractor",)])
def test_a_list_of_commands_has_whole_sentences(say, monkeypatch, group):
    """Each fits on one line of 80 columns; without a command the same list is shown with exit code 2."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = say(*group, "--help")
    assert shown.code == 0
    listed = shown.out.partition("Commands:\n")[2].splitlines()
    assert (
        len(listed)
        == {(): len(COMMANDS), ("tokenizer",): 7, ("shards",): 4, ("versions",): 6, ("extractor",): 3}[group]
    )
    assert all(line.endswith(".") and not line.endswith("..") and len(line) <= 80 for line in listed), listed
    without = say(*group)
    assert (without.code, without.out, without.err) == (2, "", shown.out)


def test_the_command_list_equals_the_help_of_each_command():
    """The list is written by hand, so that showing it imports no command."""
    for name, command in get_command(make_app()).commands.items():
        assert command.get_short_help_str(200) == COMMANDS[name], name


def test_a_mistyped_command_imports_no_command():
    """It answers in a tenth of a second; NumPy alone takes longer."""
    script = "import sys; sys.argv[1:] = ['rnu']\nfrom gristmill.cli.main import run_command\ncode = run_command()\n"
    script += "assert code == 2 and not {'numpy', 'pydantic', 'pyarrow', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def _helps(command, path="gristmill"):
    yield path, command.get_help(Context(command, info_name=path))
    for name, inner in getattr(command, "commands", {}).items():
        yield from _helps(inner, f"{path} {name}")


def test_help_names_no_source_file_and_no_internal_pass():
    """Users see steps and commands; source files and the passes of a step are internal."""
    files = "|".join(sorted({re.escape(path.name) for path in Path(gristmill.__file__).parent.rglob("*.py")}))
    private = re.compile(rf"\b(?:{files})\b|\bkernels/|\b(?:first|second|other) half\b|\bhalf of\b")
    texts = {
        entry.name: [entry.summary, entry.about, *(item.meaning for item in entry.settings)] for entry in all_entries()
    }
    texts |= {path: [text] for path, text in _helps(get_command(make_app()))}
    assert {"near_dedup", "gristmill", "gristmill shards verify"} <= texts.keys()
    matches = {name: [hit[0] for text in parts for hit in private.finditer(text)] for name, parts in texts.items()}
    assert not {name: hits for name, hits in matches.items() if hits}
