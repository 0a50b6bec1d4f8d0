"""Tokenizer files beyond the limits of a tokenizer are rejected with the reason, before anything is built."""

import base64
import json
import tracemalloc
from pathlib import Path

import pytest
from tests.tokenizer.library_made import changed, library_json

from gristmill.errors import UserError
from gristmill.tokenizer import files
from gristmill.tokenizer.bounds import MOST_IDS, MOST_TOKEN_BYTES
from gristmill.tokenizer.files import load


def spec() -> dict:
    return json.loads(library_json("gpt2"))


def refused(path: Path, text: str | bytes, pattern: str | None = None) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as caught:
        load(str(path), pattern)
    return str(caught.value)


@pytest.mark.parametrize("number", [4_000_000_000, 2**31, MOST_IDS, 10**400, -1])
def test_an_id_out_of_bounds_is_rejected_without_a_table_for_it(tmp_path: Path, number: int) -> None:
    """Eleven bytes of a file could require gigabytes of rows; no memory is allocated."""
    content = spec()
    content["model"]["vocab"]["zz"] = number
    text = json.dumps(content)
    tracemalloc.start()
    result = refused(tmp_path / "tokenizer.json", text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "'zz'" in result
    assert f"0 to {MOST_IDS - 1}" in result
    assert peak < 32 << 20


@pytest.mark.parametrize("number", [1.5, "7", None, True, [1]])
def test_an_id_that_is_not_a_whole_number_is_rejected(tmp_path: Path, number: object) -> None:
    """This holds in the vocabulary and in the added tokens."""
    content = spec()
    content["model"]["vocab"]["zz"] = number
    assert "not a whole number" in refused(tmp_path / "tokenizer.json", json.dumps(content))
    content = spec()
    content["added_tokens"][0]["id"] = number
    assert "not a whole number" in refused(tmp_path / "tokenizer.json", json.dumps(content))


def test_ids_that_mostly_lack_a_token_are_rejected(tmp_path: Path) -> None:
    """Files reserve thousands of ids, not millions."""
    content = spec()
    content["added_tokens"][0]["id"] = MOST_IDS - 1
    assert "without a token" in refused(tmp_path / "tokenizer.json", json.dumps(content))


@pytest.mark.parametrize(
    "text",
    [
        '{"model": ' + "[" * 100_000,
        '{"a": 1}',
        '{"model": 7}',
        changed(library_json("gpt2"), model_vocab=[1, 2]),
        changed(library_json("gpt2"), model_vocab="x"),
        changed(library_json("gpt2"), added_tokens={"a": 1}),
        changed(library_json("gpt2"), added_tokens=[7]),
        changed(library_json("gpt2"), normalizer=["x"]),
        changed(library_json("gpt2"), decoder="x"),
        changed(library_json("gpt2"), model_merges=[["q", "zzz"]]),
    ],
)
def test_files_of_another_shape_are_rejected(tmp_path: Path, text: str) -> None:
    """Each value of a wrong type is one message."""
    result = refused(tmp_path / "tokenizer.json", text)
    assert "no text can be encoded" in result


def test_a_file_larger_than_any_tokenizer_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size is checked first."""
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    assert "larger than" in refused(tmp_path / "tokenizer.json", "{" + " " * 1000)


def test_a_token_over_the_length_limit_is_left_to_the_library(tmp_path: Path) -> None:
    """Probe texts are made of tokens: a token of ten megabytes would make gigabytes of them."""
    content = spec()
    vocab = content["model"]["vocab"]
    vocab["z" * (MOST_TOKEN_BYTES + 1)] = len(vocab) + len(content["added_tokens"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="a token of 1,025 characters"):
        assert load(str(tmp_path / "tokenizer.json")).encode_text("a")


def ranks(*more: bytes) -> bytes:
    lines = [base64.b64encode(bytes([byte])) + b" %d" % byte for byte in range(256)]
    return b"\n".join([*lines, *more, b""])


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        (b"YWE= 4000000000", "ids are 0 to"),
        (b"YWE= -1", "neither a tokenizer.json nor a rank file"),
        (b"YWE= 1_000", "neither a tokenizer.json nor a rank file"),
        (b"YWE= " + b"9" * 5000, "neither a tokenizer.json nor a rank file"),
        (b"YWE= 97", "gives two tokens the id 97"),
        (b"YWE= 4000000", "without a token"),
        (base64.b64encode(b"a" * (MOST_TOKEN_BYTES + 1)) + b" 256", "a token of 1025 bytes"),
        (b"==== 256", "neither a tokenizer.json nor a rank file"),
    ],
)
def test_rank_files_have_the_same_limits(tmp_path: Path, line: bytes, fact: str) -> None:
    """A rank is an id: digits, each once, within the limits."""
    assert fact in refused(tmp_path / "x.tiktoken", ranks(line), "gpt2")
    assert load(str(_written(tmp_path / "y.tiktoken", ranks(b"YWE= 256"))), "gpt2").encode_text("aa") == [256]


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "beside",
    [
        {"pattern": ["gpt2"], "special_tokens": {}},
        {"pattern": "gpt2", "special_tokens": {"<|x|>": 4_000_000_000}},
        {"pattern": "gpt2", "special_tokens": {"<|x|>": "7"}},
        {"pattern": "gpt2", "special_tokens": {"<|x|>": 97}},
        {"pattern": "gpt2", "special_tokens": 7},
        [],
    ],
)
def test_the_json_next_to_a_rank_file_has_the_same_limits(tmp_path: Path, beside: object) -> None:
    """Special tokens have ids like others, and the pattern is a name."""
    (tmp_path / "x.tiktoken.json").write_text(json.dumps(beside))
    assert "no text can be encoded" in refused(tmp_path / "x.tiktoken", ranks())


def test_steps_that_repeatedly_double_a_text_are_rejected(tmp_path: Path) -> None:
    """The library ends the process when memory runs out, so it never gets such a file."""
    bytes_twice = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    twice = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    nested = {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [twice] * 4}] * 10}
    for part, step in (
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": [bytes_twice] * 50}),
        ("normalizer", nested),
        ("decoder", {"type": "Sequence", "decoders": [twice] * 50}),
    ):
        result = refused(tmp_path / "tokenizer.json", json.dumps({**spec(), part: step}))
        assert "more than 64 times longer" in result
        assert part in result


def test_the_steps_of_common_files_are_accepted(tmp_path: Path) -> None:
    """A mark for spaces, plain quotation marks, and the byte alphabet after them."""
    steps = [{"type": "Replace", "pattern": {"String": "\u201c"}, "content": '"'}] * 40
    steps += [{"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}] * 40
    steps += [{"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]
    path = _written(
        tmp_path / "tokenizer.json",
        json.dumps({**spec(), "normalizer": {"type": "Sequence", "normalizers": steps}}).encode(),
    )
    with pytest.warns(UserWarning, match="encoded by the library"):
        assert load(str(path)).encode_text("a")


def test_a_text_that_the_library_cannot_encode_is_one_error_message(tmp_path: Path) -> None:
    """The model has no token for unknown words."""
    content = json.dumps({"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "?"}})
    with pytest.warns(UserWarning, match="encoded by the library"):
        tokenizer = load(str(_written(tmp_path / "tokenizer.json", content.encode())))
    assert tokenizer.encode_text("a") == [0]
    with pytest.raises(UserError, match="cannot encode a text"):
        tokenizer.encode_text("b")
