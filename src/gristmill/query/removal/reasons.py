"""All reasons that the steps of a corpus can give, even if no document has them.

They come from the source code of the steps: every value of `drop` is a string there, either whole or composed of two
(`truncated_{kind}`). A separate list could get out of date, and users' own steps would not have one.
"""

import ast
import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache

from gristmill.engine.plan.graph import CORPUS, Node
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.engine.schedule.run import Run
from gristmill.engine.work.rows import CRASHED
from gristmill.recipe.checks.mistakes import nearest
from gristmill.stages import READERS, STEPS
from gristmill.stages.own_code import OF, SourceFile, imports_of

_STAGES = "gristmill.stages."
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}(?<!_)")
_JOINT = re.compile(r"[a-z]\w{0,63}_|_\w{0,63}")
_OWN_RULE = re.compile(r"->\s*(\w{1,64})")
"""A rule in a recipe: condition, arrow, reason."""
_SLIP = 0.85
"""How similar a string must be to be suggested: most strings in the code are not reasons."""


@dataclass
class Reasons:
    """The possible reasons in the code of some steps."""

    words: set[str] = field(default_factory=lambda: {CRASHED})
    around: set[tuple[str, str]] = field(default_factory=set)
    """Prefix and suffix around an inserted word."""
    unknown: bool = False
    """Whether the code of some step is not available."""

    def has(self, reason: str) -> bool:
        """Whether a step can give this reason."""
        return reason in self.words or any(
            reason.removeprefix(before).removesuffix(after) in self.words
            for before, after in self.around
            if reason.startswith(before) and reason.endswith(after)
        )

    def suggestion(self, reason: str, given: list[str]) -> str | None:
        """The most similar reason, among those that documents have and those in the code."""
        near = get_close_matches(reason, sorted({*self.words, *given}), n=1, cutoff=_SLIP)
        return near[0] if near else nearest(reason, given)

    def read(self, text: bytes) -> None:
        """Add the strings in some code."""
        words, around = _words_of(text)
        self.words |= words
        self.around |= around


@lru_cache(maxsize=512)
def _words_of(text: bytes) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    words: set[str] = set()
    around: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _WORD.fullmatch(node.value):
            words.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            around.update(_around(node))
    return frozenset(words), frozenset(around)


def _around(node: ast.JoinedStr) -> Iterator[tuple[str, str]]:
    """(`truncated_`, "") for f"truncated_{kind}"."""
    pieces = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
    texts = [piece for piece in pieces if isinstance(piece, str)]
    if pieces.count(None) == len(texts) == 1 and _JOINT.fullmatch(texts[0]):
        yield (texts[0], "") if pieces[0] is not None else ("", texts[0])


def reasons_of(view: CorpusView) -> Reasons:
    """The reasons that the steps of a corpus can give."""
    found = Reasons()
    code: dict[str, SourceFile] = {}
    ours: list[str] = []
    for node in view.nodes.values():
        if node.name == CORPUS or ("drop" not in node.columns and node.kind != "read"):
            continue
        if isinstance(node, Node):
            if node.code:
                code.update(node.code)
            else:
                ours.append(node.module)
            if OF in node.module:
                found.words.add(f"not_{node.name}")  # own_function.py
        elif node.kind == "read":
            ours += READERS.values()
        elif node.name in STEPS:
            ours.append(STEPS[node.name])
        else:
            found.unknown = True
    code.update(code_of(ours))
    for source in code.values():
        found.read(source.text)
    recipe_text = view.graph.recipe.text if isinstance(view, Run) else str((view.record or {}).get("recipe_text"))
    found.words.update(_OWN_RULE.findall(recipe_text))
    return found


def code_of(modules: Sequence[str]) -> Mapping[str, SourceFile]:
    """The source files of built-in stages, including the stage modules that they import."""
    found: dict[str, SourceFile] = {}
    todo = [*modules]
    while todo:
        name = todo.pop()
        if name in found or not name.startswith(_STAGES):
            continue
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:  # `from module import name`, where the name is not a module
            continue
        if spec is None or spec.origin is None:
            continue
        with open(spec.origin, "rb") as file:
            text = file.read()
        found[name] = SourceFile(name, name, spec.origin, text, bool(spec.submodule_search_locations))
        todo += imports_of(found[name])
    return found
