"""gristmill status: the progress and cost of a recipe, during a run or after it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from gristmill.cli.look.funnel import show_unread_files
from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_view, print_json
from gristmill.cli.shared.screen import passage, say, words
from gristmill.cli.shared.show import console, size, table
from gristmill.counted import counted
from gristmill.engine.publish.run_record import end_of, last_finished, outcome, run_records
from gristmill.engine.schedule.node_state import NodeState
from gristmill.engine.schedule.pace import skewed
from gristmill.errors import UserError
from gristmill.objects import requests
from gristmill.query.removal.funnel import documents_by_step, unread_files

EXAMPLE = "Example: gristmill status recipes/demo.yaml"
COLUMNS = ("stage", "tasks", "documents", "dropped", "read", "stored", "MB/s", "CPU s", "peak memory")


def command(
    recipe: RecipeOrRun,
    text: Annotated[
        bool, typer.Option("--recipe", help="Print only the text of the recipe as of the last run.")
    ] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show what each stage has done, and what it cost.

    Shows tasks, documents, bytes read and stored, MB/s per worker, CPU seconds and peak memory. Documents are counted
    as in the funnel: those that reached the stage, and those that it was the first to drop. Bytes read are document
    content; stages that only read columns of other stages show a dash. A stage is reported as skewed if one task took
    many times as long as most tasks of its kind.
    """
    view = open_view(recipe, store)
    last = view.record or next(run_records(view.store, view.name), None)
    if text:
        if last is None:
            raise UserError(f"{recipe} has not been run with {view.store.uri}, so no run has its text. Read the file.")
        say(last["recipe_text"].rstrip("\n"))
        return
    listed = []
    documents = documents_by_step(view)
    for node_id in view.nodes:
        state = view.states[node_id]
        rate = state.bytes_per_s
        listed.append(
            {
                "stage": node_id,
                "tasks_done": len(state.tasks),
                "tasks_open": len(state.missing),
                "tasks_unknown": state.waiting > 0,
                "rows": state.metrics.get("rows", 0),
                "documents": documents[node_id][0],
                "documents_dropped": documents[node_id][1],
                "bytes": state.metrics.get("bytes_in") or None,
                "stored_bytes": view.stored_bytes(node_id) if state.tasks else None,
                "mb_per_s": None if rate is None else round(rate / 1e6, 2),
                "cpu_s": round(state.cpu_s, 3) if state.tasks else None,
                "peak_rss_bytes": int(state.cost.get("peak_rss_bytes", 0)) if state.tasks else None,
                "skewed": skewed(state.pace),
                "requests": {kind: int(state.cost[kind]) for kind in requests.KINDS if kind in state.cost},
                "requests_usd": round(requests.usd_of(state.cost), 6),
            }
        )
    if json:
        ended = {"last_run": last and last["status"], "until": last and last["until"]}
        ended["coordinator_requests"] = (last or {}).get("cost", {})
        print_json({"recipe": view.name, **ended, "stages": listed, "unread_files": unread_files(view)})
        return
    rows = [
        (
            entry["stage"],
            f"{entry['tasks_done']:,}/{entry['tasks_done'] + entry['tasks_open']:,}" + "+" * entry["tasks_unknown"],
            "" if entry["documents"] is None else f"{entry['documents']:,}",
            f"{entry['documents_dropped']:,}",
            *("-" if entry[name] is None else size(entry[name]) for name in ("bytes", "stored_bytes")),
            "-" if entry["mb_per_s"] is None else f"{entry['mb_per_s']:,.1f}",
            "-" if entry["cpu_s"] is None else f"{entry['cpu_s']:,.1f}",
            "-" if entry["peak_rss_bytes"] is None else size(entry["peak_rss_bytes"]),
        )
        for entry in listed
    ]
    out = console()
    out.print(table(COLUMNS, rows))
    show_unread_files(view)
    if any(entry["tasks_unknown"] for entry in listed):
        out.print("\ntasks: done/known; +: more tasks will follow, but their number is not known yet.")
    if any(entry["tasks_done"] and entry["bytes"] is None for entry in listed):
        out.print("\nread: - for stages that read no document content, only columns of other stages.")
    for entry in listed:
        for one in entry["skewed"]:
            out.print()
            out.print(words(skew_line(entry["stage"], one)))
    if bill := _bill(list(view.states.values()), last):
        out.print()
        out.print(words(bill))
    if last is None:
        hint = "" if view.store.is_shared else f" {view.to_finish}"
        out.print(passage(f"\nThis recipe has not been run with this store yet.{hint}"))
    else:
        label = "Last run" if view.record is None else "Run"
        out.print(f"\n{label}: {outcome(last)}, {end_of(last)}, version {last['version'] or '-'}")
        if view.unfinished() and (finished := last_finished(view, "status")):
            fact = "The table shows the recipe and its inputs as they are now; not all of its stages have run."
            out.print(words(f"{fact} {view.to_finish}{finished}"))


def skew_line(stage: str, slowest: Mapping[str, Any]) -> str:
    """The line about the slowest task: how long it took, what it read, and the key with the most records."""
    times = slowest["wall_s"] / max(slowest["median_s"], 0.001)
    line = (
        f"Skewed: {stage}, {slowest['label']} took {slowest['wall_s']:,.1f} s, {times:,.0f} times the median of its "
        f"{counted(slowest['tasks'], slowest['verb'] + ' task')}, and read {size(slowest['bytes'])}"
    )
    if (hot := slowest.get("hot_key")) is not None:
        line += f"; one key, {hot[0]}, has {counted(hot[1], 'record')}"
    return f"{line}."


def _bill(steps: Sequence[NodeState], last: Mapping[str, Any] | None) -> str | None:
    """Requests to an object store and their cost; None for a disk."""
    sent = {kind: int(sum(state.cost.get(kind, 0) for state in steps)) for kind in requests.KINDS}
    tasks = sum(len(state.tasks) for state in steps)
    own = (last or {}).get("cost", {})
    if not tasks or not requests.requests_of(sent):
        return None
    kinds = ", ".join(f"{sent[kind]:,} {kind}" for kind in requests.KINDS[:6] if sent[kind])
    usd = requests.usd_of(sent) + requests.usd_of(own)
    return (
        f"Object store requests by tasks: {requests.requests_of(sent):,}, "
        f"{requests.requests_of(sent) / tasks:,.1f} per task ({kinds}); {size(sent['bytes_fetched'])} in, "
        f"{size(sent['bytes_sent'])} out. By the last run's coordinator: {requests.requests_of(own):,}. Total: about "
        f"{usd:,.4f} USD; set your prices with {requests.PRICES}."
    )
