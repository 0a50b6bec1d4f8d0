"""What a stage's `check` reports about its config is a mistake in the recipe: all at once, each with its line."""

import os

import pytest

from gristmill.errors import UserError
from gristmill.recipe.load import load

pytestmark = pytest.mark.usefixtures("forgotten")

TOP = """recipe: r
sources:
  s:
    kind: text
    domain: d
    read:
      format: jsonl
      paths: [a.jsonl]
steps:
"""
TRAIN = "  []\ntokenizer:\n  train: {sample_bytes: {d: 1MB}}\n"
OWN = """
import pyarrow as pa
from gristmill.errors import CannotBeMet, UserError, WrongSetting
from gristmill.stages.contract import Map, StageConfig
SCHEMA = pa.schema([("x", pa.string())])
class Inner(StageConfig):
    size: int = 0
class Config(StageConfig):
    how: str = ""
    inner: Inner = Inner()
def check(config):
    if config.how == "user": raise UserError("the moon is full. Wait")
    if config.how == "cannot": raise CannotBeMet("the moon is full. Wait")
    if config.how == "value": raise ValueError("the moon is full")
    if config.how == "exit": raise SystemExit("the moon is full")
    if config.inner.size: raise WrongSetting("inner.size", "the moon is full. Wait.")
def apply(batch, config): return batch
STAGE = Map(config=Config, check=check, reads=("text",), schema=SCHEMA, apply=apply)
"""
READER = """
from gristmill.errors import UserError
from gristmill.stages.contract import Reader, StageConfig
class Config(StageConfig): pass
def check(config): raise UserError("the moon is full. Wait")
def read(piece, config): return iter(())
STAGE = Reader(config=Config, check=check, read=read)
"""

CASES = {
    "a step": ("  - line_dedup:\n      min_chars: 3\n      protected_patterns: ['(']\n", 12, "steps.line_dedup.prot"),
    "a folder of a step": ("  - decontaminate:\n      suite: folder\n", 11, "steps.decontaminate.suite: "),
    "a pipe for a folder": ("  - decontaminate:\n      suite: pipes\n", 11, "suite.yaml: not a regular file"),
    "tokenizer.file": ("  []\ntokenizer:\n  file: bad.json\n", 12, "tokenizer.file: "),
    "tokenizer.pin": (TRAIN + "  pin: bad.json\n", 13, "tokenizer.pin: "),
    "shards": (TRAIN + "shards:\n  seq_len_tokens: 64\n  shard_tokens: 63\n", 15, "shards.shard_tokens: 63 is less"),
    "mix": (
        TRAIN + "shards: {}\nmix:\n  tokens: 3\n  continues:\n    manifest: bad.json\n    at_sample: 3\n",
        17,
        "mix.continues.manifest: ",
    ),
    "a step of one's own": ("  - own: {how: user}\n", 10, "the moon is full. Wait"),
    "a setting of it": (
        "  - own:\n      how: fine\n      inner:\n        size: 3\n",
        13,
        "steps.own.inner.size: the moon",
    ),
    "what the engine would place": ("  - own: {how: cannot}\n", 10, "the moon is full. Wait"),
    "an error in its code": (
        "  - own: {how: value}\n",
        10,
        "own cannot be used: ValueError: the moon is full, in your own code",
    ),
    "an exit in its code": (
        "  - own: {how: exit}\n",
        10,
        "own cannot be used: SystemExit: the moon is full, in your own code",
    ),
    "columns that it will not tell": ("  - unread\n", 10, "unread cannot be used: the moon is full. Wait."),
}


@pytest.fixture
def reported(tmp_path):
    """The message for a recipe that is refused."""
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / "suite.yaml")
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "reader.py").write_text(READER)
    unread = "def reads(config): raise UserError('the moon is full. Wait')\n"
    (tmp_path / "unread.py").write_text(unread + OWN.replace('reads=("text",)', "reads=reads"))

    def refuse(text):
        (tmp_path / "r.yaml").write_text(text)
        with pytest.raises(UserError) as caught:
            load(tmp_path / "r.yaml")
        return str(caught.value)

    return refuse


@pytest.mark.parametrize("case", CASES)
def test_a_failed_check_has_its_line(reported, tmp_path, case):
    """The line of the field if the stage names one, otherwise that of the step; before anything is run."""
    steps, line, fact = CASES[case]
    message = reported(TOP + steps)
    assert message.startswith(f"{tmp_path}/r.yaml:{line}: "), message
    assert fact in message
    assert "\n" not in message


def test_a_failed_check_of_a_reader_has_the_line_of_its_format(reported, tmp_path):
    message = reported(TOP.replace("jsonl\n", "reader\n", 1) + "  []\n")
    assert message == f"{tmp_path}/r.yaml:7: the moon is full. Wait"


def test_all_checks_are_reported_at_once(reported):
    """Together with other mistakes."""
    message = reported(
        TOP + "  - own: {how: user}\n  - line_dedup: {protected_patterns: ['(']}\n  - lines: {min_wrods: 3}\n"
    )
    assert [line.split(":")[1] for line in message.splitlines()] == ["10", "11", "12"]


@pytest.mark.parametrize(
    ("read", "line", "why"),
    [
        ("format: html\n      paths: [a]", 7, "format: html reads pages"),
        ("format: jsonl\n      paths: [a]\n      fields: {html: body}", 9, "fields.html names 'body'"),
    ],
)
def test_markup_without_a_step_that_extracts_text_is_refused(tmp_path, read, line, why):
    """Its documents would have no text; if it may be text (another field, an archive), only the run can know."""
    top = TOP.replace("format: jsonl\n      paths: [a.jsonl]", read)
    path = tmp_path / "recipe.yaml"
    path.write_text(top + "  - exact_dedup\n")
    with pytest.raises(UserError, match=rf":{line}: sources\.s: {why}.*Add - extract"):
        load(path)
    for good in (top + "  - extract\n", TOP.replace("[a.jsonl]", "[a.jsonl]\n      fields: {html: null}") + "  []\n"):
        path.write_text(good)
        load(path)
