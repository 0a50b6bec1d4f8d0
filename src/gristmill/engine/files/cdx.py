"""Lists the records of web archives that a CDX index names, as ranges of the archives.

These are read, by the first bytes of a file: CDX with a header (` CDX N b a m s k r M S V g`), CDXJ (`key timestamp
{...}`), lines of JSON, as an index server returns them, and Parquet with the columns of Common Crawl's index. The
selection is stored under the stamps of the index files and the filter, so the index is read once.
"""

import hashlib
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

import orjson
import pyarrow.parquet as pq
from backports import zstd

from gristmill.counted import counted
from gristmill.engine.files.content import ContentHashes
from gristmill.engine.files.indexing import safe_name
from gristmill.engine.files.listing import InputFile, Listing, Unread, describe, expand_pattern, line_of
from gristmill.engine.files.tree import FileEntry, Folders
from gristmill.errors import NoInput, UserError
from gristmill.places import FileLocation, local_path, shown, system_of
from gristmill.ranges import merged, pack_ranges
from gristmill.recipe.fields import CdxFields
from gristmill.recipe.model import Recipe, Source
from gristmill.stages.ingest.jsonl import lines
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.stream import decompressed
from gristmill.stages.reading.views import Faults

VERSION = 1
"""Raise it with every change of what an index selects."""
MOST_LINE_BYTES = 1 << 20
MOST_OFFSET = 1 << 62
LOOKUPS = 32
"""Files that are looked up at the same time."""
_LETTERS = {"a": "url", "m": "mime", "s": "status", "S": "length", "V": "offset", "g": "filename"}
_COLUMNS = {
    "warc_filename": "filename",
    "warc_record_offset": "offset",
    "warc_record_length": "length",
    "url_host_name": "host",
    "content_mime_detected": "mime-detected",
    "content_mime_type": "mime",
    "fetch_status": "status",
    "content_languages": "languages",
}
_NEEDED = ("filename", "offset", "length")

Entry = Mapping[str, Any]
"""The fields of a line of an index, by the names of CDXJ."""


class _Selection(NamedTuple):
    """What an index selects."""

    ranges: "dict[str, array[int]]"
    """File name -> offset and length of each record."""
    bad_lines: int
    example: str
    """Where the first bad line is."""


def list_indexed(source: Source, recipe: Recipe, folders: Folders, contents: ContentHashes) -> Listing:
    """The files that the index of a source names, with the ranges of their records. One that is missing is a row."""
    assert source.index is not None
    selection = _selection(source, source.index, recipe, folders, contents)
    where = line_of("", source, recipe)
    if not selection.ranges:
        raise NoInput(f"{where}: its index names no record that passes the filter, so there is nothing to read.")
    root = re.sub(r"\[([*?\[])\]", r"\1", source.paths[0]).rstrip("/")
    look_up = _looking_up(root, source.links)
    names = sorted(selection.ranges)
    with ThreadPoolExecutor(LOOKUPS) as pool:
        found = list(pool.map(lambda name: look_up(name) if safe_name(name) == name else None, names))
    if not any(found):
        raise NoInput(
            f"{where}: none of the {counted(len(names), 'file')} that its index names is below {shown(root)} (the "
            f"first: {shown(names[0])}). Let `paths` name the folder in which these names begin."
        )
    files = []
    uris = [f"{root}/{name}" for name in names]
    for name, uri, snapshot, about in zip(names, uris, source.snapshots_of(uris), found, strict=True):
        records = selection.ranges[name]
        if about is None:
            reason = "missing_file" if safe_name(name) == name else "unsafe_name"
            fault = reason, f"the index names {counted(len(records) // 2, 'record')} of this file"
            files.append(InputFile(uri, name, 0, snapshot, "", None, Faults((fault,))))
            continue
        file = describe(uri, name, snapshot, *about)
        ranges = [
            (start, max(start, min(start + length, file.size)))
            for start, length in zip(records[::2], records[1::2], strict=True)
        ]
        packed = pack_ranges(merged(ranges))
        size = sum(stop - start for start, stop in merged(ranges))
        stamp = file.stamp and f"{file.stamp}+{hashlib.sha256(packed).hexdigest()}"
        place = FileLocation(about[0].path, about[0].system, packed)
        files.append(InputFile(uri, name, size, snapshot, stamp, place))
    unread = {"lines of the index that are not records": Unread(selection.bad_lines, selection.example)}
    return Listing(files, {}, Counter(), unread if selection.bad_lines else {})


def _looking_up(root: str, links: str) -> Callable[[str], tuple[FileLocation, Any] | None]:
    """A function that finds a file below a folder, with what its file system knows about it."""
    folder = local_path(root)
    real = None if folder is None or links == "follow" else os.path.realpath(folder).rstrip("/") + "/"

    def on_disk(name: str) -> tuple[FileLocation, Any] | None:
        path = f"{folder}/{name}"
        if real is not None and not os.path.realpath(path).startswith(real):
            return None  # a link leads out of the folder
        try:
            return (FileLocation(path), FileEntry(os.stat(path), linked=False)) if os.path.isfile(path) else None
        except FileNotFoundError:
            return None

    if folder is not None:
        return on_disk
    system, base = system_of(root)

    def elsewhere(name: str) -> tuple[FileLocation, Any] | None:
        path = f"{base.rstrip('/')}/{name}"
        try:
            info = system.info(path)
        except FileNotFoundError:
            return None
        return (FileLocation(path, system), info) if info["type"] == "file" else None

    return elsewhere


def _selection(
    source: Source, index: CdxFields, recipe: Recipe, folders: Folders, contents: ContentHashes
) -> _Selection:
    """What the index selects: from the store, if its files and the filter are unchanged."""
    found: dict[str, InputFile] = {}
    for pattern in index.files:
        expanded, _ = expand_pattern(pattern, source, recipe, folders)
        if not expanded.files:
            raise NoInput(
                f"{line_of('', source, recipe)}: index.files: {shown(pattern)} matches no file, so it is unknown what "
                "to read. Check the path; relative paths start at the recipe's folder."
            )
        found |= {uri: describe(uri, uri, None, *about) for uri, about in expanded.files.items()}
    files = [found[uri] for uri in sorted(found)]
    wanted = index.model_dump(exclude={"files"})
    about = orjson.dumps(
        [VERSION, wanted, [[file.uri.encode(errors="surrogateescape").hex(), file.stamp] for file in files]]
    )
    key = f"cdx-{hashlib.sha256(about).hexdigest()}"
    can_be_kept = all(file.stamp for file in files)
    held = contents.selection(key) if can_be_kept else None
    if held is not None and (known := _from_bytes(held)) is not None:
        return known
    selection = _read(files, index)
    if can_be_kept:
        contents.remember_selection(key, _to_bytes(selection))
    return selection


def _to_bytes(selection: _Selection) -> bytes:
    ranges = {name: values.tolist() for name, values in selection.ranges.items()}
    data = zstd.compress(orjson.dumps([ranges, selection.bad_lines, selection.example]))
    return hashlib.sha256(data).digest() + data


def _from_bytes(data: bytes) -> _Selection | None:
    if hashlib.sha256(data[32:]).digest() != data[:32]:
        return None
    ranges, bad_lines, example = orjson.loads(zstd.decompress(data[32:]))
    return _Selection({name: array("q", values) for name, values in ranges.items()}, bad_lines, example)


def _read(files: Iterable[InputFile], index: CdxFields) -> _Selection:
    ranges: dict[str, array[int]] = {}
    bad_lines, example = 0, ""
    for file in files:
        assert file.place is not None
        with file.place.open() as opened:
            is_parquet = opened.read(4) == b"PAR1"
            opened.seek(0)
            entries = _table(opened, file, index) if is_parquet else _lines(opened, file)
            good = bad = 0
            for number, entry in enumerate(entries):
                try:
                    name, offset, length = _record(entry or {})
                except (KeyError, ValueError, TypeError):
                    bad += 1
                    example = example or f"{shown(file.uri)}, line {number + 1}"
                    continue
                good += 1
                if passes(entry or {}, index, file.uri):
                    ranges.setdefault(name, array("q")).extend((offset, length))
        if bad and not good:
            raise UserError(
                f"{shown(file.uri)} is not a CDX index: none of its {counted(bad, 'line')} names a file, an offset and "
                "a length. CDX needs its header line (` CDX N b a m s k r M S V g`)."
            )
        bad_lines += bad
    return _Selection(ranges, bad_lines, example)


def _record(entry: Entry) -> tuple[str, int, int]:
    offset, length, name = int(entry["offset"]), int(entry["length"]), entry["filename"]
    if not (isinstance(name, str) and 0 <= offset < MOST_OFFSET and 0 < length < MOST_OFFSET):
        raise ValueError
    return name, offset, length


def passes(entry: Entry, index: CdxFields, uri: str) -> bool:
    """Whether an entry passes the filter. Raises UserError if the index does not have a field that the filter needs."""
    if index.statuses and str(_field(entry, "statuses", uri, "status")) not in map(str, index.statuses):
        return False
    if index.mime and _field(entry, "mime", uri, "mime-detected", "mime") not in index.mime:
        return False
    if index.languages:
        spoken = str(_field(entry, "languages", uri, "languages") or "").split(",")
        if not set(spoken).intersection(index.languages):
            return False
    if index.hosts:
        host = _host(_field(entry, "hosts", uri, "host", "url"))
        return any(host == one.lower() or host.endswith(f".{one.lower()}") for one in index.hosts)
    return True


def _host(location: object) -> str:
    text = str(location or "")
    try:
        return ((urlsplit(text).hostname or "") if "://" in text else text).lower()
    except ValueError:
        return ""


_OPTIONAL = frozenset(("status", "languages", "mime", "mime-detected"))
"""Fields that CDXJ leaves out of some records, such as a page without a known language."""


def _field(entry: Entry, setting: str, uri: str, *names: str) -> Any:
    for name in names:
        if name in entry:
            return entry[name]
    if _OPTIONAL.issuperset(names) and "url" in entry and "is_cdx" not in entry:
        return None
    raise UserError(
        f"{shown(uri)} has no field {' or '.join(names)}, which `index.{setting}` compares. Omit the setting, or use "
        "an index that has it."
    )


def _lines(file: IO[bytes], about: InputFile) -> Iterator[Entry | None]:
    """The entries of a CDX or CDXJ file; None for a line that is none."""
    letters: list[str] | None = None
    for _, line in lines(decompressed(file)[1], 0, MOST_LINE_BYTES):
        if isinstance(line, ReadFault):
            if line.reason == "record_too_large":
                yield None
                continue
            raise UserError(
                f"{shown(about.uri)} cannot be read: {line.detail}. A part of an index would select a part of the "
                "records. Fetch it again."
            )
        words = line.split()
        if words[0] == b"CDX":
            letters = [word.decode(errors="replace") for word in words[1:]]
        elif letters is not None:
            named = zip(letters, (word.decode(errors="replace") for word in words), strict=False)
            entry = {_LETTERS[letter]: word for letter, word in named if letter in _LETTERS}
            yield {**entry, "is_cdx": True} if len(words) == len(letters) else None
        else:
            yield _from_json(line[max(0, line.find(b"{")) :])


def _from_json(text: bytes) -> Entry | None:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _table(file: IO[bytes], about: InputFile, index: CdxFields) -> Iterator[Entry]:
    """The entries of a Parquet file; only the columns that are needed are read."""
    try:
        table = pq.ParquetFile(file)
        there = [name for name in _COLUMNS if name in table.schema_arrow.names]
        if missing := [name for name in _COLUMNS if _COLUMNS[name] in _NEEDED and name not in there]:
            raise UserError(
                f"{shown(about.uri)} has no column {missing[0]}, so it is not an index of web archives. Columns: "
                f"{', '.join(table.schema_arrow.names[:20])}."
            )
        for batch in table.iter_batches(1 << 14, columns=there):
            columns = [batch.column(name).to_pylist() for name in there]
            names = [_COLUMNS[name] for name in there]
            yield from (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
    except (OSError, ValueError) as error:
        raise UserError(f"{shown(about.uri)} cannot be read as Parquet: {error}. Fetch it again.") from None
