"""The special tokens that end a document and pad a sample."""

from types import SimpleNamespace

import pytest

from gristmill.errors import UserError
from gristmill.stages.shards.special_ids import END_OF_DOCUMENT, PADDING, special_ids


def having(*names):
    return SimpleNamespace(specials={name: number for number, name in enumerate(names, 100)})


@pytest.mark.parametrize("end", END_OF_DOCUMENT)
@pytest.mark.parametrize("padding", PADDING)
def test_the_usual_names_are_found(end, padding):
    """Other special tokens do not matter."""
    assert special_ids(having("<|im_end|>", padding, end), None, None) == (102, 101)


def test_names_in_the_recipe_come_first():
    """They come before a usual name."""
    tokenizer = having("<|end_of_text|>", "<|pad|>", "<a>", "<b>")
    assert special_ids(tokenizer, "<a>", "<b>") == (102, 103)


def test_without_a_padding_token_the_end_of_document_token_pads():
    """GPT-2 and Llama 2 have no padding token."""
    assert special_ids(having("<|endoftext|>"), None, None) == (100, 100)
    assert special_ids(having("<s>", "<x>"), "<x>", None) == (101, 101)


def test_the_end_of_a_turn_is_not_the_end_of_a_document():
    """A tokenizer without another token is refused, and the message lists its special tokens."""
    with pytest.raises(UserError, match=r"none of the usual.*shards\.end_of_document.*<\|im_end\|>"):
        special_ids(having("<|im_end|>"), None, None)


@pytest.mark.parametrize(("end", "padding", "field"), [("<x>", None, "end_of_document"), (None, "<x>", "padding")])
def test_an_unknown_name_is_refused_with_the_known_names(end, padding, field):
    """Fact, consequence, fix."""
    with pytest.raises(UserError, match=rf"shards\.{field}: '<x>' is not.*, so .*Special tokens: </s>, <pad>\."):
        special_ids(having("</s>", "<pad>"), end, padding)
