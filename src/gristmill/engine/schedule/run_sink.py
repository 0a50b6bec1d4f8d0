"""Schedules a sink: count, send every part's records, build every set of files, write the catalogue."""

from collections.abc import Mapping, Sequence
from typing import Any

from gristmill.engine.plan.graph import Node
from gristmill.engine.schedule.corpus_view import DocumentPart
from gristmill.engine.schedule.run_context import RunContext
from gristmill.engine.schedule.shuffle import FEW_MORE, Route, Sent, by_destination
from gristmill.engine.work.borders import check_layout
from gristmill.engine.work.task import Build, Gather, Layout, Result, Scatter, Task, add_counts, layer_hashes
from gristmill.errors import CannotBeMet, UserError
from gristmill.stages.contract import Sink
from gristmill.stages.declarations import stage_of
from gristmill.store.segments import SegmentList, SegmentTable
from gristmill.store.store import Part

SinkEntry = Mapping[str, Any]
Built = tuple[SinkEntry, Result]


async def write_files(run: RunContext, node: Node) -> tuple[Task, Result] | None:
    """The catalogue of the files that a sink writes; None if a dry run stops before it."""
    models = run.models(node)
    counts: dict[str, Any] = {}
    for node_id in dict.fromkeys(node.counts.values()):
        add_counts(counts, run.states[node_id].metrics)
    stage = stage_of(node.module, Sink)
    try:
        layout = check_layout(stage.layout(counts, node.config), node.module)
    except CannotBeMet as fault:
        raise UserError(f"{node.where}: {fault}") from None
    run.listener.expect(node, len(run.all_documents(node)) + 1)
    by_source = [await _of_source(run, node, source, layout.get(source, ()), models) for source in node.sources]
    run.listener.settled(node)
    built = [one for of_source in by_source for one in of_source or ()]
    if None in by_source:
        run.states[node.id].waiting += 1
        return None
    outputs = tuple((entry, tuple(result.parts), result.metrics) for entry, result in built)
    documents = tuple(document.rows_hash for document in run.all_documents(node)) if stage.carries_rows else ()
    work = Gather(node.module, node.config, outputs, models, documents)
    inputs = {
        "verb": "gather",
        "outputs": [[entry, [part.hash for part in parts]] for entry, parts, _ in outputs],
        "models": {name: part.hash for name, part in models.items()},
        **({"documents": documents} if documents else {}),
    }
    task, result = await run.tasks.obtain(node, work, inputs, "catalogue", (2,))
    return None if result is None else (task, result)


async def _of_source(
    run: RunContext, node: Node, source: str, entries: Sequence[SinkEntry], models: Mapping[str, Part]
) -> list[Built] | None:
    """The sets of files of one source."""
    documents = run.documents[source]
    layout = Layout.of(entries)
    bits = max(len(entries) - 1, 0).bit_length()
    route = Route.to_each("key", len(documents), len(entries), bits, keeps=False)
    sent = Sent()
    scattered = await run.each(_scatter(run, document, node, layout, route, sent) for document in documents)
    if not all(scattered):
        return None

    async def build(table: SegmentTable) -> list[Built] | None:
        numbers = table.destinations()
        run.listener.expect(node, len(numbers))
        works = (_build(run, node, entries[to], table.to(to), models) for to in numbers)
        builds = await run.each(works, at_once=run.slots + FEW_MORE)
        built = [(entries[to], result) for to, result in zip(numbers, builds, strict=True) if result is not None]
        return built if len(built) == len(builds) else None

    found = await by_destination(run, node, source, sent.files(), route, len(entries), build)
    return None if found is None else [one for built in found for one in built]


async def _scatter(run: RunContext, part: DocumentPart, node: Node, layout: Layout, route: Route, sent: Sent) -> bool:
    layers, view = run.view(part, node), node.views[part.source]
    work = Scatter(node.module, node.config, layers, view.columns, view.gates, layout, route.coarse, route.merges)
    inputs = {
        "verb": "emit",
        "layers": layer_hashes(layers, view.columns),
        "columns": view.columns,
        "gates": view.gates,
        "layout": layout.hash,
        "route": [route.coarse, route.merges],
    }
    _, result = await run.tasks.obtain(node, work, inputs, f"{part.label} emit", (0, *part.order))
    if result is not None:
        sent.add(part.order, result.segment_files)
    return result is not None


async def _build(
    run: RunContext, node: Node, entry: SinkEntry, segments: SegmentList, models: Mapping[str, Part]
) -> Result | None:
    work = Build(node.module, node.config, entry, segments, models)
    inputs = {
        "verb": "build",
        "entry": entry,
        "segments": segments.hashes,
        "models": {name: part.hash for name, part in models.items()},
    }
    label = " ".join(str(value) for value in entry.values())
    _, result = await run.tasks.obtain(node, work, inputs, label, (1,))
    return result
