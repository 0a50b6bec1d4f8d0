"""Loads and checks suite.yaml, the file that describes a suite, and the ready descriptions of public benchmarks.

Ready descriptions (ready/*.yaml) have several forms, since a benchmark is published by its authors, as Parquet on a
hub, and by evaluation tools. A file has the first form that fits one of its first records.
"""

import functools
import os
from difflib import get_close_matches
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field

from gristmill.errors import UserError
from gristmill.stages.config_types import matching
from gristmill.stages.contract import StageConfig
from gristmill.stages.decontaminate.suite.files import SUITE
from gristmill.stages.decontaminate.suite.form import FieldPath, Form
from gristmill.stages.yaml_nodes import Path, Values, checked, read_values

MOST_YAML_BYTES = 4 << 20
FOLDER = os.path.join(os.path.dirname(__file__), "ready")
PROMPTS: dict[str, dict[str, Any]] = {
    "llm-foundry": {"question": "query", "choices": "choices", "answer_choice": "gold"},
    "llm-foundry prompt": {"question": "context", "answer": "answer"},
}
"""Forms that any benchmark with choices may have: prompts as evaluation tools send them."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}"
_RULE = "Use up to 100 of A-Z a-z 0-9 _ . + - and begin with a letter or a digit"
_Name = Annotated[str, matching(_NAME, _RULE)]
_Glob = Annotated[str, Field(min_length=1, max_length=1000)]


class Ready(NamedTuple):
    """A ready description."""

    name: str
    about: str
    forms: dict[str, Form]


class _Fields(StageConfig):
    about: str
    forms: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]


@functools.cache
def ready_names() -> list[str]:
    return sorted(name[:-5] for name in os.listdir(FOLDER) if name.endswith(".yaml"))


@functools.cache
def ready(name: str) -> Ready:
    """Load the description `name`, one of `ready_names()`."""
    path = os.path.join(FOLDER, f"{name}.yaml")
    values = read_values(path, "ready description", "It is a few levels deep.", MOST_YAML_BYTES)
    fields = checked(_Fields, values.value, values, (), "a ready description")
    prompts = PROMPTS if any("choices" in form for form in fields.forms.values()) else {}
    forms = {
        form: checked(Form, {"prompt": True, **given}, values, ("forms", form), "a form")
        for form, given in (fields.forms | prompts | fields.forms).items()
    }
    return Ready(name, fields.about, forms)


def _as_tuple(value: object) -> Any:
    return [value] if isinstance(value, str) else value


def _as_text(value: object) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


class Benchmark(Form):
    """One benchmark of a suite: its files, and the meaning of their fields."""

    files: Annotated[tuple[_Glob, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    """Globs below the folder: `*` within a name. The name of a folder means all files below it."""
    like: str | None = None
    """A ready description, instead of `question` and the other fields (`gristmill suite show`)."""
    question: FieldPath | None = None  # type: ignore[assignment]
    """The field with the question; `like` already sets it."""


class SuiteFields(StageConfig):
    """The top level of the file."""

    suite: _Name
    """The name of the suite."""
    version: Annotated[_Name, BeforeValidator(_as_text)]
    """The version of the suite, as its owners number it."""
    benchmarks: Annotated[dict[str, Any], Field(min_length=1)]
    """The benchmarks by name."""


class Described(NamedTuple):
    """The description of one benchmark."""

    location: str
    """File and line, for messages."""
    benchmark: Benchmark
    forms: dict[str, Form]
    """By name; a file has the first that fits."""


class Description(NamedTuple):
    """The description of a suite."""

    path: str
    name: str
    version: str
    benchmarks: dict[str, Described]


def describe(folder: str) -> Description:
    """Read the description of the suite in a folder; a UserError names the line."""
    path = os.path.join(os.path.dirname(folder) or "." if os.path.isfile(folder) else folder, SUITE)
    if not os.path.lexists(path):
        raise UserError(f"{folder}: no {SUITE} in this folder. A suite is a folder with one. Name such a folder.")
    values = read_values(path, "description of a suite", "A suite is a few levels deep.", MOST_YAML_BYTES)
    fields = checked(SuiteFields, values.value, values, (), "a suite")
    benchmarks = {name: _described(name, given, values) for name, given in sorted(fields.benchmarks.items())}
    return Description(path, fields.suite, fields.version, benchmarks)


def _described(name: str, given: Any, values: Values) -> Described:
    path: Path = ("benchmarks", name)
    location = values.at(path)
    if not name.isprintable() or " " in name or not 0 < len(name) <= 100:
        raise UserError(f"{location}: {name[:80]!r} is not a valid benchmark name. Use letters, digits, - and _.")
    benchmark = checked(Benchmark, given, values, path, "a benchmark")
    if benchmark.like is not None:
        return Described(location, benchmark, _ready(benchmark.like, [*given], values, path).forms)
    if benchmark.question is None:
        raise UserError(
            f"{location}: {name} does not say which field is the question, so no item can be read. Add "
            f"question: FIELD, or like: and one of {', '.join(ready_names())}."
        )
    own = Form(**{field: getattr(benchmark, field) for field in Form.model_fields if field in given})
    return Described(location, benchmark, {"own": own})


def _ready(name: str, given: list[str], values: Values, path: Path) -> Ready:
    own = [field for field in Form.model_fields if field in given and field != "format"]
    if own:
        raise UserError(
            f"{values.at((*path, own[0]))}: {path[-1]} sets both like and {', '.join(own)}, which contradict each "
            "other. Remove one of the two."
        )
    if name not in ready_names():
        near = get_close_matches(name.lower(), ready_names(), 1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UserError(
            f"{values.at((*path, 'like'))}: there is no ready description {name[:80]!r}. {hint}There are "
            f"{', '.join(ready_names())}."
        )
    return ready(name)
