"""Small corpora and their shards, and a plain reader of shards to compare with."""

import hashlib
import random

import numpy as np
import pyarrow as pa

from gristmill.shardformat.index import read_index
from gristmill.stages.shards import shards
from gristmill.stages.shards.pack import write_shard
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer

END, PAD = 256, 257
NAMES = ("<|end_of_text|>", "<|pad|>")
NOTHING = np.zeros(0, np.int32)


def tokenizer_file(folder, specials=NAMES):
    """A tokenizer of 256 bytes and some special tokens."""
    return write_json(Tokenizer.from_merges("gristmill", NOTHING, NOTHING, specials), folder)


def corpus(count=300, longest=900, seed=1):
    """doc_id -> ids, the last of which is the end of the document."""
    draw = random.Random(seed)
    made = {}
    for number in range(count):
        length = draw.choice([draw.randint(0, 30), draw.randint(0, longest), 63, 64])
        made[doc_id(number)] = [draw.randrange(256) for _ in range(length)] + [END]
    return made


def doc_id(number):
    return hashlib.blake2b(str(number).encode(), digest_size=16).digest()


def locator(name):
    return f"in/{name.hex()[:4]}.txt#{name.hex()}"


def batch_of(documents, group="web/A", kind="<u2"):
    """The input of `emit` for some documents."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array(documents, pa.binary(16)),
            pa.array([locator(name) for name in documents], pa.string()),
            pa.array([np.array(ids, kind).tobytes() for ids in documents.values()], pa.large_binary()),
            pa.array([group] * len(documents), pa.string()),
        ],
        names=list(shards.READS),
    )


def records_of(documents, kind="<u2"):
    """The input of `build`."""
    doc_ids, locators, ids, _ = batch_of(documents, kind=kind).columns
    return pa.table([doc_ids, locators, ids], schema=shards.RECORD_SCHEMA)


def written(folder, documents, kind="<u2", **changes):
    """Write a shard of some documents, without an engine and a tokenizer."""
    given = {
        "seed": 5,
        "pack": "best_fit",
        "seq_len": 64,
        "token_bytes": np.dtype(kind).itemsize,
        "end_of_document": END,
        "padding": PAD,
        "tokenizer": "f" * 64,
        "recipe": "test",
        "group": "web/A",
        "source": "web",
    }
    folder.mkdir(exist_ok=True)
    return write_shard(records_of(documents, kind), folder, **{**given, **changes})


def pieces_of(folder):
    """sample, offset, doc_id, doc_offset, ids of every piece, by plain loops."""
    index = read_index(folder / "tokens.index")
    ids = np.fromfile(folder / "tokens.bin", f"<u{index.header.token_bytes}").tolist()
    found = []
    for sample in range(index.header.samples):
        at = 0
        for piece in range(int(index.first_piece[sample]), int(index.first_piece[sample + 1])):
            length = int(index.length[piece])
            begin = sample * index.header.seq_len + at
            name = index.doc_id[piece].tobytes()
            found.append((sample, at, name, int(index.doc_offset[piece]), ids[begin : begin + length]))
            at += length
    return found


def documents_of(*folders):
    """doc_id -> ids, joined again."""
    together = {}
    for folder in folders:
        for _, _, name, offset, ids in pieces_of(folder):
            together.setdefault(name, []).append((offset, ids))
    return {name: [token for _, ids in sorted(pieces) for token in ids] for name, pieces in together.items()}
