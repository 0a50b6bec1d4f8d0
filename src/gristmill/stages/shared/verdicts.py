"""Applies rules to a batch: every rule that each document fails, and the first of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.contract import StageConfig
from gristmill.stages.natural_languages import rows_by_label
from gristmill.stages.shared import expressions
from gristmill.stages.shared.rule import (
    EXCEPTIONS,
    Exceptions,
    Languages,
    Rule,
    exceptions_of,
    for_label,
    formula,
    is_on,
    places,
    stated_in,
    thresholds,
)
from gristmill.stages.shared.vectors import COMPARE, ColumnVectors, Vector


class RuleSet(NamedTuple):
    """A published set with the thresholds of a recipe."""

    rules: tuple[Rule, ...]
    """The rules that are on."""
    config: StageConfig
    language: str
    """The column of `by_language`."""
    languages: Languages
    """The set's own thresholds for languages other than English."""

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(rule.reason for rule in self.rules)

    @property
    def exceptions(self) -> dict[str, str]:
        """The fields with exceptions for these rules, and their columns."""
        stated = {rule.threshold for rule in self.rules}
        return {
            field: self.language if field == "by_language" else column
            for field, column in EXCEPTIONS.items()
            if any(stated & one.model_fields_set for one in exceptions_of(self.config, field).values())
        }

    @property
    def columns(self) -> tuple[str, ...]:
        named = [name for rule in self.rules for name in formula(rule.value).columns]
        return (*named, *self.exceptions.values())


def rule_set(rules: Sequence[Rule], config: StageConfig, language: str, languages: Languages) -> RuleSet:
    return RuleSet(tuple(rule for rule in rules if is_on(config, rule.threshold)), config, language, languages)


Group = RuleSet | Sequence[expressions.OwnRule]
"""A set, or the recipe's own rules."""


def reasons_of(groups: Sequence[Group]) -> list[str]:
    """The reasons of all rules that are on, in the order in which they are applied."""
    return [
        reason
        for group in groups
        for reason in (group.reasons if isinstance(group, RuleSet) else [rule.reason for rule in group])
    ]


class Failing(NamedTuple):
    """The result of one rule for a batch."""

    reason: str
    fails: npt.NDArray[np.bool_]
    left: Sequence[tuple[str, Vector]]
    """Named values that explain the result: the value of the rule's formula, or those of an own rule's columns."""
    sign: str
    threshold: Any
    """None for an own rule and for a flag, whose name is enough."""


def failing(group: Group, columns: ColumnVectors) -> list[Failing]:
    if not isinstance(group, RuleSet):
        return [_own(rule, columns) for rule in group]
    exceptions = _exceptions(group, columns.batch)
    return [_published(rule, group.config, exceptions, columns) for rule in group.rules]


def _exceptions(group: RuleSet, batch: pa.RecordBatch) -> list[Exceptions]:
    found = []
    if group.language in batch.schema.names and (group.languages or "by_language" in group.exceptions):
        labels, place = rows_by_label(batch.column(group.language))
        found.append(Exceptions([for_label(group.config, group.languages, label) for label in labels], place))
    for field, column in group.exceptions.items():
        if field != "by_language":
            named = exceptions_of(group.config, field)
            place = places(batch.column(column), list(named), fold=field != "by_source")
            found.append(Exceptions([stated_in(one) for one in named.values()], place))
    return found


def _published(rule: Rule, config: StageConfig, exceptions: Sequence[Exceptions], columns: ColumnVectors) -> Failing:
    value = formula(rule.value).run(columns)
    threshold = thresholds(config, rule.threshold, exceptions)
    fails = COMPARE[rule.fails](value.data, threshold)
    if value.valid is not None:
        fails &= value.valid
    flag = isinstance(getattr(config, rule.threshold), bool)
    name = rule.value.replace("code_signals.", "").replace("signals.", "")
    return Failing(rule.reason, fails, [(name, value)], rule.fails, None if flag else threshold)


def _own(rule: expressions.OwnRule, columns: ColumnVectors) -> Failing:
    fails = np.broadcast_to(rule.condition.run(columns).data, columns.rows)
    return Failing(rule.reason, fails, [(name, columns[name]) for name in rule.condition.columns], "", None)


def first_of(failings: Sequence[Failing], rows: int) -> npt.NDArray[np.int16]:
    """For each row the index of the first rule that it fails, or -1."""
    first = np.full(rows, -1, np.int16)
    for place in range(len(failings) - 1, -1, -1):
        first[failings[place].fails] = place
    return first


def all_of(failings: Sequence[Failing], first: npt.NDArray[np.int16]) -> pa.Array:
    """For each row the reasons of every rule that it fails, in order."""
    dropped = np.flatnonzero(first >= 0)
    counts = np.zeros(len(first) + 1, np.int32)
    if not len(dropped):
        return pa.ListArray.from_arrays(pa.array(counts), pa.array([], pa.string()))
    table = np.stack([one.fails[dropped] for one in failings], axis=1)
    counts[dropped + 1] = table.sum(axis=1)
    reasons = pa.array([one.reason for one in failings], pa.string())
    found = reasons.take(pa.array(np.nonzero(table)[1]))
    return pa.ListArray.from_arrays(pa.array(np.cumsum(counts, dtype=np.int32)), found)


def describe(failings: Sequence[Failing], first: npt.NDArray[np.int16]) -> pa.Array:
    """For each row that fails, the value and the threshold of its first rule: `words = 12 < 50`."""
    places_of = np.full(len(first), -1, np.int64)
    details = []
    count = 0
    for place, one in enumerate(failings):
        rows = np.flatnonzero(first == place)
        if len(rows):
            places_of[rows] = np.arange(count, count + len(rows))
            details.append(_words(one, rows))
            count += len(rows)
    if not details:
        return pa.nulls(len(first), pa.string())
    return pa.concat_arrays(details).take(pa.array(places_of, mask=places_of < 0))


def _words(one: Failing, rows: npt.NDArray[np.int64]) -> pa.Array:
    pieces: list[Any] = []
    for name, value in one.left:
        pieces += [f"{', ' if pieces else ''}{name} = ", _shown(value, rows)]
    if one.threshold is not None:
        same = np.ndim(one.threshold) == 0
        shown = _shown_numbers([one.threshold])[0] if same else _shown_numbers(one.threshold[rows])
        pieces += [f" {one.sign} ", shown]
    return pc.binary_join_element_wise(*pieces, "")


def _shown(value: Vector, rows: npt.NDArray[np.int64]) -> Any:
    if value.kind == "text":
        return value.data.take(pa.array(rows)).cast(pa.string()).fill_null("null")
    if value.kind == "truth":
        shown = pc.if_else(pa.array(value.data[rows]), "true", "false")
    else:
        shown = _shown_numbers(value.data[rows])
    return shown if value.valid is None else pc.if_else(pa.array(value.valid[rows]), shown, "null")


_NO_FRACTION = 2.0**53
"""From here on every double is an integer; the largest cannot be rounded at all."""


def _shown_numbers(values: object) -> Any:
    """Up to six decimals: 12, 0.25, 0.333333."""
    numbers = pa.array(np.ascontiguousarray(values))
    if not pa.types.is_floating(numbers.type):
        return numbers.cast(pa.string())
    small = pc.less(pc.abs(numbers), _NO_FRACTION)
    return pc.if_else(small, pc.round(pc.if_else(small, numbers, 0.0), 6), numbers).cast(pa.string())
