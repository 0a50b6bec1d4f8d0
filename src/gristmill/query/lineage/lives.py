"""Lives of documents, by whatever a user knows of them: an id, a URL, a hash, quoted words, a token of a training."""

import re
from collections.abc import Callable, Iterable, Iterator
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
from gristmill.query.documents.lookup import DocumentLocation, find
from gristmill.query.lineage.lineage import Life, best_of, life_of, versions_with
from gristmill.query.lineage.prove import Differs, Proof, Prover, ShardPiece
from gristmill.query.versions.published import Published
from gristmill.recipe.sections.mix import MIX
from gristmill.stages import NO_DOCUMENT

Note = Callable[[str], None]
MOST_SHOWN = 10
"""Documents of one answer."""
AROUND = 16
"""Tokens before and behind the one that is asked for that are shown."""


@dataclass(frozen=True)
class WholeLife:
    """A document that answers."""

    life: Life
    about: dict[str, Any]
    """The same for a program, with where it lies in the shards, who has it, and the proof where it was asked for."""


def lives_of(
    view: CorpusView,
    what: str | None,
    text: str | None = None,
    sample: int | None = None,
    token: int | None = None,
    prove: bool = False,
    note: Note = lambda _: None,
) -> Iterator[WholeLife]:
    """Of the documents that are meant, one by one: `what` is an id, a URL, a hash or quoted words; or a text; or the
    token of a sample. With `prove` every one is made again from its bytes.
    """
    check_question(what, text, sample, token)
    if not any(made.tasks for made in view.states.values()):
        raise UserError(
            f"Nothing of {view.label} has been run as it is now, so no document is known. {view.to_finish}"
            f"{last_finished(view, 'lineage')}"
        )
    if prove and not isinstance(view, Run):
        raise UserError(
            f"{option('prove')} reads inputs again and runs steps again, and {view.label} names neither, so nothing "
            "was proved. Give the recipe's file."
        )
    shards = _shards(view)
    at: dict[str, Any] | None = None
    if sample is not None and token is not None:
        at = _token_at(shards, view, sample, token)
        places = find(view, doc_id=at["doc_id"], note=note)
    else:
        places = best_of(find(view, **_question(what, text), note=note))
    found = _documents(view, places)
    if len(found) > MOST_SHOWN:
        note(f"{counted(len(found), 'document')} answer; the first {MOST_SHOWN} are shown.")
    found = found[:MOST_SHOWN]
    shown = [place for place, life in found if life.withheld is None]
    prover = Prover(view, shown) if prove and isinstance(view, Run) else None
    for place, life in found:
        whole = _whole(view, shards, place, life, at, note)
        whole |= {} if prover is None or life.withheld is not None else {"proof": _proved(prover, place, shards, at)}
        yield WholeLife(life, whole)


def check_question(what: str | None, text: str | None, sample: int | None, token: int | None) -> None:
    """That one thing is asked for."""
    if (sample is None) != (token is None):
        raise UserError(
            f"{option('sample')} and {option('token')} go together: a sample of the training, and a token of it, both "
            "from 0."
        )
    asked = [what is not None, text is not None, sample is not None]
    if sum(asked) != 1:
        told = "Nothing is asked for" if not any(asked) else "More than one thing is asked for"
        raise UserError(f"{told}, so nothing was looked for. Give one: {hint('lineage_of')}.")


def is_text(what: str | None, text: str | None) -> bool:
    """Whether words of a text are asked for, and not an id, a URL or a hash."""
    return text is not None or (what is not None and "text" in _question(what, None))


def _question(what: str | None, text: str | None) -> dict[str, Any]:
    """What a user means."""
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


def _documents(view: CorpusView, places: Iterable[DocumentLocation]) -> list[tuple[DocumentLocation, Life]]:
    """With their lives; records that are no documents (the request for a page) only where there is nothing else."""
    found = [(place, life_of(view, place)) for place in places]
    documents = [(place, life) for place, life in found if not life.steps or life.steps[0].reason not in NO_DOCUMENT]
    return documents or found


def _shards(view: CorpusView) -> Published | None:
    mixes = [node.id for node in view.nodes.values() if node.name == MIX]
    return Published(view) if mixes and view.states[mixes[0]].model is not None else None


def _token_at(shards: Published | None, view: CorpusView, sample: int, token: int) -> dict[str, Any]:
    """Where a token of a sample lies, and in which document."""
    if shards is None:
        find_manifest(view)  # says what is missing
        raise AssertionError
    manifest = shards.manifest
    if sample >= manifest.samples:
        raise UserError(
            f"{option('sample', sample)}: a training on {manifest.location} has {counted(manifest.samples, 'sample')}, "
            "numbered from 0, so it never comes there. Give a smaller number."
        )
    if token >= manifest.seq_len:
        raise UserError(
            f"{option('token', token)}: samples have {counted(manifest.seq_len, 'token')}, numbered from 0. Give a "
            "smaller number."
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
        f"{option('token', token)} of sample {sample} is padding, which comes from no document. Give a smaller number."
    )


def _around(shards: Published, ids: Any, token: int) -> tuple[str, str]:
    """What stands before a token of a document, and behind it."""
    before, behind = ids[max(token - AROUND, 0) : token], ids[token + 1 : token + 1 + AROUND]
    return shards.tokenizer.decode(before), shards.tokenizer.decode(behind)


def _whole(
    view: CorpusView,
    shards: Published | None,
    place: DocumentLocation,
    life: Life,
    at: dict[str, Any] | None,
    note: Note,
) -> dict[str, Any]:
    """A life, where it is now, and who else has it."""
    similar = {} if place.similarity is None else {"similarity": place.similarity}
    return {
        **asdict(life),
        "is_kept": place.is_kept,
        "matched": {"by": place.by, **similar},
        **({} if at is None else {"token": at}),
        "weights": {} if shards is None else dict(_weights(shards, life.group)),
        "shards": [] if shards is None else list(_lies(shards, life.doc_id)),
        "versions": [asdict(version) for version in versions_with(view.store, [life.doc_id], note)[life.doc_id]],
    }


def _weights(shards: Published, group: str | None) -> Iterator[tuple[str, float]]:
    """The share of its group in each phase."""
    for phase in shards.manifest.phases:
        if group in phase.weights:
            yield phase.name, phase.weights[group] / sum(phase.weights.values())


def _lies(shards: Published, doc_id: str) -> Iterator[dict[str, Any]]:
    order = Order(shards.manifest)
    for _, group, number, row, piece in shards.rows_of(doc_id):
        seen_at = [*order.seen(shards.manifest.numbers[group.name], number, row)]
        yield {"group": group.name, "shard": number, "row": row, **piece, "seen_at": seen_at}


def _proved(
    prover: Prover, place: DocumentLocation, shards: Published | None, at: dict[str, Any] | None
) -> dict[str, Any]:
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
    """The tokens of a document as they lie in the shards."""
    for _, group, number, row, piece in shards.rows_of(doc_id):
        ids = shards.open_shard(group, number).view(row)[piece["offset"] : piece["offset"] + piece["tokens"]]
        yield ShardPiece(f"{group.name}, shard {number}, row {row}", piece["doc_offset"], ids)


def _has_token(pieces: Iterable[ShardPiece], at: dict[str, Any]) -> None:
    """The token that was asked for is in a piece whose tokens were compared with those of the document."""
    for piece in pieces:
        place = at["doc_token"] - piece.doc_offset
        if 0 <= place < len(piece.ids):
            if int(piece.ids[place]) != at["id"]:
                raise Differs(piece.where, f"token {at['doc_token']:,} of the document is not {at['id']}")
            return
    raise Differs(f"sample {at['sample']}", "no piece of the document holds that token")
