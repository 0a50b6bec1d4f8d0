"""WARC to documents in Parquet, against a bare loop of fastwarc and resiliparse over the same files on one core.

The bare loop parses records, decodes them, extracts main content and stores nothing. Ours does that and also accounts
for every record, checks and hashes inputs, normalises text, stores markup and text as Parquet, and writes records of
its tasks. Both run in one process and are measured in CPU time, so that both have the same core and a busy machine does
not matter. Ours extracts with the step's default tool. `ratio` is bare time over our time.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding
from resiliparse.parse.html import HTMLTree

from bench.inputs import measurement, scratch, warc_files
from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Mill, Silent
from gristmill.recipe.load import load

ROUNDS = 3
MOST_DIVS = 10_000
"""The most `div` elements of a page that the bare loop reads. The demo plants a page of 50,000 nested ones, which would
take the loop minutes; ours refuses it.
"""


def run(data: Path | None) -> Iterable[dict]:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with scratch() as folder:
        files = warc_files(data, folder)
        recipe = folder / "recipe.yaml"
        paths = ", ".join(f'"{path.resolve()}"' for path in files)
        recipe.write_text(
            f"recipe: bench\nsources:\n  crawl: {{kind: web, read: {{format: warc, paths: [{paths}]}}}}\n"
            "steps:\n  web: [extract]\n"
        )
        ours_of(recipe, folder / "warm")
        bare, ours = [], []
        for number in range(ROUNDS):
            bare.append(bare_loop(files))
            ours.append(ours_of(recipe, folder / f"store{number}"))
        pages, html_bytes, bare_s = min(bare, key=lambda entry: entry[2])
        yield measurement(
            "ingest.warc_to_parquet",
            html_bytes / min(ours) / 1e6,
            "MB/s of HTML",
            "bare fastwarc + resiliparse",
            html_bytes / bare_s / 1e6,
        )
        yield measurement("ingest.cost_of_bare_loop", min(ours) / bare_s, "x (goal: below 1)")
        yield measurement("ingest.pages", pages, "pages")


def bare_loop(files: list[Path]) -> tuple[int, int, float]:
    """Returns the number of pages, bytes of HTML and seconds."""
    pages = html_bytes = 0
    begun = time.process_time()
    for charset, body in (page for path in files for page in bodies(path)):
        html = bytes_to_str(body, charset or detect_encoding(body))
        if len(html) > 10_000_000 or html.count("<div>") > MOST_DIVS:
            continue
        tree = HTMLTree.parse(html)
        extract_plain_text(tree, main_content=True)
        pages += 1
        html_bytes += len(html.encode())
    return pages, html_bytes, time.process_time() - begun


def bodies(path: Path) -> Iterator[tuple[str | None, bytes]]:
    """Charset and bytes of the pages of a file, up to where it can be read: the demo plants truncated files."""
    with suppress(OSError):
        for record in ArchiveIterator(str(path), record_types=WarcRecordType.response, parse_http=True):
            if record.http_headers is None or record.http_headers.status_code != 200:
                continue
            if "html" in (record.http_content_type or ""):
                yield record.http_charset, record.reader.read()


def ours_of(recipe: Path, store: Path) -> float:
    """Seconds of the whole run in this process."""
    begun = time.process_time()
    mill = Mill(load(recipe, store=str(store)))
    mill.executor = lambda *_: InlineExecutor(mill.store)  # type: ignore[method-assign]
    mill.run(1, Silent())
    return time.process_time() - begun
