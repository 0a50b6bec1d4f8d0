"""The SQL views of a corpus, each defined by a query over joined layers (`joined_layers.py`)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.engine.plan.graph import CORPUS, NodeFacts
from gristmill.engine.publish.folder import find_manifest, read_model
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.loader.order import Order
from gristmill.query.documents.columns import WRITTEN, layers_of, origin_of, plain_type
from gristmill.query.documents.documents import COLUMNS, LANGUAGE
from gristmill.query.documents.joined_layers import PART, ROW, JoinedLayers, LayerColumns, StoreFaults
from gristmill.query.takedown import withheld
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.sections.mix import MIX
from gristmill.recipe.sections.shards import SHARDS
from gristmill.shardformat.manifest import read_manifest
from gristmill.stages import NO_DOCUMENT
from gristmill.stages.derived import BIRTH
from gristmill.store.parquet import PartReader
from gristmill.store.store import Part

SCHEDULE_SAMPLES = 1 << 16
"""Samples per batch."""
LINEAGE = "lineage.parquet"
Place = tuple[str, str]
"""A column: (step, name)."""


class Views:
    """The views by name; each is built on first use."""

    def __init__(self, view: CorpusView, faults: StoreFaults, register: Callable[[str, Any], object]) -> None:
        self._view, self._faults, self._register = view, faults, register
        self._types: dict[tuple[str, str], pa.Schema] = {}
        self._made: dict[str, Callable[[], str]] = {
            "documents": self._documents,
            "verdicts": self._verdicts,
            "tasks": self._tasks,
        }
        clustered = [node for node in self._nodes() if "cluster" in node.columns]
        if clustered:
            self._made["clusters"] = lambda: self._clusters(clustered)
        if read_model(view, SHARDS) is not None:
            self._made["samples"] = self._samples
        if read_model(view, MIX) is not None:
            self._made["schedule"] = self._schedule
        by_name: dict[str, list[NodeFacts]] = {INGEST: [view.nodes[f"{source}/{INGEST}"] for source in view.chains]}
        for node in self._nodes():
            by_name.setdefault(node.name, []).append(node)
        named = {node.id: [node] for nodes in by_name.values() for node in nodes} | by_name
        taken = {name.lower() for name in self._made}
        for name, nodes in named.items():
            if name.lower() not in taken:
                taken.add(name.lower())
                self._made[name] = lambda nodes=nodes: self._step(nodes)  # type: ignore[misc]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def named(self, name: str) -> str | None:
        """The view with a name, ignoring case; None if there is none."""
        return next((one for one in self._made if one.lower() == name.lower()), None)

    def query(self, name: str) -> str:
        """The query that defines the view."""
        return self._made[name]()

    def _nodes(self) -> list[NodeFacts]:
        """Steps with layers, without the reader and the final verdicts."""
        return [node for node in self._view.nodes.values() if node.has_layers and node.name not in (INGEST, CORPUS)]

    def _sources(self, sources: Iterable[str] | None = None) -> list[str]:
        wanted = self._view.chains if sources is None else sources
        return [source for source in wanted if self._view.documents.get(source)]

    def _documents(self) -> str:
        return " union all by name ".join(self._documents_of(source) for source in self._sources())

    def _documents_of(self, source: str) -> str:
        verdict = f"{source}/{CORPUS}"
        own = [name for name in BIRTH if name in self._view.nodes[f"{source}/{INGEST}"].columns]
        names = (*COLUMNS, *own, LANGUAGE, *WRITTEN)
        places = {name: origin_of(self._view, source, name, None).layers for name in names if name != "source"}
        wanted = [*(place for some in places.values() for place in some), (verdict, "step"), (verdict, "drop")]
        wanted += self._marks(source)
        columns = [literal(source) + " as source"]
        reason = quoted(f"{verdict}.drop")
        for name, some in places.items():
            values = [self._value(source, place) for place in some]
            if name in WRITTEN:
                before = ", ".join(f"nullif({one}, {'0' if name == 'text_bytes' else 'null'})" for one in values)
                value = f"case when {reason} is null then {values[0]} else coalesce({before}) end"
            else:
                value = f"coalesce({', '.join(values)})" if values else "null::varchar"
            columns.append(f"{self._shown(source, name, value)} as {quoted(name)}")
        columns += [f"{reason} is null as kept", f"{quoted(f'{verdict}.step')} as step", f"{reason} as reason"]
        never = ", ".join(map(literal, sorted(NO_DOCUMENT)))
        where = f"where {reason} is null or {reason} not in ({never})"
        return f"select {', '.join(columns)}, {PART}, {ROW} from {self._read('documents', source, wanted)} {where}"

    def _verdicts(self) -> str:
        made = []
        for source in self._sources():
            for step, columns in layers_of(self._view, source).items():
                if step != f"{source}/{CORPUS}" and "drop" in columns:
                    wanted = [(INGEST, "doc_id"), (step, "drop"), (step, "detail"), *self._marks(source)]
                    reason, detail = quoted(f"{step}.drop"), self._shown(source, "detail", quoted(f"{step}.detail"))
                    made.append(
                        f"select {self._value(source, wanted[0])} as doc_id, {literal(source)} as source, "
                        f"{literal(step)} as step, {reason} as reason, {detail} as detail "
                        f"from {self._read(f'verdicts-{step}', source, wanted)} where {reason} is not null"
                    )
        return " union all ".join(made)

    def _clusters(self, nodes: Sequence[NodeFacts]) -> str:
        columns = ", ".join(("doc_id", "source", "cluster", "cluster_size", "linked_to", "similarity", "chain"))
        made = [
            f'select {columns}, {literal(node.id)} as step, "drop" is not null as dropped '
            f"from ({self._step([node])}) where cluster is not null"
            for node in nodes
        ]
        return " union all ".join(made)

    def _step(self, nodes: Sequence[NodeFacts]) -> str:
        """The columns of a step, or of all steps with one name; if a source has several, the last non-null values."""
        made = []
        for source in self._sources(dict.fromkeys(source for node in nodes for source in node.sources)):
            mine = [node for node in reversed(nodes) if source in node.sources]
            places: dict[str, list[Place]] = {}
            for node in mine:
                for name in node.columns:
                    if name not in ("doc_id", "source"):
                        places.setdefault(name, []).append((INGEST if node.name == INGEST else node.id, name))
            wanted = [(INGEST, "doc_id"), *(place for some in places.values() for place in some), *self._marks(source)]
            values = []
            for name, some in places.items():
                said = [self._value(source, place) for place in some]
                value = said[0] if len(said) == 1 else f"coalesce({', '.join(said)})"
                values.append(f"{self._shown(source, name, value)} as {quoted(name)}")
            read = self._read(f"step-{'+'.join(node.id for node in mine)}", source, wanted)
            made.append(
                f"select {self._value(source, wanted[0])} as doc_id, {literal(source)} as source, "
                f"{', '.join(values)}, {PART}, {ROW} from {read}"
            )
        return " union all by name ".join(made)

    def _samples(self) -> str:
        """Pieces of documents in the samples of shards, with the training samples that show them."""
        catalogue = read_model(self._view, SHARDS)
        assert catalogue is not None
        outputs = [(one["entry"], Part(**one["files"][LINEAGE])) for one in catalogue["outputs"]]
        columns = ("sample", "offset", "length", "doc_id", "doc_offset", "locator", "source")
        lineage = self._join("lineage", len(outputs), lambda number: (("", outputs[number][1], columns),))
        groups = pa.table(
            {
                "number": pa.array(range(len(outputs)), pa.int64()),
                "group": [entry["group"] for entry, _ in outputs],
                "shard": pa.array([entry["shard"] for entry, _ in outputs], pa.int64()),
            }
        )
        self._register("_groups", groups)
        plain = [f"l.{quoted(f'.{name}')} as {quoted(name)}" for name in columns if name != "doc_id"]
        found = (
            f'select g."group", g.shard, {", ".join(plain)}, lower(hex(l.".doc_id")) as doc_id '
            f"from {lineage} l join _groups g on l.{PART} = g.number"
        )
        if "schedule" not in self._made:
            return found
        self._schedule()
        times = "select list(seen_at order by seen_at) from _schedule a"
        same = 'a."group" = s."group" and a.shard = s.shard and a.sample = s.sample'
        return f"select s.*, ({times} where {same}) as seen_at from ({found}) s"

    def _schedule(self) -> str:
        """The shard and the row of every global sample."""
        self._register("_schedule", _Schedule(Order(read_manifest(find_manifest(self._view)))))
        return "select * from _schedule"

    def _tasks(self) -> str:
        self._register("_tasks", _Tasks(self._view))
        return "select * from _tasks"

    def _marks(self, source: str) -> list[Place]:
        """The columns that say which documents are withheld."""
        return [(step, withheld.COLUMN) for step in withheld.withholding(self._view, source)]

    def _shown(self, source: str, name: str, value: str) -> str:
        """A value, or null for withheld documents, of which only the verdict is shown."""
        if name in (*withheld.SHOWN, withheld.COLUMN, "drop"):
            return value
        shown = [f"{quoted(f'{step}.{column}')} is null" for step, column in self._marks(source)]
        if hidden := withheld.hidden_ids(self._view):
            self._register("_hidden", pa.table({"id": pa.array([bytes.fromhex(one) for one in hidden], pa.binary())}))
            shown.append(f"{quoted(f'{INGEST}.{withheld.DOC_ID}')} not in (select id from _hidden)")
        return f"case when {' and '.join(shown)} then {value} end" if shown else value

    def _read(self, name: str, source: str, wanted: Sequence[Place]) -> str:
        """The rows of a source with columns of some steps: `"step.column"`."""
        by_step: dict[str, list[str]] = {}
        for step, column in dict.fromkeys(wanted):
            by_step.setdefault(step, []).append(column)
        view, documents = self._view, self._view.documents[source]

        def columns(number: int) -> LayerColumns:
            return tuple((step, view.layer(step, documents[number]), tuple(names)) for step, names in by_step.items())

        return self._join(f"{name}/{source}", len(documents), columns)

    def _join(self, name: str, count: int, columns: Callable[[int], LayerColumns]) -> str:
        """The name of a table with columns of `count` parts."""
        self._register(f"_{name}", JoinedLayers(self._view.store, self._faults, count, columns))
        return quoted(f"_{name}")

    def _value(self, source: str, place: Place) -> str:
        """A column of a joined file in its public type: ids are text."""
        step, name = place
        column = quoted(f"{step}.{name}")
        kind = self._schema(source, step).field(name).type
        if plain_type(kind) == kind or pa.types.is_dictionary(kind):
            return column
        return (
            f"lower(hex({column}))" if not pa.types.is_list(kind) else f"list_transform({column}, x -> lower(hex(x)))"
        )

    def _schema(self, source: str, step: str) -> pa.Schema:
        if (source, step) not in self._types:
            part = self._view.layer(step, self._view.documents[source][0])
            self._types[source, step] = PartReader(self._view.store, part).schema
        return self._types[source, step]


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


class _Tasks(_RereadStream):
    schema = pa.schema(
        [
            *(("step", pa.string()), ("task", pa.string()), ("key", pa.string()), ("rows", pa.int64())),
            *(("bytes_in", pa.int64()), ("bytes_out", pa.int64()), ("cpu_s", pa.float64()), ("wall_s", pa.float64())),
            *(("peak_rss_bytes", pa.int64()), ("parts", pa.list_(pa.string()))),
        ]
    )

    def __init__(self, view: CorpusView) -> None:
        self._view = view

    def batches(self) -> Iterator[pa.RecordBatch]:
        for node_id, made in self._view.states.items():
            rows = [self._row(node_id, key, label) for key, label in made.tasks.items()]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=self.schema)

    def _row(self, step: str, key: str, label: str) -> Mapping[str, Any]:
        record = self._view.store.read_json(f"tasks/{key}.json") or {"metrics": {}, "cost": {}, "parts": []}
        numbers = {name: record["metrics"].get(name) for name in ("rows", "bytes_in", "bytes_out")}
        cost = {name: record["cost"].get(name) for name in ("cpu_s", "wall_s", "peak_rss_bytes")}
        parts = [part["hash"] for part in record["parts"]]
        return {"step": step, "task": label, "key": key, **numbers, **cost, "parts": parts}


def quoted(name: str) -> str:
    """A quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
