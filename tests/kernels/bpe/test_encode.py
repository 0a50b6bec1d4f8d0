"""The BPE kernels against the rule in plain Python, and against caches of any size."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from gristmill.kernels.bpe import encode as kernel
from gristmill.kernels.bpe.cache import LONGEST, SHORT, make_cache
from gristmill.kernels.bpe.merge import FEW, MOST_MERGES, Merges, make_merges
from gristmill.kernels.bpe.pretoken_classes import class_table
from gristmill.kernels.bpe.pretokenize import CL100K, next_end, split
from gristmill.kernels.memory import view

NOTHING = kernel.build_trie({})
BYTE_IDS = np.arange(256, dtype=np.int32)[::-1].copy()
"""Not the bytes themselves, so that a mix-up shows."""


def random_merges(seed: int, count: int, letters: bytes) -> dict[tuple[int, int], tuple[int, int]]:
    """(left, right) -> (rank, id), over few letters, so that long tokens come to be; ranks not in order of ids."""
    draw = random.Random(seed)
    ids = [int(BYTE_IDS[byte]) for byte in letters]
    ranks = draw.sample(range(10 * count), count)
    merges: dict[tuple[int, int], tuple[int, int]] = {}
    for rank in ranks:
        latest = ids[-8:] if draw.random() < 0.5 else ids
        pair = (draw.choice(latest), draw.choice(ids[:20]))
        if pair not in merges:
            merges[pair] = (rank, 1000 + len(merges))
            ids.append(1000 + len(merges) - 1)
    return merges


def tables(merges: dict[tuple[int, int], tuple[int, int]]) -> Merges:
    pairs = np.array([(*pair, *what) for pair, what in merges.items()], np.int64).reshape(-1, 4)
    return make_merges(BYTE_IDS, *pairs.T)


def oracle(text: bytes, merges: dict[tuple[int, int], tuple[int, int]]) -> list[int]:
    """Joins the pair of lowest rank, the leftmost of equals, until no pair is left."""
    symbols = [int(BYTE_IDS[byte]) for byte in text]
    while True:
        known = [(merges[pair][0], at) for at, pair in enumerate(pairwise(symbols)) if pair in merges]
        if not known:
            return symbols
        at = min(known)[1]
        symbols[at : at + 2] = [merges[symbols[at], symbols[at + 1]][1]]


def encode(texts: list[bytes], vocabulary: kernel.TokenTables, cache_bytes: int = 1 << 20, trie=NOTHING, cache=None):
    data = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    starts = np.concatenate(([0], np.cumsum([len(text) for text in texts]))).astype(np.int64)
    ids, ends = np.full(int(starts[-1]) + kernel.SLACK, -7, np.int32), np.zeros(len(texts), np.int64)
    space = (cache or make_cache(cache_bytes), kernel.make_space())
    count = kernel.encode_rows(data, starts, CL100K, class_table(), vocabulary, trie, *space, ids, ends)
    assert count == (ends[-1] if len(ends) else 0)
    return [ids[begin:end].tolist() for begin, end in pairwise([0, *ends.tolist()])]


def vocabulary_of(merges: dict[tuple[int, int], tuple[int, int]], whole: dict[bytes, int] | None = None):
    spelled = {number: bytes([byte]) for byte, number in enumerate(BYTE_IDS.tolist())}
    for token, number in (whole or {}).items():
        spelled[number] = token
    size = max(spelled) + 1
    data = np.frombuffer(b"".join(spelled.get(number, b"") for number in range(size)), np.uint8)
    offsets = np.concatenate(([0], np.cumsum([len(spelled.get(number, b"")) for number in range(size)])))
    wanted = np.array(sorted((whole or {}).values()), np.int32)
    offsets = offsets.astype(np.int64)
    return kernel.TokenTables(tables(merges), kernel.build_whole(data, offsets, wanted), data, offsets)


@pytest.mark.parametrize("seed", range(4))
def test_merges_follow_the_rule_at_every_length(seed: int) -> None:
    """Short, long and very long pre-tokens get the ids that the rule gives, on both sides of every switch."""
    merges = random_merges(seed, 300, b"ab")
    draw = random.Random(seed)
    lengths = [1, 2, SHORT, SHORT + 1, FEW, FEW + 1, LONGEST, LONGEST + 1, 700, *range(3, 40)]
    texts = [bytes(draw.choices(b"ab", k=length)) for length in lengths] + [b"a" * length for length in lengths]
    wanted = [oracle(text, merges) for text in texts]
    assert encode(texts, vocabulary_of(merges)) == wanted
    assert max(max(ids) for ids in wanted) >= 1010, "long tokens have to occur for this test to mean anything"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="ab 'sé中\n", max_size=60), max_size=8), st.integers(0, 3))
def test_rows_are_the_merged_pre_tokens_of_each_text(texts: list[str], seed: int) -> None:
    """A text's ids are those of its pre-tokens in order, independent of the texts around it."""
    merges = random_merges(seed, 200, "ab é中".encode())
    rows = [text.encode() for text in texts]
    wanted = []
    for row in rows:
        data = np.frombuffer(row or b"\0", np.uint8).copy()
        ends = split(data, np.array([0, len(row)], np.int32), CL100K, class_table())[0].tolist()
        wanted.append([number for begin, end in pairwise([0, *ends]) for number in oracle(row[begin:end], merges)])
    assert encode(rows, vocabulary_of(merges)) == wanted


def test_ids_do_not_depend_on_the_cache() -> None:
    """A cache so small that everything pushes out everything gives the ids of a large one, filled or not."""
    draw = random.Random(5)
    merges = random_merges(5, 400, b"abcdefg")
    words = [bytes(draw.choices(b"abcdefg", k=draw.choice([2, 5, 9, 14, 15, 16, 17, 30, 90, 250]))) for _ in range(900)]
    texts = [b" ".join(draw.choices(words, k=40)) for _ in range(200)]
    vocabulary = vocabulary_of(merges)
    used = make_cache(1)
    large = encode(texts, vocabulary, 1 << 24)
    assert encode(texts, vocabulary, cache=used) == large
    assert encode(texts, vocabulary, cache=used) == large
    assert int(used.head[0]) > 2 * len(used.ring), "the ring has to go round for this test to mean anything"


def test_a_cache_stays_within_its_size() -> None:
    """The arrays of a cache take no more than the requested size."""
    for size in (1 << 14, 1 << 20, 50_000_000):
        assert sum(array.nbytes for array in make_cache(size)) <= size


def test_of_two_merges_of_a_pair_the_later_counts() -> None:
    """As in the library, which reads merges into a map."""
    a = int(BYTE_IDS[ord("a")])
    merges = make_merges(BYTE_IDS, *np.array([[a, a, 3, 500], [a, a, 9, 501]]).T)
    data, offsets = np.frombuffer(bytes(8), np.uint8), np.zeros(1, np.int64)
    none = kernel.build_whole(data, offsets, np.zeros(0, np.int32))
    assert encode([b"aa"], kernel.TokenTables(merges, none, data, offsets)) == [[501]]


def test_more_merges_than_fit_are_refused() -> None:
    """A rank too large to be packed with a position is an error, not a wrong id."""
    one = np.array([1])
    with pytest.raises(ValueError, match="too many"):
        make_merges(BYTE_IDS, one, one, one * (MOST_MERGES + 1), one)


def test_a_whole_pre_token_comes_before_merges() -> None:
    """A pre-token that is a token takes its id even if merges would never make it."""
    merges = random_merges(1, 50, b"ab")
    whole = {b"abab": 5000, b" " + b"ab" * 12: 5001, b"a" * 300: 5002}
    vocabulary = vocabulary_of(merges, whole)
    texts = [b"abab", b"abab " + b"ab" * 12, b"a" * 300, b"aba"]
    assert encode(texts, vocabulary) == [[5000], [5000, 5001], [5002], oracle(b"aba", merges)]


def test_strings_are_found_leftmost_and_longest() -> None:
    """Of strings that begin at one place the longest is taken; one that stays text hides what begins inside it."""
    trie = kernel.build_trie({b"<x": 7000, b"<x>": 7001, b">!": 7002, b"<y>": kernel.TEXT})
    vocabulary = vocabulary_of({})
    byte = [int(number) for number in BYTE_IDS]
    assert encode([b"a<x>b<xc<y>!>!"], vocabulary, trie=trie) == [
        [byte[97], 7001, byte[98], 7000, byte[99], byte[60], byte[121], byte[62], byte[33], 7002]
    ]


@njit
def end_of(data: np.ndarray, at: int, stop: int, table: np.ndarray) -> int:  # type: ignore[type-arg]
    return next_end(view(data), at, stop, CL100K, view(table))


def test_text_around_a_string_is_cut_by_itself() -> None:
    """A pre-token does not see past a string that was cut out: white space before it is at the end of a text."""
    assert end_of(np.frombuffer(b"a  <x>b", np.uint8), 1, 3, class_table()) == 3
    trie = kernel.build_trie({b"<x>": 7001})
    space = int(BYTE_IDS[32])
    merges = {(space, space): (0, 600)}
    assert encode([b"a  <x>b"], vocabulary_of(merges), trie=trie)[0][1:3] == [600, 7001]


def test_nothing_in_nothing_out() -> None:
    """No texts, and texts without a byte, give no ids."""
    vocabulary = vocabulary_of({})
    assert encode([], vocabulary) == []
    assert encode([b"", b""], vocabulary) == [[], []]


def test_ids_decode_to_the_bytes_of_their_tokens() -> None:
    """Decoding joins the bytes of tokens and reports an id that does not exist."""
    vocabulary = vocabulary_of({}, {b"hello": 300})
    ids = np.array([300, BYTE_IDS[33], 300], np.int64)
    out = np.empty(kernel.decoded_bytes(ids, vocabulary.offsets), np.uint8)
    kernel.decode_ids(ids, vocabulary.data, vocabulary.offsets, out)
    assert out.tobytes() == b"hello!hello"
    assert kernel.decoded_bytes(np.array([300, 301, -1], np.int64), vocabulary.offsets) == -1 - 1
    assert kernel.decoded_bytes(np.array([300, 3, -1], np.int64), vocabulary.offsets) == -1 - 2


@pytest.mark.slow
def test_a_megabyte_in_one_pre_token_is_not_quadratic() -> None:
    """A run of a million letters equals the rule applied to it in closed form: pairs, then pairs of pairs."""
    a = int(BYTE_IDS[ord("a")])
    merges = {(a, a): (0, 600), (600, 600): (1, 601), (601, 601): (2, 602)}
    size = 1 << 20
    assert encode([b"a" * (size + 5)], vocabulary_of(merges)) == [[602] * (size // 8) + [601, a]]
