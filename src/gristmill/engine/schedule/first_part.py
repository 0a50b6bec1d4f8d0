"""A source whose first part loses everything at reading stops the run: a recipe that asks for a field that no record
has, or for another format than the files are of, is a mistake and no data.

It is a mistake when no record of the first part is left and nearly all of them are dropped for one reason. What else a
file holds by its nature (the requests in an archive of responses) does not count. Only the first part decides, so
neither workers nor their order do, and it decides the same when it was read by an earlier run.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gristmill.counted import counted
from gristmill.engine.plan.inputs import stands_for_a_file
from gristmill.engine.work.rows import CRASHED
from gristmill.engine.work.task import Result
from gristmill.errors import UserError
from gristmill.places import shown
from gristmill.recipe.checks.mistakes import nearest
from gristmill.recipe.model import Recipe, Source
from gristmill.stages import READERS
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.ingest.sniff import UNREADABLE, format_by_name, format_of
from gristmill.stages.reading.fields import Fields, names_there
from gristmill.store.parquet import PartReader
from gristmill.store.store import Store

ONE_REASON = 0.9
"""The share of the lost records that one reason has: among many bad records there is a broken line."""
DESCRIBING = frozenset(("warcinfo_record", "filedesc_record"))
"""Records at the beginning of a file that say nothing of what follows; with small parts they are all of the first."""
_USUAL = ("text", "content", "raw_content", "body", "page_content", "document", "article", "markdown", "html")
"""What the text of a record is called."""


def refuse_lost(
    source: Source, reader: Reader[Any], first: Piece, result: Result, store: Store, recipe: Recipe
) -> None:
    """Raises UserError if the first part of a source, whose first file that is, is lost as a whole."""
    seen: Mapping[str, Any] = result.metrics.get("seen", result.metrics)
    reasons = reasons_for_all(seen["rows"], seen["dropped"], reader)
    if reasons:
        example = _first_row(result, store, reasons[0])
        raise UserError(lost_source(source, recipe, seen["rows"], reasons, example, first.name, format_of(first)))


def lost_source(
    source: Source,
    recipe: Recipe,
    rows: int,
    reasons: Sequence[str],
    example: tuple[str, str],
    name: str,
    looks_like: str | None,
) -> str:
    """The message for a source of which all is lost; `example` has locator and detail of a record of the file `name`,
    and `looks_like` is the format of that file by its first bytes.
    """
    locator, detail = example
    return (
        f"{recipe.path}:{source.line}: sources.{source.name}: nothing of its first part can be used. The "
        f"reader (format: {source.format}) {_found(rows, reasons)}, so the run stops. "
        f"The first, {locator}: {detail.rstrip('.')}. {_fix(source, name, looks_like, reasons[0], detail)}"
    )


def _found(rows: int, reasons: Sequence[str]) -> str:
    told = " or ".join(reasons)
    if all(stands_for_a_file(reason) for reason in reasons):
        return f"found no record there: {told}"
    return f"found {counted(rows, 'record')} there and dropped every one as {told}"


def reasons_for_all(rows: int, dropped: Mapping[str, int], reader: Reader[Any]) -> list[str]:
    """The one reason for which all is lost, or those of records that are never documents; else none."""
    used = (*reader.used, CRASHED)
    if not rows or sum(dropped.values()) < rows or any(reason in used for reason in dropped):
        return []
    counted = {reason: count for reason, count in dropped.items() if reason not in reader.beside}
    if not counted:
        return [] if DESCRIBING.issuperset(dropped) else sorted(dropped)
    most = max(counted, key=lambda reason: (counted[reason], reason))
    return [most] if counted[most] >= ONE_REASON * sum(counted.values()) else []


def _first_row(result: Result, store: Store, reason: str) -> tuple[str, str]:
    columns = PartReader(store, result.parts[0]).read_group(0, ("locator", "drop", "detail"))
    rows = zip(*(column.to_pylist() for column in columns.columns), strict=True)
    found = next(((locator, detail) for locator, drop, detail in rows if drop == reason and detail), None)
    return found or (str(columns.column("locator")[0].as_py()), "nothing more is known")


def _fix(source: Source, name: str, looks_like: str | None, reason: str, detail: str) -> str:
    if "`delimiter:" in detail:
        return "Set it under `read`, and run again."
    if UNREADABLE in detail:
        return "Unpack it and name the files."
    if "`iconv " in detail:
        return "Convert the files, and read those."
    if reason == "invalid_utf8":  # before the format: what is no UTF-8 looks like none, or like another
        return (
            "Convert the files to UTF-8, with `iconv -f latin1 -t utf8 OLD > NEW` where they are Latin-1 (`file OLD` "
            "guesses the encoding), and read those."
        )
    fields, there = getattr(source.config, "fields", None), names_there(detail)
    if name.lower().endswith(".ipynb") or {"cells", "nbformat"}.issubset(there):
        return (
            f"{shown(name)} is a Jupyter notebook, and no reader takes the text out of one. Convert the notebooks "
            "(`jupyter nbconvert --to markdown FILE`), and read the results with `format: text`; for their code, "
            "convert with `--to script` and read with `format: code`."
        )
    if looks_like is not None and READERS[looks_like] != source.module:
        return f"By its first bytes {shown(name)} is for `format: {looks_like}`."
    named = format_by_name(name)
    if looks_like is None and named is not None and READERS[named] != source.module:
        return f"By its name {shown(name)} is for `format: {named}`."
    if isinstance(fields, Fields) and there:
        asked = [path for path in (fields.text, fields.html) if path is not None]
        near = _meant(asked, there)
        if stepped := _without_number(asked, there):
            return stepped
        return "Let `fields` under `read` name what they have" + (
            f"; did you mean `fields: {{text: {near}}}`?" if near else "."
        )
    return "Correct `format` and the settings of `read`, or leave the files out with `exclude`, and run again."


def _without_number(asked: Iterable[str], there: list[str]) -> str | None:
    """What to write for `messages.content`, where `messages` is there and no object: most often it is a list."""
    for path in asked:
        name, dot, below = path.partition(".")
        if dot and name in there:
            return (
                f"{shown(name)} is a list or a plain value, which has no {shown(below)}. A number steps into a list, 0 "
                f"being its first entry: `fields: {{text: {shown(name)}.0.{shown(below)}}}`."
            )
    return None


def _meant(asked: Sequence[str], there: list[str]) -> str | None:
    """A field below the one that was asked for, or that is called nearly so, or as texts are called, at any depth."""
    if below := [name for name in there if any(name.startswith(f"{path}.") for path in asked)]:
        return _usual(below) or below[0]
    near = next((found for path in asked if (found := nearest(path, there))), None)
    return near or _usual(there)


def _usual(names: Sequence[str]) -> str | None:
    return next((name for wanted in _USUAL for name in names if name.rpartition(".")[2].lower() == wanted), None)
