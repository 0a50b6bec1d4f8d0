"""Drawing documents: the same ones as by reading all of them, and few parts are opened."""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.query.documents.draw import FIRST, draw_rows, ranks
from gristmill.shardformat.splitmix import ALL, GOLDEN, mixed


def parts_of(*rows):
    hashes = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(len(rows))]
    return [SimpleNamespace(part=SimpleNamespace(hash=one, rows=size)) for one, size in zip(hashes, rows, strict=True)]


def test_a_rank_is_a_hash_of_the_part_and_the_row():
    [part] = parts_of(5)
    seed = int(part.part.hash[:16], 16)
    assert ranks(part).tolist() == [mixed((seed + row * GOLDEN) & ALL) for row in range(5)]


@given(st.lists(st.integers(0, 400), max_size=8), st.integers(1, 30), st.integers(0, 30), st.integers(1, 40))
def test_the_matching_rows_of_the_lowest_ranks_are_drawn(rows, divisor, skip, number):
    """Whatever the share that matches; each part is asked for its rows at most once per row."""
    documents, asked = parts_of(*rows), []

    def matching(document, chosen):
        asked.extend((document.part.hash, row) for row in chosen.tolist())
        return [row for row in chosen.tolist() if row % divisor == 0]

    found = draw_rows(documents, matching, skip, number)
    everything = sorted(
        (int(rank), index, row)
        for index, document in enumerate(documents)
        for row, rank in enumerate(ranks(document))
        if row % divisor == 0
    )
    expected = {(index, row) for _, index, row in everything[skip : skip + number]}
    assert {(documents.index(document), row) for document, some in found for row in some} == expected
    assert all(np.all(np.diff(some) > 0) for _, some in found)
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize(("share", "most_opened"), [(1, FIRST * 2), (0.0001, 2500)])
def test_few_parts_are_opened(share, most_opened):
    """Ten documents of a thousand parts; for a rare reason, each part is opened at most three times."""
    documents, opened = parts_of(*[1000] * 1000), []

    def matching(document, chosen):
        opened.append(document)
        return chosen[ranks(document)[chosen] % np.uint64(10000) < 10000 * share].tolist()

    draw_rows(documents, matching, 0, 10)
    assert len(opened) <= most_opened
