"""gristmill ablate: is a model trained on B better than one trained on A?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.shards.open import open_shards
from gristmill.cli.shared.options import (
    ExecutorName,
    Json,
    RayAddress,
    StoreUri,
    Workers,
    open_view,
    parsed,
    print_json,
)
from gristmill.cli.shared.screen import remark
from gristmill.cli.shared.show import Bars
from gristmill.cli.tokenizer.open import is_recipe
from gristmill.engine.run_options import check_executor
from gristmill.engine.work.memory import available_cores
from gristmill.errors import UserError
from gristmill.recipe.fields import parse_share
from gristmill.recipe.load import load
from gristmill.stages.decontaminate.suite.suite import read_suite
from gristmill_ablate.ablation import Ablation, looks_of, verdicts
from gristmill_ablate.ablation_table import show, show_plan, show_same, show_sweep, show_verdicts
from gristmill_ablate.arguments import check_torch, requested_setup, store_for
from gristmill_ablate.setups import FEWEST_SEEDS, HARDWARE, MOST_SEEDS, SIZES, choose, plan_of
from gristmill_ablate.sweep import make_variants, run_sweep
from gristmill_ablate.trainings import Side

EXAMPLE = "Example: gristmill ablate demo/store@before recipes/demo.yaml --suite demo/inputs/evals --plan"
NOT_BETTER = 3
"""The exit code of --gate."""


def command(
    a: Annotated[str, typer.Argument(metavar="A", help="A recipe that was run, STORE@NAME, or a manifest.json.")],
    b: Annotated[
        str | None, typer.Argument(metavar="B", help="The same, of what is to be better. Not with --sweep.")
    ] = None,
    suite: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The eval suite: benchmarks and held-out texts.", show_default=False),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STEP.FIELD=V,V", help="Compare the recipe A with itself at each of these values. Several: a grid."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="BUDGET",
            help=f"Choose size, tokens and seeds: TIME@{'|'.join(HARDWARE)} (10min@h200) or tokens in all (200Mtok).",
        ),
    ] = None,
    size: Annotated[str | None, typer.Option(metavar="NAME", help=f"Of the models: {', '.join(SIZES)}. [3m]")] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="N", help="Tokens per training run. Default: by size.", show_default=False)
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=2, max=MOST_SEEDS, metavar="N", help="Trainings of each side, as pairs. [3]")
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu or cuda. Default: by size.", show_default=False)
    ] = None,
    until_decided: Annotated[
        int | None,
        typer.Option(
            min=3, max=MOST_SEEDS, metavar="N", help="Add seeds until there is a verdict, up to N and to --budget."
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show what would be trained, how long, and what it could show.")
    ] = False,
    gate: Annotated[
        str | None,
        typer.Option("--gate", metavar="RULE", help="Exit with 3 unless B is `better`, or `not-worse` by --margin."),
    ] = None,
    margin: Annotated[
        str | None, typer.Option(metavar="SHARE", help="How much worse B may be: 0.5% bits per byte, for example.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the verdicts in the store of A.")] = False,
    store: StoreUri = None,
    workers: Workers = None,
    executor: ExecutorName = None,
    address: RayAddress = None,
    json: Json = False,
) -> None:
    """Train small models on two corpora, and show which is better.

    A and B train on the same number of tokens, with the same seeds. Scores are bits per byte of correct answers and
    of held-out texts. The verdict is better, worse or no evidence, with 95% intervals over seeds and items. Trained
    models are kept in the store, so another seed or suite does not retrain them.
    """
    check_executor(executor, address, None)
    if listing:
        show_verdicts(verdicts(open_view(a, store).store), json)
        return
    if suite is None:
        raise UserError("Name an eval suite with --suite: it is what the models are scored on. Nothing was trained.")
    _check_options(a, b, sweep, budget, (size, tokens, seeds, device), until_decided, gate)
    gate_margin = _margin(gate, margin)
    setup, seed_count = requested_setup(size or "3m", tokens, device), seeds or FEWEST_SEEDS
    read_suite(str(suite))
    variants = make_variants(load(a, store=store), sweep) if sweep else []
    sides = [Side(a, open_shards(a, store if sweep else None))]
    if b is not None:
        sides.append(Side(b, open_shards(b)))
        if sides[0].drawn == sides[1].drawn:
            show_same(json)
            raise typer.Exit(NOT_BETTER if gate == "better" else 0)
    if not plan:
        check_torch("gristmill ablate")
    corpora, cores = len(sides) + len(variants), workers or available_cores()
    if budget is not None:
        setup, seed_count = choose(budget, min(side.tokens for side in sides), corpora, cores)
    if plan:
        show_plan(plan_of(setup, seed_count, corpora, cores), variants, json)
        return
    model_store, cluster = store_for(sides, store), (executor, address)
    if b is None:
        with Bars(quiet=json) as bars:
            results = run_sweep(
                sides[0], variants, str(suite), setup, model_store, range(seed_count), bars, workers, cluster
            )
        show_sweep(a, results, json)
        return
    ablation = Ablation(sides[0], sides[1], str(suite), setup, model_store, cluster, gate_margin)
    counts = looks_of(seed_count, until_decided)
    if budget is not None and until_decided is not None:
        counts = looks_of(FEWEST_SEEDS, min(seed_count, until_decided))
    with Bars(quiet=json) as bars:
        for count in counts:
            result = ablation.run(range(count), bars, workers, looks=len(counts))
            if result.is_decided:
                break
    if json:
        print_json(result.to_json())
    else:
        show(a, b, result)
    if gate is not None and (why := result.refusal) is not None:
        remark(f"The gate refuses B: {why}")
        raise typer.Exit(NOT_BETTER)


def _check_options(
    a: str,
    b: str | None,
    sweep: Sequence[str] | None,
    budget: str | None,
    chosen: Sequence[Any],
    until_decided: int | None,
    gate: str | None,
) -> None:
    """Refuse options that contradict each other."""
    if (b is None) != bool(sweep):
        raise UserError(
            "Name a second corpus B, or --sweep STEP.FIELD=VALUE,VALUE, and not both: it is not clear what to compare "
            f"{a} with, so nothing was trained."
        )
    if sweep and not is_recipe(a):
        raise UserError(f"--sweep changes a recipe, and {a} is not a recipe's file, so nothing was trained. Name one.")
    if sweep and (gate is not None or until_decided is not None):
        name = "--until-decided" if gate is None else "--gate"
        raise UserError(f"{name} judges one B, and --sweep has several, so nothing was trained. Leave one of them out.")
    if budget is not None and (
        given := next((f"--{name}" for name, value in zip(CHOSEN, chosen, strict=True) if value is not None), None)
    ):
        raise UserError(f"--budget chooses {given}, so nothing was trained. Leave one of them out.")


def _margin(gate: str | None, margin: str | None) -> float | None:
    """The share by which B may be worse; None if the gate has no margin."""
    if gate not in (None, "better", "not-worse"):
        raise UserError(f"--gate {gate} is not a rule, so nothing was trained. Rules: better, not-worse.")
    if (gate == "not-worse") != (margin is not None):
        raise UserError(
            "--gate not-worse and --margin belong together: without a margin, no comparison can show that B is not "
            "worse. Nothing was trained. Write --gate not-worse --margin 0.5%."
        )
    return None if margin is None else parsed("--margin", margin, parse_share, "nothing was trained")


CHOSEN = ("size", "tokens", "seeds", "device")
"""What --budget chooses."""
