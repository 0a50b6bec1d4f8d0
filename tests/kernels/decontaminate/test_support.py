"""Hits are dropped where nothing around them could make them count, and nowhere else."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.decontaminate.test_match import HASHES

from gristmill.kernels.decontaminate.match import FIELDS, TEXT_TO, UNIT
from gristmill.kernels.decontaminate.texts import Support, drop_unsupported
from gristmill.kernels.dedup.shingles import ROLL

BAGS = st.lists(st.sets(st.integers(0, 6), max_size=4), min_size=1, max_size=3)


def support_for(bags, least, reach):
    starts = np.cumsum([0, *map(len, bags)]).astype(np.int64)
    words = HASHES[np.array([word for bag in bags for word in sorted(bag)], np.int64)]
    return Support(np.array(least, np.int64), np.array(reach, np.int64), starts, words)


def rolled(words):
    sums = [0]
    for word in words:
        sums.append((sums[-1] * int(ROLL) + word) & (1 << 64) - 1)
    return np.array(sums, np.uint64)


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
