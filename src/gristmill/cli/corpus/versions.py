"""gristmill versions: the results of finished runs, by name and hash, and how long they are kept."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from gristmill.cli.corpus import versions_reproduce
from gristmill.cli.corpus.versions_open import Named, note, open_location, open_version
from gristmill.cli.shared.options import Json, StoreUri, is_run, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import console, listed_steps, table
from gristmill.cli.shared.usage import Commands
from gristmill.counted import counted
from gristmill.engine.publish import catalog
from gristmill.engine.publish.catalog import SHARDS_FOLDER, Version, hash_of_recipe, version_of_step
from gristmill.engine.publish.run_record import end_of
from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import listed
from gristmill.stages import INGEST
from gristmill.store.store import Store

COLUMNS = ("version", "names", "recipe", "state", "ended", "documents", "tokens", "parent")


class _OrList(Commands):
    """A group in which `list` is the default command: `gristmill versions STORE`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        is_named = len(args) > 1 and not args[1].startswith("-")  # a mistake: a list takes one argument
        if self.get_command(ctx, args[0]) is None and not is_named:
            args = ["list", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: object, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    help="List, name, keep and reproduce the versions that runs made.\n\n`gristmill versions RECIPE` lists them.",
    cls=_OrList,
    rich_markup_mode=None,
)
RecipeOrStore = Annotated[
    str, typer.Argument(metavar="RECIPE", help="The recipe's YAML file; or a store.", show_default=False)
]


def list_command(recipe: RecipeOrStore, store: StoreUri = None, json: Json = False) -> None:
    """List versions, the newest first.

    Lists those of a recipe, or of all recipes in a store, by time of the run. A version is kept as long as it has a
    name or is the newest of its recipe; gristmill gc may remove others. A partial run (--until, quality train) is never
    the newest; the last complete run is kept, too.
    """
    if is_run(recipe):
        raise UserError(
            f"{recipe} names one version, but this command lists all versions of a recipe or a store. Write "
            f"gristmill versions show {recipe}, or leave out the @ and what follows."
        )
    where = open_location(recipe, store)
    damaged: list[str] = []
    found = catalog.list_versions(where.store, where.recipe, damaged)
    for fact in damaged:
        note(f"Skipped: {fact}")
    if json:
        for version in found:
            print_json(as_json(version))
        return
    if not found:
        raise UserError(
            f"No run of {where.recipe or 'any recipe'} has finished in {where.store.uri}, so there is no "
            "version to list. Run the recipe: gristmill run RECIPE"
        )
    rows = [
        (
            version.hash,
            ", ".join(version.names) or "-",
            version.recipe,
            version.state,
            version.record["ended"][:16].replace("T", " "),
            _count(version.record, "documents"),
            _count(version.record, "tokens"),
            version.record["parent"] or "-",
        )
        for version in found
    ]
    console().print(table(COLUMNS, rows, left=5))


def show_command(version: Named, store: StoreUri = None, json: Json = False) -> None:
    """Show one version.

    Shows its recipe, contents and names, and whether all of its files exist. A folder of shards, its manifest.json or
    its hash name a version, too. --json also has its recipe's text, its datasets, the hashes of its inputs, its eval
    suites, and the version of every step.
    """
    where, found, _ = open_version(version, store)
    gone = catalog.missing_parts(where.store, found)
    about = {**details(where.store, found), "files_missing": gone}
    if json:
        print_json(about)
        return
    record, label = found.record, found.label(where.store)
    lines = [
        ("version", found.hash),
        ("names", ", ".join(found.names) or "-"),
        ("recipe", found.recipe),
        ("state", found.state),
        ("ended", end_of(record)),
        ("documents", _count(record, "documents")),
        ("tokens", _count(record, "tokens")),
        ("parent", record["parent"] or "-"),
        *([("not run", listed_steps(record["not_run"], record["chains"]))] if found.part else []),
        ("sources", listed(record["chains"], 10)),
        *([("suites", listed([name.partition(",")[0] for name in about["suites"]], 10))] if about["suites"] else []),
        *(("restored", f"{request}: {reason}") for request, reason in record["restored"].items()),
        *([("shards", about["shards"])] if about["shards"] else []),
        ("files", f"{len(gone):,} missing, the first: {gone[0]}" if gone else "all present (by name)"),
    ]
    hints = [f"Its recipe: gristmill status {label} --recipe", f"What it kept, and why: gristmill funnel {label}"]
    if record["parent"]:
        hints.append(f"What changed: gristmill diff {where.store.uri} {record['parent']} {found.hash}")
    out = console()
    out.print(table(("", ""), lines, left=2))
    for hint in ("", *hints):
        out.print(words(hint))


def tag_command(
    version: Annotated[
        list[str],
        typer.Argument(
            metavar="VERSION NAME",
            help="STORE@V NAME, RECIPE V NAME or STORE V NAME: the version and its new name.",
            show_default=False,
        ),
    ],
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Give a version a name.

    It is kept until it is dropped.
    """
    *typed, name = version
    if not typed:
        raise UserError(
            f"gristmill versions tag requires a version and a name, but only got {name}. Nothing was done. "
            "Write STORE@V NAME."
        )
    where, found, _ = open_version(typed, store)
    if name in found.names:
        _answer(where.store, found, json, f"{name} is already a name of {found.hash}. Nothing was changed.")
        return
    catalog.check_name(where.store, name, "NAME")
    with catalog.changing(where.store, note) as lease:
        _refuse_gone(where.store, found)
        catalog.give_name(where.store, lease, name, found.record, "NAME")
    _answer(where.store, found, json, f"{found.hash} is kept as {name}. To open it: {where.store.uri}@{name}")


def drop_command(version: Named, store: StoreUri = None, json: Json = False) -> None:
    """Stop keeping a version.

    Removes its name, and it no longer counts as the newest. If it has other names, only the given one is removed. Files
    stay until gristmill gc.
    """
    where, found, name = open_version(version, store)
    others = [other for other in found.names if other != name]
    with catalog.changing(where.store, note) as lease:
        if name in found.names and others:
            catalog.take_name(where.store, lease, name)
            _answer(where.store, found, json, f"{name} is removed; {found.hash} is kept by {', '.join(others)}.")
            return
        from gristmill.engine.publish.folder import point_latest_back

        catalog.drop(where.store, lease, found)
        point_latest_back(where.store, found.recipe, note)
    fact = f"{found.hash} of {found.recipe} is dropped."
    _answer(where.store, found, json, f"{fact} What that frees: gristmill gc {where.store.uri} --dry-run")


def as_json(version: Version) -> dict[str, Any]:
    """The JSON of a version in a list."""
    names = ("until", "not_run", "started", "ended", "documents", "tokens", "parent")
    return {
        "version": version.hash,
        "names": version.names,
        "recipe": version.recipe,
        "newest": version.is_newest,
        **{name: version.record[name] for name in names},
        "state": version.state,
        "kept": version.is_kept,
        "dropped": version.is_dropped,
        "datasets": version.datasets,
        "datasets_missing": version.missing,
    }


def details(store: Store, version: Version) -> dict[str, Any]:
    """The JSON of one version: also what made it, and the names of all that it made."""
    record = version.record
    nodes = record["nodes"]
    folder = f"{store.uri.rstrip('/')}/{SHARDS_FOLDER}/{version.recipe}/{record['shards']}"
    return {
        **as_json(version),
        "recipe_text": record["recipe_text"],
        "recipe_hash": hash_of_recipe(record["recipe_text"]),
        "restored": record["restored"],
        "sources": {source: nodes[f"{source}/{INGEST}"].get("files", {}) for source in record["chains"]},
        "suites": sorted({label for node in nodes.values() for label in node["metrics"].get("suites", ())}),
        "shards": folder if record["shards"] else None,
        "steps": {
            node_id: {**version_of_step(node["identity"]), "datasets": node["datasets"]}
            for node_id, node in nodes.items()
        },
    }


def _count(record: Mapping[str, Any], name: str) -> str:
    """A count of the record, or a dash if the recipe has none."""
    return "-" if record[name] is None else f"{record[name]:,}"


def _refuse_gone(store: Store, version: Version) -> None:
    gone = catalog.missing_parts(store, version)
    if gone:
        raise UserError(
            f"{counted(len(gone), 'file')} of {version.hash} are no longer in {store.uri} (the first: {gone[0]}), "
            f"so the version cannot be kept. Nothing was done. Run its recipe again (gristmill status "
            f"{store.uri}@{version.hash} --recipe prints it), or restore the files."
        )


def _now(store: Store, version: Version) -> Version:
    return catalog.find_version(store, version.hash, version.recipe)


def _answer(store: Store, version: Version, json: bool, message: str) -> None:
    if json:
        print_json(as_json(_now(store, version)))
    else:
        console().print(words(message))


app.command(name="list", epilog="Example: gristmill versions list recipes/demo.yaml")(list_command)
app.command(name="show", epilog="Example: gristmill versions show recipes/demo.yaml")(show_command)
app.command(name="tag", epilog="Example: gristmill versions tag demo/store@demo first")(tag_command)
app.command(name="drop", epilog="Example: gristmill versions drop demo/store@first")(drop_command)
app.command(name="reproduce", epilog=versions_reproduce.EXAMPLE)(versions_reproduce.command)
