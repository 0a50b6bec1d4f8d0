"""The file of a trained classifier: a fastText model that the library can load, followed by the report of its training.

fastText reads its two matrices and stops, so bytes after them do no harm. The report is JSON, then its length (eight
bytes, little-endian), then a mark of 16 bytes.
"""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.errors import UserError
from gristmill.kernels.quality.features import Shape, WordRows

Array = np.ndarray[Any, Any]

LABELS = ("__label__high", "__label__low")
_MAGIC, _VERSION, _SOFTMAX, _SUPERVISED = 793712314, 12, 3, 3
_MARK = b"gristmill report"


def model_bytes(words: WordRows, shape: Shape, weights: Array, epochs: int, examples: tuple[int, int]) -> bytes:
    """A supervised model of one dimension: the score of a text is half the distance from `low` to `high`.

    `examples`: the number of examples in the high and in the low class.
    """
    head = struct.pack("<ii", _MAGIC, _VERSION)
    arguments = (
        1,
        5,
        epochs,
        1,
        5,
        shape.word_ngrams,
        _SOFTMAX,
        _SUPERVISED,
        shape.buckets,
        shape.minn,
        shape.maxn,
        100,
    )
    head += struct.pack("<12id", *arguments, 1e-4)
    entries = len(words.starts) + len(LABELS)
    head += struct.pack("<iiiqq", entries, len(words.starts), len(LABELS), int(words.counts.sum()), -1)
    parts = [head]
    text = words.data.tobytes()
    bounds = zip(words.starts.tolist(), words.ends.tolist(), words.counts.tolist(), strict=True)
    parts += [text[start:end] + b"\0" + struct.pack("<qb", count, 0) for start, end, count in bounds]
    counts = zip(LABELS, examples, strict=True)
    parts += [label.encode() + b"\0" + struct.pack("<qb", count, 1) for label, count in counts]
    parts += [struct.pack("<?qq", False, len(weights), 1), weights.astype("<f4").tobytes()]
    parts += [struct.pack("<?qq", False, len(LABELS), 1), np.array([0.5, -0.5], "<f4").tobytes()]
    return b"".join(parts)


def with_report(model: bytes, report: dict[str, Any]) -> bytes:
    """The model followed by its report."""
    encoded = json.dumps(report, sort_keys=True, ensure_ascii=False).encode()
    return model + encoded + struct.pack("<q", len(encoded)) + _MARK


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def read_report(path: str | Path) -> dict[str, Any]:
    """Reads the training report from the model file of a run."""
    data = Path(path).read_bytes()
    tail = 8 + len(_MARK)
    if len(data) < tail or not data.endswith(_MARK):
        raise UserError(
            f"{path} has no training report, so gristmill did not train it. Give a classifier that gristmill trained."
        )
    (size,) = struct.unpack("<q", data[-tail : -len(_MARK)])
    try:
        if not 0 < size <= len(data) - tail:
            raise ValueError
        report: dict[str, Any] = json.loads(data[len(data) - tail - size : len(data) - tail], parse_constant=_refuse)
        if not isinstance(report, dict):
            raise ValueError
    except (ValueError, RecursionError):
        raise UserError(f"{path} is damaged: its report cannot be read. Train the classifier again.") from None
    return report
