"""Reads supervised fastText models, `.bin` and quantised `.ftz`, as arrays for `kernels.text.fasttext`.

A local file is memory-mapped: a dense matrix of 1.6 GB is in memory once for all processes of a machine. A quantised
matrix is decoded if it takes at most 64 MB, and otherwise used as it is. Every weight is checked, and no array is
allocated that the size of the file does not justify.

The file, little-endian: int32 magic and version; 12 int32 and a double of arguments; the dictionary (int32 entries,
words, labels; int64 tokens and pruned size; entries; pairs of bucket and row); a bool that says whether the input
matrix is quantised, that matrix, the same for the output.
"""

import os
import struct
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from gristmill.errors import UserError, cause_of
from gristmill.kernels.text import fasttext as kernel
from gristmill.kernels.text import fasttext_linear as linear
from gristmill.kernels.text.fasttext_output import HIERARCHICAL, SOFTMAX, two_labels
from gristmill.places import system_of
from gristmill.stages.buffers import text_spans

Array = np.ndarray[Any, Any]

_MAGIC, _VERSION, _SUPERVISED = 793712314, 12, 3
_LABEL = "__label__"
_LONGEST = 255  # n-gram in characters or words; trained models have at most 6
_DECODED_BYTES = 64 << 20  # a larger decoded table misses the caches anyway
_UNPACKED = 64  # bytes of a decoded matrix for each byte of the file; fastText's default is 8
PROBABILITY = (0.0, 1.0001)
"""The range of probabilities. fastText adds 0.00001 to each."""
_LARGEST = 1e15  # a weight: sums of products of two stay within float32; trained models are below 1e3


@dataclass(frozen=True)
class FastText:
    """A classifier in memory."""

    arrays: kernel.FasttextArrays
    labels: tuple[str, ...]
    """By label number, without `__label__`."""

    @cached_property
    def weights(self) -> Array:
        """For two labels: what each row adds to the first label's score minus the second's, float32."""
        output = self.arrays.output.astype(np.float64)
        return self._times(output[:, 0] - output[:, 1])

    @cached_property
    def scored(self) -> kernel.FasttextArrays:
        """The same model with rows that already are label scores, if there are fewer labels than dimensions."""
        dim, labels = self.arrays.output.shape
        if labels >= dim:
            return self.arrays
        columns = [self._times(self.arrays.output[:, label].astype(np.float64)) for label in range(labels)]
        shape = self.arrays.shape.copy()
        shape[0] = labels
        none = np.empty((0, 1), np.uint8), np.empty(0, np.float32), np.empty((0, 256, 1), np.float32)
        table, output = np.stack(columns, axis=1), np.eye(labels, dtype=np.float32)
        replaced: tuple[Array, ...] = (shape, table, *none, output)
        for array in replaced:
            array.flags.writeable = False
        return self.arrays._replace(**dict(zip(_SCORED, replaced, strict=True)))

    def _times(self, direction: Array) -> Array:
        arrays = self.arrays
        found: Array = linear.project(arrays.table, arrays.codes, arrays.norms, arrays.centroids, direction)
        found.flags.writeable = False
        return found


_SCORED = ("shape", "table", "codes", "norms", "centroids", "output")


def load(uri: str) -> FastText:
    """The model at any location that fsspec opens, cached for the process as long as the file does not change."""
    filesystem, path = system_of(uri)
    try:
        if isinstance(filesystem, LocalFileSystem):
            status = os.stat(path)
            return _load_local(path, status.st_size, status.st_mtime_ns)
        return _load_remote(uri)
    except OSError as error:
        raise UserError(f"{uri}: {cause_of(error)}, so no text can be classified. Check the path.") from error


@lru_cache(maxsize=4)
def _load_local(path: str, size: int, _mtime_ns: int) -> FastText:
    data: Array = np.empty(0, np.uint8) if size == 0 else np.memmap(path, np.uint8, "r")
    return parse(data.view(np.ndarray), path)


@lru_cache(maxsize=4)
def _load_remote(uri: str) -> FastText:
    filesystem, path = system_of(uri)
    return parse(np.frombuffer(filesystem.cat_file(path), np.uint8), uri)


def predict(model: FastText, text: pa.Array, k: int = 1, max_bytes: int | None = None) -> tuple[Array, Array]:
    """The k best labels of each text (int32, -1 for none) and their probabilities (float32): two (texts, k) arrays.

    Newlines count as spaces. A null or a text without a word has no label.
    """
    data, starts, ends = text_spans(text)
    if max_bytes is not None:
        cut = np.minimum(ends, starts + max_bytes)
        for _ in range(3):  # back to the start of a character, which has at most four bytes
            inside = cut < ends
            inside[inside] = data[cut[inside]] & 0xC0 == 0x80
            cut -= inside
        ends = cut
    if len(model.labels) == 2 and model.arrays.shape[6] == SOFTMAX:
        means = linear.means(model.arrays, model.weights, data, starts, ends)
        labels, probabilities = two_labels(means, min(k, 2))
        return _padded(labels, probabilities, k)
    return kernel.predict(model.scored, data, starts, ends, k)


MOST_LABELS = 256
"""The most labels of a classifier whose score combines its labels: all of them are sorted to get their probabilities.
"""


def scores(model: FastText, text: pa.Array, weights: Array, max_bytes: int | None = None) -> pa.Array:
    """The sum of the probabilities of all labels times their weights, float32; null for a text without a word.

    The probability is 0 for a label that a tree of labels prunes.
    """
    labels, probabilities = predict(model, text, len(model.labels), max_bytes)
    weight = np.where(labels >= 0, weights[np.maximum(labels, 0)], 0.0)
    total = np.zeros(len(text))
    for place in range(labels.shape[1]):  # one after the other, since the order of a sum affects its value
        total += weight[:, place] * probabilities[:, place]
    return pa.array(total.astype(np.float32), mask=labels[:, 0] < 0)


def _padded(labels: Array, probabilities: Array, k: int) -> tuple[Array, Array]:
    more = ((0, 0), (0, k - labels.shape[1]))
    return np.pad(labels, more, constant_values=-1), np.pad(probabilities, more)


class _Cursor:
    """Reads a model file from start to end and names the byte at which it is wrong."""

    def __init__(self, data: Array, name: str) -> None:
        self.data, self.name, self.at = data, name, 0

    def fail(self, fact: str) -> UserError:
        return UserError(
            f"{self.name}: {fact} (byte {self.at} of {self.data.size}), so no text can be classified with it. "
            "Give a complete supervised fastText model, .bin or .ftz."
        )

    def take(self, layout: str) -> tuple[Any, ...]:
        size = struct.calcsize("<" + layout)
        return struct.unpack("<" + layout, self.array(np.uint8, size).tobytes())

    def array(self, dtype: Any, count: int) -> Array:
        size = count * np.dtype(dtype).itemsize
        if count < 0 or size > self.data.size - self.at:
            raise self.fail(f"the model file is cut off or damaged: {count} values of {np.dtype(dtype)} should follow")
        values: Array = self.data[self.at : self.at + size].view(dtype)
        self.at += size
        return values

    def flag(self) -> bool:
        (value,) = self.take("B")
        if value > 1:
            raise self.fail(f"the model file is damaged: a flag is {value}")
        return bool(value)


@dataclass(slots=True)
class _Matrix:
    """Rows of float32, either plain or as codes of a product quantiser."""

    rows: int
    dim: int
    table: Array
    codes: Array
    norms: Array
    centroids: Array

    def pick(self, rows: Array) -> None:
        """Keeps these rows, in this order."""
        self.table, self.codes, self.norms = (
            part[rows] if part.shape[0] else part for part in (self.table, self.codes, self.norms)
        )
        self.rows = rows.size

    def decode(self) -> None:
        if self.table.shape[0] or not self.rows:
            return
        parts = [self.centroids[m][self.codes[:, m]] for m in range(self.codes.shape[1])]
        self.table = np.concatenate(parts, axis=1)[:, : self.dim] * self.norms[:, None]
        self.codes = self.codes[:0]


def parse(data: Array, name: str) -> FastText:
    """The model whose file holds these bytes (uint8); `name` is for errors."""
    file = _Cursor(data, name)
    if data.size < 8 or file.take("i")[0] != _MAGIC:
        raise file.fail("this is not a fastText model")
    (version,) = file.take("i")
    if not 0 < version <= _VERSION:
        raise file.fail(f"fastText file version {version} is unknown; the newest known version is {_VERSION}")
    dim, _, _, _, _, word_ngrams, loss, kind, buckets, minn, maxn, _, _ = file.take("12id")
    if kind != _SUPERVISED:
        raise file.fail("the model holds word vectors, not a supervised classifier")
    if (
        dim < 1
        or not 0 <= buckets // 8 <= max(_DECODED_BYTES, data.size)
        or not 1 <= loss <= 4
        or max(maxn, word_ngrams) > _LONGEST
    ):
        raise file.fail(
            f"the model file is damaged: {dim} dimensions, {buckets} buckets, loss {loss}, "
            f"n-grams of {maxn} characters and {word_ngrams} words"
        )
    maxn = 0 if version == 11 else maxn  # files of that version have supervised models without character n-grams
    entries, words, label_count, _, pruned = file.take("iiiqq")
    if words < 0 or label_count < 1 or entries != words + label_count:
        raise file.fail(f"the model file is damaged: {entries} entries of {words} words and {label_count} labels")
    starts, ends = _dictionary(file, entries, words)
    kept = file.array(np.int32, 2 * max(pruned, 0)).reshape(-1, 2).astype(np.int64)
    quantised = file.flag()
    source = _matrix(file, quantised, "input")
    output = _matrix(file, file.flag() and quantised, "output")
    output.decode()
    uses_buckets = maxn > 0 or word_ngrams > 1
    wanted = words + (pruned if pruned >= 0 else buckets * uses_buckets)
    if source.dim != dim or output.dim != dim or source.rows < wanted or output.rows < label_count:
        raise file.fail(
            f"the model file is damaged: matrices of {source.rows} x {source.dim} and {output.rows} x {output.dim} "
            f"for {wanted} rows, {label_count} labels and {dim} dimensions"
        )
    bits, before = np.empty(0, np.uint64), np.empty(0, np.int32)
    if pruned >= 0:
        bits, before = _kept_buckets(file, kept, buckets, source, words)
    if source.rows * dim * 4 <= _DECODED_BYTES:
        source.decode()
    weights = np.ascontiguousarray(output.table[:label_count].T)
    counts = np.array([int(data[at + 1 : at + 9].view(np.int64)[0]) for at in ends[words:]], np.int64)
    text = [
        data[start:end].tobytes().decode("utf-8", "replace")
        for start, end in zip(starts[words:], ends[words:], strict=True)
    ]
    slots = kernel.index_words(data, starts, ends)
    four = np.flatnonzero(ends[:words] - starts[:words] == 4)
    eos = [at for at in four if data[starts[at] : ends[at]].tobytes() == b"</s>"]
    arrays = kernel.FasttextArrays(
        shape=np.array([dim, words, buckets, minn, maxn, word_ngrams, loss, eos[-1] if eos else -1], np.int64),
        words=data,
        word_starts=starts,
        word_ends=ends,
        word_slots=slots,
        kept=bits,
        before=before,
        table=source.table,
        codes=source.codes,
        norms=source.norms,
        centroids=source.centroids,
        output=weights,
        tree=_huffman(counts) if loss == HIERARCHICAL else np.empty((0, 2), np.int32),
    )
    for array in arrays:
        array.flags.writeable = False
    return FastText(arrays, tuple(label.removeprefix(_LABEL) for label in text))


def _dictionary(file: _Cursor, entries: int, words: int) -> tuple[Array, Array]:
    if entries > (file.data.size - file.at) // 10:
        raise file.fail(f"the model file is cut off or damaged: {entries} dictionary entries should follow")
    starts, ends, at = kernel.scan_dictionary(file.data, file.at, entries)
    if at < 0:
        raise file.fail("the model file is cut off inside its dictionary")
    kinds = file.data[ends + 9]
    if (kinds[:words] != 0).any() or (kinds[words:] != 1).any():
        raise file.fail("the model file is damaged: words and labels are mixed in its dictionary")
    file.at = at
    return starts, ends


def _matrix(file: _Cursor, quantised: bool, name: str) -> _Matrix:
    none = np.empty(0, np.float32)
    if not quantised:
        rows, dim = _sides(file)
        table = file.array(np.float32, rows * dim).reshape(rows, dim)
        _check_weights(file, name, table)
        return _Matrix(rows, dim, table, np.empty((0, 1), np.uint8), none, np.empty((0, 256, 1), np.float32))
    has_norms = file.flag()
    rows, dim = _sides(file)
    (size,) = file.take("i")
    codes = file.array(np.uint8, size)
    centroids = _centroids(file, dim)
    if size != rows * centroids.shape[0] or rows * dim * 4 > max(_DECODED_BYTES, _UNPACKED * file.data.size):
        raise file.fail(f"the model file is damaged: {size} codes for a matrix of {rows} x {dim}")
    norms = factors = np.ones(rows, np.float32)
    if has_norms:
        norm_codes = file.array(np.uint8, rows)
        factors = _centroids(file, 1)[0, :, 0]
        norms = factors[norm_codes]
    _check_weights(file, name, centroids, factors)
    return _Matrix(rows, dim, np.empty((0, dim), np.float32), codes.reshape(rows, -1), norms, centroids)


def _check_weights(file: _Cursor, name: str, *factors: Array) -> None:
    """Rejects a matrix with NaN, infinity or a number that makes a sum infinite: scores would be meaningless."""
    largest = 1.0
    for factor in factors:
        if factor.size:
            largest *= float(max(-factor.min(), factor.max()))  # both are NaN if one value is
    if not largest <= _LARGEST:
        raise file.fail(f"the {name} matrix holds NaN, infinity or a number beyond {_LARGEST:g}")


def _sides(file: _Cursor) -> tuple[int, int]:
    rows, dim = file.take("qq")
    if rows < 0 or dim < 1:
        raise file.fail(f"the model file is damaged: a matrix of {rows} x {dim}")
    return rows, dim


def _centroids(file: _Cursor, dim: int) -> Array:
    """(subquantisers, 256, width); the last subquantiser may be narrower and is padded with zeros."""
    own_dim, parts, width, last = file.take("4i")
    if own_dim != dim or parts < 1 or not 1 <= last <= width or (parts - 1) * width + last != dim:
        raise file.fail(f"the model file is damaged: {parts} x {width} subquantisers for {dim} dimensions")
    values = file.array(np.float32, dim * 256)
    width = width if parts > 1 else last  # nothing else gives the width of a single one
    centroids = np.zeros((parts, 256, width), np.float32)
    centroids[:-1] = values[: (parts - 1) * 256 * width].reshape(parts - 1, 256, width)
    centroids[-1, :, :last] = values[(parts - 1) * 256 * width :].reshape(256, last)
    return centroids


def _kept_buckets(file: _Cursor, kept: Array, buckets: int, source: _Matrix, words: int) -> tuple[Array, Array]:
    """`FasttextArrays.kept` and `FasttextArrays.before`; sorts the rows of the buckets by bucket."""
    kept = kept[np.argsort(kept[:, 0], kind="stable")]
    known, rows = kept[:, 0], kept[:, 1]
    if kept.size and (
        known[0] < 0
        or known[-1] >= max(buckets, 1)
        or (np.diff(known) == 0).any()
        or rows.min() < 0
        or words + rows.max() >= source.rows
        or np.unique(rows).size < rows.size
    ):
        raise file.fail("the model file is damaged: its list of kept buckets is out of range")
    source.pick(np.concatenate([np.arange(words), words + rows]))
    bits = np.zeros(buckets // 64 + 1, np.uint64)
    np.bitwise_or.at(bits, known // 64, np.uint64(1) << (known % 64).astype(np.uint64))
    return bits, np.searchsorted(known, np.arange(bits.size) * 64).astype(np.int32)


def _huffman(counts: Array) -> Array:
    """The tree of the hierarchical softmax. Labels come in order of falling count, so two queues suffice."""
    labels = len(counts)
    tree = np.full((2 * labels - 1, 2), -1, np.int32)
    weights = counts.tolist()
    leaf, node = labels - 1, labels
    for parent in range(labels, 2 * labels - 1):
        for side in range(2):
            if leaf >= 0 and (node == parent or weights[leaf] < weights[node]):
                tree[parent, side], leaf = leaf, leaf - 1
            else:
                tree[parent, side], node = node, node + 1
        weights.append(sum(weights[child] for child in tree[parent]))
    return tree
