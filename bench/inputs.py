"""The input data of benches: a folder that the user names, or generated data."""

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from backports import zstd

from demo import build
from gristmill.schema import Record, as_str
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import warc

DEMO_SCALE = 1.0
"""The scale of the demo's crawl, if a bench generates one."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is deleted afterwards."""
    with TemporaryDirectory(prefix="gristmill-bench-") as folder:
        yield Path(folder)


def warc_files(data: Path | None, folder: Path) -> list[Path]:
    """The WARC files of the data folder, or the demo's crawl."""
    found = sorted(data.rglob("*.warc.gz")) if data else []
    if found:
        return found
    build(folder / "demo", scale=DEMO_SCALE)
    return sorted((folder / "demo" / "crawl").rglob("*.warc.gz"))


def web_pages(data: Path | None, folder: Path) -> list[Record]:
    """The pages of those files, decoded."""
    files = warc_files(data, folder)
    records = (record for path in files for record in warc.read(Piece(str(path), path.name), warc.Config()))
    found = []
    for record in records:
        if record.html is not None and record.drop is None:
            record.html = as_str(record.html)
            found.append(record)
    return found


def spread(pages: Sequence[Record], most: int) -> list[Record]:
    """At most `most` of the pages, evenly spaced."""
    count = min(most, len(pages))
    return [pages[number * len(pages) // count] for number in range(count)]


def texts(data: Path | None, limit_bytes: int) -> list[str]:
    """Texts of a JSONL file or a folder of them, or the reference prose that comes with Python, up to a total size."""
    found: list[str] = []
    size = 0
    for text in _texts(data):
        found.append(text)
        size += len(text.encode())
        if size >= limit_bytes:
            break
    return found


def _texts(data: Path | None) -> Iterator[str]:
    paths = () if data is None else [data] if data.is_file() else sorted(data.rglob("*.jsonl*"))
    for path in paths:
        stream = gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
        if path.suffix == ".zst":
            stream = zstd.open(stream)
        with stream:
            for line in stream:
                record = json.loads(line)
                if isinstance(record, dict) and isinstance(record.get("text"), str):
                    yield record["text"]
    if data is None:
        yield from made_up_texts()


def made_up_texts(seed: int = 0) -> Iterator[str]:
    """Endless prose: paragraphs of Python's own documentation in random order, so that documents differ."""
    from pydoc_data import topics

    paragraphs = [part for text in topics.topics.values() for part in text.split("\n\n") if len(part) > 80]
    draw = random.Random(seed)
    while True:
        yield "\n\n".join(draw.choices(paragraphs, k=draw.randint(2, 20)))


def measurement(
    name: str, value: float, unit: str, peer: str | None = None, peer_value: float | None = None, less: bool = False
) -> dict:
    """One line of output. With `less`, a smaller value is better. NumPy numbers become plain ones for JSON."""
    value, ratio = float(value) if not isinstance(value, int) else value, None
    if peer_value is not None and (value if less else peer_value):
        ratio = peer_value / value if less else value / peer_value
    return {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value, "ratio": ratio}
