"""The items of one benchmark: its files, in the form that each of them has, record by record."""

from collections.abc import Iterator
from typing import NamedTuple

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.stages.decontaminate.suite.describe import Benchmark
from gristmill.stages.decontaminate.suite.files import Folder, Found, Row, format_of, records
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
"""So many records at the start of a file are looked at to find its form: the first may be a broken one."""
_ANSWERS = Reading(format="lines")


class Counts(NamedTuple):
    """What reading a benchmark met."""

    files: int
    forms: tuple[str, ...]
    """Names of the forms that its files have."""
    roles: tuple[str, ...]
    """What its items have."""
    duplicates: int
    """Records that are the same as an earlier one, and no items of their own."""
    broken: int
    """Records that are no items, as `allow_broken` allows."""


def read_benchmark(
    folder: Folder, name: str, benchmark: Benchmark, forms: list[NamedForm]
) -> tuple[list[Item], list[str], Counts]:
    """Its items, their digests, and what there is to tell. Raises UserError."""
    found = _found(folder, benchmark.files, benchmark.inside)
    answers = _answer_files(folder, benchmark)
    if answers and len(answers) != len(found):
        raise UserError(
            f"{counted(len(found), 'file')} of records and {counted(len(answers), 'file')} of answers, and each "
            "needs its own. Correct files or answer_file."
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
            raise UserError(f"{file.name} is {kind}, where {idle} does nothing. Remove it, or correct format.")
        if lines is not None and ANSWER_LINE not in chosen.form.paths():
            raise UserError(
                f"the answers of answer_file are used by no field. Write answer: {ANSWER_LINE}, or answer_choice."
            )
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


def _found(folder: Folder, patterns: tuple[str, ...], inside: str | None) -> list[Found]:
    taken = {file.name: file for pattern in patterns for file in folder.find(pattern, inside)}
    return [taken[name] for name in sorted(taken)]


def _answer_files(folder: Folder, benchmark: Benchmark) -> list[Found]:
    """They lie where the records lie: in the folder, or in the archives."""
    if benchmark.answer_file is None:
        return []
    if benchmark.inside is None:
        return folder.find(benchmark.answer_file, None)
    return _found(folder, benchmark.files, benchmark.answer_file)


def _refuse(broken: list[str], allowed: int, has_items: bool) -> None:
    told = "\n".join(broken[:MOST_SHOWN])
    more = f"\nand {len(broken) - MOST_SHOWN:,} more" if len(broken) > MOST_SHOWN else ""
    if len(broken) > allowed:
        raise UserError(
            f"{counted(len(broken), 'record is', 'records are')} no item and cannot be protected:\n{told}{more}\n"
            f"Correct the files or the fields, or say allow_broken: {len(broken)}."
        )
    if not has_items:
        raise UserError(
            f"it has no item, so nothing would be protected. Correct files or fields.\n{told}{more}".strip()
        )


def _records(file: Found, kind: Format, form: Form, answers: list[str | ReadFault] | None) -> Iterator[Row]:
    """The records with their answers."""
    last = 0
    for row, record in records(file, kind, form):
        last = row
        if answers is not None and isinstance(record, dict) and row:
            answer = (
                answers[row - 1] if row <= len(answers) else ReadFault("no_answer", "answer_file has no line for it")
            )
            record = answer if isinstance(answer, ReadFault) else {**record, ANSWER_LINE: answer}
        yield row, record
    if answers is not None and last != len(answers):
        raise UserError(
            f"{file.name} has {counted(last, 'record')} and its file of answers {counted(len(answers), 'line')}, so it "
            "is not known which is whose. Name the file of answers that belongs to it."
        )


def _answer_lines(file: Found) -> list[str | ReadFault]:
    rows = records(file, "lines", _ANSWERS)
    return [record if isinstance(record, ReadFault) else record["0"].strip() for _, record in rows]


def _form_of(file: Found, kind: Format, forms: list[NamedForm], answers: list[str | ReadFault] | None) -> NamedForm:
    """The first form that one of the first records of a file fits."""
    if len(forms) == 1:
        return forms[0]
    seen: list[str] = []
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
                seen = seen or field_names(record)
    told = "; ".join(f"{one.name}: {', '.join(dict.fromkeys(one.form.paths()))}" for one in forms)
    first = f"Its first record has {', '.join(seen[:20])}" if seen else "It has no record that can be read"
    raise UserError(
        f"{file.name} has none of the forms that are known. {first}; the forms want {told}. Describe its fields in "
        "place of like: question: FIELD, and the others."
    )
