"""Law 10, for terminals: only one module prints, so text from data is made harmless in one place."""

import ast
import re
from pathlib import Path

import gristmill

SOURCE = Path(gristmill.__file__).parent
PACKAGES = Path(__file__).parents[2] / "packages"
MAY_PRINT = {"printable.py", "cli/shared/leaving.py", "cli/shared/screen.py", "log.py"}
"""The code that sets up `logging` decides where the log goes; its messages are made printable there too."""
MODULES = {"logging", "rich.console", "rich.markup", "rich.text", "rich", "click", "getpass", "curses"}
"""These write to a terminal or parse markup in text. For the types of rich there is `TYPE_ONLY`."""
TYPE_ONLY = {"rich.console": {"ConsoleOptions", "Group", "RenderableType"}, "rich.text": {"Text"}}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
WORDS = re.compile(
    r"\b(?:print|input|Console|Text)\s*\(|from_markup|from_ansi|assemble|echo|print_exc|stdout|stderr|os\s*\.\s*write|"
    r"\b(?:err|markup)\s*=|\b(?:logging|rich|click|getpass|curses)\b"
)
"""A cheap check: a module without a match is not parsed, which takes a hundred times as long."""


def offences(tree):
    """Line and description of everything in a module that could write to a terminal directly."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {call.func for call in calls}
    of_readers = {
        word for call in calls if ast.unparse(call.func) in ("Reader", "tree_reader") for word in call.keywords
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="print" | "input" | "Console") if node in called:
                yield node.lineno, f"calls {node.id}"
            case ast.Name(id="Text") if node in called:
                yield node.lineno, "makes a Text of its own: take words() or passage()"
            case ast.Attribute(attr="from_markup" | "from_ansi" | "assemble" | "echo" | "secho" | "print_exc"):
                if not (isinstance(node.value, ast.Name) and node.value.id == "traceback"):
                    yield node.lineno, f"uses {node.attr}"
            case ast.Attribute(value=ast.Name(id="sys"), attr=attr) if attr in STREAMS:
                yield node.lineno, f"uses sys.{attr}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="write"), args=[ast.Constant(), *_]):
                yield node.lineno, "writes to a descriptor"
            case ast.keyword(arg="err" | "markup", value=ast.Constant(value=True)) if node not in of_readers:
                yield node.value.lineno, f"asks for {node.arg}=True"
            case ast.Import(names=names):
                yield from ((node.lineno, f"imports {name.name}") for name in names if name.name in MODULES)
            case ast.ImportFrom(module=module, names=names) if module in MODULES:
                if not {name.name for name in names} <= TYPE_ONLY.get(module, set()):
                    yield node.lineno, f"imports from {module}"
                if any(name.name == "print" for name in names):
                    yield node.lineno, "imports print"


def test_only_the_screen_module_prints():
    """A `print` anywhere else would bypass the neutralisation."""
    found = []
    for path in sorted([*SOURCE.rglob("*.py"), *PACKAGES.rglob("*.py")]):
        name = path.relative_to(SOURCE if SOURCE in path.parents else PACKAGES).as_posix()
        if name not in MAY_PRINT and "/bench/" not in name:
            text = path.read_text(encoding="utf-8")
            facts = offences(ast.parse(text)) if WORDS.search(text) else ()
            found += [f"{name}:{line} {fact}" for line, fact in facts]
    assert not found, "\n".join(found)


def test_every_forbidden_call_is_found():
    """Every forbidden call is found, so the previous test cannot pass by finding nothing."""
    ways = (
        "print(1)",
        "Console()",
        "Text('a')",
        "sys.stdout.write('a')",
        "x = sys.__stderr__",
        "typer.echo('a')",
        "Text.from_markup('[red]')",
        "f(err=True)",
        "column(markup=True)",
        "os.write(1, b'')",
        "import logging",
        "from rich import print",
        "from rich.console import Console",
    )
    for way in ways:
        assert WORDS.search(way), way
        assert list(offences(ast.parse(way))), way
    assert not list(offences(ast.parse("out.print(1)\nfrom rich.text import Text\ntraceback.print_exc()")))
