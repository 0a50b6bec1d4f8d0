"""Messages about files of a store that cannot be read or written."""

import errno
import os
import stat
from pathlib import Path

from gristmill.errors import UserError
from gristmill.places import kind_of


class Unwritable(UserError):
    """The store cannot be written, at least not now."""

    def __init__(self, message: str, why: str, is_full: bool = False) -> None:
        super().__init__(message)
        self.why = why
        self.is_full = is_full

    def __reduce__(self) -> tuple[type["Unwritable"], tuple[str, str, bool]]:
        return Unwritable, (str(self), self.why, self.is_full)


def unwritable(uri: str, error: OSError, path: str | None = None) -> Unwritable:
    """The error for a failed write. `path` is the final name of the file; `error` has a temporary name."""
    why = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unwritable(
            f"The store {uri} is full ({why}). Finished work is kept. Free some space (`gristmill gc` removes unused "
            "files and works on a full disk), then run again to continue.",
            why,
            is_full=True,
        )
    if path is not None and (found := in_the_way(path)) is not None:
        return Unwritable(
            f"{found}, so the store {uri} cannot be written. Finished work is kept. "
            "Move it away, then run again to continue.",
            found,
        )
    is_limit = error.errno == errno.EFBIG
    fix = "Raise the limit of the size of a file (ulimit -f)" if is_limit else "Fix the disk or its permissions"
    return Unwritable(
        f"The store {uri} cannot be written: {why}. Finished work is kept. "
        f"{fix}, or use another store, then run again to continue.",
        why,
    )


def in_the_way(path: str) -> str | None:
    """Describe what occupies the path of a store file or of a folder above it; None if nothing is wrong."""
    try:
        mode = os.stat(path).st_mode
        return None if stat.S_ISREG(mode) else f"{path} is {kind_of(mode)} where the store keeps a file"
    except OSError:
        above = next((folder for folder in Path(path).parents if folder.exists()), None)
    return None if above is None or above.is_dir() else f"{above} is a file where the store keeps a folder"
