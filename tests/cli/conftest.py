"""One shared corpus that uses every feature: a web crawl and notes, steps that drop, cut and replace
text, and shards.
"""

import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import Project

from demo import evals
from demo.warc import Response, write
from gristmill.cli.main import main
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer
from read_only import make_read_only

RECIPE = """
recipe: everything
seed: 5
store: ./store
sources:
  crawl: {kind: web, read: {format: warc, paths: ["in/*.warc.gz"]}, domain: web, tier: A}
  notes: {kind: text, read: {format: jsonl, paths: ["in/notes.jsonl"], fields: {key: id}}, domain: text, tier: A}
steps:
  web:
    - gate: {block_domains: lists/blocked.txt}
    - robots: {agent: CCBot}
    - extract
    - language
    - keep_language: {keep: {en: 0.5}}
  text:
    - homemade.longer: {min_chars: 15}
  all:
    - signals: {blocked_terms: [fraudulent]}
    - heuristics: {rules: [gopher_quality], gopher_quality: {min_words: 12, min_stop_words: 1}}
    - lines: {terminal_punctuation: false}
    - exact_dedup: {normalise: none}
    - line_dedup: {max_count: 3}
    - near_dedup: {scope: global}
    - substring_dedup: {min_bytes: 100, scope: global}
    - decontaminate: {suite: evals}
    - safety: {min_blocked: 1, max_blocked_share: 0}
    - scrub
tokenizer: {file: tokenizer.json}
shards: {seq_len_tokens: 128, shard_tokens: 4000}
mix: {tokens: 4k, domains: {web: 0.5, text: 0.5}, max_epochs: 50}
"""
TWO_ROUTES = """
recipe: routes
seed: 5
store: ./store
sources:
  crawl: {kind: web, read: {format: warc, paths: ["in/*.warc.gz"]}}
  notes: {kind: text, read: {format: jsonl, paths: ["in/notes.jsonl"], fields: {key: id}}}
  lists: {kind: list, read: {format: jsonl, paths: ["in/lists.jsonl"]}}
steps:
  web:
    - extract
    - language
    - keep_language: {keep: {en: 0.5}}
    - signals
    - heuristics:
        gopher_quality: {min_words: 12, min_stop_words: 1, by_language: {de: {min_words: 5}}}
        c4: {terminal_punctuation: false, min_sentences: 1}
    - near_dedup: {scope: global}
  text:
    - language
    - keep_language: {keep: {en: 0.5}}
    - signals
    - heuristics: {gopher_quality: {min_words: 12, min_stop_words: 1}}
    - near_dedup: {scope: global}
  list: []
  all:
    - exact_dedup: {normalise: none}
"""
FOOTER = "This line stands below every page of the whole site, and says nothing at all to anybody."
PROSE = "The mill of the town stands with the river, and it is the wheel that has to turn the stone for all of them."
SHARED = "A stretch of text that two quite different pages have in common, word for word and sign for sign."
ASKED = "How many sacks of rye does the miller of Lower Stonebridge grind between the first frost and the spring fair?"
WRITTEN = "Who wants to have the grain of the year ground may write to the miller, wilma@stonebridge-mill.de, at once."
GERMAN = "Die Mühle steht am Fluss und mahlt das Korn für das ganze Dorf, und niemand weiß mehr, wer sie gebaut hat."


def page(number, text):
    same = 5 if number == 6 else number  # page 6 is a near-duplicate of page 5
    words = " ".join(f"grain{same}x{at}" for at in range(60))
    lines = (f"{text} Page {number}.", "Here we use cookies.", f"{words} and the {PROSE}", FOOTER)
    body = "".join(f"<p>{line}</p>" for line in lines)
    return f"<html><head><title>Page {number}</title></head><body>{body}</body></html>".encode()


def responses():
    yield Response("https://mill.example/robots.txt", b"User-agent: *\nDisallow: /private\n", "text/plain")
    for number in range(12):
        yield Response(
            f"https://mill.example/{number}", page(number, PROSE + (f" {SHARED}" if number in (3, 4) else ""))
        )
    yield Response("https://mill.example/private/a", page(90, PROSE))
    yield Response("https://blocked.example/a", page(91, PROSE))
    yield Response("https://mill.example/german", page(92, GERMAN * 6))
    yield Response("https://mill.example/asked", page(94, f"{PROSE} {ASKED}"))
    yield Response("https://mill.example/written", page(95, f"{PROSE} {WRITTEN}"))
    yield Response("https://unsafe.example/a", page(96, f"{PROSE} fraudulent"))
    yield Response("https://mill.example/copy", page(3, f"{PROSE} {SHARED}"))
    yield Response("https://mill.example/empty", b"<html><body></body></html>")
    yield Response("https://mill.example/gone", b"nothing here", status="404 Not Found")
    yield Response("https://mill.example/cut", page(93, PROSE), cut=0.7)


def notes():
    for number in range(12):
        lines = [f"{PROSE} Note {number}, of the grain{number}.", FOOTER, "use cookies"]
        yield {"id": f"n{number}", "text": "\n".join(lines)}
    yield {
        "id": "written",
        "text": "The baker has what is left of the flour: ask bruno@upper-bakery.de for it, and bring a bag.",
    }
    yield {"id": "short", "text": "too short"}
    yield {"id": "none", "text": ""}
    yield {"id": "words", "text": "The seven words of the short note."}


@pytest.fixture(scope="module", autouse=True)
def without_workers(in_this_process):
    """Commands run in this process or in a subprocess, never in workers."""


@pytest.fixture(scope="session")
def everything(tmp_path_factory):
    """A project with its recipe, inputs, lists and custom step; its store holds one run, tagged v1."""
    project = Project(tmp_path_factory.mktemp("everything"))
    for name in ("in", "lists", "homemade"):
        (project.folder / name).mkdir(parents=True)
    evals.write(project.folder / "evals", {"mill": [evals.Item("rye", ASKED, "forty")]})
    write(project.folder / "in" / "a.warc.gz", responses(), datetime(2026, 11, 1, tzinfo=UTC))
    (project.folder / "in" / "notes.jsonl").write_text("\n".join([*map(json.dumps, notes()), "{broken"]))
    (project.folder / "lists" / "blocked.txt").write_text("blocked.example\n")
    custom_step = Path(__file__).parents[1] / "stagebox" / "upper.py"
    (project.folder / "homemade" / "longer.py").write_text(
        custom_step.read_text().replace("pc.utf8_upper(text)", "text")
    )
    empty = np.zeros(0, np.int32)
    write_json(Tokenizer.from_merges("gristmill", empty, empty), project.folder)
    project.recipe.write_text(RECIPE)
    sys.path.insert(0, str(project.folder))
    try:
        run = project.run()
        project.mill().store.write_json("versions/v1.json", project.mill().newest_whole())
        yield SimpleNamespace(project=project, run=run)
    finally:
        sys.path.remove(str(project.folder))


@pytest.fixture(scope="session")
def routes(tmp_path_factory):
    """A project with three routes, two of which have the same steps, and its run."""
    project = Project(tmp_path_factory.mktemp("routes"))
    (project.folder / "in").mkdir()
    write(project.folder / "in" / "a.warc.gz", responses(), datetime(2026, 11, 1, tzinfo=UTC))
    (project.folder / "in" / "notes.jsonl").write_text("\n".join([*map(json.dumps, notes()), "{broken"]))
    (project.folder / "in" / "lists.jsonl").write_text(json.dumps({"text": "one\ntwo"}))
    project.recipe.write_text(TWO_ROUTES)
    return SimpleNamespace(project=project, run=project.run())


@pytest.fixture(autouse=True)
def shared_projects_are_read_only(request, monkeypatch):
    """A test that changes a session-wide project fails, because later tests would see the change."""
    for name in {"everything", "routes"}.intersection(request.fixturenames):
        make_read_only(monkeypatch, request.getfixturevalue(name).project.folder)


@pytest.fixture
def copy_of(tmp_path):
    """Return a function that copies a shared project, so that a test may change it."""

    def copy(shared):
        shutil.copytree(shared.project.folder, tmp_path / "copy", symlinks=True)
        return Project(tmp_path / "copy")

    return copy


@pytest.fixture
def say(monkeypatch, capfd):
    """Return a function that runs a command and gives its exit code, stdout and stderr."""
    monkeypatch.setenv("NO_COLOR", "1")

    def run_command(*arguments):
        monkeypatch.setattr(sys, "argv", ["gristmill", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=output.out, err=output.err)

    return run_command
