"""gristmill sample: what is in the shards, and the decoded samples of a training step or a shard."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from gristmill.cli.run.mix_table import packed, short
from gristmill.cli.shards.open import Chars, ShardsName, open_shards, print_pieces
from gristmill.cli.shared.options import Json, StoreUri, print_json
from gristmill.cli.shared.screen import remark, words
from gristmill.cli.shared.show import console, table
from gristmill.counted import counted, percent
from gristmill.errors import UserError
from gristmill.loader import Loader
from gristmill.query.versions.published import Published

EXAMPLE = "Example: gristmill sample recipes/demo.yaml --step 100 --batch 8"


def command(
    shards: ShardsName,
    step: Annotated[int | None, typer.Option(min=0, metavar="N", help="Training step, from 0.")] = None,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Samples per step, over all ranks.")] = 1,
    group: Annotated[str | None, typer.Option(metavar="NAME", help="Show samples of a group, not of a step.")] = None,
    shard: Annotated[int, typer.Option(min=0, metavar="N", help="Shard of the group, from 0.")] = 0,
    row: Annotated[int, typer.Option(min=0, metavar="N", help="First sample of the shard, from 0.")] = 0,
    chars: Chars = 400,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show the documents that a training step sees.

    The samples are read through the loader, as a trainer does. Without --step and --group, the groups are listed first,
    with their documents, tokens and padding.
    """
    opened = open_shards(shards, store)
    if step is not None and group is not None:
        raise UserError("--step shows samples of the training, and --group those of a shard. Leave one out.")
    answer: dict[str, Any] = {"manifest": opened.manifest.hash}
    if step is None and group is None:
        answer["groups"] = [{**one, "shards": len(one["shards"])} for one in opened.content["groups"]]
        if not json:
            _show_groups(opened)
    taken = _of_step(opened, step or 0, batch) if group is None else _of_shard(opened, group, shard, row, batch)
    answer["samples"] = []
    for line, about in taken:
        if json:
            answer["samples"].append({**about, "documents": [asdict(piece) for piece in about["documents"]]})
        else:
            console().print(words((line, "reverse")))
            print_pieces(console(), about["documents"], opened.manifest.seq_len, chars)
    if json:
        print_json({"step": step, **answer})


def _show_groups(opened: Published) -> None:
    manifest, rows = opened.manifest, []
    remark(f"Manifest: {manifest.location}", "dim")
    for one in opened.content["groups"]:
        places = one["samples"] * manifest.seq_len
        counts = (f"{one['samples']:,}", f"{len(one['shards']):,}", percent(places - one["tokens"], places, 2))
        documents = (f"{one['documents']:,}", f"{one['split']:,}", short(one["tokens"]))
        rows.append((one["name"], one["domain"] or "", *documents, *counts))
    columns = ("group", "domain", "documents", "split", "tokens", "samples", "shards", "padding")
    console().print(table(columns, rows, 2))
    facts = f"samples of {counted(manifest.seq_len, 'token')}, {manifest.token_bytes} bytes each"
    tokenizer = manifest.tokenizer["hash"][:12]
    console().print(f"\n{manifest.recipe} {manifest.hash[:12]}: {facts}, tokenizer {tokenizer}")
    console().print(f"{packed(opened.content)}\n")


def _of_step(opened: Published, step: int, batch: int) -> list[tuple[str, dict[str, Any]]]:
    """A line and the facts of each sample of a training step."""
    manifest, first = opened.manifest, step * batch
    if first >= manifest.samples:
        raise UserError(
            f"--step {step}: there are {counted(manifest.samples // batch, 'step')} of {counted(batch, 'sample')}, "
            "numbered from 0, so there is no such step. Give a smaller number; the budget is mix.tokens in the "
            "recipe."
        )
    cache, found = None if opened.cache is None else opened.cache.folder, []
    with Loader(manifest.location, cache=cache, check="hash") as loader:
        for number in range(first, min(first + batch, manifest.samples)):
            sample = loader.sample(number)
            place = sample.place
            spans = (sample.tokens, sample.lengths, sample.doc_ids, sample.doc_offsets)
            pieces = opened.pieces(manifest.groups[place.group].shards[place.shard], place.row, *spans)
            about = {"sample": number, "phase": sample.phase, "group": sample.group, "source": sample.source}
            where = {"epoch": place.epoch, "shard": place.shard, "row": place.row}
            line = f"sample {number:,} of {manifest.samples:,}, phase {sample.phase}, group {sample.group}, source "
            line += f"{sample.source}, epoch {place.epoch}, shard {place.shard}, row {place.row}"
            found.append((line, {**about, **where, "documents": pieces}))
    return found


def _of_shard(opened: Published, group: str, shard: int, row: int, batch: int) -> list[tuple[str, dict[str, Any]]]:
    """A line and the facts of consecutive samples of a shard."""
    chosen = opened.group(group)
    named = opened.shard(chosen, shard)
    if row >= named.samples:
        raise UserError(
            f"--row {row}: shard {shard} of {group} has {counted(named.samples, 'sample')}, numbered from 0, so there "
            "is nothing to show. Give a smaller number."
        )
    files = opened.open_shard(chosen, shard)
    return [
        (
            f"group {group}, shard {shard}, row {number} of {named.samples:,}",
            {"group": group, "shard": shard, "row": number, "documents": opened.pieces_at(named, files, number)},
        )
        for number in range(row, min(row + batch, named.samples))
    ]
