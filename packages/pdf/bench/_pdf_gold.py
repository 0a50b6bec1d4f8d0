"""Gold text for PDF files from another format of the same document: `python -m bench._pdf_gold PACKAGES OUT`.

PACKAGES holds one folder for each unpacked Debian package (`apt-get download NAME`, `dpkg -x NAME.deb NAME`) whose
documents exist as PDF and as HTML. OUT/{train,test}/FAMILY.jsonl has a row for each chapter: the PDF file, its first
and last page (from 0, inclusive), the text in reading order, and the tables as rows of cells. A family (one manual in
all its languages) is in one of the two sets only.

A chapter is found in both formats: the bookmarks of the PDF name its title and page, the HTML has a heading with the
same title. Chapters that do not start on a new page are joined with their neighbour. Needs pypdfium2 and lxml.
"""

import gzip
import json
import logging
import re
import sys
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lxml.html
import pypdfium2
from bench._pdf_words import words

LEAST_SHARE = 0.6
"""A chapter is left out when fewer of its words are on its pages: the two formats differ, or the match is wrong."""
MOST_PAGES = 60
FEWEST_WORDS = 60


@dataclass
class PdfManual:
    """One PDF file and the HTML that has the same text, as paths inside their package folders."""

    part: str
    """`train`; `test`; `read` and `fresh-tune`, which were read for faults that are general; `unread`;
    or `fresh-held`."""
    family: str
    language: str
    pdf: str
    html: str
    """The first page of a chain of `rel=next` links, or a pattern of files in order."""
    license: str = "as in the package's copyright file"


@dataclass
class Chapter:
    title: str
    lines: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    """The kind of each line, as far as its element tells it; else `text`."""
    tables: list[list[list[str]]] = field(default_factory=list)
    level: int = 1
    footnotes: list[str] = field(default_factory=list)


def manuals() -> list[PdfManual]:
    """The manuals of _pdf_manuals.tsv."""
    lines = Path(__file__).with_name("_pdf_manuals.tsv").read_text().splitlines()[1:]
    return [PdfManual(*line.split("\t")) for line in lines]


SPACES = re.compile(r"\s+")
HIDDEN = {"script", "style", "head", "img", "nav", "svg", "link", "meta", "template", "noscript"}
DROPPED = re.compile(
    r"(?:^|\s)(navheader|navfooter|toc|header|nav-panel|headerlink|sphinxsidebar|sphinxsidebarwrapper|related|menu|"
    r"toctree-wrapper|toctree-l\d|contents|shortcontents|region-contents|copiable-anchor|copiable-link|footer|"
    r"list-of-tables|list-of-figures|list-of-examples|element-contents|ContSect|chlinktop|chlinkbot|chlinkprevnexttop|"
    r"chlinkprevnextbot|nav|sidebar|wy-nav-side|pcenter|index)(?:\s|$)",
    re.IGNORECASE,
)
LATEX2HTML = re.compile(rb"<!--(Navigation Panel|Table of Child-Links)-->.*?<!--End of \1-->", re.DOTALL)
BLOCKS = {
    "p", "div", "li", "dt", "dd", "blockquote", "caption", "figcaption", "section", "article", "ul", "ol", "dl", "body",
    "center", "address", "aside", "main", "figure", "hr", "tr", "td", "th", "table", "tbody", "thead",
}  # fmt: skip
LAYOUT = re.compile(
    r"(?:^|\s)(menu|cartouche|docutils footnote|docutils citation|footnote|citation|field-list|verbatim|simplelist|"
    r"index(?:-\w+)?)(?:\s|$)"
)


def _kind_of(node: Any) -> str | None:
    """The kind of the text in an element: `term` is a word that a list defines; it has no separate kind."""
    name = node.get("class") or ""
    if (
        re.search(r"(?:^|[\s_-])(caption|title)(?:\s|$)", name)
        and "admonition" not in name
        and node.tag in ("p", "div")
    ):
        return "caption"
    return {"li": "item", "caption": "caption", "figcaption": "caption", "dt": "term", "dd": "text"}.get(node.tag)


def _is_layout(table: Any) -> bool:
    """Admonitions, footnotes, frames, indexes and indented code are tables only for their look."""
    summary = (table.get("summary") or "").lower()
    kind = " ".join(
        filter(None, [table.get("class"), (table.getparent().get("class") if table.getparent() is not None else "")])
    )
    if LAYOUT.search(kind) or summary in ("note", "warning", "tip", "caution", "important"):
        return True
    if re.search(r"(?:^|\s)(note|warning|tip|caution|important)(?:\s|$)", kind) or table.xpath(".//pre"):
        return True
    rows = table.xpath(".//tr")
    return table.xpath(".//table") != [] or max((len(row.xpath("./td|./th")) for row in rows), default=0) < 2


class Walk:
    """Text lines and chapters of HTML, in reading order."""

    def __init__(self) -> None:
        self.chapters: list[Chapter] = []
        self.current = Chapter("")
        self.buffer: list[str] = []
        self.footnotes: dict[str, str] = {}
        self.cited: list[str] = []
        self.kind = "text"

    def flush(self) -> None:
        line = SPACES.sub(" ", "".join(self.buffer)).strip()
        self.buffer = []
        if line:
            self.add(line, self.kind)
            self.kind = "text" if self.kind == "item" else self.kind
        for name in self.cited:
            self.current.footnotes.append(self.footnotes.pop(name))
            self.add(self.current.footnotes[-1], "note")
        self.cited = []

    def add(self, line: str, kind: str) -> None:
        self.current.lines.append(line)
        self.current.kinds.append(kind)

    def take_footnotes(self, page: Any) -> None:
        """Takes the footnotes out of a page: their text goes after the paragraph that cites them."""
        self.footnotes = {}
        for node in page.xpath("//div[@class='footnote' and @id]|//aside[contains(@class,'footnote') and @id]"):
            self.footnotes[node.get("id")] = self.text_of_children(node)
            node.drop_tree()
        for node in page.xpath("//dl[contains(@class,'footnote')]/dt[@id]"):
            note = node.getnext()
            self.footnotes[node.get("id")] = f"{self.text_of_children(node)} {self.text_of_children(note)}"
            note.drop_tree()
            node.drop_tree()
        for node in page.xpath("//h5[.//a[starts-with(@id,'FOOT') or starts-with(@name,'FOOT')]]"):
            name = node.xpath(".//a/@id|.//a/@name")[0]
            texts = [self.text_of_children(node)]
            while (follower := node.getnext()) is not None and follower.tag != "h5":
                texts.append(self.text_of_children(follower))
                follower.drop_tree()
            node.drop_tree()
            self.footnotes[name] = " ".join(texts)

    def text_of(self, node: Any) -> str:
        """All text inside a node that is not hidden, on one line."""
        inner = Walk()
        inner.walk(node)
        inner.flush()
        return " ".join(inner.current.lines)

    def walk(self, node: Any) -> None:
        tag = node.tag
        if not isinstance(tag, str) or tag in HIDDEN or DROPPED.search(node.get("class") or ""):
            return
        if tag == "table" and (node.get("summary") or "").startswith("Navigation"):
            return
        if re.fullmatch("h[1-6]", tag):
            self.flush()
            title = self.text_of_children(node)
            if title:
                self.chapters.append(self.current)
                self.current = Chapter(title, [title], ["heading"], level=int(tag[1]))
            return
        if tag == "pre":
            self.flush()
            for line in "".join(node.itertext()).splitlines():
                self.buffer.append(line)
                self._flush_as("code")
            return
        if tag == "table" and not _is_layout(node):
            self.table(node)
            return
        kind = _kind_of(node)
        if tag in BLOCKS:
            self.flush()
        before, self.kind = self.kind, kind or self.kind
        target = (node.get("href") or "#").split("#")[-1] if tag == "a" else ""
        if target in self.footnotes and target not in self.cited:
            self.cited.append(target)
        if tag == "br":
            self.buffer.append(" ")
        self.children(node)
        if tag in BLOCKS:
            self.flush()
        if kind:
            self.kind = before

    def _flush_as(self, kind: str) -> None:
        before, self.kind = self.kind, kind
        self.flush()
        self.kind = before

    def children(self, node: Any) -> None:
        self.buffer.append(node.text or "")
        for child in node:
            self.walk(child)
            self.buffer.append(child.tail or "")

    def text_of_children(self, node: Any) -> str:
        inner = Walk()
        inner.children(node)
        inner.flush()
        return " ".join(inner.current.lines)

    def table(self, node: Any) -> None:
        self.flush()
        rows: list[list[str]] = []
        for part in node.xpath("./caption"):
            self.buffer.append(self.text_of_children(part))
            self._flush_as("caption")
        for row in node.xpath(".//tr"):
            cells = [self.text_of_children(cell) for cell in row.xpath("./td|./th")]
            if any(cells):
                rows.append(cells)
                self.add(" | ".join(cells), "table")
        if len(rows) > 1:
            self.current.tables.append(rows)


def _parse(path: Path) -> Any:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    head = re.search(rb"charset=[\"']?([\w-]+)|encoding=\"([\w-]+)\"", raw[:3000])
    name = (head.group(1) or head.group(2)).decode() if head else "utf-8"
    raw = LATEX2HTML.sub(b"", raw)
    return lxml.html.document_fromstring(
        raw.decode(name, "replace").encode(), parser=lxml.html.HTMLParser(encoding="utf-8")
    )


def _chain(first: Path) -> list[Path]:
    """The files of a manual in reading order: `rel=next` links from the first one, else that file alone."""
    if "?" in first.name or "*" in first.name:
        files = [path for path in first.parent.glob(first.name) if not re.search(r"_mj|chap0|Ind\.", path.name)]
        return sorted(
            files, key=lambda path: [int(n) if n else 999 for n in re.findall(r"\d*", path.stem)[-2:-1]] or [999]
        )
    listed = _parse(first).xpath("//*[@id='SEC_Contents' or contains(@class,'contents')]//a/@href")
    names = list(dict.fromkeys(link.split("#")[0] for link in listed if link.split("#")[0]))
    if len(names) > 5:
        return [first.parent / name for name in names if (first.parent / name).is_file()]
    seen: list[Path] = []
    at: Path | None = first
    while at is not None and at.is_file() and at not in seen:
        seen.append(at)
        page = _parse(at)
        links = (
            page.xpath("//link[@rel='next' or @rel='NEXT']/@href")
            or page.xpath("//a[@rel='next']/@href")
            or page.xpath("//a[@accesskey='n' or @accesskey='N']/@href")
        )
        at = (at.parent / links[0].split("#")[0]) if links and links[0].split("#")[0] else None
    return seen


def chapters_of(first: Path) -> list[Chapter]:
    """Every heading of a manual with the text up to the next heading."""
    walk = Walk()
    for path in _chain(first):
        page = _parse(path)
        walk.take_footnotes(page)
        main = page.xpath("//div[@role='main']|//div[@class='body']|//div[@itemprop='articleBody']|//body")
        narrow = [node for node in main if node.tag != "body"]
        node = narrow[0] if narrow else main[0]
        for child in node:
            walk.walk(child)
            walk.buffer.append(child.tail or "")
        walk.flush()
    walk.chapters.append(walk.current)
    return walk.chapters


def _squeezed(text: str) -> str:
    """Letters and digits only, so that numbering, ligatures and spaces of two formats compare."""
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())


LABEL = re.compile(r"^\s*(?:第\s*\d+\s*章|[^\W\d_]+\s+(?:\d+|[A-Z])\b[.:]?|\d+(?:\.\d+)*\.?|[A-Z](?:\.\d+)*\.)\s*")


def _title(text: str) -> str:
    return _squeezed(LABEL.sub("", text)) or _squeezed(text)


def _same(one: str, other: str) -> bool:
    """Whether two titles are equal, or differ by a label such as "Appendix A" only."""
    return one == other or (min(len(one), len(other)) > 5 and (one.endswith(other) or other.endswith(one)))


def _from_pages(heads: list[str], chapters: list[Chapter]) -> list[tuple[str, int, int]]:
    """In place of bookmarks: headings that are the first thing on a page, in order."""
    found: list[tuple[str, int, int]] = []
    page = len(heads)
    for chapter in reversed(chapters):
        title = _squeezed(chapter.title)
        if chapter.level <= 2 and len(title) > 4:
            at = next((i for i in range(page - 1, -1, -1) if 0 <= heads[i].find(title) < 12), None)
            if at is not None:
                found.append((chapter.title, at, 0))
                page = at
    return found[::-1]


def _bookmarks(pdf: Any) -> list[tuple[str, int, int]]:
    found = []
    for entry in pdf.get_toc(max_depth=3):
        dest = entry.get_dest()
        page = dest.get_index() if dest else None
        if page is not None:
            found.append((entry.get_title(), page, entry.level))
    return found


def _cuts(
    marks: list[tuple[str, int, int]], heads: list[str], chapters: list[Chapter], deepest: int
) -> list[tuple[int, int]]:
    """Pages on which a chapter begins, each with its heading's place in the HTML, or -1 if that has no such heading."""
    cuts: list[tuple[int, int]] = []
    titles = [_title(chapter.title) for chapter in chapters]
    at = 0
    for title, page, level in marks:
        wanted = _title(title)
        if level > deepest or len(wanted) < 2:
            continue
        exact = [i for i in range(at, len(chapters)) if titles[i] == wanted]
        place = next(iter(exact or (i for i in range(at, len(chapters)) if _same(titles[i], wanted))), -1)
        position = heads[page].find(wanted)
        # Running heads stand before the title of a chapter; before that of a section there is at most a number.
        if place >= 0:
            at = place + 1
        if 0 <= position < (80 if level == 0 else 45) and (not cuts or page > cuts[-1][0]):
            cuts.append((page, place))
    return cuts


def rows_of(manual: PdfManual, packages: Path, out: Path) -> list[dict[str, Any]]:
    """The rows of one manual: ranges of pages with their gold text."""
    source = packages / manual.pdf
    path = source
    if source.suffix == ".gz":
        path = out / "pdf" / (manual.family + "." + source.name.removesuffix(".gz"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.decompress(source.read_bytes()))
    pdf = pypdfium2.PdfDocument(path)
    number = len(pdf)
    texts = [pdf[i].get_textpage().get_text_range() for i in range(number)]
    heads = [_squeezed(text[:600])[:400] for text in texts]
    chapters = chapters_of(packages / manual.html)
    marks = _bookmarks(pdf) or _from_pages(heads, chapters)
    cuts = _cuts(marks, heads, chapters, 0)
    if sum(place >= 0 for _, place in cuts) < 4:
        cuts = _cuts(marks, heads, chapters, 1)
    rows: list[dict[str, Any]] = []
    for i, (page, place) in enumerate(cuts):
        if place < 0:
            continue
        end_page = cuts[i + 1][0] if i + 1 < len(cuts) else number
        if end_page < number and cuts[i + 1][1] < 0 and any(p >= 0 for _, p in cuts[i + 1 :]):
            continue
        after = cuts[i + 1][1] if i + 1 < len(cuts) and cuts[i + 1][1] >= 0 else len(chapters)
        part = chapters[place:after]
        text = "\n".join(line for chapter in part for line in chapter.lines)
        gold = Counter(words(text))
        pages = Counter(words("\n".join(texts[page:end_page])))
        shared = sum((gold & pages).values())
        total, on_pages = sum(gold.values()), sum(pages.values())
        if total < FEWEST_WORDS or end_page - page > MOST_PAGES:
            continue
        if shared < LEAST_SHARE * total or shared < LEAST_SHARE * on_pages:
            print(f"  left out: {path.name} {page}-{end_page - 1} {part[0].title!r}: {shared} of {total}, {on_pages}")
            continue
        rows.append(
            {
                "pdf": str(path.resolve()),
                "pages": [page, end_page - 1],
                "text": text,
                "kinds": [kind for chapter in part for kind in chapter.kinds],
                "tables": [table for chapter in part for table in chapter.tables],
                "footnotes": [note for chapter in part for note in chapter.footnotes],
                "language": manual.language,
                "title": part[0].title,
                "source": manual.html,
                "license": manual.license,
            }
        )
    covered = sum(r["pages"][1] - r["pages"][0] + 1 for r in rows)
    print(
        f"{manual.family} {manual.language} {path.name}: {len(rows)} chapters, {covered} of {number} pages", flush=True
    )
    return rows


def write(packages: Path, out: Path, only: str = "") -> None:
    """Writes the rows of every manual whose package is there."""
    families: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for manual in manuals():
        if only and only not in (manual.family, manual.part):
            continue
        if (packages / manual.pdf).exists():
            families.setdefault((manual.part, manual.family), []).extend(rows_of(manual, packages, out))
        else:
            print(f"absent: {manual.pdf}")
    for (part, family), rows in families.items():
        folder = out / part
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{family}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


if __name__ == "__main__":
    logging.getLogger("pypdfium2").setLevel(logging.ERROR)
    write(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:4])
