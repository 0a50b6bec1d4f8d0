"""Gold text for documentation pages, taken from their own markup: `python -m bench._documentation_gold DATA OUT`.

Manuals come from a few generators whose markup shows where the main text of a page is, so their gold text is free. No
person has checked it, so it is for training and not for scores. Sets of news and weblogs alone would teach that short
entries, terms and code are not content. DATA has the WARC files and pages_index.jsonl.zst; OUT becomes a folder for
`gristmill extractor train`.
"""

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from backports import zstd
from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding
from resiliparse.parse.html import HTMLTree

_DOCBOOK = ("body", "div.navheader, div.navfooter, div.toc, dl.toc, table[summary^=Navigation]")
GENERATORS = {
    "apache2-doc": ("#page-content", "div.toplang, div.bottomlang, #quickview, #comments_section, div.top"),
    "installation-guide-amd64": _DOCBOOK,
    "debian-handbook": ("body", "ul.docnav, #title, #banner, div.toc, div.navheader, div.navfooter"),
    "postgresql-doc": _DOCBOOK,
    "aptitude-doc": _DOCBOOK,
    "libreoffice-help": ("#DisplayArea", "#DebugInfo, div.embeddedHelp, nav, .debug"),
    "python-django-doc": ("div.yui-g, #docs-content, div.body", "div.sphinxsidebar, #sidebar, a.headerlink, div.nav"),
    "lilypond-doc": ("#main", "table.nav_table, #tocframe, #footer, div.nav"),
}
"""For each package: the selector of the main text of its pages, and the parts of that to leave out."""
MOST_PAGES = 40
"""The most pages of one package, since pages of one generator look alike."""
FEWEST_WORDS = 30


def _generator(package: str) -> str:
    return next(name for name in GENERATORS if package.startswith(name))


def gold_of(html: str, package: str) -> str | None:
    """The main text of a page of a package's documentation, or None."""
    main, others = GENERATORS[_generator(package)]
    tree = HTMLTree.parse(html)
    root = tree.body.query_selector(main) if tree.body and main != "body" else tree.body
    if root is None:
        return None
    for node in root.query_selector_all(others):
        node.decompose()
    text: str = extract_plain_text(root.html, main_content=False, alt_texts=False)
    return text if len(text.split()) >= FEWEST_WORDS else None


def write(data: Path, out: Path) -> int:
    """Writes WARC files (links to those of DATA) and gold text; returns the number of pages."""
    index = (json.loads(line) for line in zstd.open(data / "warc" / "pages_index.jsonl.zst", "rt", encoding="utf-8"))
    wanted = {row["warc_record_id"]: row for row in index if row["group"].startswith("debian/")}
    taken: Counter[str] = Counter()
    (out / "warc").mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, Any]] = []
    for path in sorted((data / "warc").glob("*.warc.gz")):
        link = out / "warc" / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(path.resolve())
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
                row = wanted.get(record.record_id)
                if row is None:
                    continue
                package = row["group"].removeprefix("debian/")
                chosen = hashlib.sha256(record.record_id.encode()).digest()[0] < 100
                body = record.reader.read()
                html = bytes_to_str(body, record.http_charset or detect_encoding(body))
                text = gold_of(html, package) if chosen and taken[package] < MOST_PAGES else None
                if text:
                    taken[package] += 1
                    lines.append(
                        {
                            "warc_record_id": record.record_id,
                            "set": "documentation-weakgold",
                            "lang": row["lang"],
                            "url": f"https://{_generator(package)}.example/",
                            "text": text,
                        }
                    )
    (out / "gold.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(f"{len(lines)} pages: {', '.join(f'{name} {number}' for name, number in sorted(taken.items()))}")
    return len(lines)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
