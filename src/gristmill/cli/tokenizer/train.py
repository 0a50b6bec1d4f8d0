"""gristmill tokenizer train: run a recipe up to its tokenizer, and write the tokenizer as files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.shared.added_options import chosen_sample
from gristmill.cli.shared.options import Json, RecipePath, StoreUri, Workers, as_typed, print_json
from gristmill.cli.shared.screen import complain, words
from gristmill.cli.shared.show import Bars, console, size, table
from gristmill.cli.tokenizer.open import AnyTokenizer, load_aloud, measure
from gristmill.counted import counted
from gristmill.engine.run_options import sort_warnings
from gristmill.errors import UserError
from gristmill.query.documents.sample import open_for_tokenizer, sample_texts, tokenizer_file
from gristmill.recipe.load import load
from gristmill.recipe.sections.tokenizer import TOKENIZER
from gristmill.stages.tokenizer.tokenizer_sample import HELD_OUT
from gristmill.tokenizer.files import write_json, write_ranks
from gristmill.tokenizer.model import Tokenizer

EXAMPLE = "Example: gristmill tokenizer train recipes/demo.yaml --out tokenizer/"
RANKS = "tokenizer.tiktoken"


def command(
    recipe: RecipePath,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help=f"Write tokenizer.json, tokenizer_config.json, {RANKS} and {RANKS}.json here."
        ),
    ] = None,
    workers: Workers = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Run a recipe up to its tokenizer.

    Describes it, and measures it on the held-out text of each domain.
    """
    if out is not None and out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is a file, but a tokenizer is several files. Name a folder.")
    mill = open_for_tokenizer(load(recipe, store=store, sample=chosen_sample()))
    with Bars(quiet=json) as bars:
        run = mill.run(workers, bars)
    warnings = sort_warnings(run, as_typed(mill.recipe, store))
    for warning in warnings.new:
        bars.note(f"WARNING: {warning} [{warning.name}]")
    path = Path(tokenizer_file(run))
    tokenizer = load_aloud(str(path))
    held_out = measure(tokenizer, sample_texts(run, HELD_OUT))
    metrics = next(run.states[node.id].metrics for node in mill.graph.nodes.values() if node.name == TOKENIZER)
    about: dict[str, Any] = {
        "recipe": mill.recipe.name,
        "vocab": tokenizer.vocab_size,
        "pattern": tokenizer.pattern,
        "hash": tokenizer.hash,
        "stored": str(path),
        "trained_on": {name: counts.get("train", {}) for name, counts in metrics.get("domains", {}).items()},
        "held_out": {name: found.plain() for name, found in held_out.items()},
        "files": [str(file) for file in _write(tokenizer, path, out)] if out else [],
        "warnings": warnings.plain(),
    }
    if json:
        print_json(about)
    else:
        _show(about)
    warnings.refuse(mill.recipe, "tokenizer")


def _write(tokenizer: AnyTokenizer, path: Path, folder: Path) -> list[Path]:
    """Write the files. A tokenizer that our kernel cannot encode is copied as its tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    if not isinstance(tokenizer, Tokenizer):
        (folder / "tokenizer.json").write_bytes(path.read_bytes())
        return [folder / "tokenizer.json"]
    files = [write_json(tokenizer, folder), folder / "tokenizer_config.json"]
    try:
        return [*files, write_ranks(tokenizer, folder / RANKS), folder / f"{RANKS}.json"]
    except UserError as error:  # a pinned tokenizer may do what tiktoken cannot
        complain(f"{RANKS} was not written: {error}")
        return files


def _show(about: dict[str, Any]) -> None:
    out = console()
    out.print(f"{counted(about['vocab'], 'token')}, pattern {about['pattern']}, hash {about['hash'][:16]}")
    rows = []
    for domain in sorted({*about["trained_on"], *about["held_out"]}):
        trained, held = about["trained_on"].get(domain, {}), about["held_out"].get(domain, {})
        rows.append(
            (
                domain,
                f"{trained.get('documents', 0):,}",
                size(trained.get("bytes", 0)),
                f"{held.get('documents', 0):,}",
                size(held.get("bytes", 0)),
                f"{held['bytes_per_token']:.3f}" if held else "",
            )
        )
    if rows:
        titles = ("domain", "trained on", "bytes", "held out", "bytes", "bytes per token")
        out.print(table(titles, rows))
    for file in about["files"] or [about["stored"]]:
        out.print(words(file))
