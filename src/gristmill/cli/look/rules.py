"""gristmill funnel --by: documents that each rule removed, alone, first and in total."""

from collections.abc import Iterator, Mapping
from typing import Any

from gristmill.cli.shared.options import print_json
from gristmill.cli.shared.screen import remark
from gristmill.cli.shared.show import console, size, table
from gristmill.counted import percent
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError

RULE = "rule"
FAILED = "failed"
"""The column of a step with rules: all rules that a document failed."""


def show_rules(view: CorpusView, by: str | None, json: bool) -> None:
    """Print how many documents only this rule removes, it removes first, and fail it, with their bytes of text."""
    if not any(FAILED in node.columns for node in view.nodes.values()):
        raise UserError(f"{view.label} has no step with rules, so there is nothing to count. Leave --by out.")
    found = list(_counts(view, by))
    if not found and not view.unfinished():
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
    console().print(table(names, rows, left=2 if by is None else 3))
    if rows:
        console().print("share: of the documents that reached the step")


def _counts(view: CorpusView, by: str | None) -> Iterator[dict[str, Any]]:
    judges = {node_id: state.metrics for node_id, state in view.states.items() if state.metrics.get("rules")}
    counted = {name for metrics in judges.values() for name in metrics if name.startswith("by_")}
    if by is not None and judges and f"by_{by}" not in counted:
        raise UserError(
            f"--by {by}: no step counted by it, only by {', '.join(sorted(name[3:] for name in counted)) or RULE}. "
            "`heuristics: {count_by: [source, language]}` sets the columns; run again after a change."
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
