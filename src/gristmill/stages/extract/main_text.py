"""Main text by our own extractor: a page is cut into blocks, and a small model decides which of them are content.

Cutting, features and models are kernels (kernels/html/page.py). This module has the model file and the interface for
pages. All arithmetic is in integers, so the text of a page is the same on every machine.

The file (`main_text.model`, trained by `gristmill extractor train`) holds three ensembles of trees (trees_file.py): the
first judges a block alone; the second also uses the first one's scores of neighbouring blocks; the third is like the
second, but counts readers' comments as content. Its header has a hash of all feature names, since a model for other
features does not fit this code.
"""

import hashlib
import os
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.counted import size
from gristmill.errors import UserError
from gristmill.kernels.html.bounds import as_words
from gristmill.kernels.html.boxes import S_EXPECTED_F1, S_FULL, S_MATH, TEX_IN_TEXT, WITHOUT_TEX
from gristmill.kernels.html.context import CONTEXT_FEATURES
from gristmill.kernels.html.features import FEATURES
from gristmill.kernels.html.layout import B_START, B_STOP
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
from gristmill.stages.extract.formulas import Delimiters, WrittenText, write_formulas
from gristmill.stages.reading.formulas.mathml import with_latex
from gristmill.stages.shared.arrow_file import ArrowFile, intact
from gristmill.stages.shared.trees_file import trees_in, trees_to_bytes

Array = np.ndarray[Any, Any]

DEFAULT = Path(__file__).with_name("main_text.model")
MAX_MODEL_BYTES = 64_000_000
"""About a hundred times the size of ours. A larger file is something else."""


class ExtractorModel(NamedTuple):
    """The three ensembles that decide which blocks are content."""

    first: Trees
    second: Trees
    with_comments: Trees
    """Used in addition to the second if readers' comments are kept."""


class TooManyBlocks(Exception):
    """A page has more than MAX_BLOCKS blocks."""


class Blocks(NamedTuple):
    """A page cut into blocks."""

    table: Array
    """int32 (blocks, BLOCK_COLUMNS)."""
    texts: list[str]
    columns: Array
    """uint8 (features, blocks)."""


class Judged(NamedTuple):
    """The blocks of a page with their scores."""

    blocks: Blocks
    scores: Array
    """int32: 1,024 is a logit of 1."""
    kept: Array
    expected_f1: int
    """The expected F1 of the selection, in thousandths."""


def write_model(model: ExtractorModel) -> bytes:
    """The content of a model file."""
    return trees_to_bytes(model._asdict(), {"features": _names_hash()})


def read_model(location: str | Path) -> ExtractorModel:
    """Reads a model file. Raises UserError if it is not a model, is damaged, or is for other features."""
    path = shown(str(location))
    try:
        with place_of(str(location)).open() as file:
            data = file.read(MAX_MODEL_BYTES + 1)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror or error}), so no page can be extracted with it. Check the path "
            "and its permissions."
        ) from None
    if len(data) > MAX_MODEL_BYTES:
        raise UserError(
            f"{path} has more than {size(MAX_MODEL_BYTES)}, which is too large for a model, so no page can be "
            f"extracted with it. {_FIX}"
        )
    with intact(path, "an extractor model", "no page can be extracted with it", _FIX):
        content = ArrowFile(pa.py_buffer(data))
        if content.header["features"] != _names_hash():
            raise UserError(
                f"{path} was trained by another version of gristmill with other features, so no page can be extracted "
                f"with it. {_FIX}"
            )
        model = ExtractorModel(**trees_in(content))
        if [trees.columns for trees in model] != [len(FEATURES), COLUMNS, COLUMNS]:
            raise ValueError("its ensembles are for other columns")
    return model


_FIX = "Train a model with: gristmill extractor train (package gristmill-extractor)."


def cached_model(location: str) -> ExtractorModel:
    """Reads a model file once per process, unless the file changes, since a step needs it for each batch."""
    path = local_path(location)
    try:
        status = None if path is None else os.stat(path)
    except OSError:
        return read_model(location)  # raises the right message
    return _cached(location, *((status.st_ino, status.st_size, status.st_mtime_ns) if status else ()))


@lru_cache(maxsize=4)
def _cached(location: str, *_mark: int) -> ExtractorModel:
    return read_model(location)


def _names_hash() -> str:
    return hashlib.sha256("\n".join([*FEATURES, *CONTEXT_FEATURES]).encode()).hexdigest()


@cache
def default_model(whole: bool = False) -> ExtractorModel:
    """The model in the package; with `whole`, one for which every block is content."""
    model = read_model(DEFAULT)
    return ExtractorModel(*map(_all_content, model)) if whole else model


def _all_content(trees: Trees) -> Trees:
    """One tree whose leaves are 0: the score of every block is the bias."""
    leaves = np.zeros_like(trees.leaves[:1])
    return trees._replace(
        features=trees.features[:1].copy(), thresholds=trees.thresholds[:1].copy(), leaves=leaves, bias=1 << 20
    )


class Extractor:
    """Extracts the main text of pages. It reuses its memory from page to page, so each thread needs its own."""

    def __init__(
        self,
        model: ExtractorModel | None = None,
        comments: bool = False,
        markdown: bool = False,
        max_blocks: int = MAX_BLOCKS,
        delimiters: Delimiters = "dollars",
    ) -> None:
        self.model = model or default_model()
        self.max_blocks = min(max_blocks, MAX_BLOCKS)
        self.comments = comments
        self.markdown = markdown
        self.delimiters = delimiters
        self._buffers = PageBuffers(1 << 20, self.max_blocks)

    def text(self, data: Array, words: Array, begin: int, stop: int) -> bytes:
        """The text of the page `data[begin:stop]` (UTF-8); `data` and `words` come from `as_words`."""
        return self.text_with_formulas(data, words, begin, stop).text

    def text_with_formulas(self, data: Array, words: Array, begin: int, stop: int) -> WrittenText:
        """The text of a page, as `text` returns it, its formulas, and the expected F1."""
        end = self._run(data, words, begin, stop)
        formulas = self._buffers.small[0][S_MATH]
        if formulas & WITHOUT_TEX:
            page = data[begin:stop].tobytes()
            with_tex = with_latex(page)
            if with_tex != page:
                copy, its_words = as_words(np.frombuffer(with_tex, np.uint8))
                end = self._run(copy, its_words, 0, len(with_tex))
        text = self._buffers.out[:end].tobytes()
        written = write_formulas(text, self.delimiters, bool(formulas & TEX_IN_TEXT))
        return written._replace(expected_f1=int(self._buffers.small[0][S_EXPECTED_F1]))

    def _run(self, data: Array, words: Array, begin: int, stop: int) -> int:
        buffers = self._buffers_for(stop - begin)
        # fmt: off
        end = main_text(
            data, words, begin, stop, self.markdown, buffers.small, buffers.tables, buffers.texts, buffers.flat,
            *self.model, self.comments, buffers.out,
        )
        # fmt: on
        if end < 0:
            raise TooManyBlocks
        return int(end)

    def _buffers_for(self, size: int) -> PageBuffers:
        if size > self._buffers.page_bytes:
            self._buffers = PageBuffers(2 * size, self.max_blocks)
        return self._buffers

    def blocks(self, page: bytes) -> Blocks:
        """The blocks of a page with the features for the first model."""
        return self._cut(page)[0]

    def _cut(self, page: bytes) -> tuple[Blocks, int, int]:
        data, words = as_words(np.frombuffer(page, np.uint8))
        buffers = self._buffers_for(len(page))
        count, mask = cut_and_measure(
            data, words, 0, len(page), self.markdown, buffers.small, buffers.tables, buffers.texts, buffers.flat
        )
        if buffers.small[0][S_FULL]:
            raise TooManyBlocks
        table = buffers.tables[0][:count].copy()
        marked = (buffers.texts[row[B_START] : row[B_STOP]].tobytes() for row in table)
        known = bool(buffers.small[0][S_MATH] & TEX_IN_TEXT)
        texts = [write_formulas(text, self.delimiters, known).text.decode("utf-8", "replace") for text in marked]
        return Blocks(table, texts, buffers.columns(count)[: len(FEATURES)].copy()), count, mask

    def second_features(self, page: bytes, scores: Array) -> Array:
        """The features for the second model (uint8), for a page whose blocks have these scores from the first."""
        _, count, mask = self._cut(page)
        buffers = self._buffers
        tell_scores(count, mask, scores, buffers.small, buffers.tables, buffers.flat)
        return buffers.columns(count).copy()

    def judged(self, page: bytes) -> Judged:
        """The blocks of a page with their scores, and which of them make up its text."""
        blocks, count, mask = self._cut(page)
        if self._buffers.small[0][S_MATH] & WITHOUT_TEX:
            blocks, count, mask = self._cut(with_latex(page))
        buffers = self._buffers
        keep = np.zeros(count, np.uint8)
        if not count:
            return Judged(blocks, np.zeros(0, np.int32), keep, 0)
        first, second, with_comments = self.model
        scores, more = np.empty(count, np.int32), np.empty(count if self.comments else 0, np.int32)
        score_page(count, mask, buffers.small, buffers.tables, buffers.flat, first, second, scores)
        if self.comments:
            score_page(count, mask, buffers.small, buffers.tables, buffers.flat, first, with_comments, more)
        expected_f1 = decide(scores, more, count, mask, buffers.tables, buffers.texts, buffers.flat, keep)
        return Judged(blocks, scores, keep.astype(bool), expected_f1)
