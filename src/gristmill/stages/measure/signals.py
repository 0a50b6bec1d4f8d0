"""Measures everything that cheap filters need, once: characters, words, lines, repetition, C4's rules for lines.

Gopher (Rae et al. 2021), C4 (Raffel et al. 2020), FineWeb (Penedo et al. 2024) and BigCode's code filters use ratios of
these counts. Counts are exact and narrow; a ratio stored as float32 would be on the wrong side of its threshold (3 of
10 lines is not above 0.3, float32(0.3) is). docs/signals.md defines each column.

Stop words are those of the document's language if a step `language` comes before this one, else Gopher's English ones.
For a language without a list their number is null, since it is unknown.

This step drops nothing, so a new threshold re-runs a selection and not the measurement. Documents that an earlier step
dropped are not measured.
"""

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gristmill.errors import UserError
from gristmill.kernels.signals.batch import measure
from gristmill.kernels.signals.columns import COUNTS
from gristmill.kernels.signals.terms import WordSets, word_sets
from gristmill.kernels.text.unicode_classes import unicode_tables
from gristmill.places import system_of
from gristmill.stages.buffers import views_of
from gristmill.stages.contract import File, LanguageName, Map, StageConfig
from gristmill.stages.measure.stop_words import GOPHER, STOP_WORDS
from gristmill.stages.natural_languages import (
    FOUND_ANYWHERE,
    LABEL,
    LID_176,
    intended_label,
    language_of,
    rows_by_label,
)
from gristmill.stages.shared import lists

SCHEMA = pa.schema(
    [pa.field(name, pa.int32()) for name in COUNTS]
    + [pa.field("byte_entropy_bits", pa.float32()), pa.field("xml_header", pa.bool_())]
)


class Config(StageConfig):
    stop_words: tuple[str, ...] | None = None
    """`stop_words` counts how many different ones of these words occur, in any case; each is a single token. Null: the
    words of the document's language. A list here applies to every document."""
    stop_words_by_language: dict[LanguageName, tuple[str, ...]] = Field(default={})
    """Other lists for some languages, by label (language.label)."""
    blocked_terms: tuple[str, ...] = ()
    """Words and phrases whose tokens `blocked_tokens` counts, in any case."""
    blocked_list: File | None = None
    """More of them, one per line: a file, or a folder with a file for each language, named by its code (`en`, `de.txt`;
    `all.txt` is for every language)."""

    @model_validator(mode="after")
    def _words_can_be_found(self) -> Self:
        if self.stop_words is not None and self.stop_words_by_language:
            raise ValueError(
                "stop_words applies to every language, so stop_words_by_language has no effect. Remove one of them"
            )
        for words in (self.stop_words or (), *self.stop_words_by_language.values()):
            if words or self.blocked_terms:
                _sets(words, self.blocked_terms)
        return self


def may_read(config: Config) -> tuple[str, ...]:
    """The language, unless the same words apply to all."""
    return (LABEL,) if config.stop_words is None or config.blocked_list is not None else ()


@lru_cache(maxsize=256)  # a list for each language
def _sets(stop_words: tuple[str, ...], blocked_terms: tuple[str, ...]) -> WordSets:
    return word_sets(stop_words, blocked_terms)


def _blocked_terms(config: Config) -> Mapping[str, tuple[str, ...]]:
    """The blocked terms for documents in a language; those of the empty name are for all others."""
    if config.blocked_list is None:
        return {"": config.blocked_terms}
    fs, root = system_of(config.blocked_list)
    files = [file for file in lists.files(fs, root, "terms") if not file[0].lower().endswith(".md")]
    by_language = lists.keep(("blocked_list", root), lists.stamp_of(files), lambda: _read(fs, files))
    if not any(by_language.values()):
        raise UserError(
            f"{config.blocked_list}: blocked_list has no terms, so nothing would be counted. "
            "Write one term per line, or remove blocked_list"
        )
    for_all = config.blocked_terms + by_language.get("", ())
    return {language: for_all + terms if language else for_all for language, terms in {"": (), **by_language}.items()}


def _read(fs: object, files: list[tuple[str, str, dict[str, Any]]]) -> dict[str, tuple[str, ...]]:
    by_language: dict[str, tuple[str, ...]] = {}
    for name, uri, _ in files:
        language = language_of_list(name)
        terms = (term for block in lists.blocks(fs, uri) for term in lists.entries_of(block))
        by_language[language] = (*by_language.get(language, ()), *terms)
    return by_language


def language_of_list(name: str) -> str:
    """The language of a list, by its name; empty: any. A single file has no name."""
    folded = name.lower()
    return "" if folded in ("", "all", "any") else intended_label(folded, LID_176) or folded


class _RowsOfList(NamedTuple):
    """The documents that use one list."""

    listed: tuple[str, ...] | None
    """None: there is no list."""
    anywhere: bool
    """Whether the words count anywhere in the text instead of as tokens."""
    blocked: tuple[str, ...]


def _by_list(batch: pa.RecordBatch, config: Config) -> Iterator[tuple[_RowsOfList, npt.NDArray[np.bool_] | None]]:
    """Each list with the rows that use it; None: all rows."""
    blocked = _blocked_terms(config)
    unknown = _RowsOfList(GOPHER if config.stop_words is None else config.stop_words, False, blocked[""])
    if LABEL not in batch.schema.names or (config.stop_words is not None and len(blocked) == 1):
        yield unknown, None
        return
    own = {label.lower(): words for label, words in config.stop_words_by_language.items()}
    labels, places = rows_by_label(batch.column(LABEL))
    groups: dict[_RowsOfList, list[int]] = {unknown: [len(labels)]}
    for place, label in enumerate(labels):
        language = language_of(label) or ""
        words = own.get(label.lower(), STOP_WORDS.get(language)) if config.stop_words is None else config.stop_words
        anywhere = config.stop_words is None and words is not None and language in FOUND_ANYWHERE
        terms = blocked.get(language, blocked[""])
        groups.setdefault(_RowsOfList(words, anywhere, terms), []).append(place)
    for group, some in groups.items():
        mask = np.isin(places, some)
        if mask.any():
            yield group, mask


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """One row of counts per document; a row without text has nulls."""
    text = batch.column("text")
    ends, characters, valid = views_of(text)
    measured: Any = None
    unknown = np.zeros(len(text), np.bool_)
    for (listed, anywhere, blocked), mask in _by_list(batch, config):
        rows = valid if mask is None else valid & mask
        as_tokens = () if anywhere or listed is None else listed
        found = measure(ends, characters, rows, unicode_tables(), _sets(as_tokens, blocked))
        if anywhere:
            found[0][COUNTS.index("stop_words")][rows] = _occurring(listed or (), text.filter(pa.array(rows)))
        if listed is None:
            unknown |= rows
        # Rows of other lists are zeros here, since the kernel skips them.
        measured = (
            found if measured is None else tuple(whole + part for whole, part in zip(measured, found, strict=True))
        )
    if measured is None:
        return pa.RecordBatch.from_pylist([], schema=SCHEMA)
    counts, entropy, xml = measured
    missing = ~valid if text.null_count else None
    columns = []
    for column, field in zip(counts, SCHEMA, strict=False):
        lacking = ~valid | unknown if field.name == "stop_words" and unknown.any() else missing
        columns.append(pa.array(column, field.type, mask=lacking))
    columns += [pa.array(entropy, pa.float32(), mask=missing), pa.array(xml, pa.bool_(), mask=missing)]
    return pa.record_batch(columns, schema=SCHEMA)


def _occurring(words: tuple[str, ...], texts: pa.Array) -> npt.NDArray[np.int64]:
    """How many of the words occur anywhere in each text."""
    found = np.zeros(len(texts), np.int64)
    for word in words:
        found += pc.match_substring(texts, word).to_numpy(zero_copy_only=False)
    return found


STAGE = Map(
    version=5,
    config=Config,
    libraries=("unicode",),
    reads=("text",),
    may_read=may_read,
    only_kept=True,
    schema=SCHEMA,
    ranges={**dict.fromkeys(COUNTS, (0, math.inf)), "byte_entropy_bits": (0, 8)},
    apply=apply,
)
