"""Whether two versions of the reader of archives give the same records: on crawlers' files, and on damaged copies.

    python bench/_reader_rows.py damage FOLDER DATA...        writes damaged copies of archives (seeded) to FOLDER
    python bench/_reader_rows.py rows DATA... > rows.jsonl    the rows of all files, in the version that is installed
    python bench/_reader_rows.py compare OLD.jsonl NEW.jsonl  what differs, by form and damage

A document is a URL and its content. It is genuine if a file without damage has it.
"""

import gzip
import hashlib
import json
import random
import re
import sys
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

from backports import zstd

SEEDS = 12
MOST_BYTES, MOST_RECORDS = 1 << 20, 40
SUFFIXES = (".warc", ".arc", ".wet", ".wat", ".gz", ".zst", ".lz4")
RECORD = re.compile(rb"(?<=\r\n\r\n)(?=WARC/1\.)")


def archives(folders: list[str]) -> list[Path]:
    found = {path for folder in folders for path in (Path(folder), *Path(folder).rglob("*"))}
    return sorted(path for path in found if path.is_file() and path.name.endswith(SUFFIXES))


def forms(plain: bytes) -> dict[str, bytes]:
    """An archive as writers store it."""
    records, pack = RECORD.split(plain), partial(zstd.compress, options={zstd.CompressionParameter.checksum_flag: 1})
    blocks = [plain[start : start + 20_000] for start in range(0, len(plain), 20_000)]
    return {
        "plain": plain,
        "record.gz": b"".join(gzip.compress(record, mtime=0) for record in records),
        "one.gz": gzip.compress(plain, mtime=0),
        "blocks.gz": b"".join(gzip.compress(block, mtime=0) for block in blocks),
        "record.zst": b"".join(map(pack, records)),
    }


def broken(draw: random.Random, kind: str, data: bytes) -> bytes:
    start = draw.randrange(len(data))
    before, after = data[:start], data[start:]
    if kind == "flip":
        return before + bytes([data[start] ^ 1 << draw.randrange(8)]) + after[1:]
    if kind == "cut":
        return draw.choice([before, after, before + after[draw.choice([1, 7, 200, 1500]) :]])
    if kind == "insert":
        noise = [draw.randbytes(draw.choice([1, 40, 700])), b"\r\n", bytes(60), b"WARC/1.0\r\n", b"\x1f\x8b\x08\0"]
        return before + draw.choice(noise) + after
    if kind == "overwrite":
        return before + bytes(size := draw.choice([1, 10, 500])) + after[size:]
    return before + after[: draw.choice([5, 300, 3000])] + after  # duplicate


def lying(draw: random.Random, kind: str, plain: bytes) -> bytes:
    """An archive with a wrong length in a header of WARC, or without a header of HTTP."""
    mark = b"\r\nContent-Length: " if kind == "length" else b"\r\n\r\nHTTP/1."
    head, *parts = plain.split(mark)
    number = draw.randrange(len(parts)) if parts else 0
    if parts and kind == "length":
        parts[number] = draw.choice([b"9", b"1", b"-", b"", b"99999999"]) + parts[number][draw.choice([0, 1]) :]
    marks = [mark] * len(parts)
    if parts and kind == "no_http":
        parts[number] = parts[number].partition(b"\r\n\r\n")[2]
        marks[number] = draw.choice([b"\r\n\r\n", b"\r\n\r\nx", b"\r\n\r\n\r\n\r\n"])
    return head + b"".join(mark + part for mark, part in zip(marks, parts, strict=True))


def damage(folder: Path, data: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in archives(data):
        packed = path.read_bytes()
        try:
            plain = gzip.decompress(packed) if path.suffix == ".gz" else packed
        except (OSError, EOFError):
            plain = b""
        plain = b"".join(RECORD.split(plain)[:MOST_RECORDS])[:MOST_BYTES]
        is_warc = plain.startswith(b"WARC/")
        for seed in range(SEEDS):
            stored = {f"as_is{path.suffix}": packed[:MOST_BYTES], **(forms(plain) if is_warc else {})}
            for form, content in stored.items():
                draw = random.Random(f"{path.name} {form} {seed}")
                kind = draw.choice(["flip", "cut", "insert", "overwrite", "duplicate"])
                (folder / f"{path.stem}~{form}~{kind}~{seed}.warc").write_bytes(broken(draw, kind, content))
            if is_warc:
                draw = random.Random(f"{path.name} {seed}")
                kind = draw.choice(["length", "no_http"])
                form, content = draw.choice(sorted(forms(lying(draw, kind, plain)).items()))
                (folder / f"{path.stem}~{form}~{kind}~{seed}.warc").write_bytes(content)


def rows(data: list[str]) -> None:
    from gristmill.schema import as_str
    from gristmill.stages.contract import Piece
    from gristmill.stages.ingest import warc

    for path in archives(data):
        for row in warc.read(Piece(str(path), path.name), warc.Config()):
            text = row.text if row.html is None else row.html
            content = None if text is None else hashlib.sha256(as_str(text).encode()).hexdigest()[:16]
            stated = [row.position, row.key, row.url, row.timestamp_us, content, row.drop, row.detail, row.meta]
            print(json.dumps([path.name, *stated]))


def compare(old: str, new: str) -> None:
    before, after = (rows_by_file(name) for name in (old, new))
    genuine = set().union(*(documents(rows) for file, rows in before.items() if "~" not in file))
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for file in sorted({*before, *after}):
        mine, yours = documents(before[file]), documents(after[file])
        total = totals["~".join(file.split("~")[1:3]) or "genuine"]
        total.update(files=1, rows=len(before[file]), documents=mine.total(), differ=before[file] != after[file])
        total.update(lost=(mine - yours).total(), gained=(yours - mine).total())
        total.update({"false before": (mine - Counter(dict.fromkeys(genuine, 1 << 30))).total()})
        total.update({"false after": (yours - Counter(dict.fromkeys(genuine, 1 << 30))).total()})
        for sign, rows, others in (("-", before[file], after[file]), ("+", after[file], before[file])):
            for row in [row for row in rows if row not in others][:4]:
                print(sign, file, json.dumps(row)[:300])
    for kind, counts in [*sorted(totals.items()), ("all", sum(totals.values(), Counter()))]:
        print(kind, dict(counts))


def rows_by_file(name: str) -> dict[str, list[list]]:
    files: dict[str, list[list]] = defaultdict(list)
    for line in Path(name).read_text().splitlines():
        file, *row = json.loads(line)
        files[file].append(row)
    return files


def documents(rows: list[list]) -> Counter[tuple[str, str]]:
    return Counter((url, content) for _, _, url, _, content, drop, _, _ in rows if drop is None)


if __name__ == "__main__":
    command, *given = sys.argv[1:]
    if command == "damage":
        damage(Path(given[0]), given[1:])
    elif command == "rows":
        rows(given)
    else:
        compare(*given)
