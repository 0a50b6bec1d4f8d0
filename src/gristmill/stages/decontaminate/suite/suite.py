"""An eval suite: the benchmarks that judge a model and must not be in its training data.

A suite is a folder with one YAML file, the benchmark files next to it or in subfolders, and perhaps a `suite.lock`:

    suite: lab-evals
    version: "7"
    benchmarks:
      gsm8k: {files: gsm8k/test.jsonl, like: gsm8k}           # a ready description (ready/*.yaml)
      mmlu:  {files: data.tar, inside: "data/test/*.csv", like: mmlu}
      ours:  {files: "ours/*.csv", question: prompt, answer: target, choices: [a, b, c, d], coverage: 0.7}

Its hash covers its name, version, items and protection settings. It does not cover ids, nor how files are packed, named
and ordered. The lock (lock.py) lists the items that the suite had when it was pinned.
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
"""A shared prompt has at least 3 words, of which 12 are shown, and is the same in at least 5 items."""
PHRASE_WORDS = 6
"""Fewer words belong to the question unless they are a whole sentence or label: MBPP has `Write a function to`."""
_ENDS = re.compile(r"[.:?!。：？！]\W*\Z|\n")


class Suite(NamedTuple):
    """A suite that was read."""

    name: str
    version: str
    hash: str
    """The hash of its content, 64 hexadecimal digits."""
    protections: dict[str, Protection]
    items: list[Item]
    """Sorted by benchmark, then in file order."""
    generations: list[int]
    """The generation of each item: 0 for the first pin; items that are not in the lock form the next generation."""


def read_suite(folder: str) -> Suite:
    """Read the suite in a folder; raises UserError if anything is wrong with it."""
    return read_with_counts(folder)[0]


def read_with_counts(folder: str) -> tuple[Suite, dict[str, Counts]]:
    """Read the suite in a folder, and the counts of each benchmark."""
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
            raise UserError(f"{root}: the suite has more than {MOST_ITEMS:,} items, the limit. Split it into several.")
    protections = {name: described.protection for name, described in description.benchmarks.items()}
    whole = _hash(description.name, description.version, protections, digests)
    generations = generations_of([one for held in digests.values() for one in held], read_lock(root))
    return Suite(description.name, description.version, whole, protections, items, generations), counts


def prompt_warnings(suite: Suite) -> list[str]:
    """A warning for each benchmark where most questions have the same prompt around them, which no page has."""
    found = []
    for name, items in groupby(suite.items, lambda item: item.benchmark):
        texts = sorted({item.question for item in items})
        if facts := [*_shared(texts, name, "begin"), *_shared(texts, name, "end")]:
            found.append(
                f"{' and '.join(facts)}, so a page with only the question may not be found. Write `prompt: true` or "
                "`like: multiple_choice`; if that does not remove the words, use `strip_prefix` or edit the field"
            )
    return found


def _shared(texts: Sequence[str], name: str, where: str) -> list[str]:
    """Describe the words that more than half of the questions begin or end with, if there are any."""
    step, facts = 1 if where == "begin" else -1, []
    # Texts with the same beginning are adjacent in sorted order. If they are more than half, one is in the middle.
    words = re.findall(r"\S+\s*", sorted(text[::step] for text in texts)[len(texts) // 2][::step])
    for count in range(PROMPT_WORDS, min(MOST_PROMPT_WORDS + 1, len(words))):
        shared = "".join(words[:count] if step > 0 else words[-count:]).strip()
        number = sum(text.startswith(shared) if step > 0 else text.endswith(shared) for text in texts)
        if number < PROMPT_ITEMS or 2 * number <= len(texts):
            break
        if count >= PHRASE_WORDS or _ENDS.search(words[count - 1] if step > 0 else words[-count - 1]):
            facts = [f'{number:,} of {len(texts):,} questions of {name} {where} with "{" ".join(shared.split())}"']
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
    """The result of pinning a suite."""

    path: str
    suite: Suite
    before: Lock | None
    generations: tuple[int, ...]
    """The number of items of each generation."""
    new: int
    gone: int


def pin_suite(folder: str, compact: bool = False) -> Pinned:
    """Write the lock of the current suite. Items that are new since the last lock become a new generation."""
    suite = read_suite(folder)
    root = os.path.dirname(describe(folder).path)
    before = read_lock(root)
    digests = [item.digest for item in suite.items]
    earlier = {digest for generation in before.generations for digest in generation} if before else set()
    held = grown(before, digests, compact)
    path = write_lock(root, Lock(suite.name, suite.version, suite.hash, held))
    new, gone = len(set(digests) - earlier), len(earlier - set(digests))
    return Pinned(path, suite, before, tuple(map(len, held)), new, gone)
