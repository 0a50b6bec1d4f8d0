"""The SQL views of a corpus, each defined by a query over columns of its documents (`sql_columns.py`)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.engine.plan.graph import CORPUS, NodeFacts
from gristmill.engine.publish.folder import find_manifest, read_model
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.loader.order import Order
from gristmill.query.documents.columns import NAMED, hexadecimal, layers_of
from gristmill.query.documents.derived import birth_columns
from gristmill.query.documents.sql_columns import SourceColumns, StoreFaults
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.sections.mix import MIX
from gristmill.recipe.sections.shards import SHARDS
from gristmill.shardformat.manifest import read_manifest
from gristmill.store.parquet import PartReader
from gristmill.store.store import Part

SCHEDULE_SAMPLES = 1 << 16
"""Samples per batch."""
LINEAGE = "lineage.parquet"


class Views:
    """The views by name; each is built on first use."""

    def __init__(self, view: CorpusView, faults: StoreFaults, register: Callable[[str, Any], object]) -> None:
        self._view, self._faults, self._register = view, faults, register
        self._made: dict[str, Callable[[], str]] = {"documents": self._documents, "verdicts": self._verdicts}
        if clustered := [node for node in self._nodes() if "cluster" in node.columns]:
            self._made["clusters"] = lambda: self._clusters(clustered)
        if read_model(view, SHARDS) is not None:
            self._made["samples"] = self._samples
        if read_model(view, MIX) is not None:
            self._made["schedule"] = self._schedule
        taken = {name.lower() for name in self._made}
        named = {INGEST: [*view.chains]}
        for node in self._nodes():
            for name in (node.name, node.id):
                named[name] = list(dict.fromkeys((*named.get(name, ()), *node.sources)))
        for name, sources in named.items():
            if name.lower() not in taken:
                taken.add(name.lower())
                self._made[name] = lambda name=name, sources=sources: self._step(name, sources)  # type: ignore[misc]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def query(self, name: str) -> str:
        """The query that defines the view."""
        return self._made[name]()

    def _nodes(self) -> list[NodeFacts]:
        """Steps with layers, without the reader and the final verdicts."""
        return [node for node in self._view.nodes.values() if node.has_layers and node.name not in (INGEST, CORPUS)]

    def _read(self, name: str, columns: Callable[[str], Mapping[str, str]], sources: Sequence[str]) -> str:
        """The query for columns of some sources, by the names in the view."""
        found = []
        for source in sources:
            if self._view.documents.get(source):
                table = f"_{name}/{source}"
                self._register(table, SourceColumns(self._view, self._faults, source, columns(source)))
                found.append(f"select * from {quoted(table)}")
        return " union all by name ".join(found)

    def _documents(self) -> str:
        names = {name: name for name in (*NAMED, *birth_columns(self._view))}
        return self._read("documents", lambda _: names, [*self._view.chains])

    def _verdicts(self) -> str:
        made = []
        for source in self._view.chains:
            for step, columns in layers_of(self._view, source).items():
                if step != f"{source}/{CORPUS}" and "drop" in columns:
                    names = {"doc_id": "doc_id", "source": "source", "reason": f"{step}.drop"}
                    names["detail"] = f"{step}.detail"
                    read = self._read(f"verdicts-{step}", lambda _, names=names: names, [source])  # type: ignore[misc]
                    made.append(f"select *, {literal(step)} as step from ({read}) where reason is not null")
        return " union all ".join(made)

    def _clusters(self, nodes: Sequence[NodeFacts]) -> str:
        columns = ", ".join(("doc_id", "source", "cluster", "cluster_size", "linked_to", "similarity", "chain"))
        made = [
            f'select {columns}, {literal(node.id)} as step, "drop" is not null as dropped '
            f"from ({self._step(node.id, node.sources)}) where cluster is not null"
            for node in nodes
        ]
        return " union all ".join(made)

    def _step(self, name: str, sources: Sequence[str]) -> str:
        """The columns of a step, or of all steps with one name; if a source has several, the last non-null values."""

        def columns(source: str) -> dict[str, str]:
            found = {"doc_id": "doc_id", "source": "source"}
            for layer, written in layers_of(self._view, source).items():
                if name in (layer, INGEST if layer == INGEST else self._view.nodes[layer].name):
                    found.update((column, f"{name}.{column}") for column in written if column not in found)
            return found

        return self._read(f"step-{name}", columns, sources)

    def _samples(self) -> str:
        """Pieces of documents in the samples of shards, with the training samples that show them."""
        catalogue = read_model(self._view, SHARDS)
        assert catalogue is not None
        self._register("_samples", _Samples(self._view, [*catalogue["outputs"]]))
        if "schedule" not in self._made:
            return "select * from _samples"
        self._schedule()
        times = "select list(seen_at order by seen_at) from _schedule a"
        same = 'a."group" = s."group" and a.shard = s.shard and a.sample = s.sample'
        return f"select s.*, ({times} where {same}) as seen_at from _samples s"

    def _schedule(self) -> str:
        """The shard and the row of every global sample."""
        self._register("_schedule", _Schedule(Order(read_manifest(find_manifest(self._view)))))
        return "select * from _schedule"


class _RereadStream:
    """Batches that are generated again for every query."""

    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)


class _Schedule(_RereadStream):
    schema = pa.schema(
        [
            *(("seen_at", pa.int64()), ("phase", pa.string()), ("epoch", pa.int64())),
            *(("group", pa.string()), ("shard", pa.int64()), ("sample", pa.int64())),
        ]
    )

    def __init__(self, order: Order) -> None:
        self._order = order

    def batches(self) -> Iterator[pa.RecordBatch]:
        manifest = self._order.manifest
        phases, groups = (np.array([one.name for one in some]) for some in (manifest.phases, manifest.groups))
        for first in range(0, self._order.samples, SCHEDULE_SAMPLES):
            offsets = np.arange(min(SCHEDULE_SAMPLES, self._order.samples - first))
            found = self._order.places(first, offsets)
            columns = (first + offsets, phases[found.phase], found.epoch, groups[found.group], found.shard, found.row)
            yield pa.record_batch([pa.array(column) for column in columns], schema=self.schema)


class _Samples(_RereadStream):
    _plain = ("sample", "offset", "length", "doc_offset", "locator", "source")

    def __init__(self, view: CorpusView, outputs: Sequence[Mapping[str, Any]]) -> None:
        self._view, self._outputs = view, outputs
        self.schema = next(iter(self.batches())).schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        for output in self._outputs:
            entry = output["entry"]
            reader = PartReader(self._view.store, Part(**output["files"][LINEAGE]))
            for batch in reader.read((*self._plain, "doc_id")).combine_chunks().to_batches():
                columns = {name: batch.column(name) for name in self._plain}
                columns["doc_id"] = hexadecimal(batch.column("doc_id"))
                columns["group"] = pa.repeat(pa.scalar(entry["group"]), batch.num_rows)
                columns["shard"] = pa.repeat(pa.scalar(entry["shard"], pa.int64()), batch.num_rows)
                yield pa.RecordBatch.from_pydict(columns)


def quoted(name: str) -> str:
    """A quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
