"""The filters of the list, as they are in an address."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from gristmill.errors import UserError
from gristmill_explore.index import DocumentIndex

KEPT, REMOVED = "kept", "removed"
NONE = "(none)"
"""A missing language."""
_CONDITIONS = {
    "source": "source = ?",
    "step": "step = ?",
    "reason": "reason = ?",
    "url": "contains(lower(url), lower(?))",
    "cluster": "cluster = try_cast(? as uuid)",
    "was_step": "doc_id in (select doc_id from before where step = ?)",
    "was_reason": "doc_id in (select doc_id from before where reason = ?)",
}
_CHOICES: Mapping[str, Mapping[str, str]] = {
    "verdict": {KEPT: "reason is null", REMOVED: "reason is not null"},
    "label": {
        "good": "doc_id in (select doc_id from labels where is_good)",
        "bad": "doc_id in (select doc_id from labels where not is_good)",
        "none": "doc_id not in (select doc_id from labels)",
    },
    "change": {
        "added": "reason is null and doc_id not in (select doc_id from before where reason is null)",
        "removed": "reason is not null and doc_id in (select doc_id from before where reason is null)",
        "other reason": (
            "reason is not null and doc_id in (select b.doc_id from before b where b.reason is not null and "
            "(b.step, b.reason) is distinct from (documents.step, documents.reason))"
        ),
    },
    "side": {name: f"number in (select number from affected where side = '{name}')" for name in ("come", "go")},
}
"""Fields with fixed values -> the condition of each."""


@dataclass(frozen=True)
class DocumentFilter:
    """Which documents the list shows; an empty field is no condition."""

    source: str = ""
    verdict: str = ""
    step: str = ""
    reason: str = ""
    language: str = ""
    score: str = ""
    """The title of a measure, whose value is at least `low` and at most `high`."""
    low: str = ""
    high: str = ""
    url: str = ""
    """A part of the URL, in any case."""
    text: str = ""
    """A part of the text, in any case. The list searches it; the index has no texts."""
    label: str = ""
    change: str = ""
    """What changed since the other version."""
    was_step: str = ""
    """The step that dropped it in the other version."""
    was_reason: str = ""
    cluster: str = ""
    through: str = ""
    """The id of a step that its source goes through."""
    side: str = ""
    """Whether the last what-if adds the document, or removes it."""
    order: str = ""
    """`shuffled` for a random order, which is the same every time."""

    @classmethod
    def of(cls, values: Mapping[str, str]) -> "DocumentFilter":
        """The filter in an address. Other parts of the address are left alone."""
        return cls(**{one.name: values.get(one.name, "").strip() for one in fields(cls)})

    def address(self, **more: object) -> str:
        """The filter as part of an address."""
        return urlencode({name: value for name, value in {**asdict(self), **more}.items() if value not in ("", None)})

    def without(self, *names: str) -> "DocumentFilter":
        return replace(self, **dict.fromkeys(names, ""))

    @property
    def is_shuffled(self) -> bool:
        return self.order == "shuffled"

    def condition(self, index: DocumentIndex) -> tuple[str, list[Any]]:
        """A condition in SQL and its values, which are never part of the SQL."""
        found, values = ["true"], []
        for name, condition in _CONDITIONS.items():
            if given := getattr(self, name):
                found.append(condition)
                values.append(given)
        if self.through:
            found.append("list_contains(?, source)")
            values.append([source for source, steps in index.view.chains.items() if self.through in steps])
        if self.language:
            found.append("language is null" if self.language == NONE else "language = ?")
            values += [] if self.language == NONE else [self.language]
        for name, choices in _CHOICES.items():
            if given := getattr(self, name):
                if given not in choices:
                    raise UserError(f"{name} is {given}, but must be one of: {', '.join(choices)}.")
                found.append(f"({choices[given]})")
        if self.score:
            within = ["true"]
            for name, sign in (("low", ">="), ("high", "<=")):
                if given := getattr(self, name):
                    within.append(f"value {sign} ?")
                    values.append(_number(given))
            scores = f"select number from {index.scores(self.score)} where {' and '.join(within)}"
            found.append(f"hidden is null and number in ({scores})")
        return " and ".join(found), values


def _number(given: str) -> float:
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise UserError(f"{given} is not a number, so the range cannot be used. Write digits, such as 0.5.")
    return number
