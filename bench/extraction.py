"""How much of the main text we keep, and how little else, against pages with hand-made gold text.

For sets with full gold text the score is the F1 of the bags of words (Chinese, Japanese and Korean by character), mean
over pages. For the set with segments it is the share of segments that are rightly present or rightly absent. The peer
is trafilatura through the same stage, set for precision; it takes some minutes.
"""

import importlib.util
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import zstandard
from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from gristmill.stages.extract import extract

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORDS = re.compile(f"[{_CJK}]|[^\\W{_CJK}]+")


def run(data: Path | None) -> Iterator[dict[str, Any]]:
    """A row for each set of gold pages: our score, and trafilatura's where it is installed."""
    if data is None or not (gold := data / "gold" / "extraction_gold.jsonl.zst").exists():
        yield _row("extraction: skipped, needs a data folder with gold/ and warc/", None, None)
        return
    golds = [json.loads(line) for line in zstandard.open(gold, "rt", encoding="utf-8", newline="\n")]
    pages = _pages(data / "warc", {gold["warc_record_id"] for gold in golds})
    ours = _scores(golds, pages, _extract_with("resiliparse"))
    installed = importlib.util.find_spec("trafilatura") is not None
    peers = _scores(golds, pages, _extract_with("trafilatura")) if installed else {}
    for name, scores in sorted(ours.items()):
        yield _row(f"extraction: {name}, {len(scores)} pages", fmean(scores), fmean(peers[name]) if peers else None)
    together = [
        fmean(score for scores in sets.values() for score in scores) if sets else None for sets in (ours, peers)
    ]
    yield _row(f"extraction: all, {len(golds)} pages", *together)


def _row(name: str, value: float | None, peer_value: float | None) -> dict[str, Any]:
    ratio = value / peer_value if value is not None and peer_value else None
    peer = "trafilatura" if peer_value is not None else None
    return {"name": name, "value": value, "unit": "F1", "peer": peer, "peer_value": peer_value, "ratio": ratio}


def _pages(folder: Path, wanted: set[str]) -> dict[str, str]:
    pages = {}
    for path in sorted(folder.glob("pages-*.warc.gz")):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
                if record.record_id in wanted:
                    body = record.reader.read()
                    pages[record.record_id] = bytes_to_str(body, record.http_charset or detect_encoding(body))
    return pages


def _extract_with(tool: str) -> Callable[[list[str]], list[str]]:
    config = extract.Config.model_validate({"tool": tool})

    def texts(pages: list[str]) -> list[str]:
        absent = pa.nulls(len(pages), pa.string())
        columns = [pa.array(pages, pa.string()), absent, absent, absent]
        result = extract.apply(pa.RecordBatch.from_arrays(columns, names=list(extract.READS)), config)
        return [text or "" for text in result.column("text").to_pylist()]

    return texts


def _scores(
    golds: list[dict[str, Any]], pages: dict[str, str], texts: Callable[[list[str]], list[str]]
) -> dict[str, list[float]]:
    scores: dict[str, list[float]] = {}
    found = texts([pages[gold["warc_record_id"]] for gold in golds])
    for gold, text in zip(golds, found, strict=True):
        score = _f1(text, gold["text"]) if "text" in gold else _segments(text, gold["must_have"], gold["must_not"])
        scores.setdefault(gold["set"], []).append(score)
    return scores


def _f1(text: str, gold: str) -> float:
    found, wanted = (Counter(_WORDS.findall(side.lower())) for side in (text, gold))
    total = found.total() + wanted.total()
    return 2 * (found & wanted).total() / total if total else 1.0


def _segments(text: str, present: list[str], absent: list[str]) -> float:
    flat = " ".join(text.split())
    right = [" ".join(segment.split()) in flat for segment in present]
    right += [" ".join(segment.split()) not in flat for segment in absent]
    return fmean(right) if right else 1.0
