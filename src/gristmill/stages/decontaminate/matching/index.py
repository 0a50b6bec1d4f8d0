"""The search index of an eval suite as one Arrow file: its items, and two tables of their units for the kernels.

An item has a number made from its content. Units of at least SEED_WORDS words are in the table LONG; shorter ones are
in the table SHORT and are found by their rarest word.
"""

from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from gristmill.kernels.decontaminate import units as kernel
from gristmill.kernels.decontaminate.texts import Support
from gristmill.stages.decontaminate.matching.passage import hashes_of, raw_words
from gristmill.stages.decontaminate.matching.units import ANSWER, CODE, QUESTION, SHARED, SUPPORT, Unit, units_of
from gristmill.stages.decontaminate.matching.words import (
    EDITED,
    MOST,
    NEAR_WORDS,
    STRONG,
    WordHashes,
    hash_words,
    information,
    least_left,
    weights_of,
)
from gristmill.stages.decontaminate.suite.form import Item, item_from
from gristmill.stages.decontaminate.suite.suite import Suite
from gristmill.stages.shared.arrow_file import ArrowFile, write_arrays

Array = np.ndarray[Any, Any]

LONG, SHORT = "long", "short"
TABLES = (LONG, SHORT)
SEED_WORDS = 4
"""The words of a seed: with one word in ten changed, few units have no five consecutive unchanged words."""
SEEDS = 5
"""The approximate number of seeds of a unit. A long unit has more, so that any run of `ngram` words contains one."""
MOST_POSTINGS = 64
"""The most units of one seed; a seed of more units is a common phrase."""
CUT = 0.6
"""The share of the words of a question that flags if the rest is cut off. 70% of the words between spaces may be less
here, since a number such as `1,000` is several words."""
CHANGED = EDITED - 1
"""The words of a question that is searched for with edits; with fewer than EDITED, much information must be left."""
FILTER_BITS = 10
"""The least filter bits per seed: with tens of thousands of items the filter stays in the L2 cache."""
WORD_BITS = 256
"""The same for seeds of one word: they are few, so almost no other word passes by chance."""
NO_CUT = 1 << 40


class OpenSuite(NamedTuple):
    """The suite of an index."""

    name: str
    version: str
    hash: str
    items: dict[int, Item]
    """By number, in the order of the suite."""


class UnitTable(NamedTuple):
    """Units with seeds of one length."""

    units: list[Unit]
    search: kernel.Units
    weights: Array
    """The number of words of each unit, in which characters of scripts without spaces count half."""
    ngrams: Array
    """The number of words in an n-gram of each unit."""
    cuts: Array
    """How many first words of each unit count as a truncated copy."""

    def size(self, unit: int) -> int:
        return int(self.search.starts[unit + 1] - self.search.starts[unit])

    def words(self, unit: int) -> Array:
        return self.search.words[self.search.starts[unit] : self.search.starts[unit + 1]]


class EvalIndex(NamedTuple):
    """An index that was read from its file."""

    items: list[Item]
    tables: dict[str, UnitTable]
    support: Support
    """The support that the units of SHORT need."""


def key_of(item: Item) -> int:
    """The number that identifies an item in hits."""
    return int(item.digest[:16], 16)


def write_index(suite: Suite, ngram: int, fuzzy: float, path: Path) -> list[Item]:
    """Write the index of a suite to `path` and return the items without a unit. `fuzzy` 0: edited copies are not
    searched for.
    """
    units, bare = units_of(suite.items, ngram)
    hashes = hash_words([unit.text for unit in units])
    is_long = (hashes.sizes() >= SEED_WORDS).tolist()
    arrays: dict[str, Array | Sequence[str]] = {}
    arrays["items"] = [orjson.dumps(tuple(item)).decode() for item in suite.items]
    for name in TABLES:
        chosen = [unit for unit, is_in_long in zip(units, is_long, strict=True) if is_in_long == (name == LONG)]
        table = table_of(chosen, SEED_WORDS if name == LONG else 1, ngram, fuzzy, hashes.words)
        arrays |= {f"{name}_{field}": value for field, value in table.items()}
    write_arrays(path, {"name": suite.name, "version": suite.version, "hash": suite.hash}, arrays)
    return [suite.items[number] for number in bare]


def table_of(
    units: Sequence[Unit], seed_words: int, ngram: int, fuzzy: float, all_words: Array
) -> dict[str, Array | Sequence[str]]:
    """The arrays of a table. `all_words`: the words of all units, which decide whether a word is rare."""
    texts = [unit.text for unit in units]
    hashes = hash_words(texts)
    sizes, weights = hashes.sizes(), weights_of(texts, hashes)
    # Characters of scripts without spaces count half, so an n-gram has more of them.
    ngrams = np.maximum(1, np.round(ngram * sizes / np.maximum(weights, 0.5))).astype(np.int64)
    # Edits of code are not searched for: alignments cost as much as everything else and found little.
    is_aligned = np.array([unit.piece != CODE for unit in units], np.bool_)
    is_aligned &= weights >= np.array([CHANGED if unit.piece == QUESTION else STRONG for unit in units])
    edits = np.where(is_aligned & (fuzzy > 0), ((1 - fuzzy) * sizes + 1e-9).astype(np.int64), -1)
    cuts = _cuts(units, hashes, weights, edits)
    search = search_of(hashes, np.minimum(ngrams, cuts), edits, seed_words, all_words)
    return {
        **{f"search_{field}": np.asarray(value) for field, value in search._asdict().items()},
        "texts": texts,
        "units": np.array([[unit.item, unit.piece, unit.needs] for unit in units], np.int64).reshape(-1, 3),
        "weights": weights,
        "ngrams": ngrams,
        "cuts": cuts,
    }


def search_of(hashes: WordHashes, ngrams: Array, edits: Array, seed_words: int, all_words: Array) -> kernel.Units:
    """The search table of units. Units with fewer words than a seed have no seed, and a seed of very many units leads
    only to the first of them.
    """
    words, times = np.unique(all_words, return_counts=True)
    sizes = hashes.sizes()
    steps = np.where(ngrams <= sizes, np.minimum(sizes // SEEDS, ngrams - seed_words + 1), sizes // SEEDS)
    if seed_words == 1:  # one seed a unit, its rarest word
        steps = 2 * sizes
    rarity = times[np.searchsorted(words, hashes.words)]
    owner, offset = kernel.choose_seeds(hashes.starts, rarity, seed_words, np.maximum(1, steps))
    seeds = kernel.seeds_of(hashes.words, hashes.starts[owner] + offset, seed_words)
    order = np.lexsort((offset, owner, seeds))
    seeds, owner, offset = seeds[order], owner[order], offset[order]
    is_first = np.append(True, seeds[1:] != seeds[:-1])[: len(seeds)]
    firsts = np.flatnonzero(is_first)
    rank = np.arange(len(seeds)) - np.repeat(firsts, np.diff(np.append(firsts, len(seeds))))
    seeds, owner, offset = (values[rank < MOST_POSTINGS] for values in (seeds, owner, offset))
    bits = WORD_BITS if seed_words == 1 else FILTER_BITS
    filter_ = np.zeros(_power_of_two(bits * len(firsts) // 64), np.uint64)
    slots = np.zeros(_power_of_two(3 * len(firsts) // 2), np.uint64)
    kernel.fill_table(seeds, filter_, slots)
    is_last = np.append(seeds[1:] != seeds[:-1], True)[: len(seeds)]
    sizes, ends = sizes[owner], offset + seed_words
    # A run that is longer than the seed goes on at one of its sides, except at the ends of a unit with edits.
    goes_on = (np.minimum(ngrams[owner], sizes) > seed_words) & (((offset > 0) & (ends < sizes)) | (edits[owner] < 0))
    postings = owner.astype(np.uint64) | offset.astype(np.uint64) << kernel.AT_WORD
    postings |= np.where(is_last, kernel.LAST, np.uint64(0)) | np.where(goes_on, kernel.GOES_ON, np.uint64(0))
    return kernel.Units(seed_words, filter_, slots, postings, hashes.starts, hashes.words, ngrams, edits)


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 511).bit_length()


def _cuts(units: Sequence[Unit], hashes: WordHashes, weights: Array, edits: Array) -> Array:
    """For each unit, how many of its first words count as a truncated copy; NO_CUT: truncated copies do not count. A
    beginning that more than SHARED items have in common is not enough.
    """
    questions = [number for number, unit in enumerate(units) if unit.piece == QUESTION and edits[number] >= 0]
    first = {units[number].item: number for number in reversed(questions)}  # one spelling of each item
    order = sorted(first.values(), key=lambda number: hashes.of(number).tolist())
    shared = dict.fromkeys(order, 0)
    for start in range(len(order) - SHARED):
        group = order[start : start + SHARED + 1]  # a beginning that the first and the last share, all of them share
        both = zip(hashes.of(group[0]), hashes.of(group[-1]), strict=False)
        size = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))
        shared |= {number: max(shared[number], size) for number in group}
    cuts = np.full(len(units), NO_CUT)
    for number in questions:
        size = len(hashes.of(number))
        weight, own = weights[number] / size, raw_words(units[number].text)
        least = int(np.ceil(max(CUT * size, SEED_WORDS, shared[first[units[number].item]] + 1)))
        lengths = (n for n in range(least, size) if information(" ".join(own[:n])) >= least_left(n * weight, True))
        cuts[number] = next(lengths, NO_CUT)
    return cuts


def support_of(items: Sequence[Item], units: Sequence[Unit], with_more: Set[int]) -> Support:
    """A lower bound, for each unit, on the different words of its support that must follow it; the kernel drops hits
    below it. Questions of the items `with_more`, and units that may flag without support, are never dropped.
    """
    least, reach = np.zeros(len(units), np.int64), np.zeros(len(units), np.int64)
    bags: list[Array] = []
    for number, unit in enumerate(units):
        bags.append(np.zeros(0, np.uint64))
        if unit.piece == QUESTION and unit.needs == SUPPORT and unit.item not in with_more:
            item = items[unit.item]
            answer, *others = hashes_of(item.answer, *(item.choices or (item.answer,)))
            bags[-1] = np.unique(np.concatenate([answer, *others]))
            reach[number] = NEAR_WORDS + 2 * sum(map(len, others))
            least[number] = min(_bounds(item, answer, others), default=len(bags[-1]) + 1)
    starts = np.cumsum([0, *map(len, bags)]).astype(np.int64)
    return Support(least, reach, starts, np.concatenate([*bags, np.zeros(0, np.uint64)]))


def _bounds(item: Item, answer: Array, others: Sequence[Array]) -> Iterator[int]:
    """The least number of different words that each kind of support takes."""
    if len(answer):
        yield len(np.unique(answer))
    if not item.choices:
        return
    named = sorted(len(np.unique(one)) for one in others if len(one))
    if len(named) > 1:
        yield named[1]  # two of the choices
    together = np.concatenate(others)
    missing = int((1 - MOST) * len(together) + 1e-6)
    yield max(len(np.unique(together)) - missing, 1)


@lru_cache(maxsize=2)
def open_suite(path: Path) -> OpenSuite:
    """Read the suite of an index, and nothing else of the file."""
    file = ArrowFile(path)
    return OpenSuite(**file.header, items={key_of(item): item for item in _items(file)})


def _items(file: ArrowFile) -> list[Item]:
    return [item_from(orjson.loads(text)) for text in file.texts("items")]


@lru_cache(maxsize=2)
def open_index(path: Path) -> EvalIndex:
    """Read an index from its file."""
    file = ArrowFile(path)
    items = _items(file)
    tables = {name: _table(file, name) for name in TABLES}
    # A question is whole if the document has its answer or code anywhere.
    with_more = {unit.item for table in tables.values() for unit in table.units if unit.piece in (ANSWER, CODE)}
    support = support_of(items, tables[SHORT].units, with_more)
    return EvalIndex(items, tables, support)


def _table(file: ArrowFile, name: str) -> UnitTable:
    # Kernels are compiled for arrays that can be written to, as a mapped file cannot.
    seed_words, *arrays = (np.array(file.array(f"{name}_search_{field}")) for field in kernel.Units._fields)
    search = kernel.Units(int(seed_words), *arrays)
    about = file.array(f"{name}_units").tolist()
    units = [
        Unit(item, piece, text, needs)
        for (item, piece, needs), text in zip(about, file.texts(f"{name}_texts"), strict=True)
    ]
    weights, ngrams, cuts = (file.array(f"{name}_{field}") for field in ("weights", "ngrams", "cuts"))
    return UnitTable(units, search, weights, ngrams, cuts)
