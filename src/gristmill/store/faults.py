"""What is wrong with a file of a store, in words that name the file."""

import errno
import os
import stat
from pathlib import Path

from gristmill.errors import UserError
from gristmill.places import kind_of


class Unwritable(UserError):
    """Nothing can be written to a store, or not now."""

    def __init__(self, message: str, why: str, is_full: bool = False) -> None:
        super().__init__(message)
        self.why = why
        self.is_full = is_full

    def __reduce__(self) -> tuple[type["Unwritable"], tuple[str, str, bool]]:
        return Unwritable, (str(self), self.why, self.is_full)


def unwritable(uri: str, error: OSError, path: str | None = None) -> Unwritable:
    """What to tell of a write that failed: disks and rights are the user's to mend. `path` is the name that the file
    was to have; that of the error is a temporary one, which tells nobody anything.
    """
    why = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unwritable(
            f"The store {uri} is full ({why}). What is finished is kept. "
            "Free some space (`gristmill gc` removes what nothing needs, on a full disk too) and run again to go on.",
            why,
            is_full=True,
        )
    if path is not None and (found := in_the_way(path)) is not None:
        return Unwritable(
            f"{found}, so the store {uri} cannot be written. What is finished is kept. "
            "Move it away and run again to go on.",
            found,
        )
    return Unwritable(
        f"The store {uri} cannot be written: {why}. What is finished is kept. "
        "Mend the disk or its rights, or use another store, and run again to go on.",
        why,
    )


def in_the_way(path: str) -> str | None:
    """What stands where a file of the store, or a folder above it, should be; None where nothing does."""
    try:
        mode = os.stat(path).st_mode
        return None if stat.S_ISREG(mode) else f"{path} is {kind_of(mode)} where the store keeps a file"
    except OSError:
        above = next((folder for folder in Path(path).parents if folder.exists()), None)
    return None if above is None or above.is_dir() else f"{above} is a file where the store keeps a folder"


def must_be_file(path: str) -> None:
    """A pipe under the name of a file would be waited for, perhaps for ever; it counts as a folder does."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is no file", path)
