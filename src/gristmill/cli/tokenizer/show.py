"""gristmill tokenizer show: describe a tokenizer, show how it splits a text, or decode ids."""

import json as json_format
import re
from itertools import cycle
from typing import Annotated, Any

import typer

from gristmill.cli.shared.options import Json, StoreUri, print_json
from gristmill.cli.shared.screen import words, write_bytes
from gristmill.cli.shared.show import console, table
from gristmill.cli.tokenizer.open import AnyTokenizer, TokenizerName, given_text, open_tokenizer
from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.tokenizer.model import Tokenizer

EXAMPLE = "Example: gristmill tokenizer show tokenizer/ 'The mill grinds 1234567 grains.'"
COLOURS = ("black on bright_cyan", "black on bright_yellow", "black on bright_green", "black on bright_magenta")
MOST_DIGITS = 18
SHOWN = 10
"""First and last merges shown."""


def command(
    tokenizer: TokenizerName,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="A text to tokenize. -: standard input.")] = None,
    special: Annotated[bool, typer.Option("--special", help="Encode special tokens in the text as their ids.")] = False,
    ids: Annotated[
        str | None, typer.Option("--ids", metavar="IDS", help="Print the text of these token ids. -: standard input.")
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show a tokenizer, the tokens of a text, or the text of token ids.

    Without a text: pattern, size, special tokens, first and last merges. With a text: its tokens and their ids. With
    --ids, a pipe or a file gets the raw bytes.
    """
    opened = open_tokenizer(tokenizer, store)
    if ids is not None:
        numbers = [_number(word) for word in re.split(r"[\s,\[\]]+", given_text(ids)) if word]
        data = opened.decode_bytes(numbers) if isinstance(opened, Tokenizer) else opened.decode(numbers).encode()
        print_json({"text": opened.decode(numbers)}) if json else write_bytes(data)
        return
    if text is None:
        about = describe(opened)
        print_json(about) if json else _show(about)
        return
    numbers = opened.encode_text(given_text(text), "all" if special else ())
    tokens = [opened.token_bytes(number) for number in numbers]
    if json:
        shown = [{"id": number, "token": legible(token)} for number, token in zip(numbers, tokens, strict=True)]
        print_json({"tokens": shown})
        return
    _show_tokens(numbers, tokens)


def _number(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= MOST_DIGITS):
        raise UserError(f"{word!r} is not a token id, so nothing was decoded. Give whole numbers, separated by spaces.")
    return int(word)


def describe(tokenizer: AnyTokenizer) -> dict[str, Any]:
    """The main facts about a tokenizer."""
    about: dict[str, Any] = {
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
        about["merges"] = len(order)
        for name, some in (("first_merges", order[:SHOWN]), ("last_merges", order[-SHOWN:])):
            about[name] = [
                [legible(this.tokens[this.left[n]]), legible(this.tokens[this.right[n]]), int(this.made[n])]
                for n in some
            ]
    return about


def legible(token: bytes) -> str:
    """A token as text; partial characters become \\xNN, line ends and tabs escapes."""
    text = token.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else json_format.dumps(c)[1:-1] for c in text)


def _show(about: dict[str, Any]) -> None:
    out = console()
    merges = f", {counted(about['merges'], 'merge')}" if "merges" in about else ""
    out.print(
        f"{counted(about['vocab'], 'token')}{merges}, {counted(about['special_tokens'], 'special token')}; pattern "
        f"{about['pattern']}"
    )
    out.print(f"hash {about['hash']}; encoded by {about['encoder']}\n")
    out.print(words(", ".join(f"{text} {number}" for text, number in about["named"].items())))
    for name in ("first_merges", "last_merges"):
        if about.get(name):
            rows = [(f"'{one}'", f"'{other}'", str(number)) for one, other, number in about[name]]
            out.print()
            out.print(table((name.replace("_", " "), "", "id"), rows, left=2))


def _show_tokens(ids: list[int], tokens: list[bytes]) -> None:
    """Print the text with its tokens in colours, and the ids below; without colours, with bars between tokens."""
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
