"""The page around an article: head, navigation, sidebar and footer, with as much markup as real sites have.

A page has about 14 KB of boilerplate for 3 KB of text, so that main-content extraction has work to do.
"""

import html
from dataclasses import dataclass, field
from random import Random

from demo.articles import Article, Block

SITES = {
    "handbook.pyworkshop.example": "The Python Workshop Handbook",
    "www.stdlib-guide.example": "Standard Library Guide",
    "docs.batteries-included.example": "Batteries Included",
    "notes.quietparser.example": "Quiet Parser Notes",
}
FOOTER = "Last reviewed by the editors on"
"""The beginning of a line that every page has."""
MIRRORS = ("mirror.fastdocs.example", "cache.docs-archive.example", "www.copyshelf.example")
"""Hosts with copies of other hosts' pages."""

_STYLE = "".join(
    f".{part}-{tone}{{margin:{i}px {i + 2}px;padding:{i}px;color:#3{i}4{i}5{i};background:#f{i}f{i}f{i};border:0}}"
    for i in range(10)
    for part, tone in (("nav", "light"), ("side", "dark"), ("card", "soft"), ("foot", "plain"))
)
_SCRIPT = "window.analytics=window.analytics||[];" + "".join(
    f"analytics.push(['widget{i}',{{slot:{i},lazy:true,size:[{i}0,250]}}]);" for i in range(60)
)
_ICONS = "".join(
    f'<svg class="icon-{i}" viewBox="0 0 24 24" role="img"><path d="M{i} 2h{i}v{20 - i}l-7-4.5-{i} 4.5z"/></svg>'
    for i in range(12)
)
_MENU = [
    "Home",
    "Tutorials",
    "Reference",
    "Library",
    "Recipes",
    "Community",
    "Jobs",
    "Events",
    "Newsletter",
    "Shop",
    "Login",
    "Register",
]


@dataclass(slots=True)
class Site:
    """A host with the list of pages that its sidebar links to."""

    host: str
    name: str
    links: list[str] = field(default_factory=list)


def url_of(article: Article, host: str) -> str:
    return f"https://{host}/library/{article.name.replace('.', '/')}.html"


def dated(article: Article, day: int, month: str) -> Article:
    """The article with the line that changes from crawl to crawl."""
    line = Block("p", f"{FOOTER} {day} {month} 2026.")
    return Article(article.name, article.title, (line, *article.blocks))


def render(article: Article, site: Site, rng: Random, lang: str = "en", charset: str | None = "utf-8") -> str:
    """A whole page. `charset` None leaves the encoding undeclared."""
    title = html.escape(article.title)
    meta = f'<meta charset="{charset}">' if charset else ""
    menu = "".join(f'<li class="nav-light"><a href="/{m.lower()}/">{m}</a></li>' for m in _MENU)
    side = "".join(
        f'<li class="side-dark"><a href="/library/{name.replace(".", "/")}.html">{name}</a></li>'
        for name in sorted(rng.sample(site.links, min(60, len(site.links))))
    )
    return (
        f'<!DOCTYPE html>\n<html lang="{lang}">\n<head>\n{meta}\n<title>{title} | {site.name}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n<script>{_SCRIPT}</script>\n</head>\n<body>\n"
        f'<header class="site-header"><div class="logo"><a href="/">{site.name}</a></div>\n'
        f'<nav class="navbar"><ul>{menu}</ul></nav>\n'
        '<form class="search" action="/search"><input name="q"><button>Search</button></form></header>\n'
        f'<div class="breadcrumb"><a href="/">Home</a> &raquo; <a href="/library/">Library</a> &raquo; {title}</div>\n'
        f'<aside class="sidebar"><h4>More pages</h4><ul>{side}</ul></aside>\n'
        f'<main id="content"><article>\n<h1>{title}</h1>\n{body(article)}\n</article></main>\n'
        '<div class="share-buttons"><a href="/share/mail">Mail</a> <a href="/share/feed">Feed</a>'
        f"{_ICONS}</div>\n"
        f'<footer class="footer"><p>&copy; 2026 {site.name}. All rights reserved.</p>'
        '<ul><li><a href="/about">About</a></li><li><a href="/privacy">Privacy</a></li>'
        '<li><a href="/imprint">Imprint</a></li></ul></footer>\n'
        f"<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def body(article: Article) -> str:
    parts: list[str] = []
    before = ""
    for block in article.blocks:
        if (block.tag == "li") != (before == "li"):
            parts.append("<ul>" if block.tag == "li" else "</ul>")
        parts.append(f"<{block.tag}>{html.escape(block.text, quote=False)}</{block.tag}>")
        before = block.tag
    return "\n".join([*parts, "</ul>"] if before == "li" else parts)
