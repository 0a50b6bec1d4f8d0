"""gristmill extractor: score the tools that extract the main text of a page, and train and inspect ours."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.shared.options import Json, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import Bars, console, size, table
from gristmill.cli.shared.usage import Commands
from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill_extractor import show_command, train_command
from gristmill_extractor.extractors import TRAINED, ToolResult, chosen_tools, evaluate, known_tools
from gristmill_extractor.gold import GoldPage, read_gold
from gristmill_extractor.gold_domains import kinds_of
from gristmill_extractor.gold_scores import Score, mean

app = typer.Typer(
    help="Score extractors on gold pages; train ours, see what it keeps.",
    cls=Commands,
    rich_markup_mode=None,
)

OVER_PAGES, OVER_SETS = "mean over pages", "mean over sets"


def evaluate_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="A folder with WARC files and gold (docs/extraction.md).", show_default=False
        ),
    ],
    tools: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help=f"Tools, separated by commas: {', '.join(known_tools())}. Default: all."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(min=2, metavar="K", help="Cross-validate trainable tools in K folds, split by domain."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Score only N pages, always the same ones.")
    ] = None,
    json: Json = False,
) -> None:
    """Score extractors on pages whose main text is known.

    Shows precision, recall and F1 of the words, by set and by language, and the speed of each tool on one core.
    """
    requested = None if tools is None else [name.strip() for name in tools.split(",") if name.strip()]
    if requested == []:
        raise UserError(
            f"--tools is empty, so nothing was scored. Tools, separated by commas: {', '.join(known_tools())}."
        )
    names, skipped = chosen_tools(requested)
    pages = read_gold(folder, limit)
    with Bars(quiet=json) as bars:
        for line in skipped:
            bars.note(line)
        results = evaluate(pages, names, folds, bars)
    about = _about(pages, folds)
    if json:
        print_json({**about, "skipped": skipped, "tools": {one.tool: _plain(one) for one in results}})
    else:
        _show(about, results)


def _about(pages: Sequence[GoldPage], folds: int | None) -> dict[str, Any]:
    return {
        "pages": len(pages),
        "html_bytes": sum(len(page.html.encode()) for page in pages),
        "domains": len({page.domain for page in pages}),
        "domains_from": kinds_of(page.domain_from for page in pages),
        "outside_the_means": sorted({page.set for page in pages if page.is_weak}),
        "folds": folds,
        "gold_of_other_pages": sum(page.is_strange for page in pages),
    }


def _plain(result: ToolResult) -> dict[str, Any]:
    """The JSON of a result."""
    over_pages, over_sets = result.mean_over_pages(), result.mean_over_sets()
    return {
        "bytes_per_second": result.bytes_per_second,
        "seconds": result.seconds,
        "mean_over_pages": over_pages and over_pages._asdict(),
        "mean_over_sets": over_sets and over_sets._asdict(),
        "sets": {name: _group(scores) for name, scores in result.sets().items()},
        "languages": {name: _group(scores) for name, scores in result.languages().items()},
    }


def _group(scores: Sequence[Score]) -> dict[str, Any]:
    return {"pages": len(scores), **mean(scores)._asdict()}


def _show(about: dict[str, Any], results: Sequence[ToolResult]) -> None:
    out = console()
    rows = [
        _row(name, one.tool, len(scores), mean(one.sets()[name]))
        for name, scores in results[0].sets().items()
        for one in results
    ]
    means = [(OVER_PAGES, one.tool, one.mean_over_pages()) for one in results]
    means += [(OVER_SETS, one.tool, one.mean_over_sets()) for one in results]
    counted_pages = sum(not page.is_weak for page in results[0].pages)
    rows += [_row(name, tool, counted_pages, score) for name, tool, score in means if score is not None]
    out.print(table(("set", "tool", "pages", "precision", "recall", "score"), rows, left=2))
    rows = [
        (name, f"{len(scores):,}", *(_share(mean(one.languages()[name]).value) for one in results))
        for name, scores in results[0].languages().items()
    ]
    if rows:
        out.print()
        out.print(table(("language", "pages", *(one.tool for one in results)), rows))
    out.print()
    rows = [(one.tool, f"{size(one.bytes_per_second)}/s", f"{one.seconds:.1f}") for one in results]
    out.print(table(("tool", "HTML on one core", "seconds"), rows))
    out.print()
    for line in _remarks(about, results):
        out.print(words((line, "dim")))


def _row(name: str, tool: str, pages: int, score: Score) -> tuple[str, ...]:
    return name, tool, f"{pages:,}", _share(score.precision), _share(score.recall), _share(score.value)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _remarks(about: dict[str, Any], results: Sequence[ToolResult]) -> Iterator[str]:
    """Remarks that explain the tables."""
    segments = [name for name, scores in results[0].sets().items() if mean(scores).precision is None]
    yield "score: F1 of the bags of words, mean over pages" + (
        f"; for {', '.join(segments)}, the share of segments that are correctly present or absent" if segments else ""
    )
    if weak := about["outside_the_means"]:
        yield f"not in the means and languages, because their gold is the output of a tool: {', '.join(weak)}"
    sources = ", ".join(f"{count:,} by {_KINDS[kind]}" for kind, count in about["domains_from"].items())
    domains = counted(about["domains"], "domain")
    yield f"{counted(about['pages'], 'page')} of {domains} ({sources}), {size(about['html_bytes'])} of HTML"
    if about["folds"] is not None:
        trained = ", ".join(one.tool for one in results if one.tool in TRAINED)
        yield f"{trained}: one model per fold of {about['folds']}, trained on the others; no domain is in two folds"
    elif trained_tools := [one.tool for one in results if one.tool in TRAINED]:
        yield (
            f"{', '.join(trained_tools)}: the built-in model was trained on similar gold, so its score is not fair "
            "if it has seen these pages; --folds 5 scores models that have not"
        )
    if strange := about["gold_of_other_pages"]:
        yield (
            f"warning: {counted(strange, 'page has', 'pages have')} no word of {'its' if strange == 1 else 'their'} "
            "gold, which may belong to other pages; no tool can score well there"
        )


_KINDS = {
    "url": "their URL",
    "canonical": "their canonical link",
    "og:url": "their og:url",
    "base": "their base",
    "links": "their links",
    "none": "their own id, as no domain is known",
}

app.command(name="evaluate", epilog="Example: gristmill extractor evaluate gold/")(evaluate_command)
app.command(name="train", epilog=train_command.EXAMPLE)(train_command.command)
app.command(name="show", epilog=show_command.EXAMPLE)(show_command.command)
