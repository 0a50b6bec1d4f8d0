"""Compares a finished run with another version, and raises an alarm for every change that is large and not chance.

Everything comes from the metrics and columns in the store. Every comparison has two limits: the least change that
matters (`watch` of the recipe), and the change that two samples of the same documents may show by chance
(versions/distances.py). An alarm exceeds both. Alarms are in the order of the pipeline, and each has the number of the
first one that it may follow from.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gristmill.engine.publish.run_record import newest_run, see
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.hints import option, share_text
from gristmill.query import opening
from gristmill.query.removal.funnel import languages as language_counts
from gristmill.query.versions import comparisons
from gristmill.query.versions.comparisons import KINDS, Alarm
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.checks.mistakes import listed, suggest
from gristmill.recipe.sections.watch import WatchFields
from gristmill.store.store import Store

if TYPE_CHECKING:
    from gristmill.engine.mill import Mill


@dataclass
class Comparison:
    """The comparison of a run with another version."""

    against: str
    """How the user names the other version."""
    alarms: list[Alarm] = field(default_factory=list)
    """In the order of the pipeline."""
    notes: list[str] = field(default_factory=list)
    """Facts that are not alarms, such as comparisons that were left out."""

    def as_record(self) -> dict[str, Any]:
        """For the record of a run and for programs."""
        return {"against": self.against, "alarms": [asdict(alarm) for alarm in self.alarms], "notes": self.notes}


def open_against(store: Store, against: str) -> CorpusView:
    """The version to compare with: a name or hash in the store, or STORE@NAME. UserError if there is none."""
    return opening.open_run(against) if opening.is_run(against) else see(store, against)


def make_watch(mill: "Mill") -> Callable[[CorpusView], dict[str, Any]] | None:
    """The comparison for a recipe with `watch`. A version that does not exist is a UserError, before any work.

    The recipe's own name is its last whole run. Before there is one, nothing is compared.
    """
    settings, recipe = mill.recipe.watch, mill.recipe
    if settings is None or mill.until is not None:
        return None
    own = settings.against in (recipe.name, recipe.file_name)
    is_first = own and newest_run(mill.store, settings.against) is None
    for name in settings.most_s_per_mb:
        if not any(name in (node.id, node.name) for node in mill.graph.nodes.values()):
            known = [*dict.fromkeys(node.name for node in mill.graph.nodes.values())]
            raise UserError(
                f"watch.most_s_per_mb: {name} is not a step of this recipe. {suggest(name, known, 'Steps')}"
            )
    if is_first:
        return lambda view: _without_another(view, settings).as_record()
    other = open_against(mill.store, settings.against)
    return lambda view: compare(view, other, settings).as_record()


def _without_another(view: CorpusView, settings: WatchFields) -> Comparison:
    first = f"watch: {settings.against} has no finished run yet, so this run is not compared."
    alarms = [*comparisons.over_budget(view, settings)]
    return Comparison(settings.against, by_cause(alarms, view, view), [first])


def watch_now(view: CorpusView, against: str | None, settings: WatchFields | None) -> Comparison:
    """Compare a finished corpus with a version, or with the one that its recipe watches, if `against` is None."""
    opening.check_finished(view, "watch")
    if against is not None:
        settings = WatchFields(**{**(dict(settings) if settings else {}), "against": against})
    if settings is None:
        raise UserError(
            f"{view.label} has no watch:, so there is nothing to compare it with. Name a version with "
            f"{option('against')}, or add watch: VERSION to the recipe."
        )
    return compare(view, open_against(view.store, settings.against), settings)


def by_cause(alarms: Sequence[Alarm], view: CorpusView, other: CorpusView) -> list[Alarm]:
    """Alarms by the step where each begins, and each with the first one that it may follow from: one that begins
    earlier in the pipeline of a common source. No alarm follows from the cost of a step, or the other way round.
    """
    places = [{step: place for place, step in enumerate(one.nodes)} for one in (other, view)]
    last = max(map(len, places))

    def place(alarm: Alarm) -> int:
        is_read = alarm.step.endswith(f"/{INGEST}")
        return -1 if is_read else places[1].get(alarm.step, places[0].get(alarm.step, last))

    found: list[Alarm] = []
    for alarm in sorted(alarms, key=place):
        related = (
            one
            for one in found
            if comparisons.COST not in (one.what, alarm.what)
            and (comparisons.ALL in (one.source, alarm.source) or one.source == alarm.source)
        )
        found.append(replace(alarm, cause=next((one.cause for one in related), len(found))))
    order = sorted(range(len(found)), key=lambda number: (found[number].cause, number))
    return [replace(found[number], cause=order.index(found[number].cause)) for number in order]


def compare(view: CorpusView, other: CorpusView, settings: WatchFields | None = None) -> Comparison:
    """Compare a finished corpus with another version of it."""
    settings = settings or WatchFields(against=other.label)
    found = Comparison(settings.against)
    sides = comparisons.read_sides(other, view, settings)
    alarms = [*comparisons.steps(sides), *comparisons.distributions(sides), *comparisons.languages(sides)]
    alarms += [*comparisons.tokens_per_byte(sides), *comparisons.tokens(sides)]
    alarms += [*comparisons.costs(sides), *comparisons.over_budget(view, settings)]
    if sides.same_share:
        alarms += [*comparisons.documents(sides), *comparisons.survival(sides), *comparisons.clusters(sides)]
    else:
        shares = ["100%" if one is None else share_text(one) for one in sides.samples]
        found.notes.append(
            f"watch: this run read {shares[1]} of the records, and {sides.label} {shares[0]}, so documents, survival "
            "and clusters are not compared: the share of duplicates depends on the size of a sample."
        )
    order = {name: number for number, name in enumerate((comparisons.ALL, *view.chains, *view.nodes))}
    alarms.sort(key=lambda alarm: (KINDS.index(alarm.what), order.get(alarm.where, len(order))))
    found.alarms = by_cause([one for one in alarms if not {one.what, one.where} & {*settings.ignore}], view, other)
    known = [*KINDS, *order, *(one.value for one in sides.measures)]
    found.notes += [
        f"watch.ignore: {name} is not compared, so it has no effect. Known: {listed(known, 20)}"
        for name in settings.ignore
        if name not in {*known, *language_counts(view)}
    ]
    return found
