"""gristmill sample: the decoded samples of a training step, with the source of every document."""

from typing import Annotated

import typer

from gristmill.cli.shards.open import Chars, ShardsName, open_shards, pieces_json, print_pieces
from gristmill.cli.shared.options import Json, StoreUri, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import console
from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.loader import Loader

EXAMPLE = "Example: gristmill sample recipes/demo.yaml --step 100 --batch 8"


def command(
    shards: ShardsName,
    step: Annotated[int, typer.Option(min=0, metavar="N", help="Training step, from 0.")] = 0,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Samples per step, over all ranks.")] = 1,
    chars: Chars = 400,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show the documents that a training step sees.

    The samples are read through the loader, as a trainer does.
    """
    opened = open_shards(shards, store)
    manifest = opened.manifest
    first = step * batch
    if first >= manifest.samples:
        raise UserError(
            f"--step {step}: there are {counted(manifest.samples // batch, 'step')} of {counted(batch, 'sample')}, "
            "numbered from 0, so there is no such step. Give a smaller number; the budget is mix.tokens in the "
            "recipe."
        )
    cache = None if opened.cache is None else opened.cache.folder
    with Loader(manifest.location, cache=cache, check="hash") as loader:
        out, found = console(), []
        for number in range(first, min(first + batch, manifest.samples)):
            sample = loader.sample(number)
            place = sample.place
            shard = manifest.groups[place.group].shards[place.shard]
            spans = (sample.tokens, sample.lengths, sample.doc_ids, sample.doc_offsets)
            pieces = opened.pieces(shard, place.row, *spans)
            about = {"sample": number, "phase": sample.phase, "group": sample.group, "source": sample.source}
            where = {"epoch": place.epoch, "shard": place.shard, "row": place.row}
            if json:
                found.append({**about, **where, "documents": pieces_json(pieces)})
                continue
            line = f"sample {number:,} of {manifest.samples:,}, phase {sample.phase}, group {sample.group}, source "
            line += f"{sample.source}, epoch {place.epoch}, shard {place.shard}, row {place.row}"
            out.print(words((line, "reverse")))
            print_pieces(out, pieces, manifest.seq_len, chars)
    if json:
        print_json({"step": step, "manifest": manifest.hash, "samples": found})
