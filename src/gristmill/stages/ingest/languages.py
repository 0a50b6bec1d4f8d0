"""The programming language of a file: by its name, its extension, its content if the extension is shared, its `#!`
line.

Languages have their GitHub names, so a recipe may say `C++` and `Jupyter Notebook`.
"""

import re

from gristmill.data_files import read_table
from gristmill.kernels.text.unicode_data import known

HEAD_CHARACTERS = 1 << 15
"""How much of a file the content rules read."""


def by_key(listed: dict[str, str]) -> dict[str, str]:
    """Turns `language: "key key"` into key -> language. A key with two languages is a mistake in the table."""
    found: dict[str, str] = {}
    for language, keys in listed.items():
        for key in keys.split():
            if key in found:
                raise ValueError(f"{key} means both {found[key]} and {language}")
            found[key] = language
    return found


_TABLES = read_table(__file__, "languages.toml")
BY_EXTENSION, BY_NAME, BY_INTERPRETER = map(by_key, (_TABLES["extension"], _TABLES["name"], _TABLES["interpreter"]))


def _rules(*pairs: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((language, re.compile(pattern, re.MULTILINE)) for language, pattern in pairs)


_CPP = r"^[ \t]*(?:template\s*<|namespace\b|class\s+\w+|using\s+\w+|(?:public|private|protected)\s*:)|\bstd::"
_OBJC = r"^[ \t]*(?:@(?:interface|protocol|class|property|implementation|import|end)\b|#import\b)"

# For an extension that several languages share: the first rule that matches the head of the file decides, else the
# table's language. Rules match what one language often contains and the others hardly ever. Indents are `[ \t]*`: `\s*`
# would continue over blank lines, again from each of them.
_BY_CONTENT = {
    "h": _rules(("Objective-C", _OBJC), ("C++", _CPP)),
    "m": _rules(
        ("Objective-C", _OBJC + r"|^[ \t]*#(?:include|define|ifdef)\b"),
        ("Mercury", r"^:- module\b"),
        ("Mathematica", r"^\(\*|\bBeginPackage\["),
        ("MATLAB", r"^[ \t]*(?:%|function\b|classdef\b|end;?\s*$)"),
    ),
    "pl": _rules(("Perl", r"^#!.*perl|^[ \t]*(?:use |package |my |sub )"), ("Prolog", r":-")),
    "pro": _rules(
        ("QMake", r"^[ \t]*(?:QT|TEMPLATE|TARGET|SOURCES|CONFIG|SUBDIRS)\s*[+*-]?="),
        ("Prolog", r":-"),
        ("IDL", r"(?i)^[ \t]*(?:pro|function)\s+\w+|^[ \t]*;"),
    ),
    "v": _rules(
        ("Coq", r"^[ \t]*(?:Require|Import|Theorem|Lemma|Definition|Inductive|Fixpoint|Section|Qed)\b.*\.?\s*$"),
        ("Verilog", r"\bendmodule\b|^[ \t]*`(?:timescale|define|include|ifdef)\b|\balways\s*@"),
        ("V", r"^(?:pub )?fn \w+|^import \w+\s*$"),
    ),
    "ts": _rules(("XML", r"\A\s*(?:<\?xml|<!DOCTYPE TS|<TS\b)")),
    "cls": _rules(
        ("TeX", r"^[ \t]*\\(?:NeedsTeXFormat|ProvidesClass|LoadClass|RequirePackage|def|newcommand)\b|\A%"),
        ("VBA", r"\AVERSION \d|^Attribute VB_"),
        ("ObjectScript", r"^Class\s+[\w.%]+"),
    ),
    "d": _rules(("Makefile", r"\A[^\s:]+\.(?:o|obj|d)\s*:")),
    "fs": _rules(("GLSL", r"^[ \t]*#version\b|\bgl_FragColor\b|\bvoid main\s*\("), ("Forth", r"^: \S+ ")),
    "inc": _rules(
        ("PHP", r"<\?php"),
        ("Assembly", r"(?i)^[ \t]*(?:section|%macro|\.macro|\.equ|org)\b|^\w+\s+equ\b"),
        ("C++", r"^[ \t]*#\s*(?:include|define|ifn?def)\b"),
        ("Pascal", r"(?i)^[ \t]*(?:procedure|function|begin|const|uses)\b"),
    ),
    "cl": _rules(("OpenCL", r"\b__?kernel\b|\b__global\b")),
    "pp": _rules(("Pascal", r"(?i)^[ \t]*(?:unit|program|uses|interface|procedure)\b[^{]*;?$")),
    "sc": _rules(("Scala", r"^[ \t]*(?:import|object|package|val|def) \w+")),
    "l": _rules(("Lex", r"^%%|^%\{"), ("Roff", r"\A\s*[.']"), ("Common Lisp", r"^[ \t]*[(;]")),
    "r": _rules(("Rebol", r"(?i)\A\s*rebol\s*\[")),
    "mod": _rules(
        ("XML", r"\A\s*<"),
        ("Modula-2", r"^[ \t]*(?:IMPLEMENTATION\s+)?MODULE\s+\w+"),
        ("AMPL", r"^(?:param|set|var)\s"),
    ),
    "ml": _rules(("Standard ML", r"^[ \t]*(?:structure|signature|functor)\s+\w+\s*(?:=|:)\s*(?:struct|sig)?")),
    "t": _rules(("Turing", r"^[ \t]*(?:var|const)\s+\w+\s*:=|^end \w+\s*$")),
    "f": _rules(("Forth", r"^: \S+ .*;\s*$")),
    "as": _rules(("ActionScript", r"^[ \t]*(?:package|import|public|class)\b"), ("Assembly", r"^[ \t]*[.;]\w")),
    "b": _rules(("Limbo", r"^implement\s"), ("Brainfuck", r"\A[^A-Za-z]*[+\-<>\[\].,]{8}")),
    "man": _rules(("Roff", r"\A\s*[.']")),
    "x": _rules(
        ("Linker Script", r"^[ \t]*(?:SECTIONS|MEMORY|ENTRY)\b"), ("RPC", r"^[ \t]*(?:program|struct|typedef)\b")
    ),
}
_NEEDS_A_RULE = frozenset(("man", "b", "inc", "x"))

_MANUAL_PAGE = re.compile(r"\.[1-9](?:x|pm|ssl|posix)?$", re.IGNORECASE)
_MANUAL_MARKUP = re.compile(r"\A(?:\s*[.'])")
_SHEBANG = re.compile(r"\A#![ \t]*(\S+)(?:[ \t]+(?:-\S+[ \t]+)*(?:\w+=\S*[ \t]+)*(\S+))?")


def language(name: str, text: str) -> tuple[str, str] | None:
    """The language and how it was determined (`name`, `extension`, `content`, `shebang`), or None."""
    base = name.rsplit("/", 1)[-1]
    head = known(text[:HEAD_CHARACTERS])
    if found := BY_NAME.get(base) or BY_NAME.get(base.lower()):
        return found, "name"
    parts = base.lower().split(".")
    # `a.html.erb` has two extensions that belong together: the longest known one counts.
    for at in range(1, len(parts)):
        extension = ".".join(parts[at:])
        for decided, pattern in _BY_CONTENT.get(extension, ()):
            if pattern.search(head):
                return decided, "content"
        if extension in BY_EXTENSION and extension not in _NEEDS_A_RULE:
            return BY_EXTENSION[extension], "extension"
    if _MANUAL_PAGE.search(base) and _MANUAL_MARKUP.match(head):
        return "Roff", "content"
    return _by_shebang(head)


def _by_shebang(head: str) -> tuple[str, str] | None:
    line = _SHEBANG.match(head)
    if line is None:
        return None
    program = line[1].rsplit("/", 1)[-1]
    if program == "env" and line[2]:
        program = line[2].rsplit("/", 1)[-1]
    # python3.11 and perl5 are python and perl.
    found = BY_INTERPRETER.get(program) or BY_INTERPRETER.get(program.rstrip("0123456789.-"))
    return (found, "shebang") if found else None
