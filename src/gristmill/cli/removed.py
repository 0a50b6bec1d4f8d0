"""gristmill removed: what every rule took, alone, first and in all."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from gristmill.cli.options import Json, RecipePath, StoreUri, open_mill, print_json
from gristmill.cli.show import console, size, table
from gristmill.engine.mill import Mill
from gristmill.engine.run import Run
from gristmill.errors import UserError

EXAMPLE = "Example: gristmill removed recipes/web.yaml --by language"


def command(
    recipe: RecipePath,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Break down by source, snapshot or language (see count_by).")
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show for each rule how many documents it removed alone, first, and in all, and their bytes of text."""
    mill = open_mill(recipe, store)
    run = mill.look()
    found = list(_counts(mill, run, by))
    if not found:
        raise UserError(f"No step of {recipe} with rules has run yet. Run: gristmill run {recipe}")
    if json:
        for entry in found:
            print_json(entry)
        return
    rows = []
    for entry in found:
        share = 100 * entry["first"] / entry["judged"] if entry["judged"] else 0
        group = () if by is None else (entry["group"],)
        counts = (f"{entry['alone']:,}", f"{entry['first']:,}", f"{entry['all']:,}", f"{share:.2f}%")
        rows.append((entry["step"], *group, entry["rule"], *counts, size(entry["first_bytes"])))
    names = ("step", *(() if by is None else (by,)), "rule", "alone", "first", "in all", "first, share", "first, bytes")
    console().print(table(names, rows, left=2 if by is None else 3))


def _counts(mill: Mill, run: Run, by: str | None) -> Iterator[dict[str, Any]]:
    for node_id in mill.graph.nodes:
        metrics = run.made[node_id].metrics
        if "rules" not in metrics:
            continue
        if by is None:
            yield from _rules(node_id, None, metrics)
            continue
        groups = metrics.get(f"by_{by}")
        if groups is None:
            known = ", ".join(sorted(name[3:] for name in metrics if name.startswith("by_"))) or "nothing"
            raise UserError(
                f"--by {by}: {node_id} did not count by it. It counted by {known}; see count_by in its config."
            )
        for group in sorted(groups):
            yield from _rules(node_id, group, groups[group])


def _rules(step: str, group: str | None, counts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    judged = counts["judged"]["documents"]
    for rule, kinds in sorted(counts["rules"].items(), key=lambda item: -item[1].get("first", {}).get("documents", 0)):
        documents = {kind: kinds.get(kind, {}).get("documents", 0) for kind in ("alone", "first", "all")}
        first_bytes = kinds.get("first", {}).get("text_bytes", 0)
        yield {"step": step, "group": group, "rule": rule, "judged": judged, **documents, "first_bytes": first_bytes}
