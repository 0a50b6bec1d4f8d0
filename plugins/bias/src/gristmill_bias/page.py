"""The HTML page of a comparison: plots, tables, and documents at the edge of the cutoff.

It is self-contained and has no scripts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gristmill.counted import counted, percent, size
from gristmill.report import markup
from gristmill.report.markup import escaped
from gristmill_bias.plot import intervals

MOST_SHOWN = 40
"""Groups of one kind in a plot; the table has all."""
SERIES = ("documents", "bytes")


def page(
    name: str,
    whole: Mapping[str, Any],
    groups: Sequence[Mapping[str, Any]],
    edge: Sequence[Mapping[str, Any]],
    loud: Sequence[str],
    notes: Sequence[str],
) -> str:
    """The page with all groups of a step (commands.py has their fields), documents to read, and notes."""
    documents = whole["documents"]
    parts = [
        f"<h1>What {escaped(name)} kept and removed</h1>",
        f"<p>Of {counted(documents['all'], 'document')} that reached it, {documents['kept']:,} are kept: "
        f"{_share(documents)} of the documents, {_share(whole['bytes'])} of the bytes.</p>",
        *(f'<p class="loud">{escaped(line)}</p>' for line in loud),
        *(f'<p class="soft">{escaped(note)}</p>' for note in notes),
    ]
    parts.append(
        '<p class="soft">Points are the share that is kept, lines its 95% interval; dashed: the overall share.</p>'
    )
    for by in dict.fromkeys(group["by"] for group in groups):
        own = [group for group in groups if group["by"] == by]
        parts += [f"<h2>By {escaped(by)}</h2>", _plot(own, whole), _table(own)]
    if edge:
        parts.append("<h2>At the edge</h2>")
        parts += [_article(one) for one in edge]
    return markup.page(f"Bias of {name}", parts)


def _share(found: Mapping[str, Any]) -> str:
    if not found["all"]:
        return ""
    return f"{percent(found['kept'], found['all'])} ({found['low']:.1%} to {found['high']:.1%})"


def _plot(groups: Sequence[Mapping[str, Any]], whole: Mapping[str, Any]) -> str:
    """The plot of the kept share of each group with its interval; dashed: the overall share."""
    rows = {
        group["group"]: {
            one: (group[one]["share"], group[one]["low"], group[one]["high"]) for one in SERIES if group[one]["all"]
        }
        for group in groups[:MOST_SHOWN]
        if group["documents"]["all"]
    }
    marks = {f"all {one}": (whole[one]["share"], number) for number, one in enumerate(SERIES)}
    return intervals(rows, marks, SERIES) if rows else ""


def _table(groups: Sequence[Mapping[str, Any]]) -> str:
    names = ("group", "documents", "kept (95%)", "to all", "bytes", "kept (95%)", "to all", "hosts")
    head = "".join(f"<th>{name}</th>" if name == "group" else f'<th class="n">{name}</th>' for name in names)
    rows = []
    for group in groups:
        documents, data = group["documents"], group["bytes"]
        cells = (f"{documents['all']:,}", _share(documents), _ratio(documents), size(data["all"]), _share(data))
        numbers = "".join(f'<td class="n">{cell}</td>' for cell in (*cells, _ratio(data), f"{group['hosts']:,}"))
        loud = ' class="loud"' if group["under_half"] else ""
        rows.append(f"<tr{loud}><td>{escaped(group['group'])}</td>{numbers}</tr>")
    return f"<table><tr>{head}</tr>\n" + "\n".join(rows) + "</table>"


def _ratio(found: Mapping[str, Any]) -> str:
    return f"{found['ratio']:.2f}" if found["all"] else ""


def _article(one: Mapping[str, Any]) -> str:
    scores = [f"{name} {'none' if value is None else f'{value:.6g}'}" for name, value in one["scores"].items()]
    facts = [one["doc_id"], one["source"], one["language"], one["register"], one["url"] or one["locator"]]
    facts_line = "; ".join([one["side"], *([one["reason"]] if one["reason"] else []), *scores])
    more = " …" if len(one["excerpt"].encode()) < one["text_bytes"] else ""
    return "\n".join(
        [
            f"<article><p>{escaped(facts_line)}</p>",
            f'<p class="soft">{escaped(" · ".join(filter(None, facts)))}</p>',
            f"<blockquote>{escaped(one['excerpt'])}{more}</blockquote></article>",
        ]
    )
