"""Special tokens are chosen by name or group, slots are reserved, and names that text may contain are found."""

import pytest

from gristmill.tokenizer.special import (
    DEFAULT,
    GROUPS,
    SLOTS,
    SPECIAL_TOKENS,
    check_names,
    named_slots,
    ordinary,
    special_tokens,
)


def test_groups_and_names_are_chosen_in_their_order():
    """A group stands for its names; reserved slots fill up to 256 unless their number is given."""
    chosen = special_tokens(("document", "code_languages", "<|mine|>"), None)
    assert chosen[:4] == GROUPS["document"]
    assert "<|code_python|>" in chosen
    assert chosen[len(GROUPS["document"]) + len(GROUPS["code_languages"])] == "<|mine|>"
    assert len(chosen) == SLOTS
    assert special_tokens(("document",), 2)[-2:] == ("<|reserved_0|>", "<|reserved_1|>")
    assert len(special_tokens(("document",), 0)) == 4
    assert special_tokens(DEFAULT, None) == SPECIAL_TOKENS


@pytest.mark.parametrize("name", ["", " ", "<|a b|>", "<|a\n|>", "<|\x00|>", "<|\u200b|>", "<|\u2028|>", "x" * 101])
def test_names_that_no_special_token_can_have_are_refused(name):
    """Nothing invisible, no white space, nothing empty or long."""
    with pytest.raises(ValueError, match="cannot be a special token"):
        check_names(["<|a|>", name])


def test_a_name_is_given_once():
    """Also if a single name is in a chosen group, or is that of a reserved slot."""
    for chosen in (("<|a|>", "<|a|>"), ("chat", "<|user|>"), ("<|reserved_0|>",)):
        with pytest.raises(ValueError, match="occurs twice"):
            special_tokens(chosen, 1)
    with pytest.raises(ValueError, match="Lower reserved"):
        special_tokens((), 10**6)


def test_names_that_text_may_contain_are_found():
    """Words, numbers, signs without letters, and words with a sign at one end."""
    names = ["the", "Mill", "data", "42", "<|", "...", "</", "(a", "b)"]
    assert ordinary(names) == names
    assert ordinary([*SPECIAL_TOKENS, *GROUPS["code_languages"], "<s>", "[PAD]", "</s>", "<0x0A>"]) == []
    assert ordinary(["▁<PRE>", "▁x", "<｜begin▁of▁sentence｜>", "[INST]", ">>TITLE<<", "<start_of_turn>"]) == []


def test_a_reserved_slot_gets_a_name_and_keeps_its_place():
    """Only reserved slots can be named, and names stay unique."""
    named = named_slots(SPECIAL_TOKENS, {"<|reserved_3|>": "<|mine|>"})
    assert [at for at, (one, other) in enumerate(zip(SPECIAL_TOKENS, named, strict=True)) if one != other] == [33]
    assert named[33] == "<|mine|>"
    with pytest.raises(
        ValueError, match=r"'<\|user\|>' is not a reserved slot .*<\|reserved_0\|> to <\|reserved_225\|>"
    ):
        named_slots(SPECIAL_TOKENS, {"<|user|>": "<|mine|>"})
    with pytest.raises(ValueError, match="occurs twice"):
        named_slots(SPECIAL_TOKENS, {"<|reserved_3|>": "<|user|>"})
