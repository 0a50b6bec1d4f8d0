"""The step `faithful` and its rules."""

import json

import pyarrow as pa
import pytest

from gristmill.stages.select import heuristics
from gristmill_generate import entail, faithful
from gristmill_generate.compare.lexicon import LEAKS
from gristmill_generate.faithful_rules import RULES


def measured(rows, **settings):
    """The layer of (text, parent) pairs whose parents are in `meta`."""
    metas = [None if parent is None else json.dumps({"parent_text": parent, "id": 1}) for _, parent in rows]
    batch = pa.record_batch(
        {"text": pa.array([text for text, _ in rows], pa.string()), "meta": pa.array(metas, pa.string())}
    )
    return batch, faithful.apply(batch, faithful.Config(**settings))


def verdicts(rows, **thresholds):
    _, layer = measured(rows)
    config = heuristics.Config.model_validate({"faithful": thresholds})
    known = {f"faithful.{name}": layer[name] for name in layer.schema.names}
    fixed = {"source": pa.array(["a"] * len(rows)), "snapshot": pa.nulls(len(rows), pa.string())}
    fixed["text_bytes"] = pa.array([1] * len(rows), pa.int64())
    columns = {name: (known | fixed)[name] for name in heuristics.reads(config)}
    return heuristics.apply(pa.record_batch(columns), config)["drop"].to_pylist()


def test_parent_is_a_column_or_a_field_of_meta():
    """A column `parent_text` goes before the field of `meta`, and fills only its own rows."""
    batch = pa.record_batch(
        {
            "text": pa.array(["It is 5 km.", "It is 5 km.", "It is 5 km."]),
            "meta": pa.array(
                ['{"parent_text": "It is 6 km."}', '{"parent_text": "It is 6 km."}', '{"parent_text": 7}']
            ),
            "parent_text": pa.array(["It is 5 km.", None, None]),
        }
    )
    assert faithful.apply(batch, faithful.Config())["new_numbers"].to_pylist() == [0, 1, None]


def test_documents_without_a_parent_have_nulls_and_are_counted():
    """A document that was not generated fails no rule, and the run says how many there were."""
    rows = [("It is 5 km.", None), (None, "It is 5 km."), ("It is 5 km.", "It is 5 km.")]
    batch, layer = measured(rows)
    without = dict.fromkeys(layer.schema.names)
    assert layer.to_pylist()[:2] == [without, without]
    assert None not in layer.to_pylist()[2].values()
    assert layer.to_pylist()[2]["new"] == []
    assert verdicts(rows) == [None, None, None]
    found = faithful.metrics(batch, layer, faithful.Config())
    assert faithful.warnings(found, faithful.Config()) == [
        "2 of 3 documents have no parent_text, so nothing was compared there"
    ]
    (warned,) = faithful.warnings({"documents": 3, "with_parent": 0}, faithful.Config())
    assert warned.startswith("no document has a parent, so nothing was compared. Give each one the field parent_text")


def test_spans_are_where_the_new_text_is():
    """`new` lists each finding with its check and its bytes, also after other documents and other scripts."""
    _, layer = measured(
        [("Zürich", "Zürich"), ("水 Zürich is 5 miles from https://b.org", "水 Zürich is 5 km from here")]
    )
    text = "水 Zürich is 5 miles from https://b.org".encode()
    found = [(one["check"], text[one["start"] : one["stop"]].decode()) for one in layer["new"][1].as_py()]
    assert found == [("units", "5 miles"), ("urls", "https://b.org")]


LONG = "The mill by the river grinds wheat and rye for the village every day of the week. "
FRENCH = (
    "Le moulin est dans le village et les gens de la ville sont sur la place avec des amis pour le jour de la fête."
)


@pytest.mark.parametrize(
    ("reason", "text", "parent", "thresholds"),
    [
        ("leaked_prompt", f"Here is the rewritten text: {LONG}", LONG, {}),
        ("leaked_prompt", f"As an AI language model, I know. {LONG}", LONG, {}),
        ("leaked_prompt", f"I'm an AI and cannot know. {LONG}", LONG, {}),
        ("language_changed", FRENCH, LONG + "They have to be there with that.", {}),
        ("looped", LONG * 9, LONG * 3, {}),
        ("new_number", "It is 6 km.", "It is 5 km.", {}),
        (
            "longer_than_parent",
            " ".join(f"wheat{chr(97 + n)}" for n in range(20)),
            "rye and wheat",
            {"max_new_numbers": None},
        ),
        ("shorter_than_parent", "The mill", LONG, {"min_length_ratio": 0.5}),
        ("copy_of_parent", LONG, LONG, {"max_copied_share": 0.9}),
        ("too_little_of_parent", "The village", LONG, {"min_covered_share": 0.5}),
        ("too_many_new_words", "sunshine weather forecast", LONG, {"max_new_words_share": 0.5}),
    ],
)
def test_each_rule_has_its_reason(reason, text, parent, thresholds):
    """A text that fails a rule is dropped for it, and its parent is kept as its own child."""
    assert verdicts([(text, parent)], **thresholds) == [reason]
    assert verdicts([(parent, parent)]) == [None]


def test_a_phrase_that_the_parent_has_is_no_leak():
    """A text about language models may say what its parent says."""
    said = "As an AI language model, it answers."
    assert verdicts([(said, said)]) == [None]


def test_a_phrase_begins_with_a_whole_word():
    """`has an AI` is not `as an AI`."""
    assert verdicts([(f"The phone has an AI chip. {LONG}", f"The phone has an AI chip, they say. {LONG}")]) == [None]
    assert verdicts([(f"The phone has an AI chip. {LONG}", f"An AI chip! {LONG} The phone has it.")]) == [None]


def test_no_phrase_has_a_control_character():
    r"""`\b` in a quoted string of TOML is a backspace, which matches nothing."""
    assert [phrase for phrase in LEAKS if not phrase.isprintable()] == []


def test_rules_are_columns_of_the_step():
    """Every rule reads columns that `faithful` or `entail` writes."""
    names = {f"faithful.{name}" for name in faithful.SCHEMA.names} | {f"entail.{name}" for name in entail.SCHEMA.names}
    assert {column for rule in RULES for column in rule.value.split(" / ")} <= names


NAMES = {"PER": ("anna", "王明", "Anna Berg"), "ORG": ("Old Mill Trust",), "DATE": ("yesterday",)}
