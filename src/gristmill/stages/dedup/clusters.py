"""Joins links that were found in separate groups into clusters; one worker sees only the links between trees.

A stage that compares documents in many groups sends, for each linked document of a group, a member record: the
document, the best document of its tree in that group (its root), and the path to it. A document may be in several
groups. These rounds join the trees:

    roots    by document: keeps its best root, and links its other roots to that one
    merge    all links between roots, in one place: one link per pair of trees that share a document
    resolve  by root: sends its members the root that it was merged into
    conclude by cluster: counts the members, and drops all but the root

Documents are identified by their ranks, which sort in keep order and end with the doc_id. The root of a cluster is
therefore its best member, independent of the order of the input.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.kernels.dedup.buckets import SIZES, mixed
from gristmill.kernels.dedup.links import forest
from gristmill.stages.buffers import changes, fixed_bytes
from gristmill.stages.shared.keep_order import ID_BYTES, RANK, RANK_BYTES

Array = np.ndarray[Any, Any]

SCHEMA = pa.schema(
    [
        ("cluster", pa.binary(ID_BYTES)),
        ("cluster_size", pa.int32()),
        ("linked_to", pa.list_(pa.binary(ID_BYTES))),
        ("similarity", pa.list_(pa.float32())),
        ("chain", pa.int32()),
        ("drop", pa.string()),
        ("detail", pa.string()),
    ]
)
"""cluster: doc_id of the keeper. linked_to, similarity: the similar documents and their similarities, the first on the
path to the keeper. chain: the number of links on that path. Null for documents without a near duplicate. The links of
all members together connect the cluster."""


def best_first(records: pa.Table) -> tuple[pa.Table, Array]:
    """The records sorted by key, the best of each key first; and the start of each key, and the end."""
    key = records.column("key").to_numpy()
    order = np.lexsort((order_of(values_of(records, "rank")), key))
    changes = np.flatnonzero(np.diff(key[order], prepend=~key[order[:1]]))
    return records.take(pa.array(order)), np.append(changes, len(order))


def trees(records: pa.Table, number: int, ones: Array, others: Array, shares: Array) -> pa.Table:
    """Member records, for `roots`, of the trees that the links form.

    `records` have part, row and rank. Those that may be linked are sorted best first.
    """
    root, steps, edge = forest(ones, others, np.ones(len(ones), np.int64), number)
    member = np.flatnonzero(np.bincount(root, minlength=number)[root] > 1)
    linked = np.arange(number)
    # A root has no path, but it needs a link in case it is merged into another root: that of its first child.
    children = np.flatnonzero(steps == 1)
    parent, at = np.unique(root[children], return_index=True)
    edge[parent] = edge[children[at]]
    away = np.flatnonzero(edge >= 0)
    linked[away] = ones[edge[away]] + others[edge[away]] - away
    similarity = np.ones(number, np.float32)
    similarity[away] = shares[edge[away]]
    rank = _matrix(records, "rank")
    part, row = (records.column(name).to_numpy()[member] for name in ("part", "row"))
    found = _members(part, row, rank[member], rank[root[member]], steps[member])
    found = _with(found, "linked_to", _column(rank[linked[member]][:, -ID_BYTES:], pa.binary(ID_BYTES)))
    return _with(found, "similarity", pa.array(similarity[member]))


def roots(records: pa.Table, config: object) -> pa.Table:
    """By document: keep the best root and the shortest path to it; link the other roots to it, for `merge`."""
    node, root, linked = (values_of(records, name) for name in ("node", "root", "linked_to"))
    chain = records.column("chain").to_numpy()
    order = np.lexsort((order_of(linked), chain, order_of(root), order_of(node)))
    fresh = changes(node[order])
    best = order[np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))]
    kept = records.take(pa.array(order[fresh]))
    kept = _with(kept, "key", pa.array(_hashes(_matrix(kept, "root"))))
    kept = _with_links(kept, records, order, fresh, linked)
    other = np.flatnonzero(root[order] != root[best])
    one, its_best = order[other], best[other]
    links = _members(
        np.zeros(len(one), np.uint64),
        np.zeros(len(one), np.int64),
        _matrix(records, "root")[one],
        _matrix(records, "root")[its_best],
        chain[one] + chain[its_best],
    )
    links = _with(links, "key", pa.array(np.zeros(len(one), np.uint64)))
    return pa.concat_tables([kept, _as_merged(links)])


def _with_links(kept: pa.Table, records: pa.Table, order: Array, fresh: Array, linked: Array) -> pa.Table:
    """Collect the links of each document from all groups, without duplicates."""
    document = np.cumsum(fresh) - 1
    once = np.lexsort((np.arange(len(order)), order_of(linked[order]), document))
    at = np.sort(once[changes(document[once], linked[order][once])])
    offsets = np.append(np.searchsorted(document[at], np.arange(kept.num_rows)), len(at)).astype(np.int32)
    for name in ("linked_to", "similarity"):
        values = records.column(name).combine_chunks().take(pa.array(order[at]))
        kept = _with(kept, name, pa.ListArray.from_arrays(pa.array(offsets), values))
    return kept


def merge(records: pa.Table, config: object) -> pa.Table:
    """Merge roots that are linked: send each root the best root of its tree. Member records pass through."""
    is_link = records.column("is_merged").to_numpy()
    members_only = records.filter(pa.array(~is_link))
    links = records.filter(pa.array(is_link))
    if not links.num_rows:
        return members_only
    node, root = values_of(links, "node"), values_of(links, "root")
    names, numbers = np.unique(np.concatenate([node, root]), return_inverse=True)
    ones, others = numbers[: len(node)], numbers[len(node) :]
    lengths = links.column("chain").to_numpy().astype(np.int64)
    order = np.lexsort((others, ones, lengths))
    parents, steps, _ = forest(ones[order], others[order], lengths[order], len(names))
    moved = np.flatnonzero(parents != np.arange(len(names)))
    matrix = np.ascontiguousarray(names).view(np.uint8).reshape(len(names), RANK_BYTES)
    merged = _members(
        np.zeros(len(moved), np.uint64),
        np.zeros(len(moved), np.int64),
        matrix[moved],
        matrix[parents[moved]],
        steps[moved],
    )
    return pa.concat_tables([members_only, _as_merged(merged)])


def resolve(records: pa.Table, config: object, others: pa.Table | None = None) -> pa.Table:
    """By root: if it was merged into another, its members get that one. `others`: the `merged_roots` elsewhere."""
    is_merged = records.column("is_merged").to_numpy()
    members_only = records.filter(pa.array(~is_merged))
    merged = records.filter(pa.array(is_merged))
    merged = merged if others is None else pa.concat_tables([merged, others])
    if merged.num_rows and members_only.num_rows:
        node, root = values_of(merged, "node"), values_of(members_only, "root")
        order = np.argsort(order_of(node))
        place = np.minimum(np.searchsorted(node[order], root), len(order) - 1)
        there = order[place]
        hit = node[there] == root
        new_root = np.where(hit[:, None], _matrix(merged, "root")[there], _matrix(members_only, "root"))
        steps = np.where(hit, merged.column("chain").to_numpy()[there], 0)
        members_only = _with(members_only, "root", _column(new_root, RANK))
        chain = (members_only.column("chain").to_numpy() + steps).astype(np.int32)
        members_only = _with(members_only, "chain", pa.array(chain))
    return _with(members_only, "key", pa.array(_hashes(_matrix(members_only, "root"))))


def merged_roots(records: pa.Table, config: object) -> pa.Table:
    """The roots that were merged into others: the summary for `resolve`."""
    return records.filter(records.column("is_merged"))


def sizes_of_clusters(records: pa.Table, config: object) -> pa.Table:
    """The number of members of each cluster: the summary for `conclude`."""
    return records.group_by("root", use_threads=False).aggregate([([], "count_all")])


def conclude(records: pa.Table, others: pa.Table | None) -> tuple[pa.Table, dict[str, Any]]:
    """By cluster: its size, and a verdict on all members but the keeper; also count clusters.

    `others`: the `sizes_of_clusters` elsewhere.
    """
    node, root = values_of(records, "node"), values_of(records, "root")
    apart = np.zeros(0, root.dtype) if others is None else values_of(others, "root")
    _, cluster = np.unique(np.concatenate([root, apart]), return_inverse=True)
    more = [] if others is None else others.column("count_all").to_numpy()
    size = np.bincount(cluster, np.concatenate([np.ones(len(root)), more])).astype(np.int64)
    cluster = cluster[: len(root)]
    is_root = node == root
    chain = records.column("chain").to_numpy()
    lost = ~is_root
    keeper = np.ascontiguousarray(_matrix(records, "root")[:, -ID_BYTES:])
    linked, similarity = (records.column(name).combine_chunks() for name in ("linked_to", "similarity"))
    detail = [
        _detail(keeper[at].tobytes(), linked[at][0].as_py(), similarity[at][0].as_py(), chain[at]) if lost[at] else None
        for at in range(len(node))
    ]
    answers = pa.table(
        {
            "part": records.column("part"),
            "row": records.column("row"),
            "cluster": _column(keeper, SCHEMA.field("cluster").type),
            "cluster_size": pa.array(size[cluster].astype(np.int32)),
            "linked_to": linked,
            "similarity": similarity,
            "chain": pa.array(chain),
            "drop": pc.if_else(pa.array(lost), "near_duplicate", pa.scalar(None, pa.string())),
            "detail": pa.array(detail, pa.string()),
        }
    )
    counts: dict[str, Any] = {
        "clusters": int(is_root.sum()),
        "clusters_by_size": size_histogram(size[cluster[is_root]]),
    }
    lengths, times = np.unique(chain[lost], return_counts=True)
    counts["chains"] = {str(length): int(number) for length, number in zip(lengths, times, strict=True)}
    return answers, counts


def _members(part: Array, row: Array, node: Array, root: Array, chain: Array) -> pa.Table:
    """Member records without links; `node` and `root` are matrices of ranks."""
    return pa.table(
        {
            "key": pa.array(_hashes(node)),
            "part": pa.array(part, pa.uint64()),
            "row": pa.array(row, pa.int64()),
            "is_merged": pa.array(np.zeros(len(part), np.bool_)),
            "node": _column(node, RANK),
            "root": _column(root, RANK),
            "linked_to": pa.nulls(len(part), SCHEMA.field("linked_to").type),
            "similarity": pa.nulls(len(part), SCHEMA.field("similarity").type),
            "chain": pa.array(chain.astype(np.int32)),
        }
    )


def _as_merged(records: pa.Table) -> pa.Table:
    """Mark records as links of roots instead of documents."""
    return _with(records, "is_merged", pa.array(np.ones(records.num_rows, np.bool_)))


def size_histogram(sizes: Array) -> dict[str, int]:
    """How many clusters have 2, 3-4, 5-8, … documents."""
    power = np.ceil(np.log2(np.maximum(sizes, 2))).astype(np.int64)
    counted = np.bincount(power, minlength=SIZES)
    return {size_class(power): int(count) for power, count in enumerate(counted) if count}


def size_class(power: int) -> str:
    """The name of a size class in metrics: 2, 3-4, 5-8, …"""
    low, high = (1 << (power - 1)) + 1, 1 << power
    return str(high) if low == high else f"{low}-{high}"


def _detail(keeper: bytes, linked: bytes, similarity: float, chain: int) -> str:
    link = "" if linked == keeper else f" to {linked.hex()}, {chain} links away"
    return f"of {keeper.hex()}, Jaccard {similarity:.3f}{link}"


def _matrix(records: pa.Table, name: str) -> Array:
    column = records.column(name).combine_chunks()
    return fixed_bytes(column.chunk(0) if isinstance(column, pa.ChunkedArray) else column)


def values_of(records: pa.Table, name: str) -> Array:
    """Ranks or ids as single values that numpy compares by their bytes."""
    matrix = np.ascontiguousarray(_matrix(records, name))
    return matrix.view(np.dtype((np.void, matrix.shape[1]))).ravel()


def order_of(values: Array) -> Array:
    """Integers that sort like the values."""
    return np.unique(values, return_inverse=True)[1]


def _hashes(matrix: Array) -> Array:
    """The exchange keys of documents. A doc_id is already a hash, so its bits only need mixing."""
    ids = np.ascontiguousarray(matrix[:, -ID_BYTES:]).view(np.uint64).reshape(-1, 2)
    return mixed(ids[:, 0] ^ ids[:, 1])


def _column(matrix: Array, kind: pa.DataType) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(matrix))
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(matrix), [None, data])


def _with(records: pa.Table, name: str, column: object) -> pa.Table:
    return records.set_column(records.schema.get_field_index(name), name, column)
