"""Checks that one manifest continues another at a sample, without losing or repeating samples."""

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.loader.order import Order
from gristmill.shardformat.continuation import head_difference, shards_difference
from gristmill.shardformat.manifest import Manifest


def continues(old: Manifest, new: Manifest, sample: int) -> None:
    """Raise UserError with the first difference if a run with `sample` samples of `old` cannot continue with `new`.

    May change: the mixture after `sample` (including the phase at that point), groups that were not drawn from yet,
    file locations. Must not change: seed, tokenizer, sample length, earlier phases, the shards of groups in use.
    """
    difference = first_difference(old, new, sample)
    if difference:
        raise UserError(
            f"{new.location} does not continue {old.location} at sample {sample}: {difference}. "
            "Samples would be lost or repeated. Only change what comes after that sample, or start a new run."
        )


def first_difference(old: Manifest, new: Manifest, sample: int) -> str | None:
    """A description of the first difference; None if there is none."""
    if difference := head_difference(old.head, new.head):
        return difference
    if sample > old.samples:
        return f"the old manifest ends at sample {old.samples}"
    return _phase_difference(old, new, sample) or _shard_difference(old, new, sample)


def _phase_difference(old: Manifest, new: Manifest, sample: int) -> str | None:
    """The first phase that differs. A phase may change its length if both lengths reach the sample."""
    before, after = ([phase for phase in each.phases if phase.samples] for each in (old, new))
    start = 0
    for was, number in zip(before, range(len(before)), strict=True):
        if start >= sample:
            return None
        if number >= len(after):
            return f"it ends at sample {start}"
        now = after[number]
        for name in sorted(was.weights.keys() | now.weights.keys()):
            if was.weights.get(name, 0) != now.weights.get(name, 0):
                weights = f"{was.weights.get(name, 0)} and is now {now.weights.get(name, 0)}"
                return f"the weight of group {name} in phase {was.name} was {weights}"
        if was.samples != now.samples and start + min(was.samples, now.samples) < sample:
            return f"phase {was.name} ended after sample {start + was.samples}, now after {start + now.samples}"
        start += was.samples
    return None


def _shard_difference(old: Manifest, new: Manifest, sample: int) -> str | None:
    counts = Order(old).counts(sample)
    for group, count in zip(old.groups, counts, strict=True):
        if not count:
            continue
        if group.name not in new.numbers:
            return f"group {group.name}, of which {counted(count, 'sample was', 'samples were')} drawn, is gone"
        now = new.groups[new.numbers[group.name]]
        if difference := shards_difference(group.name, group.shards, now.shards):
            return difference
    return None
