"""Indexes an archive once, so that tasks can open its members.

An index is a function of the file's content and is stored under its hash.
"""

import hashlib
import io
import re
import struct
import tarfile
import zipfile
from dataclasses import dataclass
from itertools import zip_longest
from typing import IO

import orjson
from backports import zstd

from gristmill.places import exact, from_exact, shown
from gristmill.stages.reading.archive import CUT_ZIP, TarMember, is_cut_zip
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.stream import MAGIC_BYTES, compression, decompressed
from gristmill.stages.reading.views import METHODS, ArchiveMember, Unpacked
from gristmill.store.store import Store

VERSION = 4
"""Raise it with every change of what `index_of` returns."""
_DAMAGE = (OSError, EOFError, ValueError, OverflowError, LookupError, struct.error)


@dataclass(frozen=True)
class FileIndex:
    """The members of an archive."""

    members: dict[str, ArchiveMember] | None = None
    """By name, in the order of the archive; None if the file is not an archive."""
    faults: tuple[tuple[str, str, str], ...] = ()
    """Name, reason and detail of what cannot be read: members, or the rest of the archive, which has no name."""

    def to_bytes(self) -> bytes:
        inside = next((member.inside for member in (self.members or {}).values()), None)
        fields = {
            "inside": inside and [inside.kind, inside.size],
            "members": self.members
            and [
                [exact(name), member.offset, member.size, member.method, member.packed_size, member.crc]
                for name, member in self.members.items()
            ],
            "is_archive": self.members is not None,
            "faults": [[exact(name), reason, shown(detail)] for name, reason, detail in self.faults],
        }
        data = zstd.compress(orjson.dumps(fields))
        return hashlib.sha256(data).digest() + data

    @classmethod
    def from_bytes(cls, data: bytes) -> "FileIndex | None":
        """The index that `to_bytes` wrote; None if it is damaged."""
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            return None
        fields = orjson.loads(zstd.decompress(data[32:]))
        inside = Unpacked(*fields["inside"]) if fields["inside"] else None
        members = {
            from_exact(name): ArchiveMember(offset, size, method, packed_size, crc, inside)
            for name, offset, size, method, packed_size, crc in fields["members"] or ()
        }
        faults = tuple((from_exact(name), reason, detail) for name, reason, detail in fields["faults"])
        return cls(members if fields["is_archive"] else None, faults)


def known_index(store: Store, sha256: str) -> FileIndex | None:
    data = store.read_file(_name(sha256))
    return None if data is None else FileIndex.from_bytes(data)


def remember_index(store: Store, sha256: str, data: bytes) -> None:
    store.write_file(_name(sha256), data)


def _name(sha256: str) -> str:
    return f"inputs/indexes/{sha256}-{VERSION}"


def index_of(file: IO[bytes]) -> FileIndex:
    """Indexes a file; reads all of it, unless it is a zip or a plain tar archive."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    magic = file.read(MAGIC_BYTES)
    file.seek(0)
    if magic.startswith((b"PK\3\4", b"PK\5\6")):
        return _zip_index(file)
    kind = compression(magic)
    if kind is None:
        return _tar_index(file, size, None) if _is_tar(file) else FileIndex()
    stream, fault = _unpacked(file, kind)
    unpacked = stream.open(lambda: _Unclosed(file))
    if not _is_tar(unpacked):
        return FileIndex()
    found = _tar_index(unpacked, stream.size, stream)
    return found if fault is None else FileIndex(found.members, (*found.faults, ("", *fault)))


def _unpacked(file: IO[bytes], kind: str) -> tuple[Unpacked, tuple[str, str] | None]:
    """The size of what a compressed file unpacks to, and the damage in it."""
    size, fault = 0, None
    try:
        for chunk in decompressed(file)[1]:
            size += len(chunk)
    except ReadFault as met:
        fault = met.reason, met.detail
    return Unpacked(kind, size), fault


class _Unclosed(io.BufferedReader):
    """A file that stays open, for a view that would close it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)  # type: ignore[arg-type]

    def close(self) -> None:
        self.detach()


def _is_tar(file: IO[bytes]) -> bool:
    file.seek(0)
    try:
        head = file.read(tarfile.BLOCKSIZE)
        if not head.strip(b"\0"):  # an archive without members
            return len(head) == tarfile.BLOCKSIZE
        return len(head) == tarfile.BLOCKSIZE and bool(tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape"))
    except (tarfile.HeaderError, ReadFault, ValueError):
        return False


def _tar_index(file: IO[bytes], size: int, stream: Unpacked | None) -> FileIndex:
    file.seek(0)
    found = _Members()
    try:
        with tarfile.open(fileobj=file, mode="r:", tarinfo=TarMember, errors="surrogateescape") as archive:
            for info in archive:
                archive.members = []  # type: ignore[attr-defined]  # it would keep all of them
                if info.isdir():
                    continue
                if not info.isreg():
                    kind = "a link" if info.islnk() or info.issym() else "a device or pipe"
                    found.refuse(info.name, "not_a_file", f"{kind} in the archive")
                elif info.sparse is not None:
                    found.refuse(info.name, "sparse_member", "a sparse file, which is not read")
                elif info.offset_data + info.size > size:
                    found.refuse(info.name, "truncated_archive", "the archive ends within this member")
                else:
                    found.add(info.name, ArchiveMember(info.offset_data, info.size, inside=stream))
            end = archive.offset
        found.end()
        # tarfile ends silently at a header that it cannot read. The end is a block of zeros.
        file.seek(end)
        block = file.read(tarfile.BLOCKSIZE)
        if block.strip(b"\0"):
            found.refuse("", "corrupt_tar", f"no member begins at byte {end} of the archive; the rest is not read")
        elif not block and not found.is_cut:
            found.refuse("", "truncated_archive", "the file ends before the archive does")
        elif any(chunk.strip(b"\0") for chunk in iter(lambda: file.read(1 << 20), b"")):  # as `cat 1.tar 2.tar` has
            found.refuse("", "corrupt_tar", f"what follows the end of the archive at byte {end} is not read")
    except (tarfile.TarError, ReadFault, *_DAMAGE) as error:
        if not found.is_cut:
            found.refuse("", "corrupt_tar", str(error) or type(error).__name__)
    return FileIndex(found.members, tuple(found.faults))


def _zip_index(file: IO[bytes]) -> FileIndex:
    found = _Members()
    try:
        with zipfile.ZipFile(file) as archive:
            infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    except (zipfile.BadZipFile, NotImplementedError, *_DAMAGE) as error:
        is_cut = is_cut_zip(file)
        fault = ("truncated_archive", CUT_ZIP) if is_cut else ("corrupt_zip", str(error) or type(error).__name__)
        return FileIndex({}, (("", *fault),))
    for info, after in zip_longest(infos, infos[1:]):
        name = info.filename
        if info.is_dir():
            continue
        if info.flag_bits & 0x1:
            found.refuse(name, "encrypted", "an encrypted member of the archive")
        elif info.compress_type not in (zipfile.ZIP_STORED, *METHODS):
            found.refuse(name, "unknown_compression", f"compression method {info.compress_type} of zip")
        elif after is not None and info.header_offset + info.compress_size >= after.header_offset:
            found.refuse(name, "overlapping_member", f"its bytes overlap those of {after.filename!r}")
        elif info.external_attr >> 28 == 0xA:
            found.refuse(name, "not_a_file", "a link in the archive")
        else:
            sizes = info.file_size, info.compress_type, info.compress_size, info.CRC
            found.add(name, ArchiveMember(info.header_offset, *sizes))
    found.end()
    return FileIndex(found.members, tuple(found.faults))


class _Members:
    """The members of an archive by their names."""

    def __init__(self) -> None:
        self.members: dict[str, ArchiveMember] = {}
        self.faults: list[tuple[str, str, str]] = []

    @property
    def is_cut(self) -> bool:
        return any(reason == "truncated_archive" for _, reason, _ in self.faults)

    def end(self) -> None:
        if not (self.members or self.faults):
            self.refuse("", "empty_archive", "the archive has no files")

    def add(self, name: str, member: ArchiveMember) -> None:
        named = safe_name(name)
        if named is None:
            self.refuse(name, "unsafe_name", "a name that leads out of the archive")
            return
        if self.members.pop(named, None) is not None:
            self.refuse(named, "duplicate_member", "a later member of the archive has the same name")
        self.members[named] = member

    def refuse(self, name: str, reason: str, detail: str) -> None:
        self.faults.append((name, reason, detail))


def safe_name(name: str) -> str | None:
    """A member's path below the archive; None if it is absolute or leads out."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    leads_out = name.startswith("/") or ".." in re.split(r"[/\\]", name) or "\0" in name
    return None if leads_out or not parts else "/".join(parts)
