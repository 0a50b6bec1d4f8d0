"""Hits are dropped where nothing around them could make them count, and nowhere else."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.decontaminate.test_match import HASHES, rolled

from gristmill.kernels.decontaminate.match import FIELDS, ROW, TEXT_TO, UNIT, UNIT_FROM, UNIT_TO
from gristmill.kernels.decontaminate.support import Support, cover_half, drop_unsupported

BAGS = st.lists(st.sets(st.integers(0, 6), max_size=4), min_size=1, max_size=3)


def support_for(bags, least, reach):
    starts = np.cumsum([0, *map(len, bags)]).astype(np.int64)
    words = HASHES[np.array([word for bag in bags for word in sorted(bag)], np.int64)]
    return Support(np.array(least, np.int64), np.array(reach, np.int64), starts, words)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=30), BAGS, st.data())
def test_a_unit_stays_where_one_of_its_hits_has_support(text, bags, data):
    """All its hits, in order; so do units that need none. The hits before those of this text are left alone."""
    least = [data.draw(st.integers(0, len(bag) + 1)) if bag else 0 for bag in bags]
    reach = [data.draw(st.integers(0, 10)) for _ in bags]
    placed = data.draw(
        st.lists(st.tuples(st.integers(0, len(bags) - 1), st.integers(0, len(text))), min_size=1, max_size=8)
    )
    hits = np.zeros((2 + len(placed), FIELDS), np.int64)
    hits[2:, [UNIT, TEXT_TO]] = placed
    sums = rolled(HASHES[np.array(text, np.int64)].tolist())
    given_, state = support_for(bags, least, reach), np.full(len(bags), -1, np.int64)
    end = drop_unsupported(sums, len(text), 5, hits, 2, len(hits), given_, state)

    def has(unit, at):
        return len(bags[unit] & set(text[at : at + reach[unit]])) >= least[unit]

    staying = {unit for unit, at in placed if has(unit, at)}
    assert hits[2:end, [UNIT, TEXT_TO]].tolist() == [list(one) for one in placed if one[0] in staying]
    assert not hits[:2].any()


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 8)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 11), st.integers(1, 12)), max_size=10),
    st.data(),
)
def test_half_of_the_ngrams_that_count_is_what_a_plain_count_says(units, placed, data):
    """Of all hits of a unit in a text together."""
    sizes, ngrams = (np.array(one, np.int64) for one in zip(*units, strict=True))
    starts = np.append(0, np.cumsum(sizes))
    windows = np.maximum(sizes - ngrams + 1, 1)
    counts = [data.draw(st.lists(st.booleans(), min_size=size, max_size=size)) for size in windows.tolist()]
    rows = []
    for row, number, first, size in placed:
        unit = number % len(units)
        first = first % int(sizes[unit])
        rows.append((row, unit, first, min(first + size, int(sizes[unit]))))
    hits = np.zeros((len(rows), FIELDS), np.int64)
    if rows:
        hits[:, [ROW, UNIT, UNIT_FROM, UNIT_TO]] = rows
    order = np.lexsort((hits[:, UNIT], hits[:, ROW]))
    flat = np.array([one for own in counts for one in own], np.bool_)
    kept = cover_half(hits, order, starts, ngrams, flat, np.cumsum(windows) - windows)

    def is_half(row, unit):
        held = set()
        for other, number, first, last in rows:
            if (other, number) == (row, unit):
                held |= set(range(first, max(last - int(ngrams[unit]) + 1, first + 1)))
        counting = {at for at, one in enumerate(counts[unit]) if one}
        return 2 * len(counting & held) >= len(counting)

    assert kept.tolist() == [is_half(row, unit) for row, unit, _, _ in rows]
