"""Reads the items of one benchmark: finds its files, the form of each file, and the item of each record."""

from collections.abc import Mapping
from typing import NamedTuple

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.stages.decontaminate.suite.describe import Benchmark
from gristmill.stages.decontaminate.suite.files import Folder, Format, format_of, records
from gristmill.stages.decontaminate.suite.form import Broken, Form, Item, item_of
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.fields import field_names

MOST_SHOWN = 5
TRIED_RECORDS = 20
"""The number of first records that are tried to find the form of a file, since the very first may be broken."""


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
    _refuse(broken, benchmark.allow_broken, bool(items))
    roles = tuple(role for role in Item._fields[2:] if any(getattr(item, role) for item in items.values()))
    return items, Counts(len(files), tuple(used), roles, duplicates, len(broken))


def _item(record: dict[str, object] | ReadFault, form: Form, name: str, location: str) -> Item:
    if isinstance(record, ReadFault):
        raise Broken(f"{record.detail} ({record.reason})")
    return item_of(record, form, name, location)


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
