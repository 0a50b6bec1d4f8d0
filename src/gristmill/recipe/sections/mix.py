"""The `mix` of a recipe: checks it and turns it into the last step."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from gristmill.recipe.checks.mistakes import Path, dotted, nearest, no_domain, show, suggest
from gristmill.recipe.config import load_config
from gristmill.recipe.draft import Draft
from gristmill.recipe.model import Source, Step
from gristmill.recipe.stage_module import check_config
from gristmill.stages.mix import mix
from gristmill.stages.mix.options import DEFAULT, Domains, MixOptions, MixPhase
from gristmill.stages.mix.phase_sums import phase_faults
from gristmill.stages.mix.shares import with_defaults

AT: Path = ("mix",)
MIX = "mix"
"""Name of the step."""


class MixFields(MixOptions):
    """What a user writes under `mix`."""

    seed: int = 0
    """seed for the order of samples"""


def load_mix(
    draft: Draft, raw: object, name: str, sources: Mapping[str, Source], is_sample: bool, named: bool
) -> tuple[Step, ...]:
    """The step that mixes; empty if the recipe has no mix, or a mistake in it."""
    if not isinstance(raw, dict):
        return ()
    before = len(draft.mistakes)
    fields = load_config(draft, MixFields, raw, AT)
    if draft.tree.value.get("shards") is None:
        draft.add_at_key(AT, "mix draws from shards, but the recipe makes none. Add shards: to it, or remove mix.")
    if not isinstance(fields, MixFields):
        return ()
    for path, message in phase_faults(fields):
        draft.add((*AT, *path), f"{dotted((*AT, *path))}: {message}.")
    if not draft.lacks(sources):
        _check_names(draft, fields, sources)
    if len(draft.mistakes) > before:
        return ()
    domains = {source.name: source.domain for source in sources.values()}
    options = {field: getattr(fields, field) for field in MixFields.model_fields}
    if is_sample:
        options |= _without_budget(fields)
    parents = {source.name: source.parents for source in sources.values() if source.parents}
    for field in ("max_generated", "max_family_epochs"):
        if options[field] is not None and not parents:
            draft.add_at_key(
                (*AT, field),
                f"mix.{field} has no effect: no source is derived from another (docs/generate.md). Remove it.",
            )
            return ()
    config = mix.Config(**options, recipe=name, sources=domains, parents=parents, named=named)
    if not check_config(draft, mix.__name__, MIX, config, AT):
        return ()
    line = draft.tree.line_of_key((*AT, "tokens"))  # the usual cause of a mix that the counted tokens cannot satisfy
    return (Step.implied(MIX, MIX, mix, config, line),)


def _without_budget(fields: MixFields) -> dict[str, Any]:
    """The options of a sample: every token once, and phases by their shares. The budget of the whole corpus would
    repeat the few documents of the sample again and again.
    """
    fixed = sum(phase.tokens or 0 for phase in fields.phases)
    total = fields.tokens or fixed
    left = 1 - fixed / total if total else 1.0
    shares = [
        phase.tokens / total if phase.tokens is not None else phase.share and phase.share * left
        for phase in fields.phases
    ]
    shares[-1:] = [None] * bool(shares)  # the last phase takes the rest, so that rounding loses nothing
    phases = zip(fields.phases, shares, strict=True)
    return {
        "tokens": None,
        "phases": tuple(phase.model_copy(update={"tokens": None, "share": share}) for phase, share in phases),
    }


def _check_names(draft: Draft, fields: MixFields, sources: Mapping[str, Source]) -> None:
    """Check that the domains, tiers and sources that the mix names exist. Only the run knows the values of a column: it
    refuses those without a ratio or multiplier, and warns of names that no document has.
    """
    tiers_of = {
        name: tuple(source.tiers) or (() if source.tier is None else (source.tier,)) for name, source in sources.items()
    }
    by_column = {name for name, source in sources.items() if source.tier_column or source.domain_column}
    before = len(draft.mistakes)
    places: list[tuple[Path, MixFields | MixPhase]] = [(AT, fields)]
    places += [((*AT, "phases", at), phase) for at, phase in enumerate(fields.phases)]
    for at, part in places:
        if part.domains is not None:
            _check_domains(draft, part.domains, (*at, "domains"), sources)
        _check_temperature(draft, fields, part, at, sources)
        if part.tiers is not None:
            _check_tiers(draft, part.tiers, (*at, "tiers"), tiers_of, sources)
        for name in part.upsample or ():
            _known(draft, (*at, "upsample", name), name, sources, "source", "Sources")
        if isinstance(part.max_epochs, dict) and not by_column:
            _check_caps(draft, part.max_epochs, (*at, "max_epochs"), tiers_of)
    if len(draft.mistakes) == before:
        for at, part in places[1:] or places:
            _check_draws(draft, fields, part, at, sources, tiers_of)


def _known(draft: Draft, at: Path, name: str, options: Iterable[str], noun: str, plural: str) -> None:
    if name not in options:
        draft.add_at_key(at, f"{dotted(at)} is not a {noun} of the recipe. {suggest(name, options, plural)}")


def _check_domains(draft: Draft, domains: Domains, at: Path, sources: Mapping[str, Source]) -> None:
    if domains == "natural":
        return
    _want_domains(draft, dotted(at), sources)
    if isinstance(domains, str):
        return
    fixed = [source for source in sources.values() if source.domain_column is None]
    known = dict.fromkeys(source.domain for source in fixed if source.domain is not None)
    for domain in domains:
        if domain not in known and len(fixed) == len(sources):
            draft.add_at_key(
                (*at, domain),
                f"{dotted((*at, domain))} is the domain of no source. {suggest(domain, known, 'Domains')}",
            )
    for domain in known:
        if domain not in domains:
            fix = f"Add {domain}: and a number; 0 leaves it out."
            draft.add(at, f"{dotted(at)} has no ratio for the domain {show(domain)}. {fix}")
    if not any(domains.values()):
        draft.add(at, f"{dotted(at)} draws nothing. Give a domain a ratio above 0.")


def _want_domains(draft: Draft, where: str, sources: Mapping[str, Source]) -> None:
    for name, source in sources.items():
        if source.domain is None:
            message = f"{dotted(('sources', name))} has no domain, but {where} works by domain. Add domain: to it."
            draft.add_at_key(("sources", name), message, no_domain(name))


def _check_temperature(
    draft: Draft, fields: MixFields, part: MixFields | MixPhase, at: Path, sources: Mapping[str, Source]
) -> None:
    if part.temperature is None:
        return
    at = (*at, "temperature")
    if (fields.domains if part.domains is None else part.domains) == "natural":
        _want_domains(draft, dotted(at), sources)
    else:
        draft.add_at_key(at, f"{dotted(at)} needs domains: natural, but domains has ratios. Remove one of the two.")


def _check_tiers(
    draft: Draft,
    tiers: Mapping[str, float],
    at: Path,
    tiers_of: Mapping[str, Collection[str]],
    sources: Mapping[str, Source],
) -> None:
    known = dict.fromkeys(tier for some in tiers_of.values() for tier in some)
    by_column = {name for name, source in sources.items() if source.tier_column is not None}
    for tier in tiers:
        # Only typos are mistakes; the run warns of other names that have no effect.
        if not by_column and tier not in known and nearest(tier, known):
            fix = suggest(tier, known, "Tiers")
            draft.add_at_key((*at, tier), f"{dotted((*at, tier))} is the tier of no source. {fix}")
    for tier in known:
        if tier not in tiers:
            whose = next(name for name, some in tiers_of.items() if tier in some)
            fix = f"Add it; {tier}: 0 leaves it out."
            draft.add(at, f"{dotted(at)} does not say how often the tier {tier} of the source {whose} is drawn. {fix}")
    for name, some in tiers_of.items():
        if not some and name not in by_column:
            message = f"{dotted(('sources', name))} has no tier, but {dotted(at)} works by tier. Add tier: to it."
            draft.add_at_key(("sources", name), message, f"{name} has no tier")


def _check_caps(draft: Draft, caps: Mapping[str, float], at: Path, tiers_of: Mapping[str, Collection[str]]) -> None:
    tiers = dict.fromkeys(tier for some in tiers_of.values() for tier in some)
    groups = [f"{source}/{tier}" for source, some in tiers_of.items() for tier in some]
    options = list(dict.fromkeys([*tiers_of, *groups, *tiers, DEFAULT]))
    for name in caps:
        plain = name.rpartition("@")[0] if "@" in name else name
        if plain not in options:
            fix = suggest(plain, options, "Names")
            draft.add_at_key((*at, name), f"{dotted((*at, name))} is not a source, group or tier of the recipe. {fix}")
        elif name in tiers and name in tiers_of:
            fix = "Use names of groups: " + ", ".join(group for group in groups if name in group.split("/")) + "."
            draft.add_at_key((*at, name), f"{dotted((*at, name))} is both a source and a tier. {fix}")


def _check_draws(
    draft: Draft,
    fields: MixFields,
    part: MixFields | MixPhase,
    at: Path,
    sources: Mapping[str, Source],
    tiers_of: Mapping[str, Collection[str]],
) -> None:
    """Check that some source has a weight above 0."""
    phase = with_defaults(fields, part if isinstance(part, MixPhase) else MixPhase(name=MIX))

    def weight(source: Source) -> float:
        ratios = phase.domains if isinstance(phase.domains, dict) else {source.domain or "": 1}
        ratio = max(ratios.values()) if source.domain_column else ratios.get(source.domain or "", 0)
        some = phase.tiers if source.tier_column and phase.tiers else tiers_of[source.name]
        best = 1 if phase.tiers is None or not some else max(phase.tiers[tier] for tier in some)
        return ratio * (phase.upsample or {}).get(source.name, 1) * best

    if not any(map(weight, sources.values())):
        draft.add_at_key(at, f"{dotted(at)} draws nothing: every source has a weight of 0. Raise one.")
