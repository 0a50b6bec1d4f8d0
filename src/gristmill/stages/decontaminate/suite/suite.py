"""An eval suite: the benchmarks that a model is judged by, and that must not be in what it learns from.

A suite is a folder with one YAML file in it, the benchmark files beside or below that, and perhaps a `suite.lock`:

    suite: lab-evals
    version: "7"
    benchmarks:
      gsm8k: {files: gsm8k/test.jsonl, like: gsm8k}           # a ready description (ready/*.yaml)
      mmlu:  {files: data.tar, inside: "data/test/*.csv", like: mmlu}
      ours:  {files: "ours/*.csv", question: prompt, answer: target, choices: [a, b, c, d], coverage: 0.7}

Its hash is that of its name, its version, its items and how they are protected. How files are packed, named and
ordered is not in it, and neither are ids. The lock (suite_lock.py) says which items were there when it was pinned.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import orjson

from gristmill.errors import UserError
from gristmill.stages.decontaminate.suite.benchmark import Counts, read_benchmark
from gristmill.stages.decontaminate.suite.describe import describe, protection_set
from gristmill.stages.decontaminate.suite.files import Folder
from gristmill.stages.decontaminate.suite.form import Item as Item
from gristmill.stages.decontaminate.suite.form import Protection as Protection
from gristmill.stages.decontaminate.suite.form import digest_of as digest_of
from gristmill.stages.decontaminate.suite.lock import Lock, generations_of, grown, read_lock, write_lock

MOST_ITEMS = 5_000_000
PROMPT_ITEMS, PROMPT_WORDS, MOST_PROMPT_WORDS = 5, 3, 12
"""A prompt has at least 3 words, of which 12 are shown, and is shared by at least 5 items."""
PHRASE_WORDS = 6
"""Fewer words that are no whole sentence or label belong to the question: MBPP has `Write a function to`."""
_ENDS = re.compile(r"[.:?!。：？！]\W*\Z|\n")


class Suite(NamedTuple):
    """A suite that was read."""

    name: str
    version: str
    hash: str
    """Of its content, 64 hexadecimal digits."""
    protections: dict[str, Protection]
    items: list[Item]
    """Sorted by benchmark, then as in the files."""
    generations: list[int]
    """Of each item: 0 for those that were pinned first; one more than the last of the lock for those that it lacks."""


def read_suite(folder: str) -> Suite:
    """The suite in a folder; UserError for everything that is wrong with it."""
    return read_with_counts(folder)[0]


def read_with_counts(folder: str) -> tuple[Suite, dict[str, Counts]]:
    """The same, with what there is to tell of each benchmark."""
    description = describe(folder)
    root = os.path.dirname(description.path)
    below = Folder(root)
    items: list[Item] = []
    digests: dict[str, list[str]] = {}
    counts: dict[str, Counts] = {}
    for name, described in description.benchmarks.items():
        try:
            found, digests[name], counts[name] = read_benchmark(below, name, described.benchmark, described.forms)
        except UserError as error:
            raise UserError(f"{described.at}: {name}: {error}") from None
        items += found
        if len(items) > MOST_ITEMS:
            raise UserError(f"{root}: more than {MOST_ITEMS:,} items are no suite. Cut it in several.")
    protections = {name: described.protection for name, described in description.benchmarks.items()}
    whole = _hash(description.name, description.version, protections, digests)
    generations = generations_of([one for held in digests.values() for one in held], read_lock(root))
    return Suite(description.name, description.version, whole, protections, items, generations), counts


def prompt_warnings(suite: Suite) -> list[str]:
    """A warning for each benchmark most of whose questions have the same prompt around them, which no page has."""
    found = []
    for name, items in groupby(suite.items, lambda item: item.benchmark):
        texts = sorted({item.question for item in items})
        if facts := [*_shared(texts, name, "begin"), *_shared(texts, name, "end")]:
            found.append(
                f"{' and '.join(facts)}, so a page with only the question may not be found. Write `prompt: true` or "
                "`like: multiple_choice`; if the words stay, `strip_prefix`, or remove them from the field"
            )
    return found


def _shared(texts: Sequence[str], name: str, where: str) -> list[str]:
    """How many questions begin or end with the same words, and with which, if more than half do."""
    step, facts = 1 if where == "begin" else -1, []
    # In sorted order, texts with the same beginning are neighbours. If they are more than half, one is in the middle.
    words = re.findall(r"\S+\s*", sorted(text[::step] for text in texts)[len(texts) // 2][::step])
    for count in range(PROMPT_WORDS, min(MOST_PROMPT_WORDS + 1, len(words))):
        shared = "".join(words[:count] if step > 0 else words[-count:]).strip()
        having = sum(text.startswith(shared) if step > 0 else text.endswith(shared) for text in texts)
        if having < PROMPT_ITEMS or 2 * having <= len(texts):
            break
        if count >= PHRASE_WORDS or _ENDS.search(words[count - 1] if step > 0 else words[-count - 1]):
            facts = [f'{having:,} of {len(texts):,} questions of {name} {where} with "{" ".join(shared.split())}"']
    return facts


def _hash(name: str, version: str, protections: dict[str, Protection], digests: dict[str, list[str]]) -> str:
    content = {
        "format": 1,
        "suite": name,
        "version": version,
        "benchmarks": {
            benchmark: {"items": sorted(held), "protection": protection_set(protections[benchmark])}
            for benchmark, held in digests.items()
        },
    }
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Pinned(NamedTuple):
    """What pinning did."""

    path: str
    suite: Suite
    before: Lock | None
    generations: tuple[int, ...]
    """Items of each."""
    new: int
    gone: int


def pin_suite(folder: str, compact: bool = False) -> Pinned:
    """Write the lock of a suite as it is now. What is new since the last one is a generation of its own."""
    suite = read_suite(folder)
    root = os.path.dirname(describe(folder).path)
    before = read_lock(root)
    digests = [item.digest for item in suite.items]
    earlier = {digest for generation in before.generations for digest in generation} if before else set()
    held = grown(before, digests, compact)
    path = write_lock(root, Lock(suite.name, suite.version, suite.hash, held))
    new, gone = len(set(digests) - earlier), len(earlier - set(digests))
    return Pinned(path, suite, before, tuple(map(len, held)), new, gone)
