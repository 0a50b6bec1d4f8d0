"""`gristmill explore` over a million documents: the first page, a filter, the slider, and the memory of the server.

The documents are generated and processed once (not timed; with --data, the folder keeps them). Times are those of a
request from another process, the best of five; the first page is requested as soon as the command prints its address.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

from bench._million import DOCUMENTS, make_million
from bench.inputs import measurement

ROUNDS = 5
SETTING = "all/heuristics.gopher_quality.min_words"


def run(data: Path | None) -> Iterable[dict]:
    with ExitStack() as stack:
        folder = data or Path(stack.enter_context(TemporaryDirectory(prefix="gristmill-bench-")))
        recipe = make_million(folder, DOCUMENTS)
        command = [sys.executable, "-m", "gristmill", "explore", str(recipe), "--no-open"]
        server = subprocess.Popen(
            [*command, "--labels", str(folder / "labels.jsonl")], stdout=subprocess.PIPE, text=True
        )
        stack.callback(server.wait)
        stack.callback(server.terminate)
        assert server.stdout is not None
        found = re.search(r"(http://[^/]+)/\S*", server.stdout.readline())
        assert found is not None
        opener = build_opener(HTTPCookieProcessor())

        def get(path: str, fragment: bool = True) -> str:
            request = Request(found[1] + path, headers={"HX-Request": "true"} if fragment else {})
            return str(opener.open(request).read(), "utf-8")

        begun = time.perf_counter()
        opener.open(found[0]).read()
        yield measurement("explore.first_page", time.perf_counter() - begun, "s (goal: under 1)")
        while "The index has" in get("/"):
            time.sleep(0.2)
        yield measurement("explore.index", time.perf_counter() - begun, "s, in the background")
        filters = {
            "filter_by_reason": {"reason": "too_few_words", "source": "web"},
            "filter_by_score": {"score": "words", "low": 30, "high": 60, "verdict": "removed"},
            "search_urls": {"url": "site4242."},
            "shuffled": {"verdict": "kept", "order": "shuffled"},
        }
        work: dict[str, Callable[[int], str]] = {
            name: lambda _, fields=fields: get(f"/?{urlencode(fields)}") for name, fields in filters.items()
        }
        work["histogram"] = lambda _: get("/histograms?score=words")
        work["slider"] = lambda number: get(f"/whatif?{urlencode({'setting': SETTING, 'value': 40 + number})}")
        for name, one in work.items():
            one(0)  # a step's columns are read when its slider opens
            seconds, cpu_seconds = best(one, server.pid)
            yield measurement(f"explore.{name}", seconds, "s (goal: under 0.5)")
            yield measurement(f"explore.{name}_cpu", cpu_seconds, "CPU s of the server, two threads")
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text())
        assert peak is not None
        yield measurement("explore.peak_memory", int(peak[1]) / 1000, "MB (goal: under 500)")


def best(work: Callable[[int], str], pid: int) -> tuple[float, float]:
    """The least seconds by the clock, and the least CPU seconds of the server."""
    taken = []
    for number in range(1, ROUNDS + 1):
        begun, used = time.perf_counter(), cpu_seconds_of(pid)
        work(number)
        taken.append((time.perf_counter() - begun, cpu_seconds_of(pid) - used))
    return min(one for one, _ in taken), min(used for _, used in taken)


def cpu_seconds_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
