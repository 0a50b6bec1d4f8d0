"""What if near_dedup had a higher threshold? Answered from the pairs in the store.

For each cluster, the store has pairs of documents that reached the threshold, with their similarity; these pairs
connect the cluster. Without the pairs below a higher threshold the cluster splits into groups, and each group keeps its
best document. Not every pair of a cluster is stored, and missing pairs may still connect two groups. So the answer is
exact for clusters of two documents, and an upper bound otherwise.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import Node
from gristmill.engine.schedule.corpus_view import DocumentPart
from gristmill.engine.schedule.run import Run
from gristmill.errors import UserError
from gristmill.hints import hint
from gristmill.kernels.dedup.links import forest
from gristmill.query.removal.changes import Change
from gristmill.recipe.checks.columns import INGEST
from gristmill.store.parquet import join, open_parts

THRESHOLD = "verify_jaccard"
OWN = ("cluster", "linked_to", "similarity", "cluster_size", "drop")


class Parted(NamedTuple):
    """The documents that a higher threshold would add."""

    documents: int
    text_bytes: int
    """The sum of the longest text of each group."""
    places: list[tuple[DocumentPart, int]]
    """Part and row of some of these documents."""
    is_bound: bool
    """Whether it may be fewer, because missing pairs may connect groups."""


def check(mill: Mill, change: Change) -> None:
    """Raise UserError for a change that the stored pairs cannot answer."""
    now, then = (getattr(config, THRESHOLD) for config in (change.node.config, change.config))
    if [*change.fields] != [THRESHOLD] or then < now:
        path = mill.recipe.path
        raise UserError(
            f"For {change.node.id}, only a higher {THRESHOLD} can be evaluated. The store only has the pairs that "
            f"reached {THRESHOLD} {now} with its current settings, so the effect of any other change is unknown "
            f"until it runs. Change it in {path} and try it on a sample: "
            f"{hint('run_sample', recipe=path, sample='10%')}"
        )


def parted(mill: Mill, run: Run, change: Change, sizes: dict[str, str], most_places: int) -> Parted:
    """The documents that would be added. `sizes` has, per source, the layer with the size of the step's input text."""
    node = change.node
    documents = [document for source in node.sources for document in run.documents[source]]
    members = pa.concat_tables(
        _members(mill, run, node, document, sizes[document.source], at) for at, document in enumerate(documents)
    )
    # Keepers first, so that a keeper is always the first document of its group.
    members = members.take(pc.sort_indices(members, [("is_dropped", "ascending")])).combine_chunks()
    number = members.num_rows
    links, similarity = (members.column(name).combine_chunks() for name in ("linked_to", "similarity"))
    others = pc.index_in(links.flatten(), value_set=members.column("doc_id").combine_chunks())
    stays = similarity.flatten().to_numpy() >= np.float32(getattr(change.config, THRESHOLD))
    stays &= others.is_valid().to_numpy(zero_copy_only=False)
    ones = pc.list_parent_indices(links).to_numpy()[stays].astype(np.int64)
    root, _, _ = forest(ones, others.fill_null(0).to_numpy()[stays].astype(np.int64), np.ones_like(ones), number)
    longest = np.zeros(number, np.int64)
    np.maximum.at(longest, root, members.column("size").fill_null(0).to_numpy())
    new = np.flatnonzero((root == np.arange(number)) & members.column("is_dropped").to_numpy())
    some = members.take(pa.array(new[:most_places]))
    places = zip(some.column("document").to_pylist(), some.column("row").to_pylist(), strict=True)
    is_bound = bool((members.column("cluster_size").to_numpy()[new] > 2).any())
    return Parted(len(new), int(longest[new].sum()), [(documents[at], row) for at, row in places], is_bound)


def _members(mill: Mill, run: Run, node: Node, document: DocumentPart, size_layer: str, number: int) -> pa.Table:
    """The documents of a part that belong to a cluster, with their pairs."""
    layers = [run.layer(layer, document) for layer in (INGEST, node.id, size_layer)]
    columns = ((0, "doc_id", "doc_id"), *((1, name, name) for name in OWN), (2, "text_bytes", "size"))
    found, first = [], 0
    for batch in join(open_parts(mill.store, layers), columns):
        is_member = batch.column("cluster").is_valid()
        rows = np.flatnonzero(is_member.to_numpy(zero_copy_only=False)) + first
        table = pa.Table.from_batches([batch]).filter(is_member)
        table = table.append_column("is_dropped", [table.column("drop").is_valid().combine_chunks()])
        table = table.append_column("row", pa.array(rows, pa.int64()))
        found.append(table.append_column("document", pa.array(np.full(len(rows), number, np.int64))))
        first += batch.num_rows
    return pa.concat_tables(found)
