"""gristmill export: write the corpus as a dataset that others can load."""

from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_view, parsed, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import Bars, console, size
from gristmill.counted import counted
from gristmill.engine.work.memory import available_cores
from gristmill.query.export.export import FILE_BYTES, FORMATS, export
from gristmill.stages.config_types import parse_bytes

EXAMPLE = "Example: gristmill export recipes/demo.yaml --out demo-dataset"


def command(
    recipe: RecipeOrRun,
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder to write to: new or empty.")],
    format: Annotated[str, typer.Option(metavar="NAME", help=f"File format: {' or '.join(FORMATS)}.")] = FORMATS[0],
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Columns; STEP.column for those of a step. Default: text, id and origin."),
    ] = None,
    file_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Text per file, before compression.")
    ] = f"{FILE_BYTES // 10**6}MB",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, metavar="N", help="Files to write at once. Default: all cores.")
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Write the kept documents as a dataset.

    Writes files that `datasets.load_dataset(DIR)`, DuckDB, pandas and polars read, a card (README.md) with
    licenses, languages, steps and the funnel, and Croissant metadata. The same corpus gives the same bytes. The folder
    appears when it is complete.
    """
    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    file_bytes = int(parsed("--file-size", file_size, parse_bytes, "nothing was exported"))
    view = open_view(recipe, store)
    with Bars(quiet=json) as bars:
        done = export(view, out, format, names, file_bytes, workers or available_cores(), bars.track)
    if json:
        files = [{"name": name, "bytes": one[0], "sha256": one[1], "rows": one[2]} for name, one in done.files.items()]
        print_json(
            {
                "out": out,
                "documents": done.documents,
                "text_bytes": done.text_bytes,
                "replaced": done.replaced,
                "files": files,
            }
        )
        return
    text, stored = sum(done.text_bytes.values()), sum(size_of for size_of, _, _ in done.files.values())
    summary = f"{counted(done.documents, 'document')}, {size(text)} of text, in {counted(len(done.files), 'file')}"
    if changed := ", ".join(f"{name} {count:,}" for name, count in done.replaced.items() if count):
        console().print(words(f"Values that scrub changed in columns other than the text: {changed}."))
    console().print(words(f"{out}: {summary} of {size(stored)}. Its README.md describes it."))
