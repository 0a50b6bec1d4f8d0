"""Rewrites pydantic's errors for users who have never seen pydantic."""

import re
from collections.abc import Sequence

from pydantic_core import ErrorDetails

from gristmill.recipe.checks.mistakes import nearest, show

_WHOLE, _NUMBER, _BOOL, _LIST, _MAPPING = (
    "a whole number",
    "a number",
    "true or false",
    "a list",
    "a mapping (name: value)",
)
_WANTED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), _NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), _BOOL),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), _LIST),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), _MAPPING),
    "string_type": "text",
}
_LIMITS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}
_PERCENTAGE = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*%\s*")
_UPPER = {"less_than": "lt", "less_than_equal": "le"}
_LENGTHS = {
    "too_short": ("min_length", "at least", "entries"),
    "too_long": ("max_length", "at most", "entries"),
    "string_too_short": ("min_length", "at least", "characters"),
    "string_too_long": ("max_length", "at most", "characters"),
}


def describe(name: str, found: Sequence[ErrorDetails], value: object) -> str:
    """What is wrong with the field `name`, and the fix; a union has an error for each of its types."""
    messages = [words for error in found if (words := _other(name, error))]
    wanted = list(dict.fromkeys(words for error in found if (words := _wanted(error))))
    if messages:
        return messages[0]
    return f"{name} must be {' or '.join(wanted)}, not {show(value)}.{_fix(wanted, found, value)}"


def _wanted(error: ErrorDetails) -> str | None:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _LIMITS:
        key, words = _LIMITS[kind]
        return f"{words} {context[key]}"
    if kind in ("literal_error", "enum"):
        return f"one of {', '.join(_options(error))}"
    return _WANTED.get(kind)


def _options(error: ErrorDetails) -> list[str]:
    return [quoted or plain for quoted, plain in re.findall(r"'([^']*)'|([\w.+-]+)(?=,| or |$)", _expected(error))]


def _expected(error: ErrorDetails) -> str:
    return str(error.get("ctx", {}).get("expected", ""))


def _other(name: str, error: ErrorDetails) -> str | None:
    kind, context = error["type"], error.get("ctx", {})
    if _wanted(error):
        return None
    if kind in _LENGTHS:
        key, words, things = _LENGTHS[kind]
        if context[key] == 1 and words == "at least":
            return f"{name} is empty. Give it a value, or remove the field if it has a default."
        return f"{name} must have {words} {context[key]} {things}."
    if kind in ("value_error", "assertion_error"):
        message = str(context.get("error") or error["msg"])
        return f"{name}: {message}" if message.endswith("?") else f"{name}: {message}."
    if kind == "string_pattern_mismatch":
        return f"{name} must match the pattern {context['pattern']}, but {show(error['input'])} does not."
    message = error["msg"]
    return f"{name} is not valid: {message[:1].lower()}{message[1:]}; it is {show(error['input'])}."


def _fix(wanted: list[str], found: Sequence[ErrorDetails], value: object) -> str:
    if "text" in wanted and isinstance(value, bool | int | float):
        return " Put it in quotes."
    if _LIST in wanted and isinstance(value, str):
        return f" Write it in brackets: [{value}]." if len(value) < 60 else " Write it in brackets."
    if (share := _as_share(found, value)) is not None:
        return f" Did you mean {share:.12g}?"
    options = [option for error in found for option in _options(error)]
    if options and isinstance(value, str) and (near := nearest(value, options)):
        return f" Did you mean {near}?"
    return ""


LEAST_PERCENTAGE = 10
"""A number of at least this is probably a percentage; a smaller one may be anything."""


def _as_share(found: Sequence[ErrorDetails], value: object) -> float | None:
    """The share that a percentage probably means: for a number, if the field goes up to 1 and a hundredth of the number
    is within its bounds; for text such as 5%, whatever the bounds.
    """
    if isinstance(value, str) and (percentage := _PERCENTAGE.fullmatch(value)):
        return float(percentage[1]) / 100 if any(_wanted(error) == _NUMBER for error in found) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < LEAST_PERCENTAGE:
        return None
    share = value / 100
    for error in found:
        limit = error.get("ctx", {}).get(_UPPER.get(error["type"], ""))
        if limit is not None and limit <= 1 and (share < limit or (share == limit and error["type"] != "less_than")):
            return share
    return None
