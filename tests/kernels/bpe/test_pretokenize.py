"""The scanners against the regular expressions that they replace, as `tokenizers` and `regex` match them."""

import json
import random
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import njit
from tokenizers import Regex
from tokenizers import pre_tokenizers as library

from gristmill.kernels.bpe.pretoken_classes import (
    CLASSES_AT,
    LETTER,
    LOWER,
    NEWLINE,
    NUMBER,
    PAGES_AT,
    SPACE,
    UNICODE_VERSION,
    UPPER,
    class_table,
    moved_points,
)
from gristmill.kernels.bpe.pretokenize import next_end, next_ends, split
from gristmill.kernels.memory import view
from gristmill.tokenizer.patterns import OTHER_TEXTS, PATTERNS, pattern_of, recognise

TABLE = class_table()
NAMES = list(PATTERNS)
SCANNERS = list({pattern.scanner: name for name, pattern in PATTERNS.items()}.values())
"""A name of each: the library cuts by texts of one scanner alike (test_patterns_that_share_a_scanner_cut_alike)."""
POINTS = np.r_[:0xD800, 0xE000:0x110000]
FLAT = TABLE[CLASSES_AT + (TABLE[PAGES_AT + (POINTS >> 8)].astype(int) << 8) + (POINTS & 255)]
USED = (POINTS < 0x40000) | (POINTS >> 16 == 14) | (POINTS % 97 == 0)
"""Planes in which Unicode has characters, and some points of all others."""
PAGES = [page.astype(np.uint32).tobytes().decode("utf-32-le") for page in np.array_split(POINTS[USED], 200)]
MOVED = frozenset(map(chr, moved_points()))

CONTEXTS = (
    "{}",
    "a{0}b",
    "A{0}B{0}c",
    "1{0}2",
    " {0} {0}",
    "\n{0}\n",
    "!{0}?",
    "'{0}",
    "x'{0}",
    "{0}'S ",
    "\u0301{0}A ",
)
HOSTILE = (
    "aAzsStTmMdDrReEvVlL''''   \t\n\r\v019.!/-_"
    "\u00a0\u3000\u2028\u0085\x1c\x1féÉßſǅʰªＡ中のжЖ١½Ⅷ\u0301\u0345\u200d😀𐐀𝟘\u0378"
)
ASCII = (
    "aAsStTlLrReEdm' ",
    "aA'/\n! ",
    "ab \n\t\r",
    "a1 2\n.",
    "aBsT''  \n\r\t/.!12\v\x1c",
    "aAl'é\u0301 \n/ſ\u00a0",
    "aB'st",
)
REAL = """
Don't you'll I'VE it's we’re O'Brien's 'tis THEY'D HTTPServer's getHTTPResponseCode iPhone's USA'S 'Sup rock'n'roll

def f(x: int = 1_000) -> dict[str, "Foo"]:\r\n\t\treturn {**g(x), 'k': x//2 != 0xFF}   # 3.14159e-10\r\n\r\n
    \\frac{a^{2}}{b_{ij}} \\leq $x$ // http://example.org/a/b?c=d&e=%20f\n/\n// <p class="x">&nbsp;</p>\n\n\n
Ünïcödé STRASSE Straße Ǆungla ǅ naïve 東京タワーは333メートルです。 我们都是好朋友，2024年！ 서울특별시 123,456원
Привет, МИР! Это — тест… العربية ١٢٣٤ هذا نصٌّ עברית שָׁלוֹם हिन्दी में १२३ ภาษาไทยไม่มีช่องว่าง Tiếng Việt é e\u0301 E\u0301A
👩‍👩‍👧‍👦 🇩🇪 ½ Ⅷ x² ™ \u00a0\u00a0y \u2003z\u3000\u3000 zero\u200bwidth \ufeffBOM
a\u2028b \x1c\x1d tab\tword  trailing \n  """


def cuts(texts: Sequence[str], name: str) -> list[list[str]]:
    """The pre-tokens of each text by our scanner."""
    encoded = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(data) for data in encoded])]).astype(np.int32)
    data = b"".join(encoded)
    ends, counts = split(np.frombuffer(data or b"\0", np.uint8).copy(), offsets, PATTERNS[name].scanner, TABLE)
    result = []
    for text in range(len(texts)):
        places = [int(offsets[text]), *ends[counts[text] : counts[text + 1]].tolist()]
        result.append([data[a:b].decode() for a, b in pairwise(places)])
    return result


@cache
def splitter(text: str) -> library.Split:
    return library.Split(Regex(text), "isolated")


def reference(text: str, name: str) -> list[str]:
    return [token for token, _ in splitter(PATTERNS[name].text).pre_tokenize_str(text)]


def differing(texts: Sequence[str], name: str) -> list[tuple[str, list[str], list[str]]]:
    """Texts that are cut differently by the library."""
    pairs = ((text, ours, reference(text, name)) for text, ours in zip(texts, cuts(texts, name), strict=True))
    return [(text, ours, theirs) for text, ours, theirs in pairs if ours != theirs]


def property_set(expression: str) -> np.ndarray:  # type: ignore[type-arg]
    """Code points, of those used, that the library matches with an expression for one character."""
    others = library.Split(Regex(f"(?:{expression})+"), "removed")
    rest = "".join(piece for page in PAGES for piece, _ in others.pre_tokenize_str(page))
    return np.setdiff1d(POINTS[USED], np.frombuffer(rest.encode("utf-32-le"), np.uint32), assume_unique=True)


@cache
def excused() -> frozenset[str]:
    """Characters whose class depends on the Unicode version, where the library has another than the table."""
    letter = splitter(r"\p{L}\p{L}").pre_tokenize_str
    same = len(letter("\u1c89a")) == 1 and len(letter("\ua7cea")) == 2  # letters since 16.0 and since 17.0
    return frozenset() if same else MOVED


def in_contexts(characters: Iterable[str]) -> list[str]:
    """Texts of 64 characters in each context, and each character alone."""
    known = [character for character in characters if character not in excused()]
    groups = [known[at : at + 64] for at in range(0, len(known), 64)]
    return known + ["".join(map(context.format, group)) for context in CONTEXTS for group in groups]


@pytest.mark.parametrize(
    ("expression", "bit"),
    [
        (r"\p{L}", LETTER),
        (r"\p{N}", NUMBER),
        (r"\s", SPACE),
        (r"[\r\n]", NEWLINE),
        (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", UPPER),
        (r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", LOWER),
    ],
)
def test_classes_of_every_code_point_are_the_library_s(expression: str, bit: int) -> None:
    """Each bit of the table is set for exactly the characters that the expression matches in `tokenizers`."""
    differences = np.setxor1d(POINTS[USED & (FLAT & bit != 0)], property_set(expression))
    assert set(map(chr, differences)) <= excused()
    assert not FLAT[~USED].any()


def test_table_is_the_same_under_every_python() -> None:
    """The table is the one of Unicode 16.0 whichever Unicode the running Python knows."""
    assert UNICODE_VERSION == "16.0.0"
    assert [int(np.count_nonzero(FLAT & bit)) for bit in (LETTER, NUMBER, SPACE, NEWLINE, UPPER, LOWER)] == [
        141028,
        1911,
        25,
        2,
        141271,
        141640,
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_class_boundary_in_context_is_cut_as_by_the_library(name: str) -> None:
    """Characters on both sides of each change of class, and all below U+0400, are cut alike alone and in contexts."""
    edges = np.flatnonzero(np.diff(FLAT.astype(int)))
    chosen = sorted({*edges.tolist(), *(edges + 1).tolist(), *range(0x400)})
    assert not differing(in_contexts(chr(POINTS[place]) for place in chosen), name)[:3]


@pytest.mark.slow
@pytest.mark.parametrize("name", SCANNERS)
def test_code_points_in_context_are_cut_as_by_the_library(name: str) -> None:
    """Every character of living scripts that is written often, and some of all others, alone and in contexts.

    The scanner knows a character by its class alone, and the classes of all are compared above.
    """
    chosen = POINTS[(POINTS < 0x3400) | (POINTS % 1009 == 0)]
    assert not differing(in_contexts(map(chr, chosen)), name)[:3]


@pytest.mark.parametrize("name", NAMES)
@given(texts=st.lists(st.one_of(st.text(st.sampled_from(HOSTILE), max_size=40), st.text(max_size=20)), max_size=20))
@settings(max_examples=60, deadline=None)
@example(texts=["", "'ſ", "a'ſt", "\u0301AB", "\u0301Ab", "AªB", "a \n  ", "!\n/\n/a", "x't's", "  \r\n \t a", "12345"])
def test_hostile_texts_are_cut_as_by_the_library(name: str, texts: list[str]) -> None:
    """Texts of characters that the patterns treat apart are cut as by `tokenizers`."""
    usable = [text for text in texts if not excused() & set(text)]
    assert not differing(usable, name)


def drawn(seed: int, count: int) -> list[str]:
    """Texts over few characters, long enough for many of them to fill 64 bytes."""
    draw = random.Random(seed)
    alphabets = [*ASCII, HOSTILE, REAL, "".join(ASCII)]
    return ["".join(draw.choices(draw.choice(alphabets), k=draw.choice([9, 70, 130, 300]))) for _ in range(count)]


@pytest.mark.parametrize("name", NAMES)
def test_long_texts_are_cut_as_by_the_library(name: str) -> None:
    """Texts over small alphabets, which are cut 64 bytes at a time, are cut as by `tokenizers`."""
    assert not differing(drawn(7, 1500), name)[:3]


@pytest.mark.slow
@pytest.mark.parametrize("name", SCANNERS)
def test_many_long_texts_are_cut_as_by_the_library(name: str) -> None:
    """Four thousand texts over small alphabets are cut as by `tokenizers`."""
    assert not differing(drawn(100, 4000), name)[:3]


@pytest.mark.parametrize("name", NAMES)
def test_real_text_is_cut_as_by_both_engines(name: str) -> None:
    """Prose, code and many scripts, from every place on, are cut as by `tokenizers` and by `regex`."""
    texts = [REAL[at:] for at in range(0, len(REAL), 3)]
    assert not differing(texts, name)[:3]
    expression = regex.compile(PATTERNS[name].text.replace("$", r"\Z"))
    assert cuts(texts, name) == [expression.findall(text) for text in texts]


@pytest.mark.parametrize("name", NAMES)
def test_engines_disagree_only_where_unicode_moved(name: str) -> None:
    """On long texts `regex`, which knows a later Unicode, cuts as the scanner does unless a character's class moved."""
    texts = [text for text in drawn(11, 800) if not MOVED & set(text)]
    expression = regex.compile(PATTERNS[name].text.replace("$", r"\Z"))
    assert cuts(texts, name) == [expression.findall(text) for text in texts]


@njit(cache=True)
def one_by_one(data: np.ndarray, pattern: int, table: np.ndarray) -> list[int]:  # type: ignore[type-arg]
    ends = []
    at = 0
    while at < len(data):
        at = next_end(view(data), at, len(data), pattern, view(table))
        ends.append(at)
    return ends


@njit(cache=True)
def in_batches(data: np.ndarray, pattern: int, table: np.ndarray, room: int) -> list[int]:  # type: ignore[type-arg]
    ends = []
    buffer = np.empty(room, np.int64)
    at = 0
    while at < len(data):
        count = next_ends(view(data), at, len(data), pattern, view(table), buffer)
        ends.extend(list(buffer[:count]))
        at = buffer[count - 1]
    return ends


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("room", [64, 100, 5000])
def test_batches_of_any_size_hold_the_ends_one_by_one(name: str, room: int) -> None:
    """`next_ends` gives the ends that `next_end` gives, for any buffer size."""
    data = np.frombuffer("".join(drawn(5, 40)).encode(), np.uint8)
    scanner = PATTERNS[name].scanner
    assert in_batches(data, scanner, TABLE, room) == one_by_one(data, scanner, TABLE)


@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_cut_by_itself(name: str) -> None:
    """The bytes before and after a text in the same buffer do not change its pre-tokens."""
    pieces = [REAL[at : at + size] for size in (1, 7, 64, 65, 200) for at in range(0, len(REAL) - size, 29)]
    assert cuts(pieces, name) == [cuts([piece], name)[0] for piece in pieces]


def test_patterns_that_share_a_scanner_cut_alike() -> None:
    """The texts of `gristmill`, `llama3` and `cl100k` cut alike in the library too, and other texts as their name's."""
    texts = drawn(3, 1000)
    for text in texts:
        assert reference(text, "gristmill") == reference(text, "llama3") == reference(text, "cl100k")
    for expression, name in OTHER_TEXTS.items():
        other = splitter(expression)
        for text in texts:
            assert [token for token, _ in other.pre_tokenize_str(text)] == reference(text, name)


def test_patterns_are_known_by_their_text() -> None:
    """Each text gives its name; tiktoken's `{1,3}+`, which the library reads as all digits, gives none."""
    assert [recognise(pattern.text) for pattern in PATTERNS.values()] == NAMES
    published = PATTERNS["cl100k_tail"].text.replace("{1,3}", "{1,3}+")
    assert recognise(published) is None
    assert [token for token, _ in splitter(published).pre_tokenize_str("12345")] == ["12345"]
    assert recognise(r"\s+") is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("invert", [False, True])
def test_a_pre_tokenizer_is_known_by_what_it_does(name: str, invert: bool) -> None:
    """A file's `pre_tokenizer` gives the pattern that cuts as it does; none with a second expression or added space."""
    parts = [
        library.Split(Regex(PATTERNS[name].text), "removed" if invert else "isolated", invert=invert),
        library.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    made = library.Sequence(parts)
    spec = json.loads(made.__getstate__())
    assert pattern_of(spec) == name
    lengths = [len(token) for token, _ in made.pre_tokenize_str(REAL)]
    assert lengths == [len(token.encode()) for token in cuts([REAL], name)[0]]
    for change in ({"use_regex": True}, {"add_prefix_space": True}):
        assert (
            pattern_of(spec | {"pretokenizers": [spec["pretokenizers"][0], spec["pretokenizers"][1] | change]}) is None
        )
    assert pattern_of(spec | {"pretokenizers": spec["pretokenizers"][:1]}) is None


def test_byte_level_alone_is_gpt2() -> None:
    """`ByteLevel` with its own expression cuts as the scanner of GPT-2."""
    made = library.ByteLevel(add_prefix_space=False)
    assert pattern_of(json.loads(made.__getstate__())) == "gpt2"
    assert [len(t) for t, _ in made.pre_tokenize_str(REAL)] == [len(t.encode()) for t in cuts([REAL], "gpt2")[0]]
    assert pattern_of(None) is None
    assert pattern_of(json.loads(library.ByteLevel(add_prefix_space=True).__getstate__())) is None
