"""The HTML report of a page: its blocks, kept and dropped, next to the extracted text.

It is self-contained, without scripts and links: the content of the shown page is plain text here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gristmill.counted import counted, percent
from gristmill.report.markup import escaped

MOST_BLOCKS = 20_000
"""Blocks shown per page; 3,353 real pages have at most 12,000."""
OPENING = "\n".join(
    [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="gristmill extractor show">',
        '<meta name="viewport" content="width=device-width">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
    ]
)
"""The beginning of every such report, and of no other file."""
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --kept: #2a9d5c }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 100rem; margin: 1.5rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem; overflow-wrap: anywhere } h2 { font-size: 1.1rem }
table { border-collapse: collapse; font-size: .9rem } td { overflow-wrap: anywhere }
th, td { text-align: left; vertical-align: top; padding: .15rem .8rem .15rem 0 } th { opacity: .7; font-weight: 400 }
p.loud { border-left: .3rem solid #d0457b; background: var(--soft); padding: .5rem .8rem }
p.soft, article p { opacity: .75; font-size: .8rem; margin: 0 }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)); gap: 1.5rem }
article { border-left: .3rem solid #8886; background: #8882; margin: .3rem 0; padding: .3rem .7rem }
article.kept { border-color: var(--kept); background: #2a9d5c2e }
article div, pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .1rem 0 0 }
article.dropped { padding: .1rem .7rem } article.dropped div { opacity: .75 }
div.code { font-family: ui-monospace, monospace; font-size: .9em }
pre { font: inherit; background: var(--soft); padding: .6rem .8rem }
b { display: inline-block; min-width: 3.2em }
"""


def page(shown: Mapping[str, Any]) -> str:
    """The report of a page (ShownPage as a dict)."""
    title = shown["facts"]["title"] or shown["url"] or shown["origin"]
    return "\n".join(
        [
            OPENING,
            f"<title>Blocks of {escaped(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escaped(title)}</h1>",
            *(f'<p class="loud">{escaped(note)}</p>' for note in shown["notes"]),
            f"<p>{escaped(summary(shown))}</p>",
            _facts(shown),
            "<main><section><h2>Blocks</h2>",
            '<p class="soft">Green: kept; grey: dropped. Percentages: the probability that a block is content.</p>',
            *_articles(shown["blocks"]),
            "</section><section><h2>Text</h2>",
            f'<pre dir="auto">{escaped(shown["text"] or "")}</pre>',
            "</section></main></body></html>\n",
        ]
    )


def summary(shown: Mapping[str, Any]) -> str:
    """One line: what was kept, and the expected quality."""
    blocks = shown["blocks"]
    kept = [block for block in blocks if block["kept"]]
    words = sum(block["words"] for block in blocks)
    facts = [f"{len(kept):,} of {counted(len(blocks), 'block')} kept"]
    if words:
        facts.append(f"{percent(sum(block['words'] for block in kept), words)} of {counted(words, 'word')}")
    if shown["promised"] is not None:
        facts.append(f"expected F1 {shown['promised']:.1%}")
    if shown["drop"]:
        detail = f" ({shown['detail']})" if shown["detail"] else ""
        facts.append(f"dropped as {shown['drop']}{detail}")
    return "; ".join(facts)


def _facts(shown: Mapping[str, Any]) -> str:
    settings = {name: value for name, value in shown["settings"].items() if value}
    changed = ", ".join(name if value is True else f"{name} {value}" for name, value in settings.items())
    facts = {"URL": shown["url"], "read from": shown["origin"], **shown["facts"], "settings": changed}
    rows = [
        f"<tr><th>{name.replace('_', ' ')}</th><td>{escaped(value)}</td></tr>" for name, value in facts.items() if value
    ]
    return "<table>" + "\n".join(rows) + "</table>"


def _articles(blocks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for block in blocks[:MOST_BLOCKS]:
        facts = [block["kind"], counted(block["words"], "word")]
        facts += [f"{block['in_links']:.0%} in links"] if block["in_links"] else []
        around = [name for name in block["inside"] if name not in (block["kind"], "heading")]
        facts += [f"in {', '.join(around)}"] if around else []
        facts += [f"classes: {', '.join(block['hints'])}"] if block["hints"] else []
        code = ' class="code"' if "pre" in (block["kind"], *block["inside"]) else ""
        yield (
            f'<article class="{"kept" if block["kept"] else "dropped"}">'
            f"<p><b>{block['chance']:.1%}</b> {escaped(' · '.join(facts))}</p>"
            f'<div dir="auto"{code}>{escaped(block["text"])}</div></article>'
        )
    if len(blocks) > MOST_BLOCKS:
        yield f'<p class="loud">{counted(len(blocks) - MOST_BLOCKS, "more block")} not shown here (--json has all).</p>'
