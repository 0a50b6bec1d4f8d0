"""Cuts lines from texts as C4 did (Raffel et al. 2020, arXiv 1910.10683, section 2.2, and its code).

A line is cut if it has a word over 1000 characters, does not end in a terminal punctuation mark, has fewer than 3
words, mentions javascript, or is about policies and cookies ("terms of use", "privacy policy", "cookie policy", "uses
cookies", "use of cookies", "use cookies"). FineWeb did not require terminal punctuation: `terminal_punctuation: false`.
A document without a line left is dropped as `no_lines_left`. Unlike C4, this step keeps blank lines between paragraphs,
and citation marks such as [1]. C4's rules for "lorem ipsum" and `{` are in `heuristics`.

In languages without spaces (Chinese, Japanese, Thai, ...), as labelled by the step `language`, text between white space
is a sentence and not a word, so the rules for words do not apply.

A line with a formula is never cut (`extract` finds formulas).

If a later rule needs signals of the shortened text, add `signals` again after this step.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gristmill.kernels.text.lines import RULES, cut_lines
from gristmill.kernels.text.unicode_classes import unicode_tables
from gristmill.stages.buffers import views_of
from gristmill.stages.contract import AsCount, Map, StageConfig
from gristmill.stages.natural_languages import LABEL, WITHOUT_SPACES, language_of, rows_by_label
from gristmill.stages.shared.formulas import COLUMN as FORMULAS
from gristmill.stages.shared.formulas import bounds_by_row

SCHEMA = pa.schema(
    [
        pa.field("text", pa.string()),
        pa.field("lines_cut", pa.int32()),
        pa.field("bytes_cut", pa.int32()),
        *(pa.field(f"cut_{name}", pa.int32()) for name in RULES),
        pa.field("drop", pa.string()),
    ]
)
NOTHING_LEFT = "no_lines_left"


class Config(StageConfig):
    """Which lines are cut."""

    terminal_punctuation: bool = True
    """Whether a line must end in a terminal punctuation mark or a closing quote, in any script, and not in `...`."""
    min_words: Annotated[int, AsCount, Field(ge=1)] | None = 3
    """The least words of a line, separated by white space. Ignored for languages without spaces."""
    max_word_chars: Annotated[int, AsCount, Field(ge=1)] | None = 1000
    """The most characters of a word. Ignored for languages without spaces."""
    javascript: bool = True
    """Whether to cut lines with "javascript", in upper or lower case."""
    policy: bool = True
    """Whether to cut lines with one of the six phrases about policies and cookies, in upper or lower case."""

    @model_validator(mode="after")
    def _cuts_something(self) -> "Config":
        if not on(self):
            raise ValueError("every rule is off. Turn one on, or remove the step")
        return self


def on(config: Config) -> list[str]:
    """The names of the rules that are on."""
    set_ = {
        "long_word": config.max_word_chars is not None,
        "no_end": config.terminal_punctuation,
        "few_words": config.min_words is not None and config.min_words > 1,
        "javascript": config.javascript,
        "policy": config.policy,
    }
    return [name for name in RULES if set_[name]]


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    text = batch.column("text")
    starts, characters, valid = views_of(text)
    dense = _without_spaces(batch) & valid
    bounds = [starts[row] + of_row for row, of_row in bounds_by_row(batch).items()]
    formulas = np.concatenate([np.zeros((0, 2), np.int64), *bounds])
    min_words = -1 if config.min_words is None else config.min_words
    max_word_chars = -1 if config.max_word_chars is None else config.max_word_chars

    def cut(rows: Any, least: int, most: int) -> tuple[Any, Any, Any, Any]:
        ends = (config.terminal_punctuation, config.javascript, config.policy)
        left, stops, counts, kept = cut_lines(starts, characters, rows, unicode_tables(), least, most, *ends, formulas)
        short = pa.StringArray.from_buffers(len(text), pa.py_buffer(stops), pa.py_buffer(left))
        return short, np.diff(stops), counts, kept

    shortened, sizes, counts, kept = cut(valid & ~dense, min_words, max_word_chars)
    if dense.any():
        others, other_sizes, other_counts, other_kept = cut(dense, -1, -1)
        shortened = pc.if_else(pa.array(dense), others, shortened)
        sizes, counts, kept = sizes + other_sizes, counts + other_counts, kept + other_kept
    missing = ~valid if text.null_count else None
    if missing is not None:
        shortened = pc.if_else(pa.array(valid), shortened, pa.scalar(None, pa.string()))
    bytes_cut = np.diff(starts) - sizes
    numbers = [pa.array(column, pa.int32(), mask=missing) for column in (counts.sum(axis=0), bytes_cut, *counts)]
    empty = pa.array(valid & (kept == 0))
    drop = pc.if_else(empty, NOTHING_LEFT, pa.scalar(None, pa.string()))
    return pa.RecordBatch.from_arrays([shortened, *numbers, drop], schema=SCHEMA)


def _without_spaces(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """A mask of the rows in a language without spaces between words."""
    if LABEL not in batch.schema.names:
        return np.zeros(batch.num_rows, np.bool_)
    labels, places = rows_by_label(batch.column(LABEL))
    dense: npt.NDArray[np.bool_] = np.array([*(language_of(label) in WITHOUT_SPACES for label in labels), False])[
        places
    ]
    return dense


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count the lines that each rule cut, the bytes that were cut, and the documents that lost lines."""
    lines = {name: pc.sum(answers[f"cut_{name}"]).as_py() or 0 for name in on(config)}
    return {
        "lines_cut": lines,
        "text_bytes_cut": pc.sum(answers["bytes_cut"]).as_py() or 0,
        "documents_cut": pc.sum(pc.greater(answers["lines_cut"], 0)).as_py() or 0,
        "documents_seen": answers.num_rows - answers["text"].null_count,
    }


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """Warn about rules that cut no line (law 7)."""
    if not found.get("documents_seen"):
        return ()
    idle = [name for name in on(config) if not found["lines_cut"].get(name)]
    return (f"{'rule' if len(idle) == 1 else 'rules'} {', '.join(idle)} cut no line",) if idle else ()


STAGE = Map(
    version=5,
    config=Config,
    libraries=("unicode",),
    reads=("text",),
    may_read=(LABEL, FORMULAS),
    only_kept=True,
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    warnings=warnings,
)
