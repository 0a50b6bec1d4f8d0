"""A folder that cannot be written, not even by root: every write that a read-only disk would reject fails."""

import builtins
import errno
import io
import os

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def make_read_only(monkeypatch, folder):
    """Make every Python call that changes a file or a folder below `folder` fail until the test ends."""

    def refuse_below(*paths):
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(str(folder)):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), os.fsdecode(path))

    def guarded(function, changes):
        def call(*arguments, **more):
            if changes(*arguments, **more):
                refuse_below(*arguments[:2])
            return function(*arguments, **more)

        return call

    for name in ("utime", "chmod", "link", "symlink", "replace", "rename", "unlink", "remove", "rmdir"):
        monkeypatch.setattr(os, name, guarded(getattr(os, name), lambda *_, **__: True))
    monkeypatch.setattr(os, "mkdir", guarded(os.mkdir, lambda path, *_, **__: not os.path.exists(path)))
    monkeypatch.setattr(os, "open", guarded(os.open, lambda path, flags, *_, **__: flags & WRITES))
    opens = guarded(open, lambda path, mode="r", *_, **__: set(mode) & set("wax+"))
    for module in (builtins, io):  # pathlib uses the one from io
        monkeypatch.setattr(module, "open", opens)
