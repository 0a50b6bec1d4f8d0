"""gristmill status: how far a recipe has come and what it cost, during a run or after it."""

from typing import Annotated

import typer

from gristmill.cli.options import Json, RecipeOrRun, StoreUri, open_seen, print_json
from gristmill.cli.screen import say
from gristmill.cli.show import console, size, table
from gristmill.engine.funnel import documents_by_step
from gristmill.engine.run_record import run_records
from gristmill.errors import UserError

EXAMPLE = "Example: gristmill status recipes/demo.yaml"


def command(
    recipe: RecipeOrRun,
    text: Annotated[
        bool, typer.Option("--recipe", help="Print the recipe's text as the last run had it, and nothing else.")
    ] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show what each stage has done, and what it cost.

    Tasks done, bytes, MB/s of a worker, CPU seconds and peak memory; and its documents. Documents are counted as the
    funnel does: those that came to the stage, and those that it was the first to drop.
    """
    seen = open_seen(recipe, store)
    last = seen.record or next(run_records(seen.store, seen.name), None)
    if text:
        if last is None:
            raise UserError(f"{recipe} has not been run with {seen.store.uri}, so no run has its text. Read the file.")
        say(last["recipe_text"].rstrip("\n"))
        return
    listed = []
    documents = documents_by_step(seen)
    for node_id in seen.nodes:
        made = seen.made[node_id]
        seconds = made.cost.get("wall_s", 0) - made.cost.get("compile_s", 0)
        read = made.metrics.get("bytes_in", 0)
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
                "mb_per_s": round(read / seconds / 1e6, 2) if seconds else None,
                "cpu_s": round(made.cost.get("cpu_s", 0), 3),
                "peak_rss_bytes": int(made.cost.get("peak_rss_bytes", 0)),
            }
        )
    if json:
        print_json({"recipe": seen.name, "last_run": last and last["status"], "stages": listed})
        return
    rows = [
        (
            entry["stage"],
            f"{entry['tasks_done']}/{entry['tasks_done'] + entry['tasks_open']}{'+' if entry['tasks_unknown'] else ''}",
            "" if entry["documents"] is None else f"{entry['documents']:,}",
            f"{entry['documents_dropped']:,}",
            size(entry["bytes"]),
            "" if entry["mb_per_s"] is None else f"{entry['mb_per_s']:,.1f}",
            f"{entry['cpu_s']:,.1f}",
            size(entry["peak_rss_bytes"]),
        )
        for entry in listed
    ]
    out = console()
    out.print(table(("stage", "tasks", "documents", "dropped", "bytes", "MB/s", "CPU s", "peak memory"), rows))
    if last is None:
        out.print("\nThis recipe has not been run with this store yet.")
    else:
        told = "Last run" if seen.record is None else "Run"
        out.print(f"\n{told}: {last['status']}, {last['ended']}, version {last['version'] or '-'}")
