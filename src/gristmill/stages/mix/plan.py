"""Plans the phases of a mixture in whole samples. No decision uses a float.

The tokens of a phase are distributed to domains by their ratios and to groups by their weights. No group gives more
than its cap in all phases together. What exceeds a cap goes to other groups of the domain first, so that its ratio
holds, and only then to other domains. A phase leaves later phases what they need, and draws from that only if nothing
else is left. If every cap is reached and tokens are still missing, the rest is distributed by the requested shares
above the caps, and the caller warns.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from gristmill.counted import counted
from gristmill.errors import CannotBeMet
from gristmill.stages.mix.fill import apportion, fill
from gristmill.stages.mix.groups import MixGroup
from gristmill.stages.mix.numbers import exact
from gristmill.stages.mix.options import DEFAULT, MAX_EPOCHS, LearningRate, MixOptions, MixPhase
from gristmill.stages.mix.shares import Shares, shares_of, with_defaults

MAIN = "main"
"""The name of the only phase of a mixture without phases."""


@dataclass(frozen=True)
class Planned:
    """A phase and its samples."""

    name: str
    weights: dict[str, int]
    """Samples by group, without empty ones."""
    targets: dict[str, Fraction]
    """The requested share of each group, in tokens; they sum to 1."""
    empty: tuple[str, ...]
    """Domains with a ratio that have nothing to draw."""
    at_caps: dict[str, int]
    """Groups that are used up when the phase ends, considering their caps and the needs of later phases, and the
    number of samples above their caps."""
    learning_rate: LearningRate | None

    @property
    def samples(self) -> int:
        return sum(self.weights.values())


def plan(groups: Iterable[MixGroup], options: MixOptions, drawn: Mapping[str, int] | None = None) -> list[Planned]:
    """Plan the phases. `drawn`: samples that a trainer drew before, which count against caps and the budget."""
    by_name = {group.name: group for group in groups}
    if not by_name:
        raise CannotBeMet(
            "mix: the shards have no samples, so there is nothing to train on. "
            "See in the funnel what each rule dropped."
        )
    taken = dict.fromkeys(by_name, 0) | dict(drawn or {})
    phases = phases_of(options)
    shares = [shares_of(by_name.values(), phase) for phase in phases]
    density = {name: (group.tokens, group.samples) for name, group in by_name.items()}
    budgets = _budgets(options, phases, shares, by_name, taken)
    rooms = [{name: cap_samples(group, phase) - taken[name] for name, group in by_name.items()} for phase in phases]

    def draw(at: int, *limits: Mapping[str, int]) -> dict[str, Fraction]:
        """The tokens of each group in a phase; `limits` are in samples."""
        held = ({name: max(0, n) * density[name][0] // density[name][1] for name, n in some.items()} for some in limits)
        return _draw(budgets[at], shares[at], *held)

    # The most samples of each group up to the end of a phase that leave later phases what they need.
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


def phases_of(options: MixOptions) -> list[MixPhase]:
    """The phases with all defaults filled in."""
    return [with_defaults(options, phase) for phase in options.phases or (MixPhase(name=MAIN),)]


def cap_of(group: MixGroup, phase: MixPhase) -> Fraction:
    """The most epochs of a group: the cap of its name, else of its source, else of its tier, else the default."""
    if not isinstance(phase.max_epochs, dict):
        return exact(phase.max_epochs or MAX_EPOCHS)
    names = (group.name, group.source, group.tier, DEFAULT)
    return exact(next((phase.max_epochs[name] for name in names if name in phase.max_epochs), MAX_EPOCHS))


def cap_samples(group: MixGroup, phase: MixPhase) -> int:
    """The cap of a group in whole samples."""
    return int(cap_of(group, phase) * group.samples)


def tokens_of(group: MixGroup, samples: int) -> int:
    """The average number of tokens in that many samples of the group, without padding."""
    return (2 * samples * group.tokens + group.samples) // (2 * group.samples)


def _draw(
    tokens: Fraction, shares: Shares, left: Mapping[str, int], *reserves: Mapping[str, int]
) -> dict[str, Fraction]:
    """The tokens of each group in a phase: first from `left`, then from each reserve, then above the caps."""
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
    options: MixOptions,
    phases: list[MixPhase],
    shares: list[Shares],
    groups: Mapping[str, MixGroup],
    taken: Mapping[str, int],
) -> list[Fraction]:
    """The tokens of each phase; they sum to the budget minus what was drawn before."""
    fixed = sum(phase.tokens or 0 for phase in phases)
    if options.tokens is None and all(phase.tokens for phase in phases):
        return [Fraction(phase.tokens or 0) for phase in phases]
    before = sum(tokens_of(groups[name], count) for name, count in taken.items() if count)
    may_draw = {name for some in shares for weights in some.weights.values() for name in weights}
    may_draw |= {name for name, count in taken.items() if count}
    budget = sum(groups[name].tokens for name in may_draw) if options.tokens is None else options.tokens
    rest, complete = budget - before - fixed, all(phase.tokens for phase in phases)
    if rest < 0 or (rest == 0) != complete:
        whose = "that the groups have" if options.tokens is None else "of mix.tokens"
        used = [f"{before:,} were drawn before"] * (before > 0) + [f"{fixed:,} are set for phases"] * (fixed > 0)
        left = f"{rest:,} are in no phase" if rest > 0 else "nothing is left for the other phases"
        fix = "Leave out the tokens of the last phase." if rest > 0 else "Raise mix.tokens, or lower those of phases."
        fix = fix if options.tokens is not None else "Set the total number in mix.tokens."
        raise CannotBeMet(f"mix: of the {counted(budget, 'token')} {whose}, {' and '.join(used)}, so {left}. {fix}")
    said = [exact(phase.share) for phase in phases if phase.share is not None]
    unsaid = 1 - sum(said, Fraction(0))
    return [
        Fraction(phase.tokens) if phase.tokens else rest * (unsaid if phase.share is None else exact(phase.share))
        for phase in phases
    ]


def renamed(planned: Iterable[Planned], taken: Iterable[str]) -> list[Planned]:
    """Rename phases whose names are taken: a second `main` becomes `main_2`."""
    used, phases = set(taken), []
    for phase in planned:
        name, number = phase.name, 2
        while name in used:
            name, number = f"{phase.name}_{number}", number + 1
        used.add(name)
        phases.append(replace(phase, name=name))
    return phases
