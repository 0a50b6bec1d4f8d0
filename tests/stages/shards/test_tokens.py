"""Every document becomes its ids followed by one end token, in any batch."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.stages.shards import tokens
from gristmill.tokenizer.files import load, write_json
from gristmill.tokenizer.model import Tokenizer

TEXTS = ["The mill.", "", None, "x", "Mühle <|end_of_text|> 水車", "a" * 5000]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    empty = np.zeros(0, np.int32)
    tokenizer = Tokenizer.from_merges("gristmill", empty, empty)
    return {"tokenizer": write_json(tokenizer, tmp_path_factory.mktemp("tokenizer"))}


def encoded(texts, models, config=None):
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["text"])
    return tokens.apply(batch, config or tokens.Config(), models)


def ids_of(answers, row, width="<u2"):
    return np.frombuffer(answers.column("ids")[row].as_py(), width).tolist()


def test_ids_are_those_of_the_tokenizer_followed_by_one_end(models):
    """This also holds if the text contains the string of the end-of-document token."""
    opened = load(str(models["tokenizer"]))
    end = opened.specials["<|end_of_text|>"]
    answers = encoded(TEXTS, models)
    for row, text in enumerate(TEXTS):
        if text:
            assert ids_of(answers, row) == [*opened.encode_text(text), end]
            assert ids_of(answers, row).count(end) == 1
            assert answers.column("tokens")[row].as_py() == len(ids_of(answers, row))


def test_a_document_without_text_is_dropped_with_a_reason(models):
    """It has no tokens, and its row has the reason."""
    answers = encoded(TEXTS, models)
    assert answers.column("drop").to_pylist() == [None, "no_tokens", "no_tokens", None, None, None]
    assert answers.column("ids")[1].as_py() is None
    assert tokens.metrics(None, answers, tokens.Config())["documents"] == 4


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=8), st.integers(0, 8))
def test_a_slice_of_a_batch_gives_the_same_ids(models, texts, cut):
    """A stage processes every row separately."""
    whole = encoded(texts, models).to_pylist()
    assert encoded(texts[:cut], models).to_pylist() + encoded(texts[cut:], models).to_pylist() == whole


def test_a_large_vocabulary_takes_four_bytes(tmp_path):
    """Ids above 65,535 do not fit into two bytes; 65,536 ids do."""
    assert tokens.token_type(1 << 16).itemsize == 2
    assert tokens.token_type((1 << 16) + 1).itemsize == 4


def test_an_unknown_end_is_an_error(models):
    """The message lists the special tokens of the tokenizer."""
    with pytest.raises(UserError, match="<\\|end_of_text\\|>"):
        encoded(TEXTS, models, tokens.Config(end_of_document="<eod>"))
