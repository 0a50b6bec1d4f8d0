"""Open the corpus that a user names: a recipe file, or STORE@NAME for the result of a run."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill.engine.publish.run_record import finished_runs, last_finished, names_in, see
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import NoInput, UserError
from gristmill.hints import hint, option
from gristmill.places import is_url
from gristmill.recipe.checks.locations import locate_store
from gristmill.recipe.checks.mistakes import listed
from gristmill.stages import CORPUS
from gristmill.store.store import CorruptPart, Store

if TYPE_CHECKING:  # opening a recorded run does not need the code of the engine
    from gristmill.engine.mill import Mill
    from gristmill.engine.schedule.run import Run

MOST_NAMED = 5
"""The most steps that a message names."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_run(name: str) -> bool:
    """Whether a name is STORE@NAME. If a file or folder of that name exists, it is not."""
    return _NAME.fullmatch(name.rpartition("@")[2]) is not None and "@" in name and not os.path.exists(name)


def open_store(name: str, given: str | None = None, sample: str | None = None) -> Store | None:
    """The store in STORE or STORE@NAME; None if `name` is a recipe."""
    location = name.rpartition("@")[0] if is_run(name) else name
    if location == name and not is_url(name) and not os.path.isdir(name):
        return None
    if given is not None:
        raise UserError(f"{name} already names a store. Leave out {option('store', given)}.")
    if sample is not None:
        raise UserError(
            f"{name} names a run, but {option('sample', sample)} only applies to recipes. The run of a sample has its "
            f"own name, which the run shows: write it after the @, without {option('sample')}."
        )
    return Store(locate_store(location, "STORE"))


def open_mill(
    recipe: Path | str,
    store: str | None = None,
    until: str | None = None,
    executor: str | None = None,
    address: str | None = None,
    profile: str | None = None,
    sample: str | None = None,
) -> "Mill":
    """Load the recipe in a file, with its store. Raises UserError with the alternatives if `recipe` is STORE@NAME."""
    name = str(recipe)
    if is_run(name):
        where = open_store(name, store, sample)
        assert where is not None
        see(where, name.rpartition("@")[2])  # a wrong name lists the right ones
        raise UserError(
            f"{name} names a run, but this needs the recipe file, its inputs and the code of its steps. Nothing was "
            f"done. To get the recipe of that run: {hint('recipe_of', name=name)}. These work with the store "
            f"alone: {hint('from_store', name=name)}"
        )
    from gristmill.engine.mill import Mill
    from gristmill.recipe.load import load

    return Mill(load(recipe, store=store, sample=sample, profile=profile), until, executor, address)


def open_run(name: str, store: str | None = None, sample: str | None = None) -> CorpusView:
    """The result of the run that STORE@NAME names."""
    where = open_store(name, store, sample)
    assert where is not None
    return see(where, name.rpartition("@")[2])


def refuse_folder(name: str, store: str | None = None, sample: str | None = None) -> None:
    """Raise UserError for a store without the name of a run."""
    named = open_store(name, store, sample)
    if named is not None:
        raise UserError(f"{name} is a store, not a recipe or a run. To name a run, write STORE@NAME. {names_in(named)}")


def dry_run_with_inputs(mill: "Mill", instead: str | None = None, previews: bool = False) -> "Run":
    """The state of the current recipe. If its inputs are missing, the error says how to use its last run, as `{0}`."""
    try:
        return mill.dry_run(previews=previews)
    except NoInput as gone:
        if gone.is_slip or next(finished_runs(mill.store, mill.recipe.name), None) is None:
            raise
        last = f"{mill.store.uri}@{mill.recipe.name}"
        others = f"These work without the inputs: {hint('from_store', name=last)}"
        raise UserError(f"{gone} {others if instead is None else instead.format(last)}") from None


def dry_run(mill: "Mill") -> "Run":
    """The same for callers that accept the last run instead of the recipe."""
    return dry_run_with_inputs(
        mill, f"To use its last run without the inputs, write {{0}} instead of {mill.recipe.path}."
    )


def check_finished(view: CorpusView, command: str = "") -> None:
    """Raise UserError if not all steps have processed all documents; `command` is suggested for a finished run."""
    has_some, open_steps = any(view.documents.values()), view.unfinished()
    if open_steps:
        from gristmill.query.documents.documents import unfinished  # needs the code of the engine

        last = [node_id for node_id in open_steps if view.nodes[node_id].name == CORPUS]
        open_steps = unfinished(view, None) or last
    if open_steps or not has_some:
        waits = f" ({listed(open_steps, MOST_NAMED)})" if open_steps and has_some else ""
        raise UserError(
            f"{view.label} has not finished with the current recipe{waits}, so the content of the corpus is unknown. "
            f"{view.to_finish}{last_finished(view, command)}"
        )


def damage_message(corrupt: CorruptPart, recipe: str) -> str:
    """The message for a damaged part, with the command that repairs it."""
    return (
        f"part {corrupt.part_hash[:12]} of the store {corrupt.fact}, so nothing is shown. "
        f"{hint('repair', recipe=recipe)} makes it again."
    )
