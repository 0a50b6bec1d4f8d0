"""The largest clusters of near duplicates, with their members."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gristmill.engine.plan.graph import NodeFacts
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.query.documents.documents import Row, row_at
from gristmill.store.parquet import PartReader


@dataclass(frozen=True)
class ClusterRows:
    """A cluster of documents that a step considers the same."""

    id: bytes
    """The doc_id of the keeper."""
    size: int
    keeper: Row | None
    members: tuple[Row, ...]
    """Some of the other documents, the least similar first."""


MOST_CLUSTERS = 1 << 16
"""Clusters that are counted, about."""


def cluster_steps(view: CorpusView) -> list[NodeFacts]:
    """The steps that write clusters."""
    return view.named("near_dedup")


def count_joining(view: CorpusView, node: NodeFacts) -> tuple[int, int]:
    """Clusters with documents of several sources or snapshots, and all clusters. If there are many, some are counted,
    chosen by their ids.
    """
    every = max(1, -(-sum(view.states[node.id].metrics.get("clusters_by_size", {}).values()) // MOST_CLUSTERS))
    first: dict[bytes, tuple[str, str | None]] = {}
    joining = set()
    for document, table in _layers(view, node):
        rows = np.flatnonzero(pa.compute.greater(table.column("cluster_size"), 1).fill_null(False).to_numpy())
        clusters = table.column("cluster").take(pa.array(rows)).to_pylist()
        chosen = [n for n, one in enumerate(clusters) if int.from_bytes(one[:4]) % every == 0]
        if not chosen:
            continue
        snapshots = PartReader(view.store, document.part).read(["snapshot"])["snapshot"].take(pa.array(rows[chosen]))
        for n, snapshot in zip(chosen, snapshots.to_pylist(), strict=True):
            home = (document.source, snapshot)
            if first.setdefault(clusters[n], home) != home:
                joining.add(clusters[n])
    return len(joining), len(first)


def largest(view: CorpusView, node: NodeFacts, number: int, members: int) -> list[ClusterRows]:
    """The largest clusters in descending order, each with its keeper and a few members."""
    sizes: dict[bytes, int] = {}
    for _, table in _layers(view, node):
        found = table.filter(pa.compute.greater(table.column("cluster_size"), 1)).group_by("cluster")
        counted = found.aggregate([("cluster_size", "max")])
        sizes.update(zip(counted["cluster"].to_pylist(), counted["cluster_size_max"].to_pylist(), strict=True))
        if len(sizes) > 1_000_000:
            sizes = dict(sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[: 10 * number])
    chosen = dict(sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:number])
    keepers: dict[bytes, tuple[DocumentPart, int]] = {}
    others: dict[bytes, list[tuple[float, DocumentPart, int]]] = {name: [] for name in chosen}
    wanted = pa.array(list(chosen), pa.binary(16))
    for document, table in _layers(view, node):
        hit = np.flatnonzero(pa.compute.is_in(table.column("cluster"), wanted).to_numpy())
        for row in hit.tolist():
            name, similarity = table["cluster"][row].as_py(), min(table["similarity"][row].as_py())
            if table["drop"][row].as_py() is None:
                keepers[name] = (document, row)
            else:
                least = [*others[name], (similarity, document, row)]
                least.sort(key=lambda item: (item[0], item[1].order, item[2]))
                others[name] = least[:members]
    return [
        ClusterRows(
            name,
            size,
            row_at(view, *keepers[name], node.id) if name in keepers else None,
            tuple(row_at(view, document, row, node.id) for _, document, row in others[name]),
        )
        for name, size in chosen.items()
    ]


def _layers(view: CorpusView, node: NodeFacts) -> Iterator[tuple[DocumentPart, pa.Table]]:
    for source in node.sources:
        for document in view.documents.get(source, ()):
            if view.has_layer(node.id, document):
                reader = PartReader(view.store, view.layer(node.id, document))
                yield document, reader.read(["cluster", "cluster_size", "similarity", "drop"])
