"""What the commands `ablate` and `mix propose` have in common."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

from gristmill.cli.shared.options import parsed
from gristmill.errors import UserError
from gristmill.install_command import install_package
from gristmill.recipe.checks.locations import locate_store
from gristmill.stages.config_types import parse_count
from gristmill.store.store import Store
from gristmill_ablate.setups import Setup, setup_of
from gristmill_ablate.trainings import Side


def check_torch(command: str) -> None:
    """Raise UserError if torch is not installed."""
    if find_spec("torch") is None:
        command_line = install_package("ablate", "torch")
        raise UserError(f"{command} trains models with torch, which is not installed. Run: {command_line}")


def requested_setup(size: str, tokens: str | None, device: str | None) -> Setup:
    """The usual setup of a size, with other tokens or on another device."""
    setup = setup_of(size, device)
    if tokens is None:
        return setup
    count = int(parsed("--tokens", tokens, parse_count, "nothing was trained"))
    if not count:
        raise UserError("--tokens 0: a model trained on no tokens shows nothing, so nothing was trained. Give more.")
    return replace(setup, tokens=count)


def store_for(sides: Sequence[Side], given: str | None) -> Store:
    """The store for the models: the one of --store, or that of the last corpus."""
    if given is not None:
        return Store(locate_store(given, "--store"))
    last = sides[-1]
    if last.shards.view is None:
        raise UserError(f"{last.name} is a manifest, which has no store for the models. Name one with --store.")
    return last.shards.view.store
