"""A byte-level BPE tokenizer in memory: text to ids with our kernel, and back.

The ids of our own tokenizers: 0 to 255 are the bytes, in the order of GPT-2, tiktoken and `tokenizers`;
then each merge in the order of training, so that an id below the special tokens is also its rank; the special tokens
last (`special.py` says why). 128,000 ids are 256 bytes, 127,488 merges and 256 special tokens.

The string of a special token in a text is encoded like any other text, unless the caller allows it.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.errors import UserError
from gristmill.kernels.bpe import encode as kernel
from gristmill.kernels.bpe.cache import PretokenCache, make_cache
from gristmill.kernels.bpe.merge import make_merges
from gristmill.kernels.bpe.pretoken_classes import class_table
from gristmill.kernels.bpe.train import byte_order
from gristmill.tokenizer.patterns import PATTERNS
from gristmill.tokenizer.special import SPECIAL_TOKENS

Array = np.ndarray[Any, Any]
Allowed = Literal["all"] | Collection[str]
"""Special tokens whose strings become their ids."""

CACHE_BYTES = 64 << 20
"""Size of the cache of pre-tokens, per encoding thread. It changes the speed, never an id."""


class Added(NamedTuple):
    """A string that is one token, independent of merges."""

    text: str
    id: int
    special: bool = True
    """False: matched in every text (`tokenizers` calls it an added token that is not special)."""


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """Everything that determines the ids."""

    pattern: str
    """A name of `patterns.PATTERNS`."""
    tokens: tuple[bytes, ...]
    """Bytes by id; empty for an unused id."""
    byte_ids: Array
    """int32: the token of each byte."""
    left: Array
    right: Array
    made: Array
    """int32: ids of two neighbours and of the token that they become."""
    ranks: Array
    """int32: which merge comes first."""
    added: tuple[Added, ...] = ()
    whole: tuple[int, ...] = ()
    """Ids that a pre-token with exactly their bytes gets without merging (`ignore_merges` of `tokenizers`)."""


class Tokenizer:
    """Encodes and decodes. Threads may share one. A pickle has only the definition; tables are built on first use."""

    reason = ""
    """Why our kernel is not used; empty, since it is."""

    def __init__(self, definition: Definition, cache_bytes: int = CACHE_BYTES) -> None:
        self.definition = definition
        self._cache_bytes = cache_bytes
        self._spare: list[tuple[PretokenCache, kernel.Space]] = []
        self._tries: dict[frozenset[str], kernel.Trie] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self.definition, self._cache_bytes)

    @classmethod
    def from_merges(
        cls,
        pattern: str,
        left: Array,
        right: Array,
        specials: Sequence[str] = SPECIAL_TOKENS,
        cache_bytes: int = CACHE_BYTES,
    ) -> "Tokenizer":
        """A tokenizer in our layout. Merge n joins ids `left[n]` and `right[n]` to 256 + n, as in `bpe/train.py`."""
        order = byte_order()
        tokens = [bytes([byte]) for byte in order.tolist()]
        for one, other in zip(left.tolist(), right.tolist(), strict=True):
            tokens.append(tokens[one] + tokens[other])
        added = tuple(Added(text, len(tokens) + slot) for slot, text in enumerate(specials))
        byte_ids = np.empty(256, np.int32)
        byte_ids[order] = np.arange(256, dtype=np.int32)
        ranks = np.arange(len(left), dtype=np.int32)
        sides = (np.asarray(left, np.int32), np.asarray(right, np.int32))
        spelled = (*tokens, *(token.text.encode() for token in added))
        return cls(Definition(pattern, spelled, byte_ids, *sides, ranks + np.int32(256), ranks, added), cache_bytes)

    @property
    def vocab_size(self) -> int:
        """The number of ids, including unused ones: the rows of an embedding."""
        return len(self.definition.tokens)

    @property
    def pattern(self) -> str:
        return self.definition.pattern

    @cached_property
    def specials(self) -> dict[str, int]:
        """Ids of the special tokens."""
        return {token.text: token.id for token in self.definition.added if token.special}

    @cached_property
    def hash(self) -> str:
        """The hash of everything that determines ids, in hexadecimal: pattern, tokens, merges, added tokens."""
        this = self.definition
        digest = hashlib.sha256(b"gristmill byte-level bpe 1\0" + PATTERNS[this.pattern].text.encode() + b"\0")
        for values in ([len(token) for token in this.tokens], this.byte_ids, this.left, this.right, this.made):
            digest.update(np.asarray(values, "<i4").tobytes() + b"\0")
        digest.update(b"".join(this.tokens) + np.asarray(this.ranks, "<i4").tobytes() + b"\0")
        digest.update(repr([tuple(token) for token in this.added]).encode() + repr(this.whole).encode())
        return digest.hexdigest()

    @cached_property
    def _vocabulary(self) -> kernel.TokenTables:
        this = self.definition
        data = np.frombuffer(b"".join(this.tokens) + bytes(8), np.uint8)
        offsets = np.concatenate(([0], np.cumsum([len(token) for token in this.tokens]))).astype(np.int64)
        merges = make_merges(this.byte_ids, this.left, this.right, this.ranks, this.made)
        whole = kernel.build_whole(data, offsets, np.asarray(this.whole, np.int32))
        return kernel.TokenTables(merges, whole, data, offsets)

    def _allowed(self, allow_special: Allowed) -> frozenset[str]:
        if allow_special == "all":
            return frozenset(self.specials)
        chosen = frozenset([allow_special] if isinstance(allow_special, str) else allow_special)
        if unknown := sorted(chosen - set(self.specials)):
            raise UserError(
                f"{unknown[0]!r} is not a special token of this tokenizer, so it cannot be allowed in text. "
                f"Special tokens: {', '.join(list(self.specials)[:40]) or 'none'}."
            )
        return chosen

    def _trie(self, allowed: frozenset[str]) -> kernel.Trie:
        if allowed not in self._tries:
            added = self.definition.added
            has_matches = bool(allowed) or any(not token.special for token in added)
            self._tries[allowed] = kernel.build_trie(
                {
                    token.text.encode(): kernel.TEXT if token.special and token.text not in allowed else token.id
                    for token in (added if has_matches else ())
                }
            )
        return self._tries[allowed]

    def encode(self, texts: pa.Array, allow_special: Allowed = ()) -> tuple[Array, Array]:
        """The concatenated ids (uint32) of all texts, and offsets (int64): text i is `ids[offsets[i]:offsets[i + 1]]`.

        A null has no ids. It allocates 4 bytes of memory per byte of text, and touches only those that it fills.
        """
        data, starts = _buffers(texts)
        trie = self._trie(self._allowed(allow_special))
        ids = np.empty(int(starts[-1] - starts[0]) + kernel.SLACK, np.int32)
        offsets = np.zeros(len(starts), np.int64)
        try:
            cache, space = self._spare.pop()
        except IndexError:
            cache, space = make_cache(self._cache_bytes), kernel.make_space()
        scanner = PATTERNS[self.pattern].scanner
        count = kernel.encode_rows(
            data, starts, scanner, class_table(), self._vocabulary, trie, cache, space, ids, offsets[1:]
        )
        self._spare.append((cache, space))
        ids.resize(count, refcheck=False)
        return ids.view(np.uint32), offsets

    def encode_text(self, text: str, allow_special: Allowed = ()) -> list[int]:
        """Ids of one text."""
        found: list[int] = self.encode(pa.array([text], pa.string()), allow_special)[0].tolist()
        return found

    def token_bytes(self, token: int) -> bytes:
        """The bytes of an id; empty for an unused id."""
        if not 0 <= token < self.vocab_size:
            raise _no_such_id(token, self.vocab_size)
        return self.definition.tokens[token]

    def decode_bytes(self, ids: Iterable[int] | Array, keep_special: bool = True) -> bytes:
        """The concatenated bytes of the ids. They need not be valid UTF-8."""
        chosen = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), np.int64)
        if not keep_special:
            chosen = chosen[~np.isin(chosen, np.fromiter(self.specials.values(), np.int64))]
        offsets, data = self._vocabulary.offsets, self._vocabulary.data
        size = kernel.decoded_bytes(chosen, offsets)
        if size < 0:
            raise _no_such_id(int(chosen[-1 - size]), self.vocab_size)
        out = np.empty(size, np.uint8)
        kernel.decode_ids(chosen, data, offsets, out)
        return out.tobytes()

    def decode(self, ids: Iterable[int] | Array, keep_special: bool = True, errors: str = "replace") -> str:
        """The text of the ids. Invalid UTF-8 becomes U+FFFD, as in `tokenizers`; `errors` as in `bytes.decode`."""
        return self.decode_bytes(ids, keep_special).decode("utf-8", errors)


def _no_such_id(token: int, size: int) -> UserError:
    return UserError(
        f"{token} is not an id of this tokenizer (0 to {size - 1}), so the ids cannot be decoded. "
        "Use the tokenizer that encoded them."
    )


def _buffers(texts: pa.Array) -> tuple[Array, Array]:
    """Bytes (uint8) and offsets (int64) of a column of strings; read-only, as the kernel expects."""
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        raise TypeError(f"texts are strings, not {texts.type}: bytes that are not UTF-8 have no pre-tokens")
    if texts.null_count:
        texts = texts.fill_null("")
    _, offsets, buffer = texts.buffers()
    starts = np.zeros(1, np.int64)
    if len(texts):
        kind = np.int32 if pa.types.is_string(texts.type) else np.int64
        starts = np.frombuffer(offsets, kind)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    data = np.frombuffer(buffer if buffer is not None and buffer.size else bytes(1), np.uint8)
    data.setflags(write=False)
    return data, starts
