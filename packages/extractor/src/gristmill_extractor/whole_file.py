"""Writes the file of `--out`; it gets its name when it is complete."""

import os
import secrets
import stat
from pathlib import Path

from gristmill.errors import UserError
from gristmill.places import kind_of


def check_target(path: Path, undone: str) -> bool:
    """Whether the file exists. Raises UserError if it cannot be written; `undone` says what was not done."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = None
    except OSError as error:
        raise UserError(f"--out {path} cannot be written ({error.strerror}), so {undone}. Name another file.") from None
    if mode is not None and not stat.S_ISREG(mode):
        raise UserError(f"--out {path} is {kind_of(mode)}, not a file, so {undone}. Name a file.")
    if not path.parent.is_dir():
        raise UserError(f"--out {path}: there is no folder {path.parent}, so {undone}. Create it first.")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"--out {path}: {path.parent} is not writable, so {undone}. Name another file.")
    return mode is not None


def write_whole(path: Path, data: bytes) -> None:
    """Write or replace the file. Raises UserError, with nothing changed, if it cannot be written."""
    # A random new name: in a shared folder, somebody could have placed a link under a predictable one.
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            try:
                file.write(data)
                file.flush()
                os.replace(part, path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise UserError(
            f"--out {path} cannot be written ({error.strerror or error}). Nothing was written. Name another file."
        ) from None
