"""Computes the requested share of every group in a phase, before caps and before rounding to samples.

share of group g in domain d = ratio_d * tokens_g * multiplier_g / sum of tokens * multiplier in d
multiplier = tier's multiplier * upsample of its source * weight of its documents
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gristmill.errors import CannotBeMet
from gristmill.stages.mix.groups import MixGroup
from gristmill.stages.mix.numbers import exact, root
from gristmill.stages.mix.options import MixOptions, MixPhase

NO_DOMAIN = ""
"""The domain of all sources without a domain."""


@dataclass(frozen=True)
class Shares:
    """The ratios and weights of a phase; all of them are above 0."""

    ratios: dict[str, Fraction]
    """The ratios of the domains; they sum to 1."""
    weights: dict[str, dict[str, Fraction]]
    """Tokens times multiplier, by domain and group."""
    empty: tuple[str, ...]
    """Domains with a ratio that have nothing to draw."""

    def targets(self) -> dict[str, Fraction]:
        """The share of each group in the phase."""
        return {
            name: self.ratios[domain] * weight / total
            for domain, weights in self.weights.items()
            for total in [sum(weights.values())]
            for name, weight in weights.items()
        }


def with_defaults(options: MixOptions, phase: MixPhase) -> MixPhase:
    """Fill in the defaults of a phase. The temperature of the mix applies only if the phase's domains are natural."""
    domains = options.domains if phase.domains is None else phase.domains
    temperature = options.temperature if phase.temperature is None and domains == "natural" else phase.temperature
    return phase.model_copy(
        update={
            "domains": domains,
            "temperature": temperature,
            "tiers": options.tiers if phase.tiers is None else phase.tiers,
            "upsample": options.upsample if phase.upsample is None else phase.upsample,
            "max_epochs": options.max_epochs if phase.max_epochs is None else phase.max_epochs,
        }
    )


def shares_of(groups: Iterable[MixGroup], phase: MixPhase) -> Shares:
    """The shares in a phase with all defaults filled in; raises CannotBeMet if nothing would be drawn."""
    weights: dict[str, dict[str, Fraction]] = {}
    for group in sorted(groups, key=lambda group: group.name):
        domain = group.domain or NO_DOMAIN
        weight = group.tokens * _multiplier(group, phase)
        if isinstance(phase.domains, dict) and domain not in phase.domains:
            raise CannotBeMet(
                f"mix: the group {group.name} is of the domain {domain}, and the domains of the phase {phase.name} "
                f"have no ratio for it. Add {domain}: and a number; 0 leaves it out."
            )
        asked = exact(phase.domains[domain]) if isinstance(phase.domains, dict) else Fraction(1)
        if weight and asked:
            weights.setdefault(domain, {})[group.name] = weight
    if not weights:
        raise CannotBeMet(
            f"mix: the phase {phase.name} draws from no group: every group is empty, or has a ratio or multiplier of "
            "0. Check its domains, tiers and upsample, and in the funnel what each rule dropped."
        )
    ratios = _ratios({domain: sum(some.values(), Fraction(0)) for domain, some in weights.items()}, phase)
    kept = {domain: some for domain, some in weights.items() if ratios[domain]}
    named = phase.domains if isinstance(phase.domains, dict) else {}
    empty = tuple(sorted(domain for domain in {*named, *weights} if named.get(domain, 1.0) and domain not in kept))
    return Shares({domain: ratios[domain] for domain in kept}, kept, empty)


def _multiplier(group: MixGroup, phase: MixPhase) -> Fraction:
    tier = Fraction(1)
    if phase.tiers is not None:
        if group.tier is None or group.tier not in phase.tiers:
            fix = f"Add {group.tier} to its tiers; 0 leaves it out."
            if group.tier is None:
                fix = "The column of its tier has no value there. Give it a default: tier: {column: NAME, default: C}."
            has = "no tier" if group.tier is None else f"the tier {group.tier}"
            raise CannotBeMet(
                f"mix: the group {group.name} has {has}, but the phase {phase.name} has a multiplier for each tier "
                f"({', '.join(phase.tiers)}). {fix}"
            )
        tier = exact(phase.tiers[group.tier])
    return tier * exact((phase.upsample or {}).get(group.source, 1.0)) * group.weight


def _ratios(totals: Mapping[str, Fraction], phase: MixPhase) -> dict[str, Fraction]:
    """The ratios of the domains that have anything to draw; they sum to 1."""
    if isinstance(phase.domains, dict):
        raw = {domain: exact(phase.domains[domain]) for domain in totals}
    elif phase.domains == "uniform":
        raw = dict.fromkeys(totals, Fraction(1))
    else:
        most = max(totals.values())
        degree = exact(phase.temperature or 1.0)
        raw = {domain: root(total / most, degree) for domain, total in totals.items()}
    whole = sum(raw.values())
    return {domain: ratio / whole for domain, ratio in raw.items()}
