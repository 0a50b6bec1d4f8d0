"""The inputs that are not a crawl: reference prose as JSONL and a tree of code, with their own defects."""

import json
from pathlib import Path
from pydoc_data.topics import topics
from random import Random

from backports import zstd

from demo.articles import sources, stdlib
from demo.truth import Plant, Truth

CODE_BYTES = 8_000_000
_FILES = 3
_LICENSE = """SPDX-License-Identifier: PSF-2.0

These files are part of the standard library of Python and are distributed under the license agreement of the Python
Software Foundation, version 2. The agreement is printed by `license()` at the prompt of the interpreter.
"""


def write_reference(folder: Path, truth: Truth) -> None:
    """The language reference by topic, and lines that are not records: bad JSON in one file, bad bytes in another."""
    folder.mkdir(parents=True)
    rng = Random(f"{truth.seed}/reference")
    files: list[list[bytes]] = [[] for _ in range(_FILES)]
    for number, name in enumerate(sorted(topics)):
        text = topics[name].strip()
        title = text.split("\n", 1)[0]
        url = f"https://reference.pyworkshop.example/{name}"
        record = {"id": f"topic-{name}", "title": title, "text": text, "url": url}
        files[number % _FILES].append(json.dumps(record, ensure_ascii=False).encode())
    defects = (
        ("bad_json_line", 0, b'{"id": "topic-cut", "title": "A record without an end", "text": "It stops'),
        ("bad_json_line", 0, b"id,title,text"),
        (
            "invalid_utf8_line",
            1,
            b'{"id": "topic-bytes", "title": "Bytes", "text": "Neither \xff\xfe nor \xc3( is text."}',
        ),
    )
    for kind, number, line in defects:
        files[number].insert(rng.randrange(1, len(files[number])), line)
        truth.plants[kind].append(Plant(path=f"{folder.name}/topics-{number:02}.jsonl.zst"))
    for number, lines in enumerate(files):
        packed = zstd.compress(b"".join(line + b"\n" for line in lines), 3)
        (folder / f"topics-{number:02}.jsonl.zst").write_bytes(packed)


def write_code(folder: Path, truth: Truth) -> None:
    """About 8 MB of the standard library's sources under their license, two binary files and two empty ones."""
    root = folder / "stdlib"
    rng = Random(f"{truth.seed}/code")
    paths = sources()
    rng.shuffle(paths)
    left = CODE_BYTES * truth.scale
    for path in paths:
        content = path.read_bytes()
        left -= len(content)
        if left < 0:
            break
        _put(root / path.relative_to(stdlib()), content)
    license_file = stdlib() / "LICENSE.txt"
    _put(root / "LICENSE", license_file.read_bytes() if license_file.is_file() else _LICENSE.encode())
    noise = rng.randbytes(20_000).replace(b"\n", b"\x00")
    for kind, name, content in (
        ("binary_file", "json/_planted_table.py", noise),
        ("binary_file", "_planted_image.c", b"\x7fELF" + noise[:4000]),
        ("empty_file", "json/_planted_nothing.py", b""),
        ("empty_file", "_planted_blank.py", b""),
    ):
        _put(root / name, content)
        truth.plants[kind].append(Plant(path=f"{folder.name}/stdlib/{name}"))


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
