"""gristmill extractor show: what the extractor makes of one page, block by block, as a page for people."""

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.shared.options import A_RUN, Json, StoreUri, id_prefix, is_run, open_seen, print_json
from gristmill.cli.shared.sample_option import refuse_sample
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import console
from gristmill.errors import UserError
from gristmill_extractor.pages import Page, is_archive, page_of_archive, page_of_corpus, page_of_file, show
from gristmill_extractor.report import OPENING, page, summary
from gristmill_extractor.whole_file import check_place, write_whole

EXAMPLE = "Example: gristmill extractor show recipes/demo.yaml --url pyworkshop"
DEFAULT = Path("extractor-show.html")
MOST = 10**9


def command(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help=f"A file of HTML; a WARC file; a recipe's YAML file; or {A_RUN}.",
            show_default=False,
        ),
    ],
    url: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The page with this address, or of a corpus: with this in its address."),
    ] = None,
    doc_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Of a corpus: the document's id, or how it begins.")
    ] = None,
    record: Annotated[str | None, typer.Option(metavar="ID", help="Of a WARC file: the WARC-Record-ID.")] = None,
    number: Annotated[
        int | None, typer.Option(min=1, max=MOST, metavar="N", help="Of a WARC file: the Nth page, from 1.")
    ] = None,
    comments: Annotated[bool, typer.Option("--comments", help="Keep what readers wrote.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write the text as Markdown.")] = False,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A model by gristmill extractor train. Default: the built-in.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"Write the page to this file. Default: {DEFAULT}.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write it over a file that is no such page.")] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show a page's blocks, kept and dropped, with their scores.

    As one HTML page that runs nothing and loads nothing. Of a document of a corpus, the settings of its step extract
    count; --comments, --markdown and --model go before them. With --json a page is written only where --out names it.
    """
    target = out or (None if json else DEFAULT)
    if target is not None:
        _check(target, force)
    found = _page(recipe, url, doc_id, record, number, store)
    asked: dict[str, Any] = {"comments": comments, "markdown": markdown, "model": model and str(model)}
    changes = {name: value for name, value in asked.items() if value}
    said = asdict(show(replace(found, config=found.config.model_copy(update=changes))))
    if target is not None:
        write_whole(target, page(said).encode())
    if json:
        print_json(said)
        return
    for note in said["notes"]:
        console(stderr=True).print(words((note, "yellow")))
    console().print(words(f"{target}: {summary(said)}."))


def _check(out: Path, force: bool) -> None:
    """That the page may be written there, before anything is read."""
    if check_place(out, "nothing was done") and not force and not _is_own(out):
        raise UserError(
            f"--out {out} exists and is no page of this command, so nothing was done. Name another file with --out, or "
            "write over it with --force."
        )


def _is_own(path: Path) -> bool:
    wanted = OPENING.encode()
    try:
        with path.open("rb") as file:
            return file.read(len(wanted)) == wanted
    except OSError:
        return False


def _page(
    what: str, url: str | None, doc_id: str | None, record: str | None, number: int | None, store: str | None
) -> Page:
    """The page that is meant; options that are for something else are refused."""
    given = {"--url": url, "--id": doc_id, "--record": record, "--number": number, "--store": store}
    if is_run(what) or what.endswith((".yaml", ".yml")) or os.path.isdir(os.path.join(what, "runs")):
        _one_of(given, ("--url", "--id"), what, "a corpus", ("--store",))
        begins = None if doc_id is None else id_prefix(doc_id, "--id")
        return page_of_corpus(open_seen(what, store), url, begins)
    refuse_sample(what)
    if what.startswith(("http://", "https://")):
        raise UserError(
            f"{what} is an address, and nothing is downloaded, so there is no page to show. Name the file, the WARC "
            f"file or the recipe that has it, with --url {what}."
        )
    if is_archive(what):
        _one_of(given, ("--url", "--record", "--number"), what, "a web archive")
        return page_of_archive(what, record, url, number)
    _one_of(given, (), what, "one page")
    return page_of_file(what)


def _one_of(given: dict[str, Any], names: tuple[str, ...], what: str, kind: str, besides: tuple[str, ...] = ()) -> None:
    """Of the options that say which page of a file is meant, one is needed; others have nothing to say."""
    named = [name for name, value in given.items() if value is not None]
    if wrong := [name for name in named if name not in (*names, *besides)]:
        fix = f"Use one of {', '.join(names)}." if names else "Leave it out."
        raise UserError(f"{wrong[0]} has no meaning for {what}, which is {kind}, so nothing was done. {fix}")
    chosen = [name for name in named if name in names]
    if names and len(chosen) != 1:
        fact = "and more than one page is asked for" if chosen else "and no page of it is named"
        raise UserError(f"{what} is {kind}, {fact}, so nothing was done. Use one of {', '.join(names)}.")
