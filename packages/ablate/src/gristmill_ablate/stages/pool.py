"""The documents that a proxy is trained on, thinned so that they repeat as in the real training (proxy/pool.py)."""

from pathlib import Path
from typing import Annotated

import numpy as np

from gristmill.errors import UserError
from gristmill.shardformat.manifest import Manifest, read_manifest
from gristmill.stages.contract import Asset, Count, ReportMark, StageConfig
from gristmill_ablate.proxy.pool import thin


class Config(StageConfig):
    manifest: str
    """The hash of the manifest."""
    tokens: Count
    """Tokens that the pool has at least, with all repeats."""
    location: Annotated[str, ReportMark()] = ""
    """Where the manifest is."""


def check_hash(config: Config) -> Manifest:
    """The manifest; UserError where it is another one by now."""
    manifest = read_manifest(config.location)
    if manifest.hash != config.manifest:
        raise UserError(
            f"{config.location} has the hash {manifest.hash[:12]}, and {config.manifest[:12]} was to be compared, so "
            "nothing was trained. Start the comparison again."
        )
    return manifest


def make(config: Config, path: Path) -> dict[str, int]:
    pool = thin(check_hash(config), config.tokens)
    pool.save(path)
    return {"tokens": len(pool.tokens), "pieces": len(pool.keys), "documents": len(np.unique(pool.keys))}


STAGE = Asset(version=1, config=Config, make=make)
