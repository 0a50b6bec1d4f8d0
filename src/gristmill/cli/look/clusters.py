"""Prints clusters: their sizes, what each source lost, and the largest ones side by side."""

import re
from difflib import SequenceMatcher
from typing import Any

from rich.table import Table
from rich.text import Text

from gristmill.cli.shared.options import print_json
from gristmill.cli.shared.screen import passage, words
from gristmill.cli.shared.show import console, table
from gristmill.counted import counted, percent
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.query.documents.clusters import ClusterRows, cluster_steps, largest
from gristmill.query.documents.documents import Row
from gristmill.query.takedown.withheld import withheld_note

MOST_WORDS = 3000
"""Words of a text that are compared: the time of a diff grows with the square."""
CONTEXT_WORDS = 12
"""Equal words shown before and after a difference."""
MOST_SHOWN = 8
"""Differences shown per pair; --full shows all."""
MEMBERS = 2
"""Documents shown next to the keeper of a cluster: the least similar ones."""


def show_clusters(view: CorpusView, number: int, full: bool, json: bool) -> None:
    """Print the clusters of every step that writes them, or raise UserError if there is no such step."""
    steps = cluster_steps(view)
    if not steps:
        raise UserError(f"{view.label} has no step that makes clusters. Add near_dedup or simhash_dedup.")
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


def _show_counts(out: Any, metrics: dict[str, Any]) -> None:
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


def _show(out: Any, cluster: ClusterRows, full: bool) -> None:
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
    these, others = (re.findall(r"\s*\S+", text)[:MOST_WORDS] for text in (one, other))
    left, right = words(), words()
    bare, other_bare = [word.strip() for word in these], [word.strip() for word in others]
    blocks = SequenceMatcher(None, bare, other_bare, autojunk=False).get_opcodes()
    shown = 0
    for number, (kind, start, stop, begin, end) in enumerate(blocks):
        if kind == "equal":
            for side, here in ((left, these[start:stop]), (right, others[begin:end])):
                side.append_text(_equal(here, number > 0, number < len(blocks) - 1, full))
            continue
        shown += 1
        if shown > MOST_SHOWN and not full:
            rest = sum(opcode[0] != "equal" for opcode in blocks) - MOST_SHOWN
            for side in (left, right):
                side.append_text(words((f" … {counted(rest, 'more difference')} (--full)", "dim")))
            break
        left.append_text(passage("".join(these[start:stop]), "red"))
        right.append_text(passage("".join(others[begin:end]), "green"))
    if len(these) == MOST_WORDS or len(others) == MOST_WORDS:
        for side in (left, right):
            side.append_text(words((f" … only the first {MOST_WORDS:,} words are compared here", "dim")))
    return left, right


def _equal(some: list[str], after: bool, before: bool, full: bool) -> Text:
    """Equal words, shortened to the context `after` and `before` a difference."""
    head = CONTEXT_WORDS if after else 0
    tail = CONTEXT_WORDS if before else 0
    if not after and not before:
        head = 2 * CONTEXT_WORDS
    if full or len(some) <= head + tail + 5:
        return passage("".join(some))
    hidden = (f" … {counted(len(some) - head - tail, 'equal word')} … ", "dim")
    return words(passage("".join(some[:head])), hidden, passage("".join(some[len(some) - tail :])))
