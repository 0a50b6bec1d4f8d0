"""Ways in which eval items get into documents: verbatim, in another spelling, edited, with renamed code."""

import ast
import builtins
import json
import random
import re
import textwrap
import unicodedata
from collections.abc import Callable, Sequence

from gristmill.stages.decontaminate.suite.form import Item

Way = Callable[[Item, random.Random, Sequence[str]], str | None]
"""Makes the text to plant from an item, or None if the item has nothing of the kind. The words are for edits."""

_EDITED = 0.1


def _punctuation_as(text: str, other: str) -> str:
    return "".join(other if unicodedata.category(sign)[0] in "PS" and sign != "_" else sign for sign in text)


def _question(item: Item, draw: random.Random, words: Sequence[str]) -> str:
    return item.question


def _answered(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
    return f"Question: {item.question}\nAnswer: {item.answer}" if item.answer.strip() else None


def _lettered(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
    lines = [f"{letter}. {choice}" for letter, choice in zip("ABCDEFGHIJ", item.choices, strict=False)]
    return "\n".join([item.question, *lines]) if lines else None


def _shuffled(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
    choices = draw.sample(item.choices, len(item.choices))
    lines = [f"({letter}) {choice}" for letter, choice in zip("abcdefghij", choices, strict=False)]
    return "\n".join([item.question, *lines]) if lines else None


def _beginning(item: Item, draw: random.Random, words: Sequence[str]) -> str:
    found = item.question.split(" ")
    return " ".join(found[: round(0.7 * len(found))])


def _item_cut(item: Item, draw: random.Random, words: Sequence[str]) -> str:
    """The item as a page shows it, from the label on, cut off after 70% of its words."""
    lines = [f"{letter}. {choice}" for letter, choice in zip("ABCDEFGHIJ", item.choices, strict=False)]
    found = "\n".join([f"Question: {item.question}", *(lines or [item.answer, *item.code])]).split(" ")
    return " ".join(found[: round(0.7 * len(found))])


def _as_json(item: Item, draw: random.Random, words: Sequence[str]) -> str:
    record = {"id": item.id, "question": item.question, "choices": item.choices, "answer": item.answer}
    return json.dumps(record, ensure_ascii=False)


def _respelled(change: Callable[[str], str]) -> Way:
    def way(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
        changed = change(item.question)
        return changed if changed != item.question else None

    return way


def _edited(kinds: str, whole: bool) -> Way:
    """One word in ten replaced (x), removed (-) or inserted (+), at least one."""

    def way(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
        text = item.question
        if whole:
            text = _lettered(item, draw, words) or _answered(item, draw, words) or ""
        found = text.split()
        if len(found) < 2:
            return None
        for place in draw.sample(range(len(found)), max(1, round(_EDITED * len(found)))):
            kind, word = draw.choice(kinds), draw.choice(words)
            found[place] = {"x": word, "-": "", "+": f"{found[place]} {word}"}[kind]
        return " ".join(word for word in found if word)

    return way


def _curly(text: str) -> str:
    return re.sub(r'"([^"]*)"', "“\\1”", text).replace("'", "’").replace(" - ", " – ").replace("...", "…")


def _program(item: Item) -> str | None:
    """The longest code of an item, which is the whole function."""
    return max(item.code, key=len) if item.code else None


class _Renamed(ast.NodeTransformer):
    """Renames the functions, arguments and variables of a program."""

    def __init__(self, tree: ast.AST, draw: random.Random) -> None:
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        names -= {alias.asname or alias.name.split(".")[0] for node in imported for alias in node.names}
        stems = ("alpha", "tmp", "data", "foo", "val", "result", "item", "k")
        own = sorted(names - set(dir(builtins)))
        self.names = {name: f"{draw.choice(stems)}_{number}" for number, name in enumerate(own)}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        self.generic_visit(node)
        node.arg = self.names.get(node.arg, node.arg)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.name = self.names.get(node.name, node.name)
        return node


def _without_docstrings(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]


def _code(rename: bool, docstring: bool, spaces: int = 4, fence: str = "") -> Way:
    def way(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
        program = _program(item)
        if program is None:
            return None
        tree = ast.parse(program)
        if not docstring:
            _without_docstrings(tree)
        printed = ast.unparse(_Renamed(tree, draw).visit(tree) if rename else tree)
        printed = re.sub(r"(?m)^(?:    )+", lambda found: " " * (len(found[0]) // 4 * spaces), printed)
        return f"{fence}python\n{printed}\n{fence}" if fence else printed

    return way


def _code_verbatim(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
    return _program(item)


def _solution(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
    return min(item.code, key=len) if len(item.code) > 1 else None


def _inside_a_prompt(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
    lettered = _lettered(item, draw, words)
    return f"Answer the following multiple choice question.\n\n{lettered}\n\nAnswer:" if lettered else None


WAYS: dict[str, Way] = {
    "verbatim: question": _question,
    "verbatim: question and answer": _answered,
    "verbatim: lettered choices": _lettered,
    "verbatim: choices in another order": _shuffled,
    "verbatim: in a prompt": _inside_a_prompt,
    "verbatim: as JSON": _as_json,
    "verbatim: within a paragraph": _question,
    "verbatim: first 70% of the question": _beginning,
    "verbatim: first 70% of the item": _item_cut,
    "spelling: all capitals": _respelled(str.upper),
    "spelling: punctuation left out, lower case": _respelled(lambda text: _punctuation_as(text, "").lower()),
    "spelling: punctuation as spaces": _respelled(lambda text: _punctuation_as(text, " ")),
    "spelling: hyphens as spaces": _respelled(lambda text: text.replace("-", " ")),
    "spelling: apostrophes left out": _respelled(lambda text: text.replace("'", "").replace("’", "")),
    "spelling: lines of 40 signs": _respelled(lambda text: textwrap.fill(text, 40)),
    "spelling: double spaces": _respelled(lambda text: re.sub(r"\s", "  ", text)),
    "spelling: no-break spaces": _respelled(lambda text: text.replace(" ", "\u00a0")),
    "spelling: curly quotes and dashes": _respelled(_curly),
    "edited: words exchanged": _edited("x", whole=False),
    "edited: words left out": _edited("-", whole=False),
    "edited: words put in": _edited("+", whole=False),
    "edited: all three": _edited("x-+", whole=False),
    "edited: all three, with answer or choices": _edited("x-+", whole=True),
    "code: verbatim": _code_verbatim,
    "code: solution verbatim": _solution,
    "code: printed anew": _code(rename=False, docstring=False, spaces=2),
    "code: printed anew, in Markdown": _code(rename=False, docstring=False, fence="```"),
    "code: renamed, with docstring": _code(rename=True, docstring=True),
}


WITHIN = "verbatim: within a paragraph"
"""The way that puts an item after a sentence; the others put it between paragraphs."""


def planted(text: str, carrier: str, within: bool) -> str:
    """A document with a text inserted between two paragraphs or after a sentence."""
    middle = carrier.find("\n\n" if not within else ". ", len(carrier) // 2)
    if middle < 0:
        return f"{carrier}\n\n{text}\n\n{carrier[:200]}"
    if within:
        return f"{carrier[: middle + 2]}{text} {carrier[middle + 2 :]}"
    return f"{carrier[:middle]}\n\n{text}\n\n{carrier[middle + 2 :]}"
