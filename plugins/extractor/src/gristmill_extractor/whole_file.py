"""A file that a command writes with `--out`: it has its name when it is whole."""

import os
import secrets
import stat
from pathlib import Path

from gristmill.errors import UserError
from gristmill.places import kind_of


def check_place(path: Path, undone: str) -> bool:
    """Whether a file is there. UserError where none can be, before any work; `undone` says what was not done."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = None
    except OSError as error:
        raise UserError(f"--out {path} cannot be written ({error.strerror}), so {undone}. Name another file.") from None
    if mode is not None and not stat.S_ISREG(mode):
        raise UserError(f"--out {path} is {kind_of(mode)} and no file, so {undone}. Name a file.")
    if not path.parent.is_dir():
        raise UserError(f"--out {path}: there is no folder {path.parent}, so {undone}. Make it first.")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"--out {path}: nobody may write into {path.parent}, so {undone}. Name another file.")
    return mode is not None


def write_whole(path: Path, data: bytes) -> None:
    """In the place of what was there. UserError where that cannot be, and then nothing has changed."""
    # A name that nobody can foresee, and no file that is there: a link in a shared folder would lead elsewhere.
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
            f"--out {path} cannot be written ({error.strerror or error}), so nothing was. Name another file."
        ) from None
