"""Hashes of whole texts: exact against a slow oracle, and as random as their use requires."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gristmill.kernels.dedup.exact_hash import NONE, WHITESPACE, WORDS, hash_texts
from gristmill.kernels.text.unicode_classes import unicode_tables
from gristmill.stages.buffers import bytes_of

U64 = 2**64 - 1
START = (
    0x452821E638D01377, 0xBE5466CF34E90C6C, 0xC0AC29B7C97C50DD, 0x3F84D5B5B5470917,
    0x9216D5D98979FB1B, 0xD1310BA698DFB5AC, 0x2FFD72DBD01ADFB7, 0xB8E1AFED6A267E96,
)  # fmt: skip


def rotate(value, places):
    return (value << places | value >> 64 - places) & U64


def fold(state, lane):
    state = (state ^ lane) * 0xAF251AF3B0F025B5 & U64
    return state ^ state >> 32


def spread(state):
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & U64
    state = (state ^ state >> 27) * 0x94D049BB133111EB & U64
    return state ^ state >> 31


def plain_hash(data):
    """Word i goes to lane i mod 4 of both hashes; the lanes are folded from the one that is next."""
    one, two = list(START[:4]), list(START[4:])
    words = -(-len(data) // 8)
    for number in range(words):
        word = int.from_bytes(data[8 * number : 8 * number + 8], "little")
        lane = number % 4
        one[lane] = rotate((one[lane] ^ word) * 0x9E3779B97F4A7C15 & U64, 29) * 0xAF251AF3B0F025B5 & U64
        two[lane] = (two[lane] + word) * 0xD1342543DE82EF95 & U64
        two[lane] = (two[lane] ^ two[lane] >> 32) * 0xDA942042E4DD58B5 & U64
    high, low = len(data), ~len(data) & U64
    for step in range(4):
        high, low = fold(high, one[(words + step) % 4]), fold(low, two[(words + step) % 4])
    return spread(high), spread(low)


def plain_form(text, form):
    if form == WHITESPACE:
        return " ".join(text.replace("\u200b", " ").split())
    if form == WORDS:
        bits = unicode_tables()
        kept = ""
        for character in text:
            point = ord(character)
            here = int(bits.classes[int(bits.pages[point >> 8]) << 8 | point & 255])
            folded = character.lower() if len(character.lower()) == 1 else character
            kept += folded if here & 7 else " "  # LETTER | MARK | NUMBER
        return " ".join(part for part in kept.split(" ") if part)
    return text


def hashes_of(texts, form=NONE):
    column = pa.array(texts, pa.binary() if texts and isinstance(texts[0], bytes) else pa.string())
    return hash_texts(*bytes_of(column), form, unicode_tables())


texts = st.lists(
    st.text(st.characters(codec="utf-8"), max_size=60)
    | st.text("ab Z9.\n\t\r\x1c\x85\xa0 é　、あ中𝒜Ⱥİẞͅ­‍\u2028\u200b", max_size=60),
    max_size=6,
)


@pytest.mark.parametrize("form", [NONE, WHITESPACE, WORDS])
@settings(deadline=None)
@given(texts=texts)
@example(texts=["", " ", "\n", "a", " a", "a ", "Ⱥ" * 40])
def test_hash_is_that_of_the_form(form, texts):
    """In each form, a text's hash is the oracle's hash of what plain Python makes of the text."""
    found = hashes_of(texts, form)
    for text, pair in zip(texts, found.tolist(), strict=True):
        assert tuple(pair) == plain_hash(plain_form(text, form).encode())


def test_every_length_is_exact():
    """Around the 8 and 32 bytes of a step, the last bytes count, and nothing after them."""
    data = random.Random(0).randbytes(200)
    found = hashes_of([data[:size] for size in range(200)])
    assert [tuple(pair) for pair in found.tolist()] == [plain_hash(data[:size]) for size in range(200)]


@pytest.mark.parametrize("size", [1, 7, 8, 24, 40, 200])
def test_one_bit_changes_half_of_the_hash(size):
    """Avalanche: whichever bit of a text is turned, each bit of the hash turns in about half of the texts."""
    draw = random.Random(size)
    bits = draw.sample(range(8 * size), min(8 * size, 64))
    rounds = 256
    turned = np.zeros((len(bits), 128))
    for _ in range(rounds):
        data = draw.randbytes(size)
        number = int.from_bytes(data, "little")
        changed = [(number ^ 1 << bit).to_bytes(size, "little") for bit in bits]
        found = hashes_of([data, *changed])
        turned += np.unpackbits((found[1:] ^ found[0]).view(np.uint8), axis=1).reshape(len(bits), 128)
    share = turned / rounds
    # 0.5 ± 6.4 standard deviations of 256 throws: passed by all of 8192 cells in 999,998 of a million good hashes
    assert share.min() > 0.3
    assert share.max() < 0.7
    assert abs(share.mean() - 0.5) < 0.01


def structured():
    """Texts that differ in few places: counters, repeats, swaps, high bits, zeros at the end."""
    yield from (b"page %d" % number for number in range(40_000))
    yield from (b"\0" * number for number in range(2_000))
    yield from (b"x" * number for number in range(1, 2_000))
    yield from (number.to_bytes(8, "little") + b"y" * 32 for number in range(20_000))
    yield from (b"y" * 32 + (number << 44).to_bytes(8, "little") for number in range(20_000))
    for one in range(256):
        for two in range(40):
            yield (1 << one).to_bytes(64, "little") + (1 << two).to_bytes(64, "little")
    # one bit of a word together with one bit of the word that follows it in its lane: do they cancel?
    for one in range(64):
        for two in range(64):
            yield (1 << one).to_bytes(32, "little") + (1 << two).to_bytes(32, "little")


def test_structured_texts_do_not_collide():
    """No two of 90,000 near-equal texts share either half, and 24 bits of it collide as often as chance would."""
    given = list(dict.fromkeys(structured()))
    found = hashes_of(given)
    count = len(given)
    for half in range(2):
        assert len(np.unique(found[:, half])) == count
        for shift in (0, 20, 40):
            kept = len(np.unique(found[:, half] >> np.uint64(shift) & np.uint64(2**24 - 1)))
            expected = 2**24 * (1 - (1 - 2**-24) ** count)
            assert abs(kept - expected) < 6 * (count**2 / 2**25) ** 0.5


def test_halves_are_independent():
    """The bits of one half say nothing of those of the other: no pair of them agrees much more than half the time."""
    found = hashes_of([b"page %d" % number for number in range(20_000)])
    one, two = (np.unpackbits(found[:, [half]].copy().view(np.uint8), axis=1).astype(np.float64) for half in range(2))
    agree = ((2 * one - 1).T @ (2 * two - 1)) / len(found)
    assert np.abs(agree).max() < 6 / len(found) ** 0.5
