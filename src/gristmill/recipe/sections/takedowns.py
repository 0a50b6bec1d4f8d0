"""The `takedowns` of a recipe: the steps after all others that remove documents on request."""

import os
from typing import Annotated, Any

from pydantic import BeforeValidator

from gristmill.errors import UserError
from gristmill.recipe.checks.locations import locate
from gristmill.recipe.checks.mistakes import Path, show
from gristmill.recipe.config import load_config
from gristmill.recipe.draft import Draft
from gristmill.recipe.fields import EVERY_SOURCE
from gristmill.recipe.model import Source, Step
from gristmill.recipe.stage_module import check_config
from gristmill.stages import TAKEDOWN, TAKEDOWN_MATCH, TAKEDOWN_SETS, TAKEDOWN_UNSENT
from gristmill.stages.contract import File, Map
from gristmill.stages.declarations import stage_of
from gristmill.stages.takedown import takedown, takedown_match, takedown_sets, takedown_unsent
from gristmill.stages.takedown.requests import read_all, read_requests

FIELD = "takedowns"
AT: Path = (FIELD,)


def _several(value: object) -> Any:
    return (value,) if isinstance(value, str) else value


class TakedownFields(takedown.Choices):
    """The field `takedowns`, if it is more than a path."""

    file: Annotated[tuple[File, ...], BeforeValidator(_several)]
    """The requests, in one or several files: which documents must be removed."""
    receipts: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    """Folders of receipts, so that copies of documents in them go although these are read no more."""


def load_takedowns(draft: Draft, raw: object) -> tuple[Step, ...]:
    """The steps that carry out the requests; empty if the recipe has no requests, or a mistake in them."""
    if raw is None or AT in draft.tree.broken:
        return ()
    if not isinstance(raw, str | list | dict):
        draft.add(AT, f"takedowns must be the path of a file of requests, not {show(raw)}. Write takedowns: FILE.")
        return ()
    values = raw if isinstance(raw, dict) else {"file": raw}
    fields = load_config(draft, TakedownFields, {**values, "file": _several(values.get("file"))}, AT)
    if not isinstance(fields, TakedownFields):
        return ()
    away = [path for path in fields.file if "://" in path]
    if away:
        draft.add(AT, f"takedowns names {away[0]}, but requests are read from a local file. Download the file.")
        return ()
    texts, labels = [], []
    try:
        for path in fields.file:
            folder = os.path.dirname(path)
            for request in read_requests(path):
                texts += [locate(text, folder) for text in request.texts]
                labels += [f"{request.id}: {text}" for text in request.texts]
        read_all(fields.file)
    except UserError as error:
        draft.add(AT, f"takedowns: {error}")
        return ()
    about = {"requests": fields.file, "names": tuple(map(_name, fields.file))}
    receipts = tuple(os.path.join(locate(folder, draft.folder), takedown_sets.OF_RECEIPT) for folder in fields.receipts)
    sets = takedown_sets.Config(**about, texts=tuple(texts), receipts=receipts, documents=fields.copies != "keep")
    if not check_config(draft, takedown_sets.__name__, TAKEDOWN, sets, AT):
        return ()
    judge = takedown.Config(near=fields.near, copies=fields.copies, texts=tuple(labels))
    line = draft.tree.line_of_key(AT)
    return (
        Step.implied(FIELD, TAKEDOWN_MATCH, takedown_match, takedown_match.Config(**about), line),
        Step.implied(FIELD, TAKEDOWN_SETS, takedown_sets, sets, line),
        Step.implied(FIELD, TAKEDOWN, takedown, judge, line),
    )


def mark_unsent(source: Source | None, route: tuple[Step, ...], takedowns: tuple[Step, ...]) -> tuple[Step, ...]:
    """The route of a source with a step before the first one that sends documents to a model, which marks those that
    requests name. A derived source has its own step, since its parents take theirs before its documents exist.
    None is a source with a mistake.
    """
    stages = [(stage_of(step.module), step.config) for step in route]
    asking = (isinstance(one, Map) and one.scope_of(config) is not None for one, config in stages)
    at = next((number for number, asks in enumerate(asking) if asks), None)
    if at is None or not takedowns:
        return route
    _, sets, judge = (step.config for step in takedowns)
    assert isinstance(sets, takedown_sets.Config)
    assert isinstance(judge, takedown.Config)
    config = takedown_unsent.Config(requests=sets.requests, names=sets.names, texts=sets.texts, near=judge.near)
    of = source.name if source is not None and source.parents else EVERY_SOURCE
    step = Step.implied(FIELD, TAKEDOWN_UNSENT, takedown_unsent, config, takedowns[0].line, of)
    return (*route[:at], step, *route[at:])


def _name(path: str) -> str:
    """The base name of a text file, which names its only request; other files name their requests, so "" for them."""
    return os.path.basename(path) if path.lower().endswith(".txt") else ""
