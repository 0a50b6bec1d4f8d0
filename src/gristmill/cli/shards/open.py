"""Opens the shards that a user names, and prints the documents of a sample."""

from typing import Annotated

import typer

from gristmill.cli.shared.added_options import refuse_sample
from gristmill.cli.shared.options import A_RUN, is_run, open_view, refuse_store
from gristmill.cli.shared.screen import Screen, words
from gristmill.cli.tokenizer.open import is_recipe, load_aloud
from gristmill.counted import counted
from gristmill.query.versions.published import DocumentSpan, Published

ShardsName = Annotated[
    str,
    typer.Argument(
        metavar="SHARDS",
        help=f"A manifest.json, a folder with one, a recipe that was run, or {A_RUN}.",
        show_default=False,
    ),
]
Chars = Annotated[int, typer.Option(min=0, metavar="N", help="Characters of each document to show; 0: all.")]


def open_shards(name: str, store: str | None = None) -> Published:
    """The shards that a user names."""
    if is_recipe(name) or is_run(name):
        return Published(open_view(name, store), load_aloud)
    refuse_sample(name)
    refuse_store(name)
    return Published(name, load_aloud)


def print_pieces(out: Screen, pieces: list[DocumentSpan], seq_len: int, chars: int) -> None:
    """Print each document with its origin, then its text as a trainer reads it."""
    for piece in pieces:
        start = f", from its token {piece.doc_offset:,}" if piece.doc_offset else ""
        span = f"tokens {piece.offset:,} to {piece.offset + piece.tokens:,}{start}"
        out.print(words((piece.locator, "bold"), f"  {piece.doc_id}  {span}"))
        text = piece.text
        if chars and len(text) > chars:
            text = f"{text[: chars // 2]} [...] {text[len(text) - chars // 2 :]}"
        out.print(text)
    used = sum(piece.tokens for piece in pieces)
    if used < seq_len:
        out.print(words((f"{counted(seq_len - used, 'token')} of padding", "dim")))
