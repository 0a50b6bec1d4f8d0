"""From groups and what a user asks to phases of whole samples. No float takes part in any decision.

A phase's tokens go to domains by their ratios and to groups by their weights, but no group gives more than its cap in
all phases together; what a cap takes goes to other groups of the domain first, so that its ratio holds, and only then
to other domains. A phase leaves later phases what they ask for, and draws from that only when nothing else has room.
Where every cap is reached and tokens are still wanted, the rest is spread by the asked shares over the caps: the caller
warns of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from gristmill.counted import counted
from gristmill.errors import CannotBeMet
from gristmill.stages.mix.fill import apportion, fill
from gristmill.stages.mix.groups import Group
from gristmill.stages.mix.numbers import exact
from gristmill.stages.mix.options import DEFAULT, MAX_EPOCHS, LearningRate, MixOptions, Phase
from gristmill.stages.mix.shares import Shares, shares_of, with_defaults

MAIN = "main"
"""The one phase of a mixture that names none."""


@dataclass(frozen=True)
class Planned:
    """A phase with its samples."""

    name: str
    weights: dict[str, int]
    """Samples by group; those without any are left out."""
    targets: dict[str, Fraction]
    """The asked share of each group, in tokens; they sum to 1."""
    empty: tuple[str, ...]
    """Domains with a ratio that have nothing to draw."""
    at_caps: dict[str, int]
    """Groups that have no more to give when the phase ends, under their caps and less what later phases ask for, and
    the samples by which they are over their caps."""
    learning_rate: LearningRate | None

    @property
    def samples(self) -> int:
        return sum(self.weights.values())


def plan(groups: Iterable[Group], asked: MixOptions, drawn: Mapping[str, int] | None = None) -> list[Planned]:
    """The phases. `drawn` are samples that a trainer took before: they count against caps and the budget."""
    by_name = {group.name: group for group in groups}
    if not by_name:
        raise CannotBeMet(
            "mix: the shards hold no sample at all, so there is nothing to train on. "
            "See what the steps dropped: gristmill removed."
        )
    taken = dict.fromkeys(by_name, 0) | dict(drawn or {})
    phases = phases_of(asked)
    shares = [shares_of(by_name.values(), phase) for phase in phases]
    density = {name: (group.tokens, group.samples) for name, group in by_name.items()}
    budgets = _budgets(asked, phases, shares, by_name, taken)
    rooms = [{name: cap_samples(group, phase) - taken[name] for name, group in by_name.items()} for phase in phases]

    def draw(at: int, *limits: Mapping[str, int]) -> dict[str, Fraction]:
        """Tokens of each group in a phase; `limits` are in samples."""
        held = ({name: max(0, n) * density[name][0] // density[name][1] for name, n in some.items()} for some in limits)
        return _draw(budgets[at], shares[at], *held)

    # The most samples of each group until the end of a phase, if later phases are to find what they ask for.
    spared = [dict(room) for room in rooms]
    for at in range(len(phases) - 1, 0, -1):
        later = {name: ceil(tokens / Fraction(*density[name])) for name, tokens in draw(at, spared[at]).items()}
        for name, room in spared[at].items():
            spared[at - 1][name] = min(spared[at - 1][name], room - later.get(name, 0))
    planned, drawn_now = [], dict.fromkeys(by_name, 0)
    for at, phase in enumerate(phases):
        free = {name: max(0, most - drawn_now[name]) for name, most in spared[at].items()}
        kept = {name: most - drawn_now[name] - free[name] for name, most in rooms[at].items()}
        counts = apportion(draw(at, free, kept), density)
        weights = {name: counts[name] for name in sorted(counts) if counts[name]}
        for name, count in weights.items():
            drawn_now[name] += count
        targets = shares[at].targets()
        at_caps = {
            name: max(0, drawn_now[name] - rooms[at][name])
            for name in sorted(targets)
            if drawn_now[name] >= spared[at][name]
        }
        planned.append(Planned(phase.name, weights, targets, shares[at].empty, at_caps, phase.learning_rate))
    return planned


def phases_of(asked: MixOptions) -> list[Phase]:
    """The phases with everything set."""
    return [with_defaults(asked, phase) for phase in asked.phases or (Phase(name=MAIN),)]


def cap_of(group: Group, phase: Phase) -> Fraction:
    """The most epochs of a group: the cap under its own name, or that of its source, of its tier, the default."""
    if not isinstance(phase.max_epochs, dict):
        return exact(phase.max_epochs or MAX_EPOCHS)
    names = (group.name, group.source, group.tier, DEFAULT)
    return exact(next((phase.max_epochs[name] for name in names if name in phase.max_epochs), MAX_EPOCHS))


def cap_samples(group: Group, phase: Phase) -> int:
    """The same in whole samples."""
    return int(cap_of(group, phase) * group.samples)


def tokens_of(group: Group, samples: int) -> int:
    """Tokens in that many samples of the group, on average: padding does not count."""
    return (2 * samples * group.tokens + group.samples) // (2 * group.samples)


def _draw(
    tokens: Fraction, shares: Shares, left: Mapping[str, int], *reserves: Mapping[str, int]
) -> dict[str, Fraction]:
    """Tokens of each group in a phase of so many: from `left` first, then from each reserve, then over the caps."""
    room = {domain: sum(left[name] for name in weights) for domain, weights in shares.weights.items()}
    over = tokens - sum(room.values())
    if over >= 0:
        more = (
            _draw(over, shares, *reserves)
            if reserves
            else {name: over * share for name, share in shares.targets().items()}
        )
        return {name: left[name] + more[name] for name in more}
    drawn: dict[str, Fraction] = {}
    for domain, amount in fill(shares.ratios, room, tokens).items():
        drawn |= fill(shares.weights[domain], left, amount)
    return drawn


def _budgets(
    asked: MixOptions, phases: list[Phase], shares: list[Shares], groups: Mapping[str, Group], taken: Mapping[str, int]
) -> list[Fraction]:
    """The tokens of each phase; they sum to the budget, less what was drawn before."""
    fixed = sum(phase.tokens or 0 for phase in phases)
    if asked.tokens is None and all(phase.tokens for phase in phases):
        return [Fraction(phase.tokens or 0) for phase in phases]
    before = sum(tokens_of(groups[name], count) for name, count in taken.items() if count)
    may_draw = {name for some in shares for weights in some.weights.values() for name in weights}
    may_draw |= {name for name, count in taken.items() if count}
    budget = sum(groups[name].tokens for name in may_draw) if asked.tokens is None else asked.tokens
    rest, complete = budget - before - fixed, all(phase.tokens for phase in phases)
    if rest < 0 or (rest == 0) != complete:
        whose = "that the groups have" if asked.tokens is None else "of mix.tokens"
        told = [f"{before:,} were drawn before"] * (before > 0) + [f"{fixed:,} are asked for by phases"] * (fixed > 0)
        left = f"{rest:,} are in no phase" if rest > 0 else "nothing is left for the other phases"
        fix = "Let the last phase leave out its tokens." if rest > 0 else "Write more there, or less in the phases."
        fix = fix if asked.tokens is not None else "Write how many there are to be, in mix.tokens."
        raise CannotBeMet(f"mix: of the {counted(budget, 'token')} {whose}, {' and '.join(told)}, so {left}. {fix}")
    said = [exact(phase.share) for phase in phases if phase.share is not None]
    unsaid = 1 - sum(said, Fraction(0))
    return [
        Fraction(phase.tokens) if phase.tokens else rest * (unsaid if phase.share is None else exact(phase.share))
        for phase in phases
    ]


def renamed(planned: Iterable[Planned], taken: Iterable[str]) -> list[Planned]:
    """The phases under names that are not in use: a second `main` is `main_2`."""
    used, made = set(taken), []
    for phase in planned:
        name, number = phase.name, 2
        while name in used:
            name, number = f"{phase.name}_{number}", number + 1
        used.add(name)
        made.append(replace(phase, name=name))
    return made
