"""gristmill quality arpa: a language model as an ARPA file."""

from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.shared.screen import say
from gristmill.cli.shared.show import size
from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import suggest
from gristmill.stages.quality.ngram_file import load
from gristmill_ngram.arpa import write_arpa

EXAMPLE = "Example: gristmill quality arpa models/clean.ngrams --out clean.arpa"


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A language model trained by gristmill.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The ARPA file to write.")],
    language: Annotated[
        str | None, typer.Option(metavar="CODE", help="The language; required if the model has several.")
    ] = None,
) -> None:
    """Write a language model as an ARPA file, which KenLM and SRILM read."""
    if not file.is_file():
        raise UserError(f"{file} is not a file. Give a language model that gristmill quality train --out wrote.")
    if out.exists() and not out.is_file():
        raise UserError(f"--out {out} exists and is not a regular file. Name another file.")
    if not out.parent.is_dir():
        raise UserError(f"--out {out}: the folder {out.parent} does not exist. Create it, or name another.")
    languages = sorted(load(file))
    if language is None and len(languages) > 1:
        raise UserError(
            f"{file} has models of {', '.join(languages)}, but an ARPA file holds one. Add --language CODE."
        )
    chosen = languages[0] if language is None else language.lower()
    if chosen not in languages:
        raise UserError(f"{file} has no model of {language}. {suggest(chosen, languages, 'Languages')}")
    write_arpa(file, chosen, out)
    say(f"{out}: {chosen}, {size(out.stat().st_size)}")
