"""Tokenizer files: a written file is read back to the same ids, and a file that we cannot encode has a reason."""

import base64
import itertools
import json
import os
import pickle
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.tokenizer.library_made import changed, library_json
from tokenizers import Tokenizer as Library

from gristmill.errors import UserError
from gristmill.kernels.bpe.train import byte_order
from gristmill.tokenizer import files, probe
from gristmill.tokenizer.alphabet import CHARACTERS, spelled_bytes, to_text
from gristmill.tokenizer.hostile import HOSTILE
from gristmill.tokenizer.library import LibraryTokenizer, open_library, panics_raised
from gristmill.tokenizer.model import Tokenizer
from gristmill.tokenizer.patterns import PATTERNS
from gristmill.tokenizer.probe import difference
from gristmill.tokenizer.rank_rule import reason_against_ranks


@pytest.fixture(scope="module")
def ours() -> Tokenizer:
    """A tokenizer in our layout, with merges that the library trained."""
    model = json.loads(library_json("llama3"))["model"]
    spelled = [bytes([byte]) for byte, _ in sorted(CHARACTERS.items(), key=lambda item: item[1])]
    ids = {token: number for number, token in enumerate(spelled)}
    left, right = [], []
    for one, other in model["merges"]:
        first, second = spelled_bytes(one), spelled_bytes(other)
        assert first is not None
        assert second is not None
        left.append(ids[first])
        right.append(ids[second])
        ids[first + second] = len(ids)
    return Tokenizer.from_merges("gristmill", np.array(left, np.int32), np.array(right, np.int32))


def write(folder: Path, text: str, name: str = "tokenizer.json") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_written_tokenizer_json_is_read_as_the_same_tokenizer(ours: Tokenizer, tmp_path: Path) -> None:
    """It has the same hash, so the same ids; the library gives those ids for the file too."""
    files.write_json(ours, tmp_path)
    again = files.load(str(tmp_path))
    assert isinstance(again, Tokenizer)
    assert again.hash == ours.hash
    assert difference(ours, Library.from_file(str(tmp_path / "tokenizer.json"))) == ""


def test_a_rank_file_gives_the_same_ids(ours: Tokenizer, tmp_path: Path) -> None:
    """tiktoken merges any two neighbours that form a token, the lowest rank first."""
    again = files.load(str(files.write_ranks(ours, tmp_path / "made.tiktoken")))
    texts = pa.array([*HOSTILE.values(), *(text * 7 for text in HOSTILE.values()), " ".join(ours.specials)])
    for allowed in ((), "all"):
        assert np.array_equal(again.encode(texts, allowed)[0], ours.encode(texts, allowed)[0])
    assert again.specials == ours.specials
    assert again.vocab_size == ours.vocab_size


def test_tiktoken_gives_the_same_ids(ours: Tokenizer, tmp_path: Path) -> None:
    """tiktoken only needs the rank file and the JSON next to it."""
    tiktoken = pytest.importorskip("tiktoken")
    path = files.write_ranks(ours, tmp_path / "made.tiktoken")
    ranks = {
        base64.b64decode(token): int(rank) for token, rank in (line.split() for line in path.read_text().splitlines())
    }
    beside = json.loads(Path(f"{path}.json").read_text())
    theirs = tiktoken.Encoding(
        "made", pat_str=beside["pat_str"], mergeable_ranks=ranks, special_tokens=beside["special_tokens"]
    )
    for text in HOSTILE.values():
        assert theirs.encode_ordinary(text) == ours.encode_text(text)


def test_the_bytes_of_a_written_file_are_stable(ours: Tokenizer, tmp_path: Path) -> None:
    """The same tokenizer gives the same bytes, also after reading and writing it again."""
    one = files.write_json(ours, tmp_path / "one")
    two = files.write_json(files.load(str(one)), tmp_path / "two")  # type: ignore[arg-type]
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_files_of_the_library_are_encoded_by_our_kernel(pattern: str, tmp_path: Path) -> None:
    """Every named pattern in a file that the library wrote is recognized, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert files.load(write(tmp_path, library_json(pattern))).reason == ""


def test_the_gpt2_file_format_is_recognized(tmp_path: Path) -> None:
    """It has ByteLevel with its own expression, and merges as lines with a space."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    text = library_json("gpt2")
    merges = [" ".join(pair) for pair in json.loads(text)["model"]["merges"]]
    path = write(tmp_path, changed(text, pre_tokenizer=byte_level, model_merges=merges))
    assert isinstance(files.load(path), Tokenizer)


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
WRONG = {
    "normalizer": {"normalizer": {"type": "NFC"}},
    "pre-tokenizer": {"pre_tokenizer": BYTE_LEVEL},
    "not one of the patterns": {"pre_tokenizer": {"type": "Whitespace"}},
    "unk_token": {"model_unk_token": "<|end|>"},
    "byte_fallback": {"model_byte_fallback": True},
    "end_of_word_suffix": {"model_end_of_word_suffix": "</w>", "model_merges": []},
    "decoder": {"decoder": None},
}


@pytest.mark.parametrize("reason", WRONG)
def test_a_file_that_we_cannot_encode_goes_to_the_library_with_a_reason(reason: str, tmp_path: Path) -> None:
    """A warning and a reason name the part of the file; it is never silent."""
    text = changed(library_json("llama3"), **WRONG[reason])
    with pytest.warns(UserWarning, match=reason):
        found = files.load(write(tmp_path, text))
    assert isinstance(found, LibraryTokenizer)
    assert reason in found.reason


def test_a_tokenizer_with_dropout_is_rejected(tmp_path: Path) -> None:
    """With dropout the same text has different ids each time; 0 and null mean no dropout."""
    text = library_json("llama3")
    with pytest.raises(UserError, match=r"dropout in its model.*Set `dropout` to null"):
        files.load(write(tmp_path, changed(text, model_dropout=0.5)))
    for off in (0.0, None):
        assert isinstance(files.load(write(tmp_path, changed(text, model_dropout=off))), Tokenizer)


def test_a_missing_byte_goes_to_the_library(tmp_path: Path) -> None:
    """The library drops a byte that has no token; our kernel does not."""
    text = library_json("llama3")
    vocab = json.loads(text)["model"]["vocab"]
    vocab["unused"] = vocab.pop(to_text(b"\xff"))
    with pytest.warns(UserWarning, match="1 of the 256 bytes"):
        assert isinstance(files.load(write(tmp_path, changed(text, model_vocab=vocab))), LibraryTokenizer)


def test_an_added_token_that_strips_spaces_goes_to_the_library(tmp_path: Path) -> None:
    """Our kernel does not support lstrip."""
    text = library_json("llama3")
    added = json.loads(text)["added_tokens"]
    added[-1]["lstrip"] = True
    with pytest.warns(UserWarning, match="lstrip"):
        assert isinstance(files.load(write(tmp_path, changed(text, added_tokens=added))), LibraryTokenizer)


def test_the_probe_finds_a_difference(ours: Tokenizer, tmp_path: Path) -> None:
    """A file with one merge moved, or another pattern, does not pass as the same tokenizer."""
    text = files.write_json(ours, tmp_path).read_text()
    merges = json.loads(text)["model"]["merges"]
    assert difference(ours, Library.from_str(changed(text, model_merges=[*merges[1:], merges[0]])))
    spec = json.loads(text)["pre_tokenizer"]
    spec["pretokenizers"][0]["pattern"]["Regex"] = PATTERNS["gpt2"].text
    assert difference(ours, Library.from_str(changed(text, pre_tokenizer=spec)))


def test_a_file_that_agreed_is_not_compared_again(
    ours: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is remembered on request, until the file, the code or the location of the compiled code changes."""
    compared: list[str] = []
    monkeypatch.setattr(probe, "difference", lambda *_: compared.append("") or "")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "compiled"))
    path = files.write_json(ours, tmp_path)

    def times(when: probe.Probe = "once") -> int:
        compared.clear()
        for _ in range(2):
            assert isinstance(files.load(str(path), probe=when), Tokenizer)
        return len(compared)

    assert times() == 2, "nothing can be remembered where there is no compiled code"
    probe.cache_folder("gristmill.kernels.bpe.encode").mkdir(parents=True)
    assert times() == 1
    assert times() == 0
    assert times("always") == 2
    assert times("never") == 0
    path.write_text(path.read_text() + " ")
    assert times() == 1
    monkeypatch.setattr(probe, "_compared", lambda: "another version of the library")
    assert times() == 1


def test_a_difference_is_found_every_time(ours: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    probe.cache_folder("gristmill.kernels.bpe.encode").mkdir(parents=True)
    monkeypatch.setattr(probe, "difference", lambda *_: "they differ")
    path = files.write_json(ours, tmp_path)
    for _ in range(2):
        with pytest.warns(UserWarning, match="they differ"):
            assert isinstance(files.load(str(path), probe="once"), LibraryTokenizer)


def test_the_fallback_has_the_same_interface(tmp_path: Path) -> None:
    """For the same tokenizer, every method gives the same result as ours."""
    path = write(tmp_path, library_json("llama3"))
    mine = files.load(path)
    theirs = pickle.loads(pickle.dumps(LibraryTokenizer(Path(path).read_text(), "for the test")))
    texts = pa.array([*HOSTILE.values(), None, "<|end|> <plain>"])
    for allowed in ((), "all"):
        for one, other in zip(mine.encode(texts, allowed), theirs.encode(texts, allowed), strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
    assert (theirs.vocab_size, theirs.specials) == (mine.vocab_size, mine.specials)
    ids = mine.encode_text("a <|end|> b", "all")
    assert theirs.encode_text("a <|end|> b", "all") == ids
    for keep in (True, False):
        assert theirs.decode(ids, keep) == mine.decode(ids, keep)
    assert [theirs.token_bytes(number) for number in range(1200)] == [
        mine.token_bytes(number) for number in range(1200)
    ]
    assert len({theirs.hash, mine.hash}) == 2
    with pytest.raises(UserError, match="all"):
        theirs.encode_text("", {"<|end|>"})


BROKEN = {
    "cut off": ("tokenizer.json", library_json("llama3")[:5000], "not a tokenizer.json"),
    "other json": ("tokenizer.json", '{"a": 1}', "not a tokenizer.json"),
    "prose": ("x.tiktoken", "what is this", "neither"),
    "no number": ("x.tiktoken", "IQ== one\n", "neither"),
    "no pattern": ("x.tiktoken", "IQ== 0\n", "does not name the pattern"),
    "empty": ("x.tiktoken", "", "does not name the pattern"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_a_user_error(name: str, tmp_path: Path) -> None:
    """The message gives the fact, the consequence and the fix, without a parser's traceback."""
    file, text, fact = BROKEN[name]
    with pytest.raises(UserError, match=fact) as caught:
        files.load(write(tmp_path, text, file))
    assert "no text can be encoded" in str(caught.value)


def test_a_merge_of_missing_tokens_is_a_broken_file(tmp_path: Path) -> None:
    """The library also rejects it."""
    text = changed(library_json("llama3"), model_merges=[["a", "QQQ"]])
    with pytest.raises(UserError, match=r"not a tokenizer\.json"):
        files.load(write(tmp_path, text))


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    """An empty folder and a missing file."""
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(UserError, match="Check the path"):
            files.load(str(path))


def test_rank_files_need_a_known_pattern_and_every_byte(ours: Tokenizer, tmp_path: Path) -> None:
    """The caller can name a pattern; a file without some byte cannot encode every text."""
    path = files.write_ranks(ours, tmp_path / "made.tiktoken")
    Path(f"{path}.json").unlink()
    assert files.load(str(path), pattern="gpt2").pattern == "gpt2"
    with pytest.raises(UserError, match="unknown pattern"):
        files.load(str(path), pattern="gpt3")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(UserError, match="1 of the 256 bytes"):
        files.load(str(path), pattern="gpt2")


def test_a_pattern_for_a_file_that_has_one_is_rejected(ours: Tokenizer, tmp_path: Path) -> None:
    """No argument is silently ignored."""
    with pytest.raises(UserError, match="Leave it out"):
        files.load(str(files.write_json(ours, tmp_path)), pattern="gpt2")


def small(folder: Path, added: list[dict[str, object]], **model: object) -> str:
    """Bytes, `th`, `the`, `aa`, `aaaa`, and two special tokens."""
    place = {byte: number for number, byte in enumerate(byte_order().tolist())}
    pairs = [(place[ord("t")], place[ord("h")]), (256, place[ord("e")]), (place[ord("a")], place[ord("a")]), (258, 258)]
    left, right = np.array(pairs, np.int32).T
    built = Tokenizer.from_merges("gpt2", left, right, specials=("<|end_of_text|>", "<|x|>"))
    spec = json.loads(files.write_json(built, folder).read_text())
    spec["added_tokens"] += [{**spec["added_tokens"][0], **token} for token in added]
    spec["model"].update(model)
    return write(folder, json.dumps(spec))


@pytest.mark.parametrize(
    ("content", "number", "special"),
    [("th", 256, True), ("the", 257, True), ("aa", 258, False), ("a", 64, True), ("mill", 262, False)],
)
def test_added_tokens_that_merges_produce_are_written_in_both_places(
    content: str, number: int, special: bool, tmp_path: Path
) -> None:
    """`tokenizer.json` keeps them in both places; a rank file cannot express that."""
    texts = ["the mill", "aaaa", "th the <|x|>mill a"]
    once = files.load(small(tmp_path, [{"content": content, "id": number, "special": special}]), probe="never")
    assert isinstance(once, Tokenizer)
    again = files.load(str(files.write_json(once, tmp_path / "again")), probe="never")
    for allowed in ((), "all"):
        assert [again.encode_text(text, allowed) for text in texts] == [
            once.encode_text(text, allowed) for text in texts
        ]
    with pytest.raises(
        UserError, match=r"cannot be written as a rank file: its .* token .*Export it as tokenizer\.json"
    ):
        files.write_ranks(once, tmp_path / "ranks")
    assert not (tmp_path / "ranks").exists()


def test_tokens_that_no_merge_produces_are_not_written_as_ranks(tmp_path: Path) -> None:
    """tiktoken merges any neighbours that form a token, and keeps a pre-token that is a token."""
    for merges in (["t h", "th e", "a a"], ["th e", "a a", "aa aa"]):
        lacking = files.load(small(tmp_path, [], merges=merges), probe="never")
        assert isinstance(lacking, Tokenizer)
        with pytest.raises(UserError, match=r"its merges do not produce its token b'(aaaa|th)'"):
            files.write_ranks(lacking, tmp_path / "lacking.tiktoken")


def test_a_tokenizer_from_a_rank_file_can_be_written_as_one(tmp_path: Path) -> None:
    """This includes tokens that only match a whole pre-token: no two neighbours ever form them."""
    lines = [(bytes([byte]), number) for number, byte in enumerate(byte_order().tolist())]
    lines += [(b"ab", 256), (b"cd", 257), (b"abcd", 258), (b"xyz", 259)]
    path = tmp_path / "in.tiktoken"
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in lines))
    once = files.load(str(path), pattern="gpt2")
    again = files.load(str(files.write_ranks(once, tmp_path / "out.tiktoken")))
    assert once.encode_text("abcd xyz") == again.encode_text("abcd xyz")
    assert again.hash == once.hash


def test_the_rank_rule_holds_for_all_texts() -> None:
    """With random merges, a rank file that is said to be equivalent gives the same ids for every short text."""
    draw = random.Random(3)
    place = {byte: number for number, byte in enumerate(byte_order().tolist())}
    texts = pa.array(["".join(letters) for size in range(1, 8) for letters in itertools.product("ab", repeat=size)])
    outcomes = [0, 0]
    for _ in range(60):
        spelled = {place[ord("a")]: "a", place[ord("b")]: "b"}
        sides: list[tuple[int, int]] = []
        for number in range(256, 256 + draw.randrange(1, 7)):
            one, other = draw.choice([*spelled]), draw.choice([*spelled])
            if spelled[one] + spelled[other] in spelled.values():
                break
            sides.append((one, other))
            spelled[number] = spelled[one] + spelled[other]
        left, right = np.array(sides, np.int32).reshape(-1, 2).T
        built = Tokenizer.from_merges("gpt2", left, right, specials=(), cache_bytes=1 << 12)
        this = built.definition
        ranks = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(this.tokens))
        by_ranks = Tokenizer(files._parse_ranks(ranks.encode(), None, "gpt2", "x"), 1 << 12)
        same = np.array_equal(built.encode(texts)[0], by_ranks.encode(texts)[0])
        assert same == (reason_against_ranks(this) == ""), sides
        outcomes[same] += 1
    assert min(outcomes) > 5


def test_a_panic_of_the_library_is_one_error_message(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Merges that are shorter than the prefix that the library would cut off are rejected first."""
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "é": 3, "aé": 4}, "merges": [["a", "b"]]}
    for prefix, merges in (("####", [["a", "b"]]), ("##", ["a b"]), ("#", [["a", "é"]])):
        broken = {**model, "continuing_subword_prefix": prefix, "merges": merges}
        with pytest.raises(UserError, match="has a merge with"):
            files.load(write(tmp_path, json.dumps({"version": "1.0", "model": broken})))
    assert capfd.readouterr().err == ""
    broken = json.dumps({"version": "1.0", "model": {**model, "continuing_subword_prefix": "####"}})
    with pytest.raises(ValueError, match="the library crashed"):
        open_library(broken)
    with pytest.raises(KeyboardInterrupt), panics_raised():
        raise KeyboardInterrupt


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the memory of a process is told otherwise")
def test_a_tokenizer_that_is_only_checked_leaks_no_memory(tmp_path: Path) -> None:
    """The library's cache of pre-tokens outlives a tokenizer, so one that is opened for a check has no cache."""
    text = Path(small(tmp_path, [])).read_text()
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghij", k=40)) for _ in range(2000)]

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def opened(times: int) -> int:
        before = resident()
        for _ in range(times):
            library = open_library(text, remember=False)
            for word in words:
                library.encode(word)
        return resident() - before

    opened(2)
    assert opened(10) < 4 << 20


def test_ids_out_of_merge_order_are_not_written_as_ranks(ours: Tokenizer, tmp_path: Path) -> None:
    """tiktoken would merge in another order."""
    spec = json.loads(files.write_json(ours, tmp_path).read_text())
    merges = spec["model"]["merges"]
    path = write(tmp_path, changed(json.dumps(spec), model_merges=[*merges[5:], *merges[:5]]))
    moved = files.load(path)
    assert isinstance(moved, Tokenizer)
    with pytest.raises(UserError, match=r"Export it as tokenizer\.json"):
        files.write_ranks(moved, tmp_path / "moved.tiktoken")
