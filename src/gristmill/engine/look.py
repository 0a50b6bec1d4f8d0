"""Looking at documents: rows of a recipe's layers with the verdicts that were given on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gristmill.engine.graph import CORPUS, INGEST
from gristmill.engine.mill import Mill
from gristmill.engine.run import Run
from gristmill.errors import UserError
from gristmill.recipe.mistakes import nearest
from gristmill.store.parquet import PartReader

COLUMNS = ("doc_id", "source", "locator", "url", "snapshot", "license", "content_type", "charset", "meta")


@dataclass(frozen=True)
class Row:
    """One document as it stands after a step."""

    fields: dict[str, Any]
    step: str | None
    """The first step that dropped it."""
    reason: str | None
    detail: str | None
    text: str | None
    columns: dict[str, Any]
    """What the step itself wrote."""


def find_step(mill: Mill, stage: str | None) -> str | None:
    """The step that a user means by a name, checked."""
    if stage is None or stage == INGEST:
        return stage
    known = sorted({name for node in mill.graph.nodes.values() for name in (node.id, node.name) if node.kind != "fit"})
    if stage not in known:
        near = nearest(stage, known)
        hint = f"Did you mean {near}? " if near else ""
        raise UserError(f"--stage {stage}: {mill.recipe.path} has no such step. {hint}Steps: {', '.join(known)}")
    return stage


def rows(
    mill: Mill, run: Run, stage: str | None, dropped: bool | None, reason: str | None, sources: Sequence[str] = ()
) -> Iterator[Row]:
    """Documents after a step, dropped by it or before it (`dropped`), living (False), or all (None)."""
    for source in mill.recipe.sources:
        if sources and source not in sources:
            continue
        chain = _chain(mill, source, stage)
        for document in run.documents.get(source, ()):
            layers = [(INGEST, document.part)]
            layers += [
                (node_id, run.made[node_id].layers[source, document.order][0])
                for node_id in chain
                if (source, document.order) in run.made[node_id].layers
            ]
            yield from _rows_of_part(mill, layers, dropped, reason)


def unfinished(mill: Mill, run: Run, stage: str | None) -> list[str]:
    """Steps up to `stage` that have not run to their end."""
    wanted = {f"{source}/{INGEST}" for source in mill.recipe.sources}
    for source in mill.recipe.sources:
        wanted.update(_chain(mill, source, stage))
    return [node_id for node_id in mill.graph.nodes if node_id in wanted and _is_open(run, node_id)]


def _is_open(run: Run, node_id: str) -> bool:
    return bool(run.made[node_id].missing or run.made[node_id].waiting)


def _chain(mill: Mill, source: str, stage: str | None) -> list[str]:
    nodes = [mill.graph.nodes[node_id] for node_id in mill.graph.chains[source]]
    layers = [node for node in nodes if node.kind != "fit" and node.name != CORPUS]
    if stage is None or stage == CORPUS:
        return [node.id for node in layers]
    if stage == INGEST:
        return []
    last = [index for index, node in enumerate(layers) if stage in (node.id, node.name)]
    return [node.id for node in layers[: last[-1] + 1]] if last else []


def _rows_of_part(
    mill: Mill, layers: Sequence[tuple[str, Any]], dropped: bool | None, reason: str | None
) -> Iterator[Row]:
    readers = [PartReader(mill.store, part) for _, part in layers]
    for group in range(len(readers[0].groups)):
        verdicts = [reader.read_group(group, ["drop", "detail"]) for reader in readers]
        drops = [table.column("drop").to_pylist() for table in verdicts]
        wanted = []
        for row in range(len(drops[0])):
            first = next((layer for layer, drop in enumerate(drops) if drop[row] is not None), None)
            if dropped is not None and (first is not None) != dropped:
                continue
            if reason is not None and (first is None or drops[first][row] != reason):
                continue
            wanted.append((row, first))
        if not wanted:
            continue
        documents = readers[0].read_group(group, [*COLUMNS, "html", "text"])
        texts = _newest_text(readers, group, documents)
        last = readers[-1].read_group(group, readers[-1].file.schema_arrow.names) if len(readers) > 1 else None
        for row, first in wanted:
            fields = {name: documents.column(name)[row].as_py() for name in COLUMNS}
            own = {} if last is None else {name: last.column(name)[row].as_py() for name in last.schema.names}
            yield Row(
                fields,
                None if first is None else layers[first][0],
                None if first is None else drops[first][row],
                None if first is None else verdicts[first].column("detail")[row].as_py(),
                texts(row),
                {name: value for name, value in own.items() if name not in ("text", "drop", "detail")},
            )


def _newest_text(readers: Sequence[PartReader], group: int, documents: Any) -> Any:
    """The text of a row as the last layer that has one left it; for a dropped page what there was before."""
    columns = [
        reader.read_group(group, ["text"]).column("text")
        for reader in reversed(readers[1:])
        if "text" in reader.file.schema_arrow.names
    ]
    columns += [documents.column("text"), documents.column("html")]

    def text(row: int) -> str | None:
        found: str | None = next((value for column in columns if (value := column[row].as_py()) is not None), None)
        return found

    return text
