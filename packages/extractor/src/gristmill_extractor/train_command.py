"""gristmill extractor train: train a model of the extractor on gold pages."""

import hashlib
from collections.abc import Iterator, Sequence
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
from gristmill.recipe.checks.mistakes import suggest
from gristmill.stages.extract.main_text import write_model
from gristmill_extractor.gold import GoldPage, read_golds
from gristmill_extractor.training import STEPS, Learned, Report, learn
from gristmill_extractor.whole_file import check_target, write_whole

EXAMPLE = "Example: gristmill extractor train gold/ --out own.model"
MOST_SHOWN = 12
"""Features with the largest gain that are shown; --json has all."""


def command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER...", help="Folders with WARC files and gold (docs/extraction.md).", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the model to this file.", show_default=False)],
    sets: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Train on these sets of gold only, separated by commas. Default: all."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json: Json = False,
) -> None:
    """Train a model of the extractor on pages with gold.

    Shows what it was trained on, and the most important features. The same pages give the same file, in any order and
    on any number of cores.
    """
    _check(out, force)
    pages = _chosen(read_golds(folders), sets)
    with Bars(quiet=json) as bars, _steps(bars) as report:
        learned = learn(pages, report)
    data = write_model(learned.model)
    write_whole(out, data)
    about = {
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
        print_json(about)
    else:
        _show(about, learned)


def _chosen(pages: Sequence[GoldPage], sets: str | None) -> list[GoldPage]:
    """The pages of the sets. Raises UserError for a set without a page."""
    known = sorted({page.set for page in pages})
    names = known if sets is None else sets.split(",")
    for name in names:
        if name not in known:
            raise UserError(
                f"--sets: no page has the set {name}, so nothing was trained. {suggest(name, known, 'Sets')}"
            )
    return [page for page in pages if page.set in names]


def _check(out: Path, force: bool) -> None:
    """Check that the file can be written, before minutes of training."""
    if check_target(out, "nothing was trained") and not force:
        raise UserError(
            f"--out {out} exists and may contain another model, so nothing was trained. Name another file, or "
            "overwrite it with --force."
        )


@contextmanager
def _steps(bars: Bars) -> Iterator[Report]:
    """A function to call at the start of each training step, which ends the previous one."""
    bars.promise("training", STEPS)
    steps = bars.walk("training", range(STEPS))

    def report(message: str) -> None:
        next(steps)
        bars.note(message)

    yield report
    next(steps, None)


def _show(about: dict[str, Any], learned: Learned) -> None:
    out = console()
    rows = [
        (name, f"{one.pages:,}", f"{one.domains:,}", f"{one.blocks:,}", percent(one.content, one.blocks))
        for name, one in learned.sets.items()
    ]
    blocks = sum(one.blocks for one in learned.sets.values())
    content = sum(one.content for one in learned.sets.values())
    rows.append(("all", f"{about['pages']:,}", f"{about['domains']:,}", f"{blocks:,}", percent(content, blocks)))
    out.print(table(("set", "pages", "domains", "blocks", "content"), rows))
    if about["left_out"]:
        left_out = counted(about["left_out"], "page was", "pages were")
        note = f"{left_out} left out: no text, other text than the gold, or too much of it to align"
        out.print(words((note, "dim")))
    out.print()
    gained = [
        [f"{name} {gain:.1%}" for name, gain in islice(learned.gains[model].items(), MOST_SHOWN)]
        for model in ("first", "second")
    ]
    ranked = [(str(number), *names) for number, names in enumerate(zip(*gained, strict=True), 1)]
    out.print(table(("gain", "by blocks alone", "with their neighbours"), ranked, left=3))
    out.print()
    out.print(words(f"{about['file']}: {size(about['bytes'])}, sha256 {about['sha256']}"))
    out.print(words(("in a recipe: ", "dim"), about["use"]))
