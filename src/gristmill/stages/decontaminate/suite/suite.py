"""An eval suite: the benchmarks that judge a model and must not be in its training data.

A suite is a folder with one YAML file, and the benchmark files next to it or in subfolders:

    suite: lab-evals
    version: "7"
    benchmarks:
      gsm8k: {files: gsm8k/test.jsonl, like: gsm8k}           # a ready description (ready/*.yaml)
      ours:  {files: "ours/*.csv", question: prompt, answer: target, choices: [a, b, c, d]}

Its hash covers its name, version, items and what of them is protected. It does not cover ids, nor how files are packed,
named and ordered.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import BeforeValidator

from gristmill.errors import UserError
from gristmill.stages.config_types import FileMark
from gristmill.stages.decontaminate.suite.benchmark import Counts, read_benchmark
from gristmill.stages.decontaminate.suite.describe import describe
from gristmill.stages.decontaminate.suite.files import Folder
from gristmill.stages.decontaminate.suite.form import Item, Role

MOST_ITEMS = 5_000_000
PROMPT_ITEMS, PROMPT_WORDS, MOST_PROMPT_WORDS = 5, 3, 12
"""A shared prompt has at least 3 words, of which 12 are shown, and is the same in at least 5 items."""
PHRASE_WORDS = 6
"""Fewer words belong to the question unless they are a whole sentence or label: MBPP has `Write a function to`."""
_ENDS = re.compile(r"[.:?!。：？！]\W*\Z|\n")


def _folder(path: object) -> Any:
    if isinstance(path, str) and path.lower().endswith((".yaml", ".yml")):
        return path.rpartition("/")[0] or "."
    return path


SuiteFolder = Annotated[str, FileMark(), BeforeValidator(_folder)]
"""The folder of a suite in a config, which may also be given as the YAML file in it."""


class Suite(NamedTuple):
    """A suite that was read."""

    name: str
    version: str
    hash: str
    """The hash of its content, 64 hexadecimal digits."""
    protected: dict[str, tuple[Role, ...]]
    """The texts of items to search for, by benchmark; the others have the default."""
    items: list[Item]
    """Sorted by benchmark, then in file order."""


def read_suite(folder: str) -> Suite:
    """Read the suite in a folder; raises UserError if anything is wrong with it."""
    return read_with_counts(folder)[0]


def read_with_counts(folder: str) -> tuple[Suite, dict[str, Counts]]:
    """Read the suite in a folder, and the counts of each benchmark."""
    description = describe(folder)
    root = os.path.dirname(description.path)
    files = Folder(root)
    items: list[Item] = []
    counts: dict[str, Counts] = {}
    content: dict[str, Any] = {}
    protected: dict[str, tuple[Role, ...]] = {}
    for name, described in description.benchmarks.items():
        try:
            by_digest, counts[name] = read_benchmark(files, name, described.benchmark, described.forms)
        except UserError as error:
            raise UserError(f"{described.location}: {name}: {error}") from None
        items += by_digest.values()
        if len(items) > MOST_ITEMS:
            raise UserError(f"{root}: the suite has more than {MOST_ITEMS:,} items, the limit. Split it into several.")
        content[name] = {"items": sorted(by_digest), "protection": {}}
        if described.protect is not None:
            protected[name] = described.protect
            content[name]["protection"] = {"protect": sorted(set(described.protect))}
    whole = {"format": 1, "suite": description.name, "version": description.version, "benchmarks": content}
    digest = hashlib.sha256(orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return Suite(description.name, description.version, digest, protected, items), counts


def prompt_warnings(suite: Suite) -> list[str]:
    """A warning for each benchmark where most questions have the same prompt around them, which no page has."""
    warnings = []
    for name, items in groupby(suite.items, lambda item: item.benchmark):
        texts = sorted({item.question for item in items})
        if facts := [*_shared(texts, name, "begin"), *_shared(texts, name, "end")]:
            warnings.append(
                f"{' and '.join(facts)}, so a page with only the question may not be found. Write `prompt: true` or "
                "`like: multiple_choice`; if that does not remove the words, edit the field"
            )
    return warnings


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
