"""Main text by our own extractor: pages cut into blocks, and a small model that says which of them are content.

Cutting, features and models are kernels (kernels/html/page.py); here are the file of the models, and pages as callers
have them. Everything is whole numbers, so the text of a page is the same on every machine.

The file (`main_text.model`, trained by `gristmill extractor train`) holds three ensembles of trees (trees_file.py),
each behind its size: what a block looks like; the same with what the first thinks of its neighbours; and one like the
second, to which readers' comments are content too. A hash of the names of all features comes first: a file of another
set of features is not for this code.
"""

import hashlib
import os
import struct
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gristmill.counted import size
from gristmill.errors import UserError
from gristmill.kernels.html.block_names import B_START, B_STOP
from gristmill.kernels.html.bounds import as_words
from gristmill.kernels.html.boxes import S_FULL, S_MATH
from gristmill.kernels.html.context import CONTEXT_FEATURES
from gristmill.kernels.html.features import FEATURES
from gristmill.kernels.html.page import (
    COLUMNS,
    MAX_BLOCKS,
    PageBuffers,
    cut_and_measure,
    decide,
    main_text,
    score_page,
    tell_scores,
)
from gristmill.kernels.html.trees import Trees
from gristmill.places import local_path, place_of, shown
from gristmill.stages.extract.mathml import with_latex
from gristmill.stages.extract.trees_file import from_bytes, to_bytes

Array = np.ndarray[Any, Any]

DEFAULT = Path(__file__).with_name("main_text.model")
MAX_MODEL_BYTES = 64_000_000
"""Some hundred times ours: what is larger is something else."""
_MARK = b"gm text\n"
_SIZE = struct.Struct("<Q")


class Model(NamedTuple):
    """Which blocks are content."""

    first: Trees
    second: Trees
    with_comments: Trees
    """Beside the second, where readers' comments are wanted."""


class TooManyBlocks(Exception):
    """A page that is cut into more than MAX_BLOCKS."""


class Blocks(NamedTuple):
    """A page cut into blocks."""

    table: Array
    """int32 (blocks, BLOCK_COLUMNS)."""
    texts: list[str]
    columns: Array
    """uint8 (features, blocks)."""


class Judged(NamedTuple):
    """The blocks of a page and what became of them."""

    blocks: Blocks
    scores: Array
    """int32: 1,024 is a logit of 1."""
    kept: Array
    promised: int
    """The F1 that the choice is expected to have, of 1,000."""


def write_model(model: Model) -> bytes:
    """The content of a model's file."""
    parts = [to_bytes(trees) for trees in model]
    return _MARK + _names_hash() + b"".join(_SIZE.pack(len(part)) + part for part in parts)


def read_model(location: str | Path) -> Model:
    """The model of a file. Raises UserError for a file that is none, or is damaged, or of other features."""
    path = shown(str(location))
    try:
        with place_of(str(location)).open() as file:
            data = file.read(MAX_MODEL_BYTES + 1)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror or error}), so no page can be extracted with it. Check the path, "
            "and that it may be read."
        ) from None
    if len(data) > MAX_MODEL_BYTES:
        raise UserError(
            f"{path} has more than {size(MAX_MODEL_BYTES)}, and no model has, so no page can be extracted with it. "
            f"{_FIX}"
        )
    if not data.startswith(_MARK):
        raise UserError(f"{path} is no model of the extractor, so no page can be extracted. {_FIX}")
    at = len(_MARK)
    if data[at : at + 32] != _names_hash():
        raise UserError(
            f"{path} was trained by another version of gristmill, which measured other features, so no page can be "
            f"extracted with it. {_FIX}"
        )
    at += 32
    parts = []
    for _ in Model._fields:
        length = _SIZE.unpack_from(data, at)[0] if len(data) >= at + _SIZE.size else 0
        parts.append(from_bytes(data[at + _SIZE.size : at + _SIZE.size + length], path))
        at += _SIZE.size + length
    model = Model(*parts)
    if at != len(data) or [trees.columns for trees in model] != [len(FEATURES), COLUMNS, COLUMNS]:
        raise UserError(
            f"{path} is damaged: it does not hold three ensembles in their order, and no more, so no page can be "
            f"extracted with it. {_FIX}"
        )
    return model


_FIX = "Train one with: gristmill extractor train, of the package gristmill-extractor."


def kept_model(location: str) -> Model:
    """The same, kept for the process as long as the file stays the same: a step asks for it with each batch."""
    path = local_path(location)
    try:
        status = None if path is None else os.stat(path)
    except OSError:
        return read_model(location)  # which tells why
    return _kept(location, *((status.st_ino, status.st_size, status.st_mtime_ns) if status else ()))


@lru_cache(maxsize=4)
def _kept(location: str, *_mark: int) -> Model:
    return read_model(location)


def _names_hash() -> bytes:
    return hashlib.sha256("\n".join([*FEATURES, *CONTEXT_FEATURES]).encode()).digest()


@cache
def default_model() -> Model:
    """The one in the package."""
    return read_model(DEFAULT)


class Extractor:
    """Takes the main text out of pages; keeps its memory from one to the next, so threads have one each."""

    def __init__(
        self,
        model: Model | None = None,
        comments: bool = False,
        markdown: bool = False,
        max_blocks: int = MAX_BLOCKS,
    ) -> None:
        self.model = model or default_model()
        self.max_blocks = min(max_blocks, MAX_BLOCKS)
        self.comments = comments
        self.markdown = markdown
        self._room = PageBuffers(1 << 20, self.max_blocks)

    def text(self, data: Array, words: Array, begin: int, stop: int) -> bytes:
        """The text of the page `data[begin:stop]` (UTF-8), both as `as_words` gives them."""
        end = self._run(data, words, begin, stop)
        if self._room.small[0][S_MATH]:
            page = data[begin:stop].tobytes()
            with_tex = with_latex(page)
            if with_tex != page:
                copy, its_words = as_words(np.frombuffer(with_tex, np.uint8))
                end = self._run(copy, its_words, 0, len(with_tex))
        return self._room.out[:end].tobytes()

    def _run(self, data: Array, words: Array, begin: int, stop: int) -> int:
        room = self._room_for(stop - begin)
        # fmt: off
        end = main_text(
            data, words, begin, stop, self.markdown, room.small, room.tables, room.texts, room.flat,
            *self.model, self.comments, room.out,
        )
        # fmt: on
        if end < 0:
            raise TooManyBlocks
        return int(end)

    def _room_for(self, size: int) -> PageBuffers:
        if size > self._room.page_bytes:
            self._room = PageBuffers(2 * size, self.max_blocks)
        return self._room

    def blocks(self, page: bytes) -> Blocks:
        """What the first model is told."""
        return self._cut(page)[0]

    def _cut(self, page: bytes) -> tuple[Blocks, int, int]:
        data, words = as_words(np.frombuffer(page, np.uint8))
        room = self._room_for(len(page))
        count, mask = cut_and_measure(
            data, words, 0, len(page), self.markdown, room.small, room.tables, room.texts, room.flat
        )
        if room.small[0][S_FULL]:
            raise TooManyBlocks
        table = room.tables[0][:count].copy()
        texts = [room.texts[row[B_START] : row[B_STOP]].tobytes().decode("utf-8", "replace") for row in table]
        return Blocks(table, texts, room.columns(count)[: len(FEATURES)].copy()), count, mask

    def told(self, page: bytes, scores: Array) -> Array:
        """What the second model is told of a page whose blocks have these scores by the first; uint8."""
        _, count, mask = self._cut(page)
        room = self._room
        tell_scores(count, mask, scores, room.small, room.tables, room.flat)
        return room.columns(count).copy()

    def judged(self, page: bytes) -> Judged:
        """The blocks of a page with their scores, and those that make up its text."""
        blocks, count, mask = self._cut(page)
        if self._room.small[0][S_MATH]:
            blocks, count, mask = self._cut(with_latex(page))
        room = self._room
        keep = np.zeros(count, np.uint8)
        if not count:
            return Judged(blocks, np.zeros(0, np.int32), keep, 0)
        first, second, with_comments = self.model
        scores, more = np.empty(count, np.int32), np.empty(count if self.comments else 0, np.int32)
        score_page(count, mask, room.small, room.tables, room.flat, first, second, scores)
        if self.comments:
            score_page(count, mask, room.small, room.tables, room.flat, first, with_comments, more)
        promised = decide(scores, more, count, mask, room.tables, room.texts, keep)
        return Judged(blocks, scores, keep.astype(bool), promised)
