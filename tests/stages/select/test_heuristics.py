"""Verdicts over columns equal those of plain Python, in any slices and with any thresholds."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gristmill.engine.work.task import add_counts
from gristmill.stages.measure import code_signals, signals
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.select import heuristics
from gristmill.stages.select.heuristics import SETS, Config, apply, groups, may_read, metrics, reads, warnings
from gristmill.stages.select.rules import gopher_quality
from gristmill.stages.shared.verdicts import reasons_of

ALL = ("gopher_repetition", "gopher_quality", "c4", "fineweb", "code")
"""The rule sets over signals of a text; `faithful` is tested with its step."""
NAMES = ("en", "de", "ZH", None)
HINTS = ("JSON", "Python", "JavaScript", "HTML", "Zig", None)


def documents(rows: int, seed: int = 0, missing: float = 0.1) -> pa.RecordBatch:
    """Random columns of every kind that rules read, with small numbers so that ties with thresholds occur."""
    draw = np.random.default_rng(seed)
    gone = draw.random(rows) < missing
    columns: dict[str, Any] = {}
    for prefix, schema in (("signals", signals.SCHEMA), ("code_signals", code_signals.SCHEMA)):
        for field in schema:
            if pa.types.is_boolean(field.type):
                column = pa.array(draw.random(rows) < 0.1, mask=gone)
            elif pa.types.is_string(field.type):
                column = pa.array(draw.choice(["py", "xslt", "json"], rows), mask=gone)
            else:
                top = draw.choice([2, 12, 120, 1200, 10**6], rows)
                values = draw.integers(0, top).astype(np.float64)
                column = pa.array(values, mask=gone | (draw.random(rows) < 0.02)).cast(field.type)
            columns[f"{prefix}.{field.name}"] = column
    pick = lambda options: pa.array([options[k] for k in draw.integers(0, len(options), rows)], pa.string())  # noqa: E731
    columns["language.label"] = pick(NAMES)
    columns["language_hint"] = pick(HINTS)
    columns["source"] = pick(("wiki", "cc"))
    columns["snapshot"] = pick(("2024-10", None))
    columns["text_bytes"] = pa.array(draw.integers(0, 10**6, rows), pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def value_of(text: str, row: dict[str, Any]) -> float | None:
    """The formula of a rule, evaluated by Python; None if a column is missing, 0 if the divisor is 0."""
    names = {part for part in text.replace("(", " ").replace(")", " ").split() if part[0].isalpha()}
    if any(row[name] is None for name in names):
        return None
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, repr(float(row[name])))
    try:
        return float(eval(text, {"__builtins__": {}}))
    except ZeroDivisionError:
        return 0.0


def failures(config: Config, row: dict[str, Any]) -> list[str]:
    """The oracle: every rule that a document fails, in order."""
    found = []
    for name in config.rules:
        own = getattr(config, name)
        language = row[SETS[name].language]
        for rule in SETS[name].rules(own):
            threshold = getattr(own, rule.threshold)
            if threshold == type(own).model_fields[rule.threshold].default and (language or "en").lower() != "en":
                for key in ("*", str(language).lower()):
                    threshold = SETS[name].languages.get(key, {}).get(rule.threshold, threshold)
            said = [
                (own.by_language, language and language.lower()),
                (getattr(own, "by_extension", {}), row["code_signals.extension"]),
                (own.by_source, row["source"]),
            ]
            for exceptions, key in said:
                if key in exceptions and rule.threshold in exceptions[key].model_fields_set:
                    threshold = getattr(exceptions[key], rule.threshold)
            value = value_of(rule.value, row)
            if value is None or threshold is None or threshold is False:
                continue
            threshold = 0 if threshold is True else threshold
            if value < threshold if rule.fails == "<" else value > threshold:
                found.append(rule.reason)
    return found


EXCEPTIONAL = {
    "rules": ["code", "gopher_quality", "fineweb"],
    "gopher_quality": {
        "min_words": 30,
        "max_words": None,
        "by_language": {"zh": {"min_words": 5, "min_stop_words": None}, "de": {"max_words": 50}},
        "by_source": {"wiki": {"min_words": 100, "max_words": 70}},
    },
    "c4": {"terminal_punctuation": False, "curly_bracket": None, "by_language": {"EN": {"curly_bracket": True}}},
    "code": {"by_language": {"json": {"max_chars": 100}}, "by_source": {"cc": {"xml_header": False}}},
}


@pytest.mark.parametrize(
    "written",
    [*({"rules": [name]} for name in ALL), {"rules": list(ALL)}, EXCEPTIONAL],
    ids=[*ALL, "all", "exceptional"],
)
def test_verdicts_equal_those_of_plain_python(written: dict[str, Any]) -> None:
    """Each document alone, rule by rule, gives the same failures; exceptions by source override those by language."""
    config = Config.model_validate(written)
    batch = documents(200, seed=len(str(written)))
    columns = dict.fromkeys([*reads(config), *may_read(config)])
    answers = apply(batch.select(list(columns)), config).to_pylist()
    for row, answer in zip(batch.to_pylist(), answers, strict=True):
        expected = failures(config, row)
        assert answer["failed"] == expected
        assert answer["drop"] == (expected[0] if expected else None)
        assert (answer["detail"] is None) == (not expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 60), max_size=4))
def test_slices_give_the_same_rows(seed: int, cuts: list[int]) -> None:
    """The verdict and detail of a document do not depend on other documents."""
    batch = documents(60, seed)
    config = Config.model_validate({**EXCEPTIONAL, "own": ['signals.words > 3 and language.label == "en" -> mine']})
    ends = sorted({0, *cuts, 60})
    pieces = [apply(batch.slice(a, b - a), config) for a, b in pairwise(ends)]
    assert pa.Table.from_batches(pieces).to_pylist() == apply(batch, config).to_pylist()


@pytest.mark.parametrize("name", ALL)
def test_switching_a_rule_off_removes_it_and_changes_nothing_else(name: str) -> None:
    """`null` removes a rule from every `failed`; the others stay the same, in their order."""
    batch = documents(300, seed=5)
    config = Config.model_validate({"rules": [name]})
    own = getattr(config, name)
    before = apply(batch, config)["failed"].to_pylist()
    for rule in groups(config)[0].rules:
        off: dict[str, Any] = {rule.threshold: None}
        for field in ("by_language", "by_extension"):
            stated = getattr(own, field, {})
            off[field] = {
                key: {rule.threshold: None} for key, one in stated.items() if rule.threshold in one.model_fields_set
            }
        changed = Config.model_validate({name: {key: value for key, value in off.items() if value != {}}})
        assert rule.reason not in reasons_of(groups(changed))
        after = apply(batch, changed)["failed"].to_pylist()
        assert after == [[reason for reason in failed if reason != rule.reason] for failed in before]
        assert any(rule.reason in failed for failed in before)


def test_rows_without_text_get_no_verdict() -> None:
    """Null signals fail no rule."""
    batch = documents(50, missing=1.0)
    config = Config.model_validate({"rules": list(ALL), "own": ["not signals.words > 5 -> short"]})
    answers = apply(batch, config)
    assert answers["drop"].null_count == 50
    assert answers["failed"].to_pylist() == [[]] * 50


def test_detail_names_value_and_threshold() -> None:
    """The detail has the value and the threshold, also for an exception and for the recipe's own rule."""
    row = {name: 10**5 for name in documents(1).schema.names if name.startswith("signals")}
    batch = documents(3, missing=0).to_pylist()
    for number, one in enumerate(batch):
        one.update(row, **{"signals.words": 12 + number, "signals.stop_words": 1, "signals.xml_header": True})
        one.update({"language.label": ("en", "zh", "en")[number], "source": "cc"})
    made = pa.RecordBatch.from_pylist(batch, documents(1).schema)
    only = dict.fromkeys(gopher_quality.GopherQualityThresholds.model_fields)
    quality = {**only, "min_words": 50, "by_language": {"zh": {"min_words": 20}}}
    assert apply(made, Config.model_validate({"gopher_quality": quality}))["detail"].to_pylist() == [
        "words = 12 < 50",
        "words = 13 < 20",
        "words = 14 < 50",
    ]
    own = ['signals.words / 7 > 2 - 1 and language.label != "zh" and signals.xml_header -> mine']
    assert apply(made, Config.model_validate({"own": own}))["detail"].to_pylist() == [
        "signals.words = 12, language.label = en, signals.xml_header = true",
        None,
        "signals.words = 14, language.label = en, signals.xml_header = true",
    ]
    third = Config.model_validate({"fineweb": {"max_newlines_per_token": 0.3, "max_short_lines_share": None}})
    made = made.set_column(made.schema.get_field_index("signals.newlines"), "signals.newlines", pa.array([3, 1, 2]))
    made = made.set_column(made.schema.get_field_index("signals.tokens"), "signals.tokens", pa.array([3, 3, 3]))
    made = made.set_column(
        made.schema.get_field_index("signals.dup_line_chars"), "signals.dup_line_chars", pa.array([0, 0, 0])
    )
    assert apply(made, third)["detail"].to_pylist() == [
        "newlines / tokens = 1 > 0.3",
        "newlines / tokens = 0.333333 > 0.3",
        "newlines / tokens = 0.666667 > 0.3",
    ]


@pytest.mark.parametrize("threshold", [1e15, 1e300, 1.7976931348623157e308])
def test_a_threshold_too_large_to_be_rounded_is_shown_as_it_is(threshold: float) -> None:
    """Formatting the detail of a verdict must not overflow."""
    only = dict.fromkeys(gopher_quality.GopherQualityThresholds.model_fields)
    config = Config.model_validate({"gopher_quality": {**only, "min_mean_word_chars": threshold}})
    details = apply(documents(20, missing=0), config)["detail"].drop_null().to_pylist()
    assert details
    assert all(float(detail.rpartition("< ")[2]) == threshold for detail in details)


def test_the_order_is_that_of_the_config() -> None:
    """`rules` first, then the sets with thresholds in their order; the config has the order, so that the task key has
    it.
    """
    assert Config.model_validate({"rules": ["fineweb", "c4"]}).rules == ("fineweb", "c4")
    written = Config.model_validate({"own": ["text_bytes > 1 -> x"], "fineweb": {}, "c4": {}, "rules": ["c4"]})
    assert written.rules == ("c4", "own", "fineweb")
    batch = documents(300, seed=1)
    there = apply(batch, Config.model_validate({"rules": ["c4", "fineweb"]}))["failed"].to_pylist()
    back = apply(batch, Config.model_validate({"rules": ["fineweb", "c4"]}))["failed"].to_pylist()
    assert there != back
    assert [sorted(one) for one in there] == [sorted(one) for one in back]


def test_a_config_survives_its_dump() -> None:
    """The task key uses the dump, which distinguishes set thresholds from defaults."""
    config = Config.model_validate({**EXCEPTIONAL, "own": ["text_bytes > 1 -> x"]})
    again = Config.model_validate(config.model_dump(mode="json"))
    assert again == config
    assert again.model_dump(mode="json") == config.model_dump(mode="json")
    batch = documents(200, seed=2)
    assert apply(batch, again).equals(apply(batch, config))
    base = {"gopher_quality": {"max_words": 7, "by_language": {"zh": {"min_words": 5}}}}
    full = {"gopher_quality": {"max_words": 7, "by_language": {"zh": {"min_words": 5, "max_words": 100_000}}}}
    dumps = [Config.model_validate(one).model_dump(mode="json") for one in (base, full)]
    assert dumps[0] != dumps[1]


def test_reads_are_those_of_the_rules_that_are_on() -> None:
    """A threshold that is off needs no column; languages are read only if a rule has exceptions by language."""
    only = dict.fromkeys(gopher_quality.GopherQualityThresholds.model_fields)
    one = Config.model_validate({"gopher_quality": {**only, "min_stop_words": 1}})
    assert reads(one) == ("signals.stop_words", "source", "snapshot", "text_bytes")
    idle = {**only, "min_stop_words": 1, "by_language": {"de": {"min_words": None}}}
    assert reads(Config.model_validate({"gopher_quality": idle})) == reads(one)
    some = {**only, "min_stop_words": 1, "by_language": {"de": {"min_stop_words": 3}}}
    assert "language.label" in reads(Config.model_validate({"gopher_quality": some}))
    counted = Config.model_validate({"gopher_quality": {**only, "min_stop_words": 1}, "count_by": []})
    assert reads(counted) == ("signals.stop_words", "text_bytes")
    own = Config.model_validate({"own": ["a.b > c -> x"], "count_by": ["language"]})
    assert reads(own) == ("a.b", "c", "language.label", "text_bytes")
    for name in ALL:
        missing = set(reads(Config.model_validate({"rules": [name]}))) - set(documents(1).schema.names)
        assert not missing


def test_metrics_count_alone_first_and_all_and_add_up_over_slices() -> None:
    """Counts equal those of a loop over documents, in all and by key; those of parts add up to the whole."""
    batch = documents(500, seed=3)
    by = ("source", "snapshot", "language", "language_hint")
    config = Config.model_validate({**EXCEPTIONAL, "count_by": by})
    answers = apply(batch, config)
    found = metrics(batch, answers, config)
    columns = {"language": "language.label"}
    for name in (None, *by):
        keys = ["all"] * 500 if name is None else batch[columns.get(name, name)].to_pylist()
        expected: dict[str, Any] = {}
        for key, failed, size in zip(keys, answers["failed"].to_pylist(), batch["text_bytes"].to_pylist(), strict=True):
            group = expected.setdefault(key if key is not None else "(none)", {"judged": {}, "rules": {}})
            counts = {"documents": 1, "text_bytes": size}
            add_counts(group["judged"], counts)
            for reason in failed:
                add_counts(group["rules"].setdefault(reason, {}).setdefault("all", {}), counts)
            if failed:
                add_counts(group["rules"][failed[0]].setdefault("first", {}), counts)
            if len(failed) == 1:
                add_counts(group["rules"][failed[0]].setdefault("alone", {}), counts)
        if name is None:
            assert {"judged": found["judged"], "rules": found["rules"]} == expected["all"]
        else:
            assert found[f"by_{name}"] == expected
    total: dict[str, Any] = {}
    for start, stop in ((0, 0), (0, 7), (7, 450), (450, 500)):
        piece = batch.slice(start, stop - start)
        add_counts(total, metrics(piece, apply(piece, config), config))
    assert total == found


def test_rules_that_no_document_failed_are_one_warning() -> None:
    """A rule without effect is named; a stage without documents does not warn."""
    config = Config.model_validate(
        {"own": ["text_bytes >= 0 -> every", "text_bytes < 0 -> none", "source == '' -> no"]}
    )
    batch = documents(20)
    found = metrics(batch, apply(batch, config), config)
    assert warnings(found, config) == ["own rule none, own rule no matched no document"]
    nothing = batch.slice(0, 0)
    assert not warnings(metrics(nothing, apply(nothing, config), config), config)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({}, "there is no rule"),
        ({"rules": []}, "there is no rule"),
        ({"rules": ["c4", "c4"]}, "lists c4 twice"),
        ({"rules": [{"c4": {}}]}, "Input should be"),
        ({"rules": ["own"]}, "no own rules"),
        ({"rules": ["c5"]}, "gopher_repetition"),
        ({"rules": ["c4"], "c4": None}, "c4 is empty"),
        ({"c4": None}, "c4 is empty"),
        ({"c4": {"min_sentences": None, "lorem_ipsum": False, "curly_bracket": None}}, "every rule is off"),
        ({"gopher_quality": {"min_wrods": 3}}, "min_wrods"),
        ({"gopher_quality": {"min_words": -1}}, "greater than or equal to 0"),
        ({"gopher_quality": {"by_language": {"de": {"min_wrods": 1}}}}, "min_wrods"),
        ({"gopher_quality": {"by_language": {"de": {}}}}, "de sets no threshold"),
        ({"gopher_quality": {"by_language": {"de": {"min_words": 1}, "DE": {"min_words": 2}}}}, "DE appears twice"),
        ({"own": ["words > 5"]}, "character 10"),
        ({"own": ["a > 5 -> x", "b > 5 -> x"]}, "two rules have the reason x"),
        ({"rules": ["c4"], "own": ["a > 5 -> lorem_ipsum"]}, "two rules have the reason lorem_ipsum"),
    ],
)
def test_a_contradictory_config_is_refused(written: dict[str, Any], message: str) -> None:
    """A config that would silently have no effect, or has two rules of one name, is an error before any work."""
    with pytest.raises(ValidationError) as caught:
        Config.model_validate(written)
    assert message in str(caught.value)


def test_reasons_are_unique_over_all_sets() -> None:
    """All sets together are a valid config: no two rules have the same reason."""
    reasons = reasons_of(groups(Config.model_validate({"rules": list(ALL)})))
    assert len(reasons) == len(set(reasons))
    assert all(reason.isidentifier() for reason in reasons)
    assert set(heuristics.SETS) == {*ALL, "documentation"}


@pytest.mark.parametrize("other", ["gopher_quality", "gopher_repetition"])
def test_the_rules_for_manuals_replace_those_of_gopher(other):
    """Both together would have each reason twice."""
    with pytest.raises(ValidationError, match=f"documentation replaces {other}. Remove {other}"):
        Config.model_validate({"rules": ["documentation", other]})


def test_the_rules_for_manuals_keep_a_page_of_signs_and_drop_what_gopher_drops():
    """A reference page has few words with letters; a page without words or of one line repeated is bad anywhere."""
    manual = "".join(
        f"### `read_{name}(path, *, size=-1)`\n\nReads the {name} of the file and returns it to the caller.\n\n"
        f"```py\nwith open('{name}.txt') as f: print(f.read_{name}(), f['{name}'])\n```\n\n"
        for name in ("bytes", "lines", "header", "owner", "times", "links", "flags", "blocks")
    )
    assert verdict_on(manual, "gopher_quality") == "too_few_letter_words"
    assert verdict_on(manual, "documentation") is None
    assert verdict_on(manual[:99], "documentation") == "too_few_words"
    assert verdict_on("the end of the page\n" * 50, "documentation") == "too_many_duplicate_lines"


def verdict_on(text: str, name: str) -> str | None:
    """The reason why a set drops a text."""
    config = Config(rules=(name,))
    found = signals.STAGE.apply(pa.RecordBatch.from_pydict({"text": [text]}), signals.Config())
    columns = {f"signals.{column}": found[column] for column in found.schema.names}
    more = {"source": pa.array(["a"]), "snapshot": pa.nulls(1, pa.string()), "text_bytes": pa.array([len(text)])}
    (reason,) = apply(pa.RecordBatch.from_pydict({**columns, **more}), config)["drop"].to_pylist()
    return reason


def test_a_field_that_does_not_exist_is_named_before_the_missing_rules():
    """`drop: [c4]` is a wrong field name; the missing rules only follow from it."""
    with pytest.raises(ValidationError, match="drop"):
        Config.model_validate({"drop": ["c4"]})


def test_a_threshold_that_replaces_those_of_other_languages_is_a_warning() -> None:
    """A looser limit for English may drop Japanese documents, which have their own threshold; one for `en` does not."""
    changed = Config.model_validate({"gopher_quality": {"min_mean_word_chars": 2.5}})
    batch = documents(20)
    batch = batch.set_column(batch.schema.get_field_index(LABEL), LABEL, pa.array(["ja", "en", None, "en"] * 5))
    found = metrics(batch, apply(batch, changed), changed)
    assert found["not_english"] == 5
    (warned,) = [one for one in warnings(found, changed) if "matched no" not in one]
    assert warned.startswith(
        "your value of gopher_quality.min_mean_word_chars also replaces the thresholds for languages"
    )
    assert warned.endswith("in these: 5). To change only English, write gopher_quality: "
                         "{by_language: {en: {min_mean_word_chars: 2.5}}}")  # fmt: skip
    assert not [one for one in warnings({**found, "not_english": 0}, changed) if "matched no" not in one]
    english = Config.model_validate({"gopher_quality": {"by_language": {"en": {"min_mean_word_chars": 2.5}}}})
    assert not [one for one in warnings(found, english) if "matched no" not in one]
