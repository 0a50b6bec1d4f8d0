"""`gristmill tokenizer audit` as a user runs it: its files, its output and its exit codes."""

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
import typer
from tests.tokenizer.library_made import changed, library_json
from typer.testing import CliRunner

from gristmill.errors import UserError
from gristmill.tokenizer import files
from gristmill.tokenizer.model import Tokenizer
from gristmill_tokenizer import command as tokenizer_audit
from gristmill_tokenizer.audit import failed

pytestmark = pytest.mark.slow

app = typer.Typer()
app.command(epilog=tokenizer_audit.EXAMPLE)(tokenizer_audit.command)


@lru_cache(maxsize=1)
def good_tokenizer() -> str:
    return library_json("llama3", vocab=1500)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_text(good_tokenizer())
    (tmp_path / "other.json").write_text(library_json("o200k", vocab=1500))
    (tmp_path / "held.jsonl").write_text(json.dumps({"text": "été à la maison", "lang": "fr"}) + "\n")
    return tmp_path


def run_audit(folder: Path, *arguments: str):
    return CliRunner().invoke(app, [*arguments, "--out", str(folder / "out.json")])


def test_a_good_tokenizer_passes(folder: Path) -> None:
    """A folder means its tokenizer.json; the printed JSON equals the file."""
    done = run_audit(
        folder, str(folder), "--text", f"french={folder}/*.jsonl", "--sizes", "800", "--d-model", "8", "--json"
    )
    assert done.exit_code == 0, done.output
    report = json.loads((folder / "out.json").read_text())
    assert json.loads(done.stdout) == report
    assert report["passed"] is True
    assert report["sizes"]["rows"][0]["embedding_parameters_tied"] == 6400
    assert list(report["bytes_per_token_by_language"][str(folder)]) == ["fr"]


def test_another_tokenizer_is_compared_and_a_missing_text_is_reported(folder: Path) -> None:
    """Without --text, the numbers come from a built-in sample, and the report says so."""
    other = str(folder / "other.json")
    done = run_audit(folder, str(folder), "--against", other)
    assert done.exit_code == 0, done.output
    assert "No --text was given" in done.stdout
    report = json.loads((folder / "out.json").read_text())
    assert list(report["bytes_per_token"]) == [str(folder), other]
    assert list(report["bytes_per_token"][other]) == ["prose", "code", "multilingual", "all"]


def test_a_failed_check_fails_the_command_after_the_report(folder: Path) -> None:
    """The exit code is 1; the failure is on stderr and in the report."""
    (folder / "tokenizer.json").write_text(changed(good_tokenizer(), normalizer={"type": "Lowercase"}))
    done = run_audit(folder, str(folder), "--text", f"french={folder}/*.jsonl")
    assert done.exit_code == 1
    assert "failed: round_trip" in done.stderr
    assert "is encoded by the library" in done.stderr
    assert json.loads((folder / "out.json").read_text())["passed"] is False


def test_a_rank_file_without_a_pattern_uses_the_given_pattern(folder: Path) -> None:
    """A tokenizer.json has its own pattern. A rank file has no special tokens, so their ids are unused."""
    tokenizer = files.load(str(folder))
    assert isinstance(tokenizer, Tokenizer)
    special = tuple(token._replace(special=True) for token in tokenizer.definition.added)
    ranks = files.write_ranks(Tokenizer(replace(tokenizer.definition, added=special)), folder / "made.tiktoken")
    ranks.with_name("made.tiktoken.json").unlink()
    text = ("--text", f"french={folder}/*.jsonl")
    assert "Name one" in str(run_audit(folder, str(ranks), *text).exception)
    done = run_audit(folder, str(ranks), "--against", str(folder), "--pattern", "llama3", *text)
    report = json.loads((folder / "out.json").read_text())
    assert report["bytes_per_token"][str(ranks)] == report["bytes_per_token"][str(folder)]
    assert (done.exit_code, failed(report)) == (1, ["ids_are_contiguous"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{0}/missing.json",), "missing.json: .* Check the path"),
        (("{0}/held.jsonl",), "not a tokenizer.json"),
        (("{0}/plain.txt",), "neither a tokenizer.json nor a rank file"),
        (("{0}", "--against", "{0}"), "given twice"),
        (("{0}", "--text", "code={0}/*.nothing"), "matches no file"),
        (("{0}", "--text", "code={0}/plain.jsonl"), "has no text"),
        (("{0}", "--text", "code={0}/latin.txt"), "is not UTF-8"),
        (("{0}", "--sizes", "many"), "--sizes many is not a list of numbers"),
    ],
)
def test_a_wrong_input_is_refused_before_any_report(arguments: tuple[str, ...], message: str, folder: Path) -> None:
    """The message has fact, consequence and fix; nothing is written."""
    (folder / "plain.txt").write_text("no tokenizer at all\n")
    (folder / "plain.jsonl").write_text("no text at all\n")
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    done = run_audit(folder, *(argument.format(folder) for argument in arguments))
    assert isinstance(done.exception, UserError)
    with pytest.raises(UserError, match=message):
        raise done.exception
    assert not (folder / "out.json").exists()
