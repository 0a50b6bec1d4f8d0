"""What a mixture will be, told by a plan: once its shards are in the store, nothing has to run to know it."""

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
    """What the run will say of the mixture."""

    fault: str | None = None
    """Why it cannot be; the run would end with it."""
    warnings: Sequence[str] = ()


def foresee_mixture(run: Run) -> Foreseen:
    """For a dry run. Nothing, where the mixture is made already or something that it reads is not there yet."""
    node = next((node for node in run.graph.nodes.values() if node.name == MIX), None)
    if node is None or not run.states[node.id].missing:
        return Foreseen()
    try:
        models = {name: run.store.local_path(_model(run, made_by)) for name, made_by in node.models.items()}
    except CorruptPart:  # the run makes it again, with other bytes perhaps
        return Foreseen()
    assert isinstance(node.config, mix.Config)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = mix.make(node.config, Path(folder) / "manifest.json", models)
        except CannotBeMet as fault:
            return Foreseen(f"{node.where}: {fault}")
    return Foreseen(warnings=[f"{node.id}: {message}" for message in mix.warnings(found, node.config)])


def _model(run: Run, node_id: str) -> Part:
    made = run.states[node_id]
    return made.foreseen or made.layers["", (0, 0)][0]
