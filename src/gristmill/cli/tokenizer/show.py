"""gristmill tokenizer show: what a tokenizer is, or how it cuts a text."""

import json as json_format
from itertools import cycle
from typing import Annotated, Any

import typer

from gristmill.cli.shared.options import Json, StoreUri, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import console, table
from gristmill.cli.tokenizer.open import AnyTokenizer, TokenizerName, given_text, open_tokenizer
from gristmill.counted import counted
from gristmill.tokenizer.model import Tokenizer

EXAMPLE = "Example: gristmill tokenizer show tokenizer/ 'The mill grinds 1234567 grains.'"
COLOURS = ("black on bright_cyan", "black on bright_yellow", "black on bright_green", "black on bright_magenta")
SHOWN = 10
"""Merges shown of the first and of the last."""


def command(
    tokenizer: TokenizerName,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Show its tokens. -: standard input.")] = None,
    special: Annotated[bool, typer.Option("--special", help="Special tokens in the text become their ids.")] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show a tokenizer, or the tokens of a text.

    Without a text: pattern, size, special tokens, first and last merges. With one: its tokens, each with its id.
    """
    opened = open_tokenizer(tokenizer, store)
    if text is None:
        said = describe(opened)
        print_json(said) if json else _show(said)
        return
    ids = opened.encode_text(given_text(text), "all" if special else ())
    tokens = [opened.token_bytes(number) for number in ids]
    if json:
        print_json({"tokens": [{"id": one, "token": legible(other)} for one, other in zip(ids, tokens, strict=True)]})
        return
    _show_tokens(ids, tokens)


def describe(tokenizer: AnyTokenizer) -> dict[str, Any]:
    """What is to be known of it at first sight."""
    said: dict[str, Any] = {
        "pattern": tokenizer.pattern,
        "vocab": tokenizer.vocab_size,
        "hash": tokenizer.hash,
        "special_tokens": len(tokenizer.specials),
        "named": {text: number for text, number in tokenizer.specials.items() if "reserved" not in text},
        "encoder": f"tokenizers ({tokenizer.reason})" if tokenizer.reason else "gristmill",
    }
    if isinstance(tokenizer, Tokenizer):
        this = tokenizer.definition
        order = this.ranks.argsort(kind="stable")
        said["merges"] = len(order)
        for name, some in (("first_merges", order[:SHOWN]), ("last_merges", order[-SHOWN:])):
            said[name] = [
                [legible(this.tokens[this.left[n]]), legible(this.tokens[this.right[n]]), int(this.made[n])]
                for n in some
            ]
    return said


def legible(token: bytes) -> str:
    """A token as text; what is not a whole character as \\xNN, line ends and tabs as escapes."""
    text = token.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else json_format.dumps(c)[1:-1] for c in text)


def _show(said: dict[str, Any]) -> None:
    out = console()
    merges = f", {counted(said['merges'], 'merge')}" if "merges" in said else ""
    out.print(
        f"{counted(said['vocab'], 'token')}{merges}, {counted(said['special_tokens'], 'special token')}; pattern "
        f"{said['pattern']}"
    )
    out.print(f"hash {said['hash']}; encoded by {said['encoder']}\n")
    out.print(words(", ".join(f"{text} {number}" for text, number in said["named"].items())))
    for name in ("first_merges", "last_merges"):
        if said.get(name):
            rows = [(f"'{one}'", f"'{other}'", str(number)) for one, other, number in said[name]]
            out.print()
            out.print(table((name.replace("_", " "), "", "id"), rows, left=2))


def _show_tokens(ids: list[int], tokens: list[bytes]) -> None:
    """The text with each token in a colour, and the ids below in the same; without colours, bars between tokens."""
    out = console()
    text, numbers = words(), words()
    for number, token, colour in zip(ids, tokens, cycle(COLOURS), strict=False):
        shown = legible(token)
        text.append(shown + ("\n" if token.endswith(b"\n") else ""), colour if out.is_terminal else "")
        numbers.append(str(number), colour if out.is_terminal else "")
        numbers.append(" ")
        if not out.is_terminal:
            text.append("│")
    out.print(text)
    out.print(numbers)
    size = sum(map(len, tokens))
    out.print(
        f"{counted(len(ids), 'token')}, {size:,} bytes" + (f", {size / len(ids):.2f} bytes per token" if ids else "")
    )
