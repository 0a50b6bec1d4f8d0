"""What is kept of a MediaWiki dump, and how fast: `python -m bench._wiki_text DUMP.xml`, next to installed peers.

wtf_wikipedia is a package of npm: NODE_PATH names the folder in which it is installed.

Counts the numbers of {{convert}} and {{formatnum}} and the formulas of <math> that are in the text, and the lines
without markup. Speed is CPU time on one core, for ours of the whole reader and XML, the best of five
runs, for peers of wikitext only.
"""

import html
import importlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gristmill.stages.contract import Piece
from gristmill_formats import mediawiki

_SKIPPED = re.compile(r"<!--.*?-->|<ref\b[^<>]*?/>|<ref\b.*?</ref>", re.DOTALL)
_PICTURE = re.compile(r"\[\[(?:File|Image):(?:[^\[\]]|\[\[[^\[\]]*\]\])*\]\]")
_MEASURE = re.compile(r"\{\{\s*(?:convert|cvt)\s*\|([^{}]*)\}\}|\{\{\s*formatnum:([^{}]*)\}\}", re.IGNORECASE)
_MATH = re.compile(r"<math[^>/]*>(.*?)</math>", re.DOTALL | re.IGNORECASE)
_MARKUP = re.compile(r"\[\[|\]\]|\{\{|\}\}|\{\||\|\}|</?[a-z]+[ >/]|'''|^\||^!|^==|\|-|&[a-z]+;|__[A-Z]+__")
PEERS: dict[str, Callable[[str], str]] = {
    "gensim": lambda source: importlib.import_module("gensim.corpora.wikicorpus").filter_wiki(source),
    "mwparserfromhell": lambda source: str(importlib.import_module("mwparserfromhell").parse(source).strip_code()),
}


_NODE = """
const wtf = require("wtf_wikipedia"), pages = JSON.parse(require("fs").readFileSync(0))
const start = process.cpuUsage(), texts = pages.map((page) => wtf(page).text()), used = process.cpuUsage(start)
process.stdout.write(JSON.stringify({texts, seconds: (used.user + used.system) / 1e6}))
"""


def outside_boxes(source: str) -> str:
    """The wikitext without references, pictures, and templates inside templates."""
    depth, found = 0, []
    for token in re.split(r"(\{\{|\}\})", _SKIPPED.sub("", source)):
        depth += token == "{{"
        found += [token] if depth <= 1 else []
        depth -= token == "}}"
    return _PICTURE.sub("", "".join(found))


def kept(source: str, text: str) -> list[int]:
    """Numbers kept and all, formulas kept and all, clean lines and all."""
    numbers = [re.search(r"\d[\d.,/]*", found[1] or found[2]) for found in _MEASURE.finditer(outside_boxes(source))]
    formulas = [" ".join(html.unescape(found[1]).split()) for found in _MATH.finditer(_SKIPPED.sub("", source))]
    flat = " ".join(text.split())
    lines = [line for line in re.sub(r"\$[^$\n]*\$", "", text).split("\n") if line.strip()]
    return [
        sum(found[0].rstrip(".,/") in text for found in numbers if found),
        sum(found is not None for found in numbers),
        sum(formula in flat for formula in formulas),
        len(formulas),
        sum(not _MARKUP.search(line) for line in lines),
        len(lines),
    ]


def show(name: str, size_bytes: int, seconds: float, counts: list[list[int]]) -> None:
    numbers, all_numbers, formulas, all_formulas, clean, lines = map(sum, zip(*counts, strict=True))
    print(
        f"{name}: {size_bytes / seconds / 1e6:.1f} MB/s, numbers {numbers}/{all_numbers}, "
        f"formulas {formulas}/{all_formulas}, clean lines {clean}/{lines}"
    )


def main(path: str) -> None:
    pages = [
        one for _, _, one in mediawiki._pages(iter([(0, Path(path).read_bytes())]), 1 << 30) if isinstance(one, bytes)
    ]
    sources = {str(mediawiki._field(page, "title")): mediawiki._unescaped(mediawiki._text(page)) for page in pages}
    seconds = float("inf")
    for _ in range(5):
        start = time.process_time()
        rows = list(mediawiki.read(Piece(path, path), mediawiki.Config()))
        seconds = min(seconds, time.process_time() - start)
    ours = {str(row.title): str(row.text) for row in rows if row.text}
    show("gristmill", Path(path).stat().st_size, seconds, [kept(sources[title], text) for title, text in ours.items()])
    wanted = [sources[title] for title in ours]
    for peer, convert in PEERS.items():
        try:
            convert("x")
        except ImportError:
            continue
        start = time.process_time()
        found = [convert(source) for source in wanted]
        seconds = time.process_time() - start
        counts = [kept(source, text) for source, text in zip(wanted, found, strict=True)]
        show(peer, sum(len(source.encode()) for source in wanted), seconds, counts)
    if os.environ.get("NODE_PATH"):
        answer = json.loads(
            subprocess.run(
                ["node", "-e", _NODE], input=json.dumps(wanted).encode(), capture_output=True, check=True
            ).stdout
        )
        counts = [kept(source, text) for source, text in zip(wanted, answer["texts"], strict=True)]
        show("wtf_wikipedia", sum(len(source.encode()) for source in wanted), answer["seconds"], counts)


if __name__ == "__main__":
    main(sys.argv[1])
