"""Receipts of takedowns: written from two versions of a corpus, and verified against shards."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill import __version__
from gristmill.engine.publish.run_record import end_of
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.engine.schedule.progress import Track
from gristmill.errors import UserError
from gristmill.loader.order import Order
from gristmill.processes import new_folder
from gristmill.query.documents.lookup import find
from gristmill.query.takedown.takedown import fields_of, find_matches, requests_of, text_of, texts_of, unsent_in
from gristmill.query.versions.published import Published
from gristmill.report.receipt import page
from gristmill.shardformat.manifest import Group, Shard
from gristmill.shardformat.receipt import FORMAT, NAME, seal_of
from gristmill.stages.matches import content_hash
from gristmill.stages.shards.sidecars import by_document, positions
from gristmill.stages.takedown.requests import ITEMS
from gristmill.stages.takedown.takedown import Copy, Sets, copies_of, in_part, make_sets
from gristmill.stages.takedown.takedown_sets import FEWEST, OF_RECEIPT, WORDS

PAGE = "receipt.html"
_BATCH = 256


def places_in(opened: Published, ids: Sequence[str], order: Order) -> dict[str, dict[str, Any]]:
    """The locations of documents in shards and the global samples that see them, in one pass over the indexes."""
    wanted = np.array([bytes.fromhex(doc_id) for doc_id in ids], "V16")
    found: dict[str, dict[str, Any]] = {}
    if not len(wanted):
        return found
    for number, group in enumerate(opened.manifest.groups):
        for shard in range(len(group.shards)):
            index = opened.index(group, shard)
            pieces = np.flatnonzero(np.isin(index.doc_id, wanted))
            rows = np.searchsorted(index.first_piece, pieces, "right") - 1
            for doc_id, row in dict.fromkeys(zip(map(bytes, index.doc_id[pieces]), rows.tolist(), strict=True)):
                location = {"group": group.name, "shard": shard, "rows": [], "samples": []}
                here = found.setdefault(doc_id.hex(), location)
                here["rows"].append(row)
                here["samples"] += order.seen(number, shard, row)
    for here in found.values():
        here["samples"].sort()
    return found


def make_receipt(before: CorpusView, after: CorpusView, note: Callable[[str], None]) -> tuple[dict[str, Any], pa.Table]:
    """The contents of a receipt, and the shingles of the named documents; `note` reports what the search left out.

    Requests are matched in the earlier version: its inputs may differ, and so may ids that are derived from locations.
    Whether a document is gone is decided by its text.
    """
    requests, fields = requests_of(after), fields_of(after)
    found = find_matches(before, requests, texts_of(after), fields["near"], note)
    old, new = Published(before), Published(after)
    hashes = {id(one): content_hash(text_of(before, one.place) or "") for one in found.answers}
    kept = [one for one in found.answers if one.place.is_kept]
    still, gone = set(), set[tuple[bytes, str]]()
    if kept:
        wanted = sorted({hashes[id(one)] for one in kept})
        still = {place.query for place in find(after, content_hash=wanted) if place.is_kept}
        ids = sorted({one.place.doc_id.hex() for one in kept})
        dropped = [place for place in find(after, doc_id=ids) if not place.is_kept]
        gone = {(place.doc_id, content_hash(text_of(after, place) or "")) for place in dropped}
    places = places_in(old, [one.place.doc_id.hex() for one in kept], Order(old.manifest))
    lengths = found.sets.column("shingles").combine_chunks().value_lengths().to_pylist()
    sizes = dict(zip(found.sets.column("doc_id").to_pylist(), lengths, strict=True))
    sorted_out: dict[str, list[dict[str, Any]]] = {"documents": [], "elsewhere": [], "listed": [], "left": []}
    for one in found.answers:
        doc_id = one.place.doc_id.hex()
        about = {
            **{name: getattr(one, name) for name in ("request", "named_by", "copy_of", "similarity", "parent", "url")},
            "doc_id": doc_id,
            "source": one.place.document.source,
            "content_hash": hashes[id(one)],
        }
        is_gone = (one.place.doc_id, hashes[id(one)]) in gone  # also if a copy stays under another id
        if one.place.is_kept and hashes[id(one)] in still and not is_gone:
            few = one.copy_of is not None and sizes[bytes.fromhex(one.copy_of)] < FEWEST
            stays = one.copy_of is not None and (few or fields["copies"] != "go")
            sorted_out["listed" if stays else "left"].append(about)
        elif doc_id in places:
            sorted_out["documents"].append({**about, **places[doc_id]})
        else:
            sorted_out["elsewhere"].append(about)
    finds = Counter(one.request for one in found.answers)
    removes = Counter(one["request"] for one in sorted_out["documents"])
    return {
        "format": FORMAT,
        "gristmill": __version__,
        "words": WORDS,
        "before": _version(before, old),
        "after": _version(after, new),
        "near": fields["near"],
        "copies": fields["copies"],
        "requests": [
            {
                "id": request.id,
                "date": request.date,
                "reason": request.reason,
                "asked": {kind: list(items) for kind in ITEMS if (items := getattr(request, kind))},
                "found": finds[request.id],
                "removed": removes[request.id],
            }
            for request in requests
        ],
        "restored": {} if after.record is None else after.record["restored"],
        **sorted_out,
        "unsent": list(unsent_in(after)),
        "shards": _shards(old, new),
    }, found.sets


def _version(view: CorpusView, opened: Published) -> dict[str, Any]:
    assert view.record is not None
    return {
        "recipe": view.name,
        "version": view.record["version"],
        "run": end_of(view.record),
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
    """Write a folder with the receipt, the page and the shingles: all of them, or nothing."""
    try:
        with new_folder(folder) as new:
            pq.write_table(sets, new / OF_RECEIPT, compression="zstd")
            content[OF_RECEIPT] = hashlib.sha256((new / OF_RECEIPT).read_bytes()).hexdigest()
            content["seal"] = seal_of(content)
            (new / NAME).write_text(json.dumps(content, indent=1) + "\n", "utf-8")
            (new / PAGE).write_text(page(content), "utf-8")
    except OSError as error:
        raise UserError(
            f"--out {folder}: the receipt cannot be written: {error.strerror}. Name another folder."
        ) from None


# Verifying


def absent(
    opened: Published,
    content: Mapping[str, Any],
    location: str,
    track: Track,
    note: Callable[[str], None],
    may_differ: bool = False,
) -> Iterator[str]:
    """The faults of shards that should not contain the removed documents, one line each. The shards are those of the
    receipt, unless they `may_differ`. `note` reports what the search left out.
    """
    manifest, in_part_only = opened.manifest, 0
    if not may_differ and manifest.hash != content["after"]["manifest"]:
        yield (
            f"{manifest.location} has the manifest {manifest.hash[:12]}, but the receipt is for "
            f"{content['after']['manifest'][:12]}"
        )
    there = _files(opened)
    for one in content["shards"]["changed"]:
        files = there.get((one["group"], one["shard"]))
        if files is not None and files == one["before"]:
            yield f"{one['group']}, shard {one['shard']}: it was not rewritten"
    if content.get("words") != WORDS:
        note("The receipt splits words differently than this version of Gristmill: copies outside ASCII may be missed.")
    sets = _open_sets(location, content[OF_RECEIPT])
    gone = {one["doc_id"]: one for one in (*content["documents"], *content["elsewhere"])}
    unsent = {one["doc_id"]: one for one in content["unsent"]}
    hashes = {one["content_hash"]: one for one in gone.values()}
    known = {one["content_hash"] for one in content["listed"]}
    tasks = [(group, number, shard) for group in manifest.groups for number, shard in enumerate(group.shards)]
    for group, number, shard in track("shards", tasks, len(tasks)):
        name = f"{group.name}, shard {number}"
        ids, texts = _texts(opened, group, number, shard)
        for begin in range(0, len(ids), _BATCH):
            some = texts[begin : begin + _BATCH]
            like, cut = copies_of(pa.array(some, pa.string()), sets, float(content["near"]))
            copies, in_part_only = {copy.row: copy for copy in like}, in_part_only + len(cut)
            for row, text in enumerate(some):
                doc_id, copy = ids[begin + row], copies.get(row)
                if doc_id in unsent:
                    one = unsent[doc_id]
                    yield f"{name}: document {doc_id} was generated from {one['parent']} of {one['request']}"
                elif doc_id in gone and (copy is not None or content_hash(text) in hashes):
                    yield f"{name}: document {doc_id} of {gone[doc_id]['request']} is still there"
                elif content["copies"] != "keep" and content_hash(text) not in known and copy is not None:
                    fault = _copy(doc_id, text, copy, sets, hashes)
                    yield from () if fault is None else (f"{name}: {fault}",)
    if in_part_only:
        note(f"{in_part(in_part_only)}.")


def _copy(doc_id: str, text: str, copy: Copy, sets: Sets, hashes: Mapping[str, Any]) -> str | None:
    """The fault if a document is a copy of a removed one. A copy of only a few words may be a coincidence."""
    named, of = sets.doc_ids[copy.owner], hashes.get(content_hash(text))
    if named is not None and sets.sizes[copy.owner] < FEWEST:
        return None
    if of is not None:
        return f"document {doc_id} is an exact copy of {of['doc_id']} of {of['request']}"
    what = "a text" if named is None else named.hex()
    return f"document {doc_id} is a near copy ({copy.similarity(sets):.3f}) of {what} of {sets.requests[copy.owner]}"


def _open_sets(location: str, digest: str) -> Sets:
    folder = location if os.path.isdir(location) else os.path.dirname(location)
    path = os.path.join(folder, OF_RECEIPT)
    try:
        data = Path(path).read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError("its hash is not the one in the receipt")
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
