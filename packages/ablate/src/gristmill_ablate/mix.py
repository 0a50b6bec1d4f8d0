"""gristmill mix: shares of domains by small trainings."""

from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.shards.open import open_shards
from gristmill.cli.shared.options import ExecutorName, Json, RayAddress, StoreUri, Workers, print_json
from gristmill.cli.shared.screen import say
from gristmill.cli.shared.show import Bars
from gristmill.cli.shared.usage import Commands
from gristmill.cli.shared.written import write_text
from gristmill.engine.run_options import check_executor
from gristmill.errors import UserError
from gristmill_ablate.arguments import check_torch, requested_setup, store_for
from gristmill_ablate.mixture import MixtureSearch
from gristmill_ablate.setups import SIZES
from gristmill_ablate.trainings import Side

app = typer.Typer(help="Search for a mixture of domains with small models.", cls=Commands, rich_markup_mode=None)
METHODS = ("swarm", "doremi")


def propose_command(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A recipe that was run, STORE@NAME, or a manifest.json.")
    ],
    method: Annotated[str, typer.Option(metavar="NAME", help="swarm or doremi.")] = "swarm",
    suite: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="An eval suite, whose benchmarks are the targets.")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=WEIGHT]", help="A domain or benchmark to do well on. May be given again."),
    ] = None,
    floor: Annotated[
        list[str] | None, typer.Option(metavar="DOMAIN=SHARE", help="The least share of a domain. May be given again.")
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(min=4, max=1000, metavar="N", help="Trainings of a swarm. Default: 3 * (domains + 1)."),
    ] = None,
    size: Annotated[str, typer.Option(metavar="NAME", help=f"Of the models: {', '.join(SIZES)}.")] = "3m",
    tokens: Annotated[
        str | None, typer.Option(metavar="N", help="Tokens of each training. Default: by size.", show_default=False)
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu or cuda. Default: by size.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the block to this file, too.")] = None,
    store: StoreUri = None,
    workers: Workers = None,
    executor: ExecutorName = None,
    address: RayAddress = None,
    json: Json = False,
) -> None:
    """Propose shares of the domains, as a `mix` block with its evidence.

    swarm trains small models on random mixtures around the natural one, fits how each target depends on the shares,
    and finds the best shares under `max_epochs` and floors. doremi trains a reference model and a proxy that gives
    weight to domains on which it is worse than the reference. Trained models are kept in the store. The recipe is not
    changed.
    """
    check_executor(executor, address, None)
    for name, value, choices in (
        ("method", method, METHODS),
        ("size", size, SIZES),
        ("device", device, ("cpu", "cuda")),
    ):
        if value is not None and value not in choices:
            raise UserError(
                f"--{name} {value}: there is no such {name}, so nothing was trained. It is {', '.join(choices)}."
            )
    swarm_only = {"--suite": suite, "--target": target, "--runs": runs}
    if method == "doremi" and (given := [name for name, value in swarm_only.items() if value]):
        raise UserError(f"{given[0]} is for --method swarm, so nothing was trained. Leave it out, or use a swarm.")
    if out is not None and not out.parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {out.parent}, so nothing was trained. Make it first.")
    floors, targets = _pairs("--floor", floor, None), _pairs("--target", target, 1.0)
    setup = requested_setup(size, tokens, device)
    check_torch("gristmill mix")
    side = Side(recipe, open_shards(recipe))
    search = MixtureSearch(side, setup, store_for([side], store), str(suite) if suite else None, (executor, address))
    with Bars(quiet=json) as bars:
        if method == "swarm":
            proposal = search.swarm(floors, targets, bars, workers, runs)
        else:
            proposal = search.doremi(floors, bars, workers)
    if out is not None:
        write_text(out, proposal.to_yaml())
    if json:
        print_json(proposal.to_json())
    else:
        say(proposal.to_yaml().rstrip("\n"))


def _pairs(option: str, texts: list[str] | None, default: float | None) -> dict[str, float]:
    """NAME=NUMBER, or NAME alone where there is a default."""
    numbers = {}
    for text in texts or ():
        name, equals, number = text.rpartition("=")
        if not equals and default is not None:
            name, number = text, str(default)
        try:
            numbers[name] = float(number)
        except ValueError:
            numbers[name] = -1.0
        if not name or not 0 <= numbers[name] < float("inf") or (default is None and numbers[name] > 1):
            form = "NAME=WEIGHT, as code=2" if default is not None else "DOMAIN=SHARE, as code=0.05"
            raise UserError(f"{option} {text}: write {form}, so nothing was trained.")
    return numbers


app.command(name="propose", epilog="Example: gristmill mix propose corpus.yaml --out proposal.yaml")(propose_command)
