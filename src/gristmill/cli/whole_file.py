"""A file that a command writes with `--out`: it has its name when it is whole."""

import os
from contextlib import suppress
from pathlib import Path

from gristmill.errors import UserError


def write_whole(path: Path, data: bytes) -> None:
    """In the place of what was there. UserError where that cannot be, and then nothing has changed."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise UserError(
            f"--out {path} cannot be written ({error.strerror or error}), so nothing was. Name another file."
        ) from None
