"""Kernels take any bytes, also such as are no text, and any cut of them into rows, without harm."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.ngram.cut import ROOM, ROOM_BYTES, cut_tables
from gristmill.kernels.ngram.score import perplexities, score, scratch
from gristmill.kernels.ngram.tables import Tables
from gristmill.stages.quality.ngram_file import special_hashes
from gristmill_ngram.estimate import NgramSettings, estimate
from gristmill_ngram.kernels.texts import cut_texts, hash_texts
from gristmill_ngram.kernels.vocabulary import number_texts, vocabulary_of
from kernels.test_any_bytes import ROWS, arrays
from lent_arrays import lent


@given(ROWS, st.sampled_from([b"", b"ab\xff"]), st.integers(1, 5))
def test_any_bytes_do_no_harm(rows, before, order):
    """A model of texts gives every one of them that has a word a perplexity."""
    data, offsets = arrays(rows, before, np.int64)
    spare = np.empty(ROOM_BYTES, np.uint8), np.empty((ROOM, 3), np.int64)
    plain, stops = cut_texts(data, offsets, cut_tables(), *spare)
    assert len(stops) == len(rows)
    assert len(plain) == (stops[-1] if rows else 0)
    hashes, firsts = hash_texts(data, offsets, cut_tables(), *spare)
    known = vocabulary_of(np.unique(hashes[hashes != 0])[::2].copy())
    ids, same = number_texts(data, offsets, cut_tables(), *spare, known)
    assert (same == firsts).all()
    assert len(ids) == len(hashes)
    if not len(ids):
        return
    with tempfile.TemporaryDirectory() as folder:
        least = (1, 1, 1, 2, 2)[:order]
        made = estimate(lambda: [(data, offsets)], NgramSettings(order, least, 30, 1 << 24), Path(folder))
        tables = Tables(*lent(np.fromfile(made.slots, np.uint64)), np.array(made.shape, np.int64), special_hashes())
    found = score(data, offsets[:-1].copy(), offsets[1:].copy(), tables, cut_tables(), scratch())
    assert (found[:, 2] <= found[:, 1]).all()
    assert (np.isfinite(perplexities(found)) == (found[:, 1] > 0)).all()
