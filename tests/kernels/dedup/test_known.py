"""Looking documents up in an index: the most similar one by the sets themselves, and no index that points outside."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.dedup.known import PADDING_BYTES, find_known, pack_sets
from lent_arrays import lent

SETS = st.lists(st.sets(st.integers(0, 9), min_size=1, max_size=8), min_size=1, max_size=6)


def packed(sets):
    """Sets of small numbers as they are stored; a number is the upper part of a hash."""
    values = [np.sort(np.array(list(one), np.uint64)) << np.uint64(32) for one in sets]
    starts, data = pack_sets(np.cumsum([0, *map(len, values)]), np.concatenate(values))
    return starts, np.append(data, np.zeros(PADDING_BYTES, np.uint8))


def find(mine, known, owners=None, starts=None, over=1, under=2):
    """Looked up through one band that all share."""
    known_starts, known_data = packed(known)
    owners = np.arange(len(known)) if owners is None else owners
    return find_known(
        np.zeros((len(mine), 1), np.uint64),
        *packed(mine),
        *lent(np.zeros(len(owners), np.uint64), owners, known_starts if starts is None else starts, known_data),
        over,
        under,
        100,
    )


@given(SETS, SETS, st.integers(1, 4))
def test_the_most_similar_is_found(mine, known, over):
    """Of those with a Jaccard of at least over / 4 the greatest, of equals the first."""
    best, similar = find(mine, known, over=over, under=4)
    for row, one in enumerate(mine):
        shares = [(len(one & other) / len(one | other), -number) for number, other in enumerate(known)]
        share, number = max(shares)
        assert best[row] == (-number if share >= over / 4 else -1)
        assert similar[row] == pytest.approx(share if share >= over / 4 else 0)


@pytest.mark.parametrize("owner", [-1, 2, 1 << 40])
def test_an_index_that_names_no_document_is_refused(owner):
    """The owners come from a file; an owner that does not exist is not read."""
    with pytest.raises(ValueError, match="a band names none of them"):
        find([{1, 2}], [{1}, {2}], owners=np.array([0, owner]))


@pytest.mark.parametrize("starts", [[0, 1, 3], [0, -1, 2], [0, 1 << 40, 2], [-1, 1, 2], [0, 2, 1]])
def test_an_index_whose_sets_lie_outside_is_refused(starts):
    """So do its starts; a set beyond the last shingle, or before the first, is not read."""
    with pytest.raises(ValueError, match="outside of its shingles"):
        find([{1, 2}], [{1}, {2}], starts=np.array(starts))
