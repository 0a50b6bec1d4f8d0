"""Lays out what an engine read on the page images of a document, as the text of PDF files is: columns, paragraphs,
tables, running heads, hyphens.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from gristmill_pdf.kernels.glyphs import UNITS
from gristmill_pdf.layout.assemble import PlacedBlock, assemble
from gristmill_pdf.layout.blocks import page_blocks
from gristmill_pdf.layout.characters import HYPHENS
from gristmill_pdf.layout.columns import UNKNOWN, TextSegment
from gristmill_pdf.layout.hidden import is_body_size
from gristmill_pdf.layout.page import Page
from gristmill_pdf.ocr.engine import ReadImage

FONT_SHARE = 0.9
"""The font size of a line, as a share of the height of its box."""
SIZE_STEP = 1.3
"""Other font sizes are the body's, multiplied or divided by this."""
SHIFT = 36 * UNITS
"""How far a running head may be from its place on other pages."""
LONG_BOX = 8
"""A box that is so many times as wide as high tells how far the page is turned."""
MOST_SLOPE = 0.2


class PageText(NamedTuple):
    """The text of a page, what follows it before the next page, and its blocks, whose places are in bytes of it."""

    text: str
    glue: str = "\n\n"
    blocks: Sequence[PlacedBlock] = ()


def page_texts(images: Mapping[int, ReadImage], sizes: Mapping[int, tuple[int, int]]) -> dict[int, PageText]:
    """The texts of the pages of a document whose images were read; sizes are in points."""
    pages = [Page(0, 0) for _ in range(max(images, default=-1) + 1)]
    for number, image in images.items():
        pages[number] = _page(image, *sizes[number])
    text, starts, pieces = assemble(pages, markdown=False)
    data = text.encode()
    found = {}
    for number in images:
        start, stop = starts[number], [*starts, len(data)][number + 1]
        part = data[start:stop].decode()
        body = part.rstrip()
        is_joined = number + 1 in images and bool(body) and "\n" not in part[len(body) :]
        turn = images[number]["turns"], *sizes[number]
        blocks = [
            one._replace(start=one.start - start, box=_turned_back(one.box, *turn))
            for one in pieces
            if start <= one.start < stop
        ]
        found[number] = PageText(body, part[len(body) :] if is_joined else "\n\n", blocks)
    return found


def _turned_back(box: tuple[int, int, int, int], turns: int, width: int, height: int) -> tuple[int, int, int, int]:
    """A box of a page that was turned, on the page as it is, whose size is given."""
    left, top, right, bottom = box
    if turns == 1:
        return width - bottom, left, width - top, right
    if turns == 2:
        return width - right, height - bottom, width - left, height - top
    return (top, height - right, bottom, height - left) if turns == 3 else box


def _page(image: ReadImage, width: int, height: int) -> Page:
    """The blocks of a page, turned upright."""
    width, height = (height, width) if image["turns"] % 2 else (width, height)
    page = Page(width * UNITS, height * UNITS, shift=SHIFT)
    shapes = [shape for line in image["lines"] if (shape := _shape(line["text"].strip(), line["corners"]))]
    upright = [one for one in shapes if one.height <= 2 * one.width or len(one.text) < 3]
    if 2 * sum(len(one.text) for one in upright) > sum(len(one.text) for one in shapes):
        shapes = upright  # without stamps and labels in another direction
    if shapes and image["width"] and image["height"]:
        scale = page.width / image["width"], page.height / image["height"]
        page.blocks = page_blocks(_segments(shapes, scale, (image["width"] / 2, image["height"] / 2)))
    return page


class _Shape(NamedTuple):
    text: str
    x: float
    """The middle of the box."""
    y: float
    width: float
    height: float
    slope: float


def _shape(text: str, corners: Sequence[int]) -> _Shape | None:
    xs, ys = corners[::2], corners[1::2]
    across, down = (xs[1] + xs[2] - xs[0] - xs[3]) / 2, (ys[2] + ys[3] - ys[0] - ys[1]) / 2
    slope = (ys[1] + ys[2] - ys[0] - ys[3]) / 2 / max(across, 1.0)
    return _Shape(text, sum(xs) / 4, sum(ys) / 4, across, down, slope) if text and across > 0 and down > 0 else None


def _steps(ratio: float, chars: int) -> int:
    """The font size of a box whose height is `ratio` times that of the body's, in steps from the body's."""
    if is_body_size(ratio, chars):
        return 0
    steps = round(math.log(ratio, SIZE_STEP))
    return steps or (1 if ratio > 1 else -1)


def _segments(shapes: Sequence[_Shape], scale: tuple[float, float], middle: tuple[float, float]) -> list[TextSegment]:
    slopes = [one.slope for one in shapes if one.width >= LONG_BOX * one.height]
    slope = max(min(median(slopes), MOST_SLOPE), -MOST_SLOPE) if slopes else 0.0
    heights = sorted((one.height, len(one.text)) for one in shapes)
    body = median([height for height, chars in heights for _ in range(min(chars, 200))])
    found = []
    for one in shapes:
        x, y = one.x + slope * (one.y - middle[1]), one.y - slope * (one.x - middle[0])
        step = _steps(one.height / body, len(one.text))
        size = max(round(body * FONT_SHARE * SIZE_STEP**step * scale[1]), 1)
        left, right = round((x - one.width / 2) * scale[0]), round((x + one.width / 2) * scale[0])
        base = round(y * scale[1]) + size // 4
        first = (right - left) * len(one.text.split(None, 1)[0]) // len(one.text)
        is_hyphen = one.text.endswith(HYPHENS) and one.text[-2:-1].isalpha()
        # fmt: off
        found.append(TextSegment(
            one.text, left, base - size, right, base + size // 4, base, size, len(one.text.replace(" ", "")),
            0, 0, 0, 0, left + first, is_hyphen, UNKNOWN,
        ))
        # fmt: on
    return found
