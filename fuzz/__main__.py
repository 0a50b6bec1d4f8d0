"""The command line of the fuzzers."""

import argparse
import subprocess
import sys
from pathlib import Path

from fuzz.meter import METERED


def _one(name: str, seconds: float, seed: int, findings: Path) -> int:
    with METERED:
        from fuzz.run import bound_memory, fuzz, write_findings
        from fuzz.targets import TARGETS

        bound_memory()
        findings.mkdir(parents=True, exist_ok=True)
        fuzzer = fuzz(TARGETS[name], seed, seconds, last=findings / f"{name}.last")
    counts = f"{fuzzer.tries} tries, {len(fuzzer.files)} files, {len(fuzzer.edges)} edges"
    print(f"{name}: {counts}, {len(fuzzer.found)} faults")
    for path, found in zip(write_findings(fuzzer, findings), fuzzer.found.values(), strict=True):
        print(f"  {path}: {found.place}")
    return 1 if fuzzer.found else 0


def _names() -> list[str]:
    with METERED:
        from fuzz.targets import TARGETS

        return list(TARGETS)


def _all(given: argparse.Namespace) -> int:
    """Runs one process for each target, `jobs` at a time."""
    waiting, running, worst = _names(), [], 0
    own = ["--seconds", str(given.seconds), "--seed", str(given.seed), "--findings", str(given.findings)]
    while waiting or running:
        while waiting and len(running) < given.jobs:
            running.append(subprocess.Popen([sys.executable, "-m", "fuzz", waiting.pop(0), *own]))
        one = running.pop(0)
        if one.wait() not in (0, 1):
            name = one.args[3]  # type: ignore[index]
            print(
                f"{name}: the process ended with {one.returncode}; {given.findings / name}.last is what it was reading"
            )
        worst = max(worst, abs(one.returncode))
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz what reads files from outside.")
    parser.add_argument("target", help="a target, or all; list names them")
    parser.add_argument("--seconds", type=float, default=60, help="for each target; says when to stop and nothing else")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time, for all")
    parser.add_argument(
        "--findings", type=Path, default=Path("fuzz/findings"), help="where inputs that break something go"
    )
    given = parser.parse_args()
    if given.target == "list":
        print("\n".join(_names()))
        return 0
    if given.target == "all":
        return _all(given)
    if given.target not in _names():
        parser.error(f"there is no target {given.target}. Targets: {', '.join(_names())}")
    return _one(given.target, given.seconds, given.seed, given.findings)


if __name__ == "__main__":
    sys.exit(main())
