"""How proxies of each size are trained, what that costs, and what it can show: the table setups.json.

A budget chooses from the table: the largest size that can train its usual tokens with at least three seeds a side. What
is left of the budget goes to more seeds, which show smaller differences, and then to more tokens.
"""

import json
import re
from dataclasses import asdict, dataclass, replace
from math import inf, sqrt
from pathlib import Path
from typing import Any

from gristmill.counted import duration
from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import suggest
from gristmill.stages.config_types import parse_count
from gristmill_ablate.proxy.verdict import smallest_visible

CPU = "cpu"
FEWEST_SEEDS, MOST_SEEDS = 3, 64
ENOUGH_SEEDS = 8
"""A budget for more of them goes to tokens."""
MOST_GROWTH = 4
"""Times the usual tokens of a size that a budget may choose."""
_BUDGET = re.compile(r"(?:(?P<time>\d+(?:\.\d+)?)(?P<unit>s|min|h)|(?P<tokens>\S+?)tok)(?:@(?P<hardware>\w+))?")
_SECONDS = {"s": 1, "min": 60, "h": 3600}


@dataclass(frozen=True)
class Setup:
    """What is trained, alike for all sides."""

    size: str
    tokens: int
    device: str
    sequence: int
    batch: int
    rate: float
    scored: int = 500_000
    """Tokens of each task that are scored, about."""


@dataclass(frozen=True)
class SetupRow:
    """A row of the table: a setup and what was measured with it."""

    setup: Setup
    hardware: str
    tokens_per_s: float
    start_s: float
    """Seconds of a training that do not depend on its tokens: starting, saving, scoring."""
    noise: float
    """Standard deviation over seeds of the overall difference of a pair, as a share of the bits per byte."""
    measured: bool
    """False: extrapolated from other rows."""

    def seconds(self, tokens: int) -> float:
        """Of one training, with its evaluation."""
        return tokens / self.tokens_per_s + self.start_s


@dataclass(frozen=True)
class AblationPlan:
    """What would be trained, and what that could show."""

    setup: Setup
    hardware: str
    seeds: int
    trainings: int
    seconds: float
    smallest: float
    """The smallest true difference that is decided in 80 of 100 tries, as a share of the bits per byte."""
    measured: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _rows() -> list[SetupRow]:
    table = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    rows = []
    for row in table["rows"]:
        measured = {name: row.pop(name) for name in ("hardware", "tokens_per_s", "start_s", "noise", "measured")}
        device = CPU if measured["hardware"] == CPU else "cuda"
        rows.append(SetupRow(Setup(**row, device=device), **measured))
    return rows


ROWS = _rows()
SIZES = tuple(dict.fromkeys(row.setup.size for row in ROWS))
HARDWARE = tuple(dict.fromkeys(row.hardware for row in ROWS))


def setup_of(size: str, device: str | None = None) -> Setup:
    """The usual training of a size; on another device with the settings of the one that is known."""
    if size not in SIZES:
        raise UserError(f"There is no size {size}, so nothing was trained. Sizes: {', '.join(SIZES)}.")
    if device not in (None, CPU, "cuda"):
        raise UserError(f"{device} is not a device, so nothing was trained. Devices: cpu, cuda.")
    rows = [row.setup for row in ROWS if row.setup.size == size]
    return next((setup for setup in rows if setup.device == device), replace(rows[0], device=device or rows[0].device))


def plan_of(setup: Setup, seeds: int, sides: int = 2, cores: int = 1) -> AblationPlan | None:
    """What a comparison takes, by the table; None where it has no row for this size and device. `sides`: A and all that
    are compared with it.
    """
    row = next((row for row in ROWS if (row.setup.size, row.setup.device) == (setup.size, setup.device)), None)
    if row is None:
        return None
    trainings = seeds * sides
    at_once = min(cores, trainings) if row.hardware == CPU else 1
    smallest = smallest_visible(row.noise / sqrt(seeds), seeds, sides - 1)
    seconds = trainings * row.seconds(setup.tokens) / at_once
    return AblationPlan(setup, row.hardware, seeds, trainings, seconds, smallest, row.measured)


def choose(budget: str, most_tokens: int, sides: int = 2, cores: int = 1) -> tuple[Setup, int]:
    """The setup and the number of seeds for a budget such as 10min@h200, 5min@cpu or 200Mtok: for all trainings
    together. No training has more than `most_tokens`.
    """
    match = _BUDGET.fullmatch(budget.strip())
    if match is None or (match["time"] and not match["hardware"]):
        raise UserError(
            f"{budget!r} is not a budget, so nothing was trained. Write a time on a device, such as 10min@h200 or "
            "5min@cpu, or the tokens of all trainings together, such as 200Mtok."
        )
    hardware = match["hardware"]
    if hardware and hardware not in HARDWARE:
        hint = suggest(hardware, HARDWARE, "Known")
        raise UserError(f"{budget}: no speed was measured on {hardware}, so nothing was trained. {hint}")
    usual = {row.setup.size: row for row in reversed(ROWS)}
    rows = [row for row in ROWS if row.hardware == hardware] if hardware else [usual[size] for size in SIZES]
    fits = [row for row in rows if row.setup.tokens <= most_tokens]
    rows = fits or [replace(rows[0], setup=replace(rows[0].setup, tokens=most_tokens))]
    if match["time"]:
        have = float(match["time"]) * _SECONDS[match["unit"]]
        costs = [(1 / row.tokens_per_s, row.start_s) for row in rows]
        at_once = min(cores, FEWEST_SEEDS * sides) if hardware == CPU else 1
    else:
        have, at_once, costs = float(_tokens(budget, match["tokens"])), 1, [(1.0, 0.0)] * len(rows)
    needed = inf
    for row, (per_token, start) in reversed(list(zip(rows, costs, strict=True))):
        seconds_or_tokens = (row.setup.tokens * per_token + start) * sides / at_once
        seeds = int(have / seconds_or_tokens)
        if seeds >= FEWEST_SEEDS:
            grown = (have * at_once / (sides * ENOUGH_SEEDS) - start) / per_token if seeds > ENOUGH_SEEDS else 0
            tokens = max(row.setup.tokens, min(int(grown), MOST_GROWTH * row.setup.tokens, most_tokens))
            return replace(row.setup, tokens=tokens), min(seeds, ENOUGH_SEEDS)
        needed = FEWEST_SEEDS * seconds_or_tokens
    least = duration(needed) if match["time"] else f"{needed:,.0f} tokens"
    raise UserError(
        f"{budget} is too small a budget, so nothing was trained: {FEWEST_SEEDS} trainings of each of {sides} recipes "
        f"with the smallest model ({rows[0].setup.size}) take {least}. Give more."
    )


def _tokens(budget: str, text: str) -> int:
    try:
        return int(parse_count(text))
    except ValueError as error:
        raise UserError(f"{budget}: nothing was trained, because {error}.") from None
