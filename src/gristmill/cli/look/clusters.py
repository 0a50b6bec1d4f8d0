"""gristmill clusters: their sizes, what each source lost, and the largest ones side by side."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from gristmill.cli.look.inspect import say_open
from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_view, print_json
from gristmill.cli.shared.screen import Screen, passage, words
from gristmill.cli.shared.show import console, table
from gristmill.counted import counted, percent
from gristmill.engine.publish.run_record import last_finished
from gristmill.errors import UserError
from gristmill.query.documents.clusters import ClusterRows, cluster_steps, largest
from gristmill.query.documents.documents import Row, unfinished
from gristmill.query.documents.word_changes import ADDED, NOTE, REMOVED, word_changes
from gristmill.query.takedown.withheld import withheld_note

MEMBERS = 2
"""Documents shown next to the keeper of a cluster: the least similar ones."""
EXAMPLE = "Example: gristmill clusters recipes/demo.yaml -n 5"


def command(
    recipe: RecipeOrRun,
    number: Annotated[int, typer.Option("-n", "--number", min=1, metavar="N", help="How many to show.")] = 10,
    full: Annotated[bool, typer.Option("--full", help="Show whole texts.")] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show the largest clusters of near duplicates, side by side.

    Their sizes, what each source lost, and of each cluster the kept document beside the least similar ones.
    """
    view = open_view(recipe, store)
    steps = cluster_steps(view)
    if not steps:
        raise UserError(f"{view.label} has no step that makes clusters. Add near_dedup.")
    if waiting := [node.id for node in steps if node.id in view.unfinished()]:
        last = last_finished(view, "clusters")
        raise UserError(f"{waiting[0]} did not run yet, so there is nothing to show. {view.to_finish}{last}")
    for node in steps:
        metrics = view.states[node.id].metrics
        found = largest(view, node, number, MEMBERS)
        if json:
            for cluster in found:
                print_json({"step": node.id, **_plain(cluster)})
            continue
        out = console()
        out.rule(words((node.id, "bold")), align="left")
        _show_counts(out, metrics)
        for cluster in found:
            _show(out, cluster, full)
    if open_steps := unfinished(view, None):
        say_open(open_steps, 0, view)


def _show_counts(out: Screen, metrics: dict[str, Any]) -> None:
    sizes = sorted(metrics.get("clusters_by_size", {}).items(), key=lambda item: int(item[0].split("-")[0]))
    if not sizes:
        out.print("No clusters: no two documents were similar enough.")
        return
    out.print(table(("documents in a cluster", "clusters"), [(name, f"{count:,}") for name, count in sizes]))
    chains = sorted(metrics.get("chains", {}).items(), key=lambda item: int(item[0]))
    out.print(table(("links to the keeper", "documents"), [(name, f"{count:,}") for name, count in chains]))
    rows = []
    for source, counts in sorted(metrics.get("sources", {}).items()):
        lost, sent = sum(counts.get("dropped", {}).values()), counts.get("rows_sent", 0)
        rows.append((source, f"{sent:,}", f"{lost:,}", percent(lost, sent)))
    out.print(table(("source", "compared", "removed", "share"), rows))
    out.print()


def _plain(cluster: ClusterRows) -> dict[str, Any]:
    return {
        "cluster": cluster.id,
        "size": cluster.size,
        "keeper": cluster.keeper and _plain_row(cluster.keeper),
        "members": [_plain_row(row) for row in cluster.members],
    }


def _plain_row(row: Row) -> dict[str, Any]:
    similarity, chain = row.columns.get("similarity"), row.columns.get("chain")
    fields = {"doc_id": row.fields["doc_id"], "locator": row.fields["locator"], "url": row.fields["url"]}
    return {**fields, "similarity": similarity, "chain": chain, "text": row.text}


def _show(out: Screen, cluster: ClusterRows, full: bool) -> None:
    kept = cluster.keeper.fields["url"] if cluster.keeper and cluster.keeper.fields["url"] else "the one"
    out.rule(words(f"{counted(cluster.size, 'document')}, kept {kept} {cluster.id.hex()}"), align="left", style="dim")
    if cluster.keeper is None:
        out.print("The keeper is in a part that is not finished yet.")
        return
    for member in cluster.members:
        if member.withheld is not None:
            out.print(words(f"id {member.fields['doc_id'].hex()}: {withheld_note(member.withheld)}"))
            continue
        similarity, chain = member.columns["similarity"][0], member.columns["chain"]
        pair = Table(show_edge=False, expand=True, padding=(0, 1))
        pair.add_column(words(f"kept: {_location(cluster.keeper)}"), ratio=1)
        ways = f"{chain} link" + ("s" if chain > 1 else "")
        pair.add_column(words(f"dropped ({similarity:.3f}, {ways}): {_location(member)}"), ratio=1)
        left, right = side_by_side(cluster.keeper.text or "", member.text or "", full)
        pair.add_row(left, right)
        out.print(pair)
        out.print()


def _location(row: Row) -> str:
    """The URL of a document and its location in the input."""
    url, locator = row.fields["url"], row.fields["locator"]
    return f"{url} ({locator})" if url else str(locator)


def side_by_side(one: str, other: str, full: bool) -> tuple[Text, Text]:
    """Two texts with differences coloured; long equal stretches are shortened."""
    left, right = words(), words()
    for kind, text in word_changes(one, other, full):
        if kind != ADDED:
            left.append_text(passage(text, {REMOVED: "red", NOTE: "dim"}.get(kind, "")))
        if kind != REMOVED:
            right.append_text(passage(text, {ADDED: "green", NOTE: "dim"}.get(kind, "")))
    return left, right
