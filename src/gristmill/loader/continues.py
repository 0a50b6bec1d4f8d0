"""Whether one manifest goes on where another stands: the same samples up to there, none lost or twice after it."""

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.loader.order import Order
from gristmill.shardformat.continuation import head_difference, shards_difference
from gristmill.shardformat.manifest import Manifest


def continues(old: Manifest, new: Manifest, sample: int) -> None:
    """UserError with the first difference if a run that consumed `sample` samples of `old` cannot go on with `new`.

    Free to change: the mixture after `sample` (the phase that is cut there included), groups that were not drawn
    from yet, where files lie. Not free: seed, tokenizer, sample length, the phases before, the shards of groups in use.
    """
    difference = first_difference(old, new, sample)
    if difference:
        raise UserError(
            f"{new.location} does not go on where {old.location} stands at sample {sample}: {difference}. "
            "Samples would be lost or repeated. Change only what comes after that sample, or start a new run."
        )


def first_difference(old: Manifest, new: Manifest, sample: int) -> str | None:
    """In words; None where there is none."""
    if difference := head_difference(old.head, new.head):
        return difference
    if sample > old.samples:
        return f"the old one ends at sample {old.samples}"
    return _phase_difference(old, new, sample) or _shard_difference(old, new, sample)


def _phase_difference(old: Manifest, new: Manifest, sample: int) -> str | None:
    """A phase may be longer or shorter than it was, if both lengths reach the sample: the shorter is a prefix."""
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
                weights = f"{was.weights.get(name, 0)} and is {now.weights.get(name, 0)}"
                return f"the weight of group {name} in phase {was.name} was {weights}"
        if was.samples != now.samples and start + min(was.samples, now.samples) < sample:
            return f"phase {was.name} ended after sample {start + was.samples} and ends after {start + now.samples}"
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
