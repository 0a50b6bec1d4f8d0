"""No regular expression takes more steps than a small multiple of its text, for any text.

The steps are those of a plain backtracking matcher (fuzz/steps.py). The texts are derived from the expression itself:
its prefix, then one of its parts repeated, then a wrong end.
"""

import importlib
import math
import pkgutil
import re
from collections.abc import Iterator
from functools import partial

import pytest
from fuzz.steps import Steps, attacks

import gristmill

LEFT_OUT = (
    *("gristmill.kernels", "gristmill.cli", "gristmill.__main__", "gristmill.loader.torch", "gristmill.loader.tensors"),
)
"""Kernels and modules that import torch have no expressions; the others read only our own files or output."""
LINES = "matched with a whole line, from its beginning on, of the first 40,000 characters of a file"
SHORT = {
    "gristmill.query.documents.sql._NO_TABLE": "applied to a message of DuckDB about a query of the user",
    "gristmill.stages.ingest.charset._META": "applied to the first 8,192 bytes of a page",
    "gristmill.stages.ingest.charset._COMMENT": "applied to the first 8,192 bytes of a page",
    "gristmill_formats.mbox._FIRST": "matched at one place, with at most 400 bytes of a line",
    "gristmill.recipe.sections.snapshot._PIECE": "an expression of a recipe has at most 1,000 characters",
    "gristmill.stages.extract.published._FORMS": "matched at one place, with the first 64 characters of a value",
    "gristmill.stages.ingest.front_matter._ORG": LINES,
    "gristmill.stages.ingest.front_matter._TEX": LINES,
    "gristmill.stages.ingest.warc_headers.ARC_HEAD": "matched at one place, in the 17,000 bytes that a header may have",
}
"""Expressions that are applied to short texts only, or at one position, and why."""
FEW_STEPS = 4000
"""For 240 characters: below this many steps, the growth does not matter."""
MOST_STEPS = 1_000_000
SEARCHES = ("search", "sub", "subn", "split", "findall", "finditer")


def expressions() -> Iterator[tuple[str, re.Pattern, bool, bool]]:
    """Name, expression, whether it is searched for at every position, and whether it must match a whole text."""
    for module in pkgutil.walk_packages(gristmill.__path__, "gristmill."):
        if module.name.startswith(LEFT_OUT):
            continue
        loaded = importlib.import_module(module.name)
        source = loaded.__spec__.loader.get_source(module.name)
        for name, value in vars(loaded).items():
            if f"\n{name} = " not in source and f"\n{name}: " not in source:
                continue
            anchored = re.search(rf"\b{name}\.(match|fullmatch)\(", source)
            searched = re.search(rf"\b{name}\.({'|'.join(SEARCHES)})\(", source)
            for path, pattern in patterns_in(value, f"{module.name}.{name}"):
                if re.search(rf"\b{name}\.fullmatch\(", source):
                    yield path, pattern, False, True
                if searched or not anchored or re.search(rf"\b{name}\.match\(", source):
                    yield path, pattern, bool(searched) or not anchored, False


def patterns_in(value: object, path: str) -> Iterator[tuple[str, re.Pattern]]:
    if isinstance(value, re.Pattern):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from patterns_in(inner, f"{path}.{key}")
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from patterns_in(inner, path)


def grows(fewer: int, more: int, short: str, long: str) -> bool:
    """Whether the steps grow faster than the text."""
    return more >= MOST_STEPS or math.log(more / max(fewer, 1)) / math.log(len(long) / len(short)) > 1.2


@pytest.mark.slow
def test_steps_grow_no_faster_than_the_text() -> None:
    """Four times the text takes at most 5.3 times the steps."""
    checked = {found[1:]: found[0] for found in expressions() if found[0] not in SHORT}
    assert len(checked) > 50
    faults = []
    for (pattern, everywhere, whole), name in checked.items():
        steps = Steps(pattern, limit=MOST_STEPS)
        texts = (attacks(steps.tree, size) for size in (60, 240, 960))
        for short, long, longest in zip(*texts, strict=True):
            few, many, most = (
                partial(steps.search, text.encode("latin-1", "replace") if steps.is_bytes else text, everywhere, whole)
                for text in (short, long, longest)
            )
            # The ends of a text that do not grow with it weigh less in a longer one.
            if many() > FEW_STEPS and grows(few(), many(), short, long) and grows(many(), most(), long, longest):
                faults.append(f"{name} on {long[:40]!r}: {few()} and {many()} steps")
                break
    assert not faults, "\n".join(faults)
