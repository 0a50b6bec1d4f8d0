"""One entry of a recipe as YAML, with one value changed."""

from collections.abc import Sequence
from copy import deepcopy
from io import StringIO
from typing import Any

import yaml
from yaml.emitter import Emitter
from yaml.resolver import BaseResolver
from yaml.serializer import Serializer

MERGE = "<<"


class _AsWritten(Emitter, Serializer, BaseResolver):
    """Writes scalars as the file has them: `${NAME}` stays, and `no` gets no quotes."""

    def __init__(self, stream: Any) -> None:
        Emitter.__init__(self, stream, width=100, allow_unicode=True)
        Serializer.__init__(self)
        BaseResolver.__init__(self)


def changed_step(text: str, at: Sequence[str | int], path: Sequence[str], value: str) -> str:
    """The list item of a step in the text of a recipe, with all its settings and one other value. `at` is the position
    of its config, which ends in the name of the step; `path` is the position of the value in the config.
    """
    *outer, name = at
    entry: Any = yaml.compose(text, Loader=yaml.BaseLoader)
    for key in outer:
        entry = entry.value[key] if isinstance(entry, yaml.SequenceNode) else _get(entry, str(key))
    entry = entry if isinstance(entry, yaml.MappingNode) else _mapping([])
    inner = entry
    for key in (str(name), *path[:-1]):
        found = _get(inner, key)
        below = _mapping(deepcopy(found.value) if isinstance(found, yaml.MappingNode) else [])
        _set(inner, key, below)
        inner = below
    _set(inner, path[-1], yaml.ScalarNode(BaseResolver.DEFAULT_SCALAR_TAG, value))
    written = StringIO()
    dumper = _AsWritten(written)
    dumper.open()
    dumper.serialize(yaml.SequenceNode(BaseResolver.DEFAULT_SEQUENCE_TAG, [entry], flow_style=False))
    dumper.close()
    return written.getvalue().strip()


def _mapping(pairs: Sequence[Any]) -> yaml.MappingNode:
    return yaml.MappingNode(BaseResolver.DEFAULT_MAPPING_TAG, list(pairs), flow_style=False)


def _get(mapping: Any, name: str) -> Any:
    """A value of a mapping, or of a mapping that it merges."""
    pairs = {key.value: value for key, value in mapping.value}
    if name in pairs or MERGE not in pairs:
        return pairs.get(name)
    merged = pairs[MERGE].value if isinstance(pairs[MERGE], yaml.SequenceNode) else [pairs[MERGE]]
    return next((value for one in merged if (value := _get(one, name)) is not None), None)


def _set(mapping: Any, name: str, value: yaml.Node) -> None:
    """Change a value where it is, or add it."""
    keys = [key.value for key, _ in mapping.value]
    key = yaml.ScalarNode(BaseResolver.DEFAULT_SCALAR_TAG, name)
    place = keys.index(name) if name in keys else len(keys)
    mapping.value[place : place + 1] = [(key, value)]
