"""The audit sample as a self-contained HTML page without scripts."""

from collections.abc import Mapping, Sequence
from typing import Any

from gristmill.counted import counted
from gristmill.report import markup
from gristmill.report.markup import escaped, table


def page(
    name: str, examples: Sequence[Mapping[str, Any]], counts: Sequence[Mapping[str, Any]], notes: Sequence[str]
) -> str:
    """The counts of the steps, and the sampled documents (query/removal/audit.py) by type."""
    parts = [
        f"<h1>Audit of {escaped(name)}</h1>",
        f"<p>{counted(len(examples), 'document')}, drawn by the hash of their ids.</p>",
        *(f"<p>{escaped(note)}</p>" for note in notes),
        _counts(counts),
    ]
    for kind in dict.fromkeys((one["step"], one["type"]) for one in examples):
        parts.append(f"<h2>{escaped(kind[1])} <small>{escaped(kind[0])}</small></h2>")
        parts += [_article(one) for one in examples if (one["step"], one["type"]) == kind]
    return markup.page(f"Audit of {name}", parts)


def _counts(counts: Sequence[Mapping[str, Any]]) -> str:
    names = ("step", "type", "source", "language", "documents")
    rows = [(*(str(row[name]) for name in names[:-1]), f"{row['documents']:,}") for row in counts]
    return table(names, rows, left=4)


def _article(one: Mapping[str, Any]) -> str:
    facts = [one["doc_id"], one["source"], one["language"], one["url"] or one["locator"]]
    shown = sum(label is not None for passage in one["passages"] for _, label in passage["pieces"])
    remarks = [one["detail"]] if one["detail"] else []
    remarks += [counted(one["matches"], "match", "matches")] if one["matches"] else []
    remarks += [f"{one['matches'] - shown:,} not shown"] if one["matches"] > shown else []
    return "\n".join(
        [
            f"<article><p>{escaped('; '.join(remarks) or one['type'])}</p>",
            f'<p class="soft">{escaped(" · ".join(filter(None, facts)))}</p>',
            *(f"<blockquote>{_passage(passage, one['text_bytes'])}</blockquote>" for passage in one["passages"]),
            "</article>",
        ]
    )


def _passage(passage: Mapping[str, Any], text_bytes: int) -> str:
    html = "… " if passage["start"] else ""
    size = 0
    for text, label in passage["pieces"]:
        size += len(text.encode())
        html += escaped(text) if label is None else f"<mark>{escaped(text)}<small>{escaped(label)}</small></mark>"
    return html + (" …" if passage["start"] + size < text_bytes else "")
