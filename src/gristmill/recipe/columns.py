"""Whether every step of every route finds what it needs: columns and models of the steps before it."""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gristmill.recipe.draft import Draft
from gristmill.recipe.mistakes import Path, dotted, listed, nearest
from gristmill.recipe.model import Step
from gristmill.schema import DOCUMENTS
from gristmill.stages import STEPS
from gristmill.stages.stage_interface import adds_layer, reads_of, schema_of, uses_of

Route = tuple[Step, ...]

INGEST = "ingest"
"""How a step names the documents as they were read: `ingest.text`."""


def check_routes(draft: Draft, routes: Mapping[str, Route], apart: str) -> None:
    """Adds what is wrong; a step that several sources go through is told once, with their names. What steps of the name
    `apart` read is checked where the user wrote it (`check_reads`).
    """
    told: dict[tuple[int, str], list[str]] = {}
    written: dict[int, list[str]] = {}
    for source, route in routes.items():
        for step, message in _faults(route, written, apart):
            told.setdefault((step.line, message), []).append(source)
    for line, message in _different_models(routes):
        draft.mistakes.add(line, message)
    for (line, message), sources in told.items():
        noun = "source" if len(sources) == 1 else "sources"
        draft.mistakes.add(line, f"{message} ({noun}: {listed(sources)})")


def _faults(route: Route, written: dict[int, list[str]], apart: str) -> Iterator[tuple[Step, str]]:
    """What is wrong with a route; `written` keeps the columns of steps, which many routes share."""
    columns = _as_read()
    steps: dict[str, list[Step]] = {}
    for at, step in enumerate(route):
        before = route[at - 1] if at else None
        module = importlib.import_module(step.module)
        reads = () if step.name == apart else reads_of(module, step.config)
        for message in _unread(step.id, reads, columns, route[:at], route[at + 1 :]):
            yield step, message
        for name in uses_of(module):
            same = steps.get(name)
            if not same:
                yield (
                    step,
                    f"{step.id} uses the model of a step {name}, and none is before it. Add - {name} above.",
                )
            elif not any(not adds_layer(importlib.import_module(other.module)) for other in same):
                yield (
                    step,
                    f"{step.id} uses the model of {name}, which fits none. Use a fit step of that name.",
                )
        if before and before.module == step.module and before.config == step.config:
            yield step, f"{step.id} repeats {before.id} with the same config, to no effect. Remove one."
        if id(step) not in written:
            written[id(step)] = _columns(step)
        columns[""].update(written[id(step)])
        columns.setdefault(step.name, set()).update(written[id(step)])
        steps.setdefault(step.name, []).append(step)


def check_reads(draft: Draft, at: Path, reads: Sequence[str], route: Route) -> None:
    """Adds what is wrong with the columns that an expression at `at` names; it is asked behind the whole route."""
    columns = _as_read()
    for step in route:
        columns[""].update(written := _columns(step))
        columns.setdefault(step.name, set()).update(written)
    for message in _unread(dotted(at), reads, columns, route, ()):
        draft.add(at, message)


def _as_read() -> dict[str, set[str]]:
    """All columns that there are, and those of each step's name, before any step."""
    return {"": set(DOCUMENTS.names), INGEST: set(DOCUMENTS.names)}


def _unread(
    who: str, reads: Iterable[str], columns: Mapping[str, set[str]], before: Route, after: Route
) -> Iterator[str]:
    """Why `who` cannot read what it wants, between these steps."""
    absent: dict[str, list[str]] = {}
    for read in reads:
        name, _, column = read.rpartition(".")
        if name not in columns:
            absent.setdefault(name, []).append(read)
        elif column not in columns[name]:
            yield _column_fault(who, read, before, after)
    for name, several in absent.items():
        yield _step_fault(who, name, several, before, after)


def models_of(step: Step, route: Sequence[Step]) -> dict[str, str]:
    """The models that a step uses: name -> id of the newest step of that name before it that makes one."""
    before = route[: route.index(step)]
    makers = {other.name: other.id for other in before if not adds_layer(importlib.import_module(other.module))}
    return {name: makers[name] for name in uses_of(importlib.import_module(step.module)) if name in makers}


def _different_models(routes: Mapping[str, Route]) -> Iterator[tuple[int, str]]:
    """A step that sources share has one model of a name; where their routes bring several, none of them is meant."""
    found: dict[str, tuple[Step, dict[str, dict[str, str]]]] = {}
    for source, route in routes.items():
        newest: dict[str, str] = {}
        for step in route:
            module = importlib.import_module(step.module)
            for name in uses_of(module):
                if name in newest:
                    found.setdefault(step.id, (step, {}))[1].setdefault(name, {})[source] = newest[name]
            if not adds_layer(module):
                newest[step.name] = step.id
    for step, models in found.values():
        for name, makers in models.items():
            if len(set(makers.values())) > 1:
                said = ", ".join(f"{maker} (source {source})" for source, maker in makers.items())
                yield (
                    step.line,
                    f"{step.id} uses one model of a step {name} for all of its sources, and they come with different "
                    f"ones: {said}. Fit one {name} for all of them, or give each kind of source a step of its own.",
                )


def _columns(step: Step) -> list[str]:
    names: list[str] = schema_of(importlib.import_module(step.module), step.config).names
    return names


def _column_fault(who: str, read: str, before: Route, after: Route) -> str:
    """Why `read` (`column`, or `step.column`) is not there when `who` wants it."""
    name, _, column = read.rpartition(".")
    if not name:
        columns = [*DOCUMENTS.names, *(known for other in before for known in _columns(other))]
        where = "neither the documents nor an earlier step has"
    elif name == INGEST:
        columns, where = DOCUMENTS.names, "the documents do not have"
    else:
        columns = [known for other in before if other.name == name for known in _columns(other)]
        where = f"{name} does not write"
    later = next((other for other in after if column in _columns(other)), None) if not name else None
    near = nearest(column, columns)
    fix = f"Move {later.id}, which writes it, above this step." if later else ""
    fix += f"Did you mean {near}?" if near and not later else ""
    fix += "" if near or later else f"Columns: {', '.join(dict.fromkeys(columns))}."
    return f"{who} reads the column {column}, which {where}. {fix}"


def _step_fault(who: str, name: str, reads: Sequence[str], before: Route, after: Route) -> str:
    """That no step `name`, whose columns `who` reads, stands before it: one mistake, however many columns."""
    late = any(other.name == name for other in after)
    near = None if late or name in STEPS else nearest(name, [other.name for other in before])
    fix = f"Did you mean {near}?" if near else f"Add - {name} to the steps before it."
    fix = f"Move {name} above it." if late else fix
    more = f" and {len(reads) - 1} more of it" if len(reads) > 1 else ""
    return f"{who} reads {reads[0]}{more}, and no step {name} stands before it. {fix}"
