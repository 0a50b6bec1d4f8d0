"""First part of `safety`: finds documents whose URL or text is on a list of digests.

An entry is the MD5, SHA-1 or SHA-256, in hexadecimal, of a URL or of a text (its UTF-8, as it was read, or as it is at
this step). URLs are looked up as written and in their normal form (see `url_dedup`), which has no scheme, no tracking
parameters and no final slash: `//example.com/page`, and with `http:` and `https:` before it. Every document is looked
up, including those that earlier steps dropped. `withheld` is the name of the list; no command shows the text or the
origin of such a document.
"""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.buffers import bytes_of
from gristmill.stages.contract import File, Map, StageConfig
from gristmill.stages.shared import lists, urls
from gristmill.stages.shared.counting import counts_of
from gristmill.stages.shared.urls import UrlForm, normal_forms
from gristmill.warned import Warned

SCHEMA = pa.schema([("withheld", pa.string())])
DIGESTS = {"md5": 32, "sha1": 40, "sha256": 64}
"""The digests and their numbers of digits."""

Array = np.ndarray[Any, Any]


class Config(StageConfig):
    hashes: File | None = None
    """Digests of URLs or texts, one per line, that nobody may see: a file, or a folder of lists. Listed documents are
    dropped and withheld from everything that shows documents."""


def reads(config: Config) -> tuple[str, ...]:
    return ("url", "text", "ingest.text") if config.hashes else ("text_bytes",)


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    if config.hashes is None:
        return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, pa.string())], schema=SCHEMA)
    found = lists.load("hashes", config.hashes, "hashes")
    label = np.full(batch.num_rows, -1, np.int32)
    texts = [batch["text"]] if batch["text"].equals(batch["ingest.text"]) else [batch["text"], batch["ingest.text"]]
    for column in (*_spellings(batch["url"]), *texts):
        for digest in (name for name, digits in DIGESTS.items() if digits // 2 in found.sizes):
            label = np.where(label < 0, _listed(column, digest, found), label)
    names = pa.array(found.names, pa.string()).take(pa.array(label, mask=label < 0))
    return pa.RecordBatch.from_arrays([names], schema=SCHEMA)


def _spellings(column: pa.Array) -> list[pa.Array]:
    """The URLs as written, and their normal forms with each scheme and without."""
    normal = normal_forms(column, UrlForm())
    normal = pc.if_else(pc.equal(pc.binary_length(normal), 0), None, normal)
    return [column, normal, *(pc.binary_join_element_wise(scheme, normal, ":") for scheme in ("https", "http"))]


def _listed(column: pa.Array, digest: str, found: lists.Lists) -> Array:
    """For each row the number of the list that has it, or -1. Null and empty values are on no list."""
    data, offsets = bytes_of(column)
    view = memoryview(data)  # type: ignore[arg-type]
    digests = [
        hashlib.new(digest, view[begin:end], usedforsecurity=False).digest() if begin < end else b""
        for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    ]
    label = found.labels(pa.array(digests, pa.binary()))
    return np.where(np.diff(offsets) > 0, label, -1)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Documents on each list, and faults in the lists themselves."""
    if config.hashes is None:
        return {}
    loaded = lists.load("hashes", config.hashes, "hashes")
    counts = dict.fromkeys(loaded.names, 0) | counts_of(answers["withheld"])
    return {"listed": counts, **lists.list_faults({"hashes": loaded})}


def warnings(found: dict[str, Any], config: Config) -> list[str]:
    messages = lists.list_warnings(found, lambda _: "not digests of 32, 40 or 64 hexadecimal digits")
    messages += [
        Warned("no_effect", f"{name} matched no documents")
        for name, count in found.get("listed", {}).items()
        if not count
    ]
    return messages


STAGE = Map(
    version=3,
    config=Config,
    libraries=urls.LIBRARIES,
    reads=reads,
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    warnings=warnings,
)
