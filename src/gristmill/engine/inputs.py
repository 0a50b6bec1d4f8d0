"""What a source reads: its files, their content hashes, their groups, and files that readers look at beside them."""

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gristmill.engine.content import ContentHashes
from gristmill.engine.executor import Executor
from gristmill.engine.files import Group, InputFile, group_files, list_files
from gristmill.engine.insist import Note, insist
from gristmill.engine.task import Hash, Task
from gristmill.recipe.model import Recipe
from gristmill.stages.contract import Piece

HASH_TASK_BYTES = 256 << 20
HASH_TASK_FILES = 1000


@dataclass(frozen=True)
class SourceInputs:
    """The files of one source, ready to be read."""

    source: str
    files: Mapping[str, InputFile]
    """By URI."""
    content: Mapping[str, str]
    """URI -> sha256."""
    groups: Sequence[Group]
    companions: Mapping[str, tuple[Piece, ...]]
    """File name -> the files that its reader also looks at."""

    def companion_pieces(self, group: Group) -> dict[str, tuple[Piece, ...]]:
        return {piece.name: self.companions[piece.name] for piece in group.pieces if piece.name in self.companions}

    def companion_hashes(self, group: Group) -> list[list[str]]:
        return [
            [name, other.name, self.content[other.uri]]
            for name, others in sorted(self.companion_pieces(group).items())
            for other in others
        ]

    def seen(self, group: Group) -> dict[str, tuple[int, int]]:
        found = {piece.uri: self.files[piece.uri].seen for piece in group.pieces}
        return {uri: seen for uri, seen in found.items() if seen is not None}


async def find_inputs(
    recipe: Recipe, name: str, contents: ContentHashes, executor: Executor, note: Note
) -> SourceInputs:
    """List a source's files, hash those that are new or changed, and group them into read tasks."""
    source = recipe.sources[name]
    module = importlib.import_module(source.module)
    files = list_files(source, module, recipe)
    await _hash_new(files, contents, executor, note)
    content = {file.uri: contents.get(file.uri, file.stamp) or "" for file in files}
    pieces = {file.name: Piece(file.uri, file.name) for file in files}
    beside = module.companions(list(pieces)) if hasattr(module, "companions") else {}
    companions = {name: tuple(pieces[other] for other in others) for name, others in beside.items()}
    groups = tuple(group_files(files, source.part_bytes, module))
    return SourceInputs(name, {file.uri: file for file in files}, content, groups, companions)


async def _hash_new(files: Sequence[InputFile], contents: ContentHashes, executor: Executor, note: Note) -> None:
    async def hash_some(batch: Sequence[InputFile]) -> None:
        uris = tuple(file.uri for file in batch)
        task = Task("", "inputs", f"hashing {len(uris)} files", Hash(uris), (-1,))
        result = await insist(task, executor, note)
        for file, value in zip(batch, result.values, strict=True):
            contents.remember(file.uri, file.stamp, value)

    new = [file for file in files if contents.get(file.uri, file.stamp) is None]
    batches: list[list[InputFile]] = []
    size = HASH_TASK_BYTES
    for file in new:
        if size >= HASH_TASK_BYTES or len(batches[-1]) >= HASH_TASK_FILES:
            batches.append([])
            size = 0
        batches[-1].append(file)
        size += file.size
    await asyncio.gather(*(hash_some(batch) for batch in batches))
