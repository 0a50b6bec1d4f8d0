"""Other trainers' own readers on our shards: the same documents and samples, token for token.

Texts are encoded with two vocabularies (ids of 2 and of 4 bytes) and packed by best fit and end to end into several
shards with sidecars; some documents are longer than a sample. Then the real readers read them: IndexedDataset of
megatron-core, DatatroveFolderDataset, and NumpyFSLDataset and NumpyPackedFSLDataset of OLMo-core, in the Python that
BENCH_READERS_PYTHON names. Their results are compared with the output of the tokenizer, not with what we wrote.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.inputs import measurement, scratch, texts
from gristmill.kernels.bpe.pretoken_classes import class_table
from gristmill.kernels.bpe.pretoken_counts import count_pretokens
from gristmill.kernels.bpe.train import train
from gristmill.kernels.hash.word_counts import export, no_words
from gristmill.shardformat.index import read_index
from gristmill.stages.buffers import bytes_of
from gristmill.stages.shards import shards
from gristmill.stages.shards.sidecars import positions, runs_of, used_tokens
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer
from gristmill.tokenizer.patterns import PATTERNS

LIMIT_BYTES = 12_000_000
SEQ_LEN = 2048
SHARD_TOKENS = 1 << 20
MERGES = (4096, 80_000)
PATTERN = "llama3"

COMMON = """
import hashlib, json, sys
import numpy
given = json.load(open(sys.argv[1]))
def mark(tokens):
    return hashlib.sha256(numpy.asarray(tokens).astype("<i8").tobytes()).hexdigest()
dtype = numpy.uint16 if given["token_bytes"] == 2 else numpy.uint32
found = {"documents": [], "samples": [], "pieces": [], "stretches": []}
"""

MEGATRON = """
from megatron.core.datasets.indexed_dataset import IndexedDataset
for stem in given["stems"]:
    data = IndexedDataset(stem)
    for first, end in zip(data.document_indices[:-1], data.document_indices[1:]):
        found["documents"].append(mark(numpy.concatenate([data[at] for at in range(first, end)])))
"""

DATATROVE = """
from datatrove.utils.dataset import DatatroveFolderDataset
data = DatatroveFolderDataset(
    given["folder"], seq_len=given["seq_len"] - 1, token_size=given["token_bytes"], return_positions=True
)
for at in range(len(data)):
    item = data[at]
    ids = item["input_ids"].numpy()
    begins = (item["positions"].numpy() == 0).nonzero()[0]
    found["samples"].append(mark(ids))
    found["pieces"] += [mark(piece) for piece in numpy.split(ids, begins[1:])]
"""

OLMO = """
from olmo_core.data.numpy_dataset import NumpyFSLDataset, NumpyPackedFSLDataset
from olmo_core.data.types import LongDocStrategy
from olmo_core.data.utils import iter_document_indices, load_array_slice
paths = [stem + ".npy" for stem in given["stems"]]
same = dict(
    sequence_length=given["seq_len"], pad_token_id=given["padding"], eos_token_id=given["end_of_document"],
    vocab_size=given["vocab_size"], dtype=dtype,
)
data = NumpyFSLDataset(*paths, **same)
found["samples"] = [mark(data[at]["input_ids"].numpy()) for at in range(len(data))]
for path in paths:
    for begin, end in iter_document_indices(path, use_array_if_local=False, dtype=dtype):
        found["stretches"].append(mark(load_array_slice(path, begin, end, dtype)))
packed = NumpyPackedFSLDataset(
    *paths, **same, long_doc_strategy=LongDocStrategy.fragment, use_array_if_local=False
)
packed.work_dir = given["folder"] + "/work"
packed.prepare()
found["packed_tokens"] = 0
for at in range(len(packed)):
    found["packed_tokens"] += int((packed[at]["input_ids"] != given["padding"]).sum())
"""


def run(data: Path | None) -> Iterable[dict]:
    found = texts(data, LIMIT_BYTES)
    expected: dict[str, Counter[str]] = {name: Counter() for name in ("documents", "samples", "pieces", "stretches")}
    answers: dict[str, list[dict] | None] = {"megatron-core": [], "datatrove": [], "olmo-core": []}
    scripts = dict(zip(answers, (MEGATRON, DATATROVE, OLMO), strict=True))
    tokens = files = 0
    with scratch() as folder:
        for merges in MERGES:
            tokenizer = trained(found, merges)
            write_json(tokenizer, folder / str(merges))
            for pack in ("best_fit", "concat"):
                given = write(folder / f"{merges}-{pack}", folder / str(merges), tokenizer, found, pack, expected)
                tokens, files = tokens + given["tokens"], files + len(given["stems"])
                for peer, script in scripts.items():
                    if (before := answers[peer]) is not None:  # otherwise it is not installed
                        answer = output_of(script, Path(given["folder"]) / "given.json")
                        answers[peer] = None if answer is None else [*before, answer]
    yield measurement("readers.tokens", tokens, f"in {files} shards, ids of 2 and 4 bytes, best fit and concat")
    rows = (
        ("megatron", "megatron-core", ("documents",)),
        ("datatrove", "datatrove", ("samples", "pieces")),
        ("olmo", "olmo-core", ("samples", "stretches")),
    )
    for short, peer, kinds in rows:
        for kind in kinds:
            wanted, got = expected[kind].total(), None
            if (here := answers[peer]) is not None:
                read = Counter(mark for answer in here for mark in answer[kind])
                got = (expected[kind] & read).total()
                same = float(read == expected[kind])
                yield measurement(f"readers.{short}_same_{kind}", same, "1: each token for token, no other (goal: 1)")
            yield measurement(f"readers.{short}_{kind}", wanted, f"{kind} written; the peer's: read", peer, got)
    packed = answers["olmo-core"]
    got = None if packed is None else sum(answer["packed_tokens"] for answer in packed)
    yield measurement("readers.olmo_packed_tokens", tokens, "tokens written; packed again by it", "olmo-core", got)


def trained(found: list[str], merges: int) -> Tokenizer:
    data, offsets = bytes_of(pa.array(found, pa.string()))
    words = export(count_pretokens(no_words(), data, offsets, PATTERNS[PATTERN].scanner, class_table()))
    left, right = train(words.data, words.offsets, words.counts, merges)
    # Reserved ids fill the vocabulary up to its size if a small text has too few merges.
    reserved = [f"<|reserved_{number}|>" for number in range(max(0, merges - len(left)))]
    return Tokenizer.from_merges(PATTERN, left, right, ("<|end_of_text|>", "<|pad|>", *reserved))


def write(
    folder: Path, model: Path, tokenizer: Tokenizer, found: list[str], pack: str, expected: dict[str, Counter[str]]
) -> dict:
    """Writes shards with sidecars under names that readers find, and the expected content, from the encoded texts."""
    kind = np.dtype("<u2" if tokenizer.vocab_size <= 2**16 else "<u4")
    end = tokenizer.specials["<|end_of_text|>"]
    ids, offsets = tokenizer.encode(pa.array(found, pa.string()))
    documents = {
        hashlib.blake2b(str(number).encode(), digest_size=16).digest(): np.append(ids[begin:stop], end).astype(kind)
        for number, (begin, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
    }
    expected["documents"].update(map(mark, documents.values()))
    config = shards.Config(seq_len_tokens=SEQ_LEN, pack=pack, shard_tokens=SHARD_TOKENS, recipe="readers")
    total = sum(map(len, documents.values()))
    layout = shards.layout({"groups": {"bench": {"bench": {"tokens": total}}}}, config)["bench"]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(documents, pa.binary(16)),
            pa.array([f"texts,{number}" for number in range(len(documents))]),
            pa.array([tokens.tobytes() for tokens in documents.values()], pa.large_binary()),
            pa.array(["bench"] * len(documents)),
        ],
        names=list(shards.READS),
    )
    records = pa.Table.from_batches([shards.emit(batch, config, layout)])
    stems = []
    for number, entry in enumerate(layout):
        here = folder / "built" / f"shard_{number:05}"
        here.mkdir(parents=True)
        mine = records.filter(pc.equal(records["key"], number)).drop_columns(["key"])
        if not mine.num_rows:
            continue
        shards.build(mine, config, entry, here, models={"tokenizer": model / "tokenizer.json"})
        names = shards.files(config)
        for name in names:
            for ending in shards.published_names(name, names):
                os.link(here / name, folder / f"{here.name}{ending}")
        expect(here, documents, tokenizer, expected)
        stems.append(str(folder / here.name))
    given = {
        "folder": str(folder),
        "stems": stems,
        "seq_len": SEQ_LEN,
        "token_bytes": kind.itemsize,
        "end_of_document": end,
        "padding": tokenizer.specials["<|pad|>"],
        "vocab_size": tokenizer.vocab_size,
        "tokens": total,
    }
    (folder / "given.json").write_text(json.dumps(given))
    return given


def expect(folder: Path, documents: dict[bytes, np.ndarray], tokenizer: Tokenizer, expected: dict) -> None:
    """Samples, pieces (padding is one) and stretches of a shard: positions from the index, tokens from the encoder."""
    index = read_index(folder / "tokens.index")
    padding = tokenizer.specials["<|pad|>"]
    at, used = positions(index), used_tokens(index)
    samples = np.full((index.header.samples, SEQ_LEN), padding, np.int64)
    for piece, (offset, length) in enumerate(zip(index.doc_offset.tolist(), index.length.tolist(), strict=True)):
        tokens = documents[index.doc_id[piece].tobytes()][offset : offset + length]
        samples.reshape(-1)[at[piece] : at[piece] + length] = tokens
        expected["pieces"][mark(tokens)] += 1
    expected["pieces"].update(mark(np.full(SEQ_LEN - count, padding)) for count in used.tolist() if count < SEQ_LEN)
    expected["samples"].update(map(mark, samples))
    for piece, _, length in zip(*(array.tolist() for array in runs_of(index)), strict=True):
        offset = int(index.doc_offset[piece])
        expected["stretches"][mark(documents[index.doc_id[piece].tobytes()][offset : offset + length])] += 1


def mark(tokens: np.ndarray) -> str:
    return hashlib.sha256(np.asarray(tokens).astype("<i8").tobytes()).hexdigest()


def output_of(script: str, given: Path) -> dict | None:
    """The output of a peer's reader; None if the peer is not installed."""
    python = os.environ.get("BENCH_READERS_PYTHON", sys.executable)
    body = COMMON + script + "\njson.dump(found, open(sys.argv[2], 'w'))"
    answer = given.with_name("answer.json")
    answer.unlink(missing_ok=True)
    done = subprocess.run([python, "-c", body, str(given), str(answer)], capture_output=True, text=True)
    if done.returncode and "ModuleNotFoundError" not in done.stderr:
        raise RuntimeError(f"the reader failed:\n{done.stderr[-3000:]}")
    return None if done.returncode else json.loads(answer.read_text())
