"""The phases of a mixture: whether their names are their own and their tokens add up."""

from collections.abc import Iterator
from fractions import Fraction

from gristmill.counted import counted
from gristmill.stages.mix.numbers import exact
from gristmill.stages.mix.options import MixOptions

Fault = tuple[tuple[str | int, ...], str]
"""Where below `mix` something is wrong, and what."""


def phase_faults(asked: MixOptions) -> Iterator[Fault]:
    """What is wrong with the phases, taken together."""
    names = [phase.name for phase in asked.phases]
    first = {name: at for at, name in reversed(list(enumerate(names)))}
    for at, name in enumerate(names):
        if first[name] < at:
            yield ("phases", at, "name"), f"the name {name} is that of an earlier phase. Give each phase its own"
    unsaid = [at for at, phase in enumerate(asked.phases) if phase.share is None and phase.tokens is None]
    early = [at for at in unsaid if at + 1 < len(names)]
    for at in early:
        yield ("phases", at), "there is no share and no tokens, and only the last phase takes the rest. Add one of them"
    if names and not early:
        told = _wrong_sum(asked, rest=bool(unsaid))
        if told:
            yield ("phases",), told


def _wrong_sum(asked: MixOptions, rest: bool) -> str | None:
    shares = [exact(phase.share) for phase in asked.phases if phase.share is not None]
    whole, fixed = sum(shares, Fraction(0)), sum(phase.tokens or 0 for phase in asked.phases)
    if rest and whole >= 1:
        return f"the shares sum to {float(whole):.12g}, so nothing is left for the last phase. Lower one"
    if shares and not rest and whole != 1:
        fix = "Correct one, or leave out that of the last phase: it takes the rest"
        return f"the shares sum to {float(whole):.12g} and not to 1. {fix}"
    if asked.tokens is None or asked.continues is not None:
        return None
    told = f"the phases ask for {counted(fixed, 'token')}, and mix.tokens is {asked.tokens:,}"
    if fixed > asked.tokens:
        return f"{told}. Raise mix.tokens, or lower the phases"
    if fixed == asked.tokens and (shares or rest):
        return f"{told}, so nothing is left for the other phases. Raise mix.tokens, or lower the phases"
    if fixed < asked.tokens and not shares and not rest:
        return f"{told}, so the rest is in no phase. Let the last phase leave out its tokens"
    return None
