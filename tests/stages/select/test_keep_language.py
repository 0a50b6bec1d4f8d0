"""Verdicts by language."""

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gristmill.stages.select.keep_language import Config, apply, metrics, warnings

ROWS = [("en", 0.9), ("en", 0.6), ("de", 0.93), ("de", 0.3), ("fr", 0.99), ("fr", 0.1), (None, None), ("en", 0.65)]


def batch(rows: list[tuple[str | None, float | None]] = ROWS) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([label for label, _ in rows], pa.string()),
            pa.array([probability for _, probability in rows], pa.float32()),
            pa.array(range(10, 10 + len(rows)), pa.int64()),
        ],
        names=["language.label", "language.probability", "text_bytes"],
    )


X, U = "other_language", "unsure_language"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"keep": {"en": 0.62, "de": 0.5}}, [None, U, None, U, X, X, U, None]),
        ({"keep": ["en", "de"], "min_probability": 0.5}, [None, None, None, U, X, X, U, None]),
        ({"keep": ["EN"]}, [None, None, X, X, X, X, U, None]),
        ({"min_probability": 0.5}, [None, None, None, U, None, U, U, None]),
        ({"keep": {"en": 0.95}, "other": "keep"}, [U, U, None, None, None, None, U, U]),
        (
            {"keep": {"en": 0.95, "de": None}, "other": "keep", "min_probability": 0.2},
            [U, U, None, None, None, U, U, U],
        ),
    ],
)
def test_a_language_is_kept_above_its_probability(written: dict[str, Any], expected: list[str | None]) -> None:
    """A language's own threshold comes before the common one; a document without a label is never kept."""
    answers = apply(batch(), Config.model_validate(written))
    assert answers["drop"].to_pylist() == expected
    assert [detail is not None for detail in answers["detail"].to_pylist()] == [drop is not None for drop in expected]


def test_a_probability_equal_to_the_threshold_is_kept() -> None:
    """The bound is inclusive."""
    config = Config.model_validate({"keep": {"en": 0.5}})
    assert apply(batch([("en", 0.5), ("en", 0.4999)]), config)["drop"].to_pylist() == [None, U]


def test_detail_has_language_and_probability() -> None:
    """`inspect` shows the result of the classifier."""
    answers = apply(batch(), Config.model_validate({"keep": {"en": 0.62}}))
    assert answers["detail"].to_pylist() == [None, "en 0.6", "de 0.93", "de 0.3", "fr 0.99", "fr 0.1", "no words", None]


def test_slices_give_the_same_rows() -> None:
    """The verdict of a document does not depend on others."""
    config = Config.model_validate({"keep": {"en": 0.62, "de": 0.5}})
    whole = apply(batch(), config).to_pylist()
    assert [row for at in range(8) for row in apply(batch().slice(at, 1), config).to_pylist()] == whole


def test_settings_without_effect_are_warnings() -> None:
    """Counts are by language and verdict; a language without documents and a filter without effect are warnings."""
    config = Config.model_validate({"keep": {"en": 0.62, "nl": 0.5}})
    found = metrics(batch(), apply(batch(), config), config)
    assert found["languages"]["en"] == {
        "kept": {"documents": 2, "text_bytes": 27},
        U: {"documents": 1, "text_bytes": 11},
    }
    assert found["languages"]["(none)"] == {U: {"documents": 1, "text_bytes": 16}}
    assert warnings(found, config) == ["no document is in nl"]
    only = batch([("en", 0.9)])
    assert warnings(metrics(only, apply(only, config), config), config) == [
        "no document is in nl",
        "no document was dropped",
    ]
    assert not warnings({"languages": {}}, config)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({}, "keeps every document"),
        ({"keep": ["en"], "other": "keep"}, "keeps every document"),
        ({"keep": {"en": 1.5}}, "less than or equal to 1"),
        ({"keep": {"en": 0.5, "EN": 0.6}}, "twice"),
        ({"keep": ["en"], "other": "maybe"}, "drop"),
    ],
)
def test_a_contradictory_config_is_refused(written: dict[str, Any], message: str) -> None:
    """A config without effect, or with a contradiction, is an error before any work."""
    with pytest.raises(ValidationError, match=message):
        Config.model_validate(written)
