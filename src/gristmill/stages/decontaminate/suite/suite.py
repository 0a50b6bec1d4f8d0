"""An eval suite: the benchmarks that judge a model and must not be in its training data.

A suite is a folder with one YAML file, and the benchmark files next to it or in subfolders:

    suite: lab-evals
    version: "7"
    benchmarks:
      gsm8k: {files: gsm8k/test.jsonl, like: gsm8k}           # a ready description (ready/*.yaml)
      ours:  {files: "ours/*.csv", question: prompt, answer: target, choices: [a, b, c, d]}

Its hash covers its name, version and items. It does not cover ids, nor how files are packed, named and ordered.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import BeforeValidator

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.stages.config_types import FileMark
from gristmill.stages.decontaminate.suite.describe import Benchmark, describe
from gristmill.stages.decontaminate.suite.files import Folder, Format, format_of, records
from gristmill.stages.decontaminate.suite.form import Broken, Form, Item, item_of
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.fields import field_names

MOST_SHOWN = 5
TRIED_RECORDS = 20
"""The number of first records that are tried to find the form of a file, since the very first may be broken."""
PROMPT_ITEMS, PROMPT_WORDS = 5, 5
"""A shared prompt has at least 5 words, the same in at least 5 items. MBPP's questions share fewer."""


def _folder(path: object) -> Any:
    if isinstance(path, str) and path.lower().endswith((".yaml", ".yml")):
        return path.rpartition("/")[0] or "."
    return path


SuiteFolder = Annotated[str, FileMark(), BeforeValidator(_folder)]
"""The folder of a suite in a config, which may also be given as the YAML file in it."""


class Counts(NamedTuple):
    """What was counted while reading a benchmark."""

    files: int
    forms: tuple[str, ...]
    """The names of the forms of its files."""
    roles: tuple[str, ...]
    """The fields that its items have."""
    duplicates: int
    """Records that equal an earlier one and are not items."""


class Suite(NamedTuple):
    """A suite that was read."""

    name: str
    version: str
    hash: str
    """The hash of its content, 64 hexadecimal digits."""
    items: list[Item]
    """Sorted by benchmark, then in file order."""


def read_suite(folder: str) -> Suite:
    """Read the suite in a folder; raises UserError if anything is wrong with it."""
    return read_with_counts(folder)[0]


def read_with_counts(folder: str) -> tuple[Suite, dict[str, Counts]]:
    """Read the suite in a folder, and the counts of each benchmark."""
    description = describe(folder)
    files = Folder(os.path.dirname(description.path))
    items: list[Item] = []
    counts: dict[str, Counts] = {}
    content: dict[str, list[str]] = {}
    for name, described in description.benchmarks.items():
        try:
            by_digest, counts[name] = _read_benchmark(files, name, described.benchmark, described.forms)
        except UserError as error:
            raise UserError(f"{described.location}: {name}: {error}") from None
        items += by_digest.values()
        content[name] = sorted(by_digest)
    whole = {"format": 1, "suite": description.name, "version": description.version, "benchmarks": content}
    digest = hashlib.sha256(orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return Suite(description.name, description.version, digest, items), counts


def _read_benchmark(
    folder: Folder, name: str, benchmark: Benchmark, forms: Mapping[str, Form]
) -> tuple[dict[str, Item], Counts]:
    """The items of a benchmark by digest, and counts. Raises UserError."""
    files = sorted({file for pattern in benchmark.files for file in folder.find(pattern)})
    items: dict[str, Item] = {}
    broken: list[str] = []
    used: dict[str, None] = {}
    ids: dict[str, int] = {}
    duplicates = 0
    for file in files:
        kind = format_of(file, benchmark.format)
        form_name = _form_of(folder, file, kind, forms)
        used[form_name] = None
        form = forms[form_name]
        with folder.open(file) as stream:
            for row, record in records(file, stream, kind, form.columns):
                location = f"{file}:{row}"
                try:
                    item = _item(record, form, name, location)
                except Broken as fault:
                    broken.append(f"{location}: {fault}" if len(broken) < MOST_SHOWN else "")
                    continue
                digest = item.digest
                if digest in items:
                    duplicates += 1
                    continue
                ids[item.id] = ids.get(item.id, 0) + 1
                again = ids[item.id]
                items[digest] = item if again == 1 else item._replace(id=f"{item.id}#{again}")
    _refuse(broken, bool(items))
    roles = tuple(role for role in Item._fields[2:] if any(getattr(item, role) for item in items.values()))
    return items, Counts(len(files), tuple(used), roles, duplicates)


def _item(record: dict[str, object] | ReadFault, form: Form, name: str, location: str) -> Item:
    if isinstance(record, ReadFault):
        raise Broken(f"{record.detail} ({record.reason})")
    return item_of(record, form, name, location)


def _refuse(broken: list[str], has_items: bool) -> None:
    shown = "\n".join(broken[:MOST_SHOWN])
    more = f"\nand {len(broken) - MOST_SHOWN:,} more" if len(broken) > MOST_SHOWN else ""
    if broken:
        raise UserError(
            f"{counted(len(broken), 'record is not an item', 'records are not items')} and cannot be protected:\n"
            f"{shown}{more}\nCorrect the files or the fields."
        )
    if not has_items:
        raise UserError("it has no items, so nothing would be protected. Correct files or fields.")


def _form_of(folder: Folder, file: str, kind: Format, forms: Mapping[str, Form]) -> str:
    """The name of the first form that fits one of the first records of a file."""
    if len(forms) == 1:
        return next(iter(forms))
    fields: list[str] = []
    for name, form in forms.items():
        if form.format not in (None, kind):
            continue
        with folder.open(file) as stream:
            for row, record in records(file, stream, kind, form.columns):
                if row > TRIED_RECORDS:
                    break
                try:
                    _item(record, form, "", "")
                    return name
                except Broken:
                    if not isinstance(record, ReadFault):
                        fields = fields or field_names(record)
    needed = "; ".join(f"{name}: {', '.join(dict.fromkeys(form.paths()))}" for name, form in forms.items())
    first = f"Its first record has {', '.join(fields[:20])}" if fields else "It has no readable record"
    raise UserError(
        f"{file} matches none of the known forms. {first}; the forms need {needed}. Instead of like, describe "
        "its fields: question: FIELD, and the others."
    )


def prompt_warnings(suite: Suite) -> list[str]:
    """A warning for each benchmark where most questions begin or end with the same words, which no page has."""
    warnings = []
    for name, items in groupby(suite.items, lambda item: item.benchmark):
        questions = [question.split() for question in {item.question for item in items}]
        for where, side in (("begin", slice(PROMPT_WORDS)), ("end", slice(-PROMPT_WORDS, None))):
            ((words, count),) = Counter(" ".join(question[side]) for question in questions).most_common(1)
            if count >= PROMPT_ITEMS and 2 * count > len(questions):
                warnings.append(
                    f'{count:,} of {len(questions):,} questions of {name} {where} with "{words}", so a page with only '
                    "the question may not be found. Write `prompt: true` or `like: multiple_choice`; if that does not "
                    "remove the words, edit the field"
                )
    return warnings
