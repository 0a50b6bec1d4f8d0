"""gristmill quality: train and evaluate the models in a recipe's `quality` section, and write them as files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.shared.options import Json, RecipePath, StoreUri, Workers, as_typed, open_mill, print_json
from gristmill.cli.shared.screen import say, words
from gristmill.cli.shared.show import Bars, console, size, table
from gristmill.cli.shared.usage import Commands
from gristmill.cli.shared.written import write_whole
from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import Node
from gristmill.engine.run_options import sort_warnings
from gristmill.engine.schedule.run import Run
from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import suggest
from gristmill.recipe.sections.quality import ROUTE
from gristmill.stages.quality import ngram_arpa, ngram_file
from gristmill.stages.quality.classifier_file import read_report

app = typer.Typer(help="Train and evaluate quality models; write them as files.", cls=Commands, rich_markup_mode=None)

MOST_SHOWN = 12
"""n-grams shown per class."""


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

    Shows what each was trained on, its scores on held-out sites, and whether it learned a shortcut.
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
            whole = out / f"{model}.{'bin' if _is_classifier(node) else 'ngrams'}"
            write_whole(whole, path, "The model is kept in the store. Name another folder.")
            path = whole
        about = {
            "model": model,
            "file": str(path),
            "hash": part.hash,
            "warnings": warnings.plain(),
            **_about(node, path, run),
        }
        if json:
            print_json(about)
        else:
            _show(about)
        warnings.refuse(mill.recipe, "model")


def _is_classifier(node: Node) -> bool:
    return ".classifier" in node.module


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


def _about(node: Node, path: Path, run: Run) -> dict[str, Any]:
    return {"report": read_report(path)} if _is_classifier(node) else {"metrics": run.states[node.id].metrics}


def report_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A classifier trained by gristmill.")],
    json: Json = False,
) -> None:
    """Show the training report of a classifier.

    The report is stored at the end of the model's file.
    """
    report = _read(file)
    if json:
        print_json(report)
        return
    try:
        _show({"model": file.name, "report": report, "warnings": []})
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(f"{file}: its report is damaged. Train the classifier again.") from None


def _read(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise UserError(f"{file} is not a file. Give a classifier that gristmill quality train --out wrote.")
    return read_report(file)


def arpa_command(
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
    model = ngram_file.load(file)
    known = sorted(model.languages)
    if language is None and len(known) > 1:
        raise UserError(f"{file} has models of {', '.join(known)}, but an ARPA file holds one. Add --language CODE.")
    chosen = known[0] if language is None else language.lower()
    if chosen not in model.languages:
        raise UserError(f"{file} has no model of {language}. {suggest(chosen, known, 'Languages')}")
    ngram_arpa.write_arpa(model, chosen, out)
    say(f"{out}: {chosen}, {size(out.stat().st_size)}")


def _show(about: dict[str, Any]) -> None:
    out = console()
    out.print(words((about["model"], "bold"), f"  {about.get('hash', '')[:16]}"))
    if "report" in about:
        _show_report(about["report"])
    else:
        rows = [
            (name, f"{found['words']:,}", f"{found['vocabulary']:,}", f"{found['ngrams']:,}", f"{found['held_out']:,}")
            for name, found in sorted(about["metrics"].get("languages", {}).items())
        ]
        out.print(table(("language", "words", "vocabulary", "n-grams", "held-out texts"), rows))
    if "file" in about:
        out.print(words(about["file"]))


def _show_report(report: dict[str, Any]) -> None:
    out = console()
    rows: list[tuple[Any, ...]] = []
    for split, sides in report["texts"].items():
        for side, found in sides.items():
            rows.append(
                (split.replace("_", " "), side, f"{found['documents']:,}", size(found["bytes"]), f"{found['sites']:,}")
            )
    out.print(table(("texts", "class", "documents", "bytes", "sites"), rows))
    gone = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in report["removed"].items() if count)
    if gone:
        out.print(f"removed in cleaning: {gone}")
    if "auc" in report:
        calibration = report["calibration"]
        out.print(
            f"held out: AUC {report['auc']:.4f}, calibration error {calibration['expected_error']:.3f}, Brier score "
            f"{calibration['brier']:.3f}, AUC by length alone {report['length_alone']['auc']:.3f}"
        )
        rows = [
            (f">= {threshold}", _share(found.get("precision")), _share(found["recall"]))
            for threshold, found in report["thresholds"].items()
        ]
        out.print(table(("score", "precision", "recall"), rows))
        rows = [
            (_CHANGES[name], f"{found['auc_after']:.3f}", f"{found['separation_lost']:.0%}")
            for name, found in report["counterfactuals"].items()
        ]
        out.print(table(("scored again", "AUC", "separation lost"), rows))
    for side, found in report["telling"].items():
        ngrams = ", ".join(one["ngram"] for one in found[:MOST_SHOWN])
        out.print(words((f"{side}: ", "bold"), ngrams))


_CHANGES = {
    "passages": "without passages shared within one class",
    "ngrams": "without the most predictive n-grams",
    "signs": "without markup and punctuation",
    "length": "all texts cut to one length",
}


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


app.command(name="train", epilog="Example: gristmill quality train recipes/demo.yaml --out models/")(train_command)
app.command(name="report", epilog="Example: gristmill quality report models/judged.bin")(report_command)
app.command(name="arpa", epilog="Example: gristmill quality arpa models/clean.ngrams --out clean.arpa")(arpa_command)
