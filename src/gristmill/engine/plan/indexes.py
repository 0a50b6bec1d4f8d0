"""Hashes files, and opens the archives of a source, with indexes from the store."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gristmill.checked import Content
from gristmill.counted import counted
from gristmill.engine.executors.executor import Executor
from gristmill.engine.executors.insist import insist
from gristmill.engine.files.archives import opens
from gristmill.engine.files.content import ContentHashes
from gristmill.engine.files.indexing import FileIndex
from gristmill.engine.files.listing import (
    EXCLUDED,
    InputFile,
    Listing,
    Unread,
    line_of,
    other_format,
    why_unwanted,
)
from gristmill.engine.work.task import Hash, IndexInput, Task
from gristmill.errors import UserError
from gristmill.log import Note
from gristmill.places import place_of, shown
from gristmill.recipe.model import Recipe, Source
from gristmill.stages.contract import Reader
from gristmill.stages.reading.views import Faults

HASH_TASK_BYTES = 256 << 20
HASH_TASK_FILES = 1000


async def hash_new(
    files: Sequence[InputFile], contents: ContentHashes, executor: Executor, note: Note
) -> dict[str, Content]:
    """Hash files, and remember their content; by URI."""
    content: dict[str, Content] = {}

    async def hash_some(batch: Sequence[InputFile]) -> None:
        places = tuple(file.place or place_of(file.uri) for file in batch)
        task = Task("", "inputs", f"hashing {counted(len(places), 'file')}", Hash(places), (-1,))
        result = await insist(task, executor, note)
        for file, value in zip(batch, result.values, strict=True):
            content[file.uri] = value
            contents.remember(file.uri, file.stamp, value)

    batches: list[list[InputFile]] = []
    size = HASH_TASK_BYTES
    for file in files:
        if size >= HASH_TASK_BYTES or len(batches[-1]) >= HASH_TASK_FILES:
            batches.append([])
            size = 0
        batches[-1].append(file)
        size += file.size
    await asyncio.gather(*(hash_some(batch) for batch in batches))
    return content


class Indexer:
    """The indexes of archives: from the store, or made by tasks."""

    def __init__(self, contents: ContentHashes, executor: Executor, note: Note) -> None:
        self._contents, self._executor, self._note = contents, executor, note

    async def content_of(self, files: Sequence[InputFile]) -> dict[str, Content]:
        known = {file.uri: self._contents.get(file.uri, file.stamp) for file in files}
        new = [file for file in files if known[file.uri] is None]
        found = {uri: content for uri, content in known.items() if content is not None}
        return found | await hash_new(new, self._contents, self._executor, self._note)

    async def index(self, files: Sequence[InputFile], content: Mapping[str, Content]) -> list[FileIndex]:
        """The index of each file."""

        async def one(file: InputFile) -> FileIndex:
            sha256 = content[file.uri].sha256
            if (known := self._contents.index(sha256)) is not None:
                return known
            piece = replace(file.piece(), content=content[file.uri])
            task = Task("", "inputs", f"indexing {shown(file.name)}", IndexInput(piece), (-1,))
            data = (await insist(task, self._executor, self._note)).values[0]
            return self._contents.remember_index(sha256, data)

        return list(await asyncio.gather(*map(one, files)))


async def open_archives(
    found: Listing, source: Source, reader: Reader[Any], recipe: Recipe, indexer: Indexer, content: dict[str, Content]
) -> list[InputFile]:
    """The files of a source, with the members of its archives in their place, in the order of the archive. Adds the
    archives to `content`, and members that are not read to the listing.
    """
    archives = [file for file in found.files if file.opens is not None]
    if not archives:
        return found.files
    content.update(await indexer.content_of(archives))
    indexes = dict(zip((file.uri for file in archives), await indexer.index(archives, content), strict=True))
    unread: list[tuple[str, str]] = []
    files: list[InputFile] = []
    some: dict[str, str] = {}
    for file in found.files:
        if file.opens is None:
            files.append(file)
            continue
        index = indexes[file.uri]
        names, excluded = file.opens.select(index.members or ())
        unread += [(EXCLUDED, f"{file.name}/{name}") for name in excluded]
        faults = [] if index.members is not None else [("not_an_archive", "neither a zip nor a tar archive")]
        faulty, _ = file.opens.select(name for name, _, _ in index.faults if name)
        faults += [
            (reason, shown(f"{name}: {detail}" if name else detail))
            for name, reason, detail in index.faults
            if not name or name in faulty
        ]
        for name in names:
            path = f"{file.name}/{name}"
            some[path] = path
            if opens(name, reader, source.config):
                faults.append(("nested_archive", shown(f"{name}: an archive in an archive is not opened")))
            elif reader.wanted is not None and not reader.wanted(path, source.config):
                unread.append((why_unwanted(path, source, reader), path))
                suffix = reader.other_suffix(path, source.config) if reader.other_suffix is not None else None
                if suffix is not None:
                    found.others[suffix] += 1
            else:
                assert index.members is not None
                member = index.members[name]
                files.append(replace(file, name=path, size=member.size, view=member, opens=None))
        if faults:
            files.append(replace(file, size=0, view=Faults(tuple(faults)), opens=None))
    counts, examples = Counter(why for why, _ in unread), dict(sorted(unread, reverse=True))
    found.unread.update({why: Unread(count, shown(examples[why])) for why, count in counts.most_common()})
    if not files:
        first = archives[0]
        fact = (
            f"the reader skips all of them because of their names. {other_format(source, some)}"
            if some
            else "no member of an archive matches the pattern. Check the part of the path after the archive's name."
        )
        raise UserError(
            f"{line_of('', source, recipe)}: {shown(first.uri)} was opened, but there is nothing to read: {fact}"
        )
    return files
