"""The register of a text: every threshold, from both sides, in several scripts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill_bias import register
from gristmill_bias.register import REGISTERS, register_of

PROSE = "The mill stands by the river and grinds the grain of all the upper valley, summer and winter long. "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a" * (register.SHORT_CHARS - 1) + " " * 99, "short"),
        ("a" * register.SHORT_CHARS, "prose"),
        ("{" * 8 + "a" * 192, "code"),
        ("{" * 7 + "a" * 193, "prose"),
        ("7" * 40 + "a" * 160, "numbers"),
        ("7" * 39 + "a" * 161, "prose"),
        (f"a\tb\tc\n{'a' * 200}.", "numbers"),
        (f"a\tb\tc\n{'a' * 200}.\nAnd so on.", "prose"),
        (PROSE * 3 + "And who is the miller?", "dialogue"),
        (PROSE * 4 + "And who is the miller?", "prose"),
        (PROSE * 3 + "あなたは誰ですか？", "dialogue"),
        ("\u201cWho goes there\u201d, he said.\n" * 3 + (PROSE + "\n") * 7, "dialogue"),
        ("\u201cWho goes there\u201d, he said.\n" * 3 + (PROSE + "\n") * 8, "prose"),
        ("\u2014 Ven aqu\u00ed conmigo.\n" * 3 + (PROSE + "\n") * 5, "dialogue"),
        ("flour\n" * 6 + (PROSE + "\n") * 4, "list"),
        ("flour\n" * 5 + (PROSE + "\n") * 4, "prose"),
        ("- " + PROSE + "\n- " + PROSE + "\n- " + PROSE + "\n- " + PROSE, "list"),
        (("a" * 60 + "\n") * 4, "list"),
        (("a" * 61 + "\n") * 4, "prose"),
        (("字" * 30 + "\n") * 7, "list"),
        (("字" * 31 + "\n") * 7, "prose"),
        (("字" * 29 + "。\n") * 7, "prose"),
        ("flour and water for all of the sacks that we have in the mill" * 5 + "\nflour\nsacks", "prose"),
    ],
)
def test_every_threshold_is_exact(text, expected):
    """One more or one less changes the register."""
    assert register_of(text) == expected


@given(st.text(max_size=600))
def test_every_text_has_a_register(text):
    """This holds for any text; characters beyond the examined part do not matter."""
    assert register_of(text) in REGISTERS
    padded = text.ljust(register.MOST_CHARS)
    assert register_of(padded + "{}" * 9000) == register_of(padded)
