"""gristmill tokenizer encode and decode: text to ids and back."""

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
        bool, typer.Option("--special", help="Special tokens in the text become their ids; else they are text.")
    ] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Print the ids of a text, and nothing but them."""
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
        list[str] | None, typer.Argument(metavar="[IDS]...", help="Numbers. Default or -: standard input.")
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Print the text of some ids.

    Into a pipe or a file their bytes as they are; special tokens by name.
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
        raise UserError(f"{word!r} is not an id, so it cannot be decoded. Give whole numbers, with spaces between.")
    return int(word)
