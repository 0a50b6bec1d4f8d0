"""gristmill suite: check the benchmarks that the step decontaminate protects."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Annotated, Any

import typer

from gristmill.cli.corpus.suite_touched import EXAMPLE as TOUCHED
from gristmill.cli.corpus.suite_touched import touched_command
from gristmill.cli.shared.options import Json, print_json
from gristmill.cli.shared.screen import say, words
from gristmill.cli.shared.show import console, table
from gristmill.cli.shared.usage import Commands
from gristmill.counted import counted
from gristmill.stages.decontaminate.eval_index import HASH_DIGITS, Config, unprotected_warning
from gristmill.stages.decontaminate.matching.units import ALONE_OR_SUPPORT, NOTHING, PIECES, SUPPORT, Unit, units_of
from gristmill.stages.decontaminate.matching.words import hash_words
from gristmill.stages.decontaminate.suite.describe import ready, ready_names
from gristmill.stages.decontaminate.suite.form import Item
from gristmill.stages.decontaminate.suite.suite import Counts, Suite, prompt_warnings, read_with_counts

app = typer.Typer(
    help="Check eval suites; show which items a corpus contains.",
    cls=Commands,
    rich_markup_mode=None,
)
_FLAGS = {
    NOTHING: "flags a document",
    ALONE_OR_SUPPORT: "flags a document if it is the whole text, or with an answer or choices",
    SUPPORT: "too short, flags only with an answer or choices",
}
MOST_CHARACTERS = 300
"""Characters of an example that are shown."""
SuiteFolder = Annotated[
    str, typer.Argument(metavar="FOLDER", help="The folder with suite.yaml (docs/suites.md).", show_default=False)
]


def show_command(
    folder: Annotated[
        str | None,
        typer.Argument(metavar="[FOLDER]", help="The folder with suite.yaml. Default: built-in descriptions."),
    ] = None,
    examples: Annotated[int, typer.Option("-n", min=0, metavar="N", help="Show N items of each benchmark.")] = 1,
    json: Json = False,
) -> None:
    """Show a suite: its hash, the contents of each benchmark, and which texts of an item are compared.

    The words column counts words of the questions. Without a folder: the built-in descriptions of benchmarks.
    """
    if folder is None:
        _show_ready(json)
        return
    suite, counts = read_with_counts(folder)
    held = {name: [item for item in suite.items if item.benchmark == name] for name in counts}
    if json:
        for name, items in held.items():
            shown = [item._asdict() for item in items[:examples]]
            print_json({**_head(suite), **_numbers(name, suite, items, counts[name]), "examples": shown})
        return
    out = console()
    out.print(words((f"{suite.name} {suite.version}", "bold"), f"  {suite.hash}"))
    columns = ("benchmark", "has", "form", "items", "words", "shortest", "files", "duplicates")
    rows = []
    for name, items in held.items():
        one = _numbers(name, suite, items, counts[name])
        numbers = (f"{one['items']:,}", f"{one['median_words']:g}", f"{one['fewest_words']:,}", f"{one['files']:,}")
        rows.append((name, ", ".join(one["roles"]), ", ".join(one["forms"]), *numbers, f"{one['duplicates']:,}"))
    out.print(table(columns, rows, left=3))
    units = _units(suite)[0] if examples else []
    for items in held.values():
        for item in items[:examples]:
            _show_item(item, [unit for unit in units if suite.items[unit.item] is item])
    out.print(words(f"{counted(len(suite.items), 'item')}."))
    _show_warnings(_warnings(suite))


def check_command(folder: SuiteFolder, json: Json = False) -> None:
    """Read a whole suite, check that its items can be protected, and print the line that pins it in a recipe.

    Exit code 2: a fault, which is printed.
    """
    suite, counts = read_with_counts(folder)
    if json:
        numbers = {"items": len(suite.items), "unprotected": len(_units(suite)[1])}
        print_json({**_head(suite), "benchmarks": len(counts), **numbers})
        return
    items, benchmarks = counted(len(suite.items), "item"), counted(len(counts), "benchmark")
    say(f"{suite.name} {suite.version}: {items} of {benchmarks}, all read.")
    say(f"For the recipe, next to suite:  suite_hash: {suite.hash[:HASH_DIGITS]}")
    _show_warnings(_warnings(suite))


def _show_ready(json: bool) -> None:
    """List the built-in benchmark descriptions, for `like:` in a suite."""
    descriptions = [ready(name) for name in ready_names()]
    if json:
        for about in descriptions:
            forms = {name: form.model_dump(mode="json", exclude_defaults=True) for name, form in about.forms.items()}
            print_json({"name": about.name, "about": about.about, "forms": forms})
        return
    rows = [(about.name, about.about, "; ".join(about.forms)) for about in descriptions]
    console().print(table(("like", "what it is", "forms"), rows, left=3))


def _head(suite: Suite) -> dict[str, Any]:
    return {"suite": suite.name, "version": suite.version, "hash": suite.hash, "warnings": _warnings(suite)}


def _units(suite: Suite) -> tuple[list[Unit], list[int]]:
    return units_of(suite.items, Config.model_fields["ngram"].default)


def _warnings(suite: Suite) -> list[str]:
    """What a run says of the suite."""
    unprotected: dict[str, list[str]] = {}
    for number in _units(suite)[1]:
        unprotected.setdefault(suite.items[number].benchmark, []).append(suite.items[number].id)
    return [*prompt_warnings(suite), *filter(None, [unprotected_warning(unprotected)])]


def _show_warnings(warnings: Sequence[str]) -> None:
    for warning in warnings:
        say(f"WARNING: {warning}")


def _numbers(name: str, suite: Suite, items: Sequence[Item], counts: Counts) -> dict[str, Any]:
    sizes = hash_words([item.question for item in items]).sizes().tolist()
    return {
        "benchmark": name,
        "items": len(items),
        "median_words": median(sizes),
        "fewest_words": min(sizes),
        **counts._asdict(),
    }


def _show_item(item: Item, units: Sequence[Unit]) -> None:
    """Print the texts of an item as they are compared, without the prompt, and when each flags a document."""
    out = console()
    out.print(words((f"{item.benchmark} {item.id}", "bold")))
    for role in Item._fields[2:]:
        needs = min((unit.needs for unit in units if PIECES[unit.piece] == role), default=None)
        flags = _FLAGS[needs] if needs is not None else "is not searched for"
        if role in ("answer", "choices") and needs != NOTHING:
            flags = "counts together with the question"
        value: str | Iterable[str] = getattr(item, role)
        for text in [value] if isinstance(value, str) else value:
            if text:
                shown = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} [...]"
                out.print(words((f"  {role} ({flags}): ", "dim"), shown))


app.command(name="show", epilog="Example: gristmill suite show demo/inputs/evals")(show_command)
app.command(name="check", epilog="Example: gristmill suite check demo/inputs/evals")(check_command)
app.command(name="touched", epilog=TOUCHED)(touched_command)
