"""Computes the hash of the normal form of a URL, for deduplication, and its registered domain.

All spellings of one address have the same normal form (`shared/urls.py`). Only its hash is kept: 16 bytes a row.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.kernels.dedup.exact_hash import NONE, hash_texts
from gristmill.kernels.text.unicode_classes import unicode_tables
from gristmill.stages.buffers import bytes_of
from gristmill.stages.contract import Map
from gristmill.stages.shared import public_suffix, urls
from gristmill.stages.shared.public_suffix import registered_domains
from gristmill.stages.shared.urls import UrlForm, hosts_of, normal_forms

MOST_ANCHORS = 0.01
"""The run warns if more than this share of URLs have a fragment."""
LIBRARIES = (*public_suffix.LIBRARIES, *urls.LIBRARIES)
SCHEMA = pa.schema([("url_hash", pa.binary(16)), ("domain", pa.string())])
"""Both are null if the URL is null or blank; `domain` is also null for a URL without a host (`registered_domains`)."""


class Config(UrlForm):
    pass


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Compute hash and domain of every row, including dropped ones, whose domains are useful for statistics."""
    url = batch.column("url")
    normal, ends = bytes_of(normal_forms(url, config))
    hashes = hash_texts(normal, ends.astype(np.int64), NONE, unicode_tables()).astype("<u8")
    digests = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(url), [None, pa.py_buffer(hashes)])
    some = pa.array(np.diff(ends) > 0)
    return pa.RecordBatch.from_arrays(
        [pc.if_else(some, digests, None), registered_domains(hosts_of(url))], schema=SCHEMA
    )


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, int]:
    """Count the URLs, and those with a fragment other than a hashbang."""
    anchors = pc.match_substring_regex(batch.column("url"), "#[^!]")
    return {"urls": len(answers) - answers.column("url_hash").null_count, "anchors": pc.sum(anchors).as_py() or 0}


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Crawlers drop fragments, so a source with many of them uses them to distinguish documents of one page."""
    urls, anchors = found.get("urls", 0), found.get("anchors", 0)
    if config.fragments != "hashbang" or anchors <= MOST_ANCHORS * urls:
        return ()
    return (
        f"{anchors:,} of {urls:,} URLs have a #fragment, which is ignored: URLs that differ only in the fragment are "
        "equal. Set fragments to keep if a source splits pages into documents by fragment, else to drop",
    )


STAGE = Map(
    version=3,
    config=Config,
    libraries=LIBRARIES,
    reads=("url",),
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    warnings=warnings,
)
