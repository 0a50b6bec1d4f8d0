"""gristmill plan --cluster: the time and cost of a corpus of a given size on given machines."""

import re
from dataclasses import asdict
from typing import Any

from gristmill.cli.run.mix_table import short
from gristmill.cli.shared.options import parsed, print_json
from gristmill.cli.shared.screen import passage, words
from gristmill.cli.shared.show import console, size, table
from gristmill.counted import counted, percent
from gristmill.engine.mill import Mill
from gristmill.errors import UserError
from gristmill.objects import requests
from gristmill.query.sizing.disk import free_bytes
from gristmill.query.sizing.limits import Prices, bill, busy_share, duration, faults, sample_fault
from gristmill.query.sizing.measured import MeasuredRun, last_measured
from gristmill.query.sizing.sizing import Machines, Sizing, size_up
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


def plan_cluster(mill: Mill, cluster: Machines, tokens: str | None, prices: Prices, json: bool) -> None:
    """Show the time and cost of the recipe; without a number of tokens, for all of its inputs."""
    wanted = None if tokens is None else _number("--tokens", tokens, parse_count)
    measured = last_measured(mill)
    found = size_up(measured, wanted or measured.tokens / measured.share, cluster)
    warnings = list(faults(found, cluster, free_bytes(mill.store), sum(measured.tasks.values())))
    if measured.changed:
        warnings.append(
            f"{', '.join(measured.changed[:3])}{' and others' if measured.changed[3:] else ''} had other settings in "
            "the measured run than in the recipe now. Run a sample again to measure them."
        )
    if json:
        print_json(_plain(measured, found, cluster, prices, warnings))
    else:
        _show(measured, found, cluster, prices, warnings)


def _plain(
    measured: MeasuredRun, found: Sizing, cluster: Machines, prices: Prices, warnings: list[str]
) -> dict[str, Any]:
    def ends(values: tuple[float, float, float], unit: float) -> dict[str, float]:
        return dict(zip(("low", "middle", "high"), (round(value / unit, 6) for value in values), strict=True))

    return {
        "measured": {
            "run": measured.name,
            "ended": measured.ended,
            "tokens": round(measured.tokens),
            "tokens_by": measured.tokens_by,
            "tasks": sum(measured.tasks.values()),
        },
        "tokens": round(found.growth * measured.tokens),
        "growth": round(found.growth, 6),
        "cluster": {"nodes": cluster.nodes, "cores": cluster.cores, "node_memory_bytes": cluster.memory_bytes},
        "tasks": found.tasks,
        "cpu_hours": ends(found.cpu_s, 3600),
        "wall_hours": ends(found.wall_s, 3600),
        "busy_share": round(busy_share(found, cluster), 4),
        "worker_memory_bytes": round(found.memory_bytes),
        "coordinator_memory_bytes": round(found.coordinator_bytes),
        "stored_bytes": round(found.stored_bytes),
        "requests": {"gets": round(found.gets), "puts": round(found.puts), "counted": found.requests_counted},
        "usd": {name: round(value, 2) for name, value in asdict(bill(found, cluster, prices)).items()},
        "prices": asdict(prices),
        "steps": [
            {
                "step": line.step,
                "verb": line.verb,
                "tasks": line.tasks,
                "cpu_hours": round(line.cpu_s / 3600, 6),
                "longest_s": round(line.longest_s, 3),
                "memory_bytes": round(line.memory_bytes),
                "phase": line.phase,
            }
            for line in found.lines
        ],
        "faults": warnings,
    }


def _show(measured: MeasuredRun, found: Sizing, cluster: Machines, prices: Prices, warnings: list[str]) -> None:
    out = console()
    if fault := sample_fault(found, sum(measured.tasks.values())):  # it decides how to read all that follows
        out.print(words(f"WARNING: {fault}"))
        out.print()
    out.print(_steps(found))
    cost, low_high = bill(found, cluster, prices), (found.cpu_s, found.wall_s)
    cpu, wall = (tuple(duration(value) for value in values) for values in low_high)
    holds, kept = f"coordinator {size(found.coordinator_bytes)}", f"{cost.store_month:,.0f}"
    by = "counted by the measured run" if found.requests_counted else "estimated from the tasks of each kind"
    rows = [
        ("CPU time", f"{cpu[1]}, {cpu[0]} to {cpu[2]}"),
        ("wall time", f"{wall[1]}, {wall[0]} to {wall[2]}; workers busy {percent(busy_share(found, cluster), 1)}"),
        (
            "memory",
            f"{size(found.memory_bytes)} per worker, {size(cluster.cores * found.memory_bytes)} a node; {holds}",
        ),
        ("store", size(found.stored_bytes)),
        ("requests", f"{short(found.gets)} reads, {short(found.puts)} writes ({by})"),
        (
            "cost",
            f"${cost.compute:,.0f} for machines, ${cost.requests:,.0f} for requests, ${kept} per month for storage",
        ),
    ]
    title = f"{short(found.growth * measured.tokens)} tokens on {cluster.nodes:,} x {cluster.cores}"
    summary = table(("", title), rows)
    summary.columns[-1].justify = "left"
    out.print()
    out.print(summary)
    out.print(
        passage(
            f"\nBased on {measured.name}, run of {measured.ended}: {short(measured.tokens)} tokens "
            f"({measured.tokens_by}) in {counted(sum(measured.tasks.values()), 'task')}; this is {found.growth:,.4g} "
            "times that. Ranges only cover the sample: other machines, duplicates that a sample does not contain, and "
            "lost machines are not included (docs/sizing.md). "
            f"Prices: ${prices.core_hour:g} per core hour, ${1e6 * requests.usd_of({'gets': 1}):g} and "
            f"${1e6 * requests.usd_of({'puts': 1}):g} per million reads and writes, ${prices.tb_month:g} per TB and "
            "month."
        )
    )
    for one in (one for one in warnings if one != fault):
        out.print()
        out.print(words(f"WARNING: {one}"))


def _steps(found: Sizing) -> Any:
    """One line per step, over all its kinds of tasks."""
    rows = []
    for step in dict.fromkeys(line.step for line in found.lines):
        some = [line for line in found.lines if line.step == step]
        seconds = sum(line.cpu_s for line in some)
        rows.append(
            (
                step,
                f"{sum(line.tasks for line in some):,}",
                duration(seconds),
                f"{seconds / max(found.cpu_s[1], 1e-9):.1%}",
                f"{max(line.longest_s for line in some):,.1f} s",
                size(max(line.memory_bytes for line in some)),
            )
        )
    return table(("stage", "tasks", "CPU time", "share", "longest task", "memory"), rows, spare=("memory", "share"))
