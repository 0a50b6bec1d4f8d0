"""Opens the tokenizer that a user names, and measures it on texts."""

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer

from gristmill.cli.shared.added_options import chosen_sample, refuse_sample
from gristmill.cli.shared.options import A_RUN, is_run, open_run, refuse_store
from gristmill.cli.shared.screen import complain
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.query.documents.sample import open_for_tokenizer, tokenizer_file
from gristmill.recipe.load import load as load_recipe
from gristmill.tokenizer.files import load
from gristmill.tokenizer.library import LibraryTokenizer
from gristmill.tokenizer.model import Tokenizer

AnyTokenizer = Tokenizer | LibraryTokenizer

A_TOKENIZER = f"A tokenizer.json, a folder with one, a tiktoken rank file, a recipe that trained one, or {A_RUN}"
TokenizerName = Annotated[
    str,
    typer.Argument(
        metavar="TOKENIZER",
        help=f"{A_TOKENIZER}.",
        show_default=False,
    ),
]
STDIN = "-"


def is_recipe(name: str) -> bool:
    return Path(name).suffix in (".yaml", ".yml")


def is_corpus(name: str) -> bool:
    """Whether a name is a recipe or a run, not a tokenizer file."""
    return is_recipe(name) or is_run(name)


def open_up_to_tokenizer(name: str, store: str | None) -> CorpusView:
    """The stored results of a recipe up to its tokenizer, or those of a run."""
    if is_run(name):
        return open_run(name, store)
    return open_for_tokenizer(load_recipe(name, store=store, sample=chosen_sample())).dry_run()


def open_tokenizer(name: str, store: str | None = None) -> AnyTokenizer:
    """The tokenizer that a command names. Only a recipe's can be that of a sample."""
    if is_corpus(name):
        return load_aloud(tokenizer_file(open_up_to_tokenizer(name, store)))
    refuse_sample(name)
    refuse_store(name)
    return load_aloud(name)


def load_aloud(uri: str) -> AnyTokenizer:
    """A tokenizer. Warnings (that our kernel cannot encode it) are printed as one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenizer = load(uri, probe="once")
    for warning in caught:
        complain(warning.message)
    return tokenizer


def given_text(text: str) -> str:
    """The given text, or standard input."""
    if text == STDIN:
        return read_stdin()
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError("The text is not valid UTF-8. Convert it first, such as with iconv.") from None
    return text


def read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"Byte {error.start} of standard input is not valid UTF-8. Convert it first, such as with iconv."
        ) from None


@dataclass
class Fertility:
    """Bytes and tokens of some texts."""

    documents: int = 0
    bytes: int = 0
    tokens: int = 0

    @property
    def bytes_per_token(self) -> float:
        return self.bytes / self.tokens if self.tokens else 0.0

    def plain(self) -> dict[str, float]:
        return {
            "documents": self.documents,
            "bytes": self.bytes,
            "tokens": self.tokens,
            "bytes_per_token": self.bytes_per_token,  # rounded only when it is shown
        }


def measure(tokenizer: AnyTokenizer, texts: Iterable[tuple[str, pa.Array]]) -> dict[str, Fertility]:
    """Bytes and tokens per domain or file, sorted by name."""
    found: dict[str, Fertility] = {}
    for name, some in texts:
        counted = found.setdefault(name, Fertility())
        counted.documents += len(some)
        counted.bytes += pc.sum(pc.binary_length(some)).as_py() or 0
        counted.tokens += len(tokenizer.encode(some)[0])
    return dict(sorted(found.items()))
