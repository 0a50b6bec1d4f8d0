"""From what a user names to a tokenizer, and how well one does on texts."""

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer

from gristmill.cli.shared.options import A_RUN, is_run, open_run, refuse_store
from gristmill.cli.shared.sample_option import asked_sample, refuse_sample
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
    """Whether a tokenizer is that of a recipe or of a run, and no file."""
    return is_recipe(name) or is_run(name)


def look_at(name: str, store: str | None) -> CorpusView:
    """What a recipe has in its store, up to its tokenizer; or what a run made."""
    if is_run(name):
        return open_run(name, store)
    return open_for_tokenizer(load_recipe(name, store=store, sample=asked_sample())).dry_run()


def open_tokenizer(name: str, store: str | None = None) -> AnyTokenizer:
    """The one that a command is about; only that of a recipe has a sample."""
    if not is_corpus(name):
        refuse_sample(name)
        return open_any(name)
    return open_any(look_at(name, store))


def open_any(named: str | CorpusView) -> AnyTokenizer:
    """That of a file or folder, or that of a corpus."""
    if isinstance(named, CorpusView):
        return load_aloud(tokenizer_file(named))
    refuse_store(named)
    return load_aloud(named)


def load_aloud(uri: str) -> AnyTokenizer:
    """A tokenizer; that it is not encoded by our kernel is said in a line, not as Python tells warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tokenizer = load(uri, probe="once")
    for warning in told:
        complain(warning.message)
    return tokenizer


def given_text(text: str | None) -> str:
    """The text itself, or what standard input has."""
    if text is None or text == STDIN:
        return read_stdin()
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError("The text is not UTF-8, so it is no text. Decode it first, as with iconv.") from None
    return text


def read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"byte {error.start} of standard input is not UTF-8, so it is no text. Decode it first, as with iconv."
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
            "bytes_per_token": self.bytes_per_token,  # rounded where it is shown, and only once
        }


def measure(tokenizer: AnyTokenizer, texts: Iterable[tuple[str, pa.Array]]) -> dict[str, Fertility]:
    """By domain or file, in the order of their names."""
    found: dict[str, Fertility] = {}
    for name, some in texts:
        counted = found.setdefault(name, Fertility())
        counted.documents += len(some)
        counted.bytes += pc.sum(pc.binary_length(some)).as_py() or 0
        counted.tokens += len(tokenizer.encode(some)[0])
    return dict(sorted(found.items()))
