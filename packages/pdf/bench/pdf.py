"""Text of PDF files: accuracy against the same document in another format, and pages per second, next to five tools.

`--data` names a folder of gold rows: JSON lines with `pdf`, `pages` (first and last), `language`, `text`, `tables` and
`footnotes`, one for each chapter of manuals that exist as PDF and as HTML. Each file is a set, a family of manuals.
Neighbouring chapters are joined to documents of at least DOCUMENT_PAGES pages, and PAGES pages of each set are read:
every tool gets the same small PDF files. Ours is a recipe with `format: pdf`, run by `gristmill run` with one worker.
The peers run in the Python that BENCH_PDF_PYTHON names, with `pdf-inspector docling-parse pdfminer.six pypdfium2`, and
PDFTOTEXT is the command of poppler.

- Word F1: both texts as multisets of words; Han and Kana by character. Punctuation does not count.
- Order errors: the runs of ANCHOR_WORDS words that occur once in the gold text and once in the output, in the order of
  the gold text. The error is the share of them that must move, so that the rest is in the right order. Footnotes
  do not count: formats put them after the paragraph, the page or the chapter.
- Cells F1: table cells as multisets of (normalised) texts, over documents whose gold text has tables. A tool's cells
  are those of its Markdown rows, so a tool without tables has none.

Scores are means over the documents of a set. Without `--data`, the documents are made up.
"""

import bisect
import hashlib
import json
import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pypdfium2
import yaml
from bench._pdf_make import made_up
from bench._pdf_peers import TOOLS
from bench.inputs import measurement, scratch
from bench.pipeline import timed

import gristmill
from gristmill.errors import UserError

PAGES = int(os.environ.get("PAGES", "150"))
"""How many pages of each set are read, about."""
DOCUMENT_PAGES = 20
ANCHOR_WORDS = 5
WORST = int(os.environ.get("WORST", "0"))
"""How many of our worst documents are printed to stderr."""
_WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_WORD = re.compile(f"[{_WIDE}]|[^\\W_{_WIDE}]+")
_ROW = re.compile(r"^\s*\|(.*)\|\s*$", re.M)
SMALL: dict[str, object] = {}
"""The constants that set its size, for its test."""


@dataclass
class PdfSample:
    """A small PDF file with its gold text."""

    set: str
    file: Path
    pages: int
    text: str
    tables: list[list[list[str]]] = field(default_factory=list)
    footnotes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ToolScores:
    """How well one tool reads one document."""

    f1: float
    order: float
    cells: float | None


def words(text: str) -> list[str]:
    """Runs of letters and digits; Han, Kana and Hangul by character."""
    return _WORD.findall(unicodedata.normalize("NFKC", text))


def f1(gold: Counter[str], found: Counter[str]) -> float:
    shared = sum((gold & found).values())
    return 2 * shared / max(sum(gold.values()) + sum(found.values()), 1)


def order_errors(gold: Sequence[str], found: Sequence[str]) -> float:
    """The share of anchors that must move."""
    places = [_once(gold), _once(found)]
    ranks = [places[1][anchor] for anchor in places[0] if anchor in places[1]]
    tails: list[int] = []
    for rank in ranks:  # the longest increasing subsequence stays
        at = bisect.bisect_left(tails, rank)
        tails[at : at + 1] = [rank]
    return 1 - len(tails) / len(ranks) if ranks else float(bool(places[0]))


def _once(tokens: Sequence[str]) -> dict[tuple[str, ...], int]:
    """The runs of words that occur once, with their place, in order."""
    runs = [tuple(tokens[at : at + ANCHOR_WORDS]) for at in range(len(tokens) - ANCHOR_WORDS + 1)]
    counts = Counter(runs)
    return {run: at for at, run in enumerate(runs) if counts[run] == 1}


def cells_of(markdown: str) -> Counter[str]:
    """The cells of Markdown rows."""
    rows = (re.split(r"(?<!\\)\|", row) for row in _ROW.findall(markdown))
    return _cells(cell for row in rows for cell in row)


def _cells(texts: Any) -> Counter[str]:
    return Counter(filter(None, (" ".join(words(text)) for text in texts)))


def score(sample: PdfSample, text: str) -> ToolScores:
    gold, found = words(sample.text), words(text)
    cells = None
    if sample.tables:
        cells = f1(_cells(cell for table in sample.tables for row in table for cell in row), cells_of(text))
    ordered = words("\n".join(line for line in sample.text.split("\n") if line not in sample.footnotes))
    return ToolScores(f1(Counter(gold), Counter(found)), order_errors(ordered, found), cells)


def run(data: Path | None) -> Iterator[dict[str, Any]]:
    with scratch() as folder:
        samples = list(made_up(folder)) if data is None else list(_samples(data, folder))
        pages = sum(sample.pages for sample in samples)
        mine, cpu_s = ours(samples, folder)
        results = {name: peer(name, samples) for name in TOOLS}
        scores = {"ours": [score(*pair) for pair in zip(samples, mine, strict=True)]}
        for name, result in results.items():
            if result is not None:
                scores[name] = [score(*pair) for pair in zip(samples, result[0], strict=True)]
        _print_worst(samples, scores)
    for name, result in results.items():
        unit = f"pages per CPU second, {pages:,} pages"
        yield measurement("pdf.speed", pages / cpu_s, unit, name, result and pages / result[1])
    for what, less in (("f1", False), ("order", True), ("cells", False)):
        tables = {name: _by_set(samples, of, what) for name, of in scores.items()}
        for group, value in tables["ours"].items():
            for name in TOOLS:
                theirs = tables[name].get(group) if name in tables else None
                yield measurement(f"pdf.{what}_{group}", value, f"{what}, mean of documents", name, theirs, less)


def _by_set(samples: Sequence[PdfSample], scores: Sequence[ToolScores], what: str) -> dict[str, float]:
    """The mean of each set, and the mean of the sets."""
    groups: dict[str, list[float]] = {}
    for sample, one in zip(samples, scores, strict=True):
        if (value := getattr(one, what)) is not None:
            groups.setdefault(sample.set, []).append(value)
    means = {name: sum(values) / len(values) for name, values in groups.items()}
    if means:
        means["mean"] = sum(means.values()) / len(means)
    return means


def _samples(data: Path, folder: Path) -> Iterator[PdfSample]:
    files = sorted(data.glob("**/*.jsonl"))
    if not files:
        raise UserError(f"{data} has no JSONL files with gold text.")
    for file in files:
        documents = _joined([json.loads(line) for line in file.read_text().splitlines()])
        left = PAGES
        in_order = sorted(documents, key=lambda rows: hashlib.sha256(_name(rows).encode()).digest())
        for number, rows in enumerate(in_order):
            first, last = rows[0]["pages"][0], rows[-1]["pages"][1]
            if left <= 0:
                break
            left -= last - first + 1
            target = folder / "pdf" / f"{file.stem}-{number}-{_name(rows)}.pdf"
            target.parent.mkdir(exist_ok=True)
            part = pypdfium2.PdfDocument.new()
            part.import_pages(pypdfium2.PdfDocument(rows[0]["pdf"]), list(range(first, last + 1)))
            part.save(target)
            text = "\n".join(row["text"] for row in rows)
            tables = [table for row in rows for table in row["tables"]]
            notes = frozenset(note for row in rows for note in row["footnotes"])
            yield PdfSample(file.stem, target, last - first + 1, text, tables, notes)


def _name(rows: Sequence[dict[str, Any]]) -> str:
    path = Path(rows[0]["pdf"])
    return f"{path.parts[-3] if path.stem == 'manual' else path.stem}-{rows[0]['language']}-{rows[0]['pages'][0]}"


def _joined(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Chapters one after the other, as documents of at least DOCUMENT_PAGES pages where there are so many."""
    found: list[list[dict[str, Any]]] = []
    for row in rows:
        last = found[-1] if found else None
        follows = last is not None and last[-1]["pdf"] == row["pdf"] and last[-1]["pages"][1] + 1 == row["pages"][0]
        if last is not None and follows and last[-1]["pages"][1] - last[0]["pages"][0] + 1 < DOCUMENT_PAGES:
            last.append(row)
        else:
            found.append([row])
    return found


def ours(samples: Sequence[PdfSample], folder: Path) -> tuple[list[str], float]:
    """Our texts, and CPU seconds without the start of a run, which one more run over a single file measures."""
    taken = []
    for name, some in (("warm", samples[:1]), ("few", samples[:1]), ("all", samples)):  # the first compiles kernels
        files = [str(one.file) for one in some]
        recipe = {
            "recipe": name,
            "seed": 1,
            "sources": {"pdf": {"kind": "web", "domain": "pdf", "read": {"format": "pdf", "paths": files}}},
            "steps": {"web": []},
        }
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(recipe))
        command = [sys.executable, "-m", "gristmill", "run", str(path), "--store", str(folder / name), "--workers", "1"]
        done, cpu_s = timed(command)
        if done.returncode:
            raise UserError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
        taken.append(cpu_s)
    corpus = gristmill.open(str(folder / "all.yaml"), store=str(folder / "all"))
    rows = corpus.documents(kept=None, columns=["locator", "text"]).rows()
    texts = {Path(row["locator"].rpartition("#")[0]).name: row["text"] or "" for row in rows}
    missing = [one.file.name for one in samples if one.file.name not in texts]
    if missing:
        print(f"bench: no text from {', '.join(missing)}", file=sys.stderr)
    share = sum(one.pages for one in samples[1:]) / sum(one.pages for one in samples)
    return [texts.get(one.file.name, "") for one in samples], max(taken[2] - taken[1], 1e-3) / max(share, 1e-3)


def peer(name: str, samples: Sequence[PdfSample]) -> tuple[list[str], float] | None:
    """A peer's texts and CPU seconds; None if it is not installed."""
    python = os.environ.get("BENCH_PDF_PYTHON", sys.executable)
    command = [python, str(Path(__file__).with_name("_pdf_peers.py")), name]
    done = subprocess.run(command, input="\n".join(str(one.file) for one in samples), capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or len(answers) != len(samples) or not any(answer["text"] for answer in answers):
        return None
    return [answer["text"] for answer in answers], sum(answer["cpu_s"] for answer in answers)


def _print_worst(samples: Sequence[PdfSample], scores: dict[str, list[ToolScores]]) -> None:
    """Prints our worst documents, each with the best peer's scores."""
    peers = [of for name, of in scores.items() if name != "ours"]
    for at in sorted(range(len(samples)), key=lambda at: scores["ours"][at].f1)[:WORST]:
        best = max((of[at].f1 for of in peers), default=0.0)
        order = min((of[at].order for of in peers), default=1.0)
        one = scores["ours"][at]
        name = samples[at].file.name
        print(f"{one.f1:.3f} (best {best:.3f}) order {one.order:.3f} (best {order:.3f}) {name}", file=sys.stderr)
