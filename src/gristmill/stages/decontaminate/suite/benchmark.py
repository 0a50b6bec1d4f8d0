"""Reads the items of one benchmark: finds its files, the form of each file, and the item of each record."""

from collections.abc import Iterator
from typing import NamedTuple

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.stages.decontaminate.suite.describe import Benchmark
from gristmill.stages.decontaminate.suite.files import BenchmarkFile, Folder, Row, format_of, records
from gristmill.stages.decontaminate.suite.form import (
    ANSWER_LINE,
    Broken,
    Form,
    Format,
    Item,
    Reading,
    digest_of,
    item_of,
)
from gristmill.stages.decontaminate.suite.ready_benchmarks import NamedForm
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.fields import field_names

MOST_SHOWN = 5
TRIED_RECORDS = 20
"""The number of first records that are tried to find the form of a file, since the very first may be broken."""
_ANSWERS = Reading(format="lines")


class Counts(NamedTuple):
    """What was counted while reading a benchmark."""

    files: int
    forms: tuple[str, ...]
    """The names of the forms of its files."""
    roles: tuple[str, ...]
    """The fields that its items have."""
    duplicates: int
    """Records that equal an earlier one and are not items."""
    broken: int
    """Records that are not items, as far as `allow_broken` permits."""


def read_benchmark(
    folder: Folder, name: str, benchmark: Benchmark, forms: list[NamedForm]
) -> tuple[list[Item], list[str], Counts]:
    """The items of a benchmark, their digests, and counts. Raises UserError."""
    found = _matching(folder, benchmark.files, benchmark.inside)
    answers = _answer_files(folder, benchmark)
    if answers and len(answers) != len(found):
        raise UserError(
            f"there are {counted(len(found), 'file')} of records but {counted(len(answers), 'file')} of answers. Each "
            "file of records needs its own file of answers. Correct files or answer_file."
        )
    items: dict[str, Item] = {}
    broken: list[str] = []
    used: dict[str, None] = {}
    ids: dict[str, int] = {}
    duplicates = 0
    for at, file in enumerate(found):
        lines = _answer_lines(answers[at]) if answers else None
        kind = format_of(file, benchmark.format)
        chosen = _form_of(file, kind, forms, lines)
        if idle := chosen.form.idle(kind):
            raise UserError(f"{idle} has no effect on {file.name}, which is {kind}. Remove {idle}, or correct format.")
        if lines is not None and ANSWER_LINE not in chosen.form.paths():
            raise UserError(f"no field uses the answers of answer_file. Write answer: {ANSWER_LINE}, or answer_choice.")
        used[chosen.name] = None
        for row, record in _records(file, kind, chosen.form, lines):
            place = f"{file.name}:{row}"
            try:
                if isinstance(record, ReadFault):
                    raise Broken(f"{record.detail} ({record.reason})")
                item = item_of(record, chosen.form, name, place)
            except Broken as fault:
                broken.append(f"{place}: {fault}" if len(broken) < MOST_SHOWN else "")
                continue
            digest = digest_of(item)
            if digest in items:
                duplicates += 1
                continue
            ids[item.id] = ids.get(item.id, 0) + 1
            again = ids[item.id]
            items[digest] = item if again == 1 else item._replace(id=f"{item.id}#{again}")
    _refuse(broken, benchmark.allow_broken, bool(items))
    roles = tuple(role for role in Item._fields[2:] if any(getattr(item, role) for item in items.values()))
    counts = Counts(len(found), tuple(used), roles, duplicates, len(broken))
    return list(items.values()), list(items), counts


def _matching(folder: Folder, patterns: tuple[str, ...], inside: str | None) -> list[BenchmarkFile]:
    found = {file.name: file for pattern in patterns for file in folder.find(pattern, inside)}
    return [found[name] for name in sorted(found)]


def _answer_files(folder: Folder, benchmark: Benchmark) -> list[BenchmarkFile]:
    """The files of answers, which are where the records are: in the folder or in the archives."""
    if benchmark.answer_file is None:
        return []
    if benchmark.inside is None:
        return folder.find(benchmark.answer_file, None)
    return _matching(folder, benchmark.files, benchmark.answer_file)


def _refuse(broken: list[str], allowed: int, has_items: bool) -> None:
    shown = "\n".join(broken[:MOST_SHOWN])
    more = f"\nand {len(broken) - MOST_SHOWN:,} more" if len(broken) > MOST_SHOWN else ""
    if len(broken) > allowed:
        raise UserError(
            f"{counted(len(broken), 'record is not an item', 'records are not items')} and cannot be protected:\n"
            f"{shown}{more}\nCorrect the files or the fields, or write allow_broken: {len(broken)}."
        )
    if not has_items:
        raise UserError(
            f"it has no items, so nothing would be protected. Correct files or fields.\n{shown}{more}".strip()
        )


def _records(file: BenchmarkFile, kind: Format, form: Form, answers: list[str | ReadFault] | None) -> Iterator[Row]:
    """The records of a file, each with its line of answers."""
    last = 0
    for row, record in records(file, kind, form):
        last = row
        if answers is not None and isinstance(record, dict) and row:
            answer = answers[row - 1] if row <= len(answers) else ReadFault("no_answer", "no such line in answer_file")
            record = answer if isinstance(answer, ReadFault) else {**record, ANSWER_LINE: answer}
        yield row, record
    if answers is not None and last != len(answers):
        raise UserError(
            f"{file.name} has {counted(last, 'record')}, but its file of answers has {counted(len(answers), 'line')}, "
            "so records and answers cannot be paired. Name the right file of answers."
        )


def _answer_lines(file: BenchmarkFile) -> list[str | ReadFault]:
    rows = records(file, "lines", _ANSWERS)
    return [record if isinstance(record, ReadFault) else record["0"].strip() for _, record in rows]


def _form_of(
    file: BenchmarkFile, kind: Format, forms: list[NamedForm], answers: list[str | ReadFault] | None
) -> NamedForm:
    """The first form that fits one of the first records of a file."""
    if len(forms) == 1:
        return forms[0]
    names: list[str] = []
    for chosen in (one for one in forms if one.form.format in (None, kind)):
        for row, record in records(file, kind, chosen.form):
            if row > TRIED_RECORDS:
                break
            if isinstance(record, ReadFault):
                continue
            if answers is not None and 0 < row <= len(answers):
                record[ANSWER_LINE] = answers[row - 1]
            try:
                item_of(record, chosen.form, "", "")
                return chosen
            except Broken:
                names = names or field_names(record)
    wanted = "; ".join(f"{one.name}: {', '.join(dict.fromkeys(one.form.paths()))}" for one in forms)
    first = f"Its first record has {', '.join(names[:20])}" if names else "It has no readable record"
    raise UserError(
        f"{file.name} matches none of the known forms. {first}; the forms need {wanted}. Instead of like, describe "
        "its fields: question: FIELD, and the others."
    )
