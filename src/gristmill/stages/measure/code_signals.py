"""Measures what rules for source code need and `signals` lacks: comments, visible text, encoded data, origin.

- `extension`: suffix of the file's name in lower case, from the locator; null if it has none.
- `generated`: one of the first five lines says that a tool wrote the file (the phrases of StarCoder2's filter, and
  `@generated`). Only their first 2000 characters are searched.
- `notebook`: a Jupyter notebook, by its language, its suffix, or its first JSON key.
- `comment_chars`: characters in comments, marks included; docstrings count. Null for languages whose comment marks are
  unknown.
- `visible_chars`: characters of an HTML file outside tags, comments, scripts and styles; a run of white space counts
  one. Null for other languages.
- `longest_encoded_chars`, `encoded_chars`: the longest run of at least 64 base64 or hex digits, and the sum of such
  runs.

The language is `language_hint`, as the input states it. This step drops nothing.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.kernels.text.code_scan import comment_chars, encoded_runs, visible_chars
from gristmill.stages.buffers import views_of
from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.measure.comment_marks import FAMILY_OF, marks, quotes

SCHEMA = pa.schema(
    [
        pa.field("extension", pa.string()),
        pa.field("generated", pa.bool_()),
        pa.field("notebook", pa.bool_()),
        pa.field("comment_chars", pa.int32()),
        pa.field("visible_chars", pa.int32()),
        pa.field("longest_encoded_chars", pa.int32()),
        pa.field("encoded_chars", pa.int32()),
    ]
)

HEAD_CHARS = 2000
MIN_ENCODED_CHARS = 64
HTML_LANGUAGES = ("html",)
_GENERATED = (
    r"(?i)\A(?:[^\n]*\n){0,4}[^\n]*"
    r"(?:auto-?generated|automatically generated|generated automatically|this file (?:is|was) generated|@generated\b"
    r"|generated (?:by|from)[^\n]*do not edit)"
)
_NOTEBOOK = r'\A\s*\{\s*"(?:cells|nbformat|nbformat_minor|worksheets)"\s*:'
_EXTENSION = r"\.(?P<extension>[A-Za-z0-9_+-]{1,16})(?:#\d+)?\z"


class Config(StageConfig):
    """No settings: no measurement depends on a threshold."""


@lru_cache(maxsize=1)
def _tables() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    digits = np.zeros(256, np.bool_)
    digits[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=", np.uint8)] = True
    return marks(), quotes(), digits


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """A row without text has nulls."""
    text = batch.column("text")
    ends, characters, valid = views_of(text)
    missing = ~valid
    languages = _encoded(batch.column("language_hint"))
    families = _by_language(languages, FAMILY_OF, -1)
    html = _by_language(languages, dict.fromkeys(HTML_LANGUAGES, 1), 0) == 1
    extension = pc.struct_field(pc.extract_regex(batch.column("locator").cast(pa.string()), _EXTENSION), "extension")
    extension = pc.utf8_lower(extension)
    table, quote_kinds, digits = _tables()
    head = pc.utf8_slice_codeunits(text, 0, HEAD_CHARS)
    notebook = pc.or_(
        pc.match_substring_regex(head, _NOTEBOOK),
        pc.or_(
            pa.array(_by_language(languages, {"jupyter notebook": 1}, 0) == 1),
            pc.equal(extension, "ipynb").fill_null(False),
        ),
    )
    longest, total = encoded_runs(ends, characters, digits, MIN_ENCODED_CHARS)
    comments = comment_chars(ends, characters, np.where(missing, -1, families), table, quote_kinds)
    visible = visible_chars(ends, characters, html & ~missing)
    return pa.RecordBatch.from_arrays(
        [
            extension,
            pc.match_substring_regex(head, _GENERATED),
            notebook,
            pa.array(comments, pa.int32(), mask=missing | (families < 0)),
            pa.array(visible, pa.int32(), mask=missing | ~html),
            pa.array(longest, pa.int32(), mask=missing),
            pa.array(total, pa.int32(), mask=missing),
        ],
        schema=SCHEMA,
    )


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _by_language(languages: Any, numbers: dict[str, int], other: int) -> npt.NDArray[np.int64]:
    """The number of each row's language, in any case; `other` for unlisted languages and null."""
    named = [numbers.get(name.lower(), other) if name else other for name in languages.dictionary.to_pylist()]
    of = np.array([*named, other], np.int64)
    found: npt.NDArray[np.int64] = of[languages.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return found


STAGE = Map(
    version=2, config=Config, reads=("text", "language_hint", "locator"), only_kept=True, schema=SCHEMA, apply=apply
)
