"""The audit: a good tokenizer passes, every seeded fault is found by its check, and the tables are right."""

import json
import unicodedata
import warnings
from functools import lru_cache
from pathlib import Path
from pydoc_data import topics
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.tokenizer.library_made import changed, library_json
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Library

from gristmill.errors import UserError
from gristmill.kernels.bpe.train import byte_order
from gristmill.tokenizer import files
from gristmill.tokenizer.hostile import HOSTILE
from gristmill.tokenizer.model import Tokenizer
from gristmill.tokenizer.patterns import PATTERNS
from gristmill_tokenizer.audit import audit, failed
from gristmill_tokenizer.checks import run_checks, tokens_differ
from gristmill_tokenizer.pattern import digits_are_split, pretokens
from gristmill_tokenizer.sizes import truncated
from gristmill_tokenizer.subject import Subject, open_subject
from gristmill_tokenizer.text import Domain, read_domains
from gristmill_tokenizer.tokens import junk, private, readable, unreachable_tokens

pytestmark = pytest.mark.slow

VOCAB = 1500
LLAMA3 = PATTERNS["llama3"].text
SPECIALS = ("<|end|>", "<|think|>")


def byte_level(use_regex: bool) -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def cutting(expression: str, twice: bool) -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"), byte_level(twice)])


@lru_cache(maxsize=8)
def trained(expression: str = LLAMA3, twice: bool = False) -> str:
    """A tokenizer.json with this expression and, with `twice`, also GPT-2's."""
    made = Library(models.BPE())
    made.pre_tokenizer = cutting(expression, twice)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    some = [text for _, text in sorted(topics.topics.items())[:30]]
    years = " ".join(f"since {year}" for year in range(1980, 2030)) * 20
    made.train_from_iterator([*some, years], trainer)
    made.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIALS])
    return made.to_str()


def subject(text: str) -> Subject:
    """Open a tokenizer.json in the same way as the command."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return Subject("made", files._parse_json(text.encode(), "made", 1 << 20, probe="never"), json.loads(text))


def faults(one: Subject) -> set[str]:
    return {check.name for check in run_checks(one) if not check.passed}


class Wrapped:
    """A good tokenizer with one fault."""

    def __init__(self, **broken: Any) -> None:
        self._good = subject(trained()).tokenizer
        self._broken = broken

    def __getattr__(self, name: str) -> Any:
        return self._broken[name] if name in self._broken else getattr(self._good, name)


@pytest.mark.parametrize("pattern", ["gristmill", "gpt2", "o200k", "qwen2"])
def test_a_good_tokenizer_passes_everything(pattern: str) -> None:
    """It was trained and saved with the same pattern, and has special tokens with a common prefix."""
    one = subject(library_json(pattern, vocab=VOCAB))
    assert one.definition is not None
    assert {check.name: check.detail for check in run_checks(one) if not check.passed} == {}


def test_a_rank_file_passes_everything(tmp_path: Path) -> None:
    """It has no merges; they follow from its ranks."""
    good = subject(trained()).tokenizer
    assert isinstance(good, Tokenizer)
    ranks = open_subject(str(files.write_ranks(good, tmp_path / "made.tiktoken")))
    assert faults(ranks) == set()
    assert ranks.merges == subject(trained()).merges


def test_an_expression_applied_on_top_of_the_pattern_is_found() -> None:
    """`Split(pattern)` before a `ByteLevel` that still applies GPT-2's expression."""
    doubled = json.loads(cutting(LLAMA3, twice=True).__getstate__())
    assert faults(subject(changed(trained(), pre_tokenizer=doubled))) == {"pattern_is_applied_once"}


def test_training_with_an_expression_on_top_is_found_in_the_merges() -> None:
    """Even if the file was corrected later: no token joins characters that GPT-2's expression splits."""
    right = json.loads(cutting(LLAMA3, twice=False).__getstate__())
    assert faults(subject(changed(trained(twice=True), pre_tokenizer=right))) == {"trained_with_its_pattern"}
    assert faults(subject(trained(twice=True))) == {"pattern_is_applied_once", "trained_with_its_pattern"}


def test_steps_that_cut_only_some_of_the_text_are_no_second_pattern() -> None:
    """Splitting digits before GPT-2's expression is a design (StarCoder), not a fault."""
    steps = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)])
    one = subject(changed(library_json("gpt2", vocab=VOCAB), pre_tokenizer=json.loads(steps.__getstate__())))
    assert one.definition is None
    (found,) = (check for check in run_checks(one) if check.name == "pattern_is_applied_once")
    assert (found.passed, found.judged) == (True, False)


def test_tokens_that_cross_the_declared_pattern_are_found() -> None:
    """A tokenizer that declares qwen2 but splits numbers by three."""
    assert faults(Subject("made", Wrapped(pattern="qwen2"))) == {"digits_are_split", "pattern_is_applied_once"}


def test_a_missing_byte_is_found() -> None:
    """0xF4 only starts the last characters of Unicode, so text rarely shows that it is missing."""
    model = json.loads(trained())["model"]
    model["vocab"].pop("ô")
    found = {check.name: check for check in run_checks(subject(changed(trained(), model=model)))}
    assert not found["all_bytes_have_a_token"].passed
    assert found["all_bytes_have_a_token"].detail.startswith("255/256; without a token: 0xF4")
    assert not found["round_trip"].passed


def test_a_split_special_token_is_found() -> None:
    """`single_word` splits it between letters; a tokenizer that does not know it always splits it."""
    added = json.loads(trained())["added_tokens"]
    added[-1]["single_word"] = True
    assert faults(subject(changed(trained(), added_tokens=added))) == {"special_tokens_are_one_id"}
    good = subject(trained()).tokenizer
    never = Wrapped(specials={**good.specials, "<|never|>": 7})
    assert "special_tokens_are_one_id" in faults(Subject("made", never))


def test_decoding_that_drops_special_tokens_is_found() -> None:
    """The audit decodes with special tokens kept; otherwise it could not detect a lost token."""
    good = subject(trained()).tokenizer
    dropping = Wrapped(decode=lambda ids, keep_special=True: good.decode(ids, keep_special=False))
    assert faults(Subject("made", dropping)) == {"special_tokens_decode"}


def test_a_special_token_that_is_a_word_is_found() -> None:
    """Many texts have it, and `tokenizers` encodes it as the special token."""
    made = Library.from_str(trained())
    made.add_special_tokens([AddedToken("user", normalized=False)])
    assert faults(subject(made.to_str())) == {"special_tokens_are_marks"}


def test_special_tokens_out_of_user_text_are_found() -> None:
    """A text that contains `<|end|>` must not end the document."""
    good = subject(trained()).tokenizer
    open_door = Wrapped(
        encode=lambda texts, allow=(): good.encode(texts, "all"),
        encode_text=lambda text, allow=(): good.encode_text(text, "all"),
    )
    assert "special_text_is_text" in faults(Subject("made", open_door))


def test_a_normalizer_breaks_the_round_trip() -> None:
    """Lower-casing cannot be reversed."""
    assert faults(subject(changed(trained(), normalizer={"type": "Lowercase"}))) == {"round_trip"}


def test_digits_that_are_not_split_are_found() -> None:
    """An expression without {1,3} produces tokens such as whole years."""
    assert faults(subject(trained(LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")))) == {"digits_are_split"}


def test_digits_grouped_from_another_end_are_found() -> None:
    """`34` is short enough for llama3, but it splits 1234567 into 123, 456 and 7, and no token may cross a split."""
    three, four = (int(np.flatnonzero(byte_order() == ord(one))[0]) for one in "34")
    made = Tokenizer.from_merges("gpt2", np.array([three]), np.array([four]), specials=())
    same = {name: getattr(made, name) for name in ("vocab_size", "specials", "encode_text", "token_bytes")}
    assert digits_are_split(Subject("made", SimpleNamespace(pattern="gpt2", **same))).passed
    assert not digits_are_split(Subject("made", SimpleNamespace(pattern="llama3", **same))).passed


def test_two_ids_of_the_same_bytes_and_an_id_without_a_token_are_found() -> None:
    """`ab` + `c` and `a` + `bc` are the same string; a special token with a much higher id leaves a gap."""
    a, b, c = (int(np.flatnonzero(byte_order() == ord(one))[0]) for one in "abc")
    twice = Tokenizer.from_merges("gpt2", np.array([a, b, 256, a]), np.array([b, c, c, 257]), specials=())
    assert not tokens_differ(Subject("made", twice)).passed
    added = json.loads(trained())["added_tokens"]
    added[-1]["id"] += 1
    spec = changed(trained(), added_tokens=added)
    one = Subject("made", Tokenizer(files._definition(json.loads(spec))), json.loads(spec))
    assert faults(one) == {"ids_are_contiguous"}


def test_a_token_that_another_merge_swallows_is_unreachable() -> None:
    """`a` + `b` comes before `a` + `bc`, so `abc` is never one token."""
    a, b, c = (int(np.flatnonzero(byte_order() == ord(one))[0]) for one in "abc")
    made = Tokenizer.from_merges("gpt2", np.array([a, b, a]), np.array([b, c, 257]), specials=())
    found = unreachable_tokens(Subject("made", made))
    assert [one["token"] for one in found["examples"]] == ["abc"]
    assert found["not_tested"] == 128


@pytest.mark.parametrize("merges", [0, 1, 300, 1200])
def test_a_cut_vocabulary_is_a_tokenizer_of_the_first_merges(merges: int) -> None:
    """For any layout of ids: it gives the same tokens as a tokenizer built from those merges."""
    whole = subject(trained())
    assert isinstance(whole.tokenizer, Tokenizer)
    ids = {bytes([byte]): place for place, byte in enumerate(byte_order().tolist())}
    sides = []
    for one, other in whole.merges[:merges]:
        sides.append((ids[one], ids[other]))
        ids.setdefault(one + other, len(ids))
    left, right = np.array(sides, np.int32).reshape(-1, 2).T
    wanted = Tokenizer.from_merges("llama3", left, right, specials=())
    cut = truncated(whole.tokenizer, merges)
    for text in HOSTILE.values():
        mine, theirs = cut.encode_text(text), wanted.encode_text(text)
        assert [cut.token_bytes(one) for one in mine] == [wanted.token_bytes(one) for one in theirs]


def domains() -> list[Domain]:
    prose, world = Domain("prose"), Domain("world")
    for _, text in sorted(topics.topics.items())[30:36]:
        prose.add(text, "en")
    world.add(HOSTILE["cjk"], "ja")
    world.add(HOSTILE["right_to_left"], "ar")
    return [prose, world]


def test_bytes_per_token_are_bytes_over_tokens_of_the_library() -> None:
    """By domain, by language and in total, for each tokenizer; a second report is identical."""
    one, other = subject(trained()), subject(library_json("o200k", vocab=VOCAB))
    other = Subject("other", other.tokenizer, other.spec)
    report = audit(one, [other], domains(), sizes=(800, 1000, 9000), d_model=64)
    assert json.dumps(report) == json.dumps(audit(one, [other], domains(), sizes=(800, 1000, 9000), d_model=64))
    for name, text in (("made", trained()), ("other", library_json("o200k", vocab=VOCAB))):
        library = Library.from_str(text)
        size = count = 0
        for domain in domains():
            tokens = sum(len(library.encode(text, add_special_tokens=False).ids) for text in domain.texts)
            assert report["bytes_per_token"][name][domain.name] == domain.size_bytes / tokens
            size, count = size + domain.size_bytes, count + tokens
        assert report["bytes_per_token"][name]["all"] == size / count
        japanese = len(HOSTILE["cjk"].encode()) / len(library.encode(HOSTILE["cjk"]).ids)
        assert report["bytes_per_token_by_language"][name]["ja"] == japanese
    rows = report["sizes"]["rows"]
    assert [row["vocab"] for row in rows] == [800, 1000, one.tokenizer.vocab_size]
    assert [row["embedding_parameters_untied"] for row in rows] == [2 * 64 * row["vocab"] for row in rows]
    assert rows[-1]["bytes_per_token"] == report["bytes_per_token"]["made"]
    assert rows[0]["bytes_per_token"]["all"] < rows[1]["bytes_per_token"]["all"] < rows[2]["bytes_per_token"]["all"]
    assert "9,000" in report["sizes"]["note"]
    assert failed(report) == []


def test_dead_tokens_are_those_that_the_text_does_not_use() -> None:
    """Compared with the ids of the texts."""
    one = subject(trained())
    used = {number for domain in domains() for text in domain.texts for number in one.tokenizer.encode_text(text)}
    dead = audit(one, [], domains(), sizes=())["tokens"]["dead"]
    assert dead["count"] == len({*one.ordinary} - used)
    assert not used & {example["id"] for example in dead["examples"]}


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("=" * 16, "long_run"),
        (" " * 33, "long_run"),
        (" " * 32, None),
        ("caf\ufffd", "replacement_character"),
        ("a\x1b", "control_character"),
        ("Ã©tÃ©", "wrongly_decoded"),
        ("été", None),
        ("Author:Max", "letters_with_digits_or_symbols"),
        ("(self", None),
        (" don't", None),
        (";\n", None),
        ("日本語", None),
    ],
)
def test_junk_tokens_are_named_for_their_fault(token: str, kind: str | None) -> None:
    """Tokens of a clean corpus are not reported."""
    assert junk(token.encode()) == kind


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("max.muster@example.org", "email"),
        (" 192.168.10.1", "ip"),
        ("+49 30 1234567", "phone"),
        ("https://user:pass@host", "url_with_user"),
        ("d41d8cd98f00b204e980", "long_hex"),
        ("aGVsbG8gd29ybGQgaGVsbG8", "base64"),
        (" DsRolepWaitForService", None),
        ("getElementsByTagNameAndSomeMore", None),
        ("----------------------", None),
        ("internationalization", None),
    ],
)
def test_private_strings_are_named_for_what_they_are(token: str, kind: str | None) -> None:
    """Identifiers in camel case are not base64."""
    assert private(token.encode()) == kind


def test_what_cannot_be_seen_is_shown() -> None:
    """Spaces, newlines, part of a character, an invisible joiner, a long run."""
    assert readable(b" a\n\xe3\x81") == "\u2423a\\n\\xe3\\x81"
    assert readable("x\u200d".encode()) == "x\\u200d"
    assert readable(b"-" * 40) == "-{40}"


def test_the_hostile_texts_have_what_their_names_say() -> None:
    """A text that an editor has normalized would test nothing."""
    assert HOSTILE["emoji_with_joiners"].count("\u200d") >= 7
    assert "\r\n\r\n" in HOSTILE["carriage_returns"]
    assert unicodedata.combining(HOSTILE["lone_combining_marks"][0])
    assert {"\r", "\n", "\x0b", "\x85", "\u2028", "\u2029"} <= {*HOSTILE["newlines"]}
    assert "\x00" in HOSTILE["nul"]
    possible = {*range(256)} - {0xC0, 0xC1, *range(0xF5, 0x100)}
    assert {*"".join(HOSTILE.values()).encode()} == possible, "every byte that UTF-8 can have"


def test_pretokens_are_those_of_the_library() -> None:
    """The splits that the audit compares with are those of the expression."""
    texts = [text for text in HOSTILE.values() if text]
    for name, pattern in PATTERNS.items():
        step = pre_tokenizers.Split(Regex(pattern.text), "isolated")
        for text, found in zip(texts, pretokens(texts, name), strict=True):
            assert found == [text[begin:end] for _, (begin, end) in step.pre_tokenize_str(text)]


def test_held_out_text_is_read_by_domain_with_its_language(tmp_path: Path) -> None:
    """JSON Lines with `lang` or `language`, compressed or not; plain files; bad lines are counted."""
    import gzip

    rows = [{"text": "één", "lang": "nl"}, {"text": "two", "language": "en"}, {"text": "three"}, {"no": 1}]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\nbroken\n")
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"text": "four"}\n'))
    (tmp_path / "c.txt").write_text("plain\ntext\n")
    words, plain = read_domains([f"words={tmp_path}/*.jsonl*", f"plain={tmp_path}/*.txt"])
    assert words.texts == ["één", "two", "three", "four"]
    assert words.languages == ["nl", "en", None, None]
    assert (words.bad_records, words.size_bytes) == (2, 17)
    assert plain.texts == ["plain\ntext\n"]


@pytest.mark.parametrize("argument", ["nothing", "=x", "a=", "a=missing/*.jsonl"])
def test_text_that_is_not_there_is_an_error(argument: str) -> None:
    """It is not silently a domain without a number."""
    with pytest.raises(UserError, match=r"^text="):
        read_domains([argument])
