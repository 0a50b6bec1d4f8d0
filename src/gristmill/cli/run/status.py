"""gristmill status: how far a recipe has come and what it cost, during a run or after it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from gristmill.cli.look.funnel import show_unread_files
from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_seen, print_json
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
        bool, typer.Option("--recipe", help="Print the recipe's text as the last run had it, and nothing else.")
    ] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show what each stage has done, and what it cost.

    Tasks done, bytes read and stored, MB/s of a worker, CPU seconds and peak memory; and its documents. Documents are
    counted as the funnel does: those that came to the stage, and those that it was the first to drop. Bytes read are
    of content; a stage that reads what others made of the documents has none to count. A stage with a task that took
    many times what most of its kind did is named as skewed.
    """
    view = open_seen(recipe, store, only_records=True)
    last = view.record or next(run_records(view.store, view.name), None)
    if text:
        if last is None:
            raise UserError(f"{recipe} has not been run with {view.store.uri}, so no run has its text. Read the file.")
        say(last["recipe_text"].rstrip("\n"))
        return
    listed = []
    documents = documents_by_step(view)
    for node_id in view.nodes:
        made = view.states[node_id]
        seconds = made.cost.get("wall_s", 0) - made.cost.get("compile_s", 0)
        read = made.metrics.get("bytes_in") or None
        listed.append(
            {
                "stage": node_id,
                "tasks_done": len(made.tasks),
                "tasks_open": len(made.missing),
                "tasks_unknown": made.waiting > 0,
                "rows": made.metrics.get("rows", 0),
                "documents": documents[node_id][0],
                "documents_dropped": documents[node_id][1],
                "bytes": read,
                "stored_bytes": view.stored_bytes(node_id) if made.tasks else None,
                "mb_per_s": round(read / seconds / 1e6, 2) if read and seconds else None,
                "cpu_s": round(made.cost.get("cpu_s", 0), 3) if made.tasks else None,
                "peak_rss_bytes": int(made.cost.get("peak_rss_bytes", 0)) if made.tasks else None,
                "skewed": skewed(made.pace),
                "requests": {kind: int(made.cost[kind]) for kind in requests.KINDS if kind in made.cost},
                "requests_usd": round(requests.usd_of(made.cost), 6),
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
    out.print(table(COLUMNS, rows, spare=("peak memory", "CPU s", "MB/s", "read")))
    show_unread_files(view)
    if any(entry["tasks_unknown"] for entry in listed):
        out.print("\ntasks: done/known; + where more will come, and it is not known yet how many.")
    if any(entry["tasks_done"] and entry["bytes"] is None for entry in listed):
        out.print("\nread: - where a stage reads no content of documents, but what other stages made of it.")
    for entry in listed:
        for one in entry["skewed"]:
            out.print()
            out.print(words(skew_line(entry["stage"], one)))
    if bill := _bill(list(view.states.values()), last):
        out.print()
        out.print(words(bill))
    if last is None:
        told = "" if view.store.is_shared else f" {view.to_finish}"
        out.print(passage(f"\nThis recipe has not been run with this store yet.{told}"))
    else:
        told = "Last run" if view.record is None else "Run"
        out.print(f"\n{told}: {outcome(last)}, {end_of(last)}, version {last['version'] or '-'}")
        if view.unfinished() and (finished := last_finished(view, "status")):
            told = "The stages above are those of the recipe and its inputs as they are now, and not all have run."
            out.print(words(f"{told} {view.to_finish}{finished}"))


def skew_line(stage: str, slowest: Mapping[str, Any]) -> str:
    """The task that others wait for: how long it took, what it read, and the key that has the most records in it."""
    times = slowest["wall_s"] / max(slowest["median_s"], 0.001)
    told = (
        f"Skewed: {stage}, {slowest['label']} took {slowest['wall_s']:,.1f} s, {times:,.0f} times what most of its "
        f"{counted(slowest['tasks'], slowest['verb'] + ' task')} did, for {size(slowest['bytes'])}"
    )
    if (hot := slowest.get("hot_key")) is not None:
        told += f"; one key, {hot[0]}, has {counted(hot[1], 'record')} of it"
    return f"{told}."


def _bill(steps: Sequence[NodeState], last: Mapping[str, Any] | None) -> str | None:
    """What was asked of an object store, and what that costs; None of a disk."""
    asked = {kind: int(sum(made.cost.get(kind, 0) for made in steps)) for kind in requests.KINDS}
    tasks = sum(len(made.tasks) for made in steps)
    own = (last or {}).get("cost", {})
    if not tasks or not requests.requests_of(asked):
        return None
    kinds = ", ".join(f"{asked[kind]:,} {kind}" for kind in requests.KINDS[:6] if asked[kind])
    usd = requests.usd_of(asked) + requests.usd_of(own)
    return (
        f"Requests of tasks to the object store: {requests.requests_of(asked):,}, "
        f"{requests.requests_of(asked) / tasks:,.1f} a task ({kinds}); {size(asked['bytes_fetched'])} in, "
        f"{size(asked['bytes_sent'])} out. Of the last run itself: {requests.requests_of(own):,}. In all about "
        f"{usd:,.4f} USD; other prices with {requests.PRICES}."
    )
