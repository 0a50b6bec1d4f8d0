"""The table of all that a parent says."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.compile import njit
from gristmill.kernels.faithful.said import SAID_WORD, add, count_of, new_table, said_views, with_room


@njit(nogil=True)
def _add_all(table, keys):
    views = said_views(table)
    for key in keys:
        add(views, SAID_WORD, key)


@njit(nogil=True)
def _counts(table, keys):
    views = said_views(table)
    return [count_of(views, SAID_WORD, key) for key in keys]


@given(st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=300), min_size=1, max_size=9))
def test_the_table_grows_with_its_entries_and_keeps_their_counts(blocks):
    """A key that is added again and again takes no further room, whatever the number of additions."""
    table = new_table()
    for block in blocks:
        table = with_room(table, len(set(block)))
        _add_all(table, np.array(block, np.uint64))
    expected = Counter(key for block in blocks for key in block)
    keys = np.arange(1, 302, dtype=np.uint64)
    assert list(_counts(table, keys)) == [expected[int(key)] for key in keys]
    assert table.state[1] == len(expected)
    assert len(table.slots) <= max(256, 3 * (len(expected) + 300))
