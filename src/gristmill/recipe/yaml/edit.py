"""Makes one change to a recipe's file and keeps every other character, including comments."""

import json
import re
from collections.abc import Sequence
from typing import Any

import yaml

from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import Mistakes
from gristmill.recipe.yaml.lines import node_of, parse

_PLAIN = re.compile(r"(?!(?:null|true|false|yes|no|on|off)$)[A-Za-z_][A-Za-z0-9_./-]*", re.IGNORECASE | re.ASCII)


def with_entry(text: str, holder: str, name: str, value: str) -> str | None:
    """The text with `name: value` first in the top-level mapping `holder`; None if that is not possible.

    It is not possible if the mapping comes through an alias, or if the result would change any other value.
    """
    values = _values(text)
    found = values.get(holder) if isinstance(values, dict) else None
    return with_value(text, (holder, name), value) if isinstance(found, dict) and found and name not in found else None


def with_value(text: str, path: Sequence[str | int], value: object) -> str | None:
    """The text with another value at a path of keys and places, which may be new; None where it cannot be put there.

    It cannot where the value comes through an alias, or where the result would say anything else differently. A step
    that is written as a bare name (`- exact_dedup`) becomes a mapping.
    """
    before = _values(text)
    node = None if before is None else node_of(text)
    place = 0
    while node is not None and place < len(path) and (child := _child(node, path[place])) is not None:
        node, place = child, place + 1
    left = path[place:]
    if node is None or "$" in json.dumps(value):
        return None
    if left and isinstance(node, yaml.MappingNode) and node.value:
        edited = _with_key(text, node, str(left[0]), written(_nested(left[1:], value)))
    else:
        edited = _replaced(text, node, written(_nested(left, value)))
    wanted = _with(before, path, value)
    return edited if wanted is not None and _values(edited) == wanted else None


def _child(node: yaml.Node, at: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(at, int) and at < len(node.value):
        found: yaml.Node = node.value[at]
        return found
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if getattr(key, "value", None) == at), None)
    return None


def _with_key(text: str, holder: yaml.MappingNode, name: str, written: str) -> str:
    """A new first entry of a mapping that has others."""
    if holder.flow_style:
        at, entry = holder.start_mark.index + 1, f"{name}: {written}, "
    else:
        first = holder.value[0][0].start_mark
        at, entry = first.index, f"{name}: {written}\n{' ' * first.column}"
    return text[:at] + entry + text[at:]


def _replaced(text: str, node: yaml.Node, written: str) -> str:
    start, end = node.start_mark, node.end_mark
    gap = " " if text[start.index - 1 : start.index] == ":" else ""
    # What is written as a block ends where the next value begins, on a later line.
    after = f"\n{' ' * end.column}" if "\n" in text[start.index : end.index] else ""
    return f"{text[: start.index]}{gap}{written}{after}{text[end.index :]}"


def _nested(path: Sequence[str | int], value: object) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def written(value: object) -> str:
    """A value as YAML has it, on one line whatever is in it."""
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value)


def _with(values: object, path: Sequence[str | int], value: object) -> Any:
    """The values with another one at a path; None where something else is in the way."""
    if not path:
        return value
    at, inner = path[0], None
    if isinstance(values, list) and isinstance(at, int) and at < len(values):
        inner = _with(values[at], path[1:], value)
        return None if inner is None else [*values[:at], inner, *values[at + 1 :]]
    held = {} if values is None or values == at else values
    if not isinstance(held, dict) or not isinstance(at, str):
        return None
    inner = value if len(path) == 1 else _with(held.get(at), path[1:], value)
    return None if inner is None and len(path) > 1 else {**held, at: inner}


def _values(text: str) -> Any:
    """What a recipe says, with variables as they are written; None where it is not a recipe."""
    mistakes = Mistakes("")
    try:
        tree = parse(text.replace("$", "$$"), {}, mistakes)
    except UserError:
        return None
    return None if mistakes else tree.value
