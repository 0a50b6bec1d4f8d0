"""Character references, against Python's own reading of them."""

import html
import re
from html.entities import html5

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kernels.html.cutting import Cut

CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef]|[\ufffe\uffff]")
"""What carries no text: a block leaves out some of it, `html.unescape` others, the plain form all."""


def plain(text: str) -> str:
    return " ".join(CONTROLS.sub("", text).split())


def blocks_of(texts: list[str]) -> list[str]:
    """Each text as a block reads it; a letter on both sides keeps it from vanishing."""
    found = Cut("".join(f"<p>a{text}<!---->z" for text in texts)).texts
    assert len(found) == len(texts)
    return [plain(text) for text in found]


@pytest.mark.parametrize("end", [";", "", "x", "x;", "=", "9", " ;", "&"])
def test_every_name_is_what_python_makes_of_it(end: str) -> None:
    """All 2,231 names, with their semicolon, without, and before other letters."""
    texts = [f"&{name.rstrip(';')}{end}" for name in html5]
    assert blocks_of(texts) == [plain(f"a{html.unescape(text)}z") for text in texts]


NUMBERS = [0, 1, 9, 10, 13, 31, 32, 65, 127, *range(128, 160), 160, 0x7FF, 0x800, 0xD7FF, 0xD800, 0xDFFF, 0xE000]
NUMBERS += [0xFFFD, 0xFFFE, 0x10000, 0x1F600, 0x10FFFD, 0x110000, 1 << 31, 1 << 32, 1 << 63, 1 << 64, 10**40]


@pytest.mark.parametrize("form", ["&#{};", "&#{}", "&#x{:x};", "&#X{:X}", "&#{:09}g", "&#x{:09x}g"])
def test_numbers_are_what_python_makes_of_them(form: str) -> None:
    """Decimal and hexadecimal; windows-1252 where the standard requires it; surrogates and too large numbers are
    U+FFFD.
    """
    texts = [form.format(number) for number in NUMBERS]
    assert blocks_of(texts) == [plain(f"a{html.unescape(text)}z") for text in texts]


@given(st.lists(st.text("&&##xX;;019afltgnotminpqu ", max_size=14), min_size=1, max_size=8))
@example(["&", "&#", "&#x", "&#;", "&#x;", "&;", "&am", "&amp", "&notit;", "&notin;", "&&amp;;", "&#38"])
def test_broken_references_stay_text(texts: list[str]) -> None:
    """Text that is not a reference is written unchanged."""
    assert blocks_of(texts) == [plain(f"a{html.unescape(text)}z") for text in texts]


@pytest.mark.parametrize("text", ["&", "&a", "&am", "&amp", "&#", "&#x", "&#3", "&#x2", "&notit", "&CounterClockwiseC"])
def test_a_page_may_end_inside_a_reference(text: str) -> None:
    """With memory for no byte more."""
    assert Cut(f"a{text}").texts == [f"a{html.unescape(text)}"]


def test_no_reference_is_longer_than_its_room() -> None:
    """What the size of the buffer of texts rests on: 6 bytes for 5, and no more than its own bytes below 5."""
    for name, characters in html5.items():
        size = len(name) + 1
        assert len(characters.encode()) <= (size * 6 // 5 if size >= 5 else size)
