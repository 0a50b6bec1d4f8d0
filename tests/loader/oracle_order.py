"""The order of samples as docs/loader.md describes it, implemented from the page alone: slow and short."""

import hashlib
import json
from math import ceil, isqrt
from pathlib import Path

ALL = 2**64 - 1


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & ALL
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & ALL
    return x ^ (x >> 31)


def permutation(n, key):
    rows = isqrt(n) + (isqrt(n) ** 2 < n)
    columns = ceil(n / rows)
    keys = [mix((key + i * 0x9E3779B97F4A7C15) & ALL) for i in range(1, 9)]

    def once(x):
        row, column = x // columns, x % columns
        for i in range(0, 8, 2):
            row = (row + ((mix(column ^ keys[i]) >> 32) * rows >> 32)) % rows
            column = (column + ((mix(row ^ keys[i + 1]) >> 32) * columns >> 32)) % columns
        return row * columns + column

    for x in range(n):
        x = once(x)
        while x >= n:
            x = once(x)
        yield x


def key(*words):
    text = "\n".join(["gristmill order", *map(str, words)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def group_at(weights, j):
    nodes = [(weight, name, None) for name, weight in weights.items() if weight > 0]
    while len(nodes) > 1:
        left, right, *rest = sorted(nodes, key=lambda node: node[:2])
        nodes = [*rest, (left[0] + right[0], min(left[1], right[1]), (left, right))]
    node = nodes[0]
    while node[2]:
        left, right = node[2]
        gone = [(each * left[0] + node[0] // 2) // node[0] for each in (j, j + 1)]
        node, j = (left, gone[0]) if gone[1] > gone[0] else (right, j - gone[0])
    return node[1]


def whole_order(path: Path):
    """(group, epoch, shard, row) of every sample of a manifest, by walking through it."""
    content = json.loads(path.read_text())
    groups = {group["name"]: group for group in content["groups"]}
    waiting = {name: (0, []) for name in groups}
    for phase in content["phases"]:
        for j in range(phase["samples"]):
            name = group_at(phase["weights"], j)
            epoch, rows = waiting[name]
            if not rows:
                shards = groups[name]["shards"]
                for shard in permutation(len(shards), key(content["seed"], epoch, "shards", name)):
                    count = shards[shard]["samples"]
                    order = permutation(count, key(content["seed"], epoch, shard, name)) if count else ()
                    rows += [(name, epoch, shard, row) for row in order]
                rows.reverse()
                waiting[name] = (epoch + 1, rows)
            yield rows.pop()
