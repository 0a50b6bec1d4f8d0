"""gristmill removed: documents that each rule removed, alone, first and in total."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args

import typer

from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_view, print_json
from gristmill.cli.shared.screen import remark
from gristmill.cli.shared.show import console, listed_steps, size, table
from gristmill.counted import percent
from gristmill.engine.publish.run_record import last_finished
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import suggest

FAILED = "failed"
"""The column of a step with rules: all rules that a document failed."""
EXAMPLE = "Example: gristmill removed recipes/demo.yaml --by source"


def command(
    recipe: RecipeOrRun,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Break down by source, snapshot or language (see count_by).")
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show how many documents each rule removed.

    Counts documents that only this rule removes, that it removes first, and that fail it, with their bytes of text.
    """
    view = open_view(recipe, store, only_records=True)
    judges = [node.id for node in view.nodes.values() if FAILED in node.columns]
    waiting = [node_id for node_id in view.unfinished() if node_id in judges]
    if not judges:
        raise UserError(
            f"{recipe} has no step with rules, so there is nothing to show. For documents that other steps dropped: "
            f"gristmill funnel {recipe}, gristmill bias {recipe} --step NAME."
        )
    found = list(_counts(view, by))
    to_finish = f"{view.to_finish}{last_finished(view, 'removed')}" if waiting else ""
    if waiting and not found:
        raise UserError(f"No step with rules of {recipe} as it is now has run. {to_finish}")
    if waiting:
        steps = listed_steps(waiting, view.chains)
        fact = f"Not counted, or only in part, because the recipe as it is now has not run: {steps}."
        remark(f"{fact} {to_finish}")
    elif not found:
        remark("No rule removed a document.")
    if json:
        for entry in found:
            print_json(entry)
        return
    rows = []
    for entry in found:
        share = percent(entry["first"], entry["judged"] or 1, 2)
        group = () if by is None else (entry["group"],)
        counts = (f"{entry['alone']:,}", f"{entry['first']:,}", f"{entry['all']:,}", share)
        rows.append((entry["step"], *group, entry["rule"], *counts, size(entry["first_bytes"])))
    names = ("step", *(() if by is None else (by,)), "rule", "alone", "first", "in all", "first, share", "first, bytes")
    console().print(table(names, rows, left=2 if by is None else 3, spare=("first, bytes", "first, share")))
    if rows:
        console().print("share: of the documents that reached the step")


def _counts(view: CorpusView, by: str | None) -> Iterator[dict[str, Any]]:
    judges = {node_id: state.metrics for node_id, state in view.states.items() if state.metrics.get("rules")}
    counted = {name for metrics in judges.values() for name in metrics if name.startswith("by_")}
    if by is not None and judges and f"by_{by}" not in counted:
        from gristmill.stages.select.heuristics import CountedBy

        known = sorted(name[3:] for name in counted)
        if by not in get_args(CountedBy):
            raise UserError(f"--by {by}: steps do not count by that. {suggest(by, get_args(CountedBy), 'Columns')}")
        raise UserError(
            f"--by {by}: no step counted by it, only by {', '.join(known) or 'nothing'}. Set it in the config "
            f"of a step with rules, such as `heuristics: {{count_by: [source, {by}]}}`, and run again."
        )
    for node_id in view.nodes:
        metrics = judges.get(node_id, {})
        groups = {None: metrics} if by is None else metrics.get(f"by_{by}", {})
        for group in sorted(groups, key=str):
            if groups[group]:
                yield from _rules(node_id, group, groups[group])


def _rules(step: str, group: str | None, counts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    judged = counts["judged"]["documents"]
    for rule, kinds in sorted(counts["rules"].items(), key=lambda item: -item[1].get("first", {}).get("documents", 0)):
        documents = {kind: kinds.get(kind, {}).get("documents", 0) for kind in ("alone", "first", "all")}
        first_bytes = kinds.get("first", {}).get("text_bytes", 0)
        yield {"step": step, "group": group, "rule": rule, "judged": judged, **documents, "first_bytes": first_bytes}
