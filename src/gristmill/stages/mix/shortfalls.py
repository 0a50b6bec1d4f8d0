"""What a user asked of a mixture and did not get: one message for one cause, with its consequence and what to do."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gristmill.counted import counted
from gristmill.stages.mix.options import DEFAULT, MixOptions
from gristmill.stages.shards.shard_groups import parts_of

TOLD_FROM = 10**6
"""Billionths of a phase by which a domain misses its ratio before it is told: 0.1%."""
MOST_NAMED = 3
"""Groups that a message names before it counts the rest."""


def shortfalls(found: Mapping[str, Any], asked: MixOptions, sources: Mapping[str, str | None]) -> Iterator[str]:
    """`found` are the metrics of the mixture, `sources` the domain of each source."""
    yield from _idle_names(found, asked, sources)
    yield from _idle_upsampling(asked, sources)
    yield from _too_few_tokens(found, asked)
    told: set[str] = set()
    yield from _over_caps(found, told)
    yield from _short_domains(found, told)
    yield from _undrawn(found, told)
    yield from _empty(found, sources)


def _idle_names(found: Mapping[str, Any], asked: MixOptions, sources: Mapping[str, str | None]) -> Iterator[str]:
    """Tiers and groups that the mix speaks of and no document has."""
    tiers = {parts_of(name)[1] for name in found["groups"]}
    listed = {*(asked.tiers or ()), *(tier for phase in asked.phases for tier in phase.tiers or ())}
    if idle := sorted(listed - tiers):
        yield (
            f"no document is of tier {', '.join(idle)}, which the mix lists, so nothing is drawn for it. Correct the "
            "tiers of the sources, or take it out of the mix"
        )
    caps = (asked.max_epochs, *(phase.max_epochs for phase in asked.phases))
    capped = {name for some in caps if isinstance(some, dict) for name in some}
    if idle := sorted(capped - {*found["groups"], *sources, *listed, *filter(None, tiers), DEFAULT}):
        yield (
            f"no document is in the group {', '.join(idle)}, which max_epochs lists, so that cap holds nothing back. "
            f"Correct or remove it. Groups: {_some(found['groups'])}"
        )


def _idle_upsampling(asked: MixOptions, sources: Mapping[str, str | None]) -> Iterator[str]:
    """Inside a domain whose ratio is given, a factor for all of it changes nothing."""
    members: dict[str | None, list[str]] = {}
    for name, domain in sources.items():
        members.setdefault(domain, []).append(name)
    for name, factor in asked.upsample.items():
        domain = sources[name]
        given = asked.domains != "natural" and all(phase.domains != "natural" for phase in asked.phases)
        if factor not in (0, 1) and given and members[domain] == [name]:
            yield (
                f"upsample.{name} changes nothing: it is the only source of the domain {domain}, whose ratio is given. "
                "Change the ratio"
            )


def _too_few_tokens(found: Mapping[str, Any], asked: MixOptions) -> Iterator[str]:
    """A phase is at least one sample, however little it is asked to be."""
    drawn = sum(phase["tokens"] for phase in found["phases"].values())
    if asked.tokens is not None and asked.continues is None and drawn > 2 * asked.tokens:
        yield (
            f"mix.tokens is {asked.tokens:,}, less than a sample for each of "
            f"{counted(len(found['phases']), 'phase')}, so "
            f"{drawn:,} are drawn. Ask for more, or for shorter samples (shards.seq_len_tokens)"
        )


def _over_caps(found: Mapping[str, Any], told: set[str]) -> Iterator[str]:
    """All groups together, each as far over its cap as it comes: it happens when no group has room left."""
    over = {name: max(groups.get(name, 0) for groups in found["at_caps"].values()) for name in found["groups"]}
    by = []
    for name in sorted((name for name in over if over[name]), key=lambda name: (-over[name], name)):
        group = found["groups"][name]
        tokens = over[name] * group["tokens"] // group["samples"]
        by.append(f"{name} by {over[name] / group['samples']:.2f} epochs ({counted(tokens, 'token')})")
    if by:
        told.update(f"{phase} {group}" for phase, capped in found["at_caps"].items() for group in capped)
        yield (
            "more tokens are asked for than the caps (max_epochs) allow, so groups are drawn over them, "
            f"{_some(by)}: a training sees their text more often than you allowed, and shares are not as asked. Add "
            "text, lower tokens, or raise max_epochs"
        )


def _short_domains(found: Mapping[str, Any], told: set[str]) -> Iterator[str]:
    """Domains whose ratio does not hold because all of them is at its caps. `told` has what was told: `phase group`."""
    short: dict[str, list[str]] = {}
    for name, capped in found["at_caps"].items():
        phase = found["phases"][name]
        for domain, counts in phase["domains"].items():
            missing = counts["target"] - counts["tokens"] * 10**9 // phase["tokens"]
            groups = {f"{name} {group}" for group in counts["groups"]}
            if missing >= TOLD_FROM and counts["groups"].keys() <= capped.keys() and not groups <= told:
                share = f"{counts['tokens'] / phase['tokens']:.1%} of the phase {name}"
                short.setdefault(domain, []).append(f"{share} (asked: {counts['target'] / 1e9:.1%})")
                told |= groups
    for domain, shares in short.items():
        keeps = ", or lower it in an earlier phase to keep some for a later one" if len(found["at_caps"]) > 1 else ""
        yield (
            f"{domain or 'what has no domain'} is {' and '.join(shares)}, because all of its text is at its cap "
            f"(max_epochs), and other domains take its place. Add text to it, ask for less of it or for fewer tokens, "
            f"or raise its max_epochs{keeps}"
        )


def _undrawn(found: Mapping[str, Any], told: set[str]) -> Iterator[str]:
    """Groups of which a phase should draw something and draws nothing, though the ratio of their domain holds."""
    capped: dict[str, list[str]] = {}
    small: dict[str, list[str]] = {}
    for name, at_caps in found["at_caps"].items():
        for counts in found["phases"][name]["domains"].values():
            for group, drawn in counts["groups"].items():
                if not drawn["samples"] and f"{name} {group}" not in told:
                    share = f"{drawn['target'] / 1e7:.2g}% of the phase {name}"
                    (capped if group in at_caps else small).setdefault(group, []).append(share)
    for group, shares in capped.items():
        yield (
            f"nothing of {group} is drawn where it should be {' and '.join(shares)}, because its cap (max_epochs) is "
            "reached, and others of its domain take its place. Add text to it, raise its max_epochs, or lower that of "
            "an earlier phase"
        )
    if small:
        by = [f"{group} ({' and '.join(shares)})" for group, shares in small.items()]
        yield (
            f"nothing of {_some(by)} is drawn, because what it should be is less than a sample. Ask for more tokens or "
            "for more of it, or leave it out with a multiplier of 0"
        )


def _empty(found: Mapping[str, Any], sources: Mapping[str, str | None]) -> Iterator[str]:
    """Domains without anything to draw, and sources without any in domains that have some."""
    phases: dict[str, list[str]] = {}
    for name, domains in found["empty_domains"].items():
        for domain in domains:
            phases.setdefault(domain, []).append(name)
    for domain, names in phases.items():
        yield (
            f"the domain {domain} has nothing to draw in the phase {' and '.join(names)}, so its share goes to the "
            "others. See what the steps dropped (gristmill funnel), or give it a ratio of 0"
        )
    held = {parts_of(name)[0] for name in found["groups"]}
    for source, of in sources.items():
        if source not in held and (of or "") not in phases:
            yield (
                f"no document of the source {source} is in the shards, so nothing of it is drawn and others take its "
                "place. See what the steps dropped (gristmill funnel), or take the source out"
            )


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - MOST_NAMED:,} more" if len(listed) > MOST_NAMED else ""
    return ", ".join(listed[:MOST_NAMED]) + more
