"""The tokenizer commands as a user runs them."""

import io
import json
import random
import re
import sys
from types import SimpleNamespace

import pytest

from gristmill.cli.main import main
from gristmill.cli.shared import show
from gristmill.tokenizer.files import load

pytestmark = pytest.mark.slow

COMMANDS = ("train", "pin", "audit", "show")
WORDS = ["mill", "grain", "stone", "water", "wheel", "don't", "12345", "x = y\n", "Mühle"]
TEXT = " The wheel <|user|>\n\tdon't 数 mill 12345"


@pytest.fixture
def run_tokenizer(monkeypatch, capfd):
    """Return a function that runs a tokenizer command with the given standard input."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["gristmill", "tokenizer", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
        output = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=output.out, err=output.err)

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a recipe whose tokenizer is not trained yet."""
    folder_path = tmp_path_factory.mktemp("project")
    draw = random.Random(1)
    lines = [json.dumps({"text": " ".join(draw.choices(WORDS, k=30))}) for _ in range(60)]
    (folder_path / "in.jsonl").write_text("\n".join(lines))
    (folder_path / "r.yaml").write_text(
        "recipe: r\nstore: ./store\nsources:\n"
        "  notes: {kind: text, domain: prose, read: {format: jsonl, paths: [in.jsonl]}}\nsteps: []\n"
        "tokenizer: {train: {vocab: 540, held_out_share: 0.1, sample_bytes: {prose: 8KB}}}\n"
    )
    return folder_path


@pytest.fixture
def trained(folder, run_tokenizer):
    """The same folder after training, with the tokenizer files."""
    if not (folder / "out").exists():
        done = run_tokenizer("train", folder / "r.yaml", "--out", folder / "out", "--json", "--workers", "1")
        assert done.code == 0, done.err
        (folder / "said.json").write_text(done.out)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(command, run_tokenizer):
    """`--help` shows an example and mentions --json."""
    shown = run_tokenizer(command, "--help").out
    assert "--json" in shown
    assert f"Example: gristmill tokenizer {command}" in " ".join(shown.split())


def test_a_recipe_that_did_not_run_says_what_to_run(folder, run_tokenizer, tmp_path):
    """A store without a trained tokenizer gives the command that trains it."""
    result = run_tokenizer("show", folder / "r.yaml", "mill", "--store", tmp_path)
    assert result.code == 2
    assert "Run: gristmill tokenizer train" in result.err


def test_train_writes_equivalent_files_and_reports_bytes_per_token(trained):
    """The JSON file, the rank file and the stored tokenizer encode alike; held-out text is measured by domain."""
    summary = json.loads((trained / "said.json").read_text())
    files = {file.name for file in (trained / "out").iterdir()}
    assert files == {"tokenizer.json", "tokenizer_config.json", "tokenizer.tiktoken", "tokenizer.tiktoken.json"}
    tokenizer, ranks = load(str(trained / "out")), load(str(trained / "out" / "tokenizer.tiktoken"))
    assert tokenizer.hash == summary["hash"] == load(summary["stored"]).hash
    assert tokenizer.encode_text(TEXT) == ranks.encode_text(TEXT)
    assert summary["vocab"] == 540
    held_out = summary["held_out"]["prose"]
    assert held_out["documents"] > 0
    assert held_out["bytes_per_token"] == held_out["bytes"] / held_out["tokens"]
    assert 7_500 < summary["trained_on"]["prose"]["bytes"] <= 8_000


def test_a_tokenizer_without_a_rank_file_form_is_written_as_json_only(trained, run_tokenizer, tmp_path):
    """A foreign tokenizer has a token that is matched in every text: a line says why the rank file is left out."""
    spec = json.loads((trained / "out" / "tokenizer.json").read_text())
    spec["added_tokens"][-1]["special"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    recipe = (trained / "r.yaml").read_text().partition("tokenizer:")[0].replace("in.jsonl", f"{trained}/in.jsonl")
    (tmp_path / "r.yaml").write_text(f"{recipe}tokenizer: {{file: tokenizer.json}}\n")
    done = run_tokenizer("train", tmp_path / "r.yaml", "--out", tmp_path / "out", "--json", "--workers", "1")
    assert done.code == 0, done.err
    assert "tokenizer.tiktoken was not written: This tokenizer cannot be written as a rank file" in " ".join(
        done.err.split()
    )
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    assert len(json.loads(done.out)["files"]) == 2


def test_training_again_runs_nothing_and_shows_a_table(trained, run_tokenizer):
    """The table has size, hash, domains and files."""
    summary = json.loads((trained / "said.json").read_text())
    shown = run_tokenizer("train", trained / "r.yaml").out
    assert summary["hash"][:16] in shown
    assert f"{summary['held_out']['prose']['bytes_per_token']:.3f}" in shown
    assert summary["stored"] in shown


@pytest.mark.parametrize("name", ["out", "out/tokenizer.json", "out/tokenizer.tiktoken", "r.yaml"])
def test_ids_and_text_round_trip_for_every_tokenizer_argument(name, trained, run_tokenizer):
    """Text from standard input comes back exactly; a special token in it stays text."""
    shown = json.loads(run_tokenizer("show", trained / name, "-", "--json", stdin=TEXT.encode()).out)
    ids = " ".join(str(token["id"]) for token in shown["tokens"])
    assert [int(word) for word in ids.split()] == load(str(trained / "out")).encode_text(TEXT)
    assert run_tokenizer("show", trained / name, "--ids", "-", stdin=ids.encode()).out == TEXT
    assert run_tokenizer("show", trained / name, "--ids", ids).out == TEXT
    assert json.loads(run_tokenizer("show", trained / name, "--ids", ids, "--json").out) == {"text": TEXT}


def test_special_tokens_are_encoded_only_with_special(trained, run_tokenizer):
    """--special encodes a special token as one id."""
    special = load(str(trained / "out")).specials["<|user|>"]
    shown = json.loads(run_tokenizer("show", trained / "out", "<|user|>", "--special", "--json").out)
    assert shown["tokens"] == [{"id": special, "token": "<|user|>"}]
    assert len(json.loads(run_tokenizer("show", trained / "out", "<|user|>", "--json").out)["tokens"]) > 1
    assert run_tokenizer("show", trained / "out", "--ids", special).out == "<|user|>"


def test_show_describes_the_tokenizer(trained, run_tokenizer):
    """It shows pattern, size, special tokens and merges, in text and in JSON."""
    summary = json.loads(run_tokenizer("show", trained / "out", "--json").out)
    assert (summary["pattern"], summary["vocab"], summary["special_tokens"], summary["merges"]) == (
        "gristmill",
        540,
        256,
        28,
    )
    assert summary["first_merges"][0][2] == 256
    assert summary["last_merges"][-1][2] == 256 + 27
    shown = run_tokenizer("show", trained / "out").out
    assert "540 tokens, 28 merges" in shown
    assert "<|fim_prefix|>" in shown


def test_show_splits_a_text_into_tokens_with_ids(trained, run_tokenizer):
    """Partial characters and line ends are readable."""
    tokens = json.loads(run_tokenizer("show", trained / "out", "mill 数\n", "--json").out)["tokens"]
    assert "".join(token["token"] for token in tokens) == "mill \\xe6\\x95\\xb0\\n"
    assert [token["id"] for token in tokens] == load(str(trained / "out")).encode_text("mill 数\n")
    shown = run_tokenizer("show", trained / "out", "[mill] 数").out
    assert "\\xe6│" in shown
    assert "[" in shown


MISTAKES = {
    "no such file": (("show", "no/tokenizer.json", "x"), "Check the path"),
    "not an id": (("show", "out", "--ids", "12 twelve"), "'twelve' is not a token id"),
    "an id too high": (("show", "out", "--ids", "540"), "540 is not an id of this tokenizer"),
    "a recipe without a tokenizer": (("train", "plain.yaml"), "Add tokenizer: {train:"),
    "a file as folder": (("train", "r.yaml", "--out", "in.jsonl"), "Name a folder"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_message_with_its_fix(case, trained, run_tokenizer, monkeypatch):
    """Standard error has only the fact, the consequence and the fix; the exit code is 2."""
    monkeypatch.chdir(trained)
    (trained / "plain.yaml").write_text((trained / "r.yaml").read_text().split("tokenizer:")[0])
    arguments, fix = MISTAKES[case]
    result = run_tokenizer(*arguments)
    assert result.code == 2
    assert fix in result.err
    assert "Traceback" not in result.err


def test_standard_input_that_is_not_utf8_is_refused(trained, run_tokenizer):
    """The message names the invalid byte."""
    result = run_tokenizer("show", trained / "out", "-", stdin=b"abc\xff")
    assert result.code == 2
    assert "Byte 3 of standard input is not valid UTF-8" in result.err


def test_audit_of_a_recipe_measures_on_its_held_out_text(trained, run_tokenizer, tmp_path):
    """The recipe gives the tokenizer and the text; a sound tokenizer passes."""
    done = run_tokenizer("audit", trained / "r.yaml", "--out", tmp_path / "audit.json", "--sizes", "520,540", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["passed"]
    assert list(report["bytes_per_token"][str(trained / "r.yaml")]) == ["prose", "all"]
    assert json.loads((tmp_path / "audit.json").read_text()) == report


def test_a_store_alone_is_not_a_tokenizer(trained, run_tokenizer):
    """The message says how to name a run."""
    said = run_tokenizer("show", trained / "store").err
    assert re.search(r"Write STORE@NAME\. Versions: \w{12}, without a name\. Recipes that were run: r\.", said)


def test_audit_shows_progress(trained, run_tokenizer, tmp_path, monkeypatch):
    """The total is known from the first text on: every tokenizer and every vocabulary size."""
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.0)
    done = run_tokenizer(
        *("audit", trained / "r.yaml", "--against", trained / "out"),
        *("--out", tmp_path / "audit.json", "--sizes", "520,540"),
    )
    lines = done.err.splitlines()
    assert "1 of 4 tasks, 1 of 4 stages done; " in lines[0]  # the time of the first says nothing about the others
    assert "2 of 4 tasks, 2 of 4 stages done, about " in lines[1]
    assert lines[0].endswith(f"{trained / 'r.yaml'} 1/1 (1 new)")
    assert [line.split("; ")[-1] for line in lines[2:]] == [f"vocabulary of {size} 1/1 (1 new)" for size in (520, 540)]
