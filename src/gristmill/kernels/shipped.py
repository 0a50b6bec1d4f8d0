"""Compiled kernels inside a wheel, so that a first run does not compile.

Numba stores code by the exact CPU that it was compiled for. `make wheel-compiled` compiles kernels for BASELINE, so
they run on every CPU of the architecture. A function that is not in the user's cache is copied there, as code for the
user's CPU. Its folder is named by its sources and Numba's version: after a change of either, the wheel's code is not
found, and Numba compiles.
"""

import platform
import sys
import zipfile
from functools import cache
from pathlib import Path

BASELINE = ("generic", "")
"""NUMBA_CPU_NAME and NUMBA_CPU_FEATURES: x86-64 with SSE2, or ARMv8 with NEON."""
FILE = Path(__file__).with_name(f"compiled-{platform.machine()}-{sys.implementation.cache_tag}.zip")

NOT_SHIPPED = {"x86_64": ("gristmill.kernels.dedup.sketch-", "gristmill.kernels.bpe.encode-")}
"""Folders of kernels that are compiled for the exact CPU: with AVX-512 they take 0.55 to 0.85 of the time that the
baseline takes, and compiling them takes 11 CPU seconds."""


def read_shipped(path: str) -> bytes | None:
    """Returns the content of a file of compiled code, by the names of its folder and itself; None if the wheel has
    none.
    """
    name = "/".join(Path(path).parts[-2:])
    archive = _archive()
    return archive.read(name) if archive is not None and name in archive.NameToInfo else None


@cache
def _archive() -> zipfile.ZipFile | None:
    return zipfile.ZipFile(FILE) if FILE.exists() else None


def pack(folder: Path) -> int:
    """Puts the functions that Python calls into FILE; returns the number of files. Functions that only kernels call are
    inside them. Those that gain much from the exact CPU are left out.
    """
    left_out = NOT_SHIPPED.get(platform.machine(), ())
    files = (path for path in folder.rglob("*.nb[ic]") if ".inner." not in path.name)
    found = sorted(path for path in files if not path.parent.name.startswith(left_out))
    with zipfile.ZipFile(FILE, "w") as archive:
        # Names are sorted and have no times, so equal files make equal archives.
        for path in found:
            name = zipfile.ZipInfo(f"{path.parent.name}/{path.name}")
            archive.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return len(found)
