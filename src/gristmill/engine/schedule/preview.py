"""Reads the beginning of each source before any work, so that all mistakes of a recipe are reported at once.

A source is refused if its first part would be refused after it was read (`first_part.py`) and the beginning leaves
little doubt: the reader refuses the files as such, or drops MIN_RECORDS records for one reason, or has read them all.
Anything less is a warning in the plan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gristmill.counted import counted
from gristmill.engine.executors.executor import Executor, WorkerDied
from gristmill.engine.plan.graph import Node
from gristmill.engine.plan.inputs import MIN_UNREAD_SHARE, SourceInputs, field_warnings, is_about_a_file, unread
from gristmill.engine.schedule.first_part import lost_source, reasons_for_all
from gristmill.engine.work.preview import FilePreview
from gristmill.engine.work.task import Preview, Task, add_counts
from gristmill.errors import NoInput, UserError
from gristmill.places import shown
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.model import Recipe, Source
from gristmill.stages import NO_FAULT
from gristmill.stages.contract import Reader
from gristmill.stages.declarations import stage_of
from gristmill.stages.reading.markup import markup_warnings
from gristmill.warned import Warned

MOST_FILES = 8
"""The most files of the first part of a source, and again of all later ones; evenly spread."""
MIN_RECORDS = 20
"""Fewer records do not prove that a field is missing everywhere."""
_OF_RECORDS = ("jsonl", "parquet", "warc", "wet")
"""Formats of many records: a file that begins like one of them is not a single text or page."""

Item = TypeVar("Item")


@dataclass
class Previews:
    """What is known about all sources before any work."""

    sources: int = 0
    """How many sources were previewed."""
    read_bytes: int = 0
    records: int = 0
    bad: dict[str, int] = field(default_factory=dict)
    """The records with a fault, by reason, including those that the reader repairs."""
    faults: dict[str, UserError] = field(default_factory=dict)
    """By source."""
    warnings: list[str] = field(default_factory=list)
    formats: list[Warned] = field(default_factory=list)
    """Warnings about files in another format, which no metric of a run shows, so a run repeats them."""

    async def add(self, recipe: Recipe, node: Node, inputs: SourceInputs, executor: Executor) -> None:
        """Read the beginning of a source. A file that kills its reader is left for the run, which isolates the record.

        Raises UserError if a file cannot be opened.
        """
        source, groups = recipe.sources[inputs.source], inputs.groups
        later = [group.pieces[0] for group in groups[1:] if group.pieces[0].start == 0]
        pieces = (*_spread(groups[0].pieces), *_spread(later))
        companions = {one.name: inputs.companions[one.name] for one in pieces if one.name in inputs.companions}
        work = Preview(source.module, source.config, pieces, companions, source.name, None, None, source.part_bytes)
        try:
            result = await executor.run(Task("", node.id, "the beginning of its files", work, (-1,), files=node.files))
        except WorkerDied:
            return
        read_bytes, found = result.values
        self.sources += 1
        self.read_bytes += read_bytes
        rows, dropped = _summed(found)
        repaired = sum(one.repaired for one in found)
        self.records += rows
        bad = {reason: count for reason, count in dropped.items() if reason not in NO_FAULT}
        add_counts(self.bad, bad | ({"repaired": repaired} if repaired else {}))
        if (fault := _fault(recipe, source, inputs, found)) is not None:
            self.faults[source.name] = UserError(fault)
        else:
            step = f"{source.name}/{INGEST}"
            self.warnings += [f"{step}: {message}" for message in _warnings(source, inputs, found)]
            self.formats += [
                Warned("other_format", f"{step}: {message}", step) for message in _other_formats(source, found)
            ]

    def refuse(self, recipe: Recipe) -> None:
        """Raise one UserError for all faults, in the order of the recipe."""
        faults = [self.faults[name] for name in recipe.sources if name in self.faults]
        if len(faults) == 1:
            raise faults[0]
        if faults:
            summary = f"{len(faults):,} of {counted(len(recipe.sources), 'source')} cannot be read, so nothing was run."
            kind = NoInput if all(isinstance(fault, NoInput) for fault in faults) else UserError
            raise kind("\n- ".join((summary, *map(str, faults))))


def _spread(items: Sequence[Item]) -> list[Item]:
    taken = min(len(items), MOST_FILES)
    return [items[number * len(items) // taken] for number in range(taken)]


def _fault(recipe: Recipe, source: Source, inputs: SourceInputs, found: Sequence[FilePreview]) -> str | None:
    """Why a run cannot use a source; None if it can."""
    names = {piece.name for piece in inputs.groups[0].pieces}
    first = [one for one in found if one.name in names]
    rows, dropped = _summed(first)
    reasons = reasons_for_all(rows, dropped, stage_of(source.module, Reader))
    is_whole = len(first) == len(names) and all(one.is_whole for one in first)
    if not reasons or not (is_whole or _is_sure(reasons[0], rows)):
        return None
    file = next(one for one in first if reasons[0] in one.examples)
    return lost_source(source, recipe, rows, reasons, file.examples[reasons[0]], file.name, file.format)


def _is_sure(reason: str, rows: int) -> bool:
    return reason not in NO_FAULT and (is_about_a_file(reason) or rows >= MIN_RECORDS)


def _summed(found: Sequence[FilePreview]) -> tuple[int, dict[str, int]]:
    dropped: dict[str, int] = {}
    for one in found:
        add_counts(dropped, one.dropped)
    return sum(one.rows for one in found), dropped


def _warnings(source: Source, inputs: SourceInputs, found: Sequence[FilePreview]) -> Iterator[str]:
    rows, dropped = _summed(found)
    for reason, count in dropped.items():
        if is_about_a_file(reason) or (count >= MIN_UNREAD_SHARE * rows and reason in unread(dropped)):
            locator, detail = next(one.examples[reason] for one in found if reason in one.examples)
            fact = f"{count:,} of the first {counted(rows, 'record')} cannot be used: {reason}"
            yield f"{fact}. The first, {locator}: {detail.rstrip('.')}"
    markup: dict[str, int] = {}
    fields: dict[str, Any] = {}
    for one in found:
        add_counts(fields, one.fields)
        add_counts(markup, one.markup if not inputs.expects_markup else {})
    yield from field_warnings(source.config, fields, rows, "the first")
    yield from markup_warnings(markup, "text", "texts", "no step removes it. Add the step `- extract`.")


def _other_formats(source: Source, found: Sequence[FilePreview]) -> Iterator[str]:
    others = [one for one in found if one.format in _OF_RECORDS and source.format in ("text", "html")]
    if others:
        first = f"{shown(others[0].name)} looks like `format: {others[0].format}`"
        yield f"{first}, but `format: {source.format}` reads it as one document. Read such files in another source"
