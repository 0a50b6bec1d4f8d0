"""The OCR engine: rapidocr with the models that its package contains, on one core, so that results repeat."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, TypedDict

import numpy as np

MOST_ASPECT = 2
"""An image that is longer is read in parts: the engine makes the shorter side 736 pixels, whatever the longer one
becomes."""
LEAST_SIDE = 368
"""Pixels of the shorter side of a part. A narrower one gets a white margin."""
SURE = 0.8
"""How sure the engine is of lines that it reads upright, in the mean: of most pages 0.99, of pages upside down 0.64."""


class ReadLine(TypedDict):
    """A piece of a line on a page image."""

    text: str
    corners: list[int]
    """x and y of its upper left, upper right, lower right and lower left corner, in pixels."""


class ReadImage(TypedDict):
    """What the engine read on a page image, as it is stored."""

    width: int
    """Pixels, when it is upright, as the corners of lines."""
    height: int
    turns: int
    """By how many quarter turns, counterclockwise, the image became upright."""
    lines: list[ReadLine]


class PageEngine:
    """Reads page images. It loads its models (1 s) with the first page."""

    def __init__(self) -> None:
        self._engine: Any = None

    def read(self, png: bytes) -> ReadImage:
        """The lines on a page image, in no order. A page that is not upright is turned and read again."""
        pixels = self._loaded().load_img(png)
        height, width = pixels.shape[:2]
        lines, is_flat, sureness = self._read(pixels)
        if lines and not (is_flat and sureness >= SURE):
            # The engine turns high boxes by a quarter, counterclockwise, so it can read a page that this makes upright.
            turns = 2 if is_flat else 1 if sureness >= SURE else 3
            others, is_flat, sureness = self._read(np.rot90(pixels, turns))
            if is_flat and sureness >= SURE:
                width, height = (height, width) if turns % 2 else (width, height)
                return {"width": width, "height": height, "turns": turns, "lines": others}
        return {"width": width, "height": height, "turns": 0, "lines": lines}

    def _read(self, pixels: Any) -> tuple[list[ReadLine], bool, float]:
        """The lines on an image; whether most of them go across; how sure the engine is of them."""
        lines: list[ReadLine] = []
        scores: list[float] = []
        flat = 0
        for top, left, part in _parts(pixels):
            margin = [(0, max(LEAST_SIDE - size, 0)) for size in part.shape[:2]]
            result = self._loaded()(np.pad(part, [*margin, (0, 0)], constant_values=255))
            boxes = result.boxes if result.txts else ()
            for text, box, score in zip(result.txts or (), boxes, result.scores or (), strict=True):
                corners = np.add(box, (left, top))
                lines.append({"text": text, "corners": [round(value) for value in corners.ravel().tolist()]})
                scores.append(score)
                flat += len(text) if _is_flat(box) else 0
        return lines, 2 * flat >= sum(len(line["text"]) for line in lines), fmean(scores) if scores else 0.0

    def _loaded(self) -> Any:
        if self._engine is None:
            from rapidocr import RapidOCR  # an extra, and a second to import

            threads = {
                f"EngineConfig.onnxruntime.{name}": 1 for name in ("intra_op_num_threads", "inter_op_num_threads")
            }
            # Its classifier of upside-down lines turns upright ones, too: one line in 50, which becomes noise.
            self._engine = RapidOCR(params={"Global.log_level": "error", "Global.use_cls": False, **threads})
        return self._engine


def _parts(pixels: Any) -> Iterator[tuple[int, int, Any]]:
    """The parts of an image that are at most MOST_ASPECT times as high as wide, or as wide as high, with their upper
    left corners. A cut is in the calmest of the last quarter of the rows (or columns) that a part may have."""
    height, width = pixels.shape[:2]
    across = int(height > width)
    long, most = max(height, width), MOST_ASPECT * max(min(height, width), LEAST_SIDE)
    unrest = np.abs(np.diff(pixels.astype(np.int32), axis=across)).sum(axis=(across, 2)) if long > most else None
    start = 0
    while start < long:
        stop = long
        if unrest is not None and long - start > most:
            first = start + 3 * most // 4
            stop = first + int(np.argmin(unrest[first : start + most])) + 1
        yield (start, 0, pixels[start:stop]) if across else (0, start, pixels[:, start:stop])
        start = stop


def _is_flat(box: Sequence[Sequence[float]]) -> bool:
    return box[1][0] - box[0][0] >= box[3][1] - box[0][1]
