"""gristmill plan --cluster: the time and space that a corpus of a given size needs on given machines."""

import re
from dataclasses import asdict
from typing import Any

from gristmill.cli.run.mix_table import short
from gristmill.cli.shared.options import parsed, print_json
from gristmill.cli.shared.screen import passage, words
from gristmill.cli.shared.show import console, size, table
from gristmill.counted import counted
from gristmill.engine.mill import Mill
from gristmill.errors import UserError
from gristmill.query.sizing.disk import free_bytes
from gristmill.query.sizing.limits import duration, faults
from gristmill.query.sizing.sizing import FACTOR, Machines, MeasuredRun, Sizing, last_measured, size_up
from gristmill.stages.config_types import parse_bytes, parse_count

MOST_NODES, MOST_CORES = 1_000_000, 4096


def parse_cluster(text: str, node_memory: str | None) -> Machines:
    """`1000x16`: nodes, and cores per node."""
    found = re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text.strip().lower())
    if found is None or not (0 < int(found[1]) <= MOST_NODES and 0 < int(found[2]) <= MOST_CORES):
        raise UserError(
            f"--cluster {text} does not give nodes and cores, so nothing was planned. Write NODESxCORES, "
            "such as 1000x16."
        )
    memory = None if node_memory is None else _number("--node-memory", node_memory, parse_bytes)
    return Machines(int(found[1]), int(found[2]), memory)


def _number(option: str, text: str, parse: Any) -> float:
    found = parsed(option, text, parse, "nothing can be planned")
    if not found > 0:
        raise UserError(f"{option} {text} is not above 0, so nothing can be planned. Give a larger number.")
    return float(found)


def plan_cluster(mill: Mill, cluster: Machines, tokens: str | None, json: bool) -> None:
    """Show the time and space for the recipe; without a number of tokens, for all of its inputs."""
    wanted = None if tokens is None else _number("--tokens", tokens, parse_count)
    measured = last_measured(mill)
    found = size_up(measured, wanted or measured.tokens / measured.share, cluster)
    warnings = list(faults(found, cluster, free_bytes(mill.store), measured))
    if json:
        print_json(_plain(measured, found, cluster, warnings))
    else:
        _show(measured, found, cluster, warnings)


def _plain(measured: MeasuredRun, found: Sizing, cluster: Machines, warnings: list[str]) -> dict[str, Any]:
    return {
        "measured": {
            "run": measured.name,
            "ended": measured.ended,
            "tokens": round(measured.tokens),
            "tokens_by": measured.tokens_by,
            "tasks": measured.tasks,
        },
        "tokens": round(found.growth * measured.tokens),
        "growth": round(found.growth, 6),
        "factor": FACTOR,
        "cluster": {"nodes": cluster.nodes, "cores": cluster.cores, "node_memory_bytes": cluster.memory_bytes},
        "tasks": found.tasks,
        "cpu_hours": round(found.cpu_s / 3600, 6),
        "wall_hours": round(found.wall_s / 3600, 6),
        "worker_memory_bytes": round(found.memory_bytes),
        "coordinator_memory_bytes": round(found.coordinator_bytes),
        "stored_bytes": round(found.stored_bytes),
        "steps": [asdict(step) for step in found.steps],
        "faults": warnings,
    }


def _show(measured: MeasuredRun, found: Sizing, cluster: Machines, warnings: list[str]) -> None:
    out = console()
    for warning in warnings:
        out.print(words(f"WARNING: {warning}"))
        out.print()
    rows = [
        (
            step.name,
            f"{step.tasks:,}",
            duration(step.cpu_s),
            f"{step.cpu_s / max(found.cpu_s, 1e-9):.1%}",
            f"{step.longest_s:,.1f} s",
            size(step.memory_bytes),
        )
        for step in found.steps
    ]
    out.print(table(("stage", "tasks", "CPU time", "share", "longest task", "memory"), rows, spare=("memory", "share")))
    memory = f"{size(found.memory_bytes)} per worker, {size(cluster.cores * found.memory_bytes)} a node"
    summary = [
        ("CPU time", _range(found.cpu_s)),
        ("wall time", _range(found.wall_s)),
        ("memory", f"{memory}; coordinator {size(found.coordinator_bytes)}"),
        ("store", size(found.stored_bytes)),
    ]
    totals = table(
        ("", f"{short(found.growth * measured.tokens)} tokens on {cluster.nodes:,} x {cluster.cores}"), summary
    )
    totals.columns[-1].justify = "left"
    out.print()
    out.print(totals)
    out.print(
        passage(
            f"\nBased on {measured.name}, run of {measured.ended}: {short(measured.tokens)} tokens "
            f"({measured.tokens_by}) in {counted(measured.tasks, 'task')}; this is {found.growth:,.4g} times that. "
            f"Ranges are the estimate divided and multiplied by {FACTOR:g} (docs/sizing.md)."
        )
    )


def _range(seconds: float) -> str:
    return f"{duration(seconds)}, {duration(seconds / FACTOR)} to {duration(seconds * FACTOR)}"
