"""From WARC files to filtered, deduplicated documents: our whole web path against datatrove's, on the same files.

Ours are the steps of recipes/web.yaml that FineWeb also has, run by `gristmill run` with one worker: extraction,
language, signals, the rules of Gopher, C4 and FineWeb, and duplicates by URL, text and near similarity. datatrove's are
the blocks that made FineWeb, with trafilatura (_pipeline_datatrove.py), in the Python that BENCH_PIPELINE_PYTHON names.
That Python needs `datatrove[io,processing]`, spacy and lxml_html_clean. datatrove looks only for near duplicates. Both
use the language model lid.176.ftz.

Time is CPU time of all processes, with compiled kernels. The start of a run takes seconds in both, which matters for so
few pages but not for a real corpus. So a run over a few pages is measured as well, and the hours per TB are those of
the pages beyond these. `PAGES=3353` in the environment sets the number of pages (default 800), and
`EXTRACT=resiliparse` another extractor than the default.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from bench.inputs import measurement, scratch, spread, web_pages
from demo.warc import Response, write
from gristmill.engine.publish.run_record import newest_run
from gristmill.errors import UserError
from gristmill.recipe.load import load
from gristmill.schema import Record, as_str
from gristmill.stages.measure.language import built_in_model
from gristmill.store.store import Store

PAGES = int(os.environ.get("PAGES", "800"))
"""The pages are evenly spaced over all pages; datatrove processes about 13 per second."""
FEW = 40
"""The number of pages of the small run, which measures the start-up."""
FILES = 4
ROUNDS = 3
"""Our rounds, of which the best counts; datatrove has one."""
WARM_UPS = 1
"""Our rounds before those, which compile the kernels."""
EXTRACT = os.environ.get("EXTRACT")
STEPS = (
    *("extract", "language", "keep_language", "signals", "heuristics", "lines"),
    *("url_dedup", "exact_dedup", "near_dedup"),
)
"""The steps taken from recipes/web.yaml."""
PEER = "datatrove"
PACKAGES = "pip install 'datatrove[io,processing]==0.10.1' spacy lxml_html_clean"
ROOT = Path(__file__).parents[1]
SMALL: dict[str, object] = {
    "PAGES": 4,
    "FEW": 2,
    "FILES": 1,
    "ROUNDS": 1,
    "WARM_UPS": 0,
    "STEPS": ("extract", "url_dedup"),  # its kernels would load once for each of two runs
}
"""The constants that set its size, for its test."""


@dataclass(frozen=True, slots=True)
class Took:
    """One run of ours or of datatrove."""

    cpu_s: float
    read: int
    """Records that it accepted as pages."""
    kept: int
    steps: dict[str, float]
    """CPU seconds of each step, if known."""


def run(data: Path | None) -> Iterable[dict]:
    with scratch() as folder:
        for name in ("all", "few"):
            write_recipe(folder, name)
        pages = spread(web_pages(data, folder), PAGES)
        few = spread(pages, FEW)
        size, start_size = written(folder / "all", pages), written(folder / "few", few)
        for number in range(WARM_UPS):
            ours(folder / "all.yaml", folder / f"warm-{number}")
        mine = Pair(*(our_best(folder, name) for name in ("all", "few")), size, start_size)
        few_by_peer = datatrove(folder, "few")
        theirs = few_by_peer and Pair(datatrove(folder, "all"), few_by_peer, size, start_size)
    corpus = f"of {len(pages):,} pages, {size / 1e6:.1f} MB of HTML"
    yield row("mb_per_cpu_second", f"MB of HTML a CPU second, {corpus}", mine.rate, theirs and theirs.rate)
    yield row("start", f"CPU s for {len(few)} pages", mine.start.cpu_s, theirs and theirs.start.cpu_s, less=True)
    yield row("without_start", "MB of HTML a CPU second", mine.further_rate, theirs and theirs.further_rate)
    hours = [one and 1e6 / one.further_rate / 3600 for one in (mine, theirs)]
    yield row("hours_per_tb", "CPU hours for a TB of HTML, without start", *hours, less=True)
    yield row("documents_read", "documents", mine.all.read, theirs and theirs.all.read)
    yield row("documents_kept", "documents", mine.all.kept, theirs and theirs.all.kept)
    for name, seconds in mine.all.steps.items():
        share = 100 * seconds / mine.all.cpu_s
        yield measurement(f"pipeline.step_{name}", share, f"% of our CPU time, {size / seconds / 1e6:.0f} MB/s of HTML")
    rest = 100 * (1 - sum(mine.all.steps.values()) / mine.all.cpu_s)
    yield measurement("pipeline.no_step", rest, "% of our CPU time: start, coordinator, start of the worker")


@dataclass(frozen=True, slots=True)
class Pair:
    """The runs over all pages and over a few of them."""

    all: Took
    start: Took
    size: int
    start_size: int

    @property
    def rate(self) -> float:
        """MB per CPU second."""
        return self.size / self.all.cpu_s / 1e6

    @property
    def further_rate(self) -> float:
        """MB per CPU second for the pages beyond the few."""
        return (self.size - self.start_size) / max(self.all.cpu_s - self.start.cpu_s, 1e-3) / 1e6


def row(name: str, unit: str, value: float, peer_value: float | None, less: bool = False) -> dict:
    return measurement(f"pipeline.{name}", value, unit, PEER, peer_value, less)


def written(folder: Path, pages: Sequence[Record]) -> int:
    """Writes the pages to WARC files; returns their bytes."""
    folder.mkdir()
    bodies = [as_str(page.html or "").encode() for page in pages]
    # As Common Crawl declares it; otherwise datatrove guesses from the bytes and skips a fifth of real pages.
    known = (("WARC-Identified-Payload-Type", "text/html"),)
    responses = [
        Response(page.url or f"https://unknown.example/{number}", body, fields=known)
        for number, (page, body) in enumerate(zip(pages, bodies, strict=True))
    ]
    for number in range(FILES):
        write(folder / f"{number}.warc.gz", responses[number::FILES], datetime(2026, 11, 1, tzinfo=UTC))
    return sum(map(len, bodies))


def our_best(folder: Path, name: str) -> Took:
    runs = (ours(folder / f"{name}.yaml", folder / f"{name}-{number}") for number in range(ROUNDS))
    return min(runs, key=lambda one: one.cpu_s)


def write_recipe(folder: Path, name: str) -> None:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(our_recipe(folder / name), sort_keys=False))
    load(path)  # reports a mistake before anything runs


def our_recipe(crawl: Path) -> dict[str, Any]:
    """The recipe with those steps of recipes/web.yaml and its thresholds."""
    whole = yaml.safe_load((ROOT / "recipes" / "web.yaml").read_text())
    steps = [step for step in whole["steps"]["web"] if (step if isinstance(step, str) else next(iter(step))) in STEPS]
    if EXTRACT:
        steps = [{"extract": {"tool": EXTRACT}} if step == "extract" else step for step in steps]
    source = {"kind": "web", "domain": "web", "read": {"format": "warc", "paths": [f"{crawl}/*.warc.gz"]}}
    return {"recipe": "bench", "seed": whole["seed"], "sources": {"crawl": source}, "steps": {"web": steps}}


def ours(recipe: Path, store: Path) -> Took:
    command = [sys.executable, "-m", "gristmill", "run", str(recipe), "--store", str(store), "--workers", "1"]
    done, cpu_s = timed(command)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    record = newest_run(Store(str(store)), "bench")
    assert record is not None
    nodes = record["nodes"]
    steps = {node_id.partition("/")[2]: node["cost"]["cpu_s"] for node_id, node in nodes.items() if node["executed"]}
    read = next(node["metrics"] for node in nodes.values() if node["kind"] == "read")
    return Took(cpu_s, read["rows"] - sum(read["dropped"].values()), record["documents"], steps)


def datatrove(folder: Path, name: str) -> Took | None:
    """Runs datatrove; None if it is not installed and BENCH_PIPELINE_PYTHON is not set."""
    python = os.environ.get("BENCH_PIPELINE_PYTHON")
    script = Path(__file__).with_name("_pipeline_datatrove.py")
    work = tempfile.mkdtemp(dir=folder)
    done, cpu_s = timed([python or sys.executable, str(script), str(folder / name), work, str(built_in_model())])
    if done.returncode == 0:
        counts = json.loads(done.stdout.splitlines()[-1])
        return Took(cpu_s, counts["read"], counts["kept"], {})
    if python is None and "ModuleNotFoundError" in done.stderr:
        return None
    raise UserError(
        f"datatrove in {python or sys.executable} failed, so there is nothing to compare: "
        f"{done.stderr.strip().splitlines()[-1]}. Give BENCH_PIPELINE_PYTHON a Python with: {PACKAGES}"
    )


def timed(command: Sequence[str]) -> tuple[subprocess.CompletedProcess[str], float]:
    """Runs a command; returns it with the CPU seconds of all processes that it started."""
    with tempfile.NamedTemporaryFile() as seconds:
        tree = [sys.executable, str(Path(__file__).with_name("_process_tree.py")), seconds.name, *command]
        done = subprocess.run(tree, capture_output=True, text=True)
        return done, float(seconds.read() or 0)
