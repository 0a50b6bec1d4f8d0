"""Hot loops compiled by Numba: arrays in, arrays out; nothing else of ours is imported here.

Numba keeps compiled code on disk and looks only at the file of a function to see whether it is stale. Code that was
inlined from another file goes on in its old form, silently. So the folder of the cache is named by the hash of all
kernels together: change one, and all are compiled anew.
"""

import hashlib
import os
from pathlib import Path

import numba


def _cache_folder() -> Path:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gristmill"
    return root / f"kernels-{digest}"


numba.config.CACHE_DIR = str(_cache_folder())  # type: ignore[attr-defined]
