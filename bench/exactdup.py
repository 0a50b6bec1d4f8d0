"""Exact deduplication, emit and reduce, against hashing in plain Python and grouping in Arrow; one core, same texts.

A third of the documents are copies, half of them with another layout. The plain way is a dictionary of the SHA-256 of
each text. It also says which documents must stay, and ours must agree. Arrow's group-by compares only bytes, so it runs
against `normalise: none`. CPU time, best of three rounds, without reading and storing.
"""

import hashlib
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.inputs import measurement, texts
from gristmill.stages.dedup import exact_dedup
from gristmill.stages.dedup.exact_dedup import Config
from gristmill.stages.shared.keep_order import KeepOrder

LIMIT_BYTES = 40_000_000
BATCH_ROWS = 1000
ROUNDS = 3
KEEP = KeepOrder(by=())


def run(data: Path | None) -> Iterable[dict]:
    found = with_copies(texts(data, LIMIT_BYTES))
    size = sum(len(text.encode()) for text in found)
    draw = random.Random(1)
    ids = [draw.randbytes(16) for _ in found]
    table = pa.table({"text": pa.array(found, pa.string()), "doc_id": pa.array(ids, pa.binary(16))})
    batches = table.to_batches(max_chunksize=BATCH_ROWS)

    loose, exact = (Config(scope="global", normalise=form, keep=KEEP) for form in ("whitespace", "none"))
    ours, kept = best(lambda: survivors(batches, loose))
    plain, expected = best(lambda: plainly(found, ids, lambda text: " ".join(text.split())))
    check(kept, expected)
    yield measurement("exactdup.whitespace", size / ours / 1e6, "MB/s", "Python, sha256 in a dict", size / plain / 1e6)

    ours, kept = best(lambda: survivors(batches, exact))
    plain, expected = best(lambda: plainly(found, ids, str))
    check(kept, expected)
    yield measurement("exactdup.bytes", size / ours / 1e6, "MB/s", "Python, sha256 in a dict", size / plain / 1e6)
    arrow, expected = best(lambda: grouped(table))
    check(kept, expected)
    yield measurement(
        "exactdup.bytes_grouped", size / ours / 1e6, "MB/s", "pyarrow, group_by the text", size / arrow / 1e6
    )


def with_copies(found: list[str]) -> list[str]:
    """Adds half as many copies as documents, every other one with more white space."""
    draw = random.Random(0)
    copies = draw.choices(found, k=len(found) // 2)
    copies[::2] = [" " + text.replace("\n", " \n\t") for text in copies[::2]]
    together = found + copies
    draw.shuffle(together)
    return together


def survivors(batches: list[pa.RecordBatch], config: Config) -> set[bytes]:
    """The ids that stay, including the sorting that the engine does between emit and reduce."""
    sent = []
    for part, batch in enumerate(batches):
        records = exact_dedup.emit(batch, config)
        mark = pa.array(np.full(records.num_rows, part, np.uint64))
        sent.append(pa.Table.from_batches([records.append_column("part", mark)]))
    order = [(name, "ascending") for name in ("key", "part", "row")]
    answers = exact_dedup.reduce(pa.concat_tables(sent).combine_chunks().sort_by(order), config)
    kept = answers.filter(answers["drop"].is_null())
    places = kept["part"].to_numpy().astype(np.int64) * BATCH_ROWS + kept["row"].to_numpy()
    ids = pa.chunked_array([batch.column("doc_id") for batch in batches])
    return set(ids.take(pa.array(places)).to_pylist())


def plainly(found: list[str], ids: list[bytes], form: Callable[[str], str]) -> set[bytes]:
    keeper: dict[bytes, bytes] = {}
    for text, doc_id in zip(found, ids, strict=True):
        digest = hashlib.sha256(form(text).encode()).digest()
        keeper[digest] = min(keeper.get(digest, doc_id), doc_id)
    return set(keeper.values())


def grouped(table: pa.Table) -> set[bytes]:
    together = table.group_by("text", use_threads=False).aggregate([("doc_id", "min")])
    return set(together["doc_id_min"].to_pylist())


def best(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of the fastest round, after one that is not counted, and the result."""
    result = work()
    times = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times), result


def check(kept: set[bytes], expected: set[bytes]) -> None:
    if kept != expected:
        raise RuntimeError(f"{len(kept)} documents stay, {len(expected)} should, {len(kept ^ expected)} differ")
