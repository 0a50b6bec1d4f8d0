"""The file of an ensemble of trees: a head of 28 bytes, the arrays one behind the other, the sha256 of all of it.

    8 bytes     the mark
    uint32      version, trees, depth, columns; int32 bias
    uint16      features (trees, depth)
    uint8       thresholds (trees, depth)
    int16       leaves (trees, 2^depth)
    32 bytes    sha256

All little-endian. What is read is believed by compiled loops that check nothing, so all of it is checked here.
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
        raise ValueError(fault or "a tree asks about a column that there is not")
    told = _HEAD.pack(_MARK, _VERSION, count, depth, trees.columns, trees.bias)
    told += trees.features.astype("<u2").tobytes() + trees.thresholds.tobytes() + trees.leaves.astype("<i2").tobytes()
    return told + hashlib.sha256(told).digest()


def from_bytes(data: bytes, path: str) -> Trees:
    """The trees of a file; `path` is what a user is told it is called."""
    if not data.startswith(_MARK):
        raise _wrong(path, "is no file of trees")
    if len(data) < _HEAD.size + _DIGEST:
        raise _wrong(path, f"ends after {len(data)} bytes")
    _, version, count, depth, columns, bias = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise _wrong(path, f"is of version {version}, and this gristmill reads version {_VERSION}")
    fault = _fault(count, depth, columns, bias)
    if fault:
        raise _wrong(path, f"is damaged: {fault}")
    levels = count * depth
    size = _HEAD.size + 3 * levels + (2 * count << depth) + _DIGEST
    if len(data) != size:
        raise _wrong(path, f"is damaged: it has {len(data)} bytes, and {size} were written")
    if hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:]:
        raise _wrong(path, "is damaged: its content does not have the hash that was written with it")
    features = np.frombuffer(data, "<u2", levels, _HEAD.size)
    if features.max() >= columns:
        raise _wrong(path, f"is damaged: a tree asks about column {features.max()} of {columns}")
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
    """What is wrong with numbers of a head, or nothing."""
    if not (1 <= count <= MOST_TREES and 1 <= depth <= DEEPEST):
        return f"{count} trees of depth {depth}, and 1 to {MOST_TREES} of 1 to {DEEPEST} fit"
    if not 1 <= columns <= _MOST_COLUMNS:
        return f"{columns} columns, and 1 to {_MOST_COLUMNS} fit"
    return "" if abs(bias) <= LARGEST_BIAS else f"a bias of {bias}, and {LARGEST_BIAS} at most fits"


def _wrong(path: str, fact: str) -> UserError:
    return UserError(f"{path} {fact}, so no text can be extracted with it. Train it again, or give a whole file.")
