"""Which special tokens end a document and fill up a sample."""

from types import SimpleNamespace

import pytest

from gristmill.errors import UserError
from gristmill.stages.shards.special_ids import END_OF_DOCUMENT, PADDING, special_ids


def having(*names):
    return SimpleNamespace(specials={name: number for number, name in enumerate(names, 100)})


@pytest.mark.parametrize("end", END_OF_DOCUMENT)
@pytest.mark.parametrize("padding", PADDING)
def test_the_usual_names_are_found(end, padding):
    """Whatever other special tokens stand around them."""
    assert special_ids(having("<|im_end|>", padding, end), None, None) == (102, 101)


def test_names_in_the_recipe_come_first():
    """Even where a usual one is there."""
    tokenizer = having("<|end_of_text|>", "<|pad|>", "<a>", "<b>")
    assert special_ids(tokenizer, "<a>", "<b>") == (102, 103)


def test_without_padding_the_end_of_a_document_fills_up():
    """GPT-2 and Llama 2 have no token for padding."""
    assert special_ids(having("<|endoftext|>"), None, None) == (100, 100)
    assert special_ids(having("<s>", "<x>"), "<x>", None) == (101, 101)


def test_the_end_of_a_turn_is_not_the_end_of_a_document():
    """A tokenizer with nothing else is refused, and the message lists what it has."""
    with pytest.raises(UserError, match=r"none of the usual.*shards\.end_of_document.*<\|im_end\|>"):
        special_ids(having("<|im_end|>"), None, None)


@pytest.mark.parametrize(("end", "padding", "field"), [("<x>", None, "end_of_document"), (None, "<x>", "padding")])
def test_an_unknown_name_is_refused_with_those_that_there_are(end, padding, field):
    """Fact, consequence, fix."""
    with pytest.raises(UserError, match=rf"shards\.{field}: '<x>' is not.*, so .*Special tokens: </s>, <pad>\."):
        special_ids(having("</s>", "<pad>"), end, padding)
