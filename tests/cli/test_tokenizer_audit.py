"""`gristmill tokenizer audit` as a user types it: what it writes, what it prints, and how it ends."""

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
import typer
from tests.tokenizer.library_made import changed, library_json
from typer.testing import CliRunner

from gristmill.cli.tokenizer import audit as tokenizer_audit
from gristmill.errors import UserError
from gristmill.report.audit.audit import failed
from gristmill.tokenizer import files
from gristmill.tokenizer.model import Tokenizer

pytestmark = pytest.mark.slow

app = typer.Typer()
app.command(epilog=tokenizer_audit.EXAMPLE)(tokenizer_audit.command)


@lru_cache(maxsize=1)
def good() -> str:
    return library_json("llama3", vocab=1500)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_text(good())
    (tmp_path / "other.json").write_text(library_json("o200k", vocab=1500))
    (tmp_path / "held.jsonl").write_text(json.dumps({"text": "été à la maison", "lang": "fr"}) + "\n")
    return tmp_path


def typed(folder: Path, *arguments: str):
    return CliRunner().invoke(app, [*arguments, "--out", str(folder / "out")])


def test_a_good_tokenizer_ends_well_with_both_reports(folder: Path) -> None:
    """A folder stands for its tokenizer.json; the printed JSON is the written one."""
    done = typed(
        folder, str(folder), "--text", f"french={folder}/*.jsonl", "--sizes", "800", "--d-model", "8", "--json"
    )
    assert done.exit_code == 0, done.output
    report = json.loads((folder / "out" / "audit.json").read_text())
    assert json.loads(done.stdout) == report
    assert report["passed"] is True
    assert report["sizes"]["rows"][0]["embedding_parameters_tied"] == 6400
    assert list(report["bytes_per_token_by_language"][str(folder)]) == ["fr"]
    assert (folder / "out" / "audit.html").read_text().startswith("<!doctype html>")


def test_a_report_that_nobody_placed_is_kept_out_of_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder in the working one ignores itself, and it is said where it went, beside the JSON too."""
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, [str(folder), "--text", f"french={folder}/*.jsonl", "--json"])
    assert done.exit_code == 0, done.output
    assert (folder / "tokenizer-audit" / ".gitignore").read_text() == "*\n"
    assert "Report: tokenizer-audit/audit.html, tokenizer-audit/audit.json" in done.stderr
    assert not (typed(folder, str(folder), "--text", f"french={folder}/*.jsonl").exit_code)
    assert not (folder / "out" / ".gitignore").exists()


def test_another_tokenizer_stands_beside_it_and_a_missing_sample_is_said(folder: Path) -> None:
    """Without --text the numbers are of a built-in sample, and the report says so."""
    other = str(folder / "other.json")
    done = typed(folder, str(folder), "--against", other)
    assert done.exit_code == 0, done.output
    assert "No --text was given" in done.stdout
    report = json.loads((folder / "out" / "audit.json").read_text())
    assert list(report["bytes_per_token"]) == [str(folder), other]
    assert list(report["bytes_per_token"][other]) == ["prose", "code", "multilingual", "all"]
    assert "No --text was given" in (folder / "out" / "audit.html").read_text()


def test_a_failed_check_fails_the_command_after_the_report(folder: Path) -> None:
    """Exit code 1; what failed stands on stderr and in the report."""
    (folder / "tokenizer.json").write_text(changed(good(), normalizer={"type": "Lowercase"}))
    done = typed(folder, str(folder), "--text", f"french={folder}/*.jsonl")
    assert done.exit_code == 1
    assert "failed: round_trip" in done.stderr
    assert "is encoded by the library" in done.stderr
    assert json.loads((folder / "out" / "audit.json").read_text())["passed"] is False
    assert "FAILED" in (folder / "out" / "audit.html").read_text()


def test_a_rank_file_without_its_pattern_takes_the_one_that_is_named(folder: Path) -> None:
    """Unlike a tokenizer.json, which names its own. Special tokens are not in a rank file, so their ids are unused."""
    made = files.load(str(folder))
    assert isinstance(made, Tokenizer)
    special = tuple(token._replace(special=True) for token in made.definition.added)
    ranks = files.write_ranks(Tokenizer(replace(made.definition, added=special)), folder / "made.tiktoken")
    ranks.with_name("made.tiktoken.json").unlink()
    text = ("--text", f"french={folder}/*.jsonl")
    assert "Name one" in str(typed(folder, str(ranks), *text).exception)
    done = typed(folder, str(ranks), "--against", str(folder), "--pattern", "llama3", *text)
    report = json.loads((folder / "out" / "audit.json").read_text())
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
def test_a_wrong_input_is_told_before_any_report(arguments: tuple[str, ...], message: str, folder: Path) -> None:
    """Fact, consequence, fix; nothing is written."""
    (folder / "plain.txt").write_text("no tokenizer at all\n")
    (folder / "plain.jsonl").write_text("no text at all\n")
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    done = typed(folder, *(argument.format(folder) for argument in arguments))
    assert isinstance(done.exception, UserError)
    with pytest.raises(UserError, match=message):
        raise done.exception
    assert not (folder / "out").exists()
