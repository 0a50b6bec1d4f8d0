"""An earlier mixture that a trainer is in the middle of: what of it stays, and what was drawn.

The order of samples is a function of the phases before them. Phases that are over stay as they are; the current
one keeps its weights and ends where the trainer stands: a prefix of what it was. So no sample is lost or repeated.
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
from gristmill.stages.mix.groups import Group
from gristmill.stages.mix.options import Continues


@dataclass(frozen=True)
class Past:
    """What a trainer has behind it."""

    phases: list[dict[str, Any]] = field(default_factory=list)
    """As the manifest has them, the last one cut."""
    drawn: dict[str, int] = field(default_factory=dict)
    """Samples by group."""
    order: list[str] = field(default_factory=list)
    """The groups of the earlier manifest, in its order."""


def read_manifest(location: str) -> dict[str, Any]:
    """A manifest as it was written; UserError where the file is something else, or was changed."""
    found: dict[str, Any] = json.loads(read_bytes(check_manifest(location).location))
    return found


def past_of(asked: Continues, head: Mapping[str, Any], groups: Iterable[Group]) -> Past:
    """What stays of the mixture; UserError where a sample that was drawn could not be found again."""
    old = read_manifest(asked.manifest)
    _check_head(asked.manifest, old, head)
    at = left = _sample(asked, old["seq_len"])
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
            f"mix.continues: {asked.manifest} has {counted(at - left, 'sample')}, and the trainer cannot be at {at:,}. "
            "Correct at_sample or at_tokens."
        )
    now = {group.name: group for group in groups}
    for group in old["groups"]:
        if group["name"] in past.drawn:
            _check_shards(asked.manifest, group, now.get(group["name"]))
    return past


def drawn_of(phase: Mapping[str, Any]) -> dict[str, int]:
    """Samples of each group in a phase; of one that was cut, as many as the loader's blend gives until there."""
    names = list(phase["weights"])
    tree = grow(phase["weights"], {name: number for number, name in enumerate(names)})
    return {names[number]: count for number, count in drawn(tree, phase["samples"])}


def _sample(asked: Continues, seq_len: int) -> int:
    if asked.at_sample is not None:
        return asked.at_sample
    assert asked.at_tokens is not None
    at, rest = divmod(asked.at_tokens, seq_len)
    if rest:
        raise CannotBeMet(
            f"mix.continues: at_tokens {asked.at_tokens:,} is in the middle of a sample of "
            f"{counted(seq_len, 'token')}. "
            f"Write at_tokens: {at * seq_len} or {(at + 1) * seq_len}, whichever the trainer stands at."
        )
    return at


def _check_head(uri: str, old: Mapping[str, Any], head: Mapping[str, Any]) -> None:
    if difference := head_difference(old, head):
        raise CannotBeMet(
            f"mix.continues: {difference}, so the samples that were drawn of {uri} would be others. Set it back, or "
            "begin a mixture of its own."
        )


def _check_shards(uri: str, old: Mapping[str, Any], group: Group | None) -> None:
    name = old["name"]
    if group is None:
        raise CannotBeMet(
            f"mix.continues: samples of the group {name} were drawn, and the recipe has no such group any more, so "
            "they could not be found again. Put it back; a multiplier of 0 leaves it out from now on."
        )
    then, now = ([Shard(**entry) for entry in shards] for shards in (old["shards"], group.shards))
    if difference := shards_difference(name, then, now):
        raise CannotBeMet(
            f"mix.continues: {difference}, so what was drawn of {uri} would be other samples. Take the corpus as it "
            "was (the same sources, steps and seed), give new text a source of its own, or begin a mixture of its own."
        )
