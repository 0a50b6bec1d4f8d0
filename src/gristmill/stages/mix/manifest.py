"""The manifest of a mixture: a JSON file that any tool can read."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from gristmill.shardformat.manifest import FORMAT, VERSION, manifest_hash
from gristmill.stages.mix.groups import MixGroup
from gristmill.stages.mix.options import LearningRate, MixOptions
from gristmill.stages.mix.plan import Planned, cap_of, phases_of


def make_manifest(
    head: Mapping[str, Any], groups: Iterable[MixGroup], options: MixOptions, phases: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """The content of the manifest; `head` has recipe, seed, tokenizer, seq_len and token_bytes."""
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "format_version": VERSION,
        **head,
        "groups": [_group(group, max(cap_of(group, phase) for phase in phases_of(options))) for group in groups],
        "phases": list(phases),
    }
    return {**manifest, "hash": manifest_hash(manifest), "files": {}}


def phase_entry(phase: Planned) -> dict[str, Any]:
    """The entry of a phase. Its samples are the sum of its weights, unless a later mixture cuts it."""
    return {
        "name": phase.name,
        "samples": phase.samples,
        "weights": phase.weights,
        "targets": {name: billionths(share) / 10**9 for name, share in sorted(phase.targets.items())},
        "learning_rate": None if phase.learning_rate is None else _hint(phase.learning_rate),
    }


def billionths(share: Fraction) -> int:
    return round(share * 10**9)


def _group(group: MixGroup, max_epochs: Fraction) -> dict[str, Any]:
    return {
        "name": group.name,
        "source": group.source,
        "domain": group.domain,
        "tier": group.tier,
        "weight": float(group.weight),
        "max_epochs": float(max_epochs),
        "documents": group.documents,
        "tokens": group.tokens,
        "samples": group.samples,
        "split": group.split,
        "shards": list(group.shards),
    }


def _hint(rate: LearningRate) -> dict[str, Any]:
    end = rate.end if rate.end is not None else rate.start if rate.shape == "constant" else 0.0
    return {"shape": rate.shape, "start": rate.start, "end": end}
