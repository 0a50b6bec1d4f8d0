"""The `takedowns` of a recipe: the steps behind all others that take out what somebody asked to be taken out."""

import os
from typing import Any

from gristmill.errors import UserError
from gristmill.recipe.config import load_config
from gristmill.recipe.draft import Draft
from gristmill.recipe.fields import EVERY_SOURCE
from gristmill.recipe.locations import locate
from gristmill.recipe.mistakes import Path
from gristmill.recipe.model import Step
from gristmill.recipe.stage_module import check_config
from gristmill.stages.contract import File, StageConfig
from gristmill.stages.takedown import takedown, takedown_match, takedown_sets
from gristmill.stages.takedown.requests import read_requests

AT: Path = ("takedowns",)
MATCH, SETS, TAKEDOWN = "takedown_match", "takedown_sets", "takedown"
"""Names of the steps."""


class TakedownFields(takedown.Config):
    """The field `takedowns`, where it is more than a path."""

    file: File
    """The requests: who asks for what to go."""


def load_takedowns(draft: Draft, raw: Any) -> tuple[Step, ...]:
    """The steps that the requests stand for; none where the recipe has none, or a mistake in them."""
    if raw is None or AT in draft.tree.broken:
        return ()
    fields = load_config(draft, TakedownFields, {"file": raw} if isinstance(raw, str) else raw, AT)
    if not isinstance(fields, TakedownFields):
        return ()
    if "://" in fields.file:
        draft.add(AT, f"takedowns names {fields.file}, and requests are read from a local file. Copy them here.")
        return ()
    try:
        requests = read_requests(fields.file)
    except UserError as error:
        draft.add(AT, f"takedowns: {error}")
        return ()
    folder = os.path.dirname(fields.file)
    texts = tuple(locate(text, folder) for request in requests for text in request.texts)
    name = os.path.basename(fields.file) if fields.file.lower().endswith(".txt") else ""
    sets = takedown_sets.Config(requests=fields.file, texts=texts, name=name, documents=fields.copies != "keep")
    if not check_config(draft, takedown_sets, TAKEDOWN, sets, AT):
        return ()
    judge = takedown.Config(near=fields.near, copies=fields.copies)
    line = draft.tree.line_of_key(AT)
    return (
        _step(MATCH, takedown_match.__name__, takedown_match.Config(requests=fields.file, name=name), line),
        _step(SETS, takedown_sets.__name__, sets, line),
        _step(TAKEDOWN, takedown.__name__, judge, line),
    )


def _step(name: str, module: str, config: StageConfig, line: int) -> Step:
    return Step(f"{EVERY_SOURCE}/{name}", name, EVERY_SOURCE, module, config, line, stands_for="takedowns")
