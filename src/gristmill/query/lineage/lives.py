"""The lives of documents that a user names by id, URL, hash, quoted words, or a token of the training order."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gristmill.counted import counted
from gristmill.engine.publish.folder import find_manifest
from gristmill.engine.publish.run_record import last_finished
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.engine.schedule.run import Run
from gristmill.errors import UserError
from gristmill.hints import hint, option
from gristmill.loader.order import Order
from gristmill.query.documents.layers import DocumentLayers
from gristmill.query.documents.lookup import RowMatch, find
from gristmill.query.lineage.lineage import Life, best_of, life_of, versions_with
from gristmill.query.lineage.page_image import boxes_of
from gristmill.query.lineage.prove import Differs, Proof, Prover, ShardPiece
from gristmill.query.versions.published import Published
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.sections.mix import MIX
from gristmill.stages import NO_DOCUMENT, POSTS

Note = Callable[[str], None]
MOST_SHOWN = 10
"""The most documents in one answer."""
AROUND = 16
"""Tokens that are shown before and after the requested one."""


@dataclass(frozen=True)
class WholeLife:
    """A matching document."""

    life: Life
    about: dict[str, Any]
    """The same as JSON, with its shard positions, the versions that have it, and the proof if requested."""


def lives_of(
    view: CorpusView,
    what: str | None,
    text: str | None = None,
    sample: int | None = None,
    token: int | None = None,
    prove: bool = False,
    note: Note = lambda _: None,
) -> Iterator[WholeLife]:
    """The lives of the matching documents: by `what` (an id, a URL, a hash or quoted words), by a text, or by a token
    of a sample. With `prove`, each document is made again from its input bytes.
    """
    check_question(what, text, sample, token)
    if not any(state.tasks for state in view.states.values()):
        raise UserError(
            f"{view.label} has not run yet with the current recipe, so it has no documents. {view.to_finish}"
            f"{last_finished(view, 'lineage')}"
        )
    if prove and not isinstance(view, Run):
        raise UserError(
            f"{option('prove')} needs the inputs and the steps, but {view.label} is the result of a run without them. "
            "Nothing was proved. Give the recipe file."
        )
    shards = _shards(view)
    at: dict[str, Any] | None = None
    if sample is not None and token is not None:
        at = _token_at(shards, view, sample, token)
        places = find(view, doc_id=at["doc_id"], note=note)
    else:
        places = best_of(find(view, **_question(what, text), note=note))
    places = _documents(view, places)
    if len(places) > MOST_SHOWN:
        note(f"{counted(len(places), 'document')} match; the first {MOST_SHOWN} are shown.")
    found = [(place, life_of(view, place)) for place in places[:MOST_SHOWN]]
    found = _with_parents(view, found, note)
    shown = [place for place, life in found if life.withheld is None]
    prover = Prover(view, shown) if prove and isinstance(view, Run) else None
    quoted = _question(what, text).get("text") if at is None else _quoted(at)
    for place, life in found:
        whole = _whole(view, shards, place, life, at, note)
        if quoted and life.withheld is None:
            boxes = boxes_of(view, place.document, place.row, quoted)
            whole["page_boxes"] = [asdict(box) for box in boxes]
        whole |= {} if prover is None or life.withheld is not None else {"proof": _proof(prover, place, shards, at)}
        yield WholeLife(life, whole)


def _quoted(at: Mapping[str, Any]) -> str:
    """A token with the words around it: as much of its line as is shown."""
    before, after = at["around"]
    return str(before.rpartition("\n")[2] + at["text"] + after.partition("\n")[0]).strip()


def _with_parents(view: CorpusView, found: Sequence[tuple[RowMatch, Life]], note: Note) -> list[tuple[RowMatch, Life]]:
    """The documents, then those that they were made or joined from, each once."""
    origins = [one for _, life in found for one in _origins(life, note)]
    places = {one.doc_id.hex(): one for one in find(view, doc_id=origins)} if origins else {}
    whole = {life.doc_id: (place, life) for place, life in found}
    for origin in origins:
        if origin in places and origin not in whole:
            whole[origin] = (places[origin], life_of(view, places[origin]))
    return list(whole.values())


def _origins(life: Life, note: Note) -> list[str]:
    """The ids of the parent of a derived document, or of the posts of a thread."""
    posts = [one.hex() for step in life.steps for one in step.scores.get(POSTS) or () if isinstance(one, bytes)]
    if len(posts) > MOST_SHOWN:
        note(f"{life.doc_id} has {counted(len(posts), 'post')}; the first {MOST_SHOWN} are shown.")
    return [*([life.generated["parent"]] if life.generated else []), *posts[:MOST_SHOWN]]


def check_question(what: str | None, text: str | None, sample: int | None, token: int | None) -> None:
    """Raise UserError unless exactly one query is given."""
    if (sample is None) != (token is None):
        raise UserError(
            f"{option('sample')} and {option('token')} must be given together: the number of a training sample and of "
            "a token in it, both from 0."
        )
    given = [what is not None, text is not None, sample is not None]
    if sum(given) != 1:
        fact = "No query is given" if not any(given) else "More than one query is given"
        raise UserError(f"{fact}, so nothing was searched. Give one: {hint('lineage_of')}.")


def is_text(what: str | None, text: str | None) -> bool:
    """Whether the query is a text, and not an id, a URL or a hash."""
    return text is not None or (what is not None and "text" in _question(what, None))


def _question(what: str | None, text: str | None) -> dict[str, Any]:
    """The query for `find`, by the form of `what`."""
    if what is None:
        assert text is not None
        return {"text": text}
    if re.fullmatch("[0-9a-fA-F]{4,32}", what):
        return {"doc_id": what}
    if re.fullmatch("[0-9a-fA-F]{64}", what):
        return {"content_hash": what}
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://\S+$", what):
        return {"url": what}
    return {"text": what}


def _documents(view: CorpusView, places: list[RowMatch]) -> list[RowMatch]:
    """Those that are documents; records that are not (HTTP requests) only if there is nothing else."""
    documents, layers = [], None
    for place in places:
        if layers is None or layers.document is not place.document:
            layers = DocumentLayers(view, place.document, ())
        if layers.value(INGEST, "drop", place.row) not in NO_DOCUMENT:
            documents.append(place)
    return documents or places


def _shards(view: CorpusView) -> Published | None:
    return None if view.model(MIX) is None else Published(view)


def _token_at(shards: Published | None, view: CorpusView, sample: int, token: int) -> dict[str, Any]:
    """The shard position of a token of a sample, and its document."""
    if shards is None:
        find_manifest(view)  # raises an error that says what is missing
        raise AssertionError
    manifest = shards.manifest
    if sample >= manifest.samples:
        raise UserError(
            f"{option('sample', sample)} is too large: {manifest.location} has {counted(manifest.samples, 'sample')}, "
            "numbered from 0. Give a smaller number."
        )
    if token >= manifest.seq_len:
        raise UserError(
            f"{option('token', token)} is too large: samples have {counted(manifest.seq_len, 'token')}, numbered from "
            "0. Give a smaller number."
        )
    place = Order(manifest).place(sample)
    group = manifest.groups[place.group]
    files = shards.open_shard(group, place.shard)
    for piece in shards.pieces_at(group.shards[place.shard], files, place.row):
        if piece.offset <= token < piece.offset + piece.tokens:
            return {
                "sample": sample,
                "token": token,
                "id": int(files.view(place.row)[token]),
                "text": shards.tokenizer.decode(files.view(place.row)[token : token + 1]),
                "around": _around(
                    shards, files.view(place.row)[piece.offset : piece.offset + piece.tokens], token - piece.offset
                ),
                "doc_id": piece.doc_id,
                "doc_token": piece.doc_offset + token - piece.offset,
                "group": group.name,
                "shard": place.shard,
                "row": place.row,
            }
    raise UserError(
        f"{option('token', token)} of sample {sample} is padding and belongs to no document. Give a smaller number."
    )


def _around(shards: Published, ids: Any, token: int) -> tuple[str, str]:
    """The text before and after a token of a document."""
    before, after = ids[max(token - AROUND, 0) : token], ids[token + 1 : token + 1 + AROUND]
    return shards.tokenizer.decode(before), shards.tokenizer.decode(after)


def _whole(
    view: CorpusView, shards: Published | None, place: RowMatch, life: Life, at: dict[str, Any] | None, note: Note
) -> dict[str, Any]:
    """A life as JSON, with its shard positions and the versions that have it."""
    similar = {} if place.similarity is None else {"similarity": place.similarity}
    return {
        **asdict(life),
        "is_kept": place.is_kept,
        "matched": {"by": place.by, **similar},
        **({} if at is None else {"token": at}),
        "weights": {} if shards is None else dict(_weights(shards, life.group)),
        "shards": [] if shards is None else list(_shard_rows(shards, life.doc_id)),
        "versions": [asdict(version) for version in versions_with(view.store, [life.doc_id], note)[life.doc_id]],
    }


def _weights(shards: Published, group: str | None) -> Iterator[tuple[str, float]]:
    """The share of the document's group in each phase."""
    for phase in shards.manifest.phases:
        if group in phase.weights:
            yield phase.name, phase.weights[group] / sum(phase.weights.values())


def _shard_rows(shards: Published, doc_id: str) -> Iterator[dict[str, Any]]:
    order = Order(shards.manifest)
    for _, group, number, row, piece in shards.rows_of(doc_id):
        seen_at = [*order.seen(shards.manifest.numbers[group.name], number, row)]
        yield {"group": group.name, "shard": number, "row": row, **piece, "seen_at": seen_at}


def _proof(prover: Prover, place: RowMatch, shards: Published | None, at: dict[str, Any] | None) -> dict[str, Any]:
    pieces = [] if shards is None else list(shard_pieces(shards, place.doc_id.hex()))
    try:
        proof: Proof = prover.prove(place, pieces)
        if at is not None:
            _has_token(pieces, at)
    except Differs as differs:
        return {"differs": str(differs)}
    record = proof.record
    return {
        "record": {"file": record.name, "position": record.record.position},
        "run_again": proof.steps,
        "as_recorded": proof.recorded,
        "tokens": proof.tokens,
    }


def shard_pieces(shards: Published, doc_id: str) -> Iterator[ShardPiece]:
    """The tokens of a document in the shards."""
    for _, group, number, row, piece in shards.rows_of(doc_id):
        ids = shards.open_shard(group, number).view(row)[piece["offset"] : piece["offset"] + piece["tokens"]]
        yield ShardPiece(f"{group.name}, shard {number}, row {row}", piece["doc_offset"], ids)


def _has_token(pieces: Iterable[ShardPiece], at: dict[str, Any]) -> None:
    """Raise Differs unless the requested token is in one of the compared pieces."""
    for piece in pieces:
        place = at["doc_token"] - piece.doc_offset
        if 0 <= place < len(piece.ids):
            if int(piece.ids[place]) != at["id"]:
                raise Differs(piece.where, f"token {at['doc_token']:,} of the document is not {at['id']}")
            return
    raise Differs(f"sample {at['sample']}", "no piece of the document has that token")
