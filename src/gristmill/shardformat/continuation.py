"""What a mixture must share with the one that it continues, so that samples already drawn stay the same.

These are the seed, the tokenizer, the sample length, and the tokens of every shard of groups that were drawn from.
Index and lineage of a shard may differ (they contain the recipe's name); the tokens are the samples.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gristmill.counted import counted
from gristmill.shardformat.manifest import Shard


def head_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """The first difference between the heads of two manifests that would change samples, or None."""
    for name, then, now in (
        ("seq_len", old["seq_len"], new["seq_len"]),
        ("token_bytes", old["token_bytes"], new["token_bytes"]),
        ("the tokenizer's hash", old["tokenizer"]["hash"], new["tokenizer"]["hash"]),
        ("the seed", old["seed"], new["seed"]),
    ):
        if then != now:
            return f"{name} was {then} and is now {now}"
    return None


def shards_difference(group: str, old: Sequence[Shard], new: Sequence[Shard]) -> str | None:
    """The first difference between the old and new shards of a group, or None."""
    if len(old) != len(new):
        return f"group {group} had {counted(len(old), 'shard')} and now has {len(new)}"
    for number, (was, now) in enumerate(zip(old, new, strict=True)):
        if was.bin != now.bin or was.samples != now.samples:
            return f"shard {number} of group {group} has other tokens"
    return None
