"""gristmill status: how far a recipe has come and what it cost, during a run or after it."""

from gristmill.cli.options import Json, RecipePath, StoreUri, open_mill, print_json
from gristmill.cli.show import console, size, table
from gristmill.engine.plan import make_plan

EXAMPLE = "Example: gristmill status recipes/demo.yaml"


def command(recipe: RecipePath, store: StoreUri = None, json: Json = False) -> None:
    """Show for each stage: tasks done, rows, bytes, MB/s of a worker, CPU seconds and peak memory of its tasks."""
    mill = open_mill(recipe, store)
    stages = make_plan(mill, mill.look())
    last = mill.last_run()
    listed = []
    for stage in stages:
        seconds = stage.cost.get("wall_s", 0)
        read = stage.metrics.get("bytes_in", 0)
        listed.append(
            {
                "stage": stage.id,
                "tasks_done": stage.cached,
                "tasks_open": stage.to_run,
                "tasks_unknown": stage.waiting > 0,
                "rows": stage.metrics.get("rows", 0),
                "rows_dropped": sum(stage.metrics.get("dropped", {}).values()),
                "bytes": read,
                "mb_per_s": round(read / seconds / 1e6, 2) if seconds else None,
                "cpu_s": round(stage.cost.get("cpu_s", 0), 3),
                "peak_rss_bytes": int(stage.cost.get("peak_rss_bytes", 0)),
            }
        )
    if json:
        print_json({"recipe": mill.recipe.name, "last_run": last and last["status"], "stages": listed})
        return
    rows = [
        (
            entry["stage"],
            f"{entry['tasks_done']}/{entry['tasks_done'] + entry['tasks_open']}{'+' if entry['tasks_unknown'] else ''}",
            f"{entry['rows']:,}",
            f"{entry['rows_dropped']:,}",
            size(entry["bytes"]),
            "" if entry["mb_per_s"] is None else f"{entry['mb_per_s']:,.1f}",
            f"{entry['cpu_s']:,.1f}",
            size(entry["peak_rss_bytes"]),
        )
        for entry in listed
    ]
    out = console()
    out.print(table(("stage", "tasks", "rows", "dropped", "bytes", "MB/s", "CPU s", "peak memory"), rows))
    if last is None:
        out.print("\nThis recipe has not been run with this store yet.")
    else:
        out.print(f"\nLast run: {last['status']}, {last['ended']}, version {last['version'] or '-'}")
