"""Names and limits of archives and compressed files: what a file may unpack to depends on its size."""

import os
import tarfile
import zipfile
from collections.abc import Iterator
from typing import IO, Any

from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.stream import decompressed, without_compression_suffix

FREE_UNPACKED_BYTES = 64 << 20
MOST_RATIO = 200
"""A compressed file may unpack to 64 MiB, plus 200 bytes for each of its bytes."""
MOST_NAME_BYTES = 1 << 20
"""The longest name in an archive."""
MOST_HEADERS = 100
"""The most headers in a row that only say more about the next member of a tar file; real ones have at most three."""
ARCHIVES = (".zip", ".tar", ".tgz")


def is_archive(name: str) -> bool:
    return without_compression_suffix(name).lower().endswith(ARCHIVES)


def archive_glob(name: str) -> str:
    """The glob of archives with the suffix of this one: `*.tar.gz`."""
    return f"*{os.path.splitext(without_compression_suffix(name))[1]}{name[len(without_compression_suffix(name)) :]}"


def is_cut_zip(file: IO[bytes]) -> bool:
    """Whether a file that zipfile cannot open begins as a zip file and lacks the list of members at its end."""
    file.seek(0)
    return file.read(4) == b"PK\3\4" and not zipfile.is_zipfile(file)


CUT_ZIP = "the file was cut: the list of members at the end of a zip file is missing"


class TarMember(tarfile.TarInfo):
    """A member with a name of limited length, since tarfile holds names in memory. Each header of a long name before it
    is a call within the call for the one before.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in _NAMES and self.size > MOST_NAME_BYTES:
            raise tarfile.ReadError("a name of more than a megabyte")
        archive.headers = getattr(archive, "headers", 0) + 1 if self.type in _NAMES else 0  # type: ignore[attr-defined]
        if archive.headers > MOST_HEADERS:  # type: ignore[attr-defined]
            raise tarfile.ReadError(f"more than {MOST_HEADERS} headers for one member")
        return super()._proc_member(archive)  # type: ignore[misc]


_NAMES = {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
_NAMES |= {tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE}


def _limit(file: IO[bytes]) -> int:
    """How much a packed file may unpack to."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return FREE_UNPACKED_BYTES + MOST_RATIO * size


def chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    """A file's decompressed content, within the limit for its size."""
    limit = _limit(file)
    is_plain, chunks = decompressed(file)
    for chunk in chunks:
        limit -= len(chunk)
        if limit < 0 and not is_plain:
            raise ReadFault("unpacks_too_large", "it unpacks to far more than its size allows")
        yield chunk
