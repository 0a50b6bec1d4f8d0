"""gristmill extractor train: a model of the extractor, made of gold pages."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.shared.options import Json, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import Bars, console, size, table
from gristmill.counted import counted, percent
from gristmill.errors import UserError
from gristmill.stages.extract.main_text import write_model
from gristmill_extractor.gold import read_golds
from gristmill_extractor.training import STEPS, Learned, Told, learn
from gristmill_extractor.whole_file import check_place, write_whole

EXAMPLE = "Example: gristmill extractor train gold/ --out own.model"
MOST_SHOWN = 12
"""Features that gained most, on the screen; --json has all."""


def command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER...", help="Folders with WARC files and gold (docs/extraction.md).", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the model to this file.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Write it over a file that is there.")] = False,
    json: Json = False,
) -> None:
    """Train a model of the extractor on pages with gold.

    Says what it was trained on, and which features tell most. The same pages make the same file, in whatever order and
    on however many cores.
    """
    _check(out, force)
    pages = read_golds(folders)
    with Bars(quiet=json) as bars, _told(bars) as tell:
        learned = learn(pages, tell)
    data = write_model(learned.model)
    write_whole(out, data)
    said = {
        "file": str(out),
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "pages": len(pages) - learned.left_out,
        "left_out": learned.left_out,
        "domains": learned.domains,
        "sets": {name: one._asdict() for name, one in learned.sets.items()},
        "gains": learned.gains,
        "use": f"extract: {{model: {out}}}",
    }
    if json:
        print_json(said)
    else:
        _show(said, learned)


def _check(out: Path, force: bool) -> None:
    """That the file can be written, before the minutes that a training takes."""
    if check_place(out, "nothing was trained") and not force:
        raise UserError(
            f"--out {out} exists, and another model may be in it, so nothing was trained. Name another file, or write "
            "over it with --force."
        )


@contextmanager
def _told(bars: Bars) -> Iterator[Told]:
    """Who is told when a step of the training begins, which ends the one before it."""
    bars.promise("training", STEPS)
    steps = bars.walk("training", range(STEPS))

    def tell(message: str) -> None:
        next(steps)
        bars.note(message)

    yield tell
    next(steps, None)


def _show(said: dict[str, Any], learned: Learned) -> None:
    out = console()
    rows = [
        (name, f"{one.pages:,}", f"{one.domains:,}", f"{one.blocks:,}", percent(one.content, one.blocks))
        for name, one in learned.sets.items()
    ]
    blocks = sum(one.blocks for one in learned.sets.values())
    content = sum(one.content for one in learned.sets.values())
    rows.append(("all", f"{said['pages']:,}", f"{said['domains']:,}", f"{blocks:,}", percent(content, blocks)))
    out.print(table(("set", "pages", "domains", "blocks", "content"), rows))
    if said["left_out"]:
        told = f"{counted(said['left_out'], 'page was', 'pages were')} left out: no text, or too much of it to align"
        out.print(words((told, "dim")))
    out.print()
    gained = [
        [f"{name} {gain:.1%}" for name, gain in islice(learned.gains[model].items(), MOST_SHOWN)]
        for model in ("first", "second")
    ]
    ranked = [(str(number), *names) for number, names in enumerate(zip(*gained, strict=True), 1)]
    out.print(table(("gain", "by blocks alone", "with their neighbours"), ranked, left=3))
    out.print()
    out.print(words(f"{said['file']}: {size(said['bytes'])}, sha256 {said['sha256']}"))
    out.print(words(("in a recipe: ", "dim"), said["use"]))
