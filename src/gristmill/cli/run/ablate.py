"""gristmill ablate: is a model trained on B better than one trained on A?"""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.shards.open import open_shards
from gristmill.cli.shared.options import Json, StoreUri, Workers, print_json
from gristmill.cli.shared.screen import Screen, print_paragraph
from gristmill.cli.shared.show import Bars, console, table
from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.proxy.verdict import OVERALL, Task
from gristmill.query.ablation.ablation import MOST_SEEDS, SETUPS, Ablation, Result, Side, looks_of
from gristmill.recipe.checks.locations import locate_store
from gristmill.stages.config_types import parse_count
from gristmill.store.store import Store

EXAMPLE = "Example: gristmill ablate old.yaml new.yaml --suite evals --gate"
NOT_BETTER = 3
"""The exit code of --gate."""


def command(
    a: Annotated[str, typer.Argument(metavar="A", help="A recipe that was run, STORE@NAME, or a manifest.json.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same for the corpus that should be better.")],
    suite: Annotated[Path, typer.Option(metavar="FOLDER", help="The eval suite: benchmarks and held-out texts.")],
    size: Annotated[str, typer.Option(metavar="NAME", help=f"Size of the models: {', '.join(SETUPS)}.")] = "3m",
    tokens: Annotated[
        str | None, typer.Option(metavar="N", help="Tokens per training run. Default: by size.", show_default=False)
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=2, max=MOST_SEEDS, metavar="N", help="Training runs per side, as pairs.")
    ] = 3,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu or cuda. Default: by size.", show_default=False)
    ] = None,
    until_decided: Annotated[
        int | None,
        typer.Option(min=3, max=MOST_SEEDS, metavar="N", help="Add seeds until there is a verdict, up to N."),
    ] = None,
    gate: Annotated[bool, typer.Option("--gate", help="Exit with 3 unless B is better.")] = False,
    store: StoreUri = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Train small models on two corpora, and show which is better.

    A and B train on the same number of tokens, with the same seeds. Scores are bits per byte of correct answers and
    of held-out texts. The verdict is better, worse or no evidence, with 95% intervals over seeds and items. Trained
    models are kept in the store, so another seed or suite does not retrain them.
    """
    if find_spec("torch") is None:
        raise UserError("gristmill ablate needs torch, which is not installed: pip install 'gristmill[torch]'.")
    if size not in SETUPS:
        raise UserError(f"--size {size} is not a known size, so nothing was trained. Sizes: {', '.join(SETUPS)}.")
    setup = SETUPS[size]
    if tokens is not None:
        setup = replace(setup, tokens=_count(tokens))
    if device is not None:
        if device not in ("cpu", "cuda"):
            raise UserError(f"--device {device} is not a device, so nothing was trained. Use cpu or cuda.")
        setup = replace(setup, device=device)
    old, new = (Side(name, open_shards(name)) for name in (a, b))
    there = Store(locate_store(store, "--store")) if store else _store_of(new)
    ablation = Ablation(old, new, str(suite), setup, there)
    with Bars(quiet=json) as bars:
        counts = looks_of(seeds, until_decided)
        for count in counts:
            result = ablation.run(range(count), bars, workers, looks=len(counts))
            if result.verdict != "no evidence":
                break
    if json:
        print_json(result.to_json())
    else:
        _show(console(), a, b, result)
    if gate and result.verdict != "better":
        raise typer.Exit(NOT_BETTER)


def _count(text: str) -> int:
    try:
        return int(parse_count(text))
    except ValueError as error:
        raise UserError(f"--tokens {error}") from None


def _store_of(side: Side) -> Store:
    if side.shards.view is None:
        raise UserError(f"{side.name} is a manifest, which has no store for the models. Name one with --store.")
    return side.shards.view.store


def _show(out: Screen, a: str, b: str, result: Result) -> None:
    """Print the table of tasks, the remarks and the verdict."""
    rows = [
        (one.name, f"{one.items:,}", f"{one.a:.3f}", f"{one.b:.3f}", *_difference(one))
        for one in result.tasks
        if one.name != OVERALL
    ]
    out.print(f"Bits per byte (lower is better). A: {a}. B: {b}.")
    out.print(table(("task", "items", "A", "B", "B - A", "95% interval", "signal/noise", "verdict"), rows))
    for remark in result.remarks:
        print_paragraph(f"NOTE: {remark}")
    overall, setup = result.overall, result.setup
    trained = f"{counted(result.seeds, 'pair')} of {setup.size} models, {counted(setup.tokens, 'token')} each"
    if overall is None:
        print_paragraph(f"No evidence: every item is in a pool ({trained}).")
        return
    low, high = (f"{100 * value:+.2f}%" for value in (overall.low, overall.high))
    print_paragraph(
        f"B is {overall.verdict if overall.verdict != 'no evidence' else 'neither better nor worse on this evidence'}:"
        f" {100 * overall.difference:+.2f}% bits per byte ({low} to {high}), {trained}. The smallest difference that "
        f"this could detect: {100 * overall.smallest:.2f}%."
    )


def _difference(one: Task) -> tuple[str, str, str, str]:
    interval = f"{one.low:+.3f} to {one.high:+.3f}"
    return f"{one.difference:+.3f}", interval, f"{one.signal_to_noise:.1f}", one.verdict
