"""Shingles equal those of plain Python, for every script and at every edge of the 64-byte blocks."""

import re
import unicodedata
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gristmill.kernels.dedup.shingles import WordTables, copy_tables, room_for, shingles_of, word_tables
from gristmill.kernels.text.look_alikes import packed, parts, readings, unpacked
from gristmill.kernels.text.unicode_classes import PIECE, UNIT, unicode_tables
from gristmill.kernels.text.unicode_data import known

U64 = (1 << 64) - 1
WORD_SEED, WORD_MUL, WORD_END = 0x452821E638D01377, 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
ROLL, LENGTH, WORDLESS = 0xBE5466CF34E90C6D, 0xC0AC29B7C97C50DD, 0x3F84D5B5B5470917

ASCII = st.text("aB zZ09_-.\n'`@[{/:^\x00\x7f", max_size=150)
WORDS = st.lists(st.sampled_from(["a", "The", "word_1", "eight888", "ninechars", "sixteen_16_chars", "X" * 40]))
ANY = st.text(
    st.one_of(
        st.sampled_from("aBz _-,.19\n"),
        st.sampled_from(
            "éÉßẞİΣςЖж漢字かなカー한글ไก่ทยខ្មែរहिन्दी٣½Ⅷ۩—’。\u00ad\u0301\u200d\u200b\ufeff\ufe0f❤😀𠀀𝒜𐐀Ⱥ\u212a"
        ),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=90,
)
TEXTS = st.one_of(ASCII, WORDS.map(" ".join), ANY, st.tuples(WORDS.map(" ".join), ANY, ASCII).map("".join))


@lru_cache(maxsize=1)
def alone() -> frozenset[str]:
    tables = unicode_tables()
    points = np.arange(0x110000)
    bits = tables.classes[(tables.pages[points >> 8].astype(np.int64) << 8) | (points & 255)]
    return frozenset(map(chr, np.flatnonzero(bits & (UNIT | PIECE))))


def lower(text: str) -> str:
    """One character for one."""
    return "".join(small if len(small := character.lower()) == 1 else character for character in text)


def words_of(text: str) -> list[str]:
    """The definition of the module, character by character."""
    found: list[str] = []
    inside = False
    for character in text:
        category = unicodedata.category(known(character))  # as in our tables, on a Python with a newer Unicode too
        if character in alone():
            found.append(character)
        elif category[0] in "LN" or character == "_":
            if inside and found[-1][0] not in alone():
                found[-1] += character
            else:
                found.append(character)
        elif (category[0] == "M" or category == "Cf") and character != "\u200b" and inside:
            found[-1] += character
            continue
        else:
            inside = False
            continue
        inside = True
    return [lower(word) for word in found]


def mix(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & U64
    value = (value ^ value >> 27) * 0x94D049BB133111EB & U64
    return value ^ value >> 31


def hash_word(word: str) -> int:
    data = word.replace("_", "\x7f").encode()
    state = WORD_SEED
    for at in range(0, len(data), 8):
        state = (state ^ int.from_bytes(data[at : at + 8], "little")) * WORD_MUL & U64
        state ^= state >> 32
    state = state * WORD_END & U64
    return state ^ state >> 29


def hash_bytes(data: bytes) -> int:
    """`words.hash_bytes` again."""
    state = len(data) * WORD_MUL & U64
    if len(data) >= 8:
        for at in range(0, len(data) - 8, 8):
            state = (state ^ int.from_bytes(data[at : at + 8], "little")) * WORD_MUL & U64
            state ^= state >> 32
        rest = int.from_bytes(data[-8:], "little")
    elif len(data) >= 4:
        rest = int.from_bytes(data[:4] + data[-4:], "little")
    elif data:
        rest = data[0] | data[len(data) >> 1] << 8 | data[-1] << 16
    else:
        rest = 0
    state = (state ^ rest) * WORD_MUL & U64
    state = (state ^ state >> 32) * WORD_END & U64
    return max(state ^ state >> 32, 1)


def oracle(text: str, ngram: int) -> list[int]:
    words = words_of(text)
    if not words:
        return [mix(hash_bytes(text.strip().encode()) ^ WORDLESS)]
    width = min(ngram, len(words))
    hashes = [hash_word(word) for word in words]
    found = []
    for at in range(len(words) - width + 1):
        total = 0
        for value in hashes[at : at + width]:
            total = (total * ROLL + value) & U64
        found.append(mix((total + width * LENGTH) & U64))
    return found


def shingles(
    text: str | bytes, ngram: int, before: bytes = b"", after: bytes = b"", tables: WordTables | None = None
) -> list[int]:
    text = text.encode() if isinstance(text, str) else text
    data = np.frombuffer(before + text + after, np.uint8)
    buffer = np.full(room_for(len(text)) + 1, 7, np.uint64)
    begin = len(before)
    stop, edge = begin + len(text), np.empty(64, np.uint8)
    count = shingles_of(data, begin, stop, ngram, tables or word_tables(), buffer[:-1], edge)
    assert buffer[-1] == 7
    return buffer[:count].tolist()


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(1, 6))
def test_shingles_equal_the_oracle(text, ngram):
    """Every shingle of every text is that of the plain-Python definition, in order."""
    assert shingles(text, ngram) == oracle(text, ngram)


READ = st.sampled_from(
    "\x00\x08\x1f\x7f\x85\x9f\u0301한각যোতৌがаеoОВвѕ ﬃﬁĳｍ５²𝐭ⓐ🄰ª０ｶ豈ﺍ\u00ad\u200b\u200c\u2060\ufe0f\u034f\u3164\ufeff"
    "\U000e0020_x 字ខ"
)


@settings(max_examples=200, deadline=None)
@given(st.text(st.one_of(READ, st.sampled_from("aBz _-,.19\n"), st.characters(exclude_categories=["Cs"])), max_size=60))
@example("\U00031350")  # a letter since Unicode 15
def test_copies_are_read_as_they_look(text):
    """For the search for copies, the words of a text are those of the text that has every character as it reads."""
    plain = text.translate(readings())
    if words_of(plain):
        assert shingles(text, 2, tables=copy_tables()) == oracle(plain, 2)


@pytest.mark.parametrize(
    "text",
    [
        "Тhе mіll grіnds 25 cоffee beans of the finest flour",  # Cyrillic
        "The mill grinds 25 cοffee beαns οf the finest flour",  # Greek
        "Ｔｈｅ ｍｉｌｌ grinds ２５ 𝐜𝐨𝐟𝐟𝐞𝐞 𝓫𝓮𝓪𝓷𝓼 of ⓣⓗⓔ finest flour",
        "The mill grinds 25 coﬀee beans of the ﬁnest ﬂour",
        "The m\x01il\x7fl gr\x1binds 2\x005 cof\x9bfee bea\x80ns of the fin\x1cest\x08 flour",
        "The mi\u0336l\u0332l grïnds 2\u03055 cöffee beans of the fin\u0363est flo\U0001d167\u20dd\ufffeur",
        "The m\u00adill gri\u200bnds 2\u20605 cof\ufe0ffee be\u200dans of\u200b the fin\u034fest\ufeff flo\u202eur",
    ],
)
def test_disguised_words_are_the_plain_ones(text):
    """Look-alike letters, other forms of letters and invisible characters do not change a word."""
    plain = "The mill grinds 25 coffee beans of the finest flour"
    assert shingles(text, 3, tables=copy_tables()) == shingles(plain, 3, tables=copy_tables()) == oracle(plain, 3)


def test_canonically_equal_texts_are_read_alike():
    """A text in NFD has the words of the same text in NFC, in every script; every character reads as its decomposition.
    0DDD is the one vowel sign of three signs, of which two are read.
    """
    words = "Müller grinds crème brûlée, Việt Nam, ёлка, 한국어 각 방앗간, がぎ パン, বাংলো কৌ, தொகை, മൊഴി, ಕೋ, שָׁלוֹם, آب"
    two = [unicodedata.normalize(form, words) for form in ("NFC", "NFD")]
    assert two[0] != two[1]
    assert shingles(two[0], 2, tables=copy_tables()) == shingles(two[1], 2, tables=copy_tables())
    for sign in map(chr, range(0x30000)):
        apart = unicodedata.normalize("NFD", sign)
        if apart != sign != "\u0ddd" and unicodedata.category(sign)[0] in "LMN" and sign == known(sign):
            assert lower(apart.translate(readings())) == lower(sign.translate(readings())), hex(ord(sign))


def test_voiced_kana_are_other_letters():
    """In full and half width."""
    for plain, voiced in (("かき", "がぎ"), ("はは", "ぱぱ"), ("ホール", "ボール"), ("ﾊﾝ", "ﾊﾟﾝ")):
        assert shingles(plain, 1, tables=copy_tables()) != shingles(voiced, 1, tables=copy_tables())
    assert shingles("ﾊﾟﾝ ｶﾞ", 1, tables=copy_tables()) == shingles("パン ガ", 1, tables=copy_tables())


def test_words_of_other_scripts_stay_words_in_any_case():
    """Both cases of a letter have one reading, so Russian and Greek words are the same in capitals and small letters;
    every reading is plain: it reads as itself, in lower case, and the kernel's number for it says the same.
    """
    for text in ("вода нёбо мельница", "νερό άλευρα μύλοσ", "ջուր ալյուր"):
        assert shingles(text.upper(), 1, tables=copy_tables()) == shingles(text, 1, tables=copy_tables())
        assert len(set(shingles(text, 1, tables=copy_tables()))) == len(text.split())
    for point, reading in readings().items():
        assert reading.translate(readings()) == reading == lower(reading), chr(point)
        if not reading.isascii():
            assert "".join(map(chr, filter(None, parts(packed(reading))))) == reading
        elif reading:
            assert unpacked(packed(reading)) == reading
        small = chr(point).lower()
        assert len(small) > 1 or readings().get(ord(small), small) == reading, chr(point)


def test_readings_are_those_of_unicode():
    """Where a character has a compatibility form that is one ASCII letter or digit, it reads as that."""
    for point in range(0x80, 0x20000):
        form = unicodedata.normalize("NFKC", chr(point)).lower()
        if len(form) == 1 and form.isascii() and form.isalnum():
            assert readings().get(point, chr(point).lower()) == form, chr(point)


@given(TEXTS, st.binary(max_size=80), st.binary(max_size=80))
def test_neighbours_in_the_buffer_do_not_count(text, before, after):
    """A text has the same shingles at any position between other bytes, valid or not."""
    assert shingles(text, 3, before, after) == shingles(text, 3)


@given(ASCII)
def test_ascii_words_are_those_of_re(text):
    """In ASCII the words are exactly re.findall of the lower-cased text."""
    wanted = re.findall(r"\w+", text.lower())
    assert words_of(text) == wanted
    if wanted:
        assert shingles(text, 1) == [mix((hash_word(word) + LENGTH) & U64) for word in wanted]


@pytest.mark.slow
def test_each_character_by_itself_is_what_re_says():
    """Over all of Unicode, a single character is a word if `\\w` matches it, and compiled words are the oracle's."""
    points = map(chr, range(0x110000))
    named = [point for point in points if unicodedata.category(known(point)) not in ("Cn", "Co", "Cs")]
    letters = [character for character in named if re.match(r"\w", character)]
    assert [character for character in named if words_of(character)] == letters
    text = " ".join(letters)
    assert len(words_of(text)) == len(letters)
    assert shingles(text, 1) == oracle(text, 1)
    assert shingles("x".join(letters), 1) == oracle("x".join(letters), 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, WORLD_9!", "hello world_9"),
        ("\ufeffHe\u00adllo na\u0131ve", "he\u00adllo na\u0131ve"),
        ("हिन्दी में", "हिन्दी में"),
        ("使用Kubernetes的", "使 用 kubernetes 的"),
        ("ไก่", "ไ ก่"),
        ("zero\u200bwidth ភា\u200bសា", "zero width ភា សា"),
        ("❤\ufe0f ok", "ok"),
        ("ΟΔΟΣ \u212aelvin İx", "οδοσ kelvin İx"),
        ("don’t", "don t"),
        ("한국어 말", "한국어 말"),
    ],
)
def test_words_by_example(text, words):
    """The rules of the module's docstring, by example."""
    assert words_of(text) == words.split(" ")
    assert shingles(text, 1) == oracle(text, 1)


@pytest.mark.parametrize("size", [*range(1, 20), *range(55, 75), *range(120, 136)])
def test_words_that_cross_blocks(size):
    """A word is hashed alike wherever it begins and ends between blocks of 64 bytes, in ASCII and with an accent."""
    for word in ("w" * size, "w" * (size - 1) + "é", "É" + "w" * size):
        for lead in (0, 1, 7, 50, 62, 63, 64):
            text = " " * lead + word + " end"
            assert shingles(text, 1) == oracle(text, 1)
            assert shingles(text, 1)[0] == shingles(word, 1)[0]


def test_a_short_text_is_not_the_beginning_of_a_long_one():
    """Texts of 0 to 5 words, and of the same words cut otherwise, all have different shingles."""
    texts = ["", "-", "a", "a a", "a a a", "a a a a", "a a a a a", "aa a a a a", "a aa a a a", "_", "\x7f", "__", "¿?"]
    found = [shingles(text, 5) for text in texts]
    assert all(len(values) == 1 for values in found)
    assert len({values[0] for values in found}) == len(texts)
    assert shingles(" ¿?\u2003\n", 5) == shingles("¿?", 5)
    assert shingles("", 5) == shingles(" \n\u3000", 5)


def test_no_two_of_half_a_million_shingles_collide():
    """Numbered words in pairs, the regular input that weak hashes fold together: chance of a collision 7e-9."""
    text = " ".join(f"{left} {right} {chr(97 + left % 26)}" for left in range(420) for right in range(420))
    words = text.split()
    wanted = {tuple(words[at : at + 3]) for at in range(len(words) - 2)}
    assert len(set(shingles(text, 3))) == len(wanted) > 500_000


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=90))
def test_bytes_that_are_not_utf8_are_survived(data):
    """Arrow does not check strings: any bytes have shingles, the same ones each time, within the buffer."""
    assert shingles(data, 2) == shingles(data, 2, after=b"\xbf\xbf\xbf")
