"""The source of the site, for `make docs`: the pages of docs/, those that come from elsewhere, those made from code.

python docs/site.py write FOLDER     writes it
python docs/site.py check SITE       fails when a page of the finished site would fetch anything from another host
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from gristmill.cli.main import COMMANDS as BUILT_IN
from gristmill.cli.main import added_commands, make_app

DOCS = Path(__file__).parent
ROOT = DOCS.parent
RECIPES = tuple(f"recipes/{name}.yaml" for name in ("web", "code", "science"))
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "bench/RESULTS.md", *RECIPES)
"""Files that pages link to as `../NAME`. On the site they are below its root."""
API = {
    "Corpora": ("gristmill.open", "gristmill.Corpus"),
    "Results": (
        "gristmill.api.finished.Finished",
        "gristmill.api.corpus.Plan",
        "gristmill.api.corpus.Funnel",
        "gristmill.api.corpus.Lives",
        "gristmill.api.documents.Documents",
    ),
    "Loader": ("gristmill.loader.Loader", "gristmill.loader.Batch", "gristmill.loader.Sample"),
    "PyTorch": ("gristmill.loader.torch.StreamDataset", "gristmill.loader.torch.SampleDataset"),
    "Errors": ("gristmill.UserError",),
}
"""The names that users import, by heading."""
COLUMNS = 92
"""Of code that fits beside the menus."""
COMMANDS = re.compile(r"(?<=\n\n)(?:    .+\n)+(?=\n|$)")
REMARK = re.compile(r"    (.*?\S) {2,}# (.*)")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")
TO_OUTSIDE = re.compile(rf"\]\(\.\./({'|'.join(map(re.escape, OUTSIDE))})")
FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^\"' >]+", re.I)


def pages() -> dict[str, str]:
    """Every page of the site by its name."""
    found = {path.name: TO_OUTSIDE.sub(r"](\1", path.read_text(encoding="utf-8")) for path in DOCS.glob("*.md")}
    for name in OUTSIDE:
        if name.endswith(".md"):
            text = (ROOT / name).read_text(encoding="utf-8")
            found[name] = re.sub(r"(?<=\]\()(?:\.\./)*docs/", "../" * name.count("/"), text)
    found = {name: with_remarks(with_lists(text)) for name, text in found.items()}
    return {**found, "command-line.md": command_page(), "api.md": api_page()}


def with_lists(markdown: str) -> str:
    """The same with an empty line before each list: Markdown of Python sees no list right after a paragraph."""
    lines: list[str] = []
    in_code = False
    for line in markdown.split("\n"):
        in_code ^= line.startswith("```")
        before = lines[-1] if lines else ""
        if not in_code and ITEM.match(line) and before and not before.startswith(" ") and not ITEM.match(before):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def with_remarks(markdown: str) -> str:
    """The same with the remark after a command above it, in blocks of commands that are too wide for a page."""

    def block(found: re.Match[str]) -> str:
        lines = found[0].splitlines()
        if max(map(len, lines)) <= COLUMNS or not any(map(REMARK.fullmatch, lines)):
            return found[0]
        apart = [REMARK.sub(r"# \2\n\1\n", line).removeprefix("    ") for line in lines]
        return "```sh\n" + "\n".join(apart).rstrip() + "\n```\n"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else COMMANDS.sub(block, part) for part in parts)


def command_page() -> str:
    """The help of every command, as `--help` prints it."""
    parts = ["# Every command and option", "What `gristmill COMMAND --help` prints. By task: [Commands](commands.md)."]
    for name, text in help_of(get_command(make_app([*BUILT_IN, *added_commands()])), "gristmill", None):
        parts += [f"## {name}", f"```text\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def help_of(command: Any, name: str, parent: typer.Context | None) -> Iterator[tuple[str, str]]:
    """The help of a command and of the commands in it, with the name of each."""
    context = typer.Context(command, info_name=name, parent=parent, terminal_width=80, **command.context_settings)
    yield context.command_path, command.get_help(context)
    for inner_name, inner in getattr(command, "commands", {}).items():
        yield from help_of(inner, inner_name, context)


def api_page() -> str:
    """The docstrings of what users import."""
    parts = ["# Python API", "From the docstrings. With examples: [Python and SQL](python.md), [loader](loader.md)."]
    for heading, names in API.items():
        parts += [f"## {heading}", *(f"::: {name}" for name in names)]
    return "\n\n".join(parts) + "\n"


def write(folder: Path) -> None:
    """Write the pages, and the files beside them, into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    others = [path for path in DOCS.iterdir() if path.suffix in (".css", ".png", ".svg")]
    others += [ROOT / name for name in OUTSIDE if not name.endswith(".md")]
    for path in others:
        target = folder / (path.relative_to(DOCS) if path.parent == DOCS else path.relative_to(ROOT))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def fetched(site: Path) -> list[str]:
    """What pages would load from another host, with the page."""
    found = []
    for path in sorted(site.rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        found += [f"{path.relative_to(site)} fetches {tag}" for tag in FETCHED.findall(text)]
    return found


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
    else:
        sys.exit("\n".join(fetched(Path(sys.argv[2]))) or 0)
