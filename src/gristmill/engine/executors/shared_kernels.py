"""Compiled kernels in the store, so that the thousandth machine downloads them instead of compiling them.

    kernels/<module>-<hash of its source and imports>-<hash of the target>.kernels

An attacker who could write objects here would run code on every machine that loads them. So nothing is read or written
unless the environment holds a secret (GRISTMILL_KERNELS_KEY) that all machines of a cluster have and the store does
not. An object carries an HMAC of its name and content under that secret. If the HMAC does not match, because the object
is damaged, forged or renamed, it is not even opened. No recipe can switch sharing on.

The target is everything except the source that machine code depends on: the processor and its features, Python, Numba,
LLVM. A kernel that is missing or rejected is compiled as usual. A function that this machine has is never replaced.
"""

import fcntl
import hashlib
import hmac
import io
import os
import platform
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import config as _config
from numba.core.registry import cpu_target

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.kernels import HERE, cache_folder, cache_root, digest_of, module_of
from gristmill.kernels.ahead import kernels_of, to_compile
from gristmill.kernels.code_files import OthersCanWrite as OthersCanWrite
from gristmill.kernels.code_files import is_whole, make_private
from gristmill.store.faults import Unwritable
from gristmill.store.store import Store

config: Any = _config

KEY = "GRISTMILL_KERNELS_KEY"
LEAST_KEY = 16
"""Least characters of the secret: a secret that can be guessed is useless."""
FOLDER = "kernels"
_HEAD = b"gristmill kernels 1\n"
_INDEX, _CODE = ".nbi", ".nbc"
_STAMP = (1980, 1, 1, 0, 0, 0)

Functions = dict[str, dict[str, bytes]]
"""By function, then by the suffix of a file."""


def secret() -> bytes | None:
    """The secret that signs objects; None if kernels are not shared."""
    given = os.environ.get(KEY, "")
    if 0 < len(given) < LEAST_KEY:
        raise UserError(
            f"{KEY} has only {counted(len(given), 'character')} and can be guessed; anyone who does can run code "
            f"here. Nothing was run. Give all machines the same random text of {LEAST_KEY} or more, or unset it."
        )
    return given.encode("utf-8", "surrogateescape") or None


@cache
def target() -> str:
    """A hash of everything except the source that machine code depends on."""
    machine = cpu_target.target_context.codegen().magic_tuple()
    settings = (config.OPT, config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT)
    parts = (sys.version, platform.machine(), numba.__version__, llvmlite.__version__, machine, settings)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def fetch(store: Store, stages: Sequence[str]) -> int:
    """Download kernels of these modules that the store has and this machine lacks; returns how many functions."""
    key = secret()
    if key is None:
        return 0
    taken = 0
    for module in _modules(stages):
        name = _name(module)
        packed = store.read_file(f"{FOLDER}/{name}")
        functions = None if packed is None else _opened(name, packed, key)
        if functions:
            with suppress(OSError):  # compiled code cannot be stored here: every process compiles
                taken += _take(cache_folder(module), functions)
    return taken


def fetch_once(store: Store, stages: Sequence[str]) -> bool:
    """The same for many processes of a machine: the first downloads, and the others wait. Returns whether something is
    left to compile that other machines could use.
    """
    if secret() is None or not to_compile(stages):
        return False
    root = cache_root()
    with suppress(OSError):  # compiled code cannot be stored here
        make_private(root, root)
        with _locked(root, "fetch"):
            if to_compile(stages):
                fetch(store, stages)
    return bool(to_compile(stages))


def keep(store: Store, stages: Sequence[str]) -> int:
    """Upload kernels of these modules that this machine has and the store lacks; returns how many modules."""
    key = secret()
    if key is None:
        return 0
    put = 0
    for module in _modules(stages):
        name = _name(module)
        mine = _compiled(cache_folder(module))
        packed = store.read_file(f"{FOLDER}/{name}") if mine else None
        known = {} if packed is None else _opened(name, packed, key) or {}
        more = {function: files for function, files in mine.items() if len(files) > len(known.get(function, ()))}
        if more:
            with suppress(Unwritable):  # the run does not depend on it
                store.write_file(f"{FOLDER}/{name}", _sealed(name, {**known, **more}, key))
                put += 1
    return put


def current() -> frozenset[str]:
    """The name prefixes of objects that this version of the kernels can use, on any machine."""
    modules = (str(module_of(path)) for path in HERE.rglob("*.py"))
    return frozenset(map(_source, modules))


def _modules(stages: Sequence[str]) -> list[str]:
    return sorted({kernel for stage in stages for kernel in kernels_of(stage)})


def _source(module: str) -> str:
    return f"{module.replace('.', '-')}-{digest_of(module)}"


def _name(module: str) -> str:
    return f"{_source(module)}-{target()}.kernels"


def _mac(name: str, content: bytes, key: bytes) -> bytes:
    return hmac.digest(key, name.encode() + b"\0" + content, "sha256")


def _sealed(name: str, functions: Functions, key: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for function, files in sorted(functions.items()):
            for ending, content in sorted(files.items()):
                archive.writestr(zipfile.ZipInfo(function + ending, _STAMP), content, zipfile.ZIP_DEFLATED)
    content = packed.getvalue()
    return _HEAD + _mac(name, content, key) + content


def _opened(name: str, packed: bytes, key: bytes) -> Functions | None:
    """The functions in an object; None if it was not written under this name with our secret."""
    at = len(_HEAD) + 32
    content = packed[at:]
    if not hmac.compare_digest(packed[:at], _HEAD + _mac(name, content, key)):
        return None
    found: Functions = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for file in archive.namelist():
            function, ending = _split(file)
            found.setdefault(function, {})[ending] = archive.read(file)
    return found


def _split(file: str) -> tuple[str, str]:
    """The function of a file, and the rest of its name: `.nbi` for the index, `.1.nbc` for one compiled version."""
    function, ending = file.rsplit(".", 1)
    if ending == "nbi":
        return function, _INDEX
    function, number = function.rsplit(".", 1)
    return function, f".{number}.{ending}"


def _compiled(folder: Path) -> Functions:
    """The functions on disk that Python calls; they already include the kernels that only other kernels call. Functions
    with a damaged file are left out, so that they do not spread.
    """
    found: Functions = {}
    for index in folder.glob(f"*{_INDEX}"):
        function, _ = _split(index.name)
        if not function.endswith(".inner"):
            with _locked(folder, function):
                paths = [path for path in folder.glob(f"{function}.*") if path.suffix in (_INDEX, _CODE)]
                mine = {path: path.read_bytes() for path in paths if _split(path.name)[0] == function}
            if all(is_whole(path, data) for path, data in mine.items()):
                found[function] = {_split(path.name)[1]: data for path, data in mine.items()}
    return found


def _take(folder: Path, functions: Functions) -> int:
    """Write the functions that this machine lacks, each with its index last."""
    make_private(folder, folder.parent)
    taken = 0
    for function, files in functions.items():
        with _locked(folder, function):
            if not (folder / f"{function}{_INDEX}").exists():
                for ending in sorted(files, key=lambda ending: ending == _INDEX):
                    _write(folder / f"{function}{ending}", files[ending])
                taken += 1
    return taken


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


@contextmanager
def _locked(folder: Path, base: str) -> Iterator[None]:
    """Keep other processes from compiling this function meanwhile: index and code belong together."""
    held = os.open(folder / f"{base}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with suppress(OSError):  # a disk without locks
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)
