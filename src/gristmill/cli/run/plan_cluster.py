"""gristmill plan --cluster: the time and space that a corpus of a given size needs on given machines."""

import re
from dataclasses import asdict

from gristmill.cli.run.mix_table import short
from gristmill.cli.shared.options import parsed, print_json
from gristmill.cli.shared.screen import passage, words
from gristmill.cli.shared.show import console, size, table
from gristmill.counted import counted, duration
from gristmill.engine.mill import Mill
from gristmill.errors import UserError
from gristmill.query.sizing.sizing import FACTOR, MeasuredRun, Sizing, last_measured, size_up, warnings
from gristmill.stages.config_types import parse_count

MOST_NODES, MOST_CORES = 1_000_000, 4096


def parse_cluster(text: str) -> int:
    """The workers of `1000x16`: nodes, and cores per node."""
    match = re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text.strip().lower())
    if match is None or not (0 < int(match[1]) <= MOST_NODES and 0 < int(match[2]) <= MOST_CORES):
        raise UserError(
            f"--cluster {text} does not give nodes and cores, so nothing was planned. Write NODESxCORES, "
            "such as 1000x16."
        )
    return int(match[1]) * int(match[2])


def plan_cluster(mill: Mill, cluster: str, tokens: str | None, json: bool) -> None:
    """Show the time and space for the recipe; without a number of tokens, for all of its inputs."""
    workers = parse_cluster(cluster)
    requested = None if tokens is None else parsed("--tokens", tokens, parse_count, "nothing can be planned")
    if requested == 0:
        raise UserError(f"--tokens {tokens} is not above 0, so nothing can be planned. Give a larger number.")
    measured = last_measured(mill)
    sizing = size_up(measured, requested or measured.tokens / measured.share, workers)
    if not json:
        _show(measured, sizing, cluster)
        return
    print_json(
        {
            "measured": {
                "run": measured.name,
                "ended": measured.ended,
                "tokens": round(measured.tokens),
                "tokens_by": measured.tokens_by,
                "tasks": measured.tasks,
            },
            "tokens": round(sizing.growth * measured.tokens),
            "growth": round(sizing.growth, 6),
            "factor": FACTOR,
            "workers": workers,
            "tasks": sizing.tasks,
            "cpu_hours": round(sizing.cpu_s / 3600, 6),
            "wall_hours": round(sizing.wall_s / 3600, 6),
            "worker_memory_bytes": round(sizing.memory_bytes),
            "stored_bytes": round(sizing.stored_bytes),
            "steps": [asdict(step) for step in sizing.steps],
            "warnings": list(warnings(measured)),
        }
    )


def _show(measured: MeasuredRun, sizing: Sizing, cluster: str) -> None:
    out = console()
    for warning in warnings(measured):
        out.print(words(f"WARNING: {warning}"))
        out.print()
    rows = [
        (
            step.name,
            f"{step.tasks:,}",
            duration(step.cpu_s),
            f"{step.cpu_s / max(sizing.cpu_s, 1e-9):.1%}",
            size(step.memory_bytes),
        )
        for step in sizing.steps
    ]
    out.print(table(("stage", "tasks", "CPU time", "share", "memory"), rows))
    summary = [
        ("CPU time", _range(sizing.cpu_s)),
        ("wall time", _range(sizing.wall_s)),
        ("memory", f"{size(sizing.memory_bytes)} per worker"),
        ("store", size(sizing.stored_bytes)),
    ]
    out.print()
    out.print(table(("", f"{short(sizing.growth * measured.tokens)} tokens on {cluster}"), summary, left=2))
    out.print(
        passage(
            f"\nBased on {measured.name}, run of {measured.ended}: {short(measured.tokens)} tokens "
            f"({measured.tokens_by}) in {counted(measured.tasks, 'task')}; this is {sizing.growth:,.4g} times that. "
            f"Ranges are the estimate divided and multiplied by {FACTOR:g} (docs/sizing.md)."
        )
    )


def _range(seconds: float) -> str:
    return f"{duration(seconds)}, {duration(seconds / FACTOR)} to {duration(seconds * FACTOR)}"
