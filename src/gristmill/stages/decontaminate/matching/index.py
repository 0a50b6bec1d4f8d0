"""The search index of eval items, as one file of flat arrays.

An item has a number made from its content, so that two indexes use the same number for it. Units with too few words
for a seed are in a separate table and are found by their rarest word.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from gristmill.kernels.decontaminate.support import Support
from gristmill.kernels.decontaminate.tokens import fill_kept
from gristmill.kernels.decontaminate.units import Units, seeds_of
from gristmill.kernels.text.unicode_data import known
from gristmill.stages.decontaminate.matching.code_tokens import code_units, count_tokens, marks_of
from gristmill.stages.decontaminate.matching.passage import spelled
from gristmill.stages.decontaminate.matching.support import support_of
from gristmill.stages.decontaminate.matching.units import (
    ANSWER,
    CHANGED,
    CODE,
    COMMON_ITEMS,
    CUT,
    NO_MARKS,
    QUESTION,
    SAVED,
    SEED_WORDS,
    SHARED,
    STRONG,
    Counted,
    Unit,
    count_words,
    from_saved,
    information,
    least_left,
    saved_form,
    table_of,
    units_of,
    weights_of,
)
from gristmill.stages.decontaminate.suite.form import item_from
from gristmill.stages.decontaminate.suite.suite import Item, Protection

Array = np.ndarray[Any, Any]

CODE_SEED = 8
"""The number of tokens of a seed of code."""
CODE_NGRAM = 14
"""The number of consecutive tokens of an n-gram of code."""
_WORD = re.compile(r"\w+")
NO_CUT = 1 << 40
TEXT, SHORT, TOKENS = "text", "short", "tokens"
TABLES = (TEXT, SHORT, TOKENS)


class EvalIndex(NamedTuple):
    """An index that was read from its file. The dicts are keyed by table."""

    items: list[Item]
    keys: Array
    """uint64: the number of each item."""
    units: dict[str, list[Unit]]
    tables: dict[str, Units]
    counts: dict[str, list[Array]]
    """For each unit, which of its n-grams count (bool)."""
    weights: dict[str, Array]
    """The number of words of each unit."""
    ngrams: dict[str, Array]
    """The number of words in an n-gram of each unit."""
    cuts: dict[str, Array]
    """How many first words of each unit count as a truncated copy."""
    marks: Array
    """Two hash tables of equal size: the words that lead to code, then those of them that may be between words."""
    support: Support
    """The support that the units of SHORT need."""
    code_counts: tuple[Array, Array]
    """The `counts` of code in one array, and the start of each unit in it."""


def key_of(item: Item) -> int:
    """The number that identifies an item in hits."""
    return int(item.digest[:16], 16)


def write_index(
    items: Sequence[Item], protections: Mapping[str, Protection], ngram: int, fuzzy: float, path: Path
) -> int:
    """Write the index of items to `path` and return its number of units. `fuzzy` 0: edited copies are not searched."""
    found, _ = units_of(items, protections, ngram)
    arrays: dict[str, Array] = {}
    total = 0
    counted = count_words([unit.text for unit in found])
    long = counted.sizes() >= SEED_WORDS
    code = code_units(items, protections)
    marks, between = marks_of(code, _times([unit for unit in found if unit.piece != CODE]))
    led = count_words(marks).words
    arrays["marks"] = np.zeros((2, max(64, 1 << (2 * len(led)).bit_length())), np.uint64)
    fill_kept(led, arrays["marks"][0])
    fill_kept(count_words(between).words, arrays["marks"][1])
    for name, units in (
        (TEXT, [unit for unit, is_long in zip(found, long, strict=True) if is_long]),
        (SHORT, [unit for unit, is_long in zip(found, long, strict=True) if not is_long]),
        (TOKENS, code),
    ):
        texts = [unit.text for unit in units]
        words = count_tokens(texts) if name == TOKENS else count_words(texts)
        sizes = words.sizes()
        weights = sizes.astype(np.float64) if name == TOKENS else weights_of(texts, words)
        wanted = np.array(
            [CODE_NGRAM if name == TOKENS else protections[items[u.item].benchmark].ngram or ngram for u in units]
        )
        ngrams = np.maximum(1, np.round(wanted * sizes / np.maximum(weights, 0.5))).astype(np.int64)
        allowed = np.array([_allowed(protections[items[u.item].benchmark], fuzzy) for u in units])
        # Edited code is found by runs of its tokens: alignments cost as much as everything else and found little.
        aligned = np.array([name != TOKENS and u.piece != CODE for u in units], np.bool_)
        aligned &= weights >= np.array([CHANGED if u.piece == QUESTION else STRONG for u in units])
        edits = np.where(aligned & (allowed >= 0), ((1 - allowed) * sizes + 1e-9).astype(np.int64), -1)
        width = {TEXT: SEED_WORDS, SHORT: 1, TOKENS: CODE_SEED}[name]
        more_words = led if name == SHORT else NO_MARKS
        cuts = _cuts(units, words, weights, edits)
        table = table_of(
            words, np.minimum(ngrams, cuts), edits, width, more_words, words.words if name == TOKENS else counted.words
        )
        arrays |= {f"{name}_{field}": value for field, value in saved_form(table).items()}
        arrays[f"{name}_weights"] = weights
        arrays[f"{name}_ngrams"], arrays[f"{name}_cuts"] = ngrams, cuts
        arrays[f"{name}_units"] = np.array([[u.item, u.piece, u.needs] for u in units], np.int64).reshape(-1, 3)
        arrays[f"{name}_texts"] = _packed(orjson.dumps(texts))
        counts = _counting(words, ngrams, np.array([u.item for u in units], np.int64))
        arrays[f"{name}_counts"] = np.packbits(np.concatenate([*counts, np.zeros(0, np.bool_)]))
        total += len(units)
    arrays["items"] = _packed(orjson.dumps([tuple(item) for item in items]))
    with open(path, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    return total


def _times(units: Sequence[Unit]) -> Counter[str]:
    """How often each word occurs in the units."""
    return Counter(word for unit in units for word in _WORD.findall(known(unit.text).lower()))


def _cuts(units: Sequence[Unit], words: Counted, weights: Array, edits: Array) -> Array:
    """For each unit, how many of its first words count as a truncated copy; NO_CUT: truncated copies do not count. A
    beginning that more than SHARED items have in common is not enough.
    """
    questions = [number for number, unit in enumerate(units) if unit.piece == QUESTION and edits[number] >= 0]
    first = {units[number].item: number for number in reversed(questions)}  # one spelling of each item
    order = sorted(first.values(), key=lambda number: words.of(number).tolist())
    shared = dict.fromkeys(order, 0)
    for at in range(len(order) - SHARED):
        among = order[at : at + SHARED + 1]  # a beginning that the first and the last share, all of them share
        both = zip(words.of(among[0]), words.of(among[-1]), strict=False)
        size = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))
        shared |= {number: max(shared[number], size) for number in among}
    cuts = np.full(len(units), NO_CUT)
    for number in questions:
        size = len(words.of(number))
        each, own = weights[number] / size, spelled(units[number].text)
        begins = range(int(np.ceil(max(CUT * size, SEED_WORDS, shared[first[units[number].item]] + 1))), size)
        cuts[number] = next((n for n in begins if information(" ".join(own[:n])) >= least_left(n * each, True)), NO_CUT)
    return cuts


def _allowed(protection: Protection, fuzzy: float) -> float:
    """The least similarity of an edited copy; -1: edited copies are not searched."""
    wanted = fuzzy if protection.fuzzy is None else float(protection.fuzzy)
    return wanted if wanted > 0 else -1.0


def _packed(data: bytes) -> Array:
    return np.frombuffer(data, np.uint8)


def _counting(words: Counted, ngrams: Array, owners: Array) -> list[Array]:
    """For each unit, which of its n-grams are in at most COMMON_ITEMS items; all of them if none would be left."""
    sizes = words.sizes()
    windows = np.maximum(sizes - ngrams + 1, 1)
    unit = np.repeat(np.arange(len(sizes)), windows)
    first = np.repeat(np.cumsum(windows) - windows, windows)
    at = np.arange(len(unit)) - first
    hashes = np.zeros(len(unit), np.uint64)
    for width in np.unique(np.minimum(ngrams, sizes)).tolist():
        chosen = np.minimum(ngrams, sizes)[unit] == width
        hashes[chosen] = seeds_of(words.words, words.starts[unit[chosen]] + at[chosen], width)
    pairs = (
        np.unique(np.stack([hashes, owners[unit].astype(np.uint64)], axis=1), axis=0)
        if len(unit)
        else np.zeros((0, 2), np.uint64)
    )
    known, times = np.unique(pairs[:, 0], return_counts=True)
    rare = times[np.searchsorted(known, hashes)] <= COMMON_ITEMS if len(unit) else np.zeros(0, np.bool_)
    ends = np.cumsum(windows)
    return [
        part if part.any() else np.ones(len(part), np.bool_)
        for part in (rare[end - size : end] for end, size in zip(ends.tolist(), windows.tolist(), strict=True))
    ]


@lru_cache(maxsize=4)
def open_index(path: Path) -> EvalIndex:
    """Read an index from its file."""
    with np.load(path, allow_pickle=False) as arrays:
        items = [item_from(one) for one in orjson.loads(arrays["items"].tobytes())]
        units, tables, counts, weights, ngrams, cuts = {}, {}, {}, {}, {}, {}
        marks = arrays["marks"]
        led = marks[0][marks[0] > 0]
        for name in TABLES:
            tables[name] = from_saved(
                {field: arrays[f"{name}_{field}"] for field in SAVED}, led if name == SHORT else NO_MARKS
            )
            texts = orjson.loads(arrays[f"{name}_texts"].tobytes())
            about = arrays[f"{name}_units"].tolist()
            units[name] = [
                Unit(item, piece, text, needs) for (item, piece, needs), text in zip(about, texts, strict=True)
            ]
            weights[name], ngrams[name], cuts[name] = (arrays[f"{name}_{of}"] for of in ("weights", "ngrams", "cuts"))
            windows = np.maximum(np.diff(tables[name].starts) - ngrams[name] + 1, 1)
            bits = np.unpackbits(arrays[f"{name}_counts"])[: int(windows.sum())].astype(np.bool_)
            counts[name] = np.split(bits, np.cumsum(windows)[:-1]) if len(windows) else []
            code_counts = bits, np.cumsum(windows) - windows  # the last table is that of code
    keys = np.array([key_of(item) for item in items], np.uint64)
    # A question is whole if the document has its answer or code anywhere.
    with_more = {unit.item for name in TABLES for unit in units[name] if unit.piece in (ANSWER, CODE)}
    support = support_of(items, units[SHORT], with_more)
    return EvalIndex(items, keys, units, tables, counts, weights, ngrams, cuts, marks.reshape(-1), support, code_counts)
