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
from gristmill.cli.main import COMMANDS, SECTIONS, main, make_app
from gristmill.recipe.settings import all_entries

REFUSED = {
    "inspect r.yaml -n 0": "'-n' / '--number': Input should be greater than or equal to 1. Nothing was done. gristmill",
    "inspect r.yaml --number=two": "'-n' / '--number': Input should be a valid integer",
    "run r.yaml --workers two": "'--workers': Input should be a valid integer",
    "budget --params 7e9 --mfu half": "'--mfu': Input should be a valid number",
    "inspect r.yaml --skip 99999999999999999999": "Input should be less than or equal to 1000000000000000",
    "inspect r.yaml --dropt": "No such option: --dropt (Possible options: --dropped, --grep, --kept). Nothing was",
    "plan r.yaml -x": "No such option: -x. Nothing was done. gristmill plan -h shows its usage.",
    "--verison": "No such option: --verison (Possible options: --version). Nothing was done. gristmill -h shows",
    "run r.yaml --workers": "Option '--workers' requires an argument. Nothing was done.",
    "run r.yaml --json=3": "Option '--json' does not take a value. Nothing was done.",
    "plan": "Missing argument 'RECIPE'. Nothing was done. gristmill plan -h shows its usage.",
    "budget": "Missing option '--params'. Nothing was done. gristmill budget -h shows its usage.",
    "versions nostore": "nostore: there is no such file or store folder. A recipe is a YAML file, and a store is the "
    "folder that its `store` names. Correct the path.",
    "gc nostore": "nostore: there is no such file or store folder. A recipe is a YAML file, and a store is the folder",
    "gc none.yaml": "none.yaml: there is no such file. Correct the path, or run gristmill init.",
    "plan r.yaml again": "Got unexpected extra argument(s) (again). Nothing was done. gristmill plan -h shows its",
    "plan r.yaml \x1b[2Jagain": "Got unexpected extra argument(s) (\\x1b[2Jagain). Nothing was done.",
    "inspekt": "gristmill has no command inspekt, so nothing was done. Did you mean gristmill inspect?",
    "frobnicate": "gristmill has no command frobnicate, so nothing was done. gristmill -h lists the commands.",
    "tokenizer trane": "No such command 'trane'. Did you mean 'train'? Nothing was done. gristmill tokenizer -h shows",
}


@pytest.mark.parametrize("line", REFUSED)
def test_an_invalid_command_line_is_one_message(say, line):
    """It has the fact, the consequence and the fix, and nothing is on standard output."""
    done = say(*shlex.split(line))
    assert done.code == 2
    assert REFUSED[line] in done.err
    assert done.err.startswith("gristmill: ")
    assert done.err.count("\n") == 1
    assert not any(words in done.err for words in ("Usage:", "Error:", "Try '"))
    assert done.out == ""


@pytest.mark.parametrize("group", [(), ("tokenizer",), ("shards",), ("versions",), ("extractor",)])
def test_a_list_of_commands_has_whole_sentences(say, monkeypatch, group):
    """Each fits on one line of 80 columns; without a command the same list is shown with exit code 2."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = say(*group, "--help")
    assert shown.code == 0
    listed = shown.out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    if not group:  # by task
        listed = shown.out.partition("Make a corpus:")[2].partition("Commands from other packages:")[0].splitlines()
        assert [line[:-1] for line in listed if line.endswith(":")] == [*SECTIONS][1:]
        listed = [line for line in listed if line.startswith("  ")]
    assert (
        len(listed)
        == {(): len(COMMANDS), ("tokenizer",): 4, ("shards",): 2, ("versions",): 5, ("extractor",): 3}[group]
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


def test_help_is_wrapped_to_the_terminal(say, monkeypatch):
    """It comes from the commands at the time of the request, so a narrow terminal gets shorter lines."""
    for columns in (50, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = say("inspect", "-h").out.splitlines()
        assert columns - 15 < max(map(len, lines)) <= columns


@pytest.mark.parametrize("words", [("-h",), ("--version",)])
def test_the_list_of_commands_imports_no_command(words):
    """It answers in a third of a second, because each command would take a second to import."""
    script = f"import sys; sys.argv[1:] = {words}\nfrom gristmill.cli.main import run_command\ncode = run_command()\n"
    script += "assert code == 0 and not {'numpy', 'pyarrow', 'numba', 'duckdb'} & set(sys.modules)"
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


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libarrow.so: failed to map segment from shared object"),
        OSError("Could not find/load shared object file 'libllvmlite.so' from resource location"),
    ],
)
def test_too_little_memory_for_a_library_is_one_message(monkeypatch, capsys, error):
    """As under `ulimit -v`. What the message needs itself is not imported then."""

    def fails(names=()):
        raise error

    monkeypatch.setattr("gristmill.cli.main.make_app", fails)
    monkeypatch.setitem(sys.modules, "gristmill.kernels.code_files", None)
    monkeypatch.setattr(sys, "argv", ["gristmill", "plan", "r.yaml"])
    with pytest.raises(SystemExit) as ended:
        main()
    message = capsys.readouterr().err
    assert (ended.value.code, message.count("\n")) == (2, 1)
    assert message.startswith("gristmill: This process ran out of memory or threads (")
