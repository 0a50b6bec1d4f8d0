"""Predict the mixture in a plan: if its shards are in the store, it can be computed without a run."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gristmill.engine.schedule.run import Run
from gristmill.errors import CannotBeMet
from gristmill.recipe.sections.mix import MIX
from gristmill.stages.mix import mix
from gristmill.store.store import CorruptPart, Part


@dataclass(frozen=True)
class Foreseen:
    """What the run will report about the mixture."""

    fault: str | None = None
    """Why the mixture is impossible; the run would end with this error."""
    warnings: Sequence[str] = ()


def foresee_mixture(run: Run) -> Foreseen:
    """Predict the mixture of a dry run; empty if the mixture exists, or if its input does not exist yet."""
    node = next((node for node in run.graph.nodes.values() if node.name == MIX), None)
    if node is None or not run.states[node.id].missing:
        return Foreseen()
    try:
        models = {name: run.store.local_path(_model(run, maker)) for name, maker in node.models.items()}
    except CorruptPart:  # the run makes it again, perhaps with other bytes
        return Foreseen()
    assert isinstance(node.config, mix.Config)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = mix.make(node.config, Path(folder) / "manifest.json", models)
        except CannotBeMet as fault:
            return Foreseen(f"{node.where}: {fault}")
    return Foreseen(warnings=[f"{node.id}: {message}" for message in mix.warnings(found, node.config)])


def _model(run: Run, node_id: str) -> Part:
    state = run.states[node_id]
    return state.foreseen or state.layers["", (0, 0)][0]
