"""gristmill quality: train the models in a recipe's `quality` section, and write them as files."""

from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, RecipePath, StoreUri, Workers, as_typed, open_mill, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import Bars, console, table
from gristmill.cli.shared.usage import Commands
from gristmill.cli.shared.written import write_whole
from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import Node
from gristmill.engine.run_options import sort_warnings
from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import suggest
from gristmill.recipe.sections.quality import ROUTE, known_kinds
from gristmill.stages.contract import Fit
from gristmill.stages.declarations import stage_of
from gristmill.stages.quality.model_kind import ModelKind

app = typer.Typer(help="Train quality models; write them as files.", cls=Commands, rich_markup_mode=None)


def train_command(
    recipe: RecipePath,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The model. Default: all models of the recipe.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write NAME.bin here, or NAME.ngrams for a language model.")
    ] = None,
    workers: Workers = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Run a recipe up to its quality models.

    Shows what each was trained on, and how well it does on texts that were held out. A model that was trained before is
    not trained again.
    """
    if out is not None and out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is a file, but models are written to a folder. Name a folder.")
    for model in _names(open_mill(recipe, store), name):
        mill = open_mill(recipe, store, f"{ROUTE}/{model}")
        with Bars(quiet=json) as bars:
            run = mill.run(workers, bars)
        warnings = sort_warnings(run, as_typed(mill.recipe, store))
        for warning in warnings.new:
            bars.note(f"WARNING: {warning} [{warning.name}]")
        node = mill.graph.nodes[f"{ROUTE}/{model}"]
        part = run.states[node.id].model
        assert part is not None
        path = run.store.local_path(part)
        if out is not None:
            whole = out / f"{model}.{stage_of(node.module, Fit).suffix}"
            write_whole(whole, path, "The model is kept in the store. Name another folder.")
            path = whole
        metrics = run.states[node.id].metrics
        if json:
            about = {"model": model, "file": str(path), "hash": part.hash, "warnings": warnings.plain()}
            print_json({**about, "metrics": metrics})
        else:
            out_screen = console()
            out_screen.print(words((model, "bold"), f"  {part.hash[:16]}"))
            for columns, rows in _kind_of(node).tables(metrics):
                out_screen.print(table(columns, rows))
            out_screen.print(words(str(path)))
        warnings.refuse(mill.recipe, "model")


def _kind_of(node: Node) -> ModelKind:
    return next(kind for kind in known_kinds().values() if kind.module == node.module)


def _names(mill: Mill, name: str | None) -> list[str]:
    """The requested models."""
    models = [node_id.removeprefix(f"{ROUTE}/") for node_id, node in mill.graph.nodes.items() if _is_model(node)]
    if not models:
        raise UserError(
            f"{mill.recipe.path} trains no quality model. Add quality: {{classifiers: {{NAME: {{positives: "
            "{sources: [...]}, negatives: {sources: [...]}}}} to it (docs/quality.md)."
        )
    if name is not None and name not in models:
        raise UserError(f"{mill.recipe.path} trains no model {name}. {suggest(name, models, 'Models')}")
    return models if name is None else [name]


def _is_model(node: Node) -> bool:
    return node.id.startswith(f"{ROUTE}/") and not node.has_layers


app.command(name="train", epilog="Example: gristmill quality train recipes/demo.yaml --out models/")(train_command)
app.callback()(lambda: None)  # with a single command, its name would not be needed
