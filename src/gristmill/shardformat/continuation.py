"""What a mixture that goes on where another stands must share with it: samples that were drawn stay what they were.

The seed, the tokenizer and the length of a sample; and, of a group that was drawn from, the tokens of every shard.
Index and lineage of a shard may be written anew (another recipe's name is in them); the tokens are the samples.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gristmill.counted import counted
from gristmill.shardformat.manifest import Shard


def head_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """The first difference between the heads of two manifests that would change samples; None where there is none."""
    for name, then, now in (
        ("seq_len", old["seq_len"], new["seq_len"]),
        ("token_bytes", old["token_bytes"], new["token_bytes"]),
        ("the tokenizer's hash", old["tokenizer"]["hash"], new["tokenizer"]["hash"]),
        ("the seed", old["seed"], new["seed"]),
    ):
        if then != now:
            return f"{name} was {then} and is {now}"
    return None


def shards_difference(group: str, old: Sequence[Shard], new: Sequence[Shard]) -> str | None:
    """The first difference between the shards of a group, then and now."""
    if len(old) != len(new):
        return f"group {group} had {counted(len(old), 'shard')} and has {len(new)}"
    for number, (was, now) in enumerate(zip(old, new, strict=True)):
        if was.bin != now.bin or was.samples != now.samples:
            return f"shard {number} of group {group} holds other tokens"
    return None
