"""Gold text for reference manuals, by the generator of their pages: `python -m bench._manual_gold PART OUT PACKAGES`.

_manuals.tsv lists Debian packages with their versions, the generator of their pages and the part that they belong to: a
package is either in `train` or in `held`, never in both. A generator's markup shows where the main text of its pages
is, so their gold text is free. What the structure says is navigation is left out: links to sources and headings,
previous and next, local tables of contents, menus, forms. PACKAGES is a folder for the downloads, OUT becomes a folder
for `gristmill extractor train` or `evaluate`. Manual pages in roff are written as HTML by `mandoc`, which has to be
installed.
"""

import gzip
import hashlib
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote
from urllib.request import urlretrieve

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding
from resiliparse.parse.html import HTMLTree

ARCHIVE = "http://deb.debian.org/debian/"
MOST_PAGES = {"train": 25, "held": 60}
"""The most pages of one package, since pages of one generator look alike."""
FEWEST_WORDS = 20
MOST_BYTES = {"train": 100_000, "held": 600_000}
_SKIPPED = re.compile(
    r"(^|/)(_modules|_sources|_static|class-use|index-files|src-html|search|src|src_doc|implementors|docs/search)/"
    r"|(^|/)(genindex|search|py-modindex|modindex|index-all|allclasses|allpackages|help-doc|overview|constant-values|"
    r"serialized-form|deprecated-list|element-list|annotated|files|hierarchy|inherits|classes|namespaces|modules|"
    r"functions|globals|dir_|print|toc|all\.html|settings|help\.html|404|api-index|annotation-gloss|ix0|package-tree|"
    r"package-use|jquery|redirect|frame)[^/]*$"
    r"|(_source|-source|-members|-tree|-use|-frame|_toc|_abt|[-_][Ii]ndex|8h|_8h|_8hpp_source)\.html"
)


class GoldRule(NamedTuple):
    """Where a generator writes the main text of a page."""

    main: tuple[str, ...]
    """Selectors of its element; the first one that matches counts."""
    without: str = "nav"
    """The parts of the element that are left out."""
    between: tuple[str, str] | None = None
    """Patterns before and after the text; pages without them have only the element."""


_APART = re.compile(r"<t[dh]\b[^>]*>|<span class=\"classifier\">")
"""Elements that a browser shows apart from the text before them, and plain text would not."""
_DOCBOOK = ".navheader, .navfooter, .toc, .libver, .docnav, #title, table[summary^=Navigation], .list-of-tables"
RULES = {
    "sphinx": GoldRule(
        ("article[role=main]", "[role=main]", "div.body"),
        "a.headerlink, .viewcode-link, .prev-next-area, .rst-versions, nav, footer, div.related, .sphinxsidebar, form, "
        "noscript, [role=navigation], .contents.topic, .contents.local, .rst-footer-buttons",
    ),
    "mkdocs": GoldRule(
        ("article.md-content__inner", "[role=main]", "main"),
        "a.headerlink, .md-content__button, .md-source-file, nav, footer, .source-link, form, [role=navigation], .toc",
    ),
    "javadoc": GoldRule(
        ("main", "body"),
        "noscript, header[role=banner], nav, footer, .legalCopy, .topNav, .bottomNav, .subNav, .skipNav, .sub-nav, "
        ".navPadding, .fixedNav, .toc, .table-tabs, .subNavList",
    ),
    "doxygen": GoldRule(
        ("#doc-content", "body"),
        ".summary, .navpath, #nav-path, #top, #side-nav, #main-nav, .footer, address, .ttc, .tabs, .tabs2, .tabs3, "
        "#titlearea, .toc, #MSearchSelectWindow, #MSearchResultsWindow, .navtab, .qindex, .permalink, .directory",
        between=(r'<div class="header">', "<!-- contents -->"),
    ),
    "texinfo": GoldRule(
        ("body",),
        "div.header, .nav-panel, div.node, table.header, table.footer, .menu, .contents, .shortcontents, "
        ".summarycontents, .section-toc, .mini-toc, .element-contents, .element-shortcontents, table[cellpadding='1']",
    ),
    "docbook": GoldRule(("div.content", "body"), _DOCBOOK),
    "asciidoc": GoldRule(("body",), "#footer, #toc"),
    "gtkdoc": GoldRule(("body",), f"table.navigation, {_DOCBOOK}, div.footer, .shortcuts, .gallery-float"),
    "gidocgen": GoldRule(("#main",), "a.srclink, nav, #toc, .toc, .sep"),
    "rustdoc": GoldRule(
        ("#main-content", "#main"),
        "#copy-path, #toggle-all-docs, .collapse-toggle, .srclink, a.src, nav, form, .sidebar, .sub, #search, "
        ".notable-traits, .src-link",
    ),
    "mdbook": GoldRule(("#content main", "main"), "nav, .nav-wrapper, .buttons"),
    "mandoc": GoldRule((".manual-text",)),
    "man2html": GoldRule((), between=(r'<A NAME="lbAB">', r'<A NAME="index">')),
    "groff": GoldRule((), between=(r"<hr>", r"<hr>")),
    "plain": GoldRule(("body",), "#toc"),
}
"""By generator. `plain` is for pages without navigation."""


class Manual(NamedTuple):
    """A line of _manuals.tsv."""

    part: str
    generator: str
    folder: str
    """Of its pages, inside the package."""
    archive: str
    """The package's file, which names its version."""

    @property
    def package(self) -> str:
        return self.archive.rpartition("/")[2].split("_")[0]


class ManualPage(NamedTuple):
    """A page and its main text."""

    url: str
    html: bytes
    generator: str
    text: str


def manuals(part: str) -> list[Manual]:
    """The manuals of a part."""
    lines = Path(__file__).with_name("_manuals.tsv").read_text().splitlines()[1:]
    found = [Manual(*line.split("\t")) for line in lines]
    if both := {one.package for one in found if one.part == "train"} & {
        one.package for one in found if one.part == "held"
    }:
        raise ValueError(f"these packages are in both parts: {sorted(both)}")
    return [one for one in found if one.part == part]


def unpacked(manual: Manual, packages: Path) -> Path:
    """The folder with a package's pages, which is downloaded first."""
    target = packages / manual.package
    if not target.exists():
        packages.mkdir(parents=True, exist_ok=True)
        file = packages / unquote(manual.archive.rpartition("/")[2])
        urlretrieve(ARCHIVE + manual.archive, file)
        subprocess.run(["dpkg-deb", "-x", str(file), str(target)], check=True)
    return target / manual.folder


def gold_of(html: str, generator: str) -> str | None:
    """The main text of a page, or None."""
    rule = RULES[generator]
    if rule.between:
        starts = list(re.finditer(rule.between[0], html, re.I))
        stops = list(re.finditer(rule.between[1], html, re.I))
        if starts and stops and starts[0].end() < stops[-1].start():
            html = f"<body>{html[starts[0].end() : stops[-1].start()]}</body>"
        elif not rule.main:
            return None
    tree = HTMLTree.parse(_APART.sub(r" \g<0>&nbsp;", html))
    if tree.body is None:
        return None
    candidates = [tree.body if one == "body" else tree.body.query_selector(one) for one in rule.main or ("body",)]
    root = next((one for one in candidates if one is not None), None)
    if root is None:
        return None
    while (node := root.query_selector(rule.without)) is not None:
        node.decompose()
    text: str = extract_plain_text(root.html, main_content=False, alt_texts=False)
    return text if len(text.split()) >= FEWEST_WORDS else None


def _markup(path: Path) -> bytes:
    if re.search(r"\.\d\w*\.gz$", path.name):
        return subprocess.run(["mandoc", "-T", "html", str(path)], check=True, capture_output=True).stdout
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def pages_of(manual: Manual, folder: Path) -> Iterator[ManualPage]:
    """Some pages of a manual with their gold, always the same ones."""
    pattern = "*.[1-8]*.gz" if manual.generator == "mandoc" else "*.html*"
    paths = {str(path.relative_to(folder)): path for path in folder.rglob(pattern) if path.is_file()}
    site = manual.package.replace(".", "-")
    taken = 0
    for relative in sorted(paths, key=lambda key: hashlib.sha256(f"{manual.package}/{key}".encode()).digest()):
        if taken == MOST_PAGES[manual.part]:
            return
        if _SKIPPED.search(relative) or paths[relative].stat().st_size > MOST_BYTES[manual.part]:
            continue
        html = _markup(paths[relative])
        text = gold_of(bytes_to_str(html, detect_encoding(html)), manual.generator)
        if text is not None:
            taken += 1
            yield ManualPage(f"https://{site}.example/", html, manual.generator, text)


def write(part: str, out: Path, packages: Path) -> int:
    """Writes a WARC file with the pages of a part, and their gold text; returns the number of pages."""
    out.mkdir(parents=True, exist_ok=True)
    weak = "-weakgold" if part == "train" else ""
    seen: set[str] = set()
    with (out / "pages.warc").open("wb") as archive, (out / "gold.jsonl").open("w") as golds:
        for manual in manuals(part):
            for page in pages_of(manual, unpacked(manual, packages)):
                record_id = f"<{uuid.UUID(bytes=hashlib.sha256(b'package' + page.html).digest()[:16]).urn}>"
                if record_id in seen:
                    continue
                seen.add(record_id)
                archive.write(_response(record_id, page))
                gold = {"url": page.url, "set": f"{page.generator}{weak}", "text": page.text}
                golds.write(json.dumps({"warc_record_id": record_id, **gold}) + "\n")
    return len(seen)


def _response(record_id: str, page: ManualPage) -> bytes:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page.html
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: {record_id}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
        f"WARC-Target-URI: {page.url}\r\nContent-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(answer)}\r\n\r\n"
    )
    return head.encode() + answer + b"\r\n\r\n"


if __name__ == "__main__":
    print(write(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])), "pages")
