"""A stored index of a corpus, with which later snapshots are compared without reading its texts again.

The index is a folder of arrays that are mapped into memory, never loaded: `bands` (sorted hashes) with `owners`, and
for each document its `ids` and its set of shingles (`starts`, `shingles`). It takes 16 bytes per band and 5 bytes per
shingle, about the size of the text. index.json, written last, has the settings of the sketches.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.errors import UserError
from gristmill.kernels.dedup.known import PADDING_BYTES, pack_sets
from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.dedup.sketch import band_hashes_of, shingle_sets
from gristmill.kernels.hash.radix import sort_order
from gristmill.kernels.text.unicode_data import UNICODE_VERSION
from gristmill.places import place_of
from gristmill.processes import new_folder
from gristmill.stages.buffers import bytes_of, fixed_bytes, read_only
from gristmill.stages.dedup.near_candidates import Config
from gristmill.stages.shared.keep_order import ID_BYTES

Array = np.ndarray[Any, Any]

FORMAT = 2
SKETCH_FIELDS = ("ngram", "bands", "rows", "sketch", "seed")
_SPILLS = 256
"""The number of ranges of band hashes, sorted one at a time: memory is 224 bytes per document, divided by it."""


class NearIndex(NamedTuple):
    """An opened index, mapped into memory."""

    config: Config
    bands: Array
    owners: Array
    ids: Array
    starts: Array
    shingles: Array


def sketch_batch(batch: pa.RecordBatch, config: Config) -> tuple[Array, Array, Array]:
    """The bands of each document without a scope, and its packed set of shingles."""
    data, offsets = bytes_of(batch.column("text"))
    no_scope = np.zeros(batch.num_rows, np.uint64)
    tables = word_tables()
    bands = band_hashes_of(
        data, offsets, config.ngram, config.bands, config.rows, config.sketch, config.seed, no_scope, tables
    )
    starts, packed = pack_sets(*shingle_sets(data, offsets, config.ngram, tables))
    return bands, starts, np.append(packed, np.zeros(PADDING_BYTES, np.uint8))


def write_index(folder: Path, batches: Iterable[pa.RecordBatch], config: Config) -> dict[str, Any]:
    """Index documents (columns `text` and `doc_id`) into a new folder; returns the content of index.json."""
    if folder.exists():
        raise UserError(f"{folder} exists, and an index cannot be changed. Name another folder, or remove this one.")
    try:
        with new_folder(folder) as written:
            about = _write(written, batches, config)
            (written / "index.json").write_text(json.dumps(about, indent=1) + "\n", "utf-8")
    except OSError as error:
        raise UserError(f"{folder}: the index cannot be written: {error}. Name another folder.") from None
    return about


def _write(folder: Path, batches: Iterable[pa.RecordBatch], config: Config) -> dict[str, Any]:
    documents = shingles = 0
    spills = [open(folder / f"spill-{number}", "wb", buffering=1 << 16) for number in range(_SPILLS)]  # noqa: SIM115
    with (
        open(folder / "ids", "wb") as ids,
        open(folder / "starts", "wb") as lengths,
        open(folder / "shingles", "wb") as sets,
    ):
        lengths.write(np.zeros(1, np.int64).tobytes())
        for batch in batches:
            bands, starts, packed = sketch_batch(batch, config)
            owners = np.repeat(np.arange(documents, documents + batch.num_rows), config.bands)
            flat = bands.ravel()
            order = sort_order(flat)
            pairs = np.column_stack([flat[order], owners[order].astype(np.uint64)])
            bounds = np.searchsorted(pairs[:, 0] >> np.uint64(56), np.arange(_SPILLS + 1))
            for number in range(_SPILLS):
                spills[number].write(pairs[bounds[number] : bounds[number + 1]].tobytes())
            ids.write(np.ascontiguousarray(fixed_bytes(batch.column("doc_id"))).tobytes())
            lengths.write((starts[1:] + shingles).tobytes())
            sets.write(packed[: len(packed) - PADDING_BYTES].tobytes())
            documents += batch.num_rows
            shingles += int(starts[-1])
        sets.write(bytes(PADDING_BYTES))
    with open(folder / "bands", "wb") as sorted_bands, open(folder / "owners", "wb") as sorted_owners:
        for number, spill in enumerate(spills):
            spill.close()
            pairs = np.fromfile(folder / f"spill-{number}", np.uint64).reshape(-1, 2)
            order = sort_order(pairs[:, 0], pairs[:, 1])
            sorted_bands.write(np.ascontiguousarray(pairs[order, 0]).tobytes())
            sorted_owners.write(np.ascontiguousarray(pairs[order, 1]).tobytes())
            (folder / f"spill-{number}").unlink()
    sketch = {name: getattr(config, name) for name in SKETCH_FIELDS}
    return {
        "format": FORMAT,
        "unicode": UNICODE_VERSION,
        **sketch,
        "documents": documents,
        "shingles": shingles,
    }


@lru_cache(maxsize=16)
def open_index(path: str) -> NearIndex:
    """Check an index and map it into memory."""
    folder = Path(path)
    if "://" in path:
        raise UserError(f"{path}: an index is mapped into memory, so it must be a local folder. Copy it here.")
    try:
        with place_of(str(folder / "index.json")).open() as file:  # this does not block on a pipe
            about = json.loads(file.read())
        number = about["documents"]
        config = Config(**{name: about[name] for name in SKETCH_FIELDS})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: not an index of near duplicates ({error}). Make one with: gristmill index RECIPE FOLDER"
        ) from None
    if about.get("format") != FORMAT or about.get("unicode") != UNICODE_VERSION:
        raise UserError(
            f"{path}: the index has format {about.get('format')} and Unicode {about.get('unicode')}; this version has "
            f"format {FORMAT} and Unicode {UNICODE_VERSION}, so words would differ. Make the index again."
        )
    index = NearIndex(
        config,
        _mapped(folder, "bands", np.uint64),
        _mapped(folder, "owners", np.int64),
        _mapped(folder, "ids", np.uint8).reshape(-1, ID_BYTES),
        _mapped(folder, "starts", np.int64),
        _mapped(folder, "shingles", np.uint8),
    )
    if not len(index.ids) == len(index.starts) - 1 == number or len(index.bands) != number * config.bands:
        raise UserError(f"{path}: the index is incomplete, so it cannot be used. Copy it again, or make it again.")
    return index


def _mapped(folder: Path, name: str, kind: Any) -> Array:
    try:
        size = (folder / name).stat().st_size
        return np.asarray(np.memmap(folder / name, kind, "r")) if size else read_only(None, kind)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder}: the index lacks its file {name} ({error}). Copy it again, or make it again."
        ) from None
