"""gristmill tokenizer compare: bytes per token of several tokenizers, side by side."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from gristmill.cli.shared.added_options import refuse_sample
from gristmill.cli.shared.options import Json, StoreUri, print_json
from gristmill.cli.shared.show import Bars, console, size, table
from gristmill.cli.tokenizer.open import A_TOKENIZER, Fertility, is_corpus, measure, open_any, open_up_to_tokenizer
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.query.documents.sample import sample_texts
from gristmill.stages.tokenizer.tokenizer_sample import HELD_OUT

EXAMPLE = "Example: gristmill tokenizer compare tokenizer/ other/tokenizer.json --text README.md --text prose.txt"
ALL = "all"


def command(
    tokenizers: Annotated[
        list[str],
        typer.Argument(
            metavar="TOKENIZER...", help=f"Each of them: {A_TOKENIZER[0].lower()}{A_TOKENIZER[1:]}.", show_default=False
        ),
    ],
    text: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Text to measure on. May be repeated. Default: held-out text of the first recipe that has some.",
        ),
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Compare the bytes per token of tokenizers; higher is better.

    Measures each file, or the held-out text of each domain.
    """
    if not any(map(is_corpus, tokenizers)):
        refuse_sample(tokenizers[0])
    names = _apart(tokenizers)
    corpora = {given: open_up_to_tokenizer(given, store) for given in tokenizers if is_corpus(given)}
    texts = _files(text) if text else _held_out(corpora.values())
    found = {}
    with Bars(quiet=json) as bars:
        for name in names:
            bars.promise(name, len(texts))
        for name, given in zip(names, tokenizers, strict=True):
            counted = measure(open_any(corpora.get(given, given)), bars.walk(name, texts))
            if len(counted) > 1:
                counted[ALL] = Fertility(*(sum(getattr(one, what) for one in counted.values()) for what in _SUMMED))
            found[name] = counted
    if json:
        print_json({name: {what: one.plain() for what, one in counted.items()} for name, counted in found.items()})
        return
    rows = [
        (what, size(one.bytes), *(f"{found[name][what].bytes_per_token:.3f}" for name in names))
        for what, one in found[names[0]].items()
    ]
    console().print(table(("text", "bytes", *names), rows))


_SUMMED = ("documents", "bytes", "tokens")


def _files(paths: list[Path]) -> list[tuple[str, pa.Array]]:
    texts = []
    for path in paths:
        try:
            texts.append((str(path), pa.array([path.read_bytes().decode()], pa.large_string())))
        except OSError as error:
            raise UserError(
                f"--text {path} cannot be read: {error.strerror}. Nothing was measured. Check the path."
            ) from None
        except UnicodeDecodeError as error:
            raise UserError(f"--text {path}: byte {error.start} is not UTF-8. Name a plain text file.") from None
    return texts


def _held_out(corpora: Iterable[CorpusView]) -> list[tuple[str, pa.Array]]:
    """Held-out text of the first recipe that has some. A pinned tokenizer was trained elsewhere and has none."""
    for view in corpora:
        if texts := list(sample_texts(view, HELD_OUT)):
            return texts
    raise UserError(
        "There is no text to measure on: no --text is given, and none of the tokenizers is a recipe with held-out "
        "text. Add --text FILE."
    )


def _apart(names: list[str]) -> list[str]:
    """Short names, or full names if two short ones would be equal."""
    short = [Path(name).parent.name if Path(name).name == "tokenizer.json" else Path(name).stem for name in names]
    if len(set(names)) < len(names):
        raise UserError("A tokenizer is given twice, so the columns would be equal. Give it once.")
    return short if len(set(short)) == len(short) and all(short) else names
