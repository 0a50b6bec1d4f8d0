"""Makes one change to a recipe's file and keeps every other character, including comments."""

import json
import re

import yaml

from gristmill.recipe.checks.mistakes import Mistakes
from gristmill.recipe.yaml.lines import node_of, parse

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")


def with_entry(text: str, holder: str, name: str, value: str) -> str | None:
    """The text with `name: value` first in the top-level mapping `holder`; None if that is not possible.

    It is not possible if the mapping comes through an alias, or if the result would change any other value.
    """
    entry = f"{name}: {value if _PLAIN.fullmatch(value) else json.dumps(value)}"
    found = _mapping(text, holder)
    if found is None or not found.value or "$" in value:
        return None
    if found.flow_style:
        at, entry = found.start_mark.index + 1, f"{entry}, "
    else:
        first = found.value[0][0].start_mark
        at, entry = first.index, f"{entry}\n{' ' * first.column}"
    edited = text[:at] + entry + text[at:]
    before, after = _values(text), _values(edited)
    if not isinstance(after, dict) or (after.get(holder) or {}).pop(name, None) != value or before != after:
        return None
    return edited


def _mapping(text: str, holder: str) -> yaml.MappingNode | None:
    root = node_of(text)
    if not isinstance(root, yaml.MappingNode):
        return None
    for key, value in root.value:
        if getattr(key, "value", None) == holder and isinstance(value, yaml.MappingNode):
            return value if value.start_mark.index > key.start_mark.index else None
    return None


def _values(text: str) -> object:
    """The values of a recipe, with its variables unresolved."""
    mistakes = Mistakes("")
    tree = parse(text.replace("$", "$$"), {}, mistakes)
    return None if mistakes else tree.value
