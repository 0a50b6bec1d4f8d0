"""Checks that every step of every route finds the columns and models it needs, and explains why if it does not."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gristmill.recipe.checks.columns import INGEST, Before, Binding, Route, bind_route, columns_of
from gristmill.recipe.checks.mistakes import Path, dotted, listed, nearest
from gristmill.recipe.draft import Draft
from gristmill.recipe.model import Step
from gristmill.schema import DOCUMENTS
from gristmill.stages import STEPS
from gristmill.stages.declarations import stage_of

_OPTIONAL = {"images": "Set images: true where its sources are read."}
"""Columns that documents have only with a setting of their reader."""


def check_routes(draft: Draft, routes: Mapping[str, Route], apart: str, more: Mapping[str, Sequence[str]]) -> None:
    """Add the mistakes of all routes. A mistake in a step that several sources share is reported once, with their
    names. Columns read by steps with the name `apart` are checked where the user wrote them (`check_reads`).
    `more` has the columns that only the reader of a source has.
    """
    sources_of: dict[tuple[int, str], list[str]] = {}
    known: dict[int, tuple[str, ...]] = {}
    bound = {source: bind_route(route, known, more.get(source, ())) for source, route in routes.items()}
    for source, route in routes.items():
        for step, message in _faults(route, bound[source], apart):
            sources_of.setdefault((step.line, message), []).append(source)
    for line, message in _different_models(routes, bound):
        draft.mistakes.add(line, message)
    for (line, message), sources in sources_of.items():
        noun = "source" if len(sources) == 1 else "sources"
        draft.mistakes.add(line, f"{message} ({noun}: {listed(sources)})")


def _faults(route: Route, bound: Sequence[Binding], apart: str) -> Iterator[tuple[Step, str]]:
    """The mistakes of one route."""
    for at, (step, binding) in enumerate(zip(route, bound, strict=True)):
        before, after = route[:at], route[at + 1 :]
        if step.name != apart and binding.columns:
            for message in _unread(step.id, binding.columns, before, after):
                yield step, message
        for name in binding.models:
            if any(other.name == name for other in before):
                fix = "Use a step of that name that does: a fit or an asset."
                yield step, f"{step.id} uses the model of {name}, which does not make one. {fix}"
            else:
                yield step, f"{step.id} uses the model of a step {name}, but none comes before it. Add - {name} above."
        if binding.counts is not None:
            fix = f"Add - {binding.counts} above."
            yield step, f"{step.id} needs the counts of a step {binding.counts}, but none comes before it. {fix}"
        last = before[-1] if before else None
        if last and last.module == step.module and last.config == step.config:
            yield step, f"{step.id} repeats {last.id} with the same config, which has no effect. Remove one."


def check_reads(draft: Draft, at: Path, reads: Sequence[str], route: Route, more: Sequence[str] = ()) -> None:
    """Add the mistakes in the columns that the expression at `at` names; it is evaluated after the whole route."""
    before = Before(more)
    for step in route:
        before.add(step, columns_of(step))
    absent = [name for name in reads if before.layer_of(name) is None]
    for message in _unread(dotted(at), absent, route, ()):
        draft.add(at, message)


def _unread(who: str, reads: Iterable[str], before: Route, after: Route) -> Iterator[str]:
    """Why `who` cannot read these columns, between these steps."""
    names = {"", INGEST, *(name for step in before for name in (step.name, step.id))}
    absent: dict[str, list[str]] = {}
    for read in reads:
        name = read.rpartition(".")[0]
        if name in names:
            yield _column_fault(who, read, before, after)
        else:
            absent.setdefault(name, []).append(read)
    for name, several in absent.items():
        yield _step_fault(who, name, several, before, after)


def _different_models(routes: Mapping[str, Route], bound: Mapping[str, Sequence[Binding]]) -> Iterator[tuple[int, str]]:
    """Mistakes of steps that would get several models of one name. A map step uses the model of each document's route.
    Any other step processes the documents of all its sources at once, so it can only use one model per name.
    """
    found: dict[str, tuple[Step, dict[str, dict[str, str]]]] = {}
    for source, route in routes.items():
        for step, binding in zip(route, bound[source], strict=True):
            if binding.view.models and stage_of(step.module).kind != "map":
                for name, maker in binding.view.models.items():
                    found.setdefault(step.id, (step, {}))[1].setdefault(name, {})[source] = maker
    for step, models in found.values():
        for name, makers in models.items():
            if len(set(makers.values())) > 1:
                listing = ", ".join(f"{maker} (source {source})" for source, maker in makers.items())
                yield (
                    step.line,
                    f"{step.id} uses one model of a step {name} for all of its sources, but they have different "
                    f"ones: {listing}. Fit one {name} for all of them, or give each kind of source its own step.",
                )


def _column_fault(who: str, read: str, before: Route, after: Route) -> str:
    """Why `read` (`column`, or `step.column`) is missing where `who` reads it."""
    name, _, column = read.rpartition(".")
    if not name:
        columns = [*DOCUMENTS.names, *(known for other in before for known in columns_of(other))]
        where = "neither the documents nor an earlier step has"
    elif name == INGEST:
        columns, where = DOCUMENTS.names, "the documents do not have"
    else:
        columns = [known for other in before if name in (other.name, other.id) for known in columns_of(other)]
        where = f"{name} does not write"
    later = next((other for other in after if column in columns_of(other)), None) if not name else None
    near = nearest(column, columns)
    fix = f"Move {later.id}, which writes it, above this step." if later else ""
    fix += f"Did you mean {near}?" if near and not later else ""
    fix += _OPTIONAL.get(read, "")
    fix += "" if fix else f"Columns: {', '.join(dict.fromkeys(columns))}."
    return f"{who} reads the column {column}, which {where}. {fix}"


def _step_fault(who: str, name: str, reads: Sequence[str], before: Route, after: Route) -> str:
    """The message for a missing step `name` whose columns `who` reads: one mistake, however many columns."""
    late = any(other.name == name for other in after)
    near = None if late or name in STEPS else nearest(name, [other.name for other in before])
    fix = f"Did you mean {near}?" if near else f"Add - {name} to the steps before it."
    fix = f"Move {name} above it." if late else fix
    more = f" and {len(reads) - 1} more of its columns" if len(reads) > 1 else ""
    return f"{who} reads {reads[0]}{more}, but no step {name} comes before it. {fix}"
