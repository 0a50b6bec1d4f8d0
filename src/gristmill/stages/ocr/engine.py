"""The OCR engine: rapidocr with the models that its package contains, on one core, so that results repeat."""

from collections.abc import Sequence
from typing import Any, NamedTuple

LINE_OVERLAP = 0.5
"""Two boxes are on one line if their heights overlap by this share."""
SPANNING = 0.6
"""A box that is wider than this share of the text goes across all columns. Lines of a single column do, too."""
GUTTER = 0.015
"""The least space between columns, as a share of the width of the text."""
COLUMN_BOXES = 5
COLUMN_WIDTH = 0.15
"""The least width of a column, as a share of the width of the text: the page numbers of a contents page are none."""


class Box(NamedTuple):
    """A line of text on a page image, in pixels."""

    top: float
    bottom: float
    left: float
    right: float
    text: str


class PageEngine:
    """Reads page images. It loads its models (1 s) with the first page."""

    def __init__(self) -> None:
        self._engine: Any = None

    def read(self, png: bytes) -> str:
        """The text of a page image, one line of the page per line, from top to bottom."""
        result = self._loaded()(png)
        if result.txts is None:
            return ""
        corners = (box.tolist() for box in result.boxes)
        found = [Box(*_edges(points), text) for points, text in zip(corners, result.txts, strict=True)]
        return "\n".join(lines_of(found))

    def _loaded(self) -> Any:
        if self._engine is None:
            from rapidocr import RapidOCR  # an extra, and a second to import

            threads = {
                f"EngineConfig.onnxruntime.{name}": 1 for name in ("intra_op_num_threads", "inter_op_num_threads")
            }
            # Its classifier of upside-down lines turns upright ones, too: one line in 50, which becomes noise.
            self._engine = RapidOCR(params={"Global.log_level": "error", "Global.use_cls": False, **threads})
        return self._engine


def _edges(points: Sequence[Sequence[float]]) -> tuple[float, float, float, float]:
    across, down = zip(*points, strict=True)
    return min(down), max(down), min(across), max(across)


def lines_of(boxes: Sequence[Box]) -> list[str]:
    """The lines of a page in reading order: boxes as wide as the page separate bands, and a band may have columns."""
    left, right = min((box.left for box in boxes), default=0), max((box.right for box in boxes), default=0)
    found: list[str] = []
    band: list[Box] = []
    for box in [*sorted(boxes), None]:
        if box is None or box.right - box.left > SPANNING * (right - left):
            for column in _columns(band, right - left):
                found += _lines(column)
            band = []
            if box is not None:
                found.append(box.text)
        else:
            band.append(box)
    return found


def _columns(boxes: Sequence[Box], width: float) -> list[list[Box]]:
    """Boxes from left to right, split where nothing is for the width of a gutter."""
    columns: list[list[Box]] = []
    reach = 0.0
    for box in sorted(boxes, key=lambda box: box.left):
        if not columns or box.left > reach + GUTTER * width:
            columns.append([])
        columns[-1].append(box)
        reach = max(reach, box.right)
    for column in columns:
        narrow = max(box.right for box in column) - column[0].left < COLUMN_WIDTH * width
        if narrow or len(column) < COLUMN_BOXES:  # numbers of a list, cells of a table
            return [list(boxes)]
    return columns


def _lines(boxes: Sequence[Box]) -> list[str]:
    """Joins boxes that are next to each other to lines."""
    lines: list[list[Box]] = []
    for box in sorted(boxes):
        last = lines[-1][0] if lines else None
        if last and min(box.bottom, last.bottom) - max(box.top, last.top) > LINE_OVERLAP * min(
            box.bottom - box.top, last.bottom - last.top
        ):
            lines[-1].append(box)
        else:
            lines.append([box])
    return [" ".join(box.text for box in sorted(line, key=lambda box: box.left)) for line in lines]
