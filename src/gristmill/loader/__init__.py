"""The loader, for trainers. It needs only numpy; torch adapters and object stores are imported where they are used."""

from gristmill.loader.batch import IGNORE, Batch, Sample
from gristmill.loader.continues import continues
from gristmill.loader.loader import Loader
from gristmill.loader.masks import block_diagonal_mask
from gristmill.shardformat.manifest import Manifest, read_manifest

__all__ = ["IGNORE", "Batch", "Loader", "Manifest", "Sample", "block_diagonal_mask", "continues", "read_manifest"]
