"""The result of our extractor for each block of a page from a file, an archive or a corpus."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa

from gristmill.counted import counted, size
from gristmill.engine.plan.graph import Node
from gristmill.engine.publish.run_record import last_finished
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.kernels.html.features import FEATURES
from gristmill.kernels.html.layout import (
    ANCESTRY,
    B_CHARS,
    B_KIND,
    B_LINK_CHARS,
    B_UNITS,
    B_WORDS,
    BOX_NAMES,
    HINTS,
)
from gristmill.kernels.html.page import MAX_BLOCKS
from gristmill.kernels.html.trees import ONE
from gristmill.places import shown
from gristmill.query.documents.documents import rows
from gristmill.query.documents.lookup import find
from gristmill.query.removal.audit import recorded_config
from gristmill.query.takedown.withheld import withheld_note
from gristmill.recipe.checks.columns import INGEST
from gristmill.schema import Record, as_str
from gristmill.stages.contract import Piece
from gristmill.stages.extract import extract
from gristmill.stages.extract.main_text import Extractor, Judged, cached_model, default_model
from gristmill.stages.ingest import pages, sniff, warc
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.stream import decompressed
from gristmill.store.parquet import open_parts
from gristmill.store.store import Part
from gristmill_extractor.gold import refuse_unreadable

FACTS = ("title", "author", "date", "language_hint", "canonical_url", "site")
STEP = "extract"
_LZ4 = b"\x04\x22\x4d\x18"
_KINDS = {"parquet": "a Parquet file", "jsonl": "JSON Lines", "json": "JSON"}
_TAG = re.compile(r"<(?:!doctype\b|[a-z][a-z0-9]*[\s/>])", re.I)


@dataclass(frozen=True, slots=True)
class InputPage:
    """A page, and the settings to extract it with."""

    origin: str
    """Where it was read."""
    url: str | None
    html: str
    config: extract.Config
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownBlock:
    text: str
    kept: bool
    chance: float
    """The model's probability that it is content, 0 to 1."""
    kind: str
    """Its innermost box: p, h2, li, tr."""
    words: int
    in_links: float
    """Share of its characters in links, 0 to 1."""
    hints: tuple[str, ...]
    """Hints from class names in it and around it (HINTS)."""
    inside: tuple[str, ...]
    """Elements around it (ANCESTRY)."""


@dataclass(frozen=True, slots=True)
class ShownPage:
    """The result of the extractor for a page."""

    origin: str
    url: str | None
    settings: dict[str, str | bool | None]
    facts: dict[str, str | None]
    """Metadata of the page."""
    promised: float | None
    """The expected F1 of the result, 0 to 1; None if there were no blocks."""
    drop: str | None
    """Why it has no text."""
    detail: str | None
    text: str | None
    """The text as the step returns it."""
    blocks: tuple[ShownBlock, ...]
    notes: tuple[str, ...]


def show(page: InputPage) -> ShownPage:
    """The blocks with their probabilities, and the text that the step makes of the kept ones."""
    config = page.config
    row = [pa.array([value], pa.string()) for value in (page.html, None, None, None)]
    (found,) = extract.apply(pa.RecordBatch.from_arrays(row, names=list(extract.READS)), config).to_pylist()
    judged = None
    if found["drop"] in (None, "no_main_content"):
        model = default_model() if config.model is None else cached_model(config.model)
        extractor = Extractor(model, config.comments, config.markdown, config.max_nodes or MAX_BLOCKS)
        judged = extractor.judged(page.html.encode())
    return ShownPage(
        page.origin,
        page.url,
        {name: getattr(config, name) for name in ("comments", "markdown", "model")},
        {name: found[name] for name in FACTS},
        judged.expected_f1 / 1000 if judged and judged.blocks.texts else None,
        found["drop"],
        found["detail"],
        found["text"],
        tuple(_blocks(judged)) if judged else (),
        page.notes,
    )


def _blocks(judged: Judged) -> list[ShownBlock]:
    columns = judged.blocks.columns
    hints = {name: columns[FEATURES.index(f"hint_{name}")].tolist() for name in HINTS}
    inside = {name: columns[FEATURES.index(f"in_{name}")].tolist() for name in [*ANCESTRY, "heading"]}
    found = []
    for at, (text, row) in enumerate(zip(judged.blocks.texts, judged.blocks.table.tolist(), strict=True)):
        found.append(
            ShownBlock(
                text,
                bool(judged.kept[at]),
                (1 + math.tanh(int(judged.scores[at]) / ONE / 2)) / 2,
                BOX_NAMES[row[B_KIND]] or "text",
                row[B_WORDS] + row[B_UNITS] // 2,
                row[B_LINK_CHARS] / max(1, row[B_CHARS]),
                tuple(name for name, values in hints.items() if values[at]),
                tuple(name for name, values in inside.items() if values[at]),
            )
        )
    return found


def is_archive(location: str) -> bool:
    """Whether a file is a web archive, by its first bytes or, for other compression, by its name."""
    piece = Piece(location, Path(location).name)
    with refuse_unreadable():
        return sniff.format_of(piece) in ("warc", "wet") or sniff.format_by_name(piece.name) in ("warc", "wet")


def page_of_file(location: str) -> InputPage:
    """The page in a file."""
    record = Record(0, content_type="text/html")
    content = _content(location)
    pages.document(record, content, None, warc.Config())
    why = record.detail or (record.drop or "no tag in it").replace("_", " ")
    other = _other_kind(location, content)
    html = as_str(record.html or "")
    if other is None and b"\0" in content[:1024] and not _TAG.search(html):
        other = "binary data"
    if other is not None:
        raise UserError(
            f"{shown(location)} is not an HTML page but {other}, so there are no blocks to show. Name a file with "
            "markup, a WARC file with --url, or a recipe that reads it, with --url."
        )
    if not _TAG.search(html):
        raise UserError(
            f"{shown(location)} is not an HTML page ({why}), so there are no blocks to show. Name an HTML file, a "
            "WARC file with --url, or a recipe with --url."
        )
    return InputPage(shown(location), None, html, extract.Config())


def _other_kind(location: str, content: bytes) -> str | None:
    """What a file is by its first bytes, if it is a container of pages and not a page."""
    if content.startswith(_LZ4):
        return "compressed with lz4 (decompress it with lz4 -d)"
    return _KINDS.get(sniff.format_of(Piece(location, Path(location).name)) or "")


def _content(location: str) -> bytes:
    most = warc.Config().max_record_bytes
    data = bytearray()
    try:
        with refuse_unreadable(), Piece(location, Path(location).name).open() as file:
            for chunk in decompressed(file)[1]:
                data += chunk
                if len(data) > most:
                    raise UserError(
                        f"{shown(location)} has more than {size(most)}, too much for a page; it is not shown. Name the "
                        "file of a page."
                    )
    except ReadFault as fault:
        raise UserError(
            f"{shown(location)} cannot be unpacked ({fault.reason.replace('_', ' ')}), so there is no page to show. "
            "Name another file."
        ) from None
    return bytes(data)


def page_of_archive(location: str, record_id: str | None, url: str | None, number: int | None) -> InputPage:
    """The page with a record id, the first with a URL, or the one with a number, from 1."""
    refused: Record | None = None
    count = 0
    with refuse_unreadable():
        for record in warc.read(Piece(location, Path(location).name), warc.Config()):
            meta = orjson.loads(record.meta) if record.meta else {}
            count += record.html is not None
            if record_id is not None:
                is_it = meta.get("record_id") == record_id.strip("<>")
            elif url is not None:
                is_it = record.url == url and record.drop not in warc.BESIDE
            else:
                is_it = record.html is not None and count == number
            if is_it and record.html is not None:
                origin = f"{shown(location)}#{record.position}"
                return InputPage(origin, record.url, as_str(record.html), extract.Config())
            refused = record if is_it and refused is None else refused
    wanted = f"record {record_id}" if record_id else f"page with the URL {url}" if url else f"page number {number}"
    if refused is not None:
        why = f"{refused.drop or 'plain text'}{f' ({refused.detail})' if refused.detail else ''}"
        raise UserError(
            f"The {wanted} in {shown(location)} has no markup ({why}), so there are no blocks to show. Name another."
        )
    fix = "--number 1 is the first" if count else "name an archive with HTML responses"
    raise UserError(
        f"{shown(location)} has no {wanted}, so there is nothing to show. It has {counted(count, 'page')}: {fix}."
    )


def page_of_corpus(view: CorpusView, url: str | None, doc_id: str | None) -> InputPage:
    """The first document with this in its URL, or with this beginning of its id, with the settings of its source."""
    if not any(view.documents.values()):
        raise UserError(
            f"Nothing of {view.label} as it is now has been read, so there is no page to show. {view.to_finish}"
            f"{last_finished(view, 'extractor show')}"
        )
    wanted = f"--url {url}" if url is not None else f"--id {doc_id}"
    found = rows(view, INGEST, None, None, records=False, url=url, doc_id=doc_id)
    documents = (row for row in found if row.text is not None or row.withheld is not None)
    row = next(documents, None)
    if row is None:
        raise UserError(
            f"{wanted}: {view.label} has no such document with content, so there is nothing to show. "
            "To list documents: gristmill inspect."
        )
    if row.withheld is not None:
        raise UserError(f"{wanted}: {withheld_note(row.withheld)}, so it is not shown. Choose another document.")
    fields = row.fields
    (place, *_) = find(view, doc_id=fields["doc_id"].hex())
    html = _markup(view, place.document.part, place.row)
    if html is None:
        raise UserError(
            f"{wanted}: the document {fields['doc_id'].hex()} of {fields['source']} was read as plain text, so it has "
            "no blocks to show. Choose an HTML page."
        )
    config, notes = _config_of(view, fields["source"])
    if next(documents, None) is not None:
        notes = (*notes, f"{wanted} matches more than one document; this is the first")
    return InputPage(f"{fields['source']}: {fields['locator']}", fields["url"], html, config, notes)


def _markup(view: CorpusView, part: Part, row: int) -> str | None:
    (reader,) = open_parts(view.store, [part])
    for group, rows_in_group in enumerate(reader.groups):
        if row < rows_in_group:
            html: str | None = reader.read_group(group, ["html"])["html"][row].as_py()
            return html
        row -= rows_in_group
    return None


def _config_of(view: CorpusView, source: str) -> tuple[extract.Config, tuple[str, ...]]:
    """The settings of the step for a source, and notes about them."""
    steps = [view.nodes[node_id] for node_id in view.chains[source] if view.nodes[node_id].name == STEP]
    if not steps:
        return extract.Config(), (f"{source} has no step {STEP}; this is its result with default settings",)
    step = steps[0]
    config = step.config if isinstance(step, Node) else recorded_config(view, step, extract.STAGE)
    if not isinstance(config, extract.Config):
        raise UserError(f"The settings of {step.id} are not stored with the run, so nothing is shown. Give the recipe.")
    if config.tool == "gristmill":
        return config, ()
    note = f"{step.id} has tool: {config.tool}, which has no blocks; this is the result of the gristmill tool"
    return config.model_copy(update={"tool": "gristmill"}), (note,)
