"""Every command that README, docs, Makefile and `--help` print runs as printed, on a recipe with shards."""

import re
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from pydoc_data import topics

import pyarrow as pa
import pytest
from tests.gold_pages import page as gold_page
from tests.gold_pages import text_of, write_gold
from tests.laws.test_own_steps_page import MODEL_PAGE, write_files
from tests.slurm_cluster import write_profile
from typer.main import get_command

from demo import __main__ as demo
from gristmill.cli.main import main, make_app
from gristmill.stages.tokenizer import tokenizer, tokenizer_sample
from gristmill_explore.serving import ExplorerServer
from gristmill_ngram import language_model

ROOT = Path(__file__).parents[2]
OF_PACKAGES = [ROOT / "packages" / name / "README.md" for name in ("ablate", "bias", "explore", "extractor", "ray")]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *OF_PACKAGES, *(ROOT / "docs").glob("*.md")])
PAGES.remove(ROOT / "docs" / "generate.md")  # test_generate_page.py runs it, with a server
COMMAND = re.compile(
    r"^(?:\t|    +)@?(?:echo \" +)?(?:\.venv/bin/|\$\(BIN\)/)?((?:gristmill|python -m (?:gristmill[.\w]*|demo)) .*)$",
    re.M,
)
SCALE = 0.08
"""The scale of the demo inputs: enough for every planted defect."""
OF_EXTRAS = ("duckdb", "obstore", "ray", "starlette", "torch", "trafilatura", "uvicorn", "vl_convert")
"""Libraries that `make demo` does not install, so no command of README needs them."""
FINDS_NOTHING = ("shards find",)
"""Commands whose printed example exits with 1, because it names a made-up document."""


def printed():
    """(Location, command) in the order of the pages, without the comments after a command."""
    makefile = (ROOT / "Makefile").read_text()
    yield from (("Makefile", line) for line in COMMAND.findall(makefile[makefile.index("\ndemo:") :]))
    for page in PAGES:
        yield from ((page.name, line) for line in COMMAND.findall(page.read_text()))
    yield from examples(get_command(make_app()), "gristmill")


def examples(command, name):
    """The examples that `--help` shows, for all commands and subcommands."""
    if hasattr(command, "commands"):
        for word, below in command.commands.items():
            yield from examples(below, f"{name} {word}")
    else:
        assert command.epilog, f"{name} has no example"
        line = command.epilog.removeprefix("Example: ")
        assert line.startswith(name), f"{name}: {line}"
        yield f"{name} --help", line


def test_commands_are_found():
    """The next test does not pass by finding nothing, and every command has a printed example."""
    found = list(printed())
    assert len(found) > 40
    for where in ("Makefile", "README.md", "tokenizer.md", "shards.md", "dedup.md", "rules.md"):
        assert any(page == where for page, _ in found), where


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_every_printed_command_runs(tmp_path, monkeypatch, capfd, request):
    """The commands run in order, in a folder as after `make demo`, with the right exit code and no traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ExplorerServer, "run", lambda *_: None)  # it would serve until it is stopped
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    failures = []

    def typed(line):
        words = shlex.split(line, comments=True)
        program = main if words[0] == "gristmill" else lambda: sys.exit(demo.main())
        monkeypatch.setattr(sys, "argv", ["gristmill", *words[1 if words[0] == "gristmill" else 3 :]])
        with pytest.raises(SystemExit) as ended:
            program()
        return ended.value.code or 0

    assert typed(f"python -m demo build demo/inputs --scale {SCALE}") == 0
    assert typed("gristmill run recipes/demo.yaml --tag before") == 0, capfd.readouterr().err
    write_what_examples_name(tmp_path)
    once = {" ".join(shlex.split(line, comments=True)): (where, line) for where, line in reversed([*printed()])}
    for where, line in reversed(once.values()):
        if re.search("gristmill (ablate|mix) ", line) and not re.search("--plan|--list", line):
            continue  # they train models, as packages/ablate/tests does
        if "--executor ray" in line:
            if not find_spec("ray"):
                continue
            request.getfixturevalue("ray_nodes")
        if " takedown receipt " in line:
            take_down(tmp_path)
            typed("gristmill run recipes/demo.yaml")
        with monkeypatch.context() as bare:
            for library in OF_EXTRAS if where == "README.md" else ():
                bare.setitem(sys.modules, library, None)
            code = typed(line)
        output = capfd.readouterr()
        if " tokenizer pin " in line:  # the other commands use the original recipe, with its takedowns
            taken = "\ntakedowns:" in (tmp_path / "recipes" / "demo.yaml").read_text()
            shutil.copytree(ROOT / "recipes", tmp_path / "recipes", dirs_exist_ok=True)
            if taken:
                take_down(tmp_path)
        expected = 1 if any(f" {name} " in line for name in FINDS_NOTHING) else 0
        if code != expected or "Traceback" in output.err:
            failures.append(f"{where}: {line}\nended with {code}\n{output.out[-500:]}\n{output.err[-2000:]}")
    assert not failures, "\n\n".join(failures)


def take_down(folder):
    """Change the recipe as docs/takedown.md describes."""
    recipe = folder / "recipes" / "demo.yaml"
    recipe.write_text(f"{recipe.read_text()}\ntakedowns: takedown/requests.yaml\n")


def train_tokenizer(folder, vocab):
    """Train a tokenizer on other texts, to compare with."""
    texts = pa.array([text for _, text in sorted(topics.topics.items())])
    columns = [texts, pa.array(["prose"] * len(texts)), pa.array([tokenizer_sample.TRAIN] * len(texts))]
    folder.mkdir()
    batch = pa.RecordBatch.from_arrays(columns, names=("sampled", "domain", "split"))
    tokenizer.fit([batch], tokenizer.Config(vocab=vocab), folder / "tokenizer.json")


def write_what_examples_name(folder):
    """Write the user files that the examples mention."""
    for name in ("held_out", "docs"):
        (folder / name).mkdir()
    reference = next((folder / "demo" / "inputs" / "reference").glob("*.jsonl.zst"))
    shutil.copyfile(reference, folder / "held_out" / "code-0.jsonl.zst")
    for name in ("README.md", "prose.txt"):
        shutil.copyfile(ROOT / "README.md", folder / name)
    train_tokenizer(folder / "other", 600)
    (folder / "models").mkdir()
    words = language_model.Config(name="clean", files=(str(folder / "prose.txt"),), min_documents=1, order=2)
    language_model.fit((), words, folder / "models" / "clean.ngrams")
    write_gold(folder / "gold")
    (folder / "page.html").write_text(gold_page(text_of(0)))
    shutil.copytree(folder / "demo" / "store" / "shards" / "demo" / "latest", folder / "copied")
    write_files(folder)
    write_files(folder, MODEL_PAGE)
    write_profile(folder)
