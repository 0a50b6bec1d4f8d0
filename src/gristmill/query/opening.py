"""From what a user names to a corpus: a recipe's file, or STORE@NAME for what a run made."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill.engine.publish.run_record import finished_runs, last_finished, names_in, see, see_record
from gristmill.engine.publish.unchanged import unchanged_run
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import NoInput, UserError
from gristmill.hints import hint, option
from gristmill.places import is_url
from gristmill.recipe.checks.locations import locate, locate_store
from gristmill.recipe.checks.mistakes import listed
from gristmill.stages import CORPUS
from gristmill.store.store import CorruptPart, Store

if TYPE_CHECKING:  # a run is opened from its record alone, without the code that would run it
    from gristmill.engine.mill import Mill
    from gristmill.engine.schedule.run import Run

MOST_NAMED = 5
"""Steps that a message names."""
_PLAIN = re.compile(r" *([\w./-]+) *(?: #.*)?\r?")
"""A value of a recipe that no reader of YAML could take for anything but these characters."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_run(name: str) -> bool:
    """Whether a user names a run by STORE@NAME; what exists under that name is a file or a folder."""
    return _NAME.fullmatch(name.rpartition("@")[2]) is not None and "@" in name and not os.path.exists(name)


def open_store(name: str, given: str | None = None, sample: str | None = None) -> Store | None:
    """The store that stands in the place of a recipe, with the name of a run behind it or without; None: a recipe."""
    location = name.rpartition("@")[0] if is_run(name) else name
    if location == name and not is_url(name) and not os.path.isdir(name):
        return None
    if given is not None:
        raise UserError(f"{name} names a store, and so does {option('store', given)}. Leave {option('store')} out.")
    if sample is not None:
        raise UserError(
            f"{name} names a run, and {option('sample', sample)} is for recipes, so it is not clear what to look at. A "
            f"sample has its own name, which its run shows: write it after the @, without {option('sample')}."
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
    """The recipe in a file, with its store; a run that is named in its place is refused, with what can be done."""
    name = str(recipe)
    if is_run(name):
        where = open_store(name, store, sample)
        assert where is not None
        see(where, name.rpartition("@")[2])  # a wrong name lists the right ones
        raise UserError(
            f"{name} names a run, and this needs the recipe with its inputs and the code of its steps, so nothing was "
            f"done. The recipe as it was run: {hint('recipe_of', name=name)}. From the store alone "
            f"come {hint('from_store', name=name)}"
        )
    from gristmill.engine.mill import Mill
    from gristmill.recipe.load import load

    return Mill(load(recipe, store=store, sample=sample, profile=profile), until, executor, address)


def open_unchanged(recipe: str, store: str | None = None) -> CorpusView | None:
    """What the last run of a recipe made, if nothing that it depends on has changed since; else None."""
    try:
        with open(recipe, encoding="utf-8", newline="") as file:
            text = file.read()
    except (OSError, ValueError):
        return None
    values = [re.findall(rf"^{key} *:(.*)", text, re.MULTILINE) for key in ("recipe", "store")]
    plain = [_PLAIN.fullmatch(found[0]) if len(found) == 1 else None for found in values]
    if plain[0] is None or (plain[1] is None and values[1]):
        return None
    path = os.path.abspath(recipe)
    written = locate(plain[1][1] if plain[1] else "./store", os.path.dirname(path))
    where = Store(written if store is None else locate_store(store, option("store")))
    if (record := unchanged_run(where, plain[0][1], path, text)) is None:
        return None
    with suppress(UserError):
        view = see_record(where, recipe, record)
        if all(
            len(view.states[one].tasks) == told["executed"] + told["cached"] for one, told in record["nodes"].items()
        ):
            return view
    return None


def open_run(name: str, store: str | None = None, sample: str | None = None) -> CorpusView:
    """What the run made that STORE@NAME names."""
    where = open_store(name, store, sample)
    assert where is not None
    return see(where, name.rpartition("@")[2])


def refuse_folder(name: str, store: str | None = None, sample: str | None = None) -> None:
    """A store without the name of a run is neither a recipe nor a run."""
    named = open_store(name, store, sample)
    if named is not None:
        raise UserError(
            f"{name} names no recipe and no run, so there is nothing to look at. Write STORE@NAME. {names_in(named)}"
        )


def dry_run_with_inputs(mill: "Mill", instead: str | None = None, previews: bool = False) -> "Run":
    """What there is of a recipe as it is now; where its inputs are gone, what can be done with its last run ({0})."""
    try:
        return mill.dry_run(previews=previews)
    except NoInput as gone:
        if gone.is_slip or next(finished_runs(mill.store, mill.recipe.name), None) is None:
            raise
        last = f"{mill.store.uri}@{mill.recipe.name}"
        others = f"From the store alone come {hint('from_store', name=last)}"
        raise UserError(f"{gone} {others if instead is None else instead.format(last)}") from None


def dry_run(mill: "Mill") -> "Run":
    """The same for whoever can look at the last run in place of the recipe."""
    return dry_run_with_inputs(
        mill, f"To look at its last run without its inputs, write {{0}} in place of {mill.recipe.path}."
    )


def check_finished(view: CorpusView, command: str = "") -> None:
    """Refuse a corpus of which some document is not judged by all steps; `command` looks at one that is."""
    from gristmill.query.documents.documents import unfinished

    last = [node_id for node_id in view.unfinished() if view.nodes[node_id].name == CORPUS]
    open_steps, has_some = unfinished(view, None) or last, any(view.documents.values())
    if open_steps or not has_some:
        waits = f" ({listed(open_steps, MOST_NAMED)})" if open_steps and has_some else ""
        raise UserError(
            f"{view.label} has not run to its end as it is now{waits}, so nobody knows what belongs to the corpus. "
            f"{view.to_finish}{last_finished(view, command)}"
        )


def damage_message(corrupt: CorruptPart, recipe: str) -> str:
    """What to tell of a part that is not what its name says, and which command mends it."""
    return (
        f"part {corrupt.part_hash[:12]} of the store {corrupt.fact}, so nothing of it is shown. "
        f"{hint('repair', recipe=recipe)} makes it again."
    )
