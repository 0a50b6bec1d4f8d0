"""Everything that cheap filters look at, measured once: characters, words, lines, repetition, C4's rules for lines.

What Gopher (Rae et al. 2021), C4 (Raffel et al. 2020), FineWeb (Penedo et al. 2024) and BigCode's code filters ask of a
document are ratios of these counts. Counts are exact and narrow; a ratio stored as float32 would fall on the wrong
side of its threshold (3 of 10 lines is not above 0.3, float32(0.3) is). docs/signals.md defines each column.

No verdict is taken here, so that a new threshold re-runs a selection and not the measurement.
"""

import io
from functools import lru_cache
from typing import Self

import pyarrow as pa
from pydantic import field_validator, model_validator

from gristmill.errors import UserError
from gristmill.kernels.signals import COUNTS, measure
from gristmill.kernels.signals_terms import WordSets, word_sets
from gristmill.kernels.unicode_classes import UNICODE_VERSION, unicode_tables
from gristmill.places import place_of
from gristmill.stages.buffers import views_of
from gristmill.stages.contract import File, StageConfig

VERSION = 1
LIBRARIES = ()  # integers and IEEE basic operations: no library changes them; Unicode's version is in the config
READS = ("text",)
SCHEMA = pa.schema(
    [pa.field(name, pa.int32()) for name in COUNTS]
    + [pa.field("byte_entropy_bits", pa.float32()), pa.field("xml_header", pa.bool_())]
)

GOPHER_STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")


class Config(StageConfig):
    stop_words: tuple[str, ...] = GOPHER_STOP_WORDS
    """Words of which `stop_words` counts how many different ones occur, in any case; each a single token."""
    blocked_terms: tuple[str, ...] = ()
    """Words and phrases whose tokens `blocked_tokens` counts, in any case."""
    blocked_list: File | None = None
    """A UTF-8 file with more of them, one a line."""
    unicode_version: str = UNICODE_VERSION
    """Version of the character tables; part of the config because they come with Python and change what is counted."""

    @field_validator("unicode_version")
    @classmethod
    def _unicode_version_is_the_running_one(cls, version: str) -> str:
        if version != UNICODE_VERSION:
            raise ValueError(
                f"this Python has the character tables of Unicode {UNICODE_VERSION}, not {version}; the counts would "
                "differ. Run with the Python that the recipe was made with, or leave unicode_version out"
            )
        return version

    @model_validator(mode="after")
    def _words_can_be_found(self) -> Self:
        if self.stop_words != GOPHER_STOP_WORDS or self.blocked_terms:
            _sets(self.stop_words, self.blocked_terms)
        return self


@lru_cache(maxsize=8)
def _sets(stop_words: tuple[str, ...], blocked_terms: tuple[str, ...]) -> WordSets:
    return word_sets(stop_words, blocked_terms)


def _blocked_terms(config: Config) -> tuple[str, ...]:
    if config.blocked_list is None:
        return config.blocked_terms
    with io.TextIOWrapper(place_of(config.blocked_list).open(), encoding="utf-8") as file:
        listed = tuple(line.strip() for line in file if line.strip())
    if not listed:
        raise UserError(
            f"{config.blocked_list}: blocked_list has no term, so nothing would be counted. "
            "Give one term a line, or leave blocked_list out"
        )
    return config.blocked_terms + listed


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """One row of counts a document; a row without text has nulls."""
    text = batch.column("text")
    sets = _sets(config.stop_words, _blocked_terms(config))
    ends, characters, valid = views_of(text)
    counts, entropy, xml = measure(ends, characters, valid, unicode_tables(), sets)
    missing = ~valid if text.null_count else None
    columns = [pa.array(column, field.type, mask=missing) for column, field in zip(counts, SCHEMA, strict=False)]
    columns += [pa.array(entropy, pa.float32(), mask=missing), pa.array(xml, pa.bool_(), mask=missing)]
    return pa.record_batch(columns, schema=SCHEMA)
