"""Counts plain texts that are mostly markup: pages that were read as text."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted, percent
from gristmill.warned import Warned

_END_TAG = r"</[a-zA-Z][a-zA-Z0-9]*\s*>"
_BYTES_PER_END_TAG = 150
"""Text with more end tags than this is markup: 87% of 3,353 pages, 2% of 10,036 plain texts."""
_MARKUP_SHARE = 0.1
"""The share of plain texts above which a run warns; documentation of HTML has 5%."""


def count_markup(batch: pa.RecordBatch) -> dict[str, int]:
    """Counts plain texts, and plain texts that are markup."""
    texts = batch.column("text").filter(batch.column("html").is_null()).drop_null()
    end_tags = pc.count_substring_regex(texts, _END_TAG)
    is_markup = pc.greater(pc.multiply(end_tags, _BYTES_PER_END_TAG), pc.binary_length(texts))
    return {"plain_texts": len(texts), "markup_texts": pc.sum(is_markup).as_py() or 0}


def markup_warnings(found: Mapping[str, Any], one: str, many: str, why: str) -> list[str]:
    """A warning if many of the counted texts are markup."""
    texts, markup = found.get("plain_texts", 0), found.get("markup_texts", 0)
    fact = f"{markup:,} of {counted(texts, one, many)} ({percent(markup, texts, 0)}) are mostly markup, which is kept"
    fix = "Read the field as markup with `fields: {html: NAME, text: null}`, or files with `format: html`"
    return [Warned("markup", f"{fact}: {why} {fix}")] if markup > _MARKUP_SHARE * texts else []
