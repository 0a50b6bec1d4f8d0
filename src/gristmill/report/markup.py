"""Self-contained HTML pages without scripts.

Text from data is always escaped, and cannot reorder or hide the page around it.
"""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from gristmill.printable import printable


def escaped(text: str) -> str:
    """Escape a text for element content or an attribute value."""
    return escape(printable(text))


def page(title: str, parts: Iterable[str]) -> str:
    """A complete page from parts, which are markup."""
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    opening = (
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{escaped(title)}</title><style>\n{style}</style></head><body>",
    )
    return "\n".join([*opening, *parts, "</body></html>\n"])


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table of texts. The first `left` columns are left-aligned words, the others numbers."""

    def row(cells: Sequence[str], tag: str) -> str:
        kinds = [""] * left + [' class="n"'] * (len(cells) - left)
        return "".join(f"<{tag}{kind}>{escaped(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))

    body = "\n".join(f"<tr>{row(cells, 'td')}</tr>" for cells in rows)
    return f"<table><tr>{row(head, 'th')}</tr>\n{body}</table>"
