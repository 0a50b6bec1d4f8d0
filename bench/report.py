"""`gristmill report` of a million generated documents: the whole command, from typing it to the page.

The documents are measured and judged before (not timed). BENCH_DOCUMENTS sets their number.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench._million import make_million
from bench.diff import _cpu_of_children
from bench.inputs import measurement

DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", "1_000_000"))


def run(data: Path | None) -> Iterable[dict]:
    with TemporaryDirectory(prefix="gristmill-bench-") as name:
        folder = Path(name)
        make_million(folder, DOCUMENTS)
        out = folder / "report.html"
        command = [sys.executable, "-m", "gristmill.cli.main", "report", f"{folder}/store@million", "--out", str(out)]
        begun, used = time.perf_counter(), _cpu_of_children()
        subprocess.run(command, check=True, capture_output=True)
        yield measurement("report.documents", DOCUMENTS, "documents")
        yield measurement("report", time.perf_counter() - begun, "s (goal: under 15)")
        yield measurement("report.cpu", _cpu_of_children() - used, "s of CPU")
        yield measurement("report.size", out.stat().st_size / 1e6, "MB (goal: under 2)")
