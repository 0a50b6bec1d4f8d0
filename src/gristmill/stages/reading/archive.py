"""Unpacks the archives and compressed files of an eval suite in memory, within a limit that depends on their size."""

import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.stream import decompressed, without_compression_suffix

MOST_HELD_BYTES = 2 << 30
"""The most bytes for all selected members of an archive together."""
FREE_UNPACKED_BYTES = 64 << 20
MOST_RATIO = 200
"""A compressed file may unpack to 64 MiB, plus 200 bytes for each of its bytes."""
MOST_NAME_BYTES = 1 << 20
"""The longest name in an archive."""
ARCHIVES = (".zip", ".tar", ".tgz")
Wanted = Callable[[str], bool]
_DAMAGE = (OSError, EOFError, ValueError, OverflowError, LookupError)
"""Exceptions that damaged bytes cause, apart from the libraries' own errors."""


def is_archive(name: str) -> bool:
    return without_compression_suffix(name).lower().endswith(ARCHIVES)


def archive_glob(name: str) -> str:
    """The glob of archives with the suffix of this one: `*.tar.gz`."""
    return f"*{os.path.splitext(without_compression_suffix(name))[1]}{name[len(without_compression_suffix(name)) :]}"


def unpacked(name: str, file: IO[bytes], wanted: Wanted) -> Iterator[tuple[str, bytes | None]]:
    """The names of the files in an archive, with the content of those that are selected."""
    if name.lower().endswith(".zip"):
        yield from _unzipped(file, wanted)
    elif is_archive(name):
        yield from _untarred(file, wanted)
    else:
        raise ReadFault("no_archive", "`inside` is for .zip and .tar, .tar.gz and the like")


def _unzipped(file: IO[bytes], wanted: Wanted) -> Iterator[tuple[str, bytes | None]]:
    limit = min(_limit(file), MOST_HELD_BYTES)
    try:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                if info.is_dir() or not wanted(info.filename):
                    yield info.filename, None
                    continue
                with archive.open(info) as member:
                    data = member.read(limit + 1)
                yield info.filename, _within(data, limit, info.filename)
                limit -= len(data)  # for all members together, since they may share their bytes
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, *_DAMAGE) as error:
        raise ReadFault("corrupt_zip", str(error) or type(error).__name__) from None
    except (RuntimeError, NotImplementedError) as error:  # a password, or a method that Python does not support
        raise ReadFault("unreadable_zip", str(error)) from None


def is_cut_zip(file: IO[bytes]) -> bool:
    """Whether a file that zipfile cannot open begins as a zip file and lacks the list of members at its end."""
    file.seek(0)
    return file.read(4) == b"PK\3\4" and not zipfile.is_zipfile(file)


CUT_ZIP = "the file was cut: the list of members at the end of a zip file is missing"


class TarMember(tarfile.TarInfo):
    """A member with a name of limited length, since tarfile holds names in memory."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in _NAMES and self.size > MOST_NAME_BYTES:
            raise tarfile.ReadError("a name of more than a megabyte")
        return super()._proc_member(archive)  # type: ignore[misc]


_NAMES = {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
_NAMES |= {tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE}


def _untarred(file: IO[bytes], wanted: Wanted) -> Iterator[tuple[str, bytes | None]]:
    limit = min(_limit(file), MOST_HELD_BYTES)  # a sparse member may claim to be larger than the archive
    stream = _ChunkReader(chunks_of(file))
    try:
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|", bufsize=1 << 16, tarinfo=TarMember) as archive:
            for info in archive:
                name = info.name.removeprefix("./")
                member = archive.extractfile(info) if info.isreg() and wanted(name) else None
                data = _within(member.read(limit + 1), limit, name) if member else None
                limit -= len(data or b"")
                yield name, data
                archive.members = []  # type: ignore[attr-defined]  # it would keep every one that went by
    except (tarfile.TarError, *_DAMAGE) as error:
        raise ReadFault("corrupt_tar", str(error) or type(error).__name__) from None
    stream.end()


class _ChunkReader:
    """Chunks as a file that is read from start to end."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._chunk, self._at = b"", 0
        self._last = b""
        """The last bytes that were read."""

    def read(self, size: int) -> bytes:
        taken: list[bytes] = []
        while size:
            if self._at == len(self._chunk):
                self._chunk, self._at = next(self._chunks, b""), 0
                if not self._chunk:
                    break
            part = self._chunk[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            taken.append(part)
        data = b"".join(taken)
        self._last = (self._last + data[-tarfile.BLOCKSIZE :])[-tarfile.BLOCKSIZE :]
        return data

    def end(self) -> None:
        """Reads the rest. Raises ReadFault if the file ends before the archive does."""
        while self.read(1 << 20):
            pass
        if self._last.strip(b"\0") or len(self._last) < tarfile.BLOCKSIZE:
            raise ReadFault("truncated_tar", "the file ends before the archive does")


def _limit(file: IO[bytes]) -> int:
    """How much a packed file may unpack to."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return FREE_UNPACKED_BYTES + MOST_RATIO * size


def _within(data: bytes, limit: int, name: str) -> bytes:
    if len(data) > limit:
        raise ReadFault("unpacks_too_large", f"{name} unpacks to more than {limit:,} bytes, as no benchmark does")
    return data


def chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    """A file's decompressed content, within the limit for its size."""
    limit = _limit(file)
    is_plain, chunks = decompressed(file)
    for chunk in chunks:
        limit -= len(chunk)
        if limit < 0 and not is_plain:
            raise ReadFault("unpacks_too_large", "it unpacks to far more than its size allows, as no benchmark does")
        yield chunk
