"""gristmill init: write a commented recipe to start from."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, print_json
from gristmill.cli.shared.screen import say
from gristmill.errors import UserError
from gristmill.places import shown
from gristmill.printable import one_line
from gristmill.recipe.starter import NAME, starter

EXAMPLE = "Example: gristmill init corpus.yaml"


def command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path(NAME),
    json: Json = False,
) -> None:
    """Write a starter recipe with a comment on every field. An existing file is never overwritten."""
    if not path.parent.is_dir():
        raise UserError(
            f"{path.parent} is not a folder, so nothing was written. Create it first: mkdir -p {path.parent}"
        )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(starter(one_line(shlex.quote(shown(str(path))))))
    except FileExistsError:
        raise UserError(f"{path} exists and was not changed. Give another name: gristmill init NAME.yaml") from None
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}. Give another path.") from None
    if json:
        print_json({"written": str(path)})
    else:
        say(one_line(f"Wrote {path}. Put your files where it says, then: gristmill plan {path}"))
