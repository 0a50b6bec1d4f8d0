"""The audit sample as a page for people: it needs nothing from elsewhere and runs no script."""

from collections.abc import Mapping, Sequence
from typing import Any

from gristmill.counted import counted
from gristmill.report.markup import escaped

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; font-size: .9rem } td.n, th.n { text-align: right }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line) }
article { border-top: 1px solid var(--line); padding: .6rem 0; overflow-wrap: anywhere }
article p { margin: .2rem 0 } p.soft { opacity: .7; font-size: .85rem }
blockquote { white-space: pre-wrap; background: var(--soft); margin: .5rem 0; padding: .5rem .8rem }
mark { background: #f5b70080; color: inherit; border-radius: 3px } mark small { opacity: .7; margin-left: .3em }
"""


def page(
    name: str, examples: Sequence[Mapping[str, Any]], counts: Sequence[Mapping[str, Any]], notes: Sequence[str]
) -> str:
    """What the steps of a corpus counted, and the documents that were drawn (query/removal/audit.py), by type."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>Audit of {escaped(name)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Audit of {escaped(name)}</h1>",
        f"<p>{counted(len(examples), 'document')}, drawn by the hash of their ids.</p>",
        *(f"<p>{escaped(note)}</p>" for note in notes),
        _counts(counts),
    ]
    for kind in dict.fromkeys((one["step"], one["type"]) for one in examples):
        parts.append(f"<h2>{escaped(kind[1])} <small>{escaped(kind[0])}</small></h2>")
        parts += [_article(one) for one in examples if (one["step"], one["type"]) == kind]
    return "\n".join([*parts, "</body></html>\n"])


def _counts(counts: Sequence[Mapping[str, Any]]) -> str:
    names = ("step", "type", "source", "language", "documents")
    head = "".join(f'<th class="n">{name}</th>' if name == names[-1] else f"<th>{name}</th>" for name in names)
    rows = [
        "".join(f"<td>{escaped(str(row[name]))}</td>" for name in names[:-1])
        + f'<td class="n">{row["documents"]:,}</td>'
        for row in counts
    ]
    return f"<table><tr>{head}</tr>\n" + "\n".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def _article(one: Mapping[str, Any]) -> str:
    facts = [one["doc_id"], one["source"], one["language"], one["url"] or one["locator"]]
    shown = sum(label is not None for passage in one["passages"] for _, label in passage["pieces"])
    told = [one["detail"]] if one["detail"] else []
    told += [counted(one["matches"], "match", "matches")] if one["matches"] else []
    told += [f"{one['matches'] - shown:,} not shown"] if one["matches"] > shown else []
    return "\n".join(
        [
            f"<article><p>{escaped('; '.join(told) or one['type'])}</p>",
            f'<p class="soft">{escaped(" · ".join(filter(None, facts)))}</p>',
            *(f"<blockquote>{_passage(passage, one['text_bytes'])}</blockquote>" for passage in one["passages"]),
            "</article>",
        ]
    )


def _passage(passage: Mapping[str, Any], text_bytes: int) -> str:
    made = "… " if passage["start"] else ""
    size = 0
    for text, label in passage["pieces"]:
        size += len(text.encode())
        made += escaped(text) if label is None else f"<mark>{escaped(text)}<small>{escaped(label)}</small></mark>"
    return made + (" …" if passage["start"] + size < text_bytes else "")
