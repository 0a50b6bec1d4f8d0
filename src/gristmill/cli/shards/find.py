"""gristmill shards find: where a document is in the shards, and when a trainer sees it."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from gristmill.cli.shards.open import ShardsName, open_shards
from gristmill.cli.shared.options import Json, StoreUri, id_prefix, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import console, table
from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.loader.order import Order
from gristmill.query.documents.documents import Row, rows
from gristmill.query.versions.published import Published
from gristmill.recipe.checks.mistakes import listed
from gristmill.shardformat.manifest import Manifest

EXAMPLE = "Example: gristmill shards find recipes/demo.yaml 0123456789abcdef0123456789abcdef"
MOST_LISTED = 8
"""Samples or documents that are listed; the rest is counted."""
WHOLE = 32
"""Digits of an id."""


def command(
    shards: ShardsName,
    doc_id: Annotated[
        str, typer.Argument(metavar="DOC_ID", help="A document's id or the beginning of it.", show_default=False)
    ],
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show where a document is in the shards, and when it is seen.

    Lists the training samples that contain it. Exit code 1: it is in no shard.
    """
    begins = id_prefix(doc_id, "DOC_ID")
    opened = open_shards(shards, store)
    manifest, order = opened.manifest, Order(opened.manifest)
    found: list[dict[str, Any]] = []
    ids: dict[str, str] = {}
    for doc_id, group, number, row, piece in opened.rows_of(begins):
        ids.setdefault(doc_id, group.name)
        if len(ids) > MOST_LISTED:
            break
        location = {"group": group.name, "shard": number, "row": row}
        found.append({**location, **piece, "seen_at": [*order.seen(manifest.numbers[group.name], number, row)]})
    doc_id = _only(begins, ids)
    if found:
        why = list(_unseen(manifest, order, found))
    else:
        doc_id, reason = _why_nowhere(opened, begins)
        why = [reason]
    if json:
        print_json({"doc_id": doc_id, "manifest": manifest.hash, "pieces": found, "why": why})
    else:
        _show(doc_id, manifest, found, why)
    if not found:
        raise typer.Exit(1)


def _only(begins: str, ids: dict[str, str]) -> str:
    """The id with this beginning; UserError lists the ids if there are several."""
    if len(ids) <= 1:
        return next(iter(ids), begins)
    named = ", ".join(f"{doc_id} ({what})" for doc_id, what in list(ids.items())[:MOST_LISTED])
    more = " and more" if len(ids) > MOST_LISTED else ""
    raise UserError(f"The ids of several documents begin with {begins}. Give more digits: {named}{more}.")


def _show(doc_id: str, manifest: Manifest, found: list[dict[str, Any]], why: Iterable[str]) -> None:
    out = console()
    columns = ("shard", "row", "doc_offset", "tokens")
    pieces = [(one["group"], *(f"{one[name]:,}" for name in columns), listed_samples(one["seen_at"])) for one in found]
    if pieces:
        out.print(words(("document", "dim"), f" {doc_id}"))
        out.print(table(("group", "shard", "row", "from token", "tokens", "seen at sample"), pieces))
    else:
        out.print(words(f"{doc_id} is in no shard of {manifest.location}."))
    for reason in why:
        out.print(words(reason))


def _unseen(manifest: Manifest, order: Order, found: list[dict[str, Any]]) -> Iterator[str]:
    """Why pieces that are in a shard are never drawn."""
    drawn = order.counts(manifest.samples)
    for name in dict.fromkeys(one["group"] for one in found if not one["seen_at"]):
        number = manifest.numbers[name]
        some, of = int(drawn[number]), manifest.groups[number].samples
        yield (
            f"Never seen: the mix draws {some:,} of the {counted(of, 'sample')} of {name}, and not these. "
            "To draw more: raise mix.tokens, or the share of its domain or tier."
        )


def _why_nowhere(opened: Published, begins: str) -> tuple[str, str]:
    """The id of a document that is in no shard, and why it is not."""
    if opened.view is None:
        return begins, f"It may have been dropped. To check: gristmill inspect RECIPE --id {begins}"
    known: dict[str, Row] = {}
    for row in rows(opened.view, None, None, None, doc_id=begins):
        known.setdefault(row.fields["doc_id"].hex(), row)
        if len(begins) == WHOLE or len(known) > MOST_LISTED:
            break
    doc_id = _only(begins, {one: str(row.fields["locator"]) for one, row in known.items()})
    if not known:
        return doc_id, f"{opened.view.label} has no document with that id."
    row = known[doc_id]
    if row.reason is not None:
        return doc_id, f"It was dropped by {row.step}: {row.reason}{f' ({row.detail})' if row.detail else ''}."
    kept = f"It is kept, in group {row.columns.get('group')}: these shards may be of another run of the recipe."
    return doc_id, kept


def listed_samples(numbers: list[int]) -> str:
    """The first sample numbers, and how many more there are."""
    return listed((f"{number:,}" for number in numbers), MOST_LISTED) or "never"
