"""Estimates a language model of n-grams from text: interpolated modified Kneser-Ney (Chen and Goodman 1999).

    words    every word, counted by its hash                              the vocabulary
    n-grams  of the highest order, sorted by the last word first           counts of all orders, discounts
    context  each order, sorted by the words before the last one           own probabilities, and the remaining mass
    suffix   sorted back                                                   probabilities, interpolated with shorter ones
    table    sorted by hash                                                slots for look-ups

Each line is a pass over sorted rows. What does not fit into memory is sorted in files (runs.py), after Heafield
et al. 2013. A word that is not in the vocabulary is <unk>. n-grams with it are counted and then removed like pruned
ones: their mass goes to shorter n-grams, and in the end to all words equally. So <unk> is as likely as a word that was
hardly seen, and a text of unknown words is unlikely.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.ngram.cut import ROOM, ROOM_BYTES, cut_tables
from gristmill.kernels.ngram.tables import hash_strings, mixed_hashes, packed
from gristmill.stages.quality.ngram_file import SPECIAL, write_slots
from gristmill_ngram.kernels import counts as kernel
from gristmill_ngram.kernels.texts import hash_texts
from gristmill_ngram.kernels.vocabulary import NumberedWords, number_texts, vocabulary_of
from gristmill_ngram.runs import RowFile, Sorter

Array = np.ndarray[Any, Any]
Texts = Callable[[], Iterable[tuple[Array, Array]]]
"""Returns the texts, any number of times: bytes and offsets, some texts at a time."""

_BLOCK_ROWS = 1 << 16


class NgramSettings(NamedTuple):
    order: int
    least: tuple[int, ...]
    """By order: how often an n-gram (for order 1: a word) must occur to be kept; must not decrease."""
    vocab: int
    """The most words; the most frequent ones are kept."""
    memory: int
    """Bytes of memory for sorting."""


class Estimate(NamedTuple):
    """The parts of a model, as files in the scratch folder and small arrays."""

    order: int
    ngrams: list[int]
    """By order: n-grams that are kept."""
    shape: list[list[int]]
    """By order: see `Tables.shape`."""
    slots: Path
    """uint64."""
    grams: list[Path]
    """From order 2 on: uint32 pairs of the n-gram without its first word (index in the list before), and that word."""
    words: bytes
    offsets: Array
    """int64: offsets of the words by number, from <unk> on."""
    discounts: list[list[float]]
    tokens: int
    distinct_words: int


def estimate(texts: Texts, settings: NgramSettings, folder: Path) -> Estimate:
    """Estimates a model from texts with at least one word."""
    hashes, tokens, distinct = _frequent(texts, settings, folder)
    vocabulary = vocabulary_of(hashes)
    files, counts_of_counts = _adjusted(texts, vocabulary, settings, folder)
    discounts = [kernel.discounts_of(counts_of_counts[order]) for order in range(settings.order)]
    probabilities, backoffs = _probabilities(files, discounts, len(hashes), settings, folder)
    words, offsets = _spelled(vocabulary)
    numbered = np.concatenate([np.zeros(1, np.uint64), hash_strings(np.frombuffer(words, np.uint8), offsets)])
    shape, slots = _tables(probabilities, backoffs, numbered, settings, folder)
    grams = [_grams(file, order, folder) for order, file in enumerate(probabilities, 1) if order > 1]
    for file in (*probabilities, *backoffs):
        file.remove()
    return Estimate(
        settings.order,
        [file.rows for file in probabilities],
        shape,
        slots,
        grams,
        words,
        offsets,
        [values.tolist() for values in discounts],
        tokens,
        distinct,
    )


def _spaces() -> tuple[Array, Array]:
    return np.empty(ROOM_BYTES, np.uint8), np.empty((ROOM, 3), np.int64)


def _frequent(texts: Texts, settings: NgramSettings, folder: Path) -> tuple[Array, int, int]:
    """The hashes of the vocabulary's words, the most frequent first, ties by the smaller hash; the number of words and
    of distinct words."""
    sorter = Sorter(folder / "words", 3, settings.memory // 2, sums=True)
    tables, spaces = cut_tables(), _spaces()
    tokens = distinct = 0
    for data, offsets in texts():
        hashes, _ = hash_texts(data, offsets, tables, *spaces)
        tokens += len(hashes)
        rows = np.zeros((len(hashes), 3), np.uint64)
        rows[:, 0], rows[:, 2] = hashes, 1
        sorter.add(rows[hashes != 0])
    best = np.empty((0, 2), np.uint64)
    for block in sorter.sorted():
        distinct += len(block)
        best = np.concatenate([best, block[block[:, 2] >= settings.least[0]][:, [0, 2]]])
        if len(best) > settings.vocab:
            best = best[np.lexsort((best[:, 0], ~best[:, 1]))[: settings.vocab]]
    return best[np.lexsort((best[:, 0], ~best[:, 1]))][:, 0].copy(), tokens, distinct


def _adjusted(
    texts: Texts, vocabulary: NumberedWords, settings: NgramSettings, folder: Path
) -> tuple[list[Any], Array]:
    """Unigrams with their counts, a sorter by context for every longer order, and counts of counts."""
    order = settings.order
    sorter = Sorter(folder / "ngrams", 3, settings.memory // 2, sums=True)
    tables, spaces = cut_tables(), _spaces()
    for data, offsets in texts():
        ids, firsts = number_texts(data, offsets, tables, *spaces, vocabulary)
        rows = np.empty((2 * len(ids), 3), np.uint64)
        sorter.add(rows[: kernel.windows(ids, firsts, order, rows)])
    memory = settings.memory // (2 * order)
    unigrams: list[Array] = []
    longer = [Sorter(folder / f"context{k}", 3, memory) for k in range(2, order + 1)]
    least = np.array([1, *settings.least[1:order]], np.uint64)  # rare words are <unk> already
    state, counts_of_counts = np.zeros((order + 1, 2), np.uint64), np.zeros((order, kernel.COUNTED), np.int64)
    out = np.empty((order, _BLOCK_ROWS + 1, 3), np.uint64)

    def give(block: Array, is_end: bool) -> None:
        sizes = kernel.adjust(block, order, least, state, counts_of_counts, out, is_end)
        unigrams.append(out[0, : sizes[0]].copy())
        for order_index, into in enumerate(longer, 1):
            rows = out[order_index, : sizes[order_index]]
            kernel.by_context(rows)
            into.add(rows)

    for block in sorter.sorted():
        for begin in range(0, len(block), _BLOCK_ROWS):
            give(block[begin : begin + _BLOCK_ROWS], False)
    give(np.empty((0, 3), np.uint64), True)
    return [np.concatenate(unigrams), *longer], counts_of_counts


def _probabilities(
    files: list[Any], discounts: list[Array], words: int, settings: NgramSettings, folder: Path
) -> tuple[list[RowFile], list[RowFile]]:
    """By order: n-grams with their probability and the index of the shorter one; n-grams with their backoff."""
    first = RowFile(folder / "probability1", 4)
    first.write(_unigrams(files[0], discounts[0], words))
    probabilities, backoffs = [first], []
    for order in range(2, settings.order + 1):
        back = RowFile(folder / f"backoff{order - 1}", 3)
        sorter = Sorter(folder / f"suffix{order}", 4, settings.memory // 2)
        for block in _whole(files[order - 1].sorted()):
            out, left = np.empty((len(block), 4), np.uint64), np.empty((len(block), 3), np.uint64)
            written, contexts = kernel.weigh(block, discounts[order - 1], out, left)
            back.write(left[:contexts])
            sorter.add(out[:written])
        file = RowFile(folder / f"probability{order}", 4)
        for block in _interpolated(sorter.sorted(), order, probabilities[-1]):
            file.write(block)
        probabilities.append(file)
        backoffs.append(back)
    backoffs.append(RowFile(folder / f"backoff{settings.order}", 3))
    return probabilities, backoffs


def _unigrams(counted: Array, discounts: Array, words: int) -> Array:
    """Rows of all words by number, from <unk> on."""
    numbers = (counted[:, 0] >> np.uint64(2 * kernel.WORD_BITS)).astype(np.int64)
    counts, pruned = (counted[:, 2] >> np.uint64(1)).astype(np.int64), counted[:, 2] & np.uint64(1) != 0
    kept = np.bincount(np.minimum(counts[~pruned], 3), minlength=4)[1:]
    total, lost = int(counts.sum()), int(counts[pruned].sum())
    left = (float(discounts[0] * kept[0] + discounts[1] * kept[1] + discounts[2] * kept[2]) + lost) / total
    every = left / (words + 2)  # all words, <unk> and </s>; nothing predicts <s>
    rows = np.zeros((words + kernel.FIRST_WORD - 1, 4), np.uint64)
    rows[:, 0] = np.arange(1, len(rows) + 1, dtype=np.uint64) << np.uint64(2 * kernel.WORD_BITS)
    own = rows.view(np.float64)
    own[:, 2] = every
    own[numbers[~pruned] - 1, 2] += (counts[~pruned] - discounts[np.minimum(counts[~pruned], 3) - 1]) / total
    own[kernel.BEGIN - 1, 2] = 1.0
    return rows


def _whole(blocks: Iterator[Array]) -> Iterator[Array]:
    """The same rows in blocks that end where a context does."""
    carried = np.empty((0, 3), np.uint64)
    for block in blocks:
        joined = np.concatenate([carried, block])
        whole = kernel.whole_contexts(joined)
        if whole:
            yield joined[:whole]
        carried = joined[whole:]
    if len(carried):
        yield carried


def _interpolated(blocks: Iterator[Array], order: int, shorter: RowFile) -> Iterator[Array]:
    """Interpolates rows with their shorter n-grams, which are in the file in the same order."""
    lower = shorter.blocks(_BLOCK_ROWS)
    below, lower_row, first = np.empty((0, 4), np.uint64), 0, 0
    for block in blocks:
        row = 0
        while row < len(block):
            if lower_row == len(below):
                first += len(below)
                below, lower_row = next(lower), 0
            before = row, lower_row
            row, lower_row = kernel.interpolate(block, row, order, below, lower_row, first)
            if row < len(block) and lower_row < len(below) and (row, lower_row) == before:
                raise AssertionError(f"an n-gram of order {order} without the shorter one")
        yield block


def _tables(
    probabilities: list[RowFile], backoffs: list[RowFile], hashes: Array, settings: NgramSettings, folder: Path
) -> tuple[list[list[int]], Path]:
    """The slots of all orders, in one file, and the shape of each."""
    path, shape, first = folder / "slots", [], 0
    with open(path, "wb") as file:
        for order, (rows, back) in enumerate(zip(probabilities, backoffs, strict=True), 1):
            sorter = Sorter(folder / f"hash{order}", 3, settings.memory // 2)
            done = 0
            for block, shares in _with_backoffs(rows, back):
                hashed = mixed_hashes([hashes[column] for column in _numbers(block, order).T])
                hashed_rows = np.empty((len(block), 3), np.uint64)
                hashed_rows[:, 0], hashed_rows[:, 1] = hashed, np.arange(done, done + len(block), dtype=np.uint64)
                hashed_rows[:, 2] = packed(log10(block.view(np.float64)[:, 2]), log10(shares))
                done += len(block)
                sorter.add(hashed_rows)
            places, size, walk = write_slots(sorter.sorted(), rows.rows, file)
            shape.append([first, places, walk])
            first += size
    return shape, path


def _with_backoffs(rows: RowFile, back: RowFile) -> Iterator[tuple[Array, Array]]:
    """Rows with the share that each leaves to shorter n-grams; 1 if no longer one is kept."""
    lower = back.blocks(_BLOCK_ROWS)
    below, lower_row = np.empty((0, 3), np.uint64), 0
    for block in rows.blocks(_BLOCK_ROWS):
        shares, row = np.ones(len(block)), 0
        while row < len(block):
            if lower_row == len(below):
                next_block = next(lower, None)
                if next_block is None:
                    break
                below, lower_row = next_block, 0
            row, lower_row = kernel.take_backoffs(block, row, below, lower_row, shares)
        yield block, shares


def _numbers(rows: Array, order: int) -> Array:
    """The numbers of the words of n-grams, first word first."""
    numbers = np.empty((len(rows), order), np.int64)
    for index in range(order):
        column, shift = (0, 2 - index) if index < 3 else (1, 4 - index)
        mask = np.uint64((1 << kernel.WORD_BITS) - 1)
        numbers[:, order - 1 - index] = (rows[:, column] >> np.uint64(shift * kernel.WORD_BITS)) & mask
    return numbers


def _grams(rows: RowFile, order: int, folder: Path) -> Path:
    path = folder / f"grams{order}"
    with open(path, "wb") as file:
        for block in rows.blocks(_BLOCK_ROWS):
            pairs = np.empty((len(block), 2), np.uint32)
            pairs[:, 0], pairs[:, 1] = block[:, 3], _numbers(block, order)[:, 0]
            pairs.tofile(file)
    return path


def _spelled(vocabulary: NumberedWords) -> tuple[bytes, Array]:
    """The concatenated words by number, from <unk> on, and their offsets."""
    words = [word.encode() for word in SPECIAL]
    words += [
        vocabulary.arena[begin:end].tobytes()
        for begin, end in zip(vocabulary.begins[kernel.FIRST_WORD :], vocabulary.ends[kernel.FIRST_WORD :], strict=True)
    ]
    return b"".join(words), np.cumsum([0, *map(len, words)], dtype=np.int64)


def log10(values: Array) -> Array:
    """Returns base-10 logarithms of positive numbers (float64), with a relative error below 1e-15.

    It uses operations that every processor rounds alike; system libraries differ in the last bit.
    """
    mantissa, exponent = np.frexp(values)
    low = mantissa < 0.7071067811865476
    mantissa, exponent = np.where(low, 2 * mantissa, mantissa), exponent - low
    part = (mantissa - 1) / (mantissa + 1)
    square = part * part
    total = np.zeros_like(part)
    for power in range(23, 0, -2):  # |part| < 0.172: the first term left out is below 1e-19
        total = total * square + 1.0 / power
    natural: Array = 2 * part * total
    return natural * 0.4342944819032518 + exponent * 0.3010299956639812
