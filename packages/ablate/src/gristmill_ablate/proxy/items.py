"""Evaluation items as tokens: contexts that a model is given, and continuations to score.

Items come from an eval suite, the same folder that `decontaminate` protects (docs/suites.md):

    question and choices    multiple choice: one continuation a choice
    question and answer     the answer as the one continuation (cloze, short answers)
    question alone          held-out text: the text itself, cut into windows
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from gristmill_ablate.proxy.pool import Pool, gram_hashes, save_arrays

Array = np.ndarray[Any, Any]
Encode = Callable[[str], list[int]]

KINDS = ("text", "answer", "choices")
TOUCHED = 0.5
"""The share of the n-grams of an item from which on it counts as known from the training."""
TOUCHED_BYTES, LEAST_GRAM = 40, 4
"""About so many bytes of text are an n-gram, and at least so many tokens."""


@dataclass(frozen=True)
class SuiteItem:
    """An item of a suite, or held-out text as an item of a task."""

    benchmark: str
    id: str
    question: str
    answer: str = ""
    choices: tuple[str, ...] = ()
    context: str = ""


@dataclass(frozen=True)
class Items:
    """Sequences of tokens: a context that is given and a continuation that is scored."""

    tasks: tuple[str, ...]
    ids: tuple[str, ...]
    """Of the items."""
    task: Array
    """Of each item: the number of its task."""
    kind: Array
    """Of each item: the place of its kind in KINDS."""
    tokens: Array
    starts: Array
    """Where each sequence begins, and at the end their number of tokens."""
    context: Array
    """Tokens of each sequence that are given."""
    unit: Array
    """Of each sequence: what its bits are summed into. A text of several windows is one unit."""
    unit_item: Array
    unit_bytes: Array
    """Bytes of UTF-8 of the continuation."""
    unit_chars: Array
    """Characters of the continuation."""
    unit_gold: Array
    """Whether it is the right one."""
    continues: Array
    """Of each token of the vocabulary: whether it would continue a word. Empty where no item has to be generated."""

    @property
    def unit_tokens(self) -> Array:
        """Tokens of the continuation."""
        return np.bincount(self.unit, np.diff(self.starts) - self.context, len(self.unit_item))

    def save(self, path: Path) -> None:
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays |= {name: np.array(json.dumps(arrays[name])) for name in ("tasks", "ids")}
        save_arrays(path, arrays)

    @classmethod
    def load(cls, path: str | Path) -> "Items":
        with np.load(path) as file:
            arrays: dict[str, Any] = {name: file[name] for name in file.files}
        return cls(**arrays | {name: tuple(json.loads(str(arrays[name]))) for name in ("tasks", "ids")})


def encode_items(
    items: Sequence[SuiteItem],
    encode: Encode,
    end: int,
    window: int,
    most: int,
    continues: Callable[[], Sequence[bool]] = tuple,
) -> Items:
    """Items as sequences of at most `window` tokens, of each task until it has `most` tokens. `end` is the token
    between documents, which begins each sequence. `continues` says of each token whether it would continue a word.
    """
    tasks = tuple(sorted({item.benchmark for item in items}))
    tokens: list[int] = []
    starts, context, unit = [0], [], []
    unit_item: list[int] = []
    unit_bytes, unit_chars, unit_gold, task, kind = [], [], [], [], []

    def add(given: list[int], scored: list[int]) -> None:
        given = given[max(0, len(given) - max(1, window - len(scored))) :]
        tokens.extend(given + scored[: window - len(given)])
        starts.append(len(tokens))
        context.append(len(given))
        unit.append(len(unit_item))

    used: dict[str, int] = {}
    ids: list[str] = []
    for item in items:
        number, before = len(ids), len(tokens)
        if used.get(item.benchmark, 0) >= most:
            continue
        ids.append(item.id)
        task.append(tasks.index(item.benchmark))
        question = "\n".join(filter(None, (item.context, item.question)))
        if not item.answer:
            kind.append(KINDS.index("text"))
            text_ids = encode(question)
            for start in range(0, len(text_ids), window - 1):
                add([end], text_ids[start : start + window - 1])
            scored = [(question, True)]
        else:
            kind.append(KINDS.index("choices" if len(item.choices) > 1 else "answer"))
            given = [end, *encode(question)]
            choices = item.choices if len(item.choices) > 1 else (item.answer,)
            scored = [(choice, choice == item.answer) for choice in choices]
        for text, is_gold in scored:
            if item.answer:
                add(given, encode(f" {text.strip()}"))
            unit_item.append(number)
            unit_bytes.append(len(text.encode()) + bool(item.answer))
            unit_chars.append(len(text) + bool(item.answer))
            unit_gold.append(is_gold)
        used[item.benchmark] = used.get(item.benchmark, 0) + len(tokens) - before
    columns: dict[str, list[int]] = {"task": task, "kind": kind, "tokens": tokens, "starts": starts}
    columns |= {"context": context, "unit": unit, "unit_item": unit_item}
    columns |= {"unit_bytes": unit_bytes, "unit_chars": unit_chars}
    arrays = {name: np.array(values, np.int64) for name, values in columns.items()}
    needed = continues() if KINDS.index("answer") in kind else ()
    flags = {"unit_gold": np.array(unit_gold, bool), "continues": np.array(needed, bool)}
    return Items(tasks, tuple(ids), **arrays, **flags)


def touched(items: Items, pool: Pool) -> Array:
    """Of each item, whether most of its n-grams, with the right answer, are in the pool. Items that are shorter than
    an n-gram are not looked for.
    """
    scored = (np.diff(items.starts) - items.context).sum()
    width = max(LEAST_GRAM, round(TOUCHED_BYTES * int(scored) / max(1, int(items.unit_bytes.sum()))))
    gold = np.flatnonzero(items.unit_gold[items.unit])
    grams = [gram_hashes(items.tokens[items.starts[sequence] : items.starts[sequence + 1]], width) for sequence in gold]
    owner = np.repeat(items.unit_item[items.unit[gold]], [len(hashes) for hashes in grams])
    gram_of_owner = np.concatenate([*grams, np.zeros(0, np.uint64)])
    distinct = np.unique(gram_of_owner)
    is_in_pool = np.zeros(len(distinct), bool)
    step = 1 << 22
    for start in range(0, len(pool.tokens), step):  # with the last n-gram of a stretch
        here = np.intersect1d(gram_hashes(pool.tokens[start : start + step + width - 1], width), distinct)
        is_in_pool[np.searchsorted(distinct, here)] = True
    hits = is_in_pool[np.searchsorted(distinct, gram_of_owner)] if len(distinct) else np.zeros(0, bool)
    count = len(items.task)
    all_of_it = np.bincount(owner, minlength=count)
    return (np.bincount(owner, hits, count) >= TOUCHED * all_of_it) & (all_of_it > 0)
