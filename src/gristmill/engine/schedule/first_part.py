"""Stops the run if the first part of a source loses everything at reading: a recipe that names a field that no record
has, or the wrong format, is a mistake, and not a property of the data.

It is a mistake if no record of the first part is left and nearly all of them are dropped for one reason. Other records
that files contain by design (the requests in an archive of responses) do not count. Only the first part decides, so the
result does not depend on workers or their order, and it is the same if an earlier run read the part.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gristmill.counted import counted
from gristmill.engine.plan.inputs import is_about_a_file
from gristmill.engine.work.rows import CRASHED
from gristmill.engine.work.task import Result
from gristmill.errors import UserError
from gristmill.places import shown
from gristmill.recipe.checks.mistakes import nearest
from gristmill.recipe.model import Recipe, Source
from gristmill.recipe.stage_module import known_formats
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.declarations import stage_of
from gristmill.stages.ingest.sniff import UNREADABLE, format_by_name, format_of
from gristmill.stages.reading.archive import archive_glob, is_archive
from gristmill.stages.reading.fields import Fields, names_there
from gristmill.store.parquet import PartReader
from gristmill.store.store import Store

ONE_REASON = 0.9
"""The share of the lost records that one reason must have: among many bad records there may be a broken line."""
DESCRIBING = frozenset(("warcinfo_record", "filedesc_record"))
"""Records at the start of a file that do not represent what follows; with small parts they are all of the first."""
_USUAL = ("text", "content", "raw_content", "body", "page_content", "document", "article", "markdown", "html")
"""Usual names for the text of a record."""


def refuse_lost(
    source: Source, reader: Reader[Any], first: Piece, result: Result, store: Store, recipe: Recipe
) -> None:
    """Raise UserError if the first part of a source, with the first file `first`, is lost as a whole."""
    counts: Mapping[str, Any] = result.metrics.get("seen", result.metrics)
    reasons = reasons_for_all(counts["rows"], counts["dropped"], reader)
    if reasons:
        example = _first_row(result, store, reasons[0])
        raise UserError(lost_source(source, recipe, counts["rows"], reasons, example, first.name, format_of(first)))


def lost_source(
    source: Source,
    recipe: Recipe,
    rows: int,
    reasons: Sequence[str],
    example: tuple[str, str],
    name: str,
    looks_like: str | None,
) -> str:
    """The message for a source that is lost as a whole; `example` has locator and detail of a record in the file
    `name`, and `looks_like` is the format that the first bytes of that file suggest.
    """
    locator, detail = example
    return (
        f"{recipe.path}:{source.line}: sources.{source.name}: no record of its first part can be used. The "
        f"reader (format: {source.format}) {_found(rows, reasons)}, so the run stops. "
        f"The first, {locator}: {detail.rstrip('.')}. {_fix(source, name, looks_like, reasons[0], detail)}"
    )


def _found(rows: int, reasons: Sequence[str]) -> str:
    listing = " or ".join(reasons)
    if all(is_about_a_file(reason) for reason in reasons):
        return f"found no record there: {listing}"
    return f"found {counted(rows, 'record')} there and dropped all of them: {listing}"


def reasons_for_all(rows: int, dropped: Mapping[str, int], reader: Reader[Any]) -> list[str]:
    """The one reason for which everything is lost, or the reasons of records that are never documents; else none."""
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


def _reads(format_name: str, source: Source) -> bool:
    return known_formats(format_name).get(format_name) == source.module


def _fix(source: Source, name: str, looks_like: str | None, reason: str, detail: str) -> str:
    if "`delimiter:" in detail:
        return "Set it under `read`, and run again."
    if UNREADABLE in detail and is_archive(name):
        return f"Name it in `paths`, as in `{archive_glob(name)}`, or leave it out with `exclude`."
    if UNREADABLE in detail:
        return "Unpack it and name the files."
    if "`iconv " in detail:
        return "Convert the files, and read those."
    if reason == "invalid_utf8":  # before the format, because such files look like no format, or like another one
        return (
            "Convert the files to UTF-8, with `iconv -f latin1 -t utf8 OLD > NEW` if they are Latin-1 (`file OLD` "
            "guesses the encoding), and read the converted files."
        )
    fields, there = dict(source.config).get("fields"), names_there(detail)
    is_notebook = name.lower().endswith(".ipynb") or {"cells", "nbformat"}.issubset(there)
    if is_notebook and not _reads("notebook", source):
        return f"{shown(name)} is a Jupyter notebook. Read such files with `format: notebook`."
    if looks_like is not None and not _reads(looks_like, source):
        return f"The first bytes of {shown(name)} suggest `format: {looks_like}`."
    named = format_by_name(name)
    if looks_like is None and named is not None and not _reads(named, source):
        return f"The name of {shown(name)} suggests `format: {named}`."
    if isinstance(fields, Fields) and there:
        wanted = [path for path in (fields.text, fields.html) if path is not None]
        near = _meant(wanted, there)
        if stepped := _without_number(wanted, there):
            return stepped
        return "Name an existing field in `fields` under `read`" + (
            f"; did you mean `fields: {{text: {near}}}`?" if near else "."
        )
    fixes = stage_of(source.module, Reader).fixes_of(source.config)
    fix = fixes.get(reason, "Correct `format` and the settings of `read`").removesuffix(".")
    return f"{fix}, or leave the files out with `exclude`, and run again."


def _without_number(wanted: Iterable[str], there: list[str]) -> str | None:
    """The fix for `messages.content` if `messages` exists and is not an object: most often it is a list."""
    for path in wanted:
        name, dot, below = path.partition(".")
        if dot and name in there:
            return (
                f"{shown(name)} is a list or a plain value, which has no {shown(below)}. Use a number to index a list, "
                f"starting at 0: `fields: {{text: {shown(name)}.0.{shown(below)}}}`."
            )
    return None


def _meant(wanted: Sequence[str], there: list[str]) -> str | None:
    """A field below the wanted one, or with nearly the same name, or with a usual name for text, at any depth."""
    if below := [name for name in there if any(name.startswith(f"{path}.") for path in wanted)]:
        return _usual(below) or below[0]
    near = next((found for path in wanted if (found := nearest(path, there))), None)
    return near or _usual(there)


def _usual(names: Sequence[str]) -> str | None:
    return next((name for usual in _USUAL for name in names if name.rpartition(".")[2].lower() == usual), None)
