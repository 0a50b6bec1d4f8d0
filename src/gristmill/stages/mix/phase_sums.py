"""Checks that the phases of a mixture have different names and that their tokens add up."""

from collections.abc import Iterator
from fractions import Fraction

from gristmill.counted import counted
from gristmill.stages.mix.numbers import exact
from gristmill.stages.mix.options import MixOptions

Fault = tuple[tuple[str | int, ...], str]
"""The path below `mix` of a fault, and its message."""


def phase_faults(options: MixOptions) -> Iterator[Fault]:
    """The faults of the phases taken together."""
    names = [phase.name for phase in options.phases]
    first = {name: at for at, name in reversed(list(enumerate(names)))}
    for at, name in enumerate(names):
        if first[name] < at:
            yield ("phases", at, "name"), f"an earlier phase is also called {name}. Give each phase its own name"
    unsaid = [at for at, phase in enumerate(options.phases) if phase.share is None and phase.tokens is None]
    early = [at for at in unsaid if at + 1 < len(names)]
    for at in early:
        yield ("phases", at), "share or tokens is missing; only the last phase can take the rest. Add one of them"
    if names and not early and (wrong := _wrong_sum(options, rest=bool(unsaid))):
        yield ("phases",), wrong


def _wrong_sum(options: MixOptions, rest: bool) -> str | None:
    shares = [exact(phase.share) for phase in options.phases if phase.share is not None]
    whole, fixed = sum(shares, Fraction(0)), sum(phase.tokens or 0 for phase in options.phases)
    if rest and whole >= 1:
        return f"the shares sum to {float(whole):.12g}, so nothing is left for the last phase. Lower one"
    if shares and not rest and whole != 1:
        fix = "Correct one, or leave out that of the last phase: it takes the rest"
        return f"the shares sum to {float(whole):.12g} instead of 1. {fix}"
    if options.tokens is None or options.continues is not None:
        return None
    sums = f"the phases need {counted(fixed, 'token')}, but mix.tokens is {options.tokens:,}"
    if fixed > options.tokens:
        return f"{sums}. Raise mix.tokens, or lower the tokens of the phases"
    if fixed == options.tokens and (shares or rest):
        return f"{sums}, so nothing is left for the other phases. Raise mix.tokens, or lower the tokens of the phases"
    if fixed < options.tokens and not shares and not rest:
        return f"{sums}, so the rest is in no phase. Leave out the tokens of the last phase"
    return None
