"""`python -m bench NAME [--data DIR] [--json]` runs one bench, or all of them.

A bench is a module in this folder with `run(data: Path | None) -> Iterable[dict]`. It generates its own data unless
--data names a folder of JSONL(.zst) or WARC files. Each measurement is one JSON object per line: name, value, unit,
peer, peer_value, ratio (how many times better ours is; above 1 is faster or smaller, depending on the unit). A peer
that is not installed has a null peer_value and is counted as missing.
"""

import argparse
import importlib
import json
import pkgutil
import sys
from pathlib import Path

import bench
from gristmill.errors import UserError


def names() -> list[str]:
    found = [module.name for module in pkgutil.iter_modules(bench.__path__)]
    return sorted(name for name in found if not name.startswith("_") and name != "inputs")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Gristmill against its peers.")
    parser.add_argument("name", help=f"one of: all, {', '.join(names())}")
    parser.add_argument("--data", type=Path, help="a folder of JSONL(.zst) or WARC files to measure on")
    parser.add_argument("--json", action="store_true", help="JSON lines only, without the table at the end")
    given = parser.parse_args()
    chosen = names() if given.name == "all" else [given.name]
    if not set(chosen) <= set(names()):
        print(f"bench: {given.name} is not a bench. Benches: all, {', '.join(names())}", file=sys.stderr)
        return 2
    if given.data is not None and not given.data.is_dir():
        print(f"bench: --data {given.data} is not a folder. Leave it out to measure on made-up data.", file=sys.stderr)
        return 2
    rows = []
    try:
        for name in chosen:
            for row in importlib.import_module(f"bench.{name}").run(given.data):
                rows.append(row)
                print(json.dumps(row), flush=True)
    except UserError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if not given.json:
        print(table(rows), file=sys.stderr)
    return 0


def table(rows: list[dict]) -> str:
    """The measurements as a table for people."""
    lines = [("measurement", "ours", "unit", "peer", "peer's", "ratio")]
    for row in rows:
        peer = row["peer"] or ""
        if row["peer"] and row["peer_value"] is None:
            peer += " (missing)"
        numbers = [f"{row[key]:.4g}" if row[key] is not None else "" for key in ("value", "peer_value", "ratio")]
        lines.append((row["name"], numbers[0], row["unit"], peer, numbers[1], numbers[2]))
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


if __name__ == "__main__":
    sys.exit(main())
