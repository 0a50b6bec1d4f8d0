"""A sample of matches for a person to review: documents, with the passages that a step matched.

Only steps with `highlights` (stages/contract.py) can be audited. The type of a dropped document is its reason; other
documents have the types of their matches. Every type has an equal share, and documents are drawn in the order of
`query/documents/draw.py`. Withheld documents (`withheld.py`) are
never drawn.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.plan.graph import Node, NodeFacts
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.engine.schedule.progress import Track, untracked
from gristmill.engine.work.task import part_from_json
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.query.documents.documents import LANGUAGE
from gristmill.query.documents.draw import ranks
from gristmill.query.takedown import withheld
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.checks.files import place_files
from gristmill.recipe.checks.mistakes import listed, suggest
from gristmill.stages import STEPS
from gristmill.stages.buffers import one_chunk
from gristmill.stages.calls import Match
from gristmill.stages.contract import AnyStage, LayerStage, StageConfig
from gristmill.stages.declarations import stage_of
from gristmill.store.parquet import PartReader, open_parts

Span = tuple[int, int, str]
"""Start and stop in bytes, and the label."""

AROUND_BYTES = 160
"""The text that is shown before and after a match."""
PASSAGE_BYTES = 1200
"""The longest passage with several matches."""
MOST_PASSAGES = 5
"""The most passages of a document."""
OPENING_BYTES = 600
"""The text that is shown if there is no match."""
_LABEL = "language.label"


@dataclass(frozen=True)
class Passage:
    """A part of a text, in pieces: each with the label of its match, or None."""

    start: int
    """The offset in bytes in the step's input text."""
    pieces: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Example:
    """A document that a step matched."""

    step: str
    type: str
    doc_id: str
    source: str
    locator: str
    url: str | None
    language: str | None
    detail: str | None
    matches: int
    """The number of matches in the whole text."""
    text_bytes: int
    passages: tuple[Passage, ...]


@dataclass(frozen=True)
class AuditedStep:
    """A step that can highlight its matches."""

    node: NodeFacts
    highlights: Callable[[pa.RecordBatch, Any], Sequence[Match]]
    matched: tuple[str, ...]
    """Columns that are not empty for rows that the step changed (stages/contract.py)."""
    config: StageConfig | None
    """None if the run record is incomplete, so that matches cannot be found again."""


def audited_steps(view: CorpusView, step: str | None) -> list[AuditedStep]:
    """The steps of a corpus that can be audited, or those with one name."""
    found = [one for node in view.nodes.values() if (one := _audited(view, node)) is not None]
    if not found:
        stages = {name: stage_of(path) for name, path in STEPS.items()}
        able = [name for name, stage in stages.items() if isinstance(stage, LayerStage) and stage.highlights]
        raise UserError(
            f"{view.label} has no step that matches texts, so there is nothing to audit. Steps that can be audited: "
            f"{', '.join(able)}."
        )
    wanted = [one for one in found if step in (None, one.node.id, one.node.name)]
    if not wanted:
        names = dict.fromkeys(one.node.name for one in found)
        raise UserError(
            f"{option('step', step)}: {view.label} has no such step to audit. {suggest(str(step), names, 'Steps')}"
        )
    waiting = [one.node.id for one in wanted if one.node.id in view.unfinished()]
    if waiting:
        raise UserError(f"{listed(waiting, 10)} did not finish with the current recipe. {view.to_finish}")
    return wanted


def _audited(view: CorpusView, node: NodeFacts) -> AuditedStep | None:
    name = node.module if isinstance(node, Node) else STEPS.get(node.name)
    if name is None or not node.has_layers:
        return None
    stage = stage_of(name)
    if not isinstance(stage, LayerStage) or stage.highlights is None:
        return None
    config = node.config if isinstance(node, Node) else recorded_config(view, node, stage)
    return AuditedStep(node, stage.highlights, stage.matched, config)


class _NotKept(Exception):
    """The run record has the files of a folder without their names."""


def recorded_config(view: CorpusView, node: NodeFacts, stage: AnyStage) -> StageConfig | None:
    """The config of a step in a run record, with the store's copies of its files."""
    assert view.record is not None
    recorded = view.record["nodes"][node.id]
    copies = {part.hash: part for part in map(part_from_json, recorded.get("config_files", ()))}

    def place(content: str, _: object) -> str:
        if content not in copies:
            raise _NotKept
        return str(view.store.local_path(copies[content]))

    try:
        config: StageConfig = stage.config.model_validate(
            place_files(stage.config, recorded["identity"]["config"], (), place)
        )
    except _NotKept:
        return None
    return config


def counts(steps: Sequence[AuditedStep], view: CorpusView, kind: str | None = None) -> list[dict[str, Any]]:
    """Documents by step, type, source and language, from the metrics of the steps, in descending order."""
    rows = [
        {"step": one.node.id, "type": name, "source": source, "language": language, "documents": count}
        for one in steps
        for name, by_source in view.states[one.node.id].metrics.get("found", {}).items()
        for source, by_language in by_source.items()
        for language, count in by_language.items()
        if kind in (None, name)
    ]
    return sorted(rows, key=lambda row: (-row["documents"], *map(str, row.values())))


def draw(
    view: CorpusView, steps: Sequence[AuditedStep], kind: str | None, number: int, track: Track = untracked
) -> tuple[list[Example], int]:
    """Examples of all types or of one, in the order of the draw, and the number of withheld documents."""
    kept: dict[tuple[str, str], list[tuple[int, Example]]] = {}
    hidden: set[tuple[Any, ...]] = set()
    for step in steps:
        for source in step.node.sources:
            documents = view.documents.get(source, [])
            for document in track("parts", documents, len(documents)):
                for group in _groups(view, step, document):
                    hidden.update((source, document.order, group.number, row) for row in group.hidden)
                    for rank, example in group.examples():
                        if kind in (None, example.type):
                            of_type = kept.setdefault((example.step, example.type), [])
                            of_type.append((rank, example))
                            if len(of_type) >= 4 * number:
                                of_type.sort(key=lambda one: one[0])
                                del of_type[number:]
    for of_type in kept.values():
        of_type.sort(key=lambda one: one[0])
    return _shared(kept, number), len(hidden)


def _shared(kept: Mapping[tuple[str, str], list[tuple[int, Example]]], number: int) -> list[Example]:
    """Take examples from all types in turn until there are enough; a document is shown once per step."""
    chosen: dict[tuple[str, str], list[Example]] = {name: [] for name in sorted(kept)}
    taken: set[tuple[str, str]] = set()
    queues = {name: iter(kept[name]) for name in chosen}
    while queues and len(taken) < number:
        for name in list(queues):
            fresh = (one for _, one in queues[name] if (one.step, one.doc_id) not in taken)
            example = next(fresh, None)
            if example is None:
                del queues[name]
            elif len(taken) < number:
                taken.add((example.step, example.doc_id))
                chosen[name].append(example)
    return [example for examples in chosen.values() for example in examples]


@dataclass(frozen=True)
class _MatchedRows:
    """The rows of a row group that a step matched."""

    step: AuditedStep
    source: str
    number: int
    table: pa.RecordBatch
    ranks: Sequence[int]
    hidden: tuple[int, ...]
    """Matching rows of the group that are withheld."""

    def examples(self) -> Iterator[tuple[int, Example]]:
        """Examples with their sort keys."""
        if not self.table.num_rows:
            return
        spans: dict[int, list[Span]] = {}
        config = self.step.config
        for row, start, stop, label in () if config is None else self.step.highlights(self.table, config):
            spans.setdefault(row, []).append((start, stop, label))
        for row in range(self.table.num_rows):
            shown_fields = {name: self.table[name][row].as_py() for name in _SHOWN}
            text, found = (self.table["text"][row].as_py() or "").encode(), sorted(spans.get(row, ()))
            reason = self.table["drop"][row].as_py()
            for name in sorted({label for _, _, label in found}) if reason is None else (reason,):
                shown = [one for one in found if reason is not None or one[2] == name]
                yield (
                    self.ranks[row],
                    Example(
                        self.step.node.id,
                        name,
                        shown_fields["doc_id"].hex(),
                        self.source,
                        shown_fields["locator"],
                        shown_fields["url"],
                        self.table[_LABEL][row].as_py() if _LABEL in self.table.schema.names else None,
                        self.table["detail"][row].as_py(),
                        len(shown),
                        len(text),
                        tuple(passages(text, found, name if reason is None else None)),
                    ),
                )


_SHOWN = ("doc_id", "locator", "url")


def _groups(view: CorpusView, step: AuditedStep, document: DocumentPart) -> Iterator[_MatchedRows]:
    before, language = INGEST, None
    for node_id in view.chains[document.source]:
        node = view.nodes[node_id]
        if node_id == step.node.id:
            break
        if node.has_layers and "text" in node.columns:
            before = node_id
        if node.name == LANGUAGE and "label" in node.columns:
            language = node_id
    names = [INGEST, step.node.id, before, *([] if language is None else [language])]
    first, own, text, *label = open_parts(view.store, [view.layer(name, document) for name in names])
    marks = withheld.Withheld(view, document)
    wrote = [name for name in own.names if name not in ("text", "text_bytes", *_SHOWN)]
    of_part, offset = ranks(document), 0
    for group in range(len(own.groups)):
        layer = own.read_group(group, wrote)
        matched = _matched(layer, step.matched)
        hidden = marks.in_group(group, layer.num_rows).is_valid()
        rows = pa.array(pc.indices_nonzero(pc.and_not(matched, hidden)))
        columns = {name: layer[name] for name in wrote}
        if len(rows):
            columns |= _read(first, group, _SHOWN) | _read(text, group, ("text",))
            for reader in label:
                columns[_LABEL] = _read(reader, group, ("label",))["label"]
        taken = {name: one_chunk(column).take(rows) for name, column in columns.items()}
        withheld_rows = pc.indices_nonzero(pc.and_(matched, hidden)).to_pylist()
        table, drawn = pa.RecordBatch.from_pydict(taken), of_part[offset + rows.to_numpy()].tolist()
        yield _MatchedRows(step, document.source, group, table, drawn, tuple(withheld_rows))
        offset += layer.num_rows


def _read(reader: PartReader, group: int, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    table = reader.read_group(group, names)
    return {name: table[name] for name in names}


def _matched(layer: pa.Table, names: Sequence[str]) -> pa.Array:
    """Rows that the step dropped, or that have a value in one of its match columns."""
    found = one_chunk(layer["drop"]).is_valid()
    for name in names:
        column = one_chunk(layer[name])
        some = column.is_valid()
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            some = pc.fill_null(pc.greater(pc.list_value_length(column), 0), False)
        elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            some = pc.fill_null(pc.not_equal(column, 0), False)
        found = pc.or_(found, some)
    return found


def passages(text: bytes, spans: Sequence[Span], wanted: str | None = None) -> Iterator[Passage]:
    """Up to MOST_PASSAGES passages around matches; overlapping ones are merged. With `wanted`, only around matches with
    that label, but all matches inside are marked. Without a match, the opening of the text.
    """
    windows: list[tuple[int, int]] = []
    for start, stop, label in spans:
        if wanted is not None and label != wanted:
            continue
        begin, end = max(start - AROUND_BYTES, 0), min(stop + AROUND_BYTES, len(text))
        if windows and begin <= windows[-1][1] and end - windows[-1][0] <= PASSAGE_BYTES:
            windows[-1] = (windows[-1][0], max(windows[-1][1], end))
        elif not windows or stop > windows[-1][1]:
            windows.append((begin if not windows else min(start, max(begin, windows[-1][1])), end))
    windows = windows or [(0, min(len(text), OPENING_BYTES))]
    for begin, end in windows[:MOST_PASSAGES]:
        begin, end = _whole(text, begin), _whole(text, end)
        pieces: list[tuple[str, str | None]] = []
        at = begin
        for start, stop, label in spans:
            if start < at or stop > end:
                continue
            pieces += [(_decoded(text[at:start]), None), (_decoded(text[start:stop]), label)]
            at = stop
        pieces.append((_decoded(text[at:end]), None))
        yield Passage(begin, tuple(piece for piece in pieces if piece[0]))


def _whole(text: bytes, at: int) -> int:
    """The start of the character that byte `at` is in."""
    while 0 < at < len(text) and text[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")
