"""Trees that were found separately become the clusters of all links, for any ranges of keys."""

import hashlib

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gristmill.engine.work.shuffle import cut
from gristmill.stages.dedup import clusters
from gristmill.stages.shared.keep_order import ID_BYTES, RANK, RANK_BYTES


def rank(number):
    """Ranks that sort like the numbers, with doc_ids that do not."""
    head = number.to_bytes(RANK_BYTES - ID_BYTES, "big")
    return head + hashlib.md5(str(number).encode()).digest()


def exchange(tables, function, bits):
    ranges = {}
    for table in tables:
        for destination, part in cut(table, "key", 64 - bits):
            ranges.setdefault(destination, []).append(part)
    return [function(pa.concat_tables(found).combine_chunks()) for found in ranges.values()]


groups = st.lists(st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=8), max_size=8)


@given(groups, st.sampled_from([0, 1, 3]))
def test_clusters_are_the_components_of_all_links(links_by_meet, bits):
    """Each group knows some links; in the end every document has the best document and the size of its component."""
    tables = []
    for links in links_by_meet:
        links = [(one, other) for one, other in links if one != other]
        members = sorted({node for link in links for node in link})
        if not members:
            continue
        records = pa.table(
            {
                "part": pa.array([1] * len(members), pa.uint64()),
                "row": pa.array(members, pa.int64()),
                "rank": pa.array([rank(number) for number in members], RANK),
            }
        )
        ones = np.array([members.index(max(link)) for link in links])
        others = np.array([members.index(min(link)) for link in links])
        shares = np.full(len(links), 0.9, np.float32)
        tables.append(clusters.trees(records, len(members), ones, others, shares))
    for function in (clusters.roots, clusters.merge, clusters.resolve):
        tables = exchange(tables, lambda table, function=function: function(table, None), bits)
    answers = exchange(tables, lambda table: clusters.conclude(table, None)[0], bits)
    found = {row["row"]: row for table in answers for row in table.to_pylist()}
    component = {node: node for node in range(15)}
    for _ in range(15):
        for links in links_by_meet:
            for one, other in links:
                component[one] = component[other] = min(component[one], component[other])
    linked = {node for links in links_by_meet for one, other in links if one != other for node in (one, other)}
    assert set(found) == linked
    for node in linked:
        mates = [other for other in linked if component[other] == component[node]]
        assert found[node]["cluster"] == rank(min(mates))[-ID_BYTES:]
        assert found[node]["cluster_size"] == len(mates)
        assert (found[node]["drop"] is None) == (node == min(mates))
        assert (found[node]["chain"] == 0) == (node == min(mates))
        assert found[node]["chain"] < 2 * len(mates)
