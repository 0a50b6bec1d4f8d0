"""The life of a document: its origin, the verdict and the cuts of every step, and its location in the shards."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.engine.plan.graph import CORPUS
from gristmill.engine.publish.catalog import version_of_step
from gristmill.engine.publish.run_record import finished_runs, see_record, version_names
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.errors import Gone, UserError
from gristmill.query.documents.cut_pieces import cut_again
from gristmill.query.documents.documents import COLUMNS
from gristmill.query.documents.layers import DocumentLayers
from gristmill.query.documents.lookup import RowMatch, find
from gristmill.query.lineage import evidence
from gristmill.query.lineage.evidence import Flag
from gristmill.query.lineage.origin import RecordOrigin, origin_of
from gristmill.query.takedown import withheld
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.sections.shards import GROUPS, TOKENS
from gristmill.recipe.sections.tokenizer import TOKENIZER
from gristmill.stages.derived import BIRTH, PARENT
from gristmill.store.store import Store

_NO_SCORES = {
    "shingles",
    "replaced_spans",
    "replacement_spans",
    "text",
    "html",
    "text_bytes",
    "drop",
    "detail",
    "cut_spans",
    "ids",
    "sampled",
    "chunks",
    "children",
    "parent_id",
    "pages",
    "blocks",
}
"""Columns of a layer that are shown elsewhere or are not scores."""


@dataclass(frozen=True)
class Cut:
    """A passage that a step removed from a text."""

    start: int
    """The offset in bytes in the step's input text."""
    stop: int
    text: str


@dataclass(frozen=True)
class StepTaken:
    """The result of a step for one document."""

    step: str
    made_by: Mapping[str, Any]
    """Its stage, VERSION and libraries."""
    reason: str | None
    """Why the step dropped the document; None if it did not."""
    detail: str | None
    scores: Mapping[str, Any]
    """Its other output columns."""
    bytes_before: int | None
    """The size of the text, or of the markup before extraction; None if the step does not write texts."""
    bytes_after: int | None
    cuts: tuple[Cut, ...]
    flags: tuple[Flag, ...]
    """The eval items that it found, the strongest match first."""


@dataclass(frozen=True)
class DocumentCluster:
    """A cluster of copies, of which one is kept."""

    step: str
    id: str
    """The doc_id of the keeper."""
    size: int
    similarity: Any
    """The similarity to its neighbours in the cluster."""
    is_keeper: bool
    keeper: str | None
    """The locator of the keeper; None if it is not in this run."""


@dataclass(frozen=True)
class HoldingVersion:
    """A finished run of the store whose corpus has the document."""

    recipe: str
    version: str
    names: tuple[str, ...]
    """Its tags."""
    ended: str


@dataclass(frozen=True)
class Life:
    """Everything that is known about a document."""

    doc_id: str
    source: str
    fields: Mapping[str, Any]
    """The fields from the reader: URL, snapshot, license and so on."""
    origin: RecordOrigin
    steps: tuple[StepTaken, ...]
    """The steps in order, up to the one that dropped it."""
    dropped_by: str | None
    clusters: tuple[DocumentCluster, ...]
    text: str | None
    """The final text."""
    tokens: int | None
    """The number of tokens, including the end token; None if it was not tokenized."""
    tokenizer: str | None
    """The hash of the tokenizer file."""
    group: str | None
    """The shard group; its name has the tier and the weight."""
    withheld: str | None = None
    """Why only id, source and verdict are shown; None if everything is."""
    generated: Mapping[str, Any] = field(default_factory=dict)
    """For a derived document: its parent, and how it was made from it, such as prompt, model and sample."""


def life_of(view: CorpusView, place: RowMatch) -> Life:
    """The life of a document, from the layers of a run."""
    layers = DocumentLayers(view, place.document)
    if (listed := withheld.why_withheld(view, place.document, place.row)) is not None:
        return _withheld(view, layers, place, listed)
    row = layers.row(INGEST, place.row)
    after = layers.row(INGEST, place.row + 1) if place.row + 1 < layers.rows else None
    steps = tuple(_steps(view, layers, place.row, evidence.ids_with_evidence(view)))
    texts = [layer for layer in layers if layers.has(layer, "text")]
    text = next((one for layer in reversed(texts) if (one := layers.value(layer, "text", place.row))), None)
    encoded, grouped = (_named(layers, name) for name in (TOKENS, GROUPS))
    tokenizer = view.model(TOKENIZER)
    return Life(
        place.doc_id.hex(),
        place.document.source,
        {name: row[name] for name in COLUMNS if name not in ("doc_id", "source")},
        origin_of(view, place.document, row, after),
        steps,
        next((step.step for step in steps if step.reason is not None), None),
        tuple(_clusters(view, layers, place)),
        text,
        None if encoded is None else layers.value(encoded, "tokens", place.row),
        None if encoded is None or tokenizer is None else tokenizer.hash,
        None if grouped is None else layers.value(grouped, "group", place.row),
        generated={} if row.get(PARENT) is None else _birth(row),
    )


def steps_of(view: CorpusView, document: DocumentPart, row: int) -> tuple[StepTaken, ...]:
    """The result of every step for a document, up to the step that dropped it; only the verdict if it is withheld."""
    layers = DocumentLayers(view, document)
    if (listed := withheld.why_withheld(view, document, row)) is not None:
        return _withheld_steps(view, layers, row, listed)[0]
    return tuple(_steps(view, layers, row, evidence.ids_with_evidence(view)))


def _birth(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: row[name] for name in (*BIRTH, "chunk") if name in row}, PARENT: row[PARENT].hex()}


def _withheld(view: CorpusView, layers: DocumentLayers, place: RowMatch, listed: str) -> Life:
    """The life of a withheld document: only id, source and verdict."""
    fields = {name: None for name in COLUMNS if name not in withheld.SHOWN} | {"locator": withheld.NOWHERE}
    origin = RecordOrigin(withheld.NOWHERE, None, None, "the whole file", None)
    verdict = _withheld_steps(view, layers, place.row, listed)
    return Life(place.doc_id.hex(), place.document.source, fields, origin, *verdict, (), None, None, None, None, listed)


def _withheld_steps(
    view: CorpusView, layers: DocumentLayers, row: int, listed: str
) -> tuple[tuple[StepTaken, ...], str | None]:
    """The step that dropped a withheld document, with its verdict only; and its id."""
    step = layers.dropped_by(row)
    if step is None:
        return (), None
    made_by, reason = _made_by(view, layers, step), layers.value(step, "drop", row)
    taken = StepTaken(step, made_by, reason, withheld.withheld_note(listed), {}, None, None, (), ())
    return (taken,), step


def _named(layers: DocumentLayers, name: str) -> str | None:
    return next((layer for layer in layers if layer.rpartition("/")[2] == name), None)


def walk(layers: DocumentLayers, row: int) -> Iterator[tuple[str, dict[str, Any], str | None, str | None]]:
    """The layers from the reader to the one that dropped a row, or to the last: the id, the values, and the text, or
    the markup, before and after it. The text after a layer is None if it writes none.
    """
    before: str | None = None
    for layer in layers:
        if layer.rpartition("/")[2] == CORPUS:
            continue
        read = layers.row(layer, row)
        after = next((str(read[name]) for name in ("text", "html") if read.get(name) is not None), None)
        yield layer, read, before, after
        if read["drop"] is not None:
            return
        before = after or before


def scores_of(layer: str, read: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a layer that are scores; a reader has none."""
    return {name: read[name] for name in read if layer != INGEST and name not in _NO_SCORES and read[name] is not None}


def _made_by(view: CorpusView, layers: DocumentLayers, layer: str) -> dict[str, Any]:
    node_id = f"{layers.document.source}/{INGEST}" if layer == INGEST else layer
    return version_of_step(view.nodes[node_id].identity)


def _steps(view: CorpusView, layers: DocumentLayers, row: int, with_evidence: Collection[str]) -> Iterator[StepTaken]:
    """The steps from the reader to the one that dropped the document, or to the last."""
    for layer, read, text_before, text_after in walk(layers, row):
        found = read.pop(evidence.COLUMN) if layer in with_evidence else None
        before, after = (None if text is None else text.encode() for text in (text_before, text_after))
        yield StepTaken(
            layer,
            _made_by(view, layers, layer),
            read["drop"],
            read["detail"],
            scores_of(layer, read),
            None if after is None or before is None else len(before),
            None if after is None else len(after),
            tuple(_cuts(before, read.get("cut_spans"))),
            evidence.flags_of(layer, found, before or b""),
        )


def _cuts(before: bytes | None, spans: list[int] | None) -> Iterator[Cut]:
    if before is None or not spans:
        return
    at = 0
    for piece, gone in cut_again([(before, None)], spans, "cut"):
        if gone is not None:
            yield Cut(at, at + len(piece), piece.decode("utf-8", "replace"))
        at += len(piece)


def _clusters(view: CorpusView, layers: DocumentLayers, place: RowMatch) -> Iterator[DocumentCluster]:
    for layer in layers:
        if not layers.has(layer, "cluster") or layers.value(layer, "cluster", place.row) is None:
            continue
        keeper = layers.value(layer, "cluster", place.row)
        others = find(view, doc_id=keeper.hex()) if keeper != place.doc_id else []
        locator = layers.value(INGEST, "locator", place.row)
        if others and withheld.why_withheld(view, others[0].document, others[0].row) is not None:
            locator = withheld.NOWHERE
        elif others:
            locator = DocumentLayers(view, others[0].document).value(INGEST, "locator", others[0].row)
        elif keeper != place.doc_id:
            locator = None
        size, similarity = (layers.value(layer, name, place.row) for name in ("cluster_size", "similarity"))
        yield DocumentCluster(layer, keeper.hex(), size, similarity, keeper == place.doc_id, locator)


def versions_with(
    store: Store, ids: Sequence[str], note: Callable[[str], None] = lambda _: None
) -> dict[str, list[HoldingVersion]]:
    """For each document, the finished runs whose corpus has it, the newest first; each version once."""
    found: dict[str, list[HoldingVersion]] = {doc_id: [] for doc_id in ids}
    known: set[str] = set()
    names = version_names(store)
    for record in finished_runs(store) if ids else ():
        if record["version"] is None or record["version"] in known:
            continue
        known.add(record["version"])
        try:
            view = see_record(store, f"{store.uri}@{record['version']}", record)
        except Gone:  # its parts were removed
            continue
        except UserError as error:
            note(f"Skipped: {error}")
            continue
        version = HoldingVersion(record["recipe"], record["version"], names.get(record["version"], ()), record["ended"])
        for doc_id in {place.doc_id.hex() for place in find(view, doc_id=list(ids)) if place.is_kept}:
            found[doc_id].append(version)
    return found


def best_of(places: Sequence[RowMatch]) -> list[RowMatch]:
    """The exact matches if there are any; else the most similar ones."""
    by_id = {place.doc_id: place for place in reversed(places)}
    found = [place for place in places if by_id[place.doc_id] is place]
    exact = [place for place in found if place.similarity is None]
    best = max((place.similarity or 0.0 for place in found), default=0.0)
    return exact or [place for place in found if place.similarity == best]
