"""The language of rules: its syntax, its meaning, and its error messages."""

import math
import operator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.stages.shared.expressions import MOST_NESTED, parse_rule, parse_value
from gristmill.stages.shared.vectors import ColumnVectors

ROWS: list[dict[str, Any]] = [
    {"a.n": 1, "b": 0.5, "t": "en", "f": True},
    {"a.n": 0, "b": None, "t": "de", "f": False},
    {"a.n": None, "b": 2.0, "t": None, "f": None},
    {"a.n": -3, "b": math.nan, "t": "", "f": True},
    {"a.n": 7, "b": 7.0, "t": "it's", "f": False},
]
SCHEMA = pa.schema([("a.n", pa.int32()), ("b", pa.float32()), ("t", pa.string()), ("f", pa.bool_())])
BATCH = pa.RecordBatch.from_pylist(ROWS, SCHEMA)


def matches(condition: str, batch: pa.RecordBatch = BATCH) -> list[bool]:
    rule = parse_rule(f"{condition} -> reason")
    return list(np.broadcast_to(rule.condition.run(ColumnVectors(batch)).data, batch.num_rows))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a.n > 0", [True, False, False, False, True]),
        ("a.n >= 0", [True, True, False, False, True]),
        ("not a.n >= 0", [False, False, False, True, False]),
        ("a.n != 1", [False, True, False, True, True]),
        ("a.n == b", [False, False, False, False, True]),
        ("b < 1", [True, False, False, False, False]),
        ("b is null", [False, True, False, True, False]),
        ("b is not null", [True, False, True, False, True]),
        ('t == "en"', [True, False, False, False, False]),
        ('t != "en"', [False, True, False, True, True]),
        ('t in ["en", "de"]', [True, True, False, False, False]),
        ('t not in ["en", "de"]', [False, False, False, True, True]),
        ("t in ['']", [False, False, False, True, False]),
        ('t == "it\'s"', [False, False, False, False, True]),
        ('t > "d"', [True, True, False, False, True]),
        ("a.n in [1, -3]", [True, False, False, True, False]),
        ("f", [True, False, False, True, False]),
        ("not f", [False, True, False, False, True]),
        ("f == false", [False, True, False, False, True]),
        ("f or a.n is null", [True, False, True, True, False]),
        ("a.n > 0 or b > 1", [True, False, True, False, True]),
        ("a.n > 0 and b > 1", [False, False, False, False, True]),
        ("not (a.n > 0 and b > 1)", [True, True, False, True, False]),
        ("a.n + 1 == 2 * 1", [True, False, False, False, False]),
        ("-a.n > 2", [False, False, False, True, False]),
        ("1 - 2 - a.n == -2", [True, False, False, False, False]),
        ("10 / a.n > 5", [True, False, False, False, False]),
        ("10 / a.n == 0", [False, True, False, False, False]),
        ("(a.n) > (0)", [True, False, False, False, True]),
        ("a.n > .5e0", [True, False, False, False, True]),
    ],
)
def test_conditions_mean_what_they_say(condition: str, expected: list[bool]) -> None:
    """With a missing value, a comparison holds for no row, also under `not`; dividing by 0 gives 0."""
    assert matches(condition) == expected


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("words > -> few", 9, "a column, a number, a text in quotes or ("),
        ("words > 5", 10, "-> and the reason"),
        ("words > 5 ->", 13, "the reason"),
        ("words > 5 -> a b", 16, "the end"),
        ("words > 5 -> 7", 14, "the reason"),
        ("words > 5 -> a.b", 17, "without dots"),
        ("words > 5 and -> a", 15, "a column"),
        ("words > 5 and 6 -> a", 15, "a comparison"),
        ("words < 5 < 6 -> a", 11, "two sides"),
        ("(words > 5 -> a", 12, "an operator or )"),
        ("words in 5 -> a", 10, "["),
        ("words in [5 -> a", 13, ", or ]"),
        ("words in [other] -> a", 11, "a number or a text in quotes"),
        ("words is 5 -> a", 10, "null"),
        ("words + 'a' > 5 -> a", 9, "a number or a column"),
        ("words ? 5 -> a", 7, "not understood"),
        ("words == 'a -> a", 10, "no closing quote"),
        ("words = 5 -> a", 7, "not understood"),
        ("", 1, "a column"),
    ],
)
def test_mistakes_have_their_position_and_what_was_expected(text: str, position: int, expected: str) -> None:
    """The position is that of the first invalid character."""
    with pytest.raises(ValueError) as caught:
        parse_rule(text)
    assert f"character {position}:" in str(caught.value)
    assert expected in str(caught.value)


def test_a_rule_names_a_column_and_is_a_condition() -> None:
    """A rule that is the same for every document, or has no truth value, is refused, at the latest with the first
    batch.
    """
    with pytest.raises(ValueError, match="names no column"):
        parse_rule("1 < 2 -> always")
    with pytest.raises(UserError, match=r"a\.n is not a condition"):
        matches("a.n")
    with pytest.raises(UserError, match="compares a text with a number"):
        matches("t > 5")


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    """A rule is limited in depth and length."""
    for opening in ("(", "not ", "-"):
        with pytest.raises(ValueError, match=f"at most {MOST_NESTED}"):
            parse_rule(opening * 400 + "a > 1 -> r")
    with pytest.raises(ValueError, match="characters"):
        parse_rule("a > 1 and " * 900 + "a > 1 -> r")


def test_columns_are_listed_in_order_and_once() -> None:
    """The columns that a rule reads follow from its text."""
    rule = parse_rule('signals.words > 5 and (a < 1 or signals.words < b.c) and t in ["x"] -> reason')
    assert rule.condition.columns == ("signals.words", "a", "b.c", "t")
    assert rule.reason == "reason"
    assert parse_value("a / (b.c - d)").columns == ("a", "b.c", "d")


# An expression as text together with a plain function of a row: None is unknown.
Pair = tuple[str, Any]
SIGNS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def _number(row: dict[str, Any], name: str) -> float | None:
    value = row[name]
    return None if value is None or math.isnan(value) else float(value)


def _lift(function: Any, *parts: Any) -> Any:
    def run(row: dict[str, Any]) -> Any:
        values = [part(row) for part in parts]
        return None if None in values else function(*values)

    return run


LEAVES: st.SearchStrategy[Pair] = st.one_of(
    st.integers(-9, 9).map(lambda n: (f"({n})", lambda row: float(n))),
    st.sampled_from(["a.n", "b"]).map(lambda name: (name, lambda row: _number(row, name))),
)
NUMBERS = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from("+-*/"), inner, inner).map(
        lambda x: (
            f"({x[1][0]} {x[0]} {x[2][0]})",
            _lift(
                {
                    "+": operator.add,
                    "-": operator.sub,
                    "*": operator.mul,
                    "/": lambda p, q: p / q if q else 0.0,
                }[x[0]],
                x[1][1],
                x[2][1],
            ),
        )
    ),
    max_leaves=4,
)


def _both(first: Any, second: Any) -> Any:
    def run(row: dict[str, Any]) -> bool | None:
        values = (first(row), second(row))
        return False if False in values else None if None in values else True

    return run


def _either(first: Any, second: Any) -> Any:
    def run(row: dict[str, Any]) -> bool | None:
        values = (first(row), second(row))
        return True if True in values else None if None in values else False

    return run


COMPARISONS = st.tuples(st.sampled_from(sorted(SIGNS)), NUMBERS, NUMBERS).map(
    lambda x: (f"{x[1][0]} {x[0]} {x[2][0]}", _lift(SIGNS[x[0]], x[1][1], x[2][1]))
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        inner.map(lambda x: (f"not ({x[0]})", _lift(operator.not_, x[1]))),
        st.tuples(inner, inner).map(lambda x: (f"({x[0][0]}) and ({x[1][0]})", _both(x[0][1], x[1][1]))),
        st.tuples(inner, inner).map(lambda x: (f"({x[0][0]}) or ({x[1][0]})", _either(x[0][1], x[1][1]))),
    ),
    max_leaves=5,
)


@given(CONDITIONS)
@pytest.mark.slow
def test_any_condition_equals_its_evaluation_row_by_row(pair: Pair) -> None:
    """Whole columns at once give the result of three-valued logic for each row."""
    text, run = pair
    rows = BATCH.to_pylist()
    assert matches(f"({text}) or (a.n is null and a.n is not null)") == [run(row) is True for row in rows]
