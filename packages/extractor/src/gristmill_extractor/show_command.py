"""gristmill extractor show: the result of the extractor for one page, block by block, as an HTML report."""

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.shared.added_options import refuse_sample
from gristmill.cli.shared.options import A_RUN, Json, StoreUri, id_prefix, is_run, open_view, print_json
from gristmill.cli.shared.screen import remark, words
from gristmill.cli.shared.show import console
from gristmill.errors import UserError
from gristmill_extractor.pages import InputPage, is_archive, page_of_archive, page_of_corpus, page_of_file, show
from gristmill_extractor.report import OPENING, page, summary
from gristmill_extractor.whole_file import check_target, write_whole

EXAMPLE = "Example: gristmill extractor show recipes/demo.yaml --url pyworkshop"
DEFAULT = Path("extractor-show.html")
MOST = 10**9


def command(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help=f"An HTML file; a WARC file; a recipe's YAML file; or {A_RUN}.",
            show_default=False,
        ),
    ],
    url: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The page with this URL; in a corpus: with this text in its URL."),
    ] = None,
    doc_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="In a corpus: the document's id or the beginning of it.")
    ] = None,
    record: Annotated[str | None, typer.Option(metavar="ID", help="In a WARC file: the WARC-Record-ID.")] = None,
    number: Annotated[
        int | None, typer.Option(min=1, max=MOST, metavar="N", help="In a WARC file: the Nth page, from 1.")
    ] = None,
    comments: Annotated[bool, typer.Option("--comments", help="Keep readers' comments.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write the text as Markdown.")] = False,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A model from gristmill extractor train. Default: the built-in model."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"Write the page to this file. Default: {DEFAULT}.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that this command did not write.")] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show a page's blocks, kept and dropped, with their scores.

    Writes one self-contained HTML page without scripts. A document of a corpus is extracted with the settings of its
    step extract; --comments, --markdown and --model override them. With --json a page is only written to --out.
    """
    target = out or (None if json else DEFAULT)
    if target is not None:
        _check(target, force)
    found = _page(recipe, url, doc_id, record, number, store)
    options: dict[str, Any] = {"comments": comments, "markdown": markdown, "model": model and str(model)}
    changes = {name: value for name, value in options.items() if value}
    result = asdict(show(replace(found, config=found.config.model_copy(update=changes))))
    if target is not None:
        write_whole(target, page(result).encode())
    if json:
        print_json(result)
        return
    for note in result["notes"]:
        remark(note, "yellow")
    console().print(words(f"{target}: {summary(result)}."))


def _check(out: Path, force: bool) -> None:
    """Check that the page may be written there, before anything is read."""
    if check_target(out, "nothing was done") and not force and not _is_own(out):
        raise UserError(
            f"--out {out} exists and is not a page of this command. Nothing was done. Name another --out, or "
            "overwrite it with --force."
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
) -> InputPage:
    """The requested page. Options that do not apply are refused."""
    given = {"--url": url, "--id": doc_id, "--record": record, "--number": number, "--store": store}
    if is_run(what) or what.endswith((".yaml", ".yml")) or os.path.isdir(os.path.join(what, "runs")):
        _one_of(given, ("--url", "--id"), what, "a corpus", ("--store",))
        begins = None if doc_id is None else id_prefix(doc_id, "--id")
        return page_of_corpus(open_view(what, store), url, begins)
    refuse_sample(what)
    if what.startswith(("http://", "https://")):
        raise UserError(
            f"{what} is a URL, and nothing is downloaded, so there is no page to show. Name the file, the WARC "
            f"file or the recipe that has it, with --url {what}."
        )
    if is_archive(what):
        _one_of(given, ("--url", "--record", "--number"), what, "a web archive")
        return page_of_archive(what, record, url, number)
    _one_of(given, (), what, "one page")
    return page_of_file(what)


def _one_of(given: dict[str, Any], names: tuple[str, ...], what: str, kind: str, others: tuple[str, ...] = ()) -> None:
    """Check that exactly one of the options `names` is given, and no others but `others`."""
    named = [name for name, value in given.items() if value is not None]
    if wrong := [name for name in named if name not in (*names, *others)]:
        fix = f"Use one of {', '.join(names)}." if names else "Leave it out."
        raise UserError(f"{wrong[0]} does not apply to {what}, which is {kind}. Nothing was done. {fix}")
    chosen = [name for name in named if name in names]
    if names and len(chosen) != 1:
        fact = "and more than one page is named" if chosen else "and no page of it is named"
        raise UserError(f"{what} is {kind}, {fact}. Nothing was done. Use one of {', '.join(names)}.")
