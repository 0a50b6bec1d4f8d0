"""The OCR engine: rapidocr with the models that its package contains, on one core, so that results repeat."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any, TypedDict

import numpy as np

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
        width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
        lines, is_flat, sureness = self._read(png)
        if lines and not (is_flat and sureness >= SURE):
            # The engine turns high boxes by a quarter, counterclockwise, so it can read a page that this makes upright.
            turns = 2 if is_flat else 1 if sureness >= SURE else 3
            pixels = np.rot90(self._loaded().load_img(png), turns)
            others, is_flat, sureness = self._read(np.ascontiguousarray(pixels))
            if is_flat and sureness >= SURE:
                return {"width": pixels.shape[1], "height": pixels.shape[0], "turns": turns, "lines": others}
        return {"width": width, "height": height, "turns": 0, "lines": lines}

    def _read(self, image: Any) -> tuple[list[ReadLine], bool, float]:
        """The lines on an image, PNG or pixels; whether most of them go across; how sure the engine is of them."""
        result = self._loaded()(image)
        texts = result.txts or ()
        boxes = [box.tolist() for box in result.boxes] if texts else []
        lines: list[ReadLine] = [
            {"text": text, "corners": [round(value) for point in box for value in point]}
            for box, text in zip(boxes, texts, strict=True)
        ]
        flat = sum(len(text) for box, text in zip(boxes, texts, strict=True) if _is_flat(box))
        return lines, 2 * flat >= sum(map(len, texts)), fmean(result.scores) if texts else 0.0

    def _loaded(self) -> Any:
        if self._engine is None:
            from rapidocr import RapidOCR  # an extra, and a second to import

            threads = {
                f"EngineConfig.onnxruntime.{name}": 1 for name in ("intra_op_num_threads", "inter_op_num_threads")
            }
            # Its classifier of upside-down lines turns upright ones, too: one line in 50, which becomes noise.
            self._engine = RapidOCR(params={"Global.log_level": "error", "Global.use_cls": False, **threads})
        return self._engine


def _is_flat(box: Sequence[Sequence[float]]) -> bool:
    return box[1][0] - box[0][0] >= box[3][1] - box[0][1]
