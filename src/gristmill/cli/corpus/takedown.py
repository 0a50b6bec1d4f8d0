"""gristmill takedown: find the documents that requests name, write a receipt of the removal, and verify it."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.corpus.takedown_receipt import absent, make_receipt, places_in, write_receipt
from gristmill.cli.shards.open import open_shards
from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_mill, open_store, open_view, print_json
from gristmill.cli.shared.screen import remark, words
from gristmill.cli.shared.show import Bars, console, table
from gristmill.cli.shared.usage import Commands
from gristmill.counted import counted
from gristmill.engine.publish.folder import read_model
from gristmill.engine.publish.run_record import describe, newest_run, see, see_record
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.loader.order import Order
from gristmill.query.lineage.lineage import versions_with
from gristmill.query.takedown.takedown import UnmatchedItem, find_matches, read_texts
from gristmill.query.versions.published import Published
from gristmill.recipe.checks.mistakes import listed
from gristmill.recipe.sections.mix import MIX
from gristmill.shardformat.receipt import read_whole_receipt
from gristmill.stages.takedown.requests import Request, describe_requests, read_requests
from gristmill.stages.takedown.takedown_sets import OF_RECEIPT

app = typer.Typer(help="Take documents down, and prove it.", cls=Commands, rich_markup_mode=None)
MOST_LISTED = 20
"""Documents shown per request, and request items shown that match nothing."""
ReceiptPath = Annotated[str, typer.Argument(metavar="RECEIPT", help="The folder of a receipt.", show_default=False)]


@app.command(epilog="Example: gristmill takedown check recipes/takedown/requests.yaml recipes/demo.yaml")
def check(
    requests: Annotated[Path, typer.Argument(metavar="FILE", help="The requests (docs/takedown.md).")],
    recipe: RecipeOrRun,
    near: Annotated[
        float, typer.Option("--near", min=0.01, max=1, metavar="SHARE", help="Minimum similarity of a copy.")
    ] = 0.8,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show the documents that requests name and their copies, with their versions, shards and samples.

    Nothing is changed. If the recipe has changed since its last run, that run is searched. Exit code 1: a request
    matches nothing.
    """
    parsed = read_requests(str(requests))
    view = _finished(open_view(recipe, store))
    texts = read_texts(parsed, os.path.dirname(os.path.abspath(requests)))
    found = find_matches(view, parsed, texts, near, remark)
    answers, idle = found.answers, found.idle
    ids = [answer.place.doc_id.hex() for answer in answers]
    versions = versions_with(view.store, ids, remark)
    places = _places(view, ids)
    rows = [
        {
            "request": answer.request,
            "doc_id": doc_id,
            "named_by": answer.named_by,
            "copy_of": answer.copy_of,
            "similarity": answer.similarity,
            "parent": answer.parent,
            "source": answer.place.document.source,
            "url": answer.url,
            "locator": answer.locator,
            "kept": answer.place.is_kept,
            "versions": [version.version for version in versions[doc_id]],
            **places.get(doc_id, {"group": None, "shard": None, "rows": [], "samples": []}),
        }
        for answer, doc_id in zip(answers, ids, strict=True)
    ]
    if json:
        print_json({"requests": len(parsed), "documents": rows, "nothing_found": [asdict(one) for one in idle]})
    else:
        _show(parsed, rows, idle)
    if idle:
        raise typer.Exit(1)


def _finished(view: CorpusView) -> CorpusView:
    """The corpus, or its last finished run if the recipe has changed since, which new requests do."""
    last = newest_run(view.store, view.name) if view.record is None and view.unfinished() else None
    if last is None:
        return view
    found = see_record(view.store, f"{view.store.uri}@{view.name}", last)
    remark(f"The recipe has changed since its last run, so that run is searched. {describe(found)}.")
    return found


def _places(view: CorpusView, ids: list[str]) -> dict[str, dict[str, Any]]:
    """The locations of documents in the shards of a corpus, if it has shards."""
    if read_model(view, MIX) is None:
        return {}
    opened = Published(view)
    return places_in(opened, ids, Order(opened.manifest))


def _show(requests: Sequence[Request], rows: list[dict[str, Any]], idle: Sequence[UnmatchedItem]) -> None:
    out = console()
    out.print(words(f"{describe_requests(requests)}: {counted(len(rows), 'document')}."))
    by_request: dict[str, list[dict[str, Any]]] = {request.id: [] for request in requests}
    for row in rows:
        by_request[row["request"]].append(row)
    if rows:
        sums = [_sums(name, mine) for name, mine in by_request.items()]
        out.print(table(("request", "named", "copies", "kept now", "in shards", "seen at samples"), sums))
    for name, mine in by_request.items():
        for row in mine[:MOST_LISTED]:
            out.print(words(""))
            out.print(words((row["doc_id"], "bold"), f" {row['url'] or row['locator'] or row['source']}"))
            out.print(words(f"  {_about(row)}"))
        if len(mine) > MOST_LISTED:
            out.print(words(f"... and {len(mine) - MOST_LISTED:,} more of {name}: --json has all of them."))
    if idle:
        out.print(words(""))
    for one in idle[:MOST_LISTED]:
        why = ""
        if one.kind == "texts":
            why = " Texts are only searched for in kept documents: name a dropped one by URL, id or content hash."
        if one.kind == "files":
            why = " Name it as `gristmill inspect` shows it, up to the first #; a file in an archive, ARCHIVE/MEMBER."
        if one.is_short:
            why += " It is short, so it only matches a whole document. To search: gristmill inspect RECIPE --grep."
        out.print(words(f"{one.request}: {one.item} ({one.kind}) matches nothing.{why}"))
    if len(idle) > MOST_LISTED:
        out.print(words(f"... and {len(idle) - MOST_LISTED:,} more that match nothing: --json has all of them."))


def _sums(request: str, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    copies = sum(row["named_by"] == "copy" for row in rows)
    counts = (len(rows) - copies, copies, sum(row["kept"] for row in rows), sum(bool(row["rows"]) for row in rows))
    return (request, *(f"{count:,}" for count in counts), f"{sum(len(row['samples']) for row in rows):,}")


def _about(row: dict[str, Any]) -> str:
    by = f"by {row['named_by']}" if row["copy_of"] is None else f"copy of {row['copy_of']} ({row['similarity']:.3f})"
    by = by if row["parent"] is None else f"generated from {row['parent']}"
    state = "kept" if row["kept"] else "already dropped"
    versions = f"; versions {listed(row['versions'], 10)}" if row["versions"] else ""
    location = ""
    if row["group"] is not None:
        location = f"; {row['group']}, shard {row['shard']}, seen at {counted(len(row['samples']), 'sample')}"
    return f"{row['request']}: {by}, {state}{versions}{location}"


@app.command(epilog="Example: gristmill takedown receipt recipes/demo.yaml --before before --out receipts/2026-11")
def receipt(
    recipe: RecipeOrRun,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the receipt; must not exist.")],
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="VERSION", help="Version to compare with. Default: the parent of the run."),
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Write the receipt of a takedown: what was requested, found and removed, and the hashes before and after.

    Compares the last run of a recipe with takedowns with an earlier version.
    """
    if out.exists():
        raise UserError(f"--out {out} exists, and receipts are never overwritten. Name another folder.")
    after = _recorded(recipe, store)
    assert after.record is not None
    name = before or after.record["parent"]
    if name is None:
        raise UserError(
            f"{after.label} has no earlier version on record to compare with. Name one: "
            "--before VERSION (gristmill versions lists them)."
        )
    content, sets = make_receipt(see(after.store, str(name)), after, remark)
    if content["before"]["version"] == content["after"]["version"]:
        raise UserError(
            f"--before {name} is the version that the receipt is for, so nothing was taken down in between. Name "
            "an earlier one: gristmill versions lists them."
        )
    write_receipt(out, content, sets)
    if json:
        print_json(content)
        return
    changed, same = content["shards"]["changed"], content["shards"]["unchanged"]
    for one in content["left"]:
        remark(f"{one['doc_id']} is named by {one['request']}, but its text is still in {content['after']['version']}.")
    stay = (
        f" {counted(len(content['listed']), 'copy stays', 'copies stay')}, listed there." if content["listed"] else ""
    )
    console().print(
        words(
            f"{out}: {counted(len(content['documents']), 'document')} removed from {counted(len(changed), 'shard')}, "
            f"{same:,} unchanged; {len(content['elsewhere']):,} more were named but not in the shards.{stay} "
            f"To read it: receipt.html. To verify it: gristmill takedown verify {out}"
        )
    )


def _recorded(name: str, store: str | None) -> CorpusView:
    """The last finished run of a recipe, or the named run."""
    if open_store(name, store) is not None:
        return open_view(name, store)
    mill = open_mill(name, store)
    record = newest_run(mill.store, mill.recipe.name)  # not by its name, which may also be the name of a version
    if record is None:
        raise UserError(f"{name} has no finished run in {mill.store.uri}, so there is nothing to write. Run it first.")
    view = see_record(mill.store, f"{mill.store.uri}@{record['version']}", record)
    remark(describe(view), "dim")
    return view


@app.command(epilog="Example: gristmill takedown verify receipts/2026-11")
def verify(
    receipt: ReceiptPath,
    shards: Annotated[
        str | None,
        typer.Option("--shards", metavar="SHARDS", help="The new shards. Default: those that the receipt names."),
    ] = None,
    json: Json = False,
) -> None:
    """Check that removed documents are gone, by searching all new shards.

    Searches for their ids, their exact texts, and near copies. Exit code 1: something is left.
    """
    content = read_receipt_json(receipt)
    unsent = content["unsent"]
    if not content["documents"] and not content["elsewhere"] and not unsent:
        raise UserError(f"{receipt} names no document, so there is nothing to verify. Use a run with takedowns.")
    if content["after"] is None:
        raise UserError(f"{receipt} names no shards after the takedown, so nothing can be searched. Write a new one.")
    try:
        opened = open_shards(shards or content["after"]["shards"])
    except UserError as error:
        hint = "" if shards else " Name the shards of this version or a later one: --shards SHARDS."
        raise UserError(f"{error}{hint}") from None
    is_other = opened.manifest.hash != content["after"]["manifest"]
    if is_other and shards is not None:
        remark(f"These are not the shards of the receipt ({content['after']['manifest'][:12]}); searched anyway.")
    with Bars(quiet=json) as bars:
        faults = list(absent(opened, content, receipt, bars.track, remark, may_differ=shards is not None))
    if json:
        print_json({"receipt": receipt, "manifest": opened.manifest.hash, "faults": faults})
    else:
        out = console()
        for fault in faults:
            out.print(words(fault))
        searched = counted(sum(len(group.shards) for group in opened.manifest.groups), "shard")
        gone = f"none of {counted(len(content['documents']), 'document')} is left, nor a copy of one"
        if content["copies"] == "keep":
            gone = f"none of {counted(len(content['documents']), 'document')} is left; copies were not searched for"
        elif content["listed"]:
            gone += f" except {counted(len(content['listed']), 'copy', 'copies')} that the receipt lists (copies: list)"
        if unsent:
            gone += f", and nothing that was not sent to a model ({counted(len(unsent), 'request')})"
        out.print(f"{searched} of {opened.manifest.hash[:12]}: {counted(len(faults), 'fault') if faults else gone}.")
    if faults:
        raise typer.Exit(1)


def read_receipt_json(location: str) -> dict[str, Any]:
    """The contents of a receipt, checked as a loader checks it."""
    found, content = read_whole_receipt(location)
    try:
        for one in content["documents"]:
            _ = [int(at) for at in one["samples"]], one["request"], one["content_hash"]
        _ = content["shards"]["changed"], float(content["near"]), content["listed"], str(content[OF_RECEIPT])
        _ = content["after"] is None or content["after"]["shards"], content["unsent"], content["restored"]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{found.location} lacks a field that a takedown writes ({type(error).__name__}: {error}), so it is "
            "incomplete. Copy the receipt again, or write it again: gristmill takedown receipt."
        ) from None
    return content
