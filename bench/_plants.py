"""Ways in which eval items get into documents: verbatim, cut off, edited, with renamed code."""

import ast
import builtins
import json
import random
from collections.abc import Callable, Sequence

from gristmill.stages.decontaminate.suite.form import Item

Way = Callable[[Item, random.Random, Sequence[str]], str | None]
"""Makes the text to plant from an item, or None if the item has nothing of the kind. The words are for edits."""

_EDITED = 0.1


def _question(item: Item, draw: random.Random, words: Sequence[str]) -> str:
    return item.question


def _answered(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
    return f"Question: {item.question}\nAnswer: {item.answer}" if item.answer.strip() else None


def _lettered(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
    lines = [f"{letter}. {choice}" for letter, choice in zip("ABCDEFGHIJ", item.choices, strict=False)]
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


def _edited(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
    """One word in ten is replaced, removed or inserted, at least one."""
    found = item.question.split()
    if len(found) < 2:
        return None
    for place in draw.sample(range(len(found)), max(1, round(_EDITED * len(found)))):
        kind, word = draw.choice("x-+"), draw.choice(words)
        found[place] = {"x": word, "-": "", "+": f"{found[place]} {word}"}[kind]
    return " ".join(word for word in found if word)


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


def _code(rename: bool, docstring: bool) -> Way:
    def way(item: Item, draw: random.Random, words: Sequence[str]) -> str | None:
        if not item.code:
            return None
        tree = ast.parse(max(item.code, key=len))  # the whole function
        if not docstring:
            _without_docstrings(tree)
        return ast.unparse(_Renamed(tree, draw).visit(tree) if rename else tree)

    return way


WAYS: dict[str, Way] = {
    "verbatim: question": _question,
    "verbatim: question and answer": _answered,
    "verbatim: lettered choices": _lettered,
    "verbatim: as JSON": _as_json,
    "verbatim: within a paragraph": _question,
    "verbatim: first 70% of the question": _beginning,
    "verbatim: first 70% of the item": _item_cut,
    "edited: one word in ten": _edited,
    "code: printed anew": _code(rename=False, docstring=False),
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
