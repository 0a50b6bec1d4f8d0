"""Prompts: files with templates, and the form in which a model must answer.

    name: quiz
    system: You write questions about texts.
    user: |
      Write one question about this text, and its answer.

      {text}
    answer: {question: string, answer: string}
    write: "{question}\\n{answer}"

A field in braces is replaced once by its value; braces in the value mean nothing. `{{` and `}}` are braces. With
`answer`, the model must answer with one JSON object that has exactly these fields, each once, all of them text that is
not empty (with `many: true`, with an object whose only field, `items`, is a list of them), and `write` makes the text
of the document from it. Such a request carries the JSON schema, which servers with guided decoding enforce.
"""

import functools
import json
from collections.abc import Mapping
from string import Formatter
from typing import Any, Literal, NamedTuple

import orjson

from gristmill.errors import UserError
from gristmill.stages.contract import StageConfig
from gristmill.stages.yaml_nodes import checked, read_values

FIELDS = ("text", "title", "url", "language", "source")
"""The fields of a document that a template may name."""
ITEMS = "items"
MOST_BYTES = 1 << 18
"""The largest prompt file."""
Template = tuple[tuple[str, str | None], ...]
"""Pairs of literal text and the field after it."""


class Malformed(ValueError):
    """An answer does not have the form that its prompt requires."""


class Refusal(Malformed):
    """The model says that it will not or cannot answer."""


class PromptFields(StageConfig):
    """The fields of a prompt file."""

    name: str
    """The name of the prompt in the column `prompt`."""
    system: str | None = None
    """The template of the system message."""
    user: str
    """The template of the user message."""
    answer: dict[str, Literal["string"]] | None = None
    """The fields of the JSON object that the model must answer with."""
    many: bool = False
    """Whether the model answers with a list of such objects, under `items`."""
    write: str | None = None
    """The template of the text made from the fields; required with `answer`."""


class ModelPrompt(NamedTuple):
    """A prompt file."""

    name: str
    system: Template | None
    user: Template
    answer: tuple[str, ...] | None
    many: bool
    write: Template

    def messages(self, values: Mapping[str, str]) -> list[dict[str, str]]:
        """The messages of a request."""
        system = [] if self.system is None else [{"role": "system", "content": fill(self.system, values)}]
        return [*system, {"role": "user", "content": fill(self.user, values)}]

    def schema(self) -> dict[str, Any] | None:
        """The JSON schema of an answer; None for plain text."""
        if self.answer is None:
            return None
        one = object_schema({name: {"type": "string"} for name in self.answer})
        return object_schema({ITEMS: {"type": "array", "items": one}}) if self.many else one

    def text_of(self, answer: str) -> str:
        """The text of the document made from an answer. Raises Malformed."""
        if self.answer is None:
            return answer.strip()
        value = strict_json(answer)
        if self.many:
            if not isinstance(value, dict) or value.keys() != {ITEMS} or not isinstance(value[ITEMS], list):
                raise Malformed(f"it is not an object with the list {ITEMS}")
            if not value[ITEMS]:
                raise Malformed(f"{ITEMS} is empty")
            return "\n\n".join(self._written(one) for one in value[ITEMS])
        return self._written(value)

    def _written(self, value: Any) -> str:
        if not isinstance(value, dict) or value.keys() != set(self.answer or ()):
            raise Malformed(f"an object must have exactly the fields {', '.join(self.answer or ())}")
        for name, one in value.items():
            if not isinstance(one, str) or not one.strip():
                raise Malformed(f"{name} is not text, or is empty")
        return fill(self.write, value).strip()


def strict_json(answer: str) -> Any:
    """The JSON value of an answer. Raises Malformed, also if an object has a field twice."""
    try:
        value = orjson.loads(answer)
        json.loads(answer, object_pairs_hook=_refuse_repeated)  # orjson takes the last of two equal keys
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise Malformed(f"it is not JSON: {error}") from None
    return value


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise Malformed("an object has a field twice")


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with exactly these fields."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def fill(template: Template, values: Mapping[str, str]) -> str:
    """A template with its fields replaced; values are never read as templates."""
    return "".join(text + (values[field] if field is not None else "") for text, field in template)


@functools.lru_cache(maxsize=64)
def read_prompt(path: str, more: tuple[str, ...] = ()) -> ModelPrompt:
    """The prompt in a file; `more` are fields that the recipe defines. Raises UserError with the line."""
    values = read_values(path, "prompt", "A prompt is two levels deep.", MOST_BYTES)
    fields = checked(PromptFields, values.value, values, (), "a prompt")
    if (fields.answer is None) != (fields.write is None) or (fields.many and fields.answer is None):
        fact = "answer and write belong together, and many needs both: answer lists the fields, write makes a text"
        raise UserError(f"{values.at(('answer',))}: {fact} of them. Add the other, or remove it.")
    known = (*FIELDS, *more)
    templates = {
        name: parse_template(value, names, values.at((name,)))
        for name, names in (("system", known), ("user", known), ("write", tuple(fields.answer or ())))
        if (value := getattr(fields, name)) is not None
    }
    if not any(field == "text" for _, field in templates["user"]):
        raise UserError(
            f"{values.at(('user',))}: user does not contain {{text}}, so no document is sent. Add {{text}}."
        )
    answer = None if fields.answer is None else tuple(fields.answer)
    write = templates.get("write", ())
    return ModelPrompt(fields.name, templates.get("system"), templates["user"], answer, fields.many, write)


def parse_template(text: str, known: tuple[str, ...], where: str) -> Template:
    """The literal texts and fields of a template. Raises UserError for a field that is not in `known`."""
    parts: list[tuple[str, str | None]] = []
    fix = "Write {{ and }} for braces."
    others = " The field values of the recipe defines others." if known[: len(FIELDS)] == FIELDS else ""
    try:
        for literal, field, form, conversion in Formatter().parse(text):
            if field is not None and (form or conversion or field not in known):
                shown = f"{{{field}{'!' + conversion if conversion else ''}{':' + form if form else ''}}}"
                raise UserError(f"{where}: {shown[:80]} is not a field. Fields: {', '.join(known)}.{others} {fix}")
            parts.append((literal, field))
    except ValueError as error:
        raise UserError(f"{where}: the braces of the template do not match ({error}). {fix}") from None
    return tuple(parts)
