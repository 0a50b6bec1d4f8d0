"""Writes the files that an option names."""

import os
import shutil
from pathlib import Path

from gristmill.errors import UserError, cause_of


def check_page(out: Path) -> None:
    """Raise UserError, before any work, if a page cannot be written or the file is something else."""
    if out.is_dir() or not os.access(out if out.exists() else out.absolute().parent, os.W_OK):
        raise UserError(f"{out} cannot be written, so nothing was done. Name a file in a folder that exists.")
    if out.is_file() and not out.read_bytes()[:9].lower().startswith(b"<!doctype"):
        raise UserError(f"{out} exists and is not a page, so nothing was done. Name another file.")


def write_text(path: Path, text: str) -> None:
    """Write the text file that --out names."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--out {path} cannot be written ({error.strerror}). Name another file.") from None


def write_whole(path: Path, content: bytes | Path, otherwise: str) -> None:
    """Write the whole file, or nothing: bytes, or a copy of another file. `otherwise` ends the message of a failure."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, temporary)
        else:
            temporary.write_bytes(content)
        if path.exists():
            temporary.chmod(path.stat().st_mode)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written: {cause_of(error)}. {otherwise}") from None
