"""The file of an ensemble of trees: a header of 28 bytes, the concatenated arrays, the sha256 of everything before it.

    8 bytes     the mark
    uint32      version, trees, depth, columns; int32 bias
    uint16      features (trees, depth)
    uint8       thresholds (trees, depth)
    int16       leaves (trees, 2^depth)
    32 bytes    sha256

All little-endian. The compiled loops that use the arrays check nothing, so everything is checked here.
"""

import hashlib
import struct

import numpy as np

from gristmill.errors import UserError
from gristmill.kernels.html.trees import DEEPEST, LARGEST_BIAS, MOST_TREES, Trees

_MARK, _VERSION = b"gm trees", 1
_HEAD = struct.Struct("<8s4Ii")
_MOST_COLUMNS = 1 << 16
_DIGEST = hashlib.sha256().digest_size


def to_bytes(trees: Trees) -> bytes:
    """The content of a file that `from_bytes` reads."""
    count, depth = trees.features.shape
    fault = _fault(count, depth, trees.columns, trees.bias)
    if fault or trees.features.max() >= trees.columns:
        raise ValueError(fault or "a tree uses a column that does not exist")
    data = _HEAD.pack(_MARK, _VERSION, count, depth, trees.columns, trees.bias)
    data += trees.features.astype("<u2").tobytes() + trees.thresholds.tobytes() + trees.leaves.astype("<i2").tobytes()
    return data + hashlib.sha256(data).digest()


def from_bytes(data: bytes, path: str) -> Trees:
    """The trees of a file; `path` is its name in messages."""
    if not data.startswith(_MARK):
        raise _wrong(path, "is not a file of trees")
    if len(data) < _HEAD.size + _DIGEST:
        raise _wrong(path, f"ends after {len(data)} bytes")
    _, version, count, depth, columns, bias = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise _wrong(path, f"has version {version}, but this gristmill reads version {_VERSION}")
    fault = _fault(count, depth, columns, bias)
    if fault:
        raise _wrong(path, f"is damaged: {fault}")
    levels = count * depth
    size = _HEAD.size + 3 * levels + (2 * count << depth) + _DIGEST
    if len(data) != size:
        raise _wrong(path, f"is damaged: it has {len(data)} bytes instead of {size}")
    if hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:]:
        raise _wrong(path, "is damaged: its content does not match its hash")
    features = np.frombuffer(data, "<u2", levels, _HEAD.size)
    if features.max() >= columns:
        raise _wrong(path, f"is damaged: a tree uses column {features.max()} of {columns}")
    thresholds = np.frombuffer(data, np.uint8, levels, _HEAD.size + 2 * levels)
    leaves = np.frombuffer(data, "<i2", count << depth, _HEAD.size + 3 * levels)
    return Trees(
        features.astype(np.uint16).reshape(count, depth),
        thresholds.reshape(count, depth).copy(),
        leaves.astype(np.int16).reshape(count, 1 << depth),
        bias,
        columns,
    )


def _fault(count: int, depth: int, columns: int, bias: int) -> str:
    """What is wrong with the numbers in a header, or an empty string."""
    if not (1 <= count <= MOST_TREES and 1 <= depth <= DEEPEST):
        return f"{count} trees of depth {depth}; the limits are 1 to {MOST_TREES} trees of depth 1 to {DEEPEST}"
    if not 1 <= columns <= _MOST_COLUMNS:
        return f"{columns} columns; the limits are 1 to {_MOST_COLUMNS}"
    return "" if abs(bias) <= LARGEST_BIAS else f"a bias of {bias}; the limit is {LARGEST_BIAS}"


def _wrong(path: str, fact: str) -> UserError:
    return UserError(f"{path} {fact}, so no text can be extracted with it. Train it again, or use an intact file.")
