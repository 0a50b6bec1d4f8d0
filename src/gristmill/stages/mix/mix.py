"""The mixture: how many samples of each group every phase of training draws, as a manifest.

It reads the catalogue of the shards and no token: another weight, cap or phase is another manifest over the same
shards. How shares come about is told in shares.py, caps and phases in plan.py, the file in manifest.py.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gristmill.stages.mix.asked import Asked
from gristmill.stages.mix.continued import Past, past_of, read_manifest
from gristmill.stages.mix.epochs import refuse_excess
from gristmill.stages.mix.groups import Group, read_groups
from gristmill.stages.mix.manifest import make_manifest, phase_entry
from gristmill.stages.mix.numbers import exact
from gristmill.stages.mix.plan import plan, renamed
from gristmill.stages.mix.tally import tally
from gristmill.stages.shards.shard_groups import parts_of

VERSION = 2
LIBRARIES = ()
READS = ()
USES = ("shards", "tokenizer")
SUFFIX = "json"

TOLD_FROM = 10**6
"""Billionths of a phase by which a domain misses its ratio before it is told: 0.1%."""


class Config(Asked):
    recipe: str
    """Name of the recipe: the manifest carries it."""
    seed: int = 0
    """Of the order of samples."""
    sources: dict[str, str | None]
    """Domain of each source."""


def check(config: Config) -> None:
    """Whether the manifest to go on from is one."""
    if config.continues is not None:
        read_manifest(config.continues.manifest)


def fit(batches: Iterable[pa.RecordBatch], config: Config, path: Path, models: Mapping[str, Path]) -> dict[str, Any]:
    """Writes the manifest; the metrics are its table, as counts."""
    catalogue = json.loads(Path(models["shards"]).read_bytes())
    facts = catalogue["facts"]
    head = {
        "recipe": config.recipe,
        "seed": config.seed,
        "tokenizer": {
            **facts["tokenizer"],
            "file": hashlib.sha256(Path(models["tokenizer"]).read_bytes()).hexdigest(),
        },
        "seq_len": facts["seq_len"],
        "token_bytes": facts["token_bytes"],
    }
    groups = read_groups(catalogue["outputs"], config.sources)
    past = Past() if config.continues is None else past_of(config.continues, head, groups)
    planned = renamed(plan(groups, config, past.drawn), (phase["name"] for phase in past.phases))
    refuse_excess(groups, planned, config, past.drawn)
    phases = [*past.phases, *map(phase_entry, planned)]
    manifest = make_manifest(head, _in_order(groups, past), config, phases)
    path.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    empty = {phase.name: dict.fromkeys(phase.empty, 1) for phase in planned if phase.empty}
    return {**tally(manifest), "empty_domains": empty, "at_caps": {phase.name: phase.at_caps for phase in planned}}


def _in_order(groups: Iterable[Group], past: Past) -> list[Group]:
    """Groups of an earlier manifest keep their places, new ones come behind: their numbers stay what they were."""
    places = {name: at for at, name in enumerate(past.order)}
    return sorted(groups, key=lambda group: (places.get(group.name, len(places)), group.name))


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """What a user asked for and did not get."""
    return [
        *_idle_tiers(found, config),
        *_idle_upsampling(config),
        *_over_caps(found),
        *(message for name in found["at_caps"] for message in _missed(name, found)),
        *(
            f"phase {name}: the domain {domain} has nothing to draw, so its share goes to the others"
            for name, domains in found["empty_domains"].items()
            for domain in domains
        ),
    ]


def _idle_tiers(found: Mapping[str, Any], config: Config) -> Iterator[str]:
    known = {parts_of(name)[1] for name in found["groups"]}
    listed = {*(config.tiers or ()), *(tier for phase in config.phases for tier in phase.tiers or ())}
    if idle := sorted(listed - known):
        yield f"no document is of tier {', '.join(idle)}, which the mix lists"


def _idle_upsampling(config: Config) -> Iterator[str]:
    """Inside a domain whose ratio is given, a factor for all of it changes nothing."""
    members: dict[str | None, list[str]] = {}
    for name, domain in config.sources.items():
        members.setdefault(domain, []).append(name)
    for name, factor in config.upsample.items():
        domain = config.sources[name]
        given = config.domains != "natural" and all(phase.domains != "natural" for phase in config.phases)
        if factor not in (0, 1) and given and members[domain] == [name]:
            yield (
                f"upsample.{name} changes nothing: it is the only source of the domain {domain}, whose ratio is given. "
                "Change the ratio"
            )


def _over_caps(found: Mapping[str, Any]) -> Iterator[str]:
    """Each group once, as far over its cap as it comes."""
    for name, group in found["groups"].items():
        over = max(groups.get(name, 0) for groups in found["at_caps"].values())
        if over:
            yield (
                f"{name} is drawn {over / group['samples']:.2f} epochs over its cap (max_epochs), "
                f"{over * group['tokens'] // group['samples']:,} tokens, because every group that could be drawn is at "
                "its cap. Add text, lower tokens, or raise max_epochs"
            )


def _missed(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    """Domains whose ratio does not hold because of caps, and groups without a sample."""
    phase, capped = found["phases"][name], found["at_caps"][name]
    for domain, counts in phase["domains"].items():
        missing = counts["target"] - counts["tokens"] * 10**9 // phase["tokens"]
        if missing >= TOLD_FROM and counts["groups"].keys() <= capped.keys():
            yield (
                f"phase {name}: {domain or 'what has no domain'} has {counts['tokens'] / phase['tokens']:.1%} of the "
                f"tokens and not {counts['target'] / 1e9:.1%}, because all of it is at its cap (max_epochs)"
            )
        for group, drawn in counts["groups"].items():
            if not drawn["samples"]:
                why = "its cap (max_epochs) is reached" if group in capped else "that is less than a sample"
                share = f"{drawn['target'] / 1e7:.2g}%"
                yield f"phase {name} draws nothing of {group}, which should be {share} of it: {why}"


def explain(config: Config) -> Sequence[str]:
    """Ratios as they are used, and what each phase changes."""
    lines = []
    for name, domains in ((None, config.domains), *((phase.name, phase.domains) for phase in config.phases)):
        if domains is None:
            continue
        told = domains if isinstance(domains, str) else _ratios(domains)
        lines.append(f"{f'phase {name}: ' if name else ''}domains {told}")
    return lines


def _ratios(domains: Mapping[str, float]) -> str:
    whole = sum(map(exact, domains.values()))
    told = ", ".join(f"{name} {float(exact(ratio) / whole):.2%}" for name, ratio in domains.items())
    return told if whole == 1 else f"{told} (the ratios sum to {float(whole):g} and are divided by it)"
