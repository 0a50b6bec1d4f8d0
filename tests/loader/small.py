"""Small manifests with real shards, for tests: every token shows which sample of which group it belongs to."""

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gristmill.loader.checks import seal
from gristmill.shardformat.index import Header, Index, read_index, write_index
from gristmill.shardformat.manifest import manifest_hash, read_manifest
from gristmill.shardformat.receipt import seal_of

TOKENIZER = {"hash": "a" * 64, "vocab_size": 60000, "end_of_document": 1, "padding": 0, "file": "b" * 64}


@dataclass
class Corpus:
    """Groups with the number of samples of each shard, and phases of (samples, weights); `write` creates the files."""

    groups: dict[str, list[int]]
    phases: list[tuple[int, dict[str, int]]]
    seed: int = 7
    seq_len: int = 12
    token_bytes: int = 2
    learning_rates: dict[int, dict] = field(default_factory=dict)
    pieces_of_a_document: int = 1

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        groups, files = [], {}
        for name, sizes in self.groups.items():
            shards = [self._shard(folder, files, name, number, size) for number, size in enumerate(sizes)]
            totals = {key: sum(shard[key] for shard in shards) for key in ("samples", "tokens", "documents")}
            source, _, tier = name.partition("/")
            about = {"name": name, "source": source, "domain": source, "tier": tier or None, "weight": 1.0}
            groups.append({**about, **totals, "shards": shards})
        return write_manifest(folder, self.content(groups, files))

    def content(self, groups: list[dict], files: dict[str, str]) -> dict:
        return {
            "format": "gristmill manifest",
            "format_version": 1,
            "recipe": "small",
            "seed": self.seed,
            "tokenizer": TOKENIZER,
            "seq_len": self.seq_len,
            "token_bytes": self.token_bytes,
            "groups": groups,
            "phases": [
                {"name": f"phase{n}", "samples": count, "weights": weights, "learning_rate": self.learning_rates.get(n)}
                for n, (count, weights) in enumerate(self.phases)
            ],
            "files": files,
        }

    def _shard(self, folder: Path, files: dict[str, str], name: str, number: int, size: int) -> dict:
        """Pieces of 1 to 5 tokens; a sample starts with its row and its shard, then a running number."""
        draw = np.random.default_rng([number, *name.encode()])
        pieces, lengths = [], []
        for _ in range(size):
            parts = []
            while sum(parts) < self.seq_len - 1 - int(draw.integers(4)):
                parts.append(int(min(draw.integers(1, 6), self.seq_len - sum(parts))))
            pieces.append(len(parts))
            lengths += parts
        tokens = np.zeros((size, self.seq_len), f"<u{self.token_bytes}")
        at = 0
        for row, count in enumerate(pieces):
            used = sum(lengths[at : at + count])
            tokens[row, :used] = draw.integers(2, 60000, used)
            tokens[row, :2] = row, number
            at += count
        stem = f"{name.replace('/', '-')}/shard_{number:05}"
        (folder / stem).parent.mkdir(exist_ok=True)
        (folder / f"{stem}.bin").write_bytes(tokens.tobytes())
        digest = hashlib.sha256(tokens.tobytes()).hexdigest()
        header = Header(
            self.token_bytes,
            self.seq_len,
            size,
            len(lengths),
            sum(lengths),
            len(lengths),
            1,
            0,
            "a" * 64,
            digest,
            "small",
            name,
        )
        first = np.concatenate(([0], np.cumsum(pieces, dtype=np.int64)))
        ids = np.frombuffer(draw.bytes(16 * len(lengths)), "V16")
        ids = ids[np.arange(len(lengths)) // self.pieces_of_a_document]
        index = Index(header, first, np.array(lengths), np.arange(len(lengths)), ids)
        write_index(folder / f"{stem}.index", index)
        index_digest = hashlib.sha256((folder / f"{stem}.index").read_bytes()).hexdigest()
        for path, its in ((f"{stem}.bin", digest), (f"{stem}.index", index_digest)):
            os.utime(folder / path, ns=(0, seal(its)))
        files |= {digest: f"{stem}.bin", index_digest: f"{stem}.index"}
        counts = {"samples": size, "tokens": sum(lengths), "documents": len(lengths)}
        return {"bin": digest, "index": index_digest, "lineage": "c" * 64, **counts}


def write_manifest(folder: Path, content: dict) -> Path:
    """Write a manifest with its hash."""
    path = folder / "manifest.json"
    path.write_text(json.dumps({**content, "hash": manifest_hash(content)}))
    return path


def change_manifest(path: Path, **changes) -> None:
    """Change some fields and update the hash."""
    write_manifest(path.parent, {**json.loads(path.read_text()), **changes})


def two_phases() -> Corpus:
    """Three groups, a cooldown, several epochs."""
    return Corpus(
        {"crawl/B": [17, 23, 11], "wiki/A": [9, 8], "code": [13]},
        [(300, {"crawl/B": 200, "wiki/A": 60, "code": 40}), (150, {"wiki/A": 100, "code": 50})],
        learning_rates={1: {"shape": "linear", "end": 0.0}},
    )


def write_receipt(folder: Path, manifest: Path, documents: list[dict], /, **changes) -> Path:
    """Write the receipt of a takedown from the shards of a manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {"manifest": json.loads(manifest.read_text())["hash"], "recipe": "small", "version": "v1"}
    content = {"format": 1, "before": about, "after": None, "documents": documents, **changes}
    (folder / "receipt.json").write_text(json.dumps({**content, "seal": seal_of(content)}))
    return folder


def all_documents(manifest: Path) -> list[dict]:
    """Every document of a manifest as a receipt names it, by walking over the indexes."""
    found: dict[bytes, dict] = {}
    opened = read_manifest(manifest)
    for group in opened.groups:
        for number, shard in enumerate(group.shards):
            index = read_index(opened.where(shard.index))
            for row in range(shard.samples):
                for piece in range(int(index.first_piece[row]), int(index.first_piece[row + 1])):
                    doc_id = bytes(index.doc_id[piece])
                    place = {"request": "r1", "group": group.name, "shard": number, "rows": []}
                    rows = found.setdefault(doc_id, {"doc_id": doc_id.hex(), **place})["rows"]
                    if row not in rows:
                        rows.append(row)
    return list(found.values())
