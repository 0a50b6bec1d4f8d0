"""Removes the documents that takedown requests name, and their copies, so that none of them reaches the shards.

It drops every document that a request names, every near copy of such a document in any source (the Jaccard similarity
of their shingles is at least `near`), and every document that contains a text of a request (at least the share `near`
of its shingles). Documents are compared as they were read and as the last step left them, since steps may have cut
copies differently. A thread goes if one of its posts is named, a generated document if its parent is named, or if the
text that was sent is such a copy. The step runs after all other steps and the tokenizer: when the keeper of a cluster
is removed, its copies stay dropped, no other document replaces it, and no other document changes. The comparison is
exact and uses no sketch.

With `copies: list`, near copies stay and are marked in the columns, so that a person can decide. Copies of a named
document of only a few words always stay, since unrelated documents also say "Thanks!" or "403 Forbidden".
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.counted import counted
from gristmill.kernels.dedup.most_alike import Postings, most_alike
from gristmill.kernels.dedup.sketch import ratio_of
from gristmill.kernels.hash.radix import sort_order
from gristmill.stages.contract import Map, ReportMark, StageConfig
from gristmill.stages.matches import first_and_last, shingles_of
from gristmill.stages.shared.s_curve import Similarity
from gristmill.stages.takedown.takedown_sets import FEWEST
from gristmill.warned import Warnings

READS = ("*.text", "takedown_match.request", "takedown_match.named_by", "doc_id")
REASON = "taken_down"
SCHEMA = pa.schema(
    [
        ("request", pa.string()),
        ("copy_of", pa.binary(16)),
        ("similarity", pa.float32()),
        ("text_number", pa.int32()),
        ("drop", pa.string()),
        ("detail", pa.string()),
    ]
)
"""request: the id of the request that removes the document; copy_of: the named document, if this is a copy of it;
text_number: the number, over all requests and from 0, of the text that the document contains."""

_TABLE = 1 << 22
_MASK = np.uint64(_TABLE - 1)
MOST = 128
"""A shingle in more named sets is common (`kernels/dedup/most_alike.py`)."""
COMPARED = 16
"""The number of named sets that a document with common shingles is compared with."""
CUT = f"compared with {COMPARED} of the named documents that share its passages"
Array = np.ndarray[Any, Any]


class Choices(StageConfig):
    """The settings of a recipe."""

    near: Similarity = 0.8
    """The least Jaccard similarity of a copy to a named document, and the least share of a text of a request that a
    document contains."""
    copies: Literal["go", "list", "keep"] = "go"
    """What happens to copies of a named document. go: they are also taken down; list: they stay and are listed; keep:
    they are not searched for."""


class Config(Choices):
    texts: Annotated[tuple[str, ...], ReportMark()] = ()
    """The names of the texts of the requests in warnings; set by the recipe's loader."""


class Sets(NamedTuple):
    """An inverted index of the shingles of named documents and texts."""

    requests: Sequence[str]
    doc_ids: Sequence[bytes | None]
    sizes: Array
    postings: Postings
    """The `ranks` are rows of `requests`, `doc_ids` and `sizes`."""


class Copy(NamedTuple):
    """A document that is a copy of a named document or contains a text of a request."""

    row: int
    owner: int
    """The number of the matching set."""
    shared: int
    size: int
    """The number of shingles of the document."""

    def similarity(self, sets: Sets) -> float:
        """The Jaccard similarity, or the share of a text of a request that the document contains."""
        its_size = int(sets.sizes[self.owner])
        if sets.doc_ids[self.owner] is None and its_size >= FEWEST:
            return self.shared / its_size
        return self.shared / (self.size + its_size - self.shared)


@lru_cache(maxsize=2)
def open_sets(path: Path) -> Sets:
    """Open the model of `takedown_sets`."""
    return make_sets(pq.read_table(path))


def make_sets(table: pa.Table) -> Sets:
    """Build the index from the rows of `takedown_sets`."""
    lists = table.column("shingles").combine_chunks()
    sizes = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = lists.flatten().to_numpy(zero_copy_only=False).astype(np.uint64)
    ids: Sequence[bytes | None] = table.column("doc_id").to_pylist()
    is_inside = table.column("doc_id").combine_chunks().is_null().to_numpy(zero_copy_only=False) & (sizes >= FEWEST)
    ranks = np.lexsort((sizes, ~is_inside))
    numbers = np.empty(len(ranks), np.int32)
    numbers[ranks] = np.arange(len(ranks), dtype=np.int32)
    owners = np.repeat(numbers, sizes)
    order = sort_order(values, owners.astype(np.uint64))
    marks = np.zeros(_TABLE, np.bool_)
    marks[values & _MASK] = True
    postings = Postings(sizes[ranks], ranks, int(is_inside.sum()), values[order], owners[order], marks)
    return Sets(table.column("request").to_pylist(), ids, sizes, postings)


def nearest(ends: Array, values: Array, sets: Sets, near: float) -> tuple[Array, Array, Array]:
    """For each list of shingles, the number of the nearest set (-1: none is near), how many they share, and whether it
    was not compared with all.
    """
    return most_alike(ends, values, sets.postings, *ratio_of(near), MOST, COMPARED)


def copies_of(texts: pa.Array, sets: Sets, near: float) -> tuple[list[Copy], list[int]]:
    """The most similar set of each row, if it is similar enough, the first of equal ones; and the rows without one that
    were not compared with all sets.
    """
    ends, values = shingles_of(texts)
    best, shared, cut = nearest(ends, values, sets, near)
    copies = [
        Copy(row, int(sets.postings.ranks[best[row]]), int(shared[row]), int(ends[row + 1] - ends[row]))
        for row in np.flatnonzero(best >= 0).tolist()
    ]
    return copies, np.flatnonzero(cut).tolist()


def apply(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path]) -> pa.RecordBatch:
    """Drop the named documents and their copies."""
    sets = open_sets(models["takedown_sets"])
    request: list[str | None] = batch.column("takedown_match.request").to_pylist()
    kinds: list[str | None] = batch.column("takedown_match.named_by").to_pylist()
    rows = batch.num_rows
    copy_of: list[bytes | None] = [None] * rows
    similarity: list[float | None] = [None] * rows
    numbers: list[int | None] = [None] * rows
    documents = sum(one is not None for one in sets.doc_ids)
    drop = [None if one is None else REASON for one in request]
    detail = [None if one is None else f"{one}: named by {kind}" for one, kind in zip(request, kinds, strict=True)]
    for row, doc_id in enumerate(batch.column("doc_id").to_pylist()):
        if request[row] is None and (of := _named(models["takedown_sets"]).get(doc_id)) is not None:
            request[row], drop[row], detail[row] = of, REASON, f"{of}: names a post of this thread"
    for row, parent, of in _children(batch, models["takedown_sets"]):
        if request[row] is None:
            request[row], drop[row], detail[row] = of, REASON, f"{of}: generated from {parent.hex()}"
    others = np.flatnonzero([one is None for one in request])
    for row, found in _copies(batch, others, sets, config.near, detail):
        named = sets.doc_ids[found.owner]
        share = found.similarity(sets)
        request[row], copy_of[row], similarity[row] = sets.requests[found.owner], named, share
        if named is None:
            drop[row], detail[row] = REASON, f"{request[row]}: {100 * share:.1f}% of a text of it"
            numbers[row] = found.owner - documents  # the texts are the last sets
        elif config.copies == "go" and sets.sizes[found.owner] >= FEWEST:
            drop[row], detail[row] = REASON, f"{request[row]}: copy of {named.hex()}, Jaccard {share:.3f}"
    columns = [
        pa.array(request, pa.string()),
        pa.array(copy_of, pa.binary(16)),
        pa.array(similarity, pa.float32()),
        pa.array(numbers, pa.int32()),
        pa.array(drop, pa.string()),
        pa.array(detail, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@lru_cache(maxsize=2)
def _named(path: Path) -> dict[bytes, str]:
    """The ids of named documents and of the threads that they are in, with the first request that names each."""
    sets = open_sets(path)
    pairs = zip(reversed(sets.doc_ids), reversed(sets.requests), strict=True)
    return {doc_id: request for doc_id, request in pairs if doc_id is not None}


def _children(batch: pa.RecordBatch, sets: Path) -> Iterator[tuple[int, bytes, str]]:
    """The rows of generated documents whose parent is named, with the parent and the request."""
    if "parent" in batch.schema.names:
        named = _named(sets)
        for row, parent in enumerate(batch.column("parent").to_pylist()):
            if parent in named:
                yield row, parent, named[parent]


def _copies(
    batch: pa.RecordBatch, rows: Array, sets: Sets, near: float, detail: list[str | None]
) -> Iterator[tuple[int, Copy]]:
    """The set that each row's last text, or else its first, is similar to; of a generated document, before these, the
    text that it was generated from. `detail` marks rows compared in part.
    """
    first, last = first_and_last(batch)
    sent = batch.column("parent_text") if "parent_text" in batch.schema.names else None
    for texts in (last, first) if sent is None else (sent, last, first):
        copies, cut = copies_of(texts.take(pa.array(rows)), sets, near)
        for at in cut:
            detail[rows[at]] = CUT
        yield from ((int(rows[found.row]), found) for found in copies)
        rows = np.setdiff1d(rows, rows[[found.row for found in copies]])
        if texts is last:
            changed = pc.fill_null(pc.not_equal(first, last), False).to_numpy(zero_copy_only=False)
            rows = rows[changed[rows]]


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count the documents that each request removed, the listed copies, and the documents compared in part."""
    counts: dict[str, int] = {}
    listed = 0
    cut = pc.sum(pc.equal(answers.column("detail"), CUT)).as_py() or 0
    for request, drop in zip(answers.column("request").to_pylist(), answers.column("drop").to_pylist(), strict=True):
        if drop is not None:
            counts[request] = counts.get(request, 0) + 1
        elif request is not None:
            listed += 1
    texts = dict(Counter(str(number) for number in answers.column("text_number").drop_null().to_pylist()))
    return {"requests": counts, "copies_listed": listed, "compared_in_part": cut, "texts": texts}


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    warned = Warnings()
    idle = [label for number, label in enumerate(config.texts) if str(number) not in found.get("texts", {})]
    if idle:
        warned.add(
            "no_effect",
            f"{counted(len(idle), 'text of a request removes', 'texts of requests remove')} no document: "
            f"{', '.join(idle[:5])}{' and more' if len(idle) > 5 else ''}. See their matches: gristmill takedown check",
        )
    if found.get("copies_listed"):
        warned.add(
            "copies_stay",
            f"{counted(found['copies_listed'], 'near copy', 'near copies')} of documents that were taken down stay in "
            "the corpus (copies: list, or only a few words). Review them: gristmill takedown receipt RECIPE lists them",
        )
    if found.get("compared_in_part"):
        warned.add(
            "compared_in_part", f'{in_part(found["compared_in_part"])}. Their detail in the step takedown is "{CUT}"'
        )
    return warned


def in_part(documents: int) -> str:
    """A message about documents that were not compared with all named documents."""
    return (
        f"{counted(documents, 'document consists', 'documents consist')} mostly of passages that more than {MOST} "
        f"taken-down documents share (boilerplate?). Each was compared only with the {COMPARED} most likely ones and "
        "is not a copy of any of them"
    )


STAGE = Map(
    version=7,
    config=Config,
    libraries=("unicode",),
    reads=READS,
    may_read=("parent", "parent_text"),
    only_kept=True,
    uses=("takedown_sets",),
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    warnings=warnings,
)
