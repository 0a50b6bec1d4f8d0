"""The groups that documents are ranked within: their language, source, domain, snapshot, or several of these."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from gristmill.stages.natural_languages import LABEL
from gristmill.stages.shared.tally import NOTHING

Array = np.ndarray[Any, Any]
GroupedBy = Literal["language", "source", "domain", "snapshot"]
COLUMNS: dict[str, str] = {"language": LABEL, "source": "source", "domain": "source", "snapshot": "snapshot"}
"""The column of each; a domain is that of the document's source."""
Group = tuple[str, ...]
"""One value for each entry of `per`."""
ALL = "all documents"
"""The name of the only group."""


def columns_of(per: Sequence[str]) -> list[str]:
    """The columns that determine a document's group."""
    return list(dict.fromkeys(COLUMNS[by] for by in per))


def values_of(batch: pa.RecordBatch, by: str, domains: Mapping[str, str]) -> tuple[list[str], Array]:
    """The distinct languages, sources, ... of a batch and, for each row, the index of its group."""
    encoded = batch.column(COLUMNS[by])
    encoded = encoded if pa.types.is_dictionary(encoded.type) else encoded.dictionary_encode()
    names = [*encoded.dictionary.to_pylist(), NOTHING]
    indices = encoded.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False).astype(np.int64)
    if by == "domain":
        names = [domains.get(name, NOTHING) for name in names]
    return names, indices


def groups_of(batch: pa.RecordBatch, per: Sequence[str], domains: Mapping[str, str]) -> tuple[list[Group], Array]:
    """The groups in a batch and, for each row, the index of its group."""
    groups: list[Group] = [()]
    indices = np.zeros(batch.num_rows, np.int64)
    for by in per:
        names, own = values_of(batch, by, domains)
        pairs, indices = np.unique(indices * len(names) + own, return_inverse=True)
        groups = [(*groups[pair // len(names)], names[pair % len(names)]) for pair in pairs.tolist()]
    return groups, indices


def name_of(group: Group) -> str:
    """The name of a group in messages: `en`, or `en, crawl` for two entries of `per`."""
    return ", ".join(group) or ALL


def hash_of(group: Group) -> int:
    """A 64-bit hash of a group."""
    return int.from_bytes(hashlib.blake2b("\0".join(group).encode(), digest_size=8).digest(), "little")
