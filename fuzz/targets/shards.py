"""The files that a trainer opens: the manifest and the index of a shard."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fuzz.mutate import change_json
from fuzz.target import Target, hold, words
from gristmill.errors import UserError
from gristmill.shardformat.index import Header, Index, read_index, write_index
from gristmill.shardformat.manifest import manifest_hash, read_manifest


def _index_seeds() -> Iterator[bytes]:
    lengths = [3, 5, 2, 8, 1]
    header = Header(2, 8, 3, 5, 19, 5, 1, 0, "a" * 64, "b" * 64, "small", "web/A")
    ids = np.arange(10, dtype=np.int64).view("V16")
    made = Index(header, np.array([0, 2, 3, 5]), np.array(lengths), np.arange(5), ids)
    with TemporaryDirectory() as folder:
        write_index(Path(folder) / "x", made)
        yield (Path(folder) / "x").read_bytes()


def _check_index(data: bytes, folder: Path) -> None:
    path = folder / "x.index"
    path.write_bytes(data)
    try:
        index = read_index(path)
    except UserError:
        return
    write_index(folder / "again", index)
    again = read_index(folder / "again")
    hold(again.header == index.header, "written and read again the header differs")
    for one, other in zip(vars(index).values(), vars(again).values(), strict=True):
        hold(not isinstance(one, np.ndarray) or one.tobytes() == other.tobytes(), "written and read again it differs")


def _sealed(content: dict[str, object]) -> bytes:
    return json.dumps({**content, "hash": manifest_hash(content)}).encode()


def _manifest_seeds() -> Iterator[bytes]:
    shard = {"bin": "a" * 64, "index": "b" * 64, "lineage": "c" * 64, "samples": 4, "tokens": 30, "documents": 3}
    group = {
        "source": "web",
        "domain": "web",
        "weight": 1.0,
        "samples": 4,
        "tokens": 30,
        "documents": 3,
        "shards": [shard],
    }
    yield _sealed(
        {
            "format": "gristmill manifest",
            "format_version": 1,
            "recipe": "small",
            "seed": 7,
            "tokenizer": {"hash": "d" * 64, "vocab_size": 300, "end_of_document": 1, "padding": 0, "file": "e" * 64},
            "seq_len": 8,
            "token_bytes": 2,
            "groups": [{"name": "web/A", "tier": "A", **group}, {"name": "web/B", "tier": None, **group}],
            "phases": [
                {"name": "main", "samples": 9, "weights": {"web/A": 5, "web/B": 4}, "learning_rate": None},
                {
                    "name": "end",
                    "samples": 2,
                    "weights": {"web/A": 2, "web/B": 0},
                    "learning_rate": {"shape": "linear"},
                },
            ],
            "files": {"a" * 64: "web/0.bin", "b" * 64: "web/0.index"},
        }
    )


def _check_manifest(data: bytes, folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_bytes(data)
    try:
        made = read_manifest(path)
    except UserError:
        return
    hold(made.samples > 0 and made.token_bytes in (2, 4), "numbers that no loader can use")
    hold(len(made.numbers) == len(made.groups) and bool(made.sources), "groups that cannot be distinguished")
    for group in made.drawn:
        hold(isinstance(group.name, str) and isinstance(group.source, str), "a name that is not text")
        for shard in group.shards:
            hold(made.bin_bytes(shard) >= 0, "a shard of less than nothing")
            try:
                hold(isinstance(made.where(shard.bin), str), "a place that is not text")
            except UserError:
                continue
    hold(read_manifest(path) == made, "the same file is another manifest")


def _reseal(draw: random.Random, data: bytes) -> bytes:
    """A changed value with a correct hash, which only a check of the content can find."""
    changed = change_json(draw, data)
    try:
        content = json.loads(changed)
        return _sealed(content) if isinstance(content, dict) else changed
    except (ValueError, RecursionError):
        return changed


_WORDS = words(b'{|}|[|]|"|,|:|null|-1|1e400|NaN|"hash": |"groups": [|"phases": [|"samples": |\\ud800|[[[[[[[[')

TARGETS = [
    Target("index", _index_seeds, _check_index, (b"GRISTIDX", b"\x01\0\0\0", b"\xff" * 8, bytes(8), b"\xff")),
    Target("manifest", _manifest_seeds, _check_manifest, _WORDS, (_reseal, _reseal, change_json)),
]
