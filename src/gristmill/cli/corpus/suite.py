"""gristmill suite: check and pin the benchmarks that the step decontaminate protects."""

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
from gristmill.stages.decontaminate.eval_index import Config, first_of, refuse
from gristmill.stages.decontaminate.matching.units import (
    ALONE_OR_SUPPORT,
    NOTHING,
    PIECES,
    SUPPORT,
    Unit,
    count_words,
    units_of,
)
from gristmill.stages.decontaminate.suite.benchmark import Counts
from gristmill.stages.decontaminate.suite.describe import protection_set
from gristmill.stages.decontaminate.suite.ready_benchmarks import ready, ready_names
from gristmill.stages.decontaminate.suite.suite import Item, Suite, pin_suite, prompt_warnings, read_with_counts

app = typer.Typer(
    help="Check and pin eval suites; show which items a corpus contains.",
    cls=Commands,
    rich_markup_mode=None,
)
HASH_DIGITS = 16
"""Digits of a hash in a recipe; if more are written, more are compared."""
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
    columns = ("benchmark", "has", "form", "items", "words", "shortest", "files", "duplicates", "broken")
    rows = []
    for name, items in held.items():
        one = _numbers(name, suite, items, counts[name])
        numbers = (f"{one['items']:,}", f"{one['median_words']:g}", f"{one['fewest_words']:,}", f"{one['files']:,}")
        faults = (f"{one['duplicates']:,}", f"{one['broken']:,}")
        rows.append((name, ", ".join(one["roles"]), ", ".join(one["forms"]), *numbers, *faults))
    out.print(table(columns, rows, left=3, spare=("form", "files", "broken")))
    units = units_of(suite.items, suite.protections, Config.model_fields["ngram"].default)[0] if examples else []
    for items in held.values():
        for item in items[:examples]:
            _show_item(item, [unit for unit in units if suite.items[unit.item] is item])
    out.print(words(_generations(suite)))
    _show_warnings(suite)


def check_command(folder: SuiteFolder, json: Json = False) -> None:
    """Read a whole suite, and check that its items can be protected.

    Exit code 2: a fault, which is printed.
    """
    suite, counts = read_with_counts(folder)
    bare = units_of(suite.items, suite.protections, Config.model_fields["ngram"].default)[1]
    refuse(suite, bare, Config.model_fields["allow_unprotected"].default)
    broken = {name: count.broken for name, count in counts.items() if count.broken}
    if json:
        numbers = {"items": len(suite.items), "broken": sum(broken.values()), "unprotected": len(bare)}
        print_json({**_head(suite), "benchmarks": len(counts), **numbers})
        return
    allowed = [f"{counted(count, 'record')} of {name}" for name, count in broken.items()]
    are = f"all read except {', '.join(allowed)} (allow_broken)" if allowed else "all read"
    say(
        f"{suite.name} {suite.version}: {counted(len(suite.items), 'item')} of "
        f"{counted(len(counts), 'benchmark')}, {are}. suite_hash: {suite.hash[:HASH_DIGITS]}"
    )
    if bare:
        say(f"{counted(len(bare), 'item has', 'items have')} too few words to be protected: {first_of(suite, bare)}.")
    _show_warnings(suite)


def pin_command(
    folder: SuiteFolder,
    compact: Annotated[bool, typer.Option("--compact", help="Merge all items into one generation again.")] = False,
    json: Json = False,
) -> None:
    """Write suite.lock, which lists the current items.

    Items added since the last pin become a new generation: documents that were compared with earlier generations are
    only compared with the new one. Prints the line for the recipe.
    """
    pinned = pin_suite(folder, compact)
    suite, before = pinned.suite, pinned.before
    if json:
        numbers = {"generations": list(pinned.generations), "new": pinned.new, "gone": pinned.gone}
        print_json({**_head(suite), "lock": pinned.path, **numbers})
        return
    sizes = ", ".join(f"{count:,}" for count in pinned.generations)
    changes = "" if before is None else f"; {pinned.new:,} new and {pinned.gone:,} removed since the last pin"
    say(f"{pinned.path}: {counted(len(pinned.generations), 'generation')} of {sizes} items{changes}.")
    if before is not None and before.hash != suite.hash and before.version == suite.version:
        if not pinned.new and not pinned.gone:
            say("The items are the same; the protection or a name of a benchmark, or the suite's name, has changed.")
        say(f"The content has changed, but the version is still {suite.version}. Change it to distinguish results.")
    say(f"For the recipe, next to suite:  suite_hash: {suite.hash[:HASH_DIGITS]}")


def _show_ready(json: bool) -> None:
    """List the built-in benchmark descriptions, for `like:` in a suite."""
    found = [ready(name) for name in ready_names()]
    if json:
        for one in found:
            forms = {form.name: form.form.model_dump(mode="json", exclude_defaults=True) for form in one.forms}
            print_json(
                {"name": one.name, "about": one.about, "protection": protection_set(one.protection), "forms": forms}
            )
        return
    rows = [(one.name, one.about, "; ".join(form.name for form in one.forms)) for one in found]
    console().print(table(("like", "what it is", "forms"), rows, left=3))


def _head(suite: Suite) -> dict[str, Any]:
    warnings = prompt_warnings(suite)
    return {"suite": suite.name, "version": suite.version, "hash": suite.hash, "warnings": warnings}


def _show_warnings(suite: Suite) -> None:
    for warning in prompt_warnings(suite):
        say(f"WARNING: {warning}")


def _numbers(name: str, suite: Suite, items: Sequence[Item], counts: Counts) -> dict[str, Any]:
    sizes = count_words([item.question for item in items]).sizes().tolist()
    return {
        "benchmark": name,
        "items": len(items),
        "median_words": median(sizes),
        "fewest_words": min(sizes),
        **counts._asdict(),
        "protection": protection_set(suite.protections[name]),
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


def _generations(suite: Suite) -> str:
    sizes = [suite.generations.count(number) for number in range(max(suite.generations) + 1)]
    total = counted(len(suite.items), "item")
    if len(sizes) == 1:
        return f"{total}."
    return f"{total}, in generations of {', '.join(f'{size:,}' for size in sizes)}."


app.command(name="show", epilog="Example: gristmill suite show demo/inputs/evals")(show_command)
app.command(name="check", epilog="Example: gristmill suite check demo/inputs/evals")(check_command)
app.command(name="pin", epilog="Example: gristmill suite pin demo/inputs/evals")(pin_command)
app.command(name="touched", epilog=TOUCHED)(touched_command)
