"""Tokens and the character tables under them."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.signals.oracle import is_word, tokens

from gristmill.kernels.text.unicode_classes import (
    DIGIT,
    LETTER,
    LOWER,
    MARK,
    NUMBER,
    PIECE,
    PUNCTUATION,
    SPACE,
    TERMINAL,
    UNIT,
    UPPER,
    unicode_tables,
)
from gristmill.kernels.text.unicode_data import known, per_known
from gristmill.kernels.text.words import scan_tokens

# Characters that the rules speak of come often; any other character can come too.
TEXTS = st.text(
    st.one_of(
        st.sampled_from("aBs tTdm12.,-–—'’\"/:=<>@+^~|\\_!?…()[]{}#&%\n\t\u00ad\u0301"),
        st.sampled_from("漢字かなカー한글ไทยลาวខ្មែរမြန်မာдаΩéß٣½。！？»」😀\u2028\u00a0\u200d\u200b\x00\x85"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=60,
).map(known)


def split_tokens(text):
    """The tokens of a text, by the compiled scan."""
    tables = unicode_tables()
    data = text.encode()
    spans = scan_tokens(np.frombuffer(data, np.uint8), tables)
    return [data[begin:end].decode() for begin, end in spans[:, :2]]


def classes_of(points):
    tables = unicode_tables()
    return tables.classes[(tables.pages[points >> 8].astype(np.int64) << 8) | (points & 255)].astype(np.int64)


def test_tables_say_what_unicodedata_says():
    """Every code point has the class bits of its general category and of str.isspace, and its str.lower; characters
    that are newer than the table have none, and the zero-width space is a space and no mark.
    """
    tables = unicode_tables()
    points = np.arange(0x110000)
    bits = classes_of(points)
    categories = np.array([unicodedata.category(known(chr(point))) for point in points])
    kinds = categories.astype("U1")
    assert np.array_equal(bits & LETTER != 0, kinds == "L")
    assert np.array_equal(bits & NUMBER != 0, kinds == "N")
    assert np.array_equal(bits & MARK != 0, ((kinds == "M") | (categories == "Cf")) & (points != 0x200B))
    assert np.array_equal(bits & DIGIT != 0, categories == "Nd")
    assert np.array_equal(bits & UPPER != 0, categories == "Lu")
    assert np.array_equal(bits & LOWER != 0, categories == "Ll")
    assert np.array_equal(bits & PUNCTUATION != 0, kinds == "P")
    assert np.array_equal(bits & SPACE != 0, [chr(point).isspace() or point == 0x200B for point in points])
    lowered = points + tables.lowers[(tables.lower_pages[points >> 8].astype(np.int64) << 8) | (points & 255)]
    small = [per_known(str.lower, chr(point)) for point in points]
    assert np.array_equal(lowered, [ord(s) if len(s) == 1 else p for p, s in zip(points, small, strict=True)])


UNITS = (
    "CJK UNIFIED",
    "HIRAGANA LETTER",
    "KATAKANA LETTER",
    "HALFWIDTH KATAKANA LETTER",
    "YI SYLLABLE",
    "BOPOMOFO LETTER",
)
PIECES = ("THAI CHARACTER", "LAO LETTER", "MYANMAR LETTER", "KHMER LETTER", "TAI THAM LETTER", "JAVANESE LETTER")
SPACED = ("LATIN", "GREEK", "CYRILLIC", "ARABIC", "HEBREW", "DEVANAGARI", "HANGUL SYLLABLE", "ETHIOPIC", "TIBETAN")


def test_scripts_and_sentence_ends_that_unicodedata_does_not_know():
    """Letters are units, pieces or neither by the script in their names; well-known marks end sentences or do not."""
    bits = classes_of(np.arange(0x110000))
    for point in np.flatnonzero(bits & LETTER):
        name = unicodedata.name(chr(point), "")
        if name.startswith(UNITS + PIECES + SPACED):
            wanted = UNIT if name.startswith(UNITS) else PIECE if name.startswith(PIECES) else 0
            assert bits[point] & (UNIT | PIECE) == wanted, name
    assert not np.any(bits[bits & LETTER == 0] & (UNIT | PIECE))
    assert all(bits[ord(mark)] & TERMINAL for mark in ".!?。！？｡．।॥؟۔։።၊။។᠃‼⁇‽")
    assert not any(bits[ord(mark)] & TERMINAL for mark in ",;:…\"'”»、-)·¿¡")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("don't O'Brien it’s we'll rock'n'roll dogs' 'twas", "don|'t|O'Brien|it|’s|we|'ll|rock'n'roll|dogs|'|'|twas"),
        ("well-known 10-20 Covid-19 2010–2011 a—b", "well|-|known|10|-|20|Covid-19|2010–2011|a|—|b"),
        ("1,000 a,b 3.14 10:30 key:value x=1 and/or 1/2", "1,000|a|,|b|3.14|10:30|key|:|value|x=1|and|/|or|1/2"),
        ("J. U.S. e.g. end.Next foo.bar wait...what", "J.|U.S.|e.g.|end|.|Next|foo.bar|wait|...|what"),
        ("(see https://a.b/c?d=e/f), me@x.org.", "(|see|https://a.b/c?d=e/f|)|,|me@x.org|."),
        (
            "--help /usr @name a_b __x__ ---- !!! $5 50% #tag",
            "--help|/usr|@name|a_b|_|_|x|_|_|----|!|!|!|$|5|50|%|#|tag",
        ),
        ("漢字かな コーヒー 한국어 말", "漢|字|か|な|コ|ー|ヒ|ー|한국어|말"),
        ("ภาษาไทยง่าย", "ภาษา|ไทยง่|าย"),
        ("ភាសា\u200bខ្មែរ\u200bស្រួល zero\u200bwidth", "ភាសា|ខ្មែរ|ស្រួល|zero|width"),
        ("soft\u00adhyphen join\u200dner", "soft\u00adhyphen|join\u200dner"),
        ("« Привет, мир! »", "«|Привет|,|мир|!|»"),
        ("a😀b 😀😀", "a|😀|b|😀|😀"),
        (" \t\n ", ""),
    ],
)
def test_cuts(text, expected):
    """The rules of the module's docstring, by example."""
    assert split_tokens(text) == [token for token in expected.split("|") if token]


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_tokens_equal_the_oracle(text):
    """The compiled scan cuts where the plain-Python rules cut."""
    assert split_tokens(text) == tokens(text)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_tokens_cover_everything_but_white_space(text):
    """No character is lost or taken twice, lengths are in characters, and words are tokens with a letter or number."""
    data = text.encode()
    tables = unicode_tables()
    found = scan_tokens(np.frombuffer(data, np.uint8), tables)
    cut = [data[begin:end].decode() for begin, end in found[:, :2]]
    assert "".join(cut) == "".join(text.replace("\u200b", " ").split())
    assert [len(token) for token in cut] == found[:, 2].tolist()
    assert [is_word(token) for token in cut] == (found[:, 3] & (LETTER | NUMBER) != 0).tolist()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40))
def test_bytes_that_are_not_utf8_are_survived(data):
    """Arrow does not check strings: any bytes are cut into tokens that stay inside the text and move on."""
    tables = unicode_tables()
    found = scan_tokens(np.frombuffer(data, np.uint8), tables)
    assert all(begin < end <= len(data) for begin, end in found[:, :2])
    assert np.array_equal(np.sort(found[:, 0]), found[:, 0])
