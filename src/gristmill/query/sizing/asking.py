"""What a plan says about steps that ask a model."""

from gristmill.engine.plan.graph import asks
from gristmill.engine.schedule.asking import estimate_asking
from gristmill.engine.schedule.run import Run
from gristmill.hints import option
from gristmill.recipe.checks.columns import INGEST


def asking_lines(run: Run) -> list[str]:
    """A line for each step that would ask a model: requests, tokens and cost, before anything is sent."""
    lines = []
    for node in run.graph.nodes.values():
        if asks(node) and (run.states[node.id].missing or run.states[node.id].waiting):
            found = estimate_asking(run, node)
            chain = run.chains[node.sources[0]]
            before = [INGEST, *chain][chain.index(node.id)]
            unknown = "its cost is unknown until the steps before it have run. To estimate it, run them first"
            unknown += f" ({option('until', before)})"
            lines.append(f"{node.id}: {found or unknown}.")
    return lines
