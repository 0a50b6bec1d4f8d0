"""Texts in pieces: what stays, and what steps cut out of them."""

import itertools
from collections.abc import Sequence


def cut_again(
    pieces: list[tuple[bytes, str | None]], spans: Sequence[int], step: str
) -> list[tuple[bytes, str | None]]:
    """The pieces after another cut; its spans (start, stop, start, stop ...) are byte offsets in the remaining text."""
    cuts = list(zip(spans[::2], spans[1::2], strict=True))
    result: list[tuple[bytes, str | None]] = []
    at = 0
    for piece, gone in pieces:
        if gone is not None:
            result.append((piece, gone))
            continue
        edges = sorted({0, len(piece), *(min(max(edge - at, 0), len(piece)) for edge in spans)})
        for start, stop in itertools.pairwise(edges):
            is_cut = any(begin <= at + start and at + stop <= end for begin, end in cuts)
            result.append((piece[start:stop], step if is_cut else None))
        at += len(piece)
    return result


def replaced_in(
    pieces: list[tuple[bytes, str | None]], spans: Sequence[int], written: Sequence[bytes], step: str
) -> list[tuple[bytes, str | None]]:
    """The pieces after a cut at `spans`, with each replacement text inserted after the piece that it replaces."""
    result: list[tuple[bytes, str | None]] = []
    stops = dict(zip(spans[1::2], written, strict=True))
    at = 0  # the offset in the step's input text
    for piece, gone in pieces:
        result.append((piece, gone))
        if gone is None or gone == step:
            at += len(piece)
        if gone == step and at in stops:
            result.append((stops.pop(at), None))
    return result
