"""YAML to Python values, with the line of every key and value.

The rules:
- An unquoted scalar is typed by the core schema of YAML 1.2: `null`, `true` and `false`, whole numbers, numbers
  (`1e-3` too), and anything else is text. PyYAML reads YAML 1.1, which turns the language code `no` into false,
  `2024-10-01` into a date and `1e-3` into text.
- A key is always text.
- `${NAME}` is filled in first (see environment.py), and the scalar is typed as though the value were written there:
  `seed: ${SEED}` is a number, `"${SEED}"` is text. Keys are never substituted, and a value is never parsed as YAML:
  it cannot add a list, a mapping or an alias.
- Anchors, aliases and merge keys (`<<`) work; a value that comes through an alias has the line where it is written.
- A key that is in a mapping twice is a mistake; YAML would silently keep the last one.
- Tags (`!!python/object`) are a mistake, and so is a whole number that does not fit into 64 bits.
- The work is bounded by the length of the file: nesting is limited, and so is what aliases and merge keys add.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import Mistakes, Path, dotted, nearest_file
from gristmill.recipe.yaml.environment import substitute
from gristmill.recipe.yaml.faults import explain
from gristmill.stages.yaml_nodes import LEAST_INT, MOST_INT, NOT_TEXT, typed

MOST_BYTES = 4 * 2**20
"""A larger file is not a recipe; the user named a data file by mistake."""
MOST_VALUES = 100_000
"""The most values of any recipe; perhaps a list of paths."""
FEW_VALUES = 1000
"""A file may have this many values plus one for each of its characters: aliases of aliases double them with every
line, and without aliases no file has that many."""
MOST_NESTED = 50
"""A recipe is a few levels deep; PyYAML's time and stack grow with the square of the levels."""

TOO_DEEP = f"the values are nested more than {MOST_NESTED} levels deep"

Entries = dict[str, tuple[yaml.Node, yaml.Node]]
"""Keys and values of a mapping, by the key's text."""

_PLAIN, _QUOTED, _COLLECTION = "plain", "quoted", "collection"


def read_text(shown: str, noun: str, otherwise: str) -> str:
    """The text of a recipe or a profile (`noun`); raises UserError if it cannot be read. `otherwise` is the alternative
    that the message offers if the file does not exist.
    """
    if os.path.isdir(shown):
        raise UserError(f"{shown}: this is a folder, so there is no {noun} to load. Name the YAML file inside it.")
    try:
        with open(shown, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        near = nearest_file(shown)
        hint = f"Did you mean {near}?" if near else f"Correct the path, or {otherwise}."
        if noun == "recipe" and not near and not shown.endswith((".yaml", ".yml")):
            hint = "A recipe is a YAML file, and a store is the folder that its `store` names. Correct the path."
            raise UserError(f"{shown}: there is no such file or store folder. {hint}") from None
        raise UserError(f"{shown}: there is no such file. {hint}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{shown}: the file cannot be read: {error}. Check its permissions.") from None
    if len(data) > MOST_BYTES:
        raise UserError(f"{shown}: the file is larger than 4 MiB, so it is not a {noun}. Name the YAML file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{shown}:{line}: byte {error.start} of the file is not UTF-8, so it cannot be read as text. "
            f"Save the {noun} as UTF-8, or name another file."
        ) from None


class _NodeLoader(Reader, Scanner, Parser, Composer, BaseResolver):
    """Composes nodes whose tag says how a scalar was written; any other tag is one in the file."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)

    def fetch_flow_collection_start(self, token: object) -> None:
        self.check_nesting()
        Scanner.fetch_flow_collection_start(self, token)

    def add_indent(self, column: int) -> bool:
        self.check_nesting()
        return bool(Scanner.add_indent(self, column))

    def check_nesting(self) -> None:
        if self.flow_level + len(self.indents) > MOST_NESTED:
            raise yaml.MarkedYAMLError(problem=TOO_DEEP, problem_mark=self.get_mark())

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is not yaml.ScalarNode:
            return _COLLECTION
        return _PLAIN if implicit[0] else _QUOTED


@dataclass
class YamlTree:
    """A YAML file as Python values, with the line of each value."""

    value: Any = None
    broken: set[Path] = field(default_factory=set)
    """Values that already have a mistake and are None here: further mistakes in them are not reported."""
    _keys: dict[Path, int] = field(default_factory=dict)
    _values: dict[Path, int] = field(default_factory=dict)

    def line_of_key(self, path: Path) -> int:
        """The line of the key (or list item) at `path`; if there is none, the line of what should hold it."""
        while path and path not in self._keys and path not in self._values:
            path = path[:-1]
        return self._keys.get(path) or self._values.get(path, 1)

    def line_of_value(self, path: Path) -> int:
        """The line on which the value at `path` begins; if there is none, the line of what should hold it."""
        return self._values[path] if path in self._values else self.line_of_key(path)

    def note(self, path: Path, value_line: int, key_line: int | None = None) -> None:
        """Record the lines of one value."""
        self._values[path] = value_line
        if key_line is not None:
            self._keys[path] = key_line

    def __len__(self) -> int:
        return len(self._values)


def node_of(text: str) -> yaml.Node | None:
    """The root node of a file; nodes know their position in the text."""
    return _NodeLoader(text).get_single_node()


def parse(text: str, env: Mapping[str, str], mistakes: Mistakes) -> YamlTree:
    """The values of `text`. Raises UserError if it is not YAML; other mistakes are added to `mistakes`."""
    try:
        root = node_of(text)
        tree = YamlTree()
        if root is not None:
            most = min(MOST_VALUES, FEW_VALUES + len(text))
            tree.value = _Values(tree, env, mistakes, most).build(root, (), 1)
        return tree
    except yaml.YAMLError as error:
        line, message = explain(error, text)
        mistakes.add(line, message)
    except RecursionError:
        mistakes.add(1, f"{TOO_DEEP}. A recipe is a few levels deep.")
    mistakes.raise_any()
    raise AssertionError("a mistake was added")


class _Values:
    """Turns nodes into values."""

    def __init__(self, tree: YamlTree, env: Mapping[str, str], mistakes: Mistakes, most_values: int) -> None:
        self.tree, self.env, self.mistakes = tree, env, mistakes
        self.most_values = most_values
        self.merged = 0
        self.open: set[int] = set()
        self.known: dict[int, Entries] = {}
        """The keys of mappings that were read, by node: other mappings may merge them any number of times."""

    def build(self, node: yaml.Node, path: Path, holder_line: int, key_line: int | None = None) -> Any:
        # An anchor comes before its alias: a value that begins above its holder came through an alias.
        line = max(_line(node), holder_line) if isinstance(node, yaml.ScalarNode) else _line(node)
        self.tree.note(path, line, key_line)
        self.bound(len(self.tree), line, "aliases expand this file to more than {:,} values. Use fewer.")
        if len(path) > MOST_NESTED:
            return self.broken(path, line, f"{TOO_DEEP} here, through an alias. A recipe is a few levels deep.")
        if node.tag not in (_PLAIN, _QUOTED, _COLLECTION):
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            return self.broken(path, line, f"{dotted(path)} has the tag {tag}, which recipes do not use. Remove it.")
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path, line)
        if id(node) in self.open:
            return self.broken(path, holder_line, f"{dotted(path)} is an alias of a value that contains it. Remove it.")
        self.open.add(id(node))
        value = self.mapping(node, path) if isinstance(node, yaml.MappingNode) else self.sequence(node, path)
        self.open.discard(id(node))
        return value

    def bound(self, count: int, line: int, message: str) -> None:
        if count > self.most_values:
            self.mistakes.add(line, message.format(self.most_values))
            self.mistakes.raise_any()

    def sequence(self, node: yaml.Node, path: Path) -> list[Any]:
        return [self.build(item, (*path, at), _line(node)) for at, item in enumerate(node.value)]

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        entries = self.entries(node, path)
        return {
            name: self.build(value, (*path, name), _line(key), _line(key)) for name, (key, value) in entries.items()
        }

    def entries(self, node: yaml.MappingNode, path: Path) -> Entries:
        """The keys of a mapping, its own first and then merged ones; its own keys win."""
        if id(node) in self.known:
            return self.known[id(node)]
        own: Entries = {}
        merge: tuple[yaml.Node, yaml.Node] | None = None
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.mistakes.add(_line(key), f"{dotted(path)} has a key that is not text. Use a name.")
                continue
            is_merge = key.tag == _PLAIN and key.value == "<<"
            earlier = merge if is_merge else own.get(key.value)
            if earlier is not None:
                where = f"{dotted((*path, key.value))} is written twice, first on line {_line(earlier[0])}"
                self.mistakes.add(_line(key), f"{where}; YAML would use only one of the two. Remove one.")
            elif is_merge:
                merge = key, value
            else:
                own[key.value] = key, value
        if merge is not None:
            self.merge(*merge, own, path)
        self.known[id(node)] = own
        return own

    def merge(self, key: yaml.Node, value: yaml.Node, own: Entries, path: Path) -> None:
        for other in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            if not isinstance(other, yaml.MappingNode) or id(other) in self.open:
                self.mistakes.add(
                    _line(key),
                    f"{dotted((*path, '<<'))} can only merge mappings that come before it. "
                    "Write <<: *name, or <<: [*one, *two].",
                )
                continue
            self.open.add(id(other))
            brought = self.entries(other, path)
            self.merged += len(brought)
            self.bound(self.merged, _line(key), "merge keys add more than {:,} values to this file. Use fewer.")
            for name, entry in brought.items():
                own.setdefault(name, entry)
            self.open.discard(id(other))

    def scalar(self, node: yaml.ScalarNode, path: Path, line: int) -> Any:
        try:
            text = substitute(node.value, self.env)
        except ValueError as error:
            return self.broken(path, line, f"{dotted(path)}: {error}")
        bad = NOT_TEXT.search(text)
        if bad:
            code = f"U+{ord(bad[0]):04X}"
            return self.broken(path, line, f"{dotted(path)} contains {code}, which no path or text may. Remove it.")
        if node.tag != _PLAIN:
            return text
        value = typed(text)
        if isinstance(value, int) and not LEAST_INT <= value <= MOST_INT:
            digits = f"{len(str(abs(value)))} digits" if abs(value) < 10**100 else "hundreds of digits"
            fact = f"{dotted(path)} is a whole number of {digits}, but numbers go from {LEAST_INT} to {MOST_INT}. "
            return self.broken(path, line, fact + "Write a smaller one, or put it in quotes if it is text.")
        return value

    def broken(self, path: Path, line: int, message: str) -> None:
        self.mistakes.add(line, message)
        self.tree.broken.add(path)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
