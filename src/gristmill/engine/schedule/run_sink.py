"""The order of work in a sink: count, send every part's records, build every set of files, name them all."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gristmill.engine.plan.graph import Node
from gristmill.engine.schedule.tables import SegmentTable
from gristmill.engine.work.borders import check_layout
from gristmill.engine.work.task import Build, Gather, Result, Scatter, Task, add_counts, digest
from gristmill.store.segments import SegmentList
from gristmill.store.store import Part

if TYPE_CHECKING:
    from gristmill.engine.schedule.run import Run
    from gristmill.engine.schedule.seen import Document


async def write_files(run: "Run", node: Node) -> tuple[Task, Result] | None:
    """The catalogue of the files that a sink writes; None where a dry run stops before it."""
    models = run.models(node)
    counts: dict[str, Any] = {}
    for node_id in dict.fromkeys(node.counts.values()):
        add_counts(counts, run.made[node_id].metrics)
    layout = check_layout(importlib.import_module(node.module).layout(counts, node.config), node.module)
    run.listener.expect(node, len(run.all_documents(node)) + 1)
    built = []
    is_whole = True
    for source in node.sources:
        entries = tuple(layout.get(source, ()))
        sent = SegmentTable()
        entries_hash = digest(entries)
        scattered = await run.each(
            _scatter(run, document, node, entries, entries_hash, sent) for document in run.documents[source]
        )
        if not all(scattered):
            is_whole = False
            continue
        sent.gather()
        numbers = sent.destinations()
        run.listener.expect(node, len(numbers))
        builds = await run.each((_build(run, node, entries[to], sent.to(to), models) for to in numbers), large=True)
        built += list(zip((entries[to] for to in numbers), builds, strict=True))
    run.listener.settled(node)
    outputs = tuple((entry, tuple(result.parts), result.metrics) for entry, result in built if result is not None)
    if not is_whole or len(outputs) < len(built):
        run.made[node.id].waiting += 1
        return None
    work = Gather(node.module, node.config, outputs, models)
    inputs = {
        "verb": "gather",
        "outputs": [[entry, [part.hash for part in parts]] for entry, parts, _ in outputs],
        "models": {name: part.hash for name, part in models.items()},
    }
    task, result = await run.tasks.obtain(node, work, inputs, "catalogue", (2,))
    return None if result is None else (task, result)


async def _scatter(
    run: "Run", document: "Document", node: Node, entries: tuple[Any, ...], entries_hash: str, sent: SegmentTable
) -> bool:
    layers, view = run.view(document, node), node.views[document.source]
    work = Scatter(node.module, node.config, layers, view.columns, view.gates, entries)
    inputs = {
        "verb": "emit",
        "layers": [part.hash for part in layers],
        "columns": view.columns,
        "gates": view.gates,
        "layout": entries_hash,
    }
    _, result = await run.tasks.obtain(node, work, inputs, f"{document.label} emit", (0, *document.order))
    if result is not None:
        sent.add(document.order, result.parts[0], result.segments)
    return result is not None


async def _build(
    run: "Run", node: Node, entry: Mapping[str, Any], segments: SegmentList, models: Mapping[str, Part]
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
