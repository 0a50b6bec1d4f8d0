"""Refuses a mixture that repeats a text far more often than its cap allows, or has too much generated text.

If a budget is somewhat above the caps, the run warns. If it is far above them, it is most likely a mistake (a wrong
unit, a missing input, a filter that removed nearly everything), and training would only repeat the same text.

`max_generated` limits the share of generated tokens. `max_family_epochs` limits how often training sees a parent, on
average: itself, and each document that was generated from it, as often as they are drawn.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil

from gristmill.counted import counted
from gristmill.errors import CannotBeMet
from gristmill.stages.mix.groups import MixGroup
from gristmill.stages.mix.numbers import exact
from gristmill.stages.mix.options import MixOptions
from gristmill.stages.mix.plan import Planned, cap_of, phases_of, tokens_of

MOST_EPOCHS = 16
"""The most epochs of a group, unless `max_epochs` allows more. Further epochs of the same text are worth nothing
(Muennighoff et al. 2023). This is four times the default cap, so that rounding never reaches it."""


def taken_by(groups: Iterable[MixGroup], planned: Iterable[Planned], drawn: Mapping[str, int]) -> dict[str, int]:
    """The samples of each group that all phases draw; `drawn`: those drawn before."""
    taken = {group.name: drawn.get(group.name, 0) for group in groups}
    for phase in planned:
        for name, count in phase.weights.items():
            taken[name] += count
    return taken


def refuse_excess(
    groups: Iterable[MixGroup], planned: Iterable[Planned], options: MixOptions, drawn: Mapping[str, int] | None = None
) -> None:
    """Raise CannotBeMet if a group exceeds both its cap and MOST_EPOCHS; `drawn`: samples drawn before."""
    by_name = {group.name: group for group in groups}
    taken = taken_by(by_name.values(), planned, drawn or {})
    phases = phases_of(options)
    caps = {name: max(cap_of(group, phase) for phase in phases) for name, group in by_name.items()}
    # Rounding to whole samples may exceed the bound by one sample.
    most = {name: max(cap, Fraction(MOST_EPOCHS)) for name, cap in caps.items()}
    over = [name for name, group in by_name.items() if taken[name] - 1 > most[name] * group.samples]
    if not over:
        return
    epochs = {name: Fraction(taken[name], by_name[name].samples) for name in over}
    worst = max(over, key=lambda name: (epochs[name], name))
    used = [name for name, count in taken.items() if count]
    # The number as the user wrote it, if possible; the drawn tokens are rounded to whole samples.
    wanted = options.tokens or (
        sum(phase.tokens or 0 for phase in phases)
        if not drawn and all(phase.tokens for phase in phases)
        else sum(tokens_of(by_name[name], taken[name]) for name in used)
    )
    held = sum(by_name[name].tokens for name in used)
    allowed = sum(int(caps[name] * by_name[name].tokens) for name in used)
    others = f" (the most of {counted(len(over), 'group')})" if len(over) > 1 else ""
    raise CannotBeMet(
        f"mix: the mixture needs {counted(wanted, 'token')}, but its groups have only {held:,}, so {worst} would be "
        f"drawn {counted(ceil(epochs[worst]), 'time')}{others}; max_epochs is {float(caps[worst]):g}. Training would "
        f"repeat the same text over and over. Lower mix.tokens (or the tokens of the phases) to at most "
        f"{counted(allowed, 'token')}, add text, see in the funnel what each rule dropped, or, if this is "
        f"intended, write max_epochs: {ceil(epochs[worst])}."
    )


def refuse_generated(
    groups: Iterable[MixGroup],
    planned: Iterable[Planned],
    options: MixOptions,
    parents: Mapping[str, tuple[str, ...]],
    drawn: Mapping[str, int],
) -> None:
    """Raise CannotBeMet if a cap is exceeded; `parents` has those of each derived source."""
    by_name = {group.name: group for group in groups}
    taken = taken_by(by_name.values(), planned, drawn)
    tokens: dict[str, int] = {}
    draws: dict[str, Fraction] = {}
    documents: dict[str, int] = {}
    for name, group in by_name.items():
        tokens[group.source] = tokens.get(group.source, 0) + tokens_of(group, taken[name])
        share = Fraction(taken[name], group.samples) * group.documents
        draws[group.source] = draws.get(group.source, Fraction(0)) + share
        documents[group.source] = documents.get(group.source, 0) + group.documents
    made = sum(tokens.get(source, 0) for source in parents)
    whole = sum(tokens.values())
    if options.max_generated is not None and made > exact(options.max_generated) * whole:
        raise CannotBeMet(
            f"mix: {made / whole:.1%} of its tokens are generated ({', '.join(parents)}), but max_generated is "
            f"{options.max_generated:.1%}. Lower the ratios of their domains, or raise max_generated."
        )
    if options.max_family_epochs is None:
        return
    for family in sorted(set(parents.values())):
        children = [source for source, its in parents.items() if its == family]
        held = sum(documents.get(source, 0) for source in family)
        seen = sum((draws.get(source, Fraction(0)) for source in (*family, *children)), Fraction(0))
        if held and seen > exact(options.max_family_epochs) * held:
            raise CannotBeMet(
                f"mix: a document of {', '.join(family)} is seen {float(seen / held):.1f} times on average, counting "
                f"what was generated from it ({', '.join(children)}), but max_family_epochs is "
                f"{options.max_family_epochs:g}. Lower mix.tokens or the ratios of these domains, or raise "
                "max_family_epochs."
            )
