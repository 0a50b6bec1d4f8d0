"""Files of ensembles of trees: three arrays for each ensemble, and a header with its bias and columns.

The compiled loops that use the arrays check nothing, so everything is checked here, and the content is compared with
its hash.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from gristmill.kernels.html.trees import DEEPEST, LARGEST_BIAS, MOST_TREES, Trees
from gristmill.stages.shared.arrow_file import ArrowFile, arrays_to_bytes

Array = np.ndarray[Any, Any]

_ARRAYS = {"features": np.uint16, "thresholds": np.uint8, "leaves": np.int16}
_MOST_COLUMNS = 1 << 16


def trees_to_bytes(ensembles: Mapping[str, Trees], about: Mapping[str, Any]) -> bytes:
    """The content of a file with ensembles by name; `about` is added to its header."""
    arrays: dict[str, Array] = {}
    numbers: dict[str, list[int]] = {}
    for name, trees in ensembles.items():
        _check(trees)
        arrays |= {f"{name}/{field}": getattr(trees, field) for field in _ARRAYS}
        numbers[name] = [trees.bias, trees.columns]
    return arrays_to_bytes({**about, "ensembles": numbers, "sha256": _hash(ensembles)}, arrays)


def trees_in(file: ArrowFile) -> dict[str, Trees]:
    """The ensembles of a file by name. Raises ValueError and others, see `intact`."""
    ensembles = {}
    for name, (bias, columns) in file.header["ensembles"].items():
        # Loops are compiled for arrays that can be written to, as a mapped file cannot.
        features, thresholds, leaves = (np.array(file.array(f"{name}/{field}")) for field in _ARRAYS)
        ensembles[name] = Trees(features, thresholds, leaves, bias, columns)
        _check(ensembles[name])
    if _hash(ensembles) != file.header["sha256"]:
        raise ValueError("its content does not match its hash")
    return ensembles


def _hash(ensembles: Mapping[str, Trees]) -> str:
    digest = hashlib.sha256(orjson.dumps([[name, trees.bias, trees.columns] for name, trees in ensembles.items()]))
    for trees in ensembles.values():
        for field, kind in _ARRAYS.items():
            digest.update(np.ascontiguousarray(getattr(trees, field), kind).tobytes())
    return digest.hexdigest()


def _check(trees: Trees) -> None:
    """Raises ValueError for trees with which a loop would leave its arrays."""
    count, depth = trees.features.shape
    if not (1 <= count <= MOST_TREES and 1 <= depth <= DEEPEST):
        raise ValueError(f"{count} trees of depth {depth}")
    if trees.thresholds.shape != (count, depth) or trees.leaves.shape != (count, 1 << depth):
        raise ValueError("arrays of other sizes")
    if any(getattr(trees, field).dtype != kind for field, kind in _ARRAYS.items()):
        raise ValueError("arrays of other types")
    if type(trees.columns) is not int or not int(trees.features.max()) < trees.columns <= _MOST_COLUMNS:
        raise ValueError(f"a tree uses column {trees.features.max()} of {trees.columns}")
    if type(trees.bias) is not int or abs(trees.bias) > LARGEST_BIAS:
        raise ValueError(f"a bias of {trees.bias}")
