"""The tokenizer in memory: its ids equal the library's, text round-trips, and special tokens need a request."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tokenizer.library_made import SPECIALS, library_json
from tokenizers import Tokenizer as Library

from gristmill.errors import UserError
from gristmill.tokenizer.files import load
from gristmill.tokenizer.hostile import HOSTILE
from gristmill.tokenizer.model import Tokenizer
from gristmill.tokenizer.patterns import PATTERNS
from gristmill.tokenizer.special import DEFAULT, SLOTS, SPECIAL_TOKENS, special_tokens

MERGES = (np.array([71, 256, 220, 258], np.int32), np.array([68, 75, 257, 258], np.int32))
"""h+e, he+l, space+hel, and the last with itself."""

TEXTS = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(["the ", " class", "'s", "\n", "  ", "\t", "1234", "é", "日本", "<|end|>", "<plain>", "x"])
    ).map("".join),
    st.binary(max_size=60).map(lambda data: data.decode("latin-1")),
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory):
    """Our tokenizer and the library's for the same file, by pattern."""
    pairs = {}

    def get(pattern: str, ignore_merges: bool = False, **how: int):
        key = (pattern, ignore_merges, *how.values())
        if key not in pairs:
            path = tmp_path_factory.mktemp("made") / "tokenizer.json"
            path.write_text(library_json(pattern, ignore_merges))
            ours = load(str(path), probe="never", **how)
            assert isinstance(ours, Tokenizer)
            pairs[key] = ours, Library.from_str(path.read_text())
        return pairs[key]

    return get


def ids_of_library(library: Library, text: str, with_specials: bool) -> list[int]:
    library.encode_special_tokens = not with_specials
    return library.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("ignore_merges", [False, True])
def test_ids_equal_the_librarys_on_hostile_texts(pair, pattern: str, ignore_merges: bool) -> None:
    """With every pattern, with and without whole pre-tokens, with special tokens allowed or not."""
    ours, library = pair(pattern, ignore_merges)
    for text in (*HOSTILE.values(), "\n".join(HOSTILE.values()), "<|end|>>x <|end|> <plain>" + "".join(SPECIALS)):
        assert ours.encode_text(text) == ids_of_library(library, text, False)
        assert ours.encode_text(text, "all") == ids_of_library(library, text, True)


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, pattern=st.sampled_from(sorted(PATTERNS)), whole=st.booleans())
def test_ids_equal_the_librarys_and_decode_to_the_text(pair, text: str, pattern: str, whole: bool) -> None:
    """For any text, the ids equal the library's and decode to the text."""
    ours, library = pair(pattern, whole)
    ids = ours.encode_text(text)
    assert ids == ids_of_library(library, text, False)
    assert ours.decode(ids) == text
    allowed = ours.encode_text(text, "all")
    assert allowed == ids_of_library(library, text, True)
    assert ours.decode(allowed) == text


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 1000), max_size=30), st.booleans())
def test_any_ids_decode_like_in_the_library(pair, ids: list[int], keep: bool) -> None:
    """This includes ids whose bytes are not UTF-8."""
    ours, library = pair("llama3")
    assert ours.decode(ids, keep_special=keep) == library.decode(ids, skip_special_tokens=not keep)


def test_very_long_pre_tokens_equal_the_librarys(pair) -> None:
    """Runs of 100,000 spaces, letters and symbols use the heap."""
    ours, library = pair("llama3")
    for unit in (" ", "a", "the", "=-", "é", "日本語"):
        text = unit * (100_000 // len(unit))
        assert ours.encode_text(text) == ids_of_library(library, text, False)


def test_a_tiny_cache_gives_the_same_ids(pair) -> None:
    """The size of the pre-token cache changes no id."""
    large, _ = pair("llama3")
    tiny, _ = pair("llama3", cache_bytes=1)
    texts = pa.array([text * 20 for text in HOSTILE.values()] * 3)
    for _ in range(2):
        assert np.array_equal(large.encode(texts)[0], tiny.encode(texts)[0])


def test_a_batch_equals_its_texts_one_by_one(pair) -> None:
    """Offsets separate the texts; a null has no ids; slices, chunks and large strings give the same."""
    ours, _ = pair("o200k")
    texts = ["one text", None, "", "zwei Texte", "日本語"]
    expected = [ours.encode_text(text or "") for text in texts]
    whole = pa.array(["before", *texts, "behind"])
    for column in (
        whole.slice(1, 5),
        whole.cast(pa.large_string()).slice(1, 5),
        pa.chunked_array([texts[:2], texts[2:]]),
    ):
        ids, offsets = ours.encode(column)
        assert ids.dtype == np.uint32
        assert [ids[begin:end].tolist() for begin, end in pairwise(offsets)] == expected
    assert ours.encode(pa.array([], pa.string()))[1].tolist() == [0]
    with pytest.raises(TypeError, match="strings"):
        ours.encode(pa.array([b"x"]))


def test_special_tokens_never_come_from_text_unless_allowed() -> None:
    """The string of a special token is ordinary text by default, one id when allowed, and itself when decoded."""
    ours = Tokenizer.from_merges("gristmill", *MERGES)
    text = "".join(SPECIAL_TOKENS)
    assert max(ours.encode_text(text)) < 256 + len(MERGES[0])
    ids = ours.encode_text(text, "all")
    assert ids == list(ours.specials.values())
    assert [ours.decode([number]) for number in ids] == list(SPECIAL_TOKENS)
    assert ours.decode(ids, keep_special=False) == ""
    one = ours.encode_text("<|user|><|system|>", {"<|user|>"})
    assert one == [ours.specials["<|user|>"], *ours.encode_text("<|system|>")]
    with pytest.raises(UserError, match="not a special token"):
        ours.encode_text("", {"<|usr|>"})


def test_the_layout_is_bytes_then_merges_then_special_tokens() -> None:
    """Every byte has a token below 256, merge n is 256 + n, and the 256 special tokens are last."""
    ours = Tokenizer.from_merges("gristmill", *MERGES)
    assert sorted(ours.token_bytes(number) for number in range(256)) == [bytes([byte]) for byte in range(256)]
    assert [ours.token_bytes(256 + n) for n in range(4)] == [b"he", b"hel", b" hel", b" hel hel"]
    assert ours.vocab_size == 256 + 4 + SLOTS
    assert min(ours.specials.values()) == 260
    assert len(special_tokens(DEFAULT, 0)) == 30
    assert len(set(SPECIAL_TOKENS)) == SLOTS


def test_the_hash_covers_everything_that_decides_an_id() -> None:
    """Another pattern, merge order or special token changes the hash; a pickle or another cache size does not."""
    left, right = MERGES
    ours = Tokenizer.from_merges("gristmill", left, right)
    others = [
        Tokenizer.from_merges("gpt2", left, right),
        Tokenizer.from_merges("gristmill", left[:3], right[:3]),
        Tokenizer.from_merges("gristmill", left, right, SPECIAL_TOKENS[:-1]),
        Tokenizer.from_merges("gristmill", left, right, SPECIAL_TOKENS[::-1]),
        Tokenizer.from_merges("gristmill", left, np.array([68, 75, 257, 257], np.int32)),
    ]
    assert len({ours.hash, *(other.hash for other in others)}) == 1 + len(others)
    assert Tokenizer.from_merges("gristmill", left, right, cache_bytes=1).hash == ours.hash
    copied = pickle.loads(pickle.dumps(ours))
    assert copied.hash == ours.hash
    assert copied.encode_text("help hello") == ours.encode_text("help hello")


def test_threads_can_share_a_tokenizer(pair) -> None:
    """Four concurrent threads get the same ids as one."""
    ours, _ = pair("cl100k")
    texts = [pa.array([f"{text} {number}" for text in HOSTILE.values()] * 5) for number in range(16)]
    expected = [ours.encode(text)[0].tolist() for text in texts]
    with ThreadPoolExecutor(4) as threads:
        assert [ids.tolist() for ids, _ in threads.map(ours.encode, texts)] == expected


def test_an_unknown_id_is_named(pair) -> None:
    """Decoding with the wrong tokenizer is an error that names the id."""
    ours, _ = pair("llama3")
    for ids in ([5, 99_999], [-3], np.array([1 << 40])):
        with pytest.raises(UserError, match=f"{ids[-1]} is not an id"):
            ours.decode(ids)
    with pytest.raises(UserError, match="not an id"):
        ours.token_bytes(-1)
