"""The form of a benchmark: which fields of a record are question, answer, choices and code.

A field is a path into a record, or a template with paths in braces:

    question                    the field of that name
    question.stem               a nested field; of a list of objects, the list of their values (`choices.text`)
    choices.0                   an element of a list
    "{context} {question}"      several fields, with the text between them
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self

import orjson
from pydantic import BeforeValidator, Field, model_validator

from gristmill.stages.contract import StageConfig
from gristmill.stages.decontaminate.suite.files import Format
from gristmill.stages.decontaminate.suite.prompt import read_prompt
from gristmill.stages.reading.fields import field_names, nothing_under

BLANK = "_"
"""The placeholder for a choice in a question."""
UNKNOWN = "<unk>"
"""The answer in TriviaQA's published test split."""
NO_ANSWER = ("", "-1", UNKNOWN)
"""Values of `answer_choice` in test splits that keep the answer secret."""
_PATH_IN_TEXT = re.compile(r"\{([^{}]*)\}")
_TEMPLATE = re.compile(r"(?:[^{}]*\{[^{}]+\})+[^{}]*")
_MISSING = object()


class Item(NamedTuple):
    """One item of a benchmark."""

    benchmark: str
    id: str
    question: str
    answer: str
    choices: tuple[str, ...]
    code: tuple[str, ...]
    context: str

    @property
    def digest(self) -> str:
        """The identity of the item, independent of its file and id: a hash of benchmark and texts, 32 hex digits."""
        texts = [self.benchmark, self.question, self.answer, self.choices, self.code, self.context]
        return hashlib.sha256(orjson.dumps(texts)).hexdigest()[:32]


def item_from(texts: Sequence[Any]) -> Item:
    """Rebuild an item from its JSON list."""
    benchmark, name, question, answer, choices, code, context = texts
    return Item(benchmark, name, question, answer, tuple(choices), tuple(code), context)


def is_filled(question: str, choice: str) -> bool:
    """Whether a choice is its question with the blank filled in."""
    before, blank, after = question.partition(BLANK)
    return bool(blank and before + after) and choice.startswith(before) and choice.endswith(after)


def _as_path(value: object) -> Any:
    if isinstance(value, str) and ("{" in value or "}" in value) and not _TEMPLATE.fullmatch(value):
        raise ValueError(f"{value[:80]!r} has braces without a path in them; write it like {{context}} {{question}}")
    return value


def _as_paths(value: object) -> Any:
    return tuple(map(_as_path, value if isinstance(value, list | tuple) else [value])) if value is not None else None


FieldPath = Annotated[str, BeforeValidator(_as_path), Field(min_length=1, max_length=500)]
FieldPaths = Annotated[tuple[FieldPath, ...], BeforeValidator(_as_paths), Field(min_length=1, max_length=100)]


class Form(StageConfig):
    """The meaning of the fields of a record."""

    format: Format | None = None
    """The format of the files. null: by suffix (.jsonl, .json, .csv, .tsv, .parquet), after removing the suffix of a
    compression."""
    question: FieldPath
    """The question, or the text to continue. Every item has one."""
    answer: FieldPath | None = None
    """The right answer, or the worked solution, as text."""
    answer_choice: FieldPath | None = None
    """The name of the right choice, instead of `answer`. An empty value, -1 and <unk> mean a secret answer."""
    counted_from: Literal[0, 1, "A"] = 0
    """The name of the first choice in `answer_choice`."""
    labels: FieldPath | None = None
    """The names of the choices, if records have them, instead of `counted_from`."""
    choices: FieldPaths | None = None
    """The answers to choose from: a list, or several fields; the keys of an object."""
    blank: bool = False
    """Whether `_` in the question is the place of a choice (WinoGrande). Choices and answer are then whole sentences:
    the question with the choice filled in."""
    code: FieldPaths | None = None
    """Programs: the solution, and the prompt with the solution, if a benchmark has them."""
    context: FieldPath | None = None
    """A passage that the question is about. Evaluations show it; it was published elsewhere and is not searched for."""
    id: FieldPath | None = None
    """The id of the item. null, or if a record has no id: its file and row."""
    prompt: bool = False
    """Whether questions are prompts, from which labels (`Question:`, `Choices:`, `Answer:`), lettered choices and a
    leading passage are removed. Ready descriptions set it."""

    @model_validator(mode="after")
    def _nothing_idle(self) -> Self:
        if self.answer and self.answer_choice:
            raise ValueError("answer and answer_choice both define the answer; remove one of the two")
        needs = {"answer_choice": "choices", "blank": "choices", "labels": "answer_choice"}
        for name, other in {**needs, "counted_from": "answer_choice"}.items():
            if name in self.model_fields_set and getattr(self, name) is not None and not getattr(self, other):
                raise ValueError(f"{name} has no effect without {other}; add {other}, or remove {name}")
        return self

    def paths(self) -> list[str]:
        """Every path that a record needs."""
        fields = [self.question, self.answer, self.answer_choice, self.labels, self.context]
        fields += [*(self.choices or ()), *(self.code or ())]
        return [path for field in fields if field for path in _paths_in(field)]

    def columns(self, names: list[str]) -> list[str]:
        """The columns that the form names, since others may be very large; all if one is missing, for the message."""
        needed = {path if path in names else path.partition(".")[0] for path in self.paths()}
        if not needed.issubset(names):
            return names
        needed |= {path if path in names else path.partition(".")[0] for path in _paths_in(self.id or "")}
        return [name for name in names if name in needed]


class Broken(Exception):
    """A record is not an item; the message says why."""


def item_of(record: dict[str, Any], form: Form, benchmark: str, place: str) -> Item:
    """The item of a record; `place` is its file and row. Raises Broken."""
    question = _filled(record, form.question).strip()
    if not question:
        raise Broken(f"no question: {form.question} is empty")
    choices = _choices(record, form, question)
    context = _filled(record, form.context).strip() if form.context else ""
    answer = _filled(record, form.answer).strip().removeprefix(UNKNOWN) if form.answer else ""
    if form.prompt and not form.code:
        read = read_prompt(question, choices, answer)
        question, context, choices = read.question or question, context or read.context, [*read.choices] or choices
        if read.choices and len(answer) == 1 and ord(answer.upper()) - ord("A") in range(len(choices)):
            answer = choices[ord(answer.upper()) - ord("A")]
    if form.answer_choice:
        answer = _named(record, form, choices)
    return Item(
        benchmark,
        _id(record, form, place),
        question,
        answer,
        tuple(choice for choice in choices if choice),
        tuple(code for field in form.code or () if (code := _filled(record, field)).strip()),
        context,
    )


def value_at(record: Any, path: str) -> Any:
    """The value at a path; raises Broken if there is none."""
    found = _follow(record, path)
    if found is _MISSING:
        raise Broken(nothing_under([path], field_names(record)))
    return found


def _follow(record: Any, path: str) -> Any:
    if path in record:
        return record[path]
    value = record
    for step in path.split("."):
        if isinstance(value, dict):
            value = value.get(step, _MISSING)
        elif isinstance(value, list) and step.isascii() and step.isdecimal():
            value = value[int(step)] if len(step) < 10 and int(step) < len(value) else _MISSING
        elif isinstance(value, list):
            value = [one.get(step, _MISSING) if isinstance(one, dict) else _MISSING for one in value]
            value = _MISSING if any(one is _MISSING for one in value) else value
        else:
            return _MISSING
        if value is _MISSING:
            return _MISSING
    return value


def _paths_in(field: str) -> list[str]:
    return _PATH_IN_TEXT.findall(field) if "{" in field else [field]


def _filled(record: dict[str, Any], field: str) -> str:
    if "{" not in field:
        return _text(value_at(record, field), field)
    return _PATH_IN_TEXT.sub(lambda found: _text(value_at(record, found[1]), found[1]), field)


def _text(value: object, path: str) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        kind = "a list" if isinstance(value, list) else "an object"
        raise Broken(f"{path} is {kind}, not text; name a value in it, such as {path}.0 or {path}.text")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _choices(record: dict[str, Any], form: Form, question: str) -> list[str]:
    choices: list[str] = []
    for field in form.choices or ():
        value = value_at(record, field) if "{" not in field else _filled(record, field)
        value = list(value) if isinstance(value, dict) else value
        choices += [_text(choice, field).strip() for choice in (value if isinstance(value, list) else [value])]
    if not form.blank:
        return choices
    if BLANK not in question:
        raise Broken(f"the question has no {BLANK} to replace with a choice")
    return [question.replace(BLANK, choice) for choice in choices]


def _named(record: dict[str, Any], form: Form, choices: list[str]) -> str:
    """The choice that the record names."""
    assert form.answer_choice is not None
    name = _filled(record, form.answer_choice).strip()
    if name in NO_ANSWER:
        return ""
    if form.labels:
        found = value_at(record, form.labels)
        names = [_text(one, form.labels).strip() for one in (found if isinstance(found, list) else [found])]
    elif form.counted_from == "A":
        names = [chr(ord("A") + at) for at in range(min(len(choices), 26))]
    else:
        names = [str(form.counted_from + at) for at in range(len(choices))]
    if name not in names[: len(choices)]:
        known = ", ".join(names[:10]) or "none"
        raise Broken(f"{form.answer_choice} is {name[:40]!r}, which is not one of the choices ({known})")
    return choices[names.index(name)]


def _id(record: dict[str, Any], form: Form, place: str) -> str:
    if form.id is None:
        return place
    try:
        return _filled(record, form.id).strip()[:200] or place
    except Broken:
        return place
