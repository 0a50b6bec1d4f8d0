"""Continues an earlier mixture from the position of a trainer: which phases stay, and which samples were drawn.

The order of samples depends only on the phases before them. Finished phases stay as they are. The current phase keeps
its weights and ends at the trainer's position, so it is a prefix of the old one. No sample is lost or repeated.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gristmill.counted import counted
from gristmill.errors import CannotBeMet
from gristmill.shardformat.blend import drawn, grow
from gristmill.shardformat.continuation import head_difference, shards_difference
from gristmill.shardformat.locations import read_bytes
from gristmill.shardformat.manifest import Shard
from gristmill.shardformat.manifest import read_manifest as check_manifest
from gristmill.stages.mix.groups import MixGroup
from gristmill.stages.mix.options import Continues


@dataclass(frozen=True)
class Past:
    """The part of a mixture that a trainer has already drawn."""

    phases: list[dict[str, Any]] = field(default_factory=list)
    """The phases of the manifest; the last one is cut."""
    drawn: dict[str, int] = field(default_factory=dict)
    """The number of drawn samples by group."""
    order: list[str] = field(default_factory=list)
    """The groups of the earlier manifest, in its order."""


def read_manifest(location: str) -> dict[str, Any]:
    """Read a manifest as it was written; raises UserError if the file is not a manifest or was changed."""
    found: dict[str, Any] = json.loads(read_bytes(check_manifest(location).location))
    return found


def past_of(continues: Continues, head: Mapping[str, Any], groups: Iterable[MixGroup]) -> Past:
    """The drawn part of the mixture; raises UserError if a drawn sample would change."""
    old = read_manifest(continues.manifest)
    _check_head(continues.manifest, old, head)
    at = left = _sample(continues, old["seq_len"])
    past = Past(order=[group["name"] for group in old["groups"]])
    for phase in old["phases"]:
        samples = min(left, phase["samples"])
        left -= samples
        if samples:
            past.phases.append({**phase, "samples": samples})
            for name, count in drawn_of(past.phases[-1]).items():
                past.drawn[name] = past.drawn.get(name, 0) + count
    if left:
        raise CannotBeMet(
            f"mix.continues: {continues.manifest} has {counted(at - left, 'sample')}, so the trainer cannot be at "
            f"sample {at:,}. Correct at_sample or at_tokens."
        )
    now = {group.name: group for group in groups}
    for group in old["groups"]:
        if group["name"] in past.drawn:
            _check_shards(continues.manifest, group, now.get(group["name"]))
    return past


def drawn_of(phase: Mapping[str, Any]) -> dict[str, int]:
    """The samples of each group in a phase; in a phase that was cut, those that the loader draws up to the cut."""
    names = list(phase["weights"])
    tree = grow(phase["weights"], {name: number for number, name in enumerate(names)})
    return {names[number]: count for number, count in drawn(tree, phase["samples"])}


def _sample(continues: Continues, seq_len: int) -> int:
    if continues.at_sample is not None:
        return continues.at_sample
    assert continues.at_tokens is not None
    at, rest = divmod(continues.at_tokens, seq_len)
    if rest:
        raise CannotBeMet(
            f"mix.continues: at_tokens {continues.at_tokens:,} is in the middle of a sample of "
            f"{counted(seq_len, 'token')}. Write at_tokens: {at * seq_len} or {(at + 1) * seq_len}, depending on the "
            "trainer's position."
        )
    return at


def _check_head(uri: str, old: Mapping[str, Any], head: Mapping[str, Any]) -> None:
    if difference := head_difference(old, head):
        raise CannotBeMet(
            f"mix.continues: {difference}, so the samples already drawn from {uri} would change. Undo the change, or "
            "begin a new mixture."
        )


def _check_shards(uri: str, old: Mapping[str, Any], group: MixGroup | None) -> None:
    name = old["name"]
    if group is None:
        raise CannotBeMet(
            f"mix.continues: samples of the group {name} were drawn, but the recipe no longer has this group, so they "
            "cannot be found again. Restore the group; a multiplier of 0 leaves it out from now on."
        )
    then, now = ([Shard(**entry) for entry in shards] for shards in (old["shards"], group.shards))
    if difference := shards_difference(name, then, now):
        raise CannotBeMet(
            f"mix.continues: {difference}, so the samples already drawn from {uri} would change. Restore the corpus "
            "(the same sources, steps and seed), add new text as a separate source, or begin a new mixture."
        )
