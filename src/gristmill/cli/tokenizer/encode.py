"""gristmill tokenizer encode and decode: convert text to ids and back."""

import re
from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, StoreUri, print_json
from gristmill.cli.shared.screen import say, write_bytes
from gristmill.cli.tokenizer.open import STDIN, TokenizerName, given_text, open_tokenizer, read_stdin
from gristmill.errors import UserError
from gristmill.tokenizer.model import Tokenizer

ENCODE_EXAMPLE = "Example: gristmill tokenizer encode tokenizer/ 'The mill grinds.'"
DECODE_EXAMPLE = "Example: gristmill tokenizer decode tokenizer/ 464 4026"
_MOST_DIGITS = 18


def encode(
    tokenizer: TokenizerName,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Default or -: standard input.")] = None,
    special: Annotated[
        bool, typer.Option("--special", help="Encode special tokens in the text as their ids, not as text.")
    ] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Print the token ids of a text."""
    opened = open_tokenizer(tokenizer, store)
    whole = given_text(text)
    ids = opened.encode_text(whole, "all" if special else ())
    if json:
        print_json({"ids": ids, "tokens": len(ids), "bytes": len(whole.encode())})
    else:
        say(" ".join(map(str, ids)))


def decode(
    tokenizer: TokenizerName,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[IDS]...", help="Token ids. Default or -: standard input.")
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Print the text of token ids.

    A pipe or a file gets the raw bytes. Special tokens are written by name.
    """
    opened = open_tokenizer(tokenizer, store)
    words = read_stdin() if ids in (None, [], [STDIN]) else " ".join(ids or ())
    numbers = [_number(word) for word in re.split(r"[\s,\[\]]+", words) if word]
    if json:
        print_json({"text": opened.decode(numbers), "tokens": len(numbers)})
        return
    data = opened.decode_bytes(numbers) if isinstance(opened, Tokenizer) else opened.decode(numbers).encode()
    write_bytes(data)


def _number(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS):
        raise UserError(f"{word!r} is not a token id, so nothing was decoded. Give whole numbers, separated by spaces.")
    return int(word)
