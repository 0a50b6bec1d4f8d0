"""gristmill shards: show and check the files that a trainer reads."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import typer

from gristmill.cli.run.mix_table import short
from gristmill.cli.shards import find as shards_find
from gristmill.cli.shards.open import ShardsName, open_shards
from gristmill.cli.shared.options import Json, StoreUri, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import Bars, console
from gristmill.cli.shared.usage import Commands
from gristmill.counted import counted
from gristmill.engine.work.memory import available_cores
from gristmill.errors import UserError
from gristmill.loader.checks import renew_seal
from gristmill.query.versions.published import Published
from gristmill.shardformat.index import Index, read_index
from gristmill.shardformat.locations import is_remote
from gristmill.shardformat.manifest import Group, Shard
from gristmill.shardformat.open_file import open_plain
from gristmill.stages.shards.shards import SIDECARS, TOKENS_AS
from gristmill.stages.shards.sidecars import sidecars

app = typer.Typer(
    help="Check the shards of a manifest, and find documents in them.", cls=Commands, rich_markup_mode=None
)


@app.command(epilog="Example: gristmill shards verify recipes/demo.yaml")
def verify(shards: ShardsName, store: StoreUri = None, json: Json = False) -> None:
    """Read every file and compare it with the manifest.

    Exit code 1: a fault. Correct files that lost their modification time in a copy get it back, since loaders recognize
    them by it.
    """
    opened = open_shards(shards, store)
    manifest = opened.manifest
    tasks = [(group, number, shard) for group in manifest.groups for number, shard in enumerate(group.shards)]
    _ = opened.cache  # created once, before threads use it
    with ThreadPoolExecutor(available_cores()) as pool, Bars(quiet=json) as bars:
        checked = pool.map(lambda task: _checked(opened, *task), tasks)
        faults = [fault for some in bars.track("shards", checked, len(tasks)) for fault in some]
    try:
        opened.checked(manifest.tokenizer["file"])
    except UserError as error:
        faults.append(f"tokenizer: {error}")
    if json:
        print_json({"manifest": manifest.hash, "shards": len(tasks), "faults": faults})
    else:
        out = console()
        for fault in faults:
            out.print(words(fault))
        tokens = sum(shard.tokens for *_, shard in tasks)
        result = counted(len(faults), "fault") if faults else "every file is as the run wrote it"
        out.print(f"{counted(len(tasks), 'shard')}, {short(tokens)} tokens: {result}.")
    if faults:
        raise typer.Exit(1)


def _checked(opened: Published, group: Group, number: int, shard: Shard) -> list[str]:
    """The faults of a shard. Fetched files are deleted afterwards, and correct local files are sealed."""
    faults = list(_faults(opened, group, number, shard))
    for digest in (shard.bin, shard.index, shard.lineage):
        if opened.cache is not None:
            (opened.cache.folder / digest).unlink(missing_ok=True)
        if not faults and not is_remote(opened.manifest.where(digest)):
            renew_seal(opened.local(digest), digest)
    return faults


def _faults(opened: Published, group: Group, number: int, shard: Shard) -> Iterator[str]:
    manifest = opened.manifest
    name = f"{group.name}, shard {number}"
    digests = (shard.bin, shard.index, shard.lineage)
    try:
        paths = [opened.local(digest) for digest in digests]
        wrong = [path for path, digest in zip(paths, digests, strict=True) if not _has_hash(path, digest)]
        yield from (f"{name}: {path} does not match its hash in the manifest" for path in wrong)
        if wrong:
            return
        index = read_index(paths[1])
        opened.shards.compare(index, group, shard)
    except (OSError, UserError) as error:
        yield f"{name}: {error}"
        return
    if not is_remote(manifest.where(shard.bin)):
        others = _other_trainers(manifest.where(shard.bin).removesuffix(".bin"), index, paths[2], shard.bin)
        yield from (f"{name}: {path} is damaged: it does not describe the shard" for path in others)


def _has_hash(path: str, digest: str) -> bool:
    with open(open_plain(path)[0], "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == digest


def _other_trainers(stem: str, index: Index, lineage: str | Path, digest: str) -> Iterator[str]:
    """Existing files for other trainers that do not match the shard."""
    for name, content in sidecars(index, lineage, SIDECARS).items():
        path = stem + name.removeprefix("tokens")
        opener = gzip.open if name.endswith(".gz") else open
        wanted = gzip.decompress(content) if name.endswith(".gz") else content
        with suppress(FileNotFoundError):
            try:
                with opener(path, "rb") as file:
                    is_right = file.read(len(wanted) + 1) == wanted
            except (gzip.BadGzipFile, EOFError, zlib.error):
                is_right = False
            if not is_right:
                yield path
    for path in (stem + ending for ending in TOKENS_AS.values() if ending != ".bin"):
        with suppress(FileNotFoundError):
            if not os.path.samefile(path, stem + ".bin") and not _has_hash(path, digest):
                yield path


app.command(name="find", epilog=shards_find.EXAMPLE)(shards_find.command)
