import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.stages.shared.normalise import MAX_MARKS, normalise

BREAKS = "\n\x0b\x0c\r\x85\u2028\u2029"
ODD = BREAKS + " \t\u00a0\u2000\u2001\u3000\x00\x1b\x7f\u00ad\ufeff\ufffe\uffff\ufffd\u200b\u200c\u200d\u202e\u2066"
ODD += "\ud800\udfff\ufdd0\U0001fffe\U0010ffff\U000e0001\u0301\u0316\u0323\u0f73\u1100\u1161\u11a8\u212b\ufb1d\u0344"
TEXTS = st.text(st.one_of(st.sampled_from(ODD), st.sampled_from("ab .é中🙂"), st.characters(codec=None)), max_size=60)


def is_removed(char: str) -> bool:
    """The rule in words, with Unicode's own properties where possible."""
    code = ord(char)
    if unicodedata.category(char) in ("Cc", "Cs"):
        return char not in "\n\t"
    bidi = unicodedata.bidirectional(char) in ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
    noncharacter = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    named = char in "\u00ad\u061c\u200e\u200f\u2060\ufeff\ufff9\ufffa\ufffb\ufffc\U000e0001"
    return bidi or noncharacter or named or 0x206A <= code <= 0x206F


def oracle(text: str, max_blank_lines: int = 1) -> str:
    """Plain Python, one step after the other."""
    text = text.replace("\r\n", "\n")
    for end in BREAKS:
        text = text.replace(end, "\n")
    text = "".join(char for char in text if not is_removed(char))
    kept: list[str] = []
    blank = 0
    for line in text.split("\n"):
        line = line.rstrip()
        blank = 0 if line else blank + 1
        if blank <= max_blank_lines:
            kept.append(line)
    text = "\n".join(kept).strip("\n")
    if unicodedata.normalize("NFC", text) == text:
        return text
    marks, cut = 0, ""
    for char in text:
        marks = marks + 1 if unicodedata.combining(unicodedata.normalize("NFD", char)[0]) else 0
        cut += char if marks <= MAX_MARKS else ""
    return unicodedata.normalize("NFC", cut)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(0, 3))
def test_equals_the_plain_python_oracle(text: str, max_blank_lines: int) -> None:
    """The one-pass scan gives the same result as the separate steps."""
    assert normalise(text, max_blank_lines) == oracle(text, max_blank_lines)


@given(TEXTS, st.integers(0, 2))
def test_a_second_time_changes_nothing(text: str, max_blank_lines: int) -> None:
    """Normalising is idempotent."""
    once = normalise(text, max_blank_lines)
    assert normalise(once, max_blank_lines) == once


def test_every_code_point_is_treated_as_the_oracle_treats_it() -> None:
    """No code point differs from the oracle: between letters that it may compose with, at the end of a line."""
    for first in (*range(0, 0x20000, 0x400), 0x2F800, 0x2FC00, 0xE0000, 0x10FC00):
        text = "x".join(f"a{chr(code)}b{chr(code)}\n" for code in range(first, first + 0x400))
        assert normalise(text) == oracle(text), hex(first)


@pytest.mark.parametrize(
    "text",
    [
        "👩‍👩‍👧‍👦 👍🏽 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️",
        "می‌خواهم",
        "क्‍ष",
        "中文，標點。\n\u3000\u3000段落",
        "שלום עולם",
        "ភាសា\u200bខ្មែរ",
        "def f(x):\n    if x:\n\treturn 1",
        "q̣̇",
    ],
)
def test_normal_text_is_left_alone(text: str) -> None:
    """Joiners, flags, ideographic indents, right-to-left text, code indentation and stacked marks all survive."""
    assert normalise(text) == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("e\u0301 A\u030a \u212b", "é Å Å"),
        ("e\u00ad\u0301", "é"),
        ("co\u00adop\ufeff \u202eevil\u202c", "coop evil"),
        ("a\r\nb\rc\u2028d\x0ce\x85f", "a\nb\nc\nd\ne\nf"),
        ("\n\n  a  \n \t\n\n\u00a0\n  b\u3000\n\n", "  a\n\n  b"),
        ("a\ud83dz", "az"),
        (" \u00a0\n\t", ""),
    ],
)
def test_examples_read_as_a_person_expects(text: str, plain: str) -> None:
    """Composition (also across a removed hyphen), line ends, trimming, lone surrogates."""
    assert normalise(text) == plain


@pytest.mark.parametrize("max_blank_lines", [0, 1, 2, 5])
def test_no_more_blank_lines_in_a_row_than_allowed(max_blank_lines: int) -> None:
    """The longest run of line feeds is the bound plus one, and a run within the bound is kept as it is."""
    text = "x".join("\n" * n for n in range(1, 10))
    runs = [len(run) for run in re.findall("\n+", normalise(f"x{text}x", max_blank_lines))]
    assert runs == [min(n, max_blank_lines + 1) for n in range(1, 10)]


def test_a_long_run_of_unordered_marks_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks on one letter are cut to thirty before they are put in order, which takes quadratic time."""
    ordered = unicodedata.normalize("NFC", "a" + "\u0301\u0316" * 15 + "b")
    sizes, real = [], unicodedata.normalize

    def normalize(form: Any, text: str) -> str:
        sizes.append(len(text))
        return real(form, text)

    monkeypatch.setattr(unicodedata, "normalize", normalize)
    assert normalise("a" + "\u0301\u0316" * 2_500 + "b") == ordered
    assert max(sizes) == 32
