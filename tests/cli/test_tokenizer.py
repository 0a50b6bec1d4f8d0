"""The tokenizer commands as a user types them."""

import io
import json
import random
import sys
from types import SimpleNamespace

import pytest

from gristmill.cli.main import main
from gristmill.cli.shared import show
from gristmill.cli.tokenizer import compare as tokenizer_compare
from gristmill.tokenizer.files import load

pytestmark = pytest.mark.slow

COMMANDS = ("train", "pin", "audit", "encode", "decode", "show", "compare")
WORDS = ["mill", "grain", "stone", "water", "wheel", "don't", "12345", "x = y\n", "Mühle"]
TEXT = " The wheel <|user|>\n\tdon't 数 mill 12345"


@pytest.fixture
def typed(monkeypatch, capfd):
    """A command, with what it reads from standard input."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["gristmill", "tokenizer", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=said.out, err=said.err)

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A recipe whose tokenizer is not trained yet."""
    made = tmp_path_factory.mktemp("project")
    draw = random.Random(1)
    lines = [json.dumps({"text": " ".join(draw.choices(WORDS, k=30))}) for _ in range(60)]
    (made / "in.jsonl").write_text("\n".join(lines))
    (made / "r.yaml").write_text(
        "recipe: r\nstore: ./store\nsources:\n"
        "  notes: {kind: text, domain: prose, read: {format: jsonl, paths: [in.jsonl]}}\nsteps: []\n"
        "tokenizer: {train: {vocab: 540, held_out_share: 0.1, sample_bytes: {prose: 8KB}}}\n"
    )
    return made


@pytest.fixture
def trained(folder, typed):
    """The same recipe, trained, and its files."""
    if not (folder / "out").exists():
        done = typed("train", folder / "r.yaml", "--out", folder / "out", "--json", "--workers", "1")
        assert done.code == 0, done.err
        (folder / "said.json").write_text(done.out)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(command, typed):
    """`--help` shows how to call it."""
    shown = typed(command, "--help").out
    assert "--json" in shown
    assert f"Example: gristmill tokenizer {command}" in " ".join(shown.split())


def test_a_recipe_that_did_not_run_says_what_to_run(folder, typed, tmp_path):
    """In a store where nothing was trained there is no tokenizer to use."""
    result = typed("encode", folder / "r.yaml", "mill", "--store", tmp_path)
    assert result.code == 2
    assert "Run: gristmill tokenizer train" in result.err


def test_train_writes_files_that_agree_and_tells_bytes_per_token(trained):
    """The JSON file and the rank file encode alike, as the stored one does; held-out text is measured by domain."""
    said = json.loads((trained / "said.json").read_text())
    files = {file.name for file in (trained / "out").iterdir()}
    assert files == {"tokenizer.json", "tokenizer_config.json", "tokenizer.tiktoken", "tokenizer.tiktoken.json"}
    made, ranks = load(str(trained / "out")), load(str(trained / "out" / "tokenizer.tiktoken"))
    assert made.hash == said["hash"] == load(said["stored"]).hash
    assert made.encode_text(TEXT) == ranks.encode_text(TEXT)
    assert said["vocab"] == 540
    held_out = said["held_out"]["prose"]
    assert held_out["documents"] > 0
    assert held_out["bytes_per_token"] == held_out["bytes"] / held_out["tokens"]
    assert 7_500 < said["trained_on"]["prose"]["bytes"] <= 8_000


def test_a_tokenizer_that_ranks_cannot_say_is_written_without_them(trained, typed, tmp_path):
    """For a foreign tokenizer with a token that is matched in every text: the JSON file, and a line about the other."""
    spec = json.loads((trained / "out" / "tokenizer.json").read_text())
    spec["added_tokens"][-1]["special"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    recipe = (trained / "r.yaml").read_text().partition("tokenizer:")[0].replace("in.jsonl", f"{trained}/in.jsonl")
    (tmp_path / "r.yaml").write_text(f"{recipe}tokenizer: {{file: tokenizer.json}}\n")
    done = typed("train", tmp_path / "r.yaml", "--out", tmp_path / "out", "--json", "--workers", "1")
    assert done.code == 0, done.err
    assert "tokenizer.tiktoken was not written: This tokenizer cannot be written as a rank file" in " ".join(
        done.err.split()
    )
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    assert len(json.loads(done.out)["files"]) == 2


def test_train_again_runs_nothing_and_shows_a_table(trained, typed):
    """For a person: size, hash, domains, files."""
    said = json.loads((trained / "said.json").read_text())
    shown = typed("train", trained / "r.yaml").out
    assert said["hash"][:16] in shown
    assert f"{said['held_out']['prose']['bytes_per_token']:.3f}" in shown
    assert said["stored"] in shown


@pytest.mark.parametrize("name", ["out", "out/tokenizer.json", "out/tokenizer.tiktoken", "r.yaml"])
def test_encode_and_decode_go_round_for_every_way_to_name_a_tokenizer(name, trained, typed):
    """Text through standard input and back, to the byte; a special token in it stays text."""
    ids = typed("encode", trained / name, stdin=TEXT.encode()).out
    assert [int(word) for word in ids.split()] == load(str(trained / "out")).encode_text(TEXT)
    assert typed("decode", trained / name, stdin=ids.encode()).out == TEXT
    assert typed("decode", trained / name, *ids.split()).out == TEXT


def test_special_tokens_are_ids_only_when_asked_for(trained, typed):
    """--special makes one id of one."""
    special = load(str(trained / "out")).specials["<|user|>"]
    assert json.loads(typed("encode", trained / "out", "<|user|>", "--special", "--json").out) == {
        "ids": [special],
        "tokens": 1,
        "bytes": 8,
    }
    assert json.loads(typed("encode", trained / "out", "<|user|>", "--json").out)["tokens"] > 1
    assert typed("decode", trained / "out", special).out == "<|user|>"


def test_show_describes_the_tokenizer(trained, typed):
    """Pattern, size, special tokens and merges, for a person and for a program."""
    said = json.loads(typed("show", trained / "out", "--json").out)
    assert (said["pattern"], said["vocab"], said["special_tokens"], said["merges"]) == ("gristmill", 540, 256, 28)
    assert said["first_merges"][0][2] == 256
    assert said["last_merges"][-1][2] == 256 + 27
    shown = typed("show", trained / "out").out
    assert "540 tokens, 28 merges" in shown
    assert "<|fim_prefix|>" in shown


def test_show_cuts_a_text_into_tokens_with_an_id_each(trained, typed):
    """Half characters and line ends are legible."""
    tokens = json.loads(typed("show", trained / "out", "mill 数\n", "--json").out)["tokens"]
    assert "".join(token["token"] for token in tokens) == "mill \\xe6\\x95\\xb0\\n"
    assert [token["id"] for token in tokens] == load(str(trained / "out")).encode_text("mill 数\n")
    shown = typed("show", trained / "out", "[mill] 数").out
    assert "\\xe6│" in shown
    assert "[" in shown


def test_compare_sets_tokenizers_side_by_side(trained, typed):
    """On the held-out text of a recipe, or on files: bytes over tokens, and all texts together."""
    (trained / "a.txt").write_text(TEXT)
    (trained / "b.txt").write_text("mill " * 50)
    both = ("compare", trained / "r.yaml", trained / "out")
    held_out = json.loads(typed(*both, "--json").out)
    assert held_out["r"] == held_out["out"]
    assert held_out["r"] == json.loads((trained / "said.json").read_text())["held_out"]
    found = json.loads(typed(*both, "--text", trained / "a.txt", "--text", trained / "b.txt", "--json").out)["out"]
    tokens = len(load(str(trained / "out")).encode_text(TEXT))
    assert found[str(trained / "a.txt")]["bytes_per_token"] == pytest.approx(len(TEXT.encode()) / tokens, abs=1e-4)
    assert found["all"]["bytes"] == len(TEXT.encode()) + 250
    assert "prose" in typed(*both).out


MISTAKES = {
    "no such file": (("encode", "no/tokenizer.json", "x"), "Check the path"),
    "not an id": (("decode", "out", "12", "twelve"), "'twelve' is not a token id"),
    "an id too high": (("decode", "out", "540"), "540 is not an id of this tokenizer"),
    "nothing to measure on": (("compare", "out"), "Add --text FILE"),
    "a text that is not there": (("compare", "out", "--text", "no.txt"), "Check the path"),
    "the same twice": (("compare", "out", "out", "--text", "in.jsonl"), "given twice"),
    "a recipe without a tokenizer": (("train", "plain.yaml"), "Add tokenizer: {train:"),
    "a file as folder": (("train", "r.yaml", "--out", "in.jsonl"), "Name a folder"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_ends_with_2_and_its_fix(case, trained, typed, monkeypatch):
    """Nothing but the fact, the consequence and the fix on the error stream."""
    monkeypatch.chdir(trained)
    (trained / "plain.yaml").write_text((trained / "r.yaml").read_text().split("tokenizer:")[0])
    arguments, fix = MISTAKES[case]
    result = typed(*arguments)
    assert result.code == 2
    assert fix in result.err
    assert "Traceback" not in result.err


def test_standard_input_that_is_not_text_is_told(trained, typed):
    """Which byte is wrong."""
    result = typed("encode", trained / "out", stdin=b"abc\xff")
    assert result.code == 2
    assert "Byte 3 of standard input is not valid UTF-8" in result.err


def test_audit_of_a_recipe_measures_on_its_held_out_text(trained, typed, tmp_path):
    """The recipe names the tokenizer and the text; a tokenizer that is sound passes."""
    done = typed("audit", trained / "r.yaml", "--out", tmp_path, "--sizes", "520,540", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["passed"]
    assert list(report["bytes_per_token"][str(trained / "r.yaml")]) == ["prose", "all"]
    assert (tmp_path / "audit.html").exists()


def test_compare_measures_on_the_first_recipe_that_has_text(trained, monkeypatch):
    """A recipe with a pinned tokenizer holds nothing out; in which order they are given does not matter."""
    held_out = tokenizer_compare.sample_texts
    monkeypatch.setattr(tokenizer_compare, "sample_texts", lambda run, name: held_out(run, name) if run else ())
    seen = tokenizer_compare.open_up_to_tokenizer(str(trained / "r.yaml"), None)
    found = tokenizer_compare._held_out([seen])
    assert found
    assert [name for name, _ in tokenizer_compare._held_out([None, seen])] == [n for n, _ in found]


def test_compare_says_once_of_which_run_it_speaks(trained, typed):
    """The text is that run's too; and a store alone is told how to be named."""
    result = typed("compare", f"{trained / 'store'}@r", trained / "out")
    assert result.code == 0, result.err
    assert result.err.count("@r: recipe r, version ") == 1
    assert "Write STORE@NAME. Versions: none. Recipes that were run: r." in typed("show", trained / "store").err


def test_audit_and_compare_tell_how_far_they_are(trained, typed, tmp_path, monkeypatch):
    """From the first text on they know how much there is: every tokenizer, and every size of the vocabulary."""
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.0)
    done = typed("audit", trained / "r.yaml", "--against", trained / "out", "--out", tmp_path, "--sizes", "520,540")
    lines = done.err.splitlines()
    assert "1 of 4 tasks, 1 of 4 stages done; " in lines[0]  # what the first took says nothing of the others
    assert "2 of 4 tasks, 2 of 4 stages done, about " in lines[1]
    assert lines[0].endswith(f"{trained / 'r.yaml'} 1/1 (1 new)")
    assert [line.split("; ")[-1] for line in lines[2:]] == [f"vocabulary of {size} 1/1 (1 new)" for size in (520, 540)]
    lines = typed("compare", trained / "r.yaml", trained / "out").err.splitlines()
    assert "1 of 2 tasks, 1 of 2 stages done; " in lines[0]
    assert lines[1].endswith("out 1/1 (1 new)")
