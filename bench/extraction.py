"""How much of the main text we keep, and how little else, against pages with hand-made gold text.

Scored as `gristmill extractor evaluate` does it (query/gold_scores.py), by set and over all pages. The peer is
trafilatura through the same stage, set for precision; it takes some minutes.
"""

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gristmill.query.extractors import TRIMMED, evaluate
from gristmill.query.gold import read_gold
from gristmill.query.gold_scores import mean


def run(data: Path | None) -> Iterator[dict[str, Any]]:
    """A row for each set of gold pages: our score, and trafilatura's where it is installed."""
    if data is None or not (data / "gold").is_dir():
        yield _row("extraction: skipped, needs a data folder with gold/ and warc/", None, None)
        return
    pages = read_gold(data)
    tools = ["resiliparse", *(["trafilatura"] if importlib.util.find_spec("trafilatura") else [])]
    results = {one.tool: one for one in evaluate(pages, tools, None, _Silent())}
    ours, peer = results[TRIMMED], results.get("trafilatura")
    for name, scores in ours.sets().items():
        its = mean(peer.sets()[name]).value if peer else None
        yield _row(f"extraction: {name}, {len(scores)} pages", mean(scores).value, its)
    together = [mean(one.scores).value if one else None for one in (ours, peer)]
    yield _row(f"extraction: all, {len(pages)} pages", *together)


class _Silent:
    def promise(self, name: str, total: int) -> None:
        pass

    def walk(self, name: str, items: Iterable[Any]) -> Iterator[Any]:
        yield from items


def _row(name: str, value: float | None, peer_value: float | None) -> dict[str, Any]:
    ratio = value / peer_value if value is not None and peer_value else None
    peer = "trafilatura" if peer_value is not None else None
    return {"name": name, "value": value, "unit": "F1", "peer": peer, "peer_value": peer_value, "ratio": ratio}
