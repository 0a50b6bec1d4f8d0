"""Reads untrusted YAML as nodes with their lines, and as plain values.

A stack overflow of the C parser cannot be caught, and aliases of aliases double with every line. Both are bounded
before anything is built.
"""

import math
import os
import re
from difflib import get_close_matches
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from gristmill.errors import UserError, cause_of

Model = TypeVar("Model", bound=BaseModel)
MOST_FAULTS = 20
MOST_NESTED = 20
FEW_VALUES = 1000
"""A file may have this many values, plus one for each of its characters."""
_NESTS = re.compile(r"[\[\]{}]")
_DEEP_LINE = re.compile(r"^(?: {100}|(?:[-?:] +){20})", re.MULTILINE)
LEAST_INT, MOST_INT = -(2**63), 2**63 - 1
"""The range of our files and kernels."""
NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
# 4000 digits: Python refuses to read a decimal number of more than 4300.
_INT = re.compile(r"[-+]?[0-9]{1,4000}|0o[0-7]{1,4000}|0x[0-9a-fA-F]{1,4000}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

Path = tuple[str | int, ...]


def compose(text: str, shown: str, noun: str, shape: str) -> yaml.Node | None:
    """The nodes of a file. UserError names the line that is not valid YAML. `noun` names the kind of file (`file of
    requests`); `shape` describes its valid depth (`A list of requests is three levels deep.`)."""
    _refuse_nesting(text, shown, shape)
    try:
        root: yaml.Node | None = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return root
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{shown}:{mark.line + 1}" if mark is not None else shown
        problem = getattr(error, "problem", None) or str(error) or "it is nested too deeply"
        raise UserError(f"{where}: the {noun} is not valid YAML: {problem}. Correct it.") from None


def _refuse_nesting(text: str, shown: str, shape: str) -> None:
    depth = 0
    for found in _NESTS.finditer(text):
        depth = max(depth + (1 if found[0] in "[{" else -1), 0)
        if depth > MOST_NESTED:
            line = text.count("\n", 0, found.start()) + 1
            raise UserError(f"{shown}:{line}: the values are nested too deeply. {shape}")
    deep = _DEEP_LINE.search(text)
    if deep:
        line = text.count("\n", 0, deep.start()) + 1
        raise UserError(f"{shown}:{line}: the line is indented too deeply. {shape}")


def read_values(path: str, noun: str, shape: str, most_bytes: int) -> "Values":
    """The values of a file of at most `most_bytes`; `noun` and `shape` as for `compose`. Raises UserError."""
    if not os.path.isfile(path):
        raise UserError(f"{path}: not a regular file, so the {noun} cannot be read. Replace it with a YAML file.")
    try:
        with open(path, "rb") as file:
            data = file.read(most_bytes + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        cause = cause_of(error) if isinstance(error, OSError) else "not UTF-8"
        raise UserError(f"{path}: the {noun} cannot be read: {cause}. Correct the file.") from None
    if len(data) > most_bytes:
        raise UserError(f"{path}: the {noun} is larger than {most_bytes:,} bytes, the limit. Name another file.")
    root = compose(text, path, noun, shape)
    if root is None:
        raise UserError(f"{path}: the {noun} is empty. Write its fields.")
    return Values(root, text, path)


def line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class Values:
    """The values of a file, and the line of each. Types are those of YAML 1.2: `no` and a date are text."""

    def __init__(self, root: yaml.Node, text: str, shown: str) -> None:
        self.lines: dict[Path, int] = {}
        self._shown = shown
        self._most = FEW_VALUES + len(text)
        self._open: set[int] = set()
        self.value = self._build(root, ())

    def at(self, path: Path) -> str:
        """`suite.yaml:7`, for the value at a path or the nearest value around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self._shown}:{self.lines.get(path, 1)}"

    def _build(self, node: yaml.Node, path: Path) -> Any:
        self.lines.setdefault(path, line_of(node))
        where = f"{self._shown}:{line_of(node)}"
        if len(self.lines) > self._most or len(path) > MOST_NESTED or id(node) in self._open:
            raise UserError(f"{where}: aliases expand this file to more values than it contains. Write the values out.")
        if not node.tag.startswith("tag:yaml.org,2002:") or "python" in node.tag:
            raise UserError(f"{where}: the tag {node.tag[:80]} is not allowed. Remove it.")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, where)
        self._open.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            value: Any = [self._build(item, (*path, at)) for at, item in enumerate(node.value)]
        else:
            value = {}
            for key, item in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else None
                if not isinstance(name, str) or name in value:
                    twice = f"{name[:80]!r} appears twice" if isinstance(name, str) else "a key is not text"
                    raise UserError(f"{self._shown}:{line_of(key)}: {twice} in this mapping. Write each name once.")
                self.lines[(*path, name)] = line_of(key)
                value[name] = self._build(item, (*path, name))
        self._open.discard(id(node))
        return value

    def _scalar(self, node: yaml.ScalarNode, where: str) -> Any:
        text = str(node.value)
        if NOT_TEXT.search(text):
            raise UserError(f"{where}: a value contains an invalid character (NUL or a surrogate). Remove it.")
        if node.style:  # quoted; the loader leaves None or "" for plain scalars
            return text
        value = typed(text)
        if isinstance(value, int) and not LEAST_INT <= value <= MOST_INT:
            raise UserError(
                f"{where}: numbers go from {LEAST_INT} to {MOST_INT}. Put {text[:40]} in quotes if it is text."
            )
        return value


def typed(text: str) -> Any:
    """The value of an unquoted scalar, by the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        # A number too large for a float stays text, so that a number field refuses it.
        return number if math.isfinite(number := float(text)) else text
    if _SPECIAL_FLOAT.fullmatch(text):
        return float(text.replace(".", ""))
    return text


def checked(model: type[Model], raw: object, values: Values, at: Path, noun: str) -> Model:
    """The fields of a mapping at a path, or one UserError that names the lines and the valid fields."""
    if not isinstance(raw, dict):
        raise UserError(f"{values.at(at)}: {noun} must be a mapping. Fields: {', '.join(model.model_fields)}.")
    try:
        return model(**raw)
    except ValidationError as error:
        messages: dict[str, str] = {}
        for fault in error.errors()[:MOST_FAULTS]:
            name = str(fault["loc"][0]) if fault["loc"] else ""
            if fault["type"] == "extra_forbidden":
                near = get_close_matches(name, model.model_fields, 1)
                hint = f"Did you mean {near[0]}? " if near else ""
                fact = f"{name[:80]!r} is not a field of {noun}. {hint}Fields: {', '.join(model.model_fields)}."
            elif fault["type"] == "missing":
                fact = f"{noun} requires {name}. Add it."
            else:
                fact = f"{name or noun}: {fault['msg'].removeprefix('Value error, ')}. Correct it."
            messages.setdefault(name, f"{values.at((*at, name) if name else at)}: {fact}")
        raise UserError("\n".join(messages.values())) from None
