"""Refuses a mixture that draws a text far more often than anybody asked for.

A budget that is somewhat beyond the caps is a matter of taste: the run warns. One that is far beyond them is a slip (a
unit, an input that is missing, a filter that took nearly everything), and the training would see nothing else.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil

from gristmill.counted import counted
from gristmill.errors import CannotBeMet
from gristmill.stages.mix.groups import Group
from gristmill.stages.mix.options import MixOptions
from gristmill.stages.mix.plan import Planned, cap_of, phases_of, tokens_of

UNASKED_EPOCHS = 16
"""The most epochs of a group, unless `max_epochs` allows more. By then another epoch of the same text is worth nothing
(Muennighoff et al. 2023); four times the default cap, so that no mixture comes here by rounding."""


def refuse_excess(
    groups: Iterable[Group], planned: Iterable[Planned], asked: MixOptions, drawn: Mapping[str, int] | None = None
) -> None:
    """CannotBeMet where a group is drawn more often than its cap and UNASKED_EPOCHS; `drawn`: samples taken before."""
    by_name = {group.name: group for group in groups}
    taken = {name: (drawn or {}).get(name, 0) for name in by_name}
    for phase in planned:
        for name, count in phase.weights.items():
            taken[name] += count
    phases = phases_of(asked)
    caps = {name: max(cap_of(group, phase) for phase in phases) for name, group in by_name.items()}
    # A sample more than the bound is the rounding to whole samples.
    most = {name: max(cap, Fraction(UNASKED_EPOCHS)) for name, cap in caps.items()}
    over = [name for name, group in by_name.items() if taken[name] - 1 > most[name] * group.samples]
    if not over:
        return
    epochs = {name: Fraction(taken[name], by_name[name].samples) for name in over}
    worst = max(over, key=lambda name: (epochs[name], name))
    used = [name for name, count in taken.items() if count]
    # As it is written, where it is: what is drawn is that in whole samples.
    wanted = asked.tokens or (
        sum(phase.tokens or 0 for phase in phases)
        if not drawn and all(phase.tokens for phase in phases)
        else sum(tokens_of(by_name[name], taken[name]) for name in used)
    )
    held = sum(by_name[name].tokens for name in used)
    room = sum(int(caps[name] * by_name[name].tokens) for name in used)
    others = f" (the most of {counted(len(over), 'group')})" if len(over) > 1 else ""
    raise CannotBeMet(
        f"mix: {counted(wanted, 'token is', 'tokens are')} asked for, and the groups that are drawn have {held:,}, so "
        f"that {worst} would be drawn {counted(ceil(epochs[worst]), 'time')}{others}, where max_epochs is "
        f"{float(caps[worst]):g}. A training would see the same text over and over. Ask for at most "
        f"{counted(room, 'token')} (mix.tokens, or those of the phases), add text, look for what was dropped "
        f"(gristmill removed), or, if it is meant, write max_epochs: {ceil(epochs[worst])}."
    )
