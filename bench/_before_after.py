"""Benches of two checkouts in turns: python -m bench._before_after BEFORE AFTER [--data DIR] [--cores 0,1] NAME...

Each bench runs `--rounds` times in each checkout, in turns and pinned to one core, so that both see the same machine.
The table has the best value of each measurement that both checkouts have under one name, and how many times better the
second one is. A bench that needs two cores (engine, neardup) is pinned to two with `--wide`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

SMALLER_IS_BETTER = re.compile(r"(?:CPU )?(?:s|ms|µs|B|KB|MB|GB|MiB|GiB|bytes|share)\b(?!/s| a CPU)")
"""Beginnings of units; everything else (MB/s, MB a CPU s, documents/s, x) is better if it is larger."""


def rows_of(checkout: Path, name: str, data: Path | None, cores: str) -> dict[str, tuple[float, str]]:
    command = ["taskset", "-c", cores, sys.executable, "-m", "bench", name, "--json"]
    command += ["--data", str(data)] if data else []
    ended = subprocess.run(
        command, cwd=checkout, env=os.environ | {"PYTHONPATH": str(checkout / "src")}, capture_output=True, text=True
    )
    if ended.returncode:
        print(f"{checkout.name} {name}: {ended.stderr[-300:]}", file=sys.stderr, flush=True)
    rows = (json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{"))
    return {row["name"]: (row["value"], row["unit"]) for row in rows if row["value"] is not None}


def compare(name: str, checkouts: list[Path], data: Path | None, cores: str, rounds: int) -> list[tuple]:
    found: list[dict[str, list[float]]] = [defaultdict(list), defaultdict(list)]
    units: dict[str, str] = {}
    for _ in range(rounds):
        for values, checkout in zip(found, checkouts, strict=True):
            for measured, (value, unit) in rows_of(checkout, name, data, cores).items():
                values[measured].append(value)
                units[measured] = unit
    table = []
    for measured in found[0].keys() & found[1].keys():
        less = SMALLER_IS_BETTER.match(units[measured])
        before, after = ((min if less else max)(values[measured]) for values in found)
        if before > 0 and after > 0:
            table.append((measured, before, after, units[measured], before / after if less else after / before))
    return sorted(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench._before_after", description=__doc__.partition("\n")[0])
    parser.add_argument("checkouts", nargs=2, type=Path, metavar="CHECKOUT")
    parser.add_argument("names", nargs="+")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", default="0", help="cores that run one bench each, such as 2,3,4")
    parser.add_argument("--wide", action="store_true", help="each bench gets its core and the next one")
    given = parser.parse_args()
    cores: SimpleQueue[str] = SimpleQueue()
    for core in given.cores.split(","):
        cores.put(f"{core},{int(core) + 1}" if given.wide else core)
    checkouts = [path.resolve() for path in given.checkouts]
    data = given.data.resolve() if given.data else None

    def one(name: str) -> None:
        core = cores.get()
        for measured, before, after, unit, ratio in compare(name, checkouts, data, core, given.rounds):
            print(f"| {measured} | {before:.4g} | {after:.4g} | {unit} | {ratio:.2f} |", flush=True)
        cores.put(core)

    print("| measurement | before | after | unit | times better |\n|---|---|---|---|---|")
    with ThreadPoolExecutor(cores.qsize()) as pool:
        list(pool.map(one, given.names))


if __name__ == "__main__":
    main()
