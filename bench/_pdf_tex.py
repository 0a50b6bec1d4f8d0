"""Gold text for PDF files from their TeX sources: `python -m bench._pdf_tex PACKAGES OUT`.

PACKAGES holds one folder for each unpacked Debian package (`dpkg -x`), such as texlive-publishers-doc, whose documents
exist as PDF and as TeX. pandoc turns the source to HTML, which is read like that of a manual (bench/_pdf_gold.py), so
no reader of ours judges. OUT/{tex-train,tex-test}/SET.jsonl has a row for each document of at most MOST_PAGES pages:
`papers` have two columns, the other sets are the Debian packages. All documents of one TeX package are in the same
part, which the hash of its name tells. Documents are left out when fewer than LEAST_SHARE of the words of one format
are in the other: pandoc does not run the macros of a class.
"""

import gzip
import hashlib
import json
import logging
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lxml.html
import pypdfium2

from bench._pdf_gold import FEWEST_WORDS, MOST_PAGES, Walk
from bench._pdf_words import words

LEAST_SHARE = 0.8
PER_PACKAGE = 4
"""The most documents of one TeX package: many have a dozen versions of the same example."""
FLOATING = ("note", "table", "caption")
"""What TeX moves to another place does not count as an error of order."""
_SOURCE = re.compile(r"(.*)\.(?:tex|ltx)(?:\.gz)?$")
_COLUMNS = re.compile(r"twocolumn|IEEEtran|sigconf|sigplan|acmtog|\\twocolumn|5p[,\]]|cas-dc|begin\{multicols\}\{2\}")
_PACKAGE = re.compile(r"texlive-doc/[^/]+/([^/]+)")


def pairs(packages: Path) -> Iterator[tuple[str, str, Path, Path]]:
    """Debian package, TeX package, PDF file and source, in order."""
    sources: dict[tuple[str, str], Path] = {}
    for path in sorted(packages.glob("**/*")):
        if found := _SOURCE.match(path.name):
            sources.setdefault((_package(path, packages), found[1]), path)
    for path in sorted(packages.glob("**/*.pdf")):
        name = _package(path, packages)
        if source := sources.get((name, path.stem)):
            yield path.relative_to(packages).parts[0], name, path, source


def _package(path: Path, packages: Path) -> str:
    found = _PACKAGE.search(str(path))
    return found[1] if found else path.relative_to(packages).parts[0]


def html_of(source: Path) -> str:
    """The HTML that pandoc makes of a source in a copy of its folder, where no file is compressed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        ignored = shutil.ignore_patterns("*.pdf*", "*.eps*", "*.png", "*.jpg")
        shutil.copytree(source.parent, folder, ignore=ignored)
        for path in folder.glob("**/*.gz"):
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        main = folder / source.name.removesuffix(".gz")
        main.write_text(main.read_bytes().decode("utf-8", "replace"))
        command = ["timeout", "20", "pandoc", "+RTS", "-M1g", "-RTS", "-s", "-f", "latex", "-t", "html", main.name]
        return subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout.decode()


def row_of(pdf: Path, source: Path) -> dict[str, Any] | str:
    """The row of a document, or why there is none."""
    document = pypdfium2.PdfDocument(pdf)
    if len(document) > MOST_PAGES:
        return f"{len(document)} pages"
    try:
        page = lxml.html.document_fromstring(html_of(source).encode(), parser=lxml.html.HTMLParser(encoding="utf-8"))
    except (subprocess.CalledProcessError, lxml.etree.ParserError):
        return "pandoc has no text"
    walk = Walk()
    for node in page.xpath("//section[contains(@class,'footnotes')]//li[@id]"):
        walk.footnotes[node.get("id")] = walk.text_of_children(node)
        node.drop_tree()
    for part in page.xpath("//body/*"):
        walk.walk(part)
    walk.flush()
    chapters = [*walk.chapters, walk.current]
    lines = [line for chapter in chapters for line in chapter.lines]
    kinds = [kind for chapter in chapters for kind in chapter.kinds]
    gold = Counter(words("\n".join(lines)))
    there = Counter(words("\n".join(page.get_textpage().get_text_range() for page in document)))
    shared, least = sum((gold & there).values()), max(gold.total(), there.total())
    if min(gold.total(), there.total()) < FEWEST_WORDS or shared < LEAST_SHARE * least:
        return f"{shared} of {gold.total()} words, {there.total()} in the PDF"
    return {
        "pdf": str(pdf.resolve()),
        "pages": [0, len(document) - 1],
        "text": "\n".join(lines),
        "kinds": kinds,
        "tables": [table for chapter in chapters for table in chapter.tables],
        "footnotes": [line for line, kind in zip(lines, kinds, strict=True) if kind in FLOATING],
        "language": "",
        "title": pdf.stem,
        "source": str(source),
        "license": "as in the package's copyright file",
    }


def write(packages: Path, out: Path) -> None:
    taken: Counter[str] = Counter()
    for debian, name, pdf, source in pairs(packages):
        if taken[name] == PER_PACKAGE:
            continue
        try:
            row = row_of(pdf, source)
        except (pypdfium2.PdfiumError, OSError) as error:
            row = str(error)
        if isinstance(row, str):
            print(f"left out: {pdf.name}: {row}", flush=True)
            continue
        taken[name] += 1
        raw = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
        family = "papers" if _COLUMNS.search(raw.decode("utf-8", "replace")) else debian
        part = "tex-train" if hashlib.sha256(name.encode()).digest()[0] % 2 else "tex-test"
        folder = out / part
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{family}.jsonl").open("a") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    logging.getLogger("pypdfium2").setLevel(logging.ERROR)
    write(Path(sys.argv[1]), Path(sys.argv[2]))
