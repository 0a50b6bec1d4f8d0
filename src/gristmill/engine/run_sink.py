"""The order of work in a sink: count, send every part's records, build every set of files, name them all."""

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gristmill.engine.borders import check_layout
from gristmill.engine.graph import Node
from gristmill.engine.task import Build, Gather, Result, Scatter, add_counts, digest
from gristmill.store.segments import Segment
from gristmill.store.store import Part

if TYPE_CHECKING:
    from gristmill.engine.run import Run
    from gristmill.engine.seen import Document


async def write_files(run: "Run", node: Node) -> Part | None:
    """The catalogue of the files that a sink writes."""
    documents, models = await run.all_documents(node), await run.models(node)
    counted = [await run.layer(document, node.counts[document.source]) for document in documents or ()]
    if documents is None or models is None or any(part is None for part in counted):
        run.made[node.id].waiting += 1
        return None
    counts: dict[str, Any] = {}
    for node_id in dict.fromkeys(node.counts.values()):
        add_counts(counts, run.made[node_id].metrics)
    layout = check_layout(importlib.import_module(node.module).layout(counts, node.config), node.module)
    run.listener.expect(node, len(documents) + 1)
    scatters = [run.group.create_task(_scatter(run, document, node, layout)) for document in documents]
    sent = [await scatter for scatter in scatters]
    builds = []
    for source in node.sources:
        results = [result for document, result in zip(documents, sent, strict=True) if document.source == source]
        if any(result is None for result in results):
            continue
        by_entry = by_destination([result for result in results if result is not None])
        run.listener.expect(node, len(by_entry))
        for number, segments in sorted(by_entry.items(), key=lambda item: int(item[0])):
            entry = layout[source][int(number)]
            builds.append((entry, run.group.create_task(_build(run, node, entry, segments, models))))
    run.listener.settled(node)
    built = [(entry, await build) for entry, build in builds]
    if any(result is None for result in (*sent, *(result for _, result in built))):
        run.made[node.id].waiting += 1
        return None
    outputs = tuple((entry, tuple(result.parts), result.metrics) for entry, result in built if result is not None)
    work = Gather(node.module, node.config, outputs, models)
    inputs = {
        "verb": "gather",
        "outputs": [[entry, [part.hash for part in parts]] for entry, parts, _ in outputs],
        "models": {name: part.hash for name, part in models.items()},
    }
    task, result = await run.tasks.obtain(node, work, inputs, "catalogue", (2,))
    return run.keep_model(node, task, result)


async def _scatter(run: "Run", document: "Document", node: Node, layout: Mapping[str, Sequence[Any]]) -> Result | None:
    layers = await run.view(document, node)
    if layers is None:
        return None
    view, entries = node.views[document.source], tuple(layout.get(document.source, ()))
    work = Scatter(node.module, node.config, layers, view.columns, view.gates, entries)
    inputs = {
        "verb": "emit",
        "layers": [part.hash for part in layers],
        "columns": view.columns,
        "gates": view.gates,
        "layout": digest(entries),
    }
    _, result = await run.tasks.obtain(node, work, inputs, f"{document.label} emit", (0, *document.order))
    return result


async def _build(
    run: "Run", node: Node, entry: Mapping[str, Any], segments: list[Segment], models: Mapping[str, Part]
) -> Result | None:
    work = Build(node.module, node.config, entry, tuple(segments), models)
    inputs = {
        "verb": "build",
        "entry": entry,
        "segments": [segment.hash for segment in segments],
        "models": {name: part.hash for name, part in models.items()},
    }
    label = " ".join(str(value) for value in entry.values())
    _, result = await run.tasks.obtain(node, work, inputs, label, (1,))
    return result


def by_destination(results: Sequence[Result]) -> dict[str, list[Segment]]:
    gathered: dict[str, list[Segment]] = {}
    for result in results:
        for destination, segment in result.segments.items():
            gathered.setdefault(destination, []).append(segment)
    return gathered
