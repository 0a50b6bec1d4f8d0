"""Stages with one task that makes a file: a fit from all documents, an asset from files."""

from typing import Any

from gristmill.engine.plan.graph import Node
from gristmill.engine.schedule.run_context import RunContext
from gristmill.engine.work.task import FitWork, Make, Result, Task, layer_hashes


async def fit_model(run: RunContext, node: Node) -> tuple[Task, Result] | None:
    """Fit a model once all documents have arrived; None if a dry run stops before it."""
    documents, models = run.all_documents(node), run.models(node)
    work = FitWork(
        node.module,
        node.config,
        tuple(run.view(document, node) for document in documents),
        tuple(node.views[document.source].columns for document in documents),
        tuple(node.views[document.source].gates for document in documents),
        models,
    )
    inputs = {
        "layers": [layer_hashes(*one) for one in zip(work.inputs, work.columns, strict=True)],
        "columns": work.columns,
        "gates": work.gates,
        "models": {name: part.hash for name, part in models.items()},
    }
    return await _obtain(run, node, work, inputs)


async def make_asset(run: RunContext, node: Node) -> tuple[Task, Result] | None:
    """Make a file from other files. Those that the config names are in the node's own part of the key."""
    models = run.models(node)
    inputs = {"models": {name: part.hash for name, part in models.items()}}
    return await _obtain(run, node, Make(node.module, node.config, models), inputs)


async def _obtain(
    run: RunContext, node: Node, work: FitWork | Make, inputs: dict[str, Any]
) -> tuple[Task, Result] | None:
    run.listener.expect(node, 1)
    run.listener.settled(node)
    task, result = await run.tasks.obtain(node, work, inputs, "model", (0,))
    return None if result is None else (task, result)
