"""The arrays of a batch, compared with slow loops over its documents."""

import numpy as np
import pytest

from gristmill.loader import IGNORE, Loader, block_diagonal_mask


@pytest.fixture(scope="module", params=[1, 7, 64])
def batch(corpus, request):
    with Loader(corpus, batch_samples=request.param, start=120) as loader:
        return next(iter(loader))


def stretches(batch):
    """(row, begin, end, whether padding) of everything in a batch, by walking through it."""
    at = 0
    for row in range(len(batch)):
        begin = 0
        for length in batch.lengths[at : at + batch.pieces[row]].tolist():
            yield row, begin, begin + length, False
            begin += length
        at += batch.pieces[row]
        if begin < batch.tokens.shape[1]:
            yield row, begin, batch.tokens.shape[1], True


def test_positions_begin_at_0_in_every_document(batch):
    """Positions also begin at 0 in the padding, so nothing depends on the documents before."""
    expected = np.full(batch.tokens.shape, -1)
    for row, begin, end, _ in stretches(batch):
        expected[row, begin:end] = np.arange(end - begin)
    assert np.array_equal(batch.positions, expected)
    assert batch.positions.dtype == np.int32


def test_cu_seqlens_cut_the_flattened_batch_at_every_document_and_sample(batch):
    """They run from 0 to the last token; padding is a separate stretch, and no stretch is empty."""
    size = batch.tokens.shape[1]
    expected = [0, *(row * size + end for row, _, end, _ in stretches(batch))]
    assert batch.cu_seqlens.tolist() == expected
    assert batch.cu_seqlens.dtype == np.int32
    assert batch.max_seqlen == max(end - begin for _, begin, end, _ in stretches(batch))


def test_every_token_is_in_a_span_or_in_padding(batch):
    """Spans cover exactly the documents, and padding the rest."""
    spans = [(row, begin, end) for row, begin, end, padding in stretches(batch) if not padding]
    assert batch.doc_spans.tolist() == [list(span) for span in spans]
    expected = np.ones(batch.tokens.shape, bool)
    for row, begin, end in spans:
        expected[row, begin:end] = False
    assert np.array_equal(batch.is_padding, expected)
    assert batch.is_padding.any() or len(batch) == 1
    assert not batch.tokens[batch.is_padding].any()


def test_labels_are_the_next_token_of_the_same_document(batch):
    """Nothing is predicted across documents, at their ends, or in padding."""
    expected = np.full(batch.tokens.shape, IGNORE)
    for row, begin, end, padding in stretches(batch):
        if not padding:
            expected[row, begin : end - 1] = batch.tokens[row, begin + 1 : end]
    assert np.array_equal(batch.labels, expected)
    assert np.array_equal(batch.loss_mask, expected != IGNORE)


def test_the_mask_lets_a_token_see_its_own_document_up_to_itself(batch):
    """Compared with a loop; without causality, a token sees its whole document."""
    size = batch.tokens.shape[1]
    causal, whole = np.zeros((2, len(batch), size, size), bool)
    for row, begin, end, _ in stretches(batch):
        whole[row, begin:end, begin:end] = True
        causal[row, begin:end, begin:end] = np.tri(end - begin)
    assert np.array_equal(block_diagonal_mask(batch), causal)
    assert np.array_equal(block_diagonal_mask(batch, causal=False), whole)
    assert np.array_equal(block_diagonal_mask(batch.documents[0]), causal[:1])


def test_an_empty_batch_has_every_field(corpus):
    """With drop_last=False a rank may get an empty batch at the end."""
    with Loader(corpus, world_size=4, rank=0, start=449, drop_last=False) as loader:
        (batch,) = loader
    assert len(batch) == 0
    assert batch.cu_seqlens.tolist() == [0]
    assert batch.max_seqlen == 0
    for name in ("positions", "documents", "labels", "is_padding"):
        assert getattr(batch, name).shape == (0, 12)
    assert batch.doc_spans.shape == (0, 3)
    assert batch.doc_ids.shape == (0,)
    assert batch.sources == []
