"""gristmill takedown: what requests to take documents down find, what went, and the proof that it is gone."""

import json as json_module
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.options import Json, RecipeOrRun, StoreUri, open_mill, open_seen, open_store, print_json
from gristmill.cli.sample_option import with_sample
from gristmill.cli.screen import words
from gristmill.cli.shards_open import open_shards
from gristmill.cli.show import Bars, console, table
from gristmill.cli.takedown_receipt import SETS, absent, make_receipt, places_in, write_receipt
from gristmill.cli.usage import Commands
from gristmill.counted import counted
from gristmill.engine.publish.folder import read_model
from gristmill.engine.publish.run_record import describe, see
from gristmill.engine.schedule.seen import Seen
from gristmill.errors import UserError
from gristmill.loader.order import Order
from gristmill.query.lineage import versions_with
from gristmill.query.published import Published
from gristmill.query.takedown import would_go
from gristmill.recipe.mix import MIX
from gristmill.shardformat.locations import read_bytes
from gristmill.shardformat.receipt import NAME, read_receipt
from gristmill.stages.takedown.requests import read_requests, told

app = typer.Typer(help="Take documents down, and prove it.", cls=Commands, rich_markup_mode=None)
MOST_LISTED = 50
ReceiptPath = Annotated[str, typer.Argument(metavar="RECEIPT", help="The folder of a receipt.", show_default=False)]


@app.command(epilog="Example: gristmill takedown check recipes/takedown/requests.yaml recipes/demo.yaml")
@with_sample
def check(
    requests: Annotated[Path, typer.Argument(metavar="FILE", help="The requests (docs/takedown.md).")],
    recipe: RecipeOrRun,
    near: Annotated[
        float, typer.Option("--near", min=0.01, max=1, metavar="SHARE", help="Similarity from which on it is a copy.")
    ] = 0.8,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show which documents requests name, and their copies: in which versions, shards and samples.

    Nothing is changed. Exit code 1: a request finds nothing.
    """
    asked = read_requests(str(requests))
    seen = open_seen(recipe, store)
    answers = would_go(seen, asked, os.path.dirname(os.path.abspath(requests)), near)
    ids = [answer.place.doc_id.hex() for answer in answers]
    versions = versions_with(seen.store, ids)
    places = _places(seen, ids)
    rows = [
        {
            "request": answer.request,
            "doc_id": doc_id,
            "named_by": answer.named_by,
            "copy_of": answer.copy_of,
            "similarity": answer.similarity,
            "source": answer.place.document.source,
            "kept": answer.place.is_kept,
            "versions": [version.version for version in versions[doc_id]],
            **places.get(doc_id, {"group": None, "shard": None, "rows": [], "samples": []}),
        }
        for answer, doc_id in zip(answers, ids, strict=True)
    ]
    found = {row["request"] for row in rows}
    without = [request.id for request in asked if request.id not in found]
    if json:
        print_json({"requests": len(asked), "documents": rows, "nothing_found": without})
    else:
        _show(told(asked), rows, without)
    if without:
        raise typer.Exit(1)


def _places(seen: Seen, ids: list[str]) -> dict[str, dict[str, Any]]:
    """Where documents lie in the shards of a corpus that has some."""
    if read_model(seen, MIX) is None:
        return {}
    opened = Published(seen)
    return places_in(opened, ids, Order(opened.manifest))


def _show(said: str, rows: list[dict[str, Any]], without: list[str]) -> None:
    out = console()
    out.print(words(f"{said}: {counted(len(rows), 'document')}."), soft_wrap=True)
    listed = [
        (
            row["request"],
            row["doc_id"],
            row["named_by"] if row["copy_of"] is None else f"copy of {row['copy_of'][:12]} ({row['similarity']:.3f})",
            "kept" if row["kept"] else "dropped",
            ", ".join(row["versions"]) or "none",
            "" if row["group"] is None else f"{row['group']} {row['shard']}",
            f"{len(row['samples']):,}",
        )
        for row in rows[:MOST_LISTED]
    ]
    if listed:
        names = ("request", "document", "named by", "now", "versions", "shard", "samples")
        out.print(table(names, listed, 6, ("versions",)))
    if len(rows) > MOST_LISTED:
        out.print(f"... and {len(rows) - MOST_LISTED:,} more: --json has all of them.")
    for request in without:
        out.print(words(f"{request} finds nothing here."))


@app.command(epilog="Example: gristmill takedown receipt recipes/demo.yaml --before before --out receipts/2026-11")
@with_sample
def receipt(
    recipe: RecipeOrRun,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the receipt goes; must not exist.")],
    before: Annotated[
        str | None, typer.Option("--before", metavar="VERSION", help="Default: the parent of the run.")
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Write the receipt of a takedown: what was asked, found and removed, and the hashes before and after.

    Of the last run of a recipe with takedowns, against a version before it.
    """
    if out.exists():
        raise UserError(f"--out {out} exists, and a receipt is never overwritten. Name another folder.")
    after = _recorded(recipe, store)
    assert after.record is not None
    name = before or after.record.get("parent")
    if name is None:
        raise UserError(
            f"{after.told} has no version before it on record, so there is nothing to compare with. Name one: --before "
            "VERSION (gristmill versions lists them)."
        )
    content, sets = make_receipt(see(after.store, str(name)), after)
    write_receipt(out, content, sets)
    if json:
        print_json(content)
        return
    changed, same = content["shards"]["changed"], content["shards"]["unchanged"]
    console().print(
        words(
            f"{out}: {counted(len(content['documents']), 'document')} taken out of "
            f"{counted(len(changed), 'shard')}, {same:,} unchanged; {len(content['elsewhere']):,} more were named and "
            "not in the shards. receipt.html is for people. Prove it: gristmill takedown verify "
            f"{out}"
        ),
        soft_wrap=True,
    )


def _recorded(name: str, store: str | None) -> Seen:
    """The last finished run of a recipe, or the run that is named."""
    if open_store(name, store) is not None:
        return open_seen(name, store)
    mill = open_mill(name, store)
    seen = see(mill.store, mill.recipe.name)
    console(stderr=True).print(words((describe(seen), "dim")), soft_wrap=True)
    return seen


@app.command(epilog="Example: gristmill takedown verify receipts/2026-11")
def verify(
    receipt: ReceiptPath,
    shards: Annotated[
        str | None, typer.Option("--shards", metavar="SHARDS", help="The new shards. Default: where they were written.")
    ] = None,
    json: Json = False,
) -> None:
    """Prove that what was taken down is gone: read all new shards, and search them for it.

    By the ids of the documents, by their texts to the byte, and for near copies. Exit code 1: something is left.
    """
    content = read_receipt_json(receipt)
    if content["after"] is None:
        raise UserError(f"{receipt} names no shards after the takedown, so there is nothing to search. Make it again.")
    opened = open_shards(shards or content["after"]["shards"])
    with Bars(quiet=json) as bars:
        faults = list(absent(opened, content, receipt, bars.track))
    if json:
        print_json({"receipt": receipt, "manifest": opened.manifest.hash, "faults": faults})
    else:
        out = console()
        for fault in faults:
            out.print(words(fault), soft_wrap=True)
        searched = counted(sum(len(group.shards) for group in opened.manifest.groups), "shard")
        gone = f"none of {counted(len(content['documents']), 'document')} is left, nor a copy of one"
        out.print(f"{searched} of {opened.manifest.hash[:12]}: {counted(len(faults), 'fault') if faults else gone}.")
    if faults:
        raise typer.Exit(1)


@app.command(epilog="Example: gristmill takedown seen receipts/2026-11 --sample 2000")
def seen(
    receipt: ReceiptPath,
    sample: Annotated[
        int, typer.Option("--sample", min=0, metavar="N", help="Global samples that the training has consumed.")
    ],
    json: Json = False,
) -> None:
    """Show which of the documents a training has seen that has consumed so many samples."""
    content = read_receipt_json(receipt)
    rows = [
        {"doc_id": one["doc_id"], "request": one["request"], "seen_at": [at for at in one["samples"] if at < sample]}
        for one in content["documents"]
    ]
    rows = [row for row in rows if row["seen_at"]]
    if json:
        print_json({"receipt": receipt, "sample": sample, "documents": rows})
        return
    out = console()
    if rows:
        listed = [(row["doc_id"], row["request"], _listed(row["seen_at"])) for row in rows]
        out.print(table(("document", "request", "seen at sample"), listed, 3))
    of = counted(len(content["documents"]), "document")
    out.print(f"{len(rows):,} of {of} were seen before sample {sample:,}.")


def _listed(numbers: list[int]) -> str:
    more = f" and {len(numbers) - 8:,} more" if len(numbers) > 8 else ""
    return ", ".join(f"{number:,}" for number in numbers[:8]) + more


def read_receipt_json(location: str) -> dict[str, Any]:
    """All that a receipt says; checked as a loader checks it."""
    found = read_receipt(location)
    content: dict[str, Any] = json_module.loads(read_bytes(found.location, NAME))
    try:
        for one in content["documents"]:
            _ = [int(at) for at in one["samples"]], one["request"], one["content_hash"]
        _ = content["shards"]["changed"], float(content["near"]), content["listed"], str(content[SETS])
        _ = content["after"] is None or content["after"]["shards"]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{found.location} lacks a field that a takedown writes ({type(error).__name__}: {error}), so it says too "
            "little. Copy the receipt again, or make it again: gristmill takedown receipt."
        ) from None
    return content
