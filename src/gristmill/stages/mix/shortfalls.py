"""Warnings about options that a mixture does not meet: one message per cause, with its consequence and the fix."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from gristmill.counted import counted, percent
from gristmill.hints import hint
from gristmill.stages.mix.options import DEFAULT, MixOptions
from gristmill.stages.shards.shard_groups import column_domain, parts_of

WARNED_FROM = 10**6
"""The run warns if a domain or group misses its share by this many billionths of a phase: 0.1%."""
NONE: Mapping[str, Mapping[str, Any]] = {"groups": {}}
"""A domain that a phase does not draw from."""
MOST_NAMED = 3
"""The number of groups that a message names before it counts the rest."""


def shortfalls(found: Mapping[str, Any], asked: MixOptions, sources: Mapping[str, str | None]) -> Iterator[str]:
    """The warnings; `found` has the metrics of the mixture, `sources` the domain of each source."""
    yield from _idle_names(found, asked, sources)
    yield from _idle_upsampling(found, asked, sources)
    yield from _too_few_tokens(found, asked)
    warned: set[str] = set()
    yield from _over_caps(found, warned)
    yield from _short(found, warned)
    yield from _undrawn(found)
    yield from _empty(found, sources)


def _idle_names(found: Mapping[str, Any], options: MixOptions, sources: Mapping[str, str | None]) -> Iterator[str]:
    """Tiers and groups that the mix names and no document has."""
    tiers = {parts_of(name)[1] for name in found["groups"]}
    listed = {*(options.tiers or ()), *(tier for phase in options.phases for tier in phase.tiers or ())}
    if idle := sorted(listed - tiers):
        yield (
            f"the mix lists the tier {', '.join(idle)}, but no document has it, so nothing is drawn for it. Correct "
            "the tiers of the sources, or remove it from the mix"
        )
    caps = (options.max_epochs, *(phase.max_epochs for phase in options.phases))
    capped = {name for some in caps if isinstance(some, dict) for name in some}
    if idle := sorted(capped - {*found["groups"], *sources, *listed, *filter(None, tiers), DEFAULT}):
        yield (
            f"max_epochs lists the group {', '.join(idle)}, but no document is in it, so this cap has no effect. "
            f"Correct or remove it. Groups: {_some(found['groups'])}"
        )


def _idle_upsampling(found: Mapping[str, Any], asked: MixOptions, sources: Mapping[str, str | None]) -> Iterator[str]:
    """Inside a domain whose ratio is given, a factor for all of it changes nothing."""
    by_column = {parts_of(name)[0] for name in found["groups"] if column_domain(name)}
    members: dict[str | None, list[str]] = {}
    for name, domain in sources.items():
        members.setdefault(domain, []).append(name)
    for name, factor in asked.upsample.items():
        domain = sources[name]
        given = asked.domains != "natural" and all(phase.domains != "natural" for phase in asked.phases)
        if factor not in (0, 1) and given and members[domain] == [name] and name not in by_column:
            yield (
                f"upsample.{name} has no effect: it is the only source of the domain {domain}, whose ratio is fixed. "
                "Change the ratio"
            )


def _too_few_tokens(found: Mapping[str, Any], options: MixOptions) -> Iterator[str]:
    """A budget below one sample per phase; a phase has at least one sample."""
    drawn = sum(phase["tokens"] for phase in found["phases"].values())
    if options.tokens is not None and options.continues is None and drawn > 2 * options.tokens:
        yield (
            f"mix.tokens is {options.tokens:,}, less than one sample for each of "
            f"{counted(len(found['phases']), 'phase')}, so {drawn:,} are drawn. Raise mix.tokens, or lower "
            "shards.seq_len_tokens"
        )


def _over_caps(found: Mapping[str, Any], warned: set[str]) -> Iterator[str]:
    """One warning for all groups above their caps, which happens when all groups are used up."""
    over = {name: max(groups.get(name, 0) for groups in found["at_caps"].values()) for name in found["groups"]}
    by = []
    for name in sorted((name for name in over if over[name]), key=lambda name: (-over[name], name)):
        group = found["groups"][name]
        tokens = over[name] * group["tokens"] // group["samples"]
        by.append(f"{name} by {over[name] / group['samples']:.2f} epochs ({counted(tokens, 'token')})")
    if by:
        for phase, capped in found["at_caps"].items():
            drawn = {
                group
                for counts in found["phases"][phase]["domains"].values()
                for group, one in counts["groups"].items()
                if one["samples"]
            }
            warned.update(f"{phase} {group}" for group in drawn & capped.keys())
        yield (
            "the mixture needs more tokens than the caps (max_epochs) allow, so groups exceed their caps: "
            f"{_some(by)}. Training sees their text more often than allowed, and the shares differ from the requested "
            "ones. Add text, lower tokens, or raise max_epochs"
        )


def _short(found: Mapping[str, Any], warned: set[str]) -> Iterator[str]:
    """Domains and groups that get less than their share because of their caps, unless `warned` has `phase group`."""
    domains: set[str] = set()
    groups: dict[str, str] = {}
    for name, at_caps in found["at_caps"].items():
        phase, capped = found["phases"][name], {group for group in at_caps if f"{name} {group}" not in warned}
        for domain, counts in phase["domains"].items():
            if _is_short(counts, phase) and counts["groups"].keys() <= capped:
                domains.add(domain)
            for group, drawn in counts["groups"].items():
                if group in capped and (not drawn["samples"] or _is_short(drawn, phase)):
                    groups[group] = domain
    for domain in sorted(domains):
        members = {name for phase in found["phases"].values() for name in phase["domains"].get(domain, NONE)["groups"]}
        yield _of_short(found, domain or "sources without a domain", domain, members, "Other domains")
    inside = [group for group, domain in groups.items() if domain not in domains]
    for group in inside[:MOST_NAMED]:
        yield _of_short(found, group, groups[group], {group}, "Other groups of its domain")
    if more := inside[MOST_NAMED:]:
        yield (
            f"because of max_epochs, {counted(len(more), 'other group')} also get less than the requested share: "
            f"{_some(more)}. Add text, lower the tokens, or raise max_epochs"
        )


def _is_short(counts: Mapping[str, int], phase: Mapping[str, Any]) -> bool:
    return bool(counts["target"] - counts["tokens"] * 10**9 // phase["tokens"] >= WARNED_FROM)


def _of_short(found: Mapping[str, Any], label: str, domain: str, members: Collection[str], others: str) -> str:
    """A warning with the tokens that the caps allow of a domain or group, and what each phase requests and gets."""
    held = [found["groups"][name] for name in members]
    allowed = sum(group["cap_samples"] * group["tokens"] // group["samples"] for group in held)
    by = []
    for name, phase in found["phases"].items():
        some = [drawn for one, drawn in phase["domains"].get(domain, NONE)["groups"].items() if one in members]
        target, given = (sum(drawn[key] for drawn in some) for key in ("target", "tokens"))
        if some:
            tokens = counted(target * phase["tokens"] // 10**9, "token")
            share = percent(given, phase["tokens"])
            by.append(f"{name} requests {tokens} ({target / 1e9:.1%}) and gets {given:,} ({share})")
    return (
        f"max_epochs limits {label} to {counted(allowed, 'token')} in the whole training: {', '.join(by)}. {others} "
        "fill the gap. Add text to it, lower its share or the tokens, or raise its max_epochs"
    )


def _undrawn(found: Mapping[str, Any]) -> Iterator[str]:
    """Groups whose share of a phase is less than a sample, so that nothing is drawn."""
    small: dict[str, list[str]] = {}
    for name, at_caps in found["at_caps"].items():
        for counts in found["phases"][name]["domains"].values():
            for group, drawn in counts["groups"].items():
                if not drawn["samples"] and group not in at_caps:
                    small.setdefault(group, []).append(f"{drawn['target'] / 1e7:.2g}% of the phase {name}")
    if small:
        by = [f"{group} ({' and '.join(shares)})" for group, shares in small.items()]
        yield (
            f"nothing of {_some(by)} is drawn, because its share is less than one sample. Raise the tokens or its "
            "share, or leave it out with a multiplier of 0"
        )


def _empty(found: Mapping[str, Any], sources: Mapping[str, str | None]) -> Iterator[str]:
    """Domains with nothing to draw, and sources without documents in domains that have some."""
    phases: dict[str, list[str]] = {}
    for name, domains in found["empty_domains"].items():
        for domain in domains:
            phases.setdefault(domain, []).append(name)
    for domain, names in phases.items():
        yield (
            f"the domain {domain} has nothing to draw in the phase {' and '.join(names)}, so its share goes to the "
            f"others. See what the steps dropped ({hint('funnel')}), or set its ratio to 0"
        )
    held = {parts_of(name)[0] for name in found["groups"]}
    for source, of in sources.items():
        if source not in held and (of or "") not in phases:
            yield (
                f"no document of the source {source} is in the shards, so nothing of it is drawn and other sources "
                f"fill the gap. See what the steps dropped ({hint('funnel')}), or remove the source"
            )


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - MOST_NAMED:,} more" if len(listed) > MOST_NAMED else ""
    return ", ".join(listed[:MOST_NAMED]) + more
