"""Ready descriptions of public benchmarks, in the forms in which they are published: ready/*.yaml.

A description has several forms, since a benchmark is published by its authors, as Parquet on a hub, and by evaluation
tools. A file has the first form that fits one of its first records.
"""

import functools
import os
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from gristmill.stages.contract import StageConfig
from gristmill.stages.decontaminate.suite.form import Form, Role
from gristmill.stages.yaml_nodes import Values, checked, compose

FOLDER = os.path.join(os.path.dirname(__file__), "ready")
PROMPTS: dict[str, dict[str, Any]] = {
    "llm-foundry": {"question": "query", "choices": "choices", "answer_choice": "gold"},
    "llm-foundry prompt": {"question": "context", "answer": "answer"},
}
"""Forms that any benchmark with choices may have: prompts as evaluation tools send them."""


class Ready(NamedTuple):
    """A ready description."""

    name: str
    about: str
    forms: dict[str, Form]
    protect: tuple[Role, ...] | None


class _Fields(StageConfig):
    about: str
    protect: tuple[Role, ...] | None = None
    forms: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]


@functools.cache
def ready_names() -> list[str]:
    return sorted(name[:-5] for name in os.listdir(FOLDER) if name.endswith(".yaml"))


@functools.cache
def ready(name: str) -> Ready:
    """Load the description `name`, one of `ready_names()`."""
    path = os.path.join(FOLDER, f"{name}.yaml")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    root = compose(text, path, "ready description", "It is a few levels deep.")
    assert root is not None
    values = Values(root, text, path)
    fields = checked(_Fields, values.value, values, (), "a ready description")
    prompts = PROMPTS if any("choices" in form for form in fields.forms.values()) else {}
    forms = {
        form: checked(Form, {"prompt": True, **given}, values, ("forms", form), "a form")
        for form, given in (fields.forms | prompts | fields.forms).items()
    }
    return Ready(name, fields.about, forms, fields.protect)
