"""The library speaks Python: only the command line mentions flags and commands, and everything it mentions exists."""

import ast
import inspect
import re
import shlex
import string
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

import gristmill
from gristmill.api.corpus import Corpus, open_corpus
from gristmill.cli.main import make_app, run_command
from gristmill.hints import HINTS, as_command_line, hint, named, option

SOURCE = Path(gristmill.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z]")
IN_PYTHON = re.compile(r"gristmill (run|plan|funnel|inspect|sql|lineage|export)\b")
"""Commands that have an equivalent method in Python."""
OTHERS = {
    "squeue": "Slurm's, which the library runs or names",
    "--comment": "sbatch's, which the library runs",
    "--parsable": "sbatch's, which the library runs",
    "--open-mode": "sbatch's, which the library runs",
    "--me": "squeue's, which the library runs",
    "ray start": "Ray's, which starts a cluster",
    "nbconvert": "Jupyter's, which converts notebooks",
    "--to script": "Jupyter's, which converts notebooks",
    "lmplz": "KenLM's, which a kernel is compared with",
    "--help, /usr": "an example of a word in a text",
    "color-scheme": "a style sheet: --line is a colour",
    "var(--": "a style sheet: --line is a colour",
}
"""Text in which a flag belongs to another program -> the program."""


def texts_of(path):
    """String literals and docstrings, with adjacent literals joined. The computed parts of an f-string are left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_library_names_no_flag_and_no_command_that_python_has():
    """Messages in a notebook name arguments and methods; `hints.py` has the command-line form."""
    found = [
        f"{path.relative_to(SOURCE)}: {text[:200]}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in ("cli", "hints.py")
        for text in texts_of(path)
        if (FLAG.search(text) and not any(other in text for other in OTHERS)) or IN_PYTHON.search(text)
    ]
    assert found == []


@cache
def commands():
    return get_command(make_app())


FACTS = {
    name: name.upper()
    for form in HINTS.values()
    for text in form
    for _, name, *_ in string.Formatter().parse(text)
    if name
}


@pytest.mark.parametrize("action", HINTS)
def test_every_hint_can_be_followed(action):
    """Its commands parse, its calls have arguments of that name, and the Python form has no flag."""
    call = hint(action, **FACTS)
    with as_command_line():
        command = hint(action, **FACTS)
    assert not FLAG.search(call)
    for method, arguments in re.findall(r"(?<![.\w])corpus\.(\w+)\((.*?)\)", call):
        signature = inspect.signature(getattr(Corpus, method))
        for name in re.findall(r"(\w+)=", arguments):
            assert name in signature.parameters
    for name in re.findall(r"(\w+)=", "".join(re.findall(r"gristmill\.open\((.*?)\)", call))):
        assert name in inspect.signature(open_corpus).parameters
    for line in re.findall(r"gristmill ([a-z]+ [^,]*(?:RECIPE|NAME)[^,>]*)", command.replace("COMMAND", "funnel")):
        found, words = commands(), shlex.split(line)
        while hasattr(found, "commands"):
            name, found, words = found.resolve_command(found.make_context("gristmill", list(words)), words)
        options = {flag for parameter in found.params for flag in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_a_message_has_a_python_form_and_a_command_line_form(project, monkeypatch, capsys):
    """For the same mistake, Python names the argument and the command line names the option."""
    corpus = gristmill.open(project.recipe, sample="10%")
    with pytest.raises(gristmill.UserError, match=r"^tag= names a version of the whole corpus.* Omit tag=, or"):
        corpus.run(tag="v1")
    command = ["gristmill", "run", str(project.recipe), "--sample", "10%", "--tag", "v1"]
    monkeypatch.setattr(sys, "argv", command)
    assert run_command() == 2
    assert re.match("gristmill: --tag names a version of the whole corpus.* Omit --tag, or", capsys.readouterr().err)
    with pytest.raises(gristmill.UserError, match=r"Run: corpus\.run\(\)$"):
        corpus.funnel()
    monkeypatch.setattr(sys, "argv", ["gristmill", "funnel", str(project.recipe), "--sample", "10%"])
    assert run_command() == 2
    assert capsys.readouterr().err.endswith(f"Run: gristmill run {project.recipe} --sample 10%\n")


def test_the_command_line_form_ends_with_the_command():
    """After a command, even one that fails, messages are in the Python form again."""
    with suppress(ZeroDivisionError), as_command_line():
        assert (option("file_bytes", 7), option("tag")) == ("--file-size 7", "--tag")
        assert named("a.yaml", 0.125) == "a.yaml --sample 12.5%"
        raise ZeroDivisionError
    assert (option("file_bytes", 7), option("tag")) == ("file_bytes=7", "tag=")
    assert (named("a.yaml", 0.125), named("a.yaml", None)) == ("a.yaml (sample=12.5%)", "a.yaml")
