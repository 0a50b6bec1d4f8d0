"""Receipts of takedowns: made from two versions of a corpus, and compared with the shards that are there."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill import __version__
from gristmill.engine.publish.run_record import end_of
from gristmill.engine.schedule.seen import Seen
from gristmill.errors import UserError
from gristmill.loader.order import Order
from gristmill.query.published import Published
from gristmill.query.takedown import Named, fields_of, is_taken, named_in, requests_of, sets_of
from gristmill.report.receipt import page
from gristmill.shardformat.manifest import Group, Shard
from gristmill.shardformat.receipt import FORMAT, NAME
from gristmill.stages.matches import content_hash
from gristmill.stages.shards.sidecars import by_document, positions
from gristmill.stages.takedown.takedown import Sets, copies_of, make_sets

SETS = "shingles.parquet"
PAGE = "receipt.html"
_BATCH = 256
Track = Callable[[str, Iterable[Any], int], Iterable[Any]]


def places_in(opened: Published, ids: Sequence[str], order: Order) -> dict[str, dict[str, Any]]:
    """Where documents lie in shards, and at which global samples they are seen: one pass over the indexes."""
    wanted = np.array([bytes.fromhex(doc_id) for doc_id in ids], "V16")
    found: dict[str, dict[str, Any]] = {}
    if not len(wanted):
        return found
    for number, group in enumerate(opened.manifest.groups):
        for shard in range(len(group.shards)):
            index = opened.index(group, shard)
            for piece in np.flatnonzero(np.isin(index.doc_id, wanted)).tolist():
                row = int(np.searchsorted(index.first_piece, piece, "right")) - 1
                place = {"group": group.name, "shard": shard, "rows": [], "samples": []}
                here = found.setdefault(bytes(index.doc_id[piece]).hex(), place)
                if row not in here["rows"]:
                    here["rows"].append(row)
                    here["samples"] = sorted([*here["samples"], *order.seen(number, shard, row)])
    return found


def make_receipt(before: Seen, after: Seen) -> tuple[dict[str, Any], pa.Table]:
    """What a receipt says, and the shingles of what was named."""
    named, fields = named_in(after), fields_of(after)
    old, new = Published(before), Published(after)
    places = places_in(old, [one.doc_id for one in named], Order(old.manifest))
    requests = requests_of(after)
    taken = [one for one in named if is_taken(one)]
    documents = [
        {**_document(one), **places[one.doc_id]} for one in named if one.doc_id in places and one.verdict is not None
    ]
    return {
        "format": FORMAT,
        "gristmill": __version__,
        "before": _version(before, old),
        "after": _version(after, new),
        "near": fields["near"],
        "copies": fields["copies"],
        "requests": [
            {
                "id": request.id,
                "date": request.date,
                "reason": request.reason,
                "asked": {kind: [item for of, item in request.items() if of == kind] for kind, _ in request.items()},
                "found": sum(one.request == request.id for one in named),
                "removed": sum(one.request == request.id for one in taken),
            }
            for request in requests
        ],
        "documents": documents,
        "elsewhere": [_document(one) for one in named if one.doc_id not in places and one.verdict is not None],
        "listed": [_document(one) for one in named if one.verdict is None],
        "shards": _shards(old, new),
    }, sets_of(after)


def _document(one: Named) -> dict[str, Any]:
    return dict(vars(one))


def _version(seen: Seen, opened: Published) -> dict[str, Any]:
    assert seen.record is not None
    return {
        "recipe": seen.name,
        "version": seen.record["version"],
        "run": end_of(seen.record),
        "manifest": opened.manifest.hash,
        "shards": os.path.dirname(opened.manifest.location),
    }


def _shards(old: Published, new: Published) -> dict[str, Any]:
    one, two = _files(old), _files(new)
    return {
        "unchanged": sum(two.get(key) == files for key, files in one.items()),
        "changed": [
            {"group": key[0], "shard": key[1], "before": one.get(key), "after": two.get(key)}
            for key in sorted(one.keys() | two.keys())
            if one.get(key) != two.get(key)
        ],
    }


def _files(opened: Published) -> dict[tuple[str, int], dict[str, str]]:
    return {
        (group.name, number): {"bin": shard.bin, "index": shard.index, "lineage": shard.lineage}
        for group in opened.manifest.groups
        for number, shard in enumerate(group.shards)
    }


def write_receipt(folder: Path, content: dict[str, Any], sets: pa.Table) -> None:
    """A folder with the receipt, the page and the shingles: all of them, or nothing."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise UserError(f"--out {folder}: nothing can be written there: {error.strerror}. Name another.") from None
    try:
        pq.write_table(sets, made / SETS, compression="zstd")
        content[SETS] = hashlib.sha256((made / SETS).read_bytes()).hexdigest()
        (made / NAME).write_text(json.dumps(content, indent=1) + "\n", "utf-8")
        (made / PAGE).write_text(page(content), "utf-8")
        os.chmod(made, 0o755)
        made.rename(folder)
    except OSError as error:
        raise UserError(f"--out {folder}: the receipt cannot be written: {error.strerror}. Name another.") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)


# Verifying


def absent(opened: Published, content: Mapping[str, Any], location: str, track: Track) -> Iterator[str]:
    """What of a receipt is not so in shards that should have nothing left of it; one line each."""
    manifest = opened.manifest
    if manifest.hash != content["after"]["manifest"]:
        yield (
            f"{manifest.location} has the manifest {manifest.hash[:12]}, and the receipt is for "
            f"{content['after']['manifest'][:12]}"
        )
    there = _files(opened)
    for one in content["shards"]["changed"]:
        files = there.get((one["group"], one["shard"]))
        if files is not None and files == one["before"]:
            yield f"{one['group']}, shard {one['shard']}: it was not rewritten"
    sets = _open_sets(location, content[SETS])
    gone = {one["doc_id"]: one["request"] for one in (*content["documents"], *content["elsewhere"])}
    hashes = {one["content_hash"]: one for one in content["documents"] if one["content_hash"]}
    known = {one["doc_id"] for one in content["listed"]}
    tasks = [(group, number, shard) for group in manifest.groups for number, shard in enumerate(group.shards)]
    for group, number, shard in track("shards", tasks, len(tasks)):
        name = f"{group.name}, shard {number}"
        ids, texts = _texts(opened, group, number, shard)
        for doc_id in ids:
            if doc_id in gone:
                yield f"{name}: document {doc_id} of {gone[doc_id]} is still there"
        for begin in range(0, len(ids), _BATCH):
            some = texts[begin : begin + _BATCH]
            for row, text in enumerate(some):
                if (of := hashes.get(content_hash(text))) is not None and ids[begin + row] not in gone:
                    yield f"{name}: document {ids[begin + row]} is {of['doc_id']} of {of['request']} to the byte"
            for copy in copies_of(pa.array(some, pa.string()), sets, float(content["near"])):
                doc_id = ids[begin + copy.row]
                if doc_id not in gone and doc_id not in known:
                    of_whom = sets.doc_ids[copy.owner]
                    what = "a text" if of_whom is None else of_whom.hex()
                    yield (
                        f"{name}: document {doc_id} is a near copy ({copy.similarity(sets):.3f}) of {what} of "
                        f"{sets.requests[copy.owner]}"
                    )


def _open_sets(location: str, digest: str) -> Sets:
    folder = location if os.path.isdir(location) else os.path.dirname(location)
    path = os.path.join(folder, SETS)
    try:
        data = Path(path).read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError("it does not have the hash that the receipt names")
        return make_sets(pq.read_table(pa.py_buffer(data)))
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"{path} cannot be used ({error}), so copies cannot be searched for. Copy the whole folder of the receipt "
            "again."
        ) from None


def _texts(opened: Published, group: Group, number: int, shard: Shard) -> tuple[list[str], list[str]]:
    """Ids and texts of the documents of a shard, decoded from its tokens."""
    files = opened.open_shard(group, number)
    index = files.index
    begins = positions(index)
    order, starts = by_document(index)
    tokens = np.concatenate([files.view(row) for row in range(index.header.samples)])
    ids, texts = [], []
    for first, last in zip(starts, np.append(starts[1:], len(order)), strict=True):
        pieces = order[first:last]
        spans = [tokens[int(begins[piece]) : int(begins[piece]) + int(index.length[piece])] for piece in pieces]
        whole = np.concatenate(spans)
        if len(whole) and int(whole[-1]) == index.header.end_of_document:
            whole = whole[:-1]
        ids.append(bytes(index.doc_id[pieces[0]]).hex())
        texts.append(opened.tokenizer.decode(whole))
    return ids, texts
