"""The inputs of a source: its files, their content hashes, their groups, and the companion files of its reader."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gristmill.checked import Content
from gristmill.counted import counted
from gristmill.engine.executors.executor import Executor
from gristmill.engine.files.archives import MemberGlobs
from gristmill.engine.files.cdx import list_indexed
from gristmill.engine.files.content import ContentHashes
from gristmill.engine.files.grouping import FileGroup, group_files
from gristmill.engine.files.indexing import VERSION as INDEX_VERSION
from gristmill.engine.files.listing import InputFile, Unread, list_files
from gristmill.engine.files.sampling import sampled
from gristmill.engine.files.tree import BROKEN, OUTSIDE, SECOND, SPECIAL, Folders, Skipped
from gristmill.engine.plan.indexes import Indexer, hash_new, open_archives
from gristmill.engine.work.rows import CRASHED
from gristmill.engine.work.task import Read
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
from gristmill.stages.reading.json_value import REPAIRED
from gristmill.stages.reading.markup import markup_warnings
from gristmill.stages.reading.views import Faults
from gristmill.store.store import Part, Store
from gristmill.warned import Warned, Warnings

MIN_UNREAD_SHARE = 0.1
"""A plan and a run warn if at least this share of the records of a source could not be read."""
MOST_SUFFIXES = 5
"""The most suffixes that a warning names, the most frequent first."""

_LOST_FILES = frozenset(
    (
        *("not_jsonl", "not_json", "not_csv", "not_parquet", "not_an_archive", "missing_column"),
        *("unreadable_bytes", "unpacks_too_large"),
    )
)
"""Reasons that a reader gives for a whole file, or for the rest of one."""
_OF_RECORDS = frozenset(("archive", "bzip2", "gzip", "lz4", "parquet", "record", "tar", "xz", "zip", "zstd"))
"""What may hold several records: if it is `truncated_` or `corrupt_`, it is unknown how many are lost."""
_SKIPPED: dict[str, tuple[str, str, str]] = {
    OUTSIDE: (
        "link leads",
        "links lead",
        "out of the source's folder; set `links: follow` under `read` to follow them",
    ),
    BROKEN: ("link leads", "links lead", "to nothing, or in a cycle"),
    SECOND: ("second name", "second names", "(links, hard links) of files or folders skipped; each is read once"),
    SPECIAL: ("pipe, socket or device", "pipes, sockets or devices", "skipped, because they are not files"),
}

_FIX = "Check the format and the encoding"

NOTHING = hashlib.sha256().hexdigest()
"""The hash of a file that an index names and that does not exist."""
RECORD_BYTES = 1 << 16
"""Assumed bytes per record, for a limit on records: those of a page with its markup."""


S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class SourceInputs:
    """The files of one source, ready to be read."""

    source: str
    files: Mapping[str, InputFile]
    """By URI."""
    content: dict[str, Content]
    """By URI, of the files that were hashed."""
    groups: Sequence[FileGroup]
    companions: Mapping[str, tuple[Piece, ...]]
    """File name -> the other files that its reader needs."""
    skipped: Skipped
    """Entries among the files that are skipped."""
    others: Mapping[str, int]
    """Suffix -> files among them that the reader skips because of it."""
    unread: Mapping[str, Unread]
    """Reason -> all files that are not read, including those above."""
    config: StageConfig
    share: float | None = None
    """The share of the records in the groups that a sample takes."""
    expects_markup: bool = False
    """Whether texts may hold markup: code does, and `extract` or the user's own step may remove it later."""
    fixes: Mapping[str, str] = field(default_factory=dict)
    """By reason: what to do about records that could not be read."""
    is_derived: bool = False
    """Whether the files are parts of the step that makes the documents, which warns of them itself."""

    def pieces(self, group: FileGroup) -> tuple[Piece, ...]:
        """What a group's reader opens: only content that was hashed."""
        return tuple(self._checked(piece) for piece in group.pieces)

    def companion_pieces(self, group: FileGroup) -> dict[str, tuple[Piece, ...]]:
        own = {piece.name: self.companions[piece.name] for piece in group.pieces if piece.name in self.companions}
        return _each_once(own, lambda others: tuple(map(self._checked, others)))

    def companion_hashes(self, group: FileGroup) -> list[list[str]]:
        """The name of each file with a hash of its companions' names and content."""
        found = self.companion_pieces(group)
        hashes = _each_once(found, self._hash)
        return [[exact(name), found_hash] for name, found_hash in sorted(hashes.items())]

    def _hash(self, others: tuple[Piece, ...]) -> str:
        rows = [[exact(other.name), self.content[other.uri].sha256] for other in others]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def _checked(self, piece: Piece) -> Piece:
        return replace(piece, content=self.content[piece.uri])

    def record(self) -> dict[str, str]:
        """The files that were read, for a run's record: name and sha256."""
        return {exact(file.name): self.content[uri].sha256 for uri, file in self.files.items() if uri in self.content}

    def unread_record(self) -> dict[str, list[Any]]:
        """The files that were not read, for a run's record: reason -> how many, and an example."""
        return {why: [some.files, some.example] for why, some in self.unread.items()}

    def taken_bytes(self, limit: int | None) -> int:
        """Bytes to read, as stored; for a sample or a limit on records, the bytes of what it takes."""
        size = sum(group.size for group in self.groups)
        return int(min(size * (self.share or 1), size if limit is None else limit * RECORD_BYTES))

    def needed(self, groups: Sequence[FileGroup]) -> list[InputFile]:
        """The files that groups need, including companions, in order."""
        pieces = [piece for group in groups for piece in group.pieces]
        shared = {id(others): others for piece in pieces if (others := self.companions.get(piece.name))}
        companions = [other for others in shared.values() for other in others]
        wanted = {piece.uri for piece in (*pieces, *companions)}
        return [file for uri, file in self.files.items() if uri in wanted]

    def warnings(self, metrics: Mapping[str, Any]) -> list[str]:
        """Warnings about what was skipped or could not be read, repeated keys, and markup that is read as text."""
        if self.is_derived:
            return []
        messages = Warnings()
        for why, paths in sorted(self.skipped.items()):
            one, many, what = _SKIPPED[why]
            messages.add("skipped_files", f"{counted(len(paths), one, many)} {what} (the first: {shown(paths[0])})")
        if self.others:
            messages.add(
                "other_suffixes",
                _other_suffixes(self.others, len(self.files), "suffixes" in type(self.config).model_fields),
            )
        lost = {reason: rows for reason, rows in metrics.get("dropped", {}).items() if _loses_a_file(reason)}
        if lost:
            reasons = ", ".join(f"{reason} {rows:,}" for reason, rows in sorted(lost.items()))
            messages.add(
                "lost_files",
                f"files, or the rest of them, could not be read ({reasons}); it is unknown how many documents they "
                f"had. {hint('unread', reason=min(lost))} shows which; replace them, or "
                "leave them out with `exclude`",
            )
        bad, rows = unread(metrics.get("dropped", {})), metrics.get("rows", 0)
        if sum(bad.values()) >= MIN_UNREAD_SHARE * rows > 0:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in bad.items())
            fix = next((self.fixes[reason] for reason in bad if reason in self.fixes), _FIX)
            messages.add(
                "unread_records",
                f"{sum(bad.values()):,} of {counted(rows, 'record')} could not be read ({reasons}). "
                f"{hint('unread', reason=next(iter(bad)))} shows them. {fix}",
            )
        if mended := metrics.get("mended"):
            messages.add(
                "repaired_records",
                f"{counted(mended, 'record')} had a fault that the reader repaired; {REPAIRED} in meta says which "
                f"({hint('repaired')} shows it)",
            )
        messages += field_warnings(self.config, metrics.get("fields", {}), metrics.get("rows", 0), "its")
        if not self.expects_markup:
            fix = "no step removes it. Add the step `- extract`."
            messages += markup_warnings(metrics, "text that was checked", "texts that were checked", fix)
        if repeated := metrics.get("repeated_keys"):
            such = f" (such as {metrics['repeated_key']})" if "repeated_key" in metrics else ""
            messages.add(
                "repeated_keys",
                f"{counted(repeated, 'record has', 'records have')} the same key as an earlier record of the same file"
                f"{such}, so a locator may match several of them (their ids differ). Let `fields.key` name a unique "
                "field, or omit it",
            )
        return messages


def field_warnings(config: Any, counts: Mapping[str, Any], rows: int, which: str) -> list[Warned]:
    """Warnings about fields that the recipe names and no record has; none if an earlier version read them."""
    if not counts.get("mapped") or counts["rows"] != rows:
        return []
    there = json.loads(counts.get("names", "[]"))
    return [
        Warned(
            "unknown_field",
            f"fields.{column} names `{shown(path)}`, which none of {which} {counted(counts['mapped'], 'record')} has. "
            + (f"Did you mean `{shown(near)}`?" if (near := nearest(path, there)) else "Correct it, or omit it"),
        )
        for column, path in config.fields.paths().items()
        if column in config.fields.model_fields_set and not counts[column]
    ]


def _other_suffixes(others: Mapping[str, int], read: int, has_suffixes: bool) -> str:
    ranked = sorted(others, key=lambda suffix: (-others[suffix], suffix))
    counts = [f"{shown(suffix) or 'without any'} {others[suffix]:,}" for suffix in ranked[:MOST_SUFFIXES]]
    more = [f"{len(ranked) - MOST_SUFFIXES:,} more"] if len(ranked) > MOST_SUFFIXES else []
    count = sum(others.values())
    fits: dict[str, list[str]] = {}
    for suffix in ranked:
        if (found := format_by_name(suffix)) is not None:
            fits.setdefault(found, []).append(shown(suffix))
    formats = "; ".join(f"`format: {name}` for {', '.join(suffixes)}" for name, suffixes in fits.items())
    fix = f"Read them in their own source{'s' * (len(fits) > 1)}{f' ({formats})' if fits else ''}"
    if has_suffixes:
        fix = f'{f"{fix}, list" if fits else "List"} all suffixes to read in `suffixes` ("": files without one)'
    return (
        f"not read because of their suffixes: {count:,} of {counted(count + read, 'file')} "
        f"({', '.join(counts + more)}). {fix}, or leave them out with `exclude`"
    )


def read_twice(inputs: Mapping[str, SourceInputs]) -> list[str]:
    """Warnings about files that several sources read, under any names: their documents are in the corpus twice. Of an
    archive, other members may be other documents."""
    readers: dict[tuple[str, MemberGlobs | None], dict[str, InputFile]] = {}
    for source, found in sorted(inputs.items()):
        for uri, file in found.files.items():
            if file.size:
                readers.setdefault((file.stamp or uri, file.opens), {})[source] = file
    shared: dict[tuple[str, ...], list[InputFile]] = {}
    for by_source in readers.values():
        if len(by_source) > 1:
            shared.setdefault(tuple(by_source), []).append(next(iter(by_source.values())))
    return [
        f"{counted(len(files), 'file is', 'files are')} read by each of the sources {', '.join(sources)} (the first: "
        f"{shown(files[0].name)}), so the corpus has their documents {len(sources)} times. Let one source read them: "
        "change its paths, or `exclude`"
        for sources, files in shared.items()
    ]


def is_about_a_file(reason: str) -> bool:
    """Whether a row with this reason represents a file, or the rest of one, and not a record."""
    return reason == "empty_file" or _loses_a_file(reason)


def unread(dropped: Mapping[str, int]) -> dict[str, int]:
    """Records that a reader could not read, by reason, the most frequent first. Whole files, and records that kill
    workers, are reported separately.
    """
    found = {
        reason: rows
        for reason, rows in dropped.items()
        if reason not in NO_FAULT and reason != CRASHED and not _loses_a_file(reason)
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _loses_a_file(reason: str) -> bool:
    """Whether a row with this reason means that more than one record is lost."""
    fault, _, kind = reason.partition("_")
    return reason in _LOST_FILES or (fault in ("truncated", "corrupt") and kind in _OF_RECORDS)


def _each_once(of: Mapping[str, tuple[S, ...]], call: Callable[[tuple[S, ...]], T]) -> dict[str, T]:
    """The result for each tuple. It is called once for files with the same tuple, so N files of a folder take N steps
    and not N²."""
    shared = {id(others): others for others in of.values()}
    results = {key: call(others) for key, others in shared.items()}
    return {name: results[id(others)] for name, others in of.items()}


def work_of(source: Source, inputs: SourceInputs, group: FileGroup, limit: int | None) -> tuple[Read, dict[str, Any]]:
    """The work of reading a group, and the part of it that enters the task's key."""
    about: dict[str, Any] = {
        "source": source.name,
        "snapshot": group.snapshot,
        "license": source.license,
        "part_bytes": source.part_bytes,
    }
    # Only if they are set, so that work without them keeps its key.
    about |= {name: value for name, value in (("limit", limit), ("share", inputs.share)) if value is not None}
    pieces = [
        [exact(piece.name), inputs.content[piece.uri].sha256, piece.start, piece.stop, *_view_key(piece)]
        for piece in group.pieces
    ]
    work = Read(
        module=source.module,
        config=source.config,
        pieces=inputs.pieces(group),
        companions=inputs.companion_pieces(group),
        **about,
    )
    return work, {"pieces": pieces, "companions": inputs.companion_hashes(group), **about}


def _view_key(piece: Piece) -> list[Any]:
    """What is read of a file, for a task key, unless it is the whole file. Hash and name determine the rest."""
    if isinstance(piece.view, Faults):
        return [list(piece.view.rows)]
    if piece.place is not None and piece.place.ranges is not None:
        return [hashlib.sha256(piece.place.ranges).hexdigest()]
    return [] if piece.view is None else [type(piece.view).__name__, INDEX_VERSION]


async def find_inputs(
    recipe: Recipe,
    name: str,
    folders: Folders,
    contents: ContentHashes,
    executor: Executor,
    note: Note,
    listed: Callable[[SourceInputs], Awaitable[None]],
) -> SourceInputs:
    """List a source's files, hash those that are new or changed, and group them into read tasks. If the source has a
    limit, it is not known yet how many will be read, so `hash_files` is called before each group. `listed` is awaited
    before hashing, which may take hours.
    """
    source = recipe.sources[name]
    reader = stage_of(source.module, Reader)
    try:
        # In a thread: a signal must reach a run that lists millions of files.
        if source.index is not None:
            found = await asyncio.to_thread(list_indexed, source, recipe, folders, contents)
        else:
            found = await asyncio.to_thread(list_files, source, reader, recipe, folders)
    except asyncio.CancelledError:
        folders.stopped.set()
        raise
    on_disk = {file.uri: file for file in found.files}
    indexer = Indexer(contents, executor, note)
    content = {file.uri: Content(NOTHING, 0) for file in found.files if file.place is None}
    files = await open_archives(found, source, reader, recipe, indexer, content)
    pieces = {file.name: file.piece() for file in files}
    needed = reader.companions(list(pieces)) if reader.companions else {}
    companions = _each_once(needed, lambda others: tuple(pieces[other] for other in others))
    inputs = SourceInputs(
        name,
        on_disk,
        content,
        (),
        companions,
        found.skipped,
        found.others,
        found.unread,
        source.config,
        None,
        source.format == "code"
        or any(extracts(step) or (is_own(step.module) and "text" in columns_of(step)) for step in recipe.routes[name]),
        reader.fixes_of(source.config),
    )
    inputs = _grouped(inputs, files, source, reader, recipe.sample)
    await listed(inputs)
    if source.limit is None:
        await hash_files(inputs, inputs.groups, contents, executor, note)
    return inputs


def _grouped(
    inputs: SourceInputs, files: Sequence[InputFile], source: Source, reader: Reader[Any], share: float | None
) -> SourceInputs:
    """The inputs with the tasks of these files."""
    groups, taken = tuple(group_files(files, source.part_bytes, reader)), None
    if share is not None:
        groups, taken = sampled(files, source.part_bytes, reader, share)
    return replace(inputs, groups=groups, share=taken)


def layer_inputs(name: str, recipe: Recipe, parts: Sequence[tuple[str, Part]], store: Store) -> SourceInputs:
    """The inputs of a derived source: the parts of the step that makes it, with the labels of their documents."""
    source = recipe.sources[name]
    files = [
        InputFile(location, f"{label}.parquet", part.file_bytes, None, part.hash, place_of(location))
        for label, part in parts
        for location in (store.location(part),)
    ]
    groups = tuple(group_files(files, source.part_bytes, stage_of(source.module, Reader)))
    return SourceInputs(
        name, {file.uri: file for file in files}, {}, groups, {}, {}, {}, {}, source.config, is_derived=True
    )


def use_known_content(inputs: SourceInputs, groups: Sequence[FileGroup], contents: ContentHashes) -> list[InputFile]:
    """Use the known content of files that did not change since they were hashed; returns the other files."""
    files = inputs.needed(groups)
    inputs.content.update(
        {file.uri: known for file in files if (known := contents.get(file.uri, file.stamp)) is not None}
    )
    return [file for file in files if file.uri not in inputs.content]


async def hash_files(
    inputs: SourceInputs, groups: Sequence[FileGroup], contents: ContentHashes, executor: Executor, note: Note
) -> None:
    """Hash the files of some groups, unless their content is known."""
    inputs.content.update(await hash_new(use_known_content(inputs, groups, contents), contents, executor, note))
