"""Makes windows and steps 16 to 1024 times smaller, so that small inputs take all the paths of large ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

SMALL: dict[str, dict[str, Any]] = {
    "gristmill.stages.ingest.walk": {
        "HEAD_BYTES": 128,
        "SEARCH_BYTES": 1 << 11,
        "CHECKSUM_BYTES": 1 << 11,
        "ARC_REACH": 256,
    },
    "gristmill.stages.ingest.frames": {
        "FIRST_SEARCH_BYTES": 1 << 8,
        "LEAVE_SHARE": 2,
        "OPENING_BYTES": 1 << 9,
        "PROBE_BYTES": {"gzip": 1 << 8, "zstd": 1 << 8, "lz4": 1 << 8},
        "READ_BYTES": 1 << 10,
    },
    "gristmill.stages.reading.decompress": {"FEED_BYTES": 1 << 7, "FIRST_STEP_BYTES": 1 << 7},
    "gristmill.stages.reading.stream": {"CHUNK_BYTES": 1 << 8},
    "gristmill.stages.ingest.jsonl": {"_HEAD_BYTES": 1 << 8},
    "gristmill.stages.ingest.json_values": {"_HEAD_BYTES": 1 << 8},
    "gristmill.stages.ingest.csv_rows": {"_HEAD_BYTES": 1 << 8},
    "gristmill_formats.mediawiki": {"_HEAD_BYTES": 1 << 8},
    "gristmill.stages.reading.csv_cut": {"FREE_BYTES": 1 << 8},
    "gristmill.stages.ingest.parquet": {
        "MOST_RATIO": 2,
        "MOST_ROWS_BYTES": 1 << 10,
        "_BATCH_BYTES": 1 << 12,
        "_SHARED_BYTES": 1 << 12,
    },
    "gristmill.engine.files.grouping": {"MOST_RANGES": 4},
}


@contextmanager
def small_windows() -> Iterator[None]:
    """Applies to the modules that are imported now: under the meter, the counting ones."""
    modules = {name: vars(import_module(name)) for name in SMALL}
    usual = {name: {key: modules[name][key] for key in values} for name, values in SMALL.items()}
    try:
        for name, values in SMALL.items():
            modules[name].update(values)
        yield
    finally:
        for name, values in usual.items():
            modules[name].update(values)
