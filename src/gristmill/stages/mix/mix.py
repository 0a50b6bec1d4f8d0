"""Writes the manifest of a mixture: how many samples of each group every phase of training draws.

It reads only the catalogue of the shards, no tokens: another weight, cap or phase is another manifest over the same
shards. shares.py computes shares, plan.py applies caps and phases, manifest.py writes the file.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from gristmill.counted import counted
from gristmill.errors import UserError, WrongSetting
from gristmill.stages.contract import Asset
from gristmill.stages.mix.continued import Past, past_of, read_manifest
from gristmill.stages.mix.epochs import refuse_excess, refuse_generated
from gristmill.stages.mix.groups import MixGroup, read_groups
from gristmill.stages.mix.manifest import make_manifest, phase_entry
from gristmill.stages.mix.numbers import exact
from gristmill.stages.mix.options import MixOptions, MixPhase
from gristmill.stages.mix.plan import plan, renamed
from gristmill.stages.mix.shortfalls import shortfalls
from gristmill.stages.mix.tally import tally
from gristmill.stages.shards.tokens import open_tokenizer


class Config(MixOptions):
    recipe: str
    """The name of the recipe, for the manifest."""
    seed: int = 0
    """Seed of the order of samples."""
    sources: dict[str, str | None]
    """The domain of each source."""
    parents: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The parents of each derived source."""
    named: bool = False
    """Whether slots of the tokenizer got names after training; set by the recipe's loader."""


def check(config: Config) -> None:
    """Raise WrongSetting if `continues.manifest` is not a manifest."""
    if config.continues is not None:
        try:
            read_manifest(config.continues.manifest)
        except UserError as error:
            raise WrongSetting("continues.manifest", error) from None


def uses(config: Config) -> tuple[str, ...]:
    """The shards, and the tokenizer that is published with them."""
    return "shards", "tokenizer_names" if config.named else "tokenizer"


def make(config: Config, path: Path, models: Mapping[str, Path]) -> dict[str, Any]:
    """Write the manifest; the metrics are its table of counts."""
    catalogue = json.loads(Path(models["shards"]).read_bytes())
    facts = catalogue["facts"]
    file = Path(models[uses(config)[-1]])
    head = {
        "recipe": config.recipe,
        "seed": config.seed,
        "tokenizer": {
            **facts["tokenizer"],
            **({"named": open_tokenizer(str(file)).hash} if config.named else {}),
            "file": hashlib.sha256(file.read_bytes()).hexdigest(),
        },
        "seq_len": facts["seq_len"],
        "token_bytes": facts["token_bytes"],
    }
    groups = read_groups(catalogue["outputs"], config.sources)
    past = Past() if config.continues is None else past_of(config.continues, head, groups)
    planned = renamed(plan(groups, config, past.drawn), (phase["name"] for phase in past.phases))
    refuse_excess(groups, planned, config, past.drawn)
    refuse_generated(groups, planned, config, config.parents, past.drawn)
    phases = [*past.phases, *map(phase_entry, planned)]
    manifest = make_manifest(head, _in_order(groups, past), config, phases)
    path.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    empty = {phase.name: dict.fromkeys(phase.empty, 1) for phase in planned if phase.empty}
    return {**tally(manifest), "empty_domains": empty, "at_caps": {phase.name: phase.at_caps for phase in planned}}


def _in_order(groups: Iterable[MixGroup], past: Past) -> list[MixGroup]:
    """Sort the groups; those of an earlier manifest keep their numbers, and new ones come after them."""
    places = {name: at for at, name in enumerate(past.order)}
    return sorted(groups, key=lambda group: (places.get(group.name, len(places)), group.name))


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """Warn about every request that the mixture does not meet."""
    return list(shortfalls(found, config, config.sources))


def explain(config: Config) -> Sequence[str]:
    """Describe the ratios and multipliers, and the length and settings of each phase."""
    lines = list(_settings(config))
    for phase in config.phases:
        size = "" if phase.share is None else f"share {phase.share:.2%}"
        size = size if phase.tokens is None else counted(phase.tokens, "token")
        lines.append(f"phase {phase.name}: {'; '.join([size or 'the rest', *_settings(phase)])}")
    return lines


def _settings(options: MixOptions | MixPhase) -> Iterator[str]:
    """Describe the settings that determine the shares of groups, if set."""
    if options.domains is not None:
        yield f"domains {options.domains if isinstance(options.domains, str) else _ratios(options.domains)}"
    if options.temperature is not None:
        yield f"temperature {options.temperature:g}"
    for name, factors in (("tiers", options.tiers), ("upsample", options.upsample)):
        if factors:
            yield f"{name} {', '.join(f'{one} x{factor:g}' for one, factor in factors.items())}"


def _ratios(domains: Mapping[str, float]) -> str:
    whole = sum(map(exact, domains.values()))
    shown = ", ".join(f"{name} {float(exact(ratio) / whole):.2%}" for name, ratio in domains.items())
    return shown if whole == 1 else f"{shown} (the ratios sum to {float(whole):g} and are divided by it)"


STAGE = Asset(
    version=4,
    config=Config,
    uses=uses,
    make=make,
    suffix="json",
    check=check,
    warnings=warnings,
    explain=explain,
)
