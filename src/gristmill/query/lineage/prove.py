"""Repeat the path of one document from the input bytes to the tokens in shards, and compare at every step.

    the record    is read again from its position in the file; the blocks of the file are compared with their hashes
    a map step    runs again on the one row, with the models and file copies in the store
    an exchange   depends on all documents, so its recorded results are used; its cuts are applied to the text again
    tokens        are a map step; its output is compared with the pieces in the shards

So each layer is derived from the layers before it, and the first from the file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.counted import counted
from gristmill.engine.files.config_files import local_copies, with_copies
from gristmill.engine.plan.graph import Node
from gristmill.engine.schedule.corpus_view import DocumentPart
from gristmill.engine.schedule.run import Run
from gristmill.engine.work.borders import check_answers
from gristmill.engine.work.read import rows_of
from gristmill.engine.work.rows import model_paths
from gristmill.engine.work.setup import with_loaded
from gristmill.query.documents.cut_pieces import cut_again
from gristmill.query.documents.layers import DocumentLayers
from gristmill.query.documents.lookup import RowMatch
from gristmill.query.lineage.origin import Reread, read_again
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.sections.shards import TOKENS
from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.declarations import stage_of
from gristmill.store.answers import AnswerLog
from gristmill.store.parquet import text_bytes

Array = np.ndarray[Any, Any]


class Differs(Exception):
    """A result cannot be reproduced."""

    def __init__(self, where: str, fact: str) -> None:
        super().__init__(f"{where}: {fact}")
        self.where, self.fact = where, fact


@dataclass(frozen=True)
class ShardPiece:
    """Tokens of a document in a shard."""

    where: str
    """A description: group, shard and row."""
    doc_offset: int
    """The offset of the first token in the document."""
    ids: Array


@dataclass(frozen=True)
class Proof:
    """What was repeated with the same result."""

    record: Reread
    steps: tuple[str, ...]
    """The steps that ran again."""
    recorded: tuple[str, ...]
    """The steps whose recorded results were used."""
    tokens: int
    """The number of tokens compared with shards."""


class Prover:
    """Proves documents of a run; `places` lists all of them, so that each file is read once."""

    def __init__(self, run: Run, places: Sequence[RowMatch]) -> None:
        self._run, self._places = run, places
        self._layers: DocumentLayers | None = None
        self._again: dict[bytes, Reread] = {}
        self._configs: dict[str, StageConfig] = {}

    def prove(self, place: RowMatch, pieces: Sequence[ShardPiece] = ()) -> Proof:
        """Repeat all steps for a document. Raises Differs at the first difference."""
        layers = self._of_part(place.document)
        record = self._record(layers, place)
        steps, recorded, texts = [], [], None
        for layer in layers:
            texts = _text(layers, layer, place.row, texts)
            if layer == INGEST:
                continue
            node = self._run.graph.nodes[layer]
            if node.kind == "map":
                self._map(layers, node, place.row)
                steps.append(layer)
            else:
                recorded.append(layer)
        return Proof(record, tuple(steps), tuple(recorded), self._pieces(layers, place, pieces))

    def _of_part(self, document: DocumentPart) -> DocumentLayers:
        if self._layers is None or self._layers.document is not document:
            self._layers = DocumentLayers(self._run, document)
            here = [place for place in self._places if place.document is document]
            wanted = {place.doc_id: self._layers.value(INGEST, "locator", place.row) for place in here}
            self._again = read_again(self._run, document, wanted)
        return self._layers

    def _record(self, layers: DocumentLayers, place: RowMatch) -> Reread:
        again = self._again.get(place.doc_id)
        locator = layers.value(INGEST, "locator", place.row)
        if again is None:
            raise Differs(locator, "the reader no longer finds the record of this document there")
        now = rows_of(again.work, [(again.name, again.record)])
        for name in now.schema.names:
            _compare(locator, name, now.column(name), layers.cell(INGEST, name, place.row))
        return again

    def _map(self, layers: DocumentLayers, node: Node, row: int) -> None:
        view = node.views[layers.document.source]
        is_hidden = any(layers.value(view.layers[gate], "drop", row) is not None for gate in view.gates)
        stage = stage_of(node.module, Map)
        promised = stage.schema_of(node.config)
        if is_hidden:
            expected: dict[str, pa.Array] = {name: pa.nulls(1, promised.field(name).type) for name in promised.names}
        else:
            columns = [layers.cell(view.layers[layer], column, row) for layer, column, _ in view.columns]
            batch = pa.RecordBatch.from_arrays(columns, names=[name for *_, name in view.columns])
            models = model_paths(self._run.models(node, layers.document.source), self._run.store)
            config = self._config(node)
            more = with_loaded(stage, config, models)
            scope = stage.scope_of(config)
            if scope is not None:
                more["answers"] = AnswerLog(self._run.store, scope, is_read_only=True)
            answers = stage.apply(batch, config, **more)
            answers = check_answers(answers, 1, node.module, promised)
            expected = dict(zip(promised.names, answers.columns, strict=True))
        if "text" in promised.names:
            expected["text_bytes"] = text_bytes(expected["text"])
        for name, value in expected.items():
            _compare(node.id, name, value, layers.cell(node.id, name, row))

    def _config(self, node: Node) -> StageConfig:
        """The config of a step, with file names replaced by copies in the store."""
        if node.id not in self._configs:
            copies = local_copies(node.files, self._run.store)
            self._configs[node.id] = with_copies(node.config, copies) if copies else node.config
        return self._configs[node.id]

    def _pieces(self, layers: DocumentLayers, place: RowMatch, pieces: Sequence[ShardPiece]) -> int:
        encoded = next((layer for layer in layers if layer.rpartition("/")[2] == TOKENS), None)
        data = None if encoded is None else layers.value(encoded, "ids", place.row)
        held = 0
        for piece in pieces:
            if data is None:
                raise Differs(piece.where, "the shard has tokens of this document, but the store has none")
            ids = np.frombuffer(data, piece.ids.dtype)
            wanted = ids[piece.doc_offset : piece.doc_offset + len(piece.ids)]
            if not np.array_equal(wanted, piece.ids):
                raise Differs(
                    piece.where, f"the tokens in the shard differ from the document's tokens at {piece.doc_offset:,}"
                )
            held += len(piece.ids)
        if pieces and data is not None and held * pieces[0].ids.itemsize != len(data):
            raise Differs(
                encoded or TOKENS, f"the number of tokens of the document differs from the {held:,} in shards"
            )
        return held


def _text(layers: DocumentLayers, layer: str, row: int, before: bytes | None) -> bytes | None:
    """The text after a layer. If the layer recorded cuts, they are applied to its input, and the result is compared."""
    if not layers.has(layer, "text") or (text := layers.value(layer, "text", row)) is None:
        return before
    after = str(text).encode()
    if before is not None and layers.has(layer, "cut_spans") and (spans := layers.value(layer, "cut_spans", row)):
        left = b"".join(piece for piece, gone in cut_again([(before, None)], spans, layer) if gone is None)
        if left != after:
            raise Differs(layer, "its output text differs from its input text without the cuts")
    return after


def _compare(where: str, name: str, now: pa.Array, stored: pa.Array) -> None:
    one, other = now[0].as_py(), stored[0].as_py()
    if not _is_same(one, other):
        raise Differs(where, f"{name} is {_short(other)} in the store, but {_short(one)} when computed again")


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[name], other[name]) for name in one)
    return bool(one == other)


def _short(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({counted(len(text), 'character')})"
