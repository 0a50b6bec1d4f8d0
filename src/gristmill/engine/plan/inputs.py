"""What a source reads: its files, their content hashes, their groups, and files that readers look at beside them."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gristmill.checked import Content
from gristmill.counted import counted
from gristmill.engine.executors.executor import Executor
from gristmill.engine.executors.insist import insist
from gristmill.engine.files.content import ContentHashes
from gristmill.engine.files.listing import Group, InputFile, Unread, group_files, list_files
from gristmill.engine.files.sampling import sampled
from gristmill.engine.files.tree import BROKEN, OUTSIDE, SECOND, SPECIAL, Folders, Skipped
from gristmill.engine.work.rows import CRASHED
from gristmill.engine.work.task import Hash, Read, Task
from gristmill.hints import hint
from gristmill.log import Note
from gristmill.places import exact, place_of, shown
from gristmill.recipe.checks.columns import columns_of, extracts
from gristmill.recipe.checks.mistakes import nearest
from gristmill.recipe.model import Recipe, Source
from gristmill.stages import NO_FAULT
from gristmill.stages.contract import Piece, Reader, StageConfig
from gristmill.stages.declarations import stage_of
from gristmill.stages.ingest.sniff import format_by_name
from gristmill.stages.own_code import is_own
from gristmill.stages.reading.json_repair import REPAIRED
from gristmill.stages.reading.markup import markup_warnings

HASH_TASK_BYTES = 256 << 20
HASH_TASK_FILES = 1000
MIN_UNREAD_SHARE = 0.1
"""Of the records of a source that could not be read: a plan and a run warn from here on."""
MOST_SUFFIXES = 5
"""That a warning names, the most frequent first."""

_LOST_FILES = frozenset(
    (
        *("not_jsonl", "not_json", "not_csv", "not_parquet", "not_an_archive", "missing_column"),
        *("unreadable_bytes", "unpacks_too_large"),
    )
)
"""Reasons that a reader gives for a file, or for all of it from some place on."""
_PASSED_OVER: dict[str, tuple[str, str, str]] = {
    OUTSIDE: (
        "link leads",
        "links lead",
        "out of the source's folder, followed only with `links: follow` under `read`",
    ),
    BROKEN: ("link leads", "links lead", "to nothing, or in a circle"),
    SECOND: ("second name", "second names", "(links, hard links) of files or folders passed over; each is read once"),
    SPECIAL: ("pipe, socket or device", "pipes, sockets or devices", "passed over: no files"),
}


RECORD_BYTES = 1 << 16
"""Of a page with its markup: what a limit on records is taken to be, in bytes."""


@dataclass(frozen=True)
class SourceInputs:
    """The files of one source, ready to be read."""

    source: str
    files: Mapping[str, InputFile]
    """By URI."""
    content: dict[str, Content]
    """By URI, of the files that were asked for."""
    groups: Sequence[Group]
    companions: Mapping[str, tuple[Piece, ...]]
    """File name -> the files that its reader also looks at."""
    skipped: Skipped
    """What lies among the files and is not read."""
    others: Mapping[str, int]
    """Suffix -> files that lie among them and that the reader does not take for it."""
    unread: Mapping[str, Unread]
    """Why -> all files that lie there and are not read, those above among them."""
    config: StageConfig
    share: float | None = None
    """Of the records in the groups, those that a sample takes."""
    expects_markup: bool = False
    """Whether texts may hold markup: code does, and `extract` or the user's own step may remove it later."""

    def pieces(self, group: Group) -> tuple[Piece, ...]:
        """What a group's reader opens: nothing but what was hashed."""
        return tuple(self._checked(piece) for piece in group.pieces)

    def companion_pieces(self, group: Group) -> dict[str, tuple[Piece, ...]]:
        return {
            piece.name: tuple(self._checked(other) for other in self.companions[piece.name])
            for piece in group.pieces
            if piece.name in self.companions
        }

    def companion_hashes(self, group: Group) -> list[list[str]]:
        return [
            [exact(name), exact(other.name), self.content[other.uri].sha256]
            for name, others in sorted(self.companion_pieces(group).items())
            for other in others
        ]

    def _checked(self, piece: Piece) -> Piece:
        return replace(piece, content=self.content[piece.uri])

    def record(self) -> dict[str, str]:
        """What a run's record says of those that it read: name and sha256."""
        return {exact(file.name): self.content[uri].sha256 for uri, file in self.files.items() if uri in self.content}

    def unread_record(self) -> dict[str, list[Any]]:
        """What a run's record says of those that it did not: why -> how many, and an example."""
        return {why: [some.files, some.example] for why, some in self.unread.items()}

    def taken_bytes(self, limit: int | None) -> int:
        """Of what is read, as it lies there; of a sample or a limit on records, of what it takes."""
        size = sum(group.size for group in self.groups)
        return int(min(size * (self.share or 1), size if limit is None else limit * RECORD_BYTES))

    def needed(self, groups: Sequence[Group]) -> list[InputFile]:
        """The files that groups read or look at, in order."""
        pieces = [piece for group in groups for piece in group.pieces]
        beside = [other for piece in pieces for other in self.companions.get(piece.name, ())]
        wanted = {piece.uri for piece in (*pieces, *beside)}
        return [file for uri, file in self.files.items() if uri in wanted]

    def warnings(self, metrics: Mapping[str, Any]) -> list[str]:
        """What was passed over or could not be read, keys that name several records, and markup read as text."""
        told = [
            f"{counted(len(paths), one, many)} {what} (the first: {shown(paths[0])})"
            for why, paths in sorted(self.skipped.items())
            for one, many, what in (_PASSED_OVER[why],)
        ]
        if self.others:
            told.append(_other_suffixes(self.others, len(self.files), "suffixes" in type(self.config).model_fields))
        lost = {reason: rows for reason, rows in metrics.get("dropped", {}).items() if _loses_a_file(reason)}
        if lost:
            reasons = ", ".join(f"{reason} {rows:,}" for reason, rows in sorted(lost.items()))
            told.append(
                f"files, or the rest of them, could not be read ({reasons}), and how many documents they held is not "
                f"known. {hint('unread', reason=min(lost))} shows which; replace them, or "
                "leave them out with `exclude`"
            )
        bad, rows = unread(metrics.get("dropped", {})), metrics.get("rows", 0)
        if sum(bad.values()) >= MIN_UNREAD_SHARE * rows > 0:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in bad.items())
            told.append(
                f"{sum(bad.values()):,} of {counted(rows, 'record')} could not be read ({reasons}). "
                f"{hint('unread', reason=next(iter(bad)))} shows them; is the format or the encoding another?"
            )
        if mended := metrics.get("mended"):
            told.append(
                f"{counted(mended, 'record')} had a fault that was mended in reading; {REPAIRED} in meta says which "
                f"({hint('repaired')} shows it)"
            )
        told += field_warnings(self.config, metrics.get("fields", {}), metrics.get("rows", 0), "its")
        if not self.expects_markup:
            fix = "no step removes it. Add the step `- extract`."
            told += markup_warnings(metrics, "text that was checked", "texts that were checked", fix)
        if repeated := metrics.get("repeated_keys"):
            such = f" (such as {metrics['repeated_key']})" if "repeated_key" in metrics else ""
            told.append(
                f"{counted(repeated, 'record has', 'records have')} a key that an earlier record of the same file has"
                f"{such}, so a locator may stand for several of them (their ids differ). Let `fields.key` name a field "
                "that is unique, or leave it out"
            )
        return told


def field_warnings(config: Any, counts: Mapping[str, Any], rows: int, which: str) -> list[str]:
    """Fields that the recipe names and no record has. None where an earlier version, which counted none, read rows."""
    if not counts.get("mapped") or counts["rows"] != rows:
        return []
    there = json.loads(counts.get("names", "[]"))
    return [
        f"fields.{column} names `{shown(path)}`, which none of {which} {counted(counts['mapped'], 'record')} has. "
        + (f"Did you mean `{shown(near)}`?" if (near := nearest(path, there)) else "Correct it, or leave it out")
        for column, path in config.fields.paths().items()
        if column in config.fields.model_fields_set and not counts[column]
    ]


def _other_suffixes(others: Mapping[str, int], read: int, asks_suffixes: bool) -> str:
    ranked = sorted(others, key=lambda suffix: (-others[suffix], suffix))
    told = [f"{shown(suffix) or 'without any'} {others[suffix]:,}" for suffix in ranked[:MOST_SUFFIXES]]
    more = [f"{len(ranked) - MOST_SUFFIXES:,} more"] if len(ranked) > MOST_SUFFIXES else []
    count = sum(others.values())
    fits = next(filter(None, map(format_by_name, ranked)), None)
    fix = f"Read them in a source of their own{f' (`format: {fits}`)' if fits else ''}"
    if asks_suffixes:
        fix = f'{f"{fix}, name" if fits else "Name"} all that shall be read with `suffixes` ("": those without any)'
    return (
        f"not read for their suffixes: {count:,} of {counted(count + read, 'file')} ({', '.join(told + more)}). "
        f"{fix}, or leave them out with `exclude`"
    )


def read_twice(inputs: Mapping[str, SourceInputs]) -> list[str]:
    """Files that more than one source reads, under whatever names: each of their documents is there twice."""
    readers: dict[str, dict[str, InputFile]] = {}
    for source, found in sorted(inputs.items()):
        for uri, file in found.files.items():
            if file.size:
                readers.setdefault(file.stamp or uri, {})[source] = file
    shared: dict[tuple[str, ...], list[InputFile]] = {}
    for by_source in readers.values():
        if len(by_source) > 1:
            shared.setdefault(tuple(by_source), []).append(next(iter(by_source.values())))
    return [
        f"{counted(len(files), 'file is', 'files are')} read by each of the sources {', '.join(sources)} (the first: "
        f"{shown(files[0].name)}), so their documents are there {len(sources)} times. Let one source read them: change "
        "its paths, or `exclude`"
        for sources, files in shared.items()
    ]


def stands_for_a_file(reason: str) -> bool:
    """Whether a row with this reason stands for a file, or the rest of one, and not for a record."""
    return reason == "empty_file" or _loses_a_file(reason)


def unread(dropped: Mapping[str, int]) -> dict[str, int]:
    """Of what a reader dropped: records that it could not read, by reason, the most frequent first. Whole files, and
    records that kill workers, are told apart.
    """
    found = {
        reason: rows
        for reason, rows in dropped.items()
        if reason not in NO_FAULT and reason != CRASHED and not _loses_a_file(reason)
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _loses_a_file(reason: str) -> bool:
    """Whether with such a row more is lost than a record."""
    return reason in _LOST_FILES or reason.startswith(("truncated_", "corrupt_"))


def work_of(source: Source, inputs: SourceInputs, group: Group, limit: int | None) -> tuple[Read, dict[str, Any]]:
    """The work of reading a group, and what of it enters the task's key."""
    about: dict[str, Any] = {
        "source": source.name,
        "snapshot": group.snapshot,
        "license": source.license,
        "part_bytes": source.part_bytes,
    }
    # Only where they are set: what is read without them keeps its key.
    about |= {name: value for name, value in (("limit", limit), ("share", inputs.share)) if value is not None}
    pieces = [[exact(piece.name), inputs.content[piece.uri].sha256, piece.start, piece.stop] for piece in group.pieces]
    work = Read(
        module=source.module,
        config=source.config,
        pieces=inputs.pieces(group),
        companions=inputs.companion_pieces(group),
        **about,
    )
    return work, {"pieces": pieces, "companions": inputs.companion_hashes(group), **about}


async def find_inputs(
    recipe: Recipe,
    name: str,
    folders: Folders,
    contents: ContentHashes,
    executor: Executor,
    note: Note,
    listed: Callable[[SourceInputs], Awaitable[None]],
) -> SourceInputs:
    """List a source's files, hash those that are new or changed, and group them into read tasks. Where the source has a
    limit, nobody knows yet how many will be read: `hash_files` before each group. `listed` is awaited before anything
    is hashed, which may take hours.
    """
    source = recipe.sources[name]
    reader = stage_of(source.module, Reader)
    try:
        # In a thread: a signal must reach a run that lists millions of files.
        found = await asyncio.to_thread(list_files, source, reader, recipe, folders)
    except asyncio.CancelledError:
        folders.stopped.set()
        raise
    files = found.files
    pieces = {file.name: Piece(file.uri, file.name, place=file.place) for file in files}
    beside = reader.companions(list(pieces)) if reader.companions else {}
    companions = {name: tuple(pieces[other] for other in others) for name, others in beside.items()}
    groups, share = tuple(group_files(files, source.part_bytes, reader)), None
    if recipe.sample is not None:
        groups, share = sampled(files, source.part_bytes, reader, recipe.sample)
    inputs = SourceInputs(
        name,
        {file.uri: file for file in files},
        {},
        groups,
        companions,
        found.skipped,
        found.others,
        found.unread,
        source.config,
        share,
        source.format == "code"
        or any(extracts(step) or (is_own(step.module) and "text" in columns_of(step)) for step in recipe.routes[name]),
    )
    await listed(inputs)
    if source.limit is None:
        await hash_files(inputs, groups, contents, executor, note)
    return inputs


def use_known_content(inputs: SourceInputs, groups: Sequence[Group], contents: ContentHashes) -> list[InputFile]:
    """Take over the content of files that have not changed since they were hashed. The other files of the groups."""
    files = inputs.needed(groups)
    inputs.content.update(
        {file.uri: known for file in files if (known := contents.get(file.uri, file.stamp)) is not None}
    )
    return [file for file in files if file.uri not in inputs.content]


async def hash_files(
    inputs: SourceInputs, groups: Sequence[Group], contents: ContentHashes, executor: Executor, note: Note
) -> None:
    """Learn what the files of some groups hold."""
    content = inputs.content
    new = use_known_content(inputs, groups, contents)

    async def hash_some(batch: Sequence[InputFile]) -> None:
        places = tuple(file.place or place_of(file.uri) for file in batch)
        task = Task("", "inputs", f"hashing {counted(len(places), 'file')}", Hash(places), (-1,))
        result = await insist(task, executor, note)
        for file, value in zip(batch, result.values, strict=True):
            content[file.uri] = value
            contents.remember(file.uri, file.stamp, value)

    batches: list[list[InputFile]] = []
    size = HASH_TASK_BYTES
    for file in new:
        if size >= HASH_TASK_BYTES or len(batches[-1]) >= HASH_TASK_FILES:
            batches.append([])
            size = 0
        batches[-1].append(file)
        size += file.size
    await asyncio.gather(*(hash_some(batch) for batch in batches))
