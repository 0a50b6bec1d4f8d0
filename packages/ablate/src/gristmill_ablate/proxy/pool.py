"""The documents that a small training sees, chosen so that they repeat as often as in the real one.

The real training draws T tokens of the mixture; a proxy trains on t, far fewer. If the proxy simply stopped after t
tokens, it would see nothing twice, and neither epochs nor duplicates would matter to it. So the *pool* is thinned: some
documents are kept, and all of their occurrences in the T tokens. What the real training repeats four times, the proxy
repeats four times.

Which documents are kept depends on their content alone: on the least hash of their 8-grams of tokens. Exact copies have
the same hash and are kept or left out together; near copies are, with a probability of their Jaccard similarity. Two
corpora that share a document choose it both or neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from gristmill.loader.loader import Loader
from gristmill.shardformat.manifest import Manifest

Array = np.ndarray[Any, Any]

GRAM = 8
"""Tokens of an n-gram whose hash may represent a document."""


@dataclass(frozen=True)
class Pool:
    """Pieces of documents in the order of the real training, concatenated."""

    tokens: Array
    starts: Array
    """Where each piece begins in `tokens`, and at the end their number."""
    keys: Array
    """The content hash of the document of each piece: what it is sorted by."""
    phases: Array
    """The phase of the mixture in which each piece is drawn."""
    decay: Array
    """Of each phase: whether its learning rate falls."""
    vocab: int
    end: int
    """The token at the end of a document."""
    names: tuple[str, ...] = ()
    """The domains, where they matter (domains.py)."""
    domain: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """Of each piece: the number of its domain."""

    def save(self, path: Path) -> None:
        unset = () if self.names else ("names", "domain")
        save_arrays(path, {name: value for name, value in vars(self).items() if name not in unset})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        with np.load(path) as file:
            arrays: dict[str, Any] = {
                column.name: file[column.name] for column in fields(cls) if column.name in file.files
            }
        arrays |= {"names": tuple(arrays["names"].tolist())} if "names" in arrays else {}
        return cls(**{**arrays, "vocab": int(arrays["vocab"]), "end": int(arrays["end"])})


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """As one file, the same bytes every time."""
    write: Any = np.savez
    with path.open("wb") as file:
        write(file, **arrays)


def thin(manifest: Manifest, tokens: int) -> Pool:
    """The pool with at least so many tokens, or with all that the mixture draws."""
    with Loader(manifest.location, manifest_hash=manifest.hash, threads=0) as loader:
        numbers, keys, lengths = documents_of(loader)
        # The documents with the least keys, as many as are needed: the threshold is where their tokens suffice.
        order = np.argsort(keys, kind="stable")
        enough = int(np.searchsorted(np.cumsum(lengths[order]), min(tokens, int(lengths.sum()))))
        limit = keys[order[min(enough, len(order) - 1)]]
        kept, pieces, phases = keys <= limit, [], []
        kept_keys: dict[bytes, np.uint64] = {
            document: keys[number] for document, number in numbers.items() if kept[number]
        }
        piece_keys: list[np.uint64] = []
        names = [phase.name for phase in manifest.phases]
        for number in range(loader.samples):
            sample = loader.sample(number)
            for document, (start, stop) in zip(sample.doc_ids, sample.doc_spans, strict=True):
                key = kept_keys.get(document.tobytes())
                if key is not None:
                    pieces.append(np.array(sample.tokens[start:stop]))
                    piece_keys.append(key)
                    phases.append(names.index(sample.phase))
    starts = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
    return Pool(
        np.concatenate(pieces),
        starts.astype(np.int64),
        np.array(piece_keys, np.uint64),
        np.array(phases, np.int32),
        np.array([_falls(phase.learning_rate) for phase in manifest.phases]),
        int(manifest.tokenizer["vocab_size"]),
        int(manifest.tokenizer["end_of_document"]),
    )


def _falls(rate: dict[str, Any] | None) -> bool:
    return rate is not None and rate.get("end", 1) < rate.get("start", 1)


def documents_of(loader: Loader) -> tuple[dict[bytes, int], Array, Array]:
    """Every document that is drawn: its number, by number its content hash, and its tokens with all repeats."""
    numbers: dict[bytes, int] = {}
    keys: list[int] = []
    lengths: list[int] = []
    seen: set[tuple[int, int]] = set()
    edges: dict[int, dict[int, tuple[int, Array, Array]]] = {}
    end = loader.manifest.tokenizer["end_of_document"]
    for index in range(loader.samples):
        sample = loader.sample(index)
        tokens = np.asarray(sample.tokens)
        hashes = gram_hashes(tokens)
        for document, offset, (start, stop) in zip(
            sample.doc_ids, sample.doc_offsets.tolist(), sample.doc_spans.tolist(), strict=True
        ):
            number = numbers.setdefault(document.tobytes(), len(numbers))
            if number == len(keys):
                keys.append(2**64 - 1)
                lengths.append(0)
            lengths[number] += stop - start
            if (number, offset) in seen:
                continue
            seen.add((number, offset))
            is_whole = offset == 0 and tokens[stop - 1] == end
            if stop - start >= GRAM:
                keys[number] = min(keys[number], int(hashes[start : stop - GRAM + 1].min()))
            elif is_whole:
                keys[number] = int(gram_hashes(tokens[start:stop], stop - start)[0])
            if not is_whole:
                head, tail = tokens[start : min(stop, start + GRAM - 1)], tokens[max(start, stop - GRAM + 1) : stop]
                edges.setdefault(number, {})[offset] = (stop - start, head.copy(), tail.copy())
    for number, pieces in edges.items():
        keys[number] = min([keys[number], *_across_cuts(pieces)])
    return numbers, mixed(np.array(keys, np.uint64)), np.array(lengths, np.int64)


def _across_cuts(pieces: Mapping[int, tuple[int, Array, Array]]) -> list[int]:
    """The least hash of the n-grams at each place where a document was cut: copies may be cut at other places."""
    hashes: list[int] = []
    reached, last = 0, np.zeros(0, np.uint16)
    for offset, (length, head, tail) in sorted(pieces.items()):
        before = last if offset == reached else last[:0]
        around = np.concatenate([before, head])
        if len(before) and len(around) >= GRAM:
            hashes.append(int(gram_hashes(around).min()))
        last = np.concatenate([before, tail])[1 - GRAM :] if length < GRAM - 1 else tail
        reached = offset + length
    return hashes


def gram_hashes(tokens: Array, width: int = GRAM) -> Array:
    """A hash of every `width` tokens that follow each other."""
    values = tokens.astype(np.uint64)
    count = max(0, len(values) - width + 1)
    total = np.zeros(count, np.uint64)
    for offset in range(width):
        total = total * np.uint64(0x100000001B3) + values[offset : offset + count] + np.uint64(1)
    return np.asarray(mixed(total))


def mixed(values: Any) -> Any:
    """A permutation of 64 bits that leaves nothing of the order (the finaliser of SplitMix64)."""
    values = values ^ (values >> np.uint64(30))
    values = values * np.uint64(0xBF58476D1CE4E5B9)
    values = values ^ (values >> np.uint64(27))
    values = values * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
