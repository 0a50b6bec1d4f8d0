"""gristmill steps: every step and every setting, with type, default and meaning, as the code has them."""

from dataclasses import asdict
from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, print_json
from gristmill.cli.shared.screen import say, words
from gristmill.cli.shared.show import console, table
from gristmill.recipe.settings import ReferenceEntry, all_entries, entry

EXAMPLE = "Example: gristmill steps near_dedup"
KINDS = {"step": "Steps", "format": "Formats that are read", "section": "Sections of a recipe"}
_CODE, _ITEMS = "    ", ("- ", "* ")
"""How lines of a docstring begin that are code or a table, and those that are items of a list."""
HEAD = """# Every step, every setting

Written by `gristmill steps --markdown` from the configs themselves; `gristmill steps NAME` shows one. A step stands in
a recipe as `- name` or `- name: {setting: value}`; a dotted name is a setting inside another: `keep: {by: [length]}`.
Bytes are a number, or a number with B, KB, MB, GB, TB (thousands) or KiB, MiB, GiB, TiB (1024), written just so; counts
are a number, or a number with k, M, B (10^9) or T, in either case.
"""


def command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A step, a format or a section. Default: a list of all."),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all of it as docs/steps.md has it.")] = False,
    json: Json = False,
) -> None:
    """List the steps of a recipe, or show one with its settings.

    Each setting has its type, its default, its unit and its meaning.
    """
    entries = all_entries() if name is None else [entry(name)]
    if json:
        for one in entries:
            print_json(asdict(one))
    elif markdown:
        say(page(entries))
    elif name is not None:
        _show(entries[0])
    else:
        rows = [(one.name, one.kind, words(one.summary)) for one in entries]
        console().print(table(("name", "kind", "what it does"), rows, left=3))


def _show(one: ReferenceEntry) -> None:
    out = console()
    out.print(words((one.name, "bold"), f", a {one.kind} of a recipe" if one.kind == "section" else f", a {one.kind}"))
    out.print(reflowed(one.about))
    out.print()
    if not one.settings:
        out.print("It has no settings.")
        return
    rows = [(words((setting.name, "bold")), setting.type, setting.default, setting.meaning) for setting in one.settings]
    out.print(table(("setting", "type", "default", "meaning"), rows, left=4))


def reflowed(text: str) -> str:
    """Paragraphs and list items in one line each, for a screen of any width to break; code stays as it is."""
    lines: list[str] = []
    for line in text.split("\n"):
        joins = bool(line and lines and lines[-1]) and not line.startswith((_CODE, *_ITEMS))
        if joins and not lines[-1].startswith(_CODE):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(lines)


def page(entries: list[ReferenceEntry]) -> str:
    """All of it as one page."""
    parts = [HEAD]
    for kind, title in KINDS.items():
        parts.append(f"## {title}\n")
        for one in entries:
            if one.kind == kind:
                parts.append(f"### {one.name}\n{one.summary}\n")
                if one.settings:
                    parts.append("| setting | type | default | meaning |\n|---|---|---|---|")
                    rows = [(f"`{item.name}`", item.type, f"`{item.default}`", item.meaning) for item in one.settings]
                    lines = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows)
                    parts.append("\n".join(f"| {line} |" for line in lines) + "\n")
    return "\n".join(parts).rstrip()
