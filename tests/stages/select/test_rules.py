"""The published sets have the defaults of the papers, and the documentation matches the code."""

import importlib
from pathlib import Path

import pytest

from gristmill.recipe.checks.check import meanings
from gristmill.stages.select.heuristics import SETS
from gristmill.stages.select.rules import code
from gristmill.stages.shared.rule import as_number, formula

MODULES = {name: importlib.import_module(f"gristmill.stages.select.rules.{name}") for name in SETS}

DOCS = Path(__file__).parents[3] / "docs" / "rules.md"

PUBLISHED = {
    "gopher_quality": {
        "min_words": 50,
        "max_words": 100_000,
        "min_mean_word_chars": 3,
        "max_mean_word_chars": 10,
        "max_hashes_per_token": 0.1,
        "max_ellipses_per_token": 0.1,
        "max_bullet_lines_share": 0.9,
        "max_ellipsis_lines_share": 0.3,
        "min_letter_words_share": 0.8,
        "min_stop_words": 2,
    },
    "gopher_repetition": {
        "min_words": 1,
        "max_dup_lines": 0.3,
        "max_dup_paragraphs": 0.3,
        "max_dup_line_chars": 0.2,
        "max_dup_paragraph_chars": 0.2,
        "max_top_2gram_chars": 0.2,
        "max_top_3gram_chars": 0.18,
        "max_top_4gram_chars": 0.16,
        **{f"max_dup_{n}gram_chars": round(0.2 - n / 100, 2) for n in range(5, 11)},
    },
    "c4": {"lorem_ipsum": True, "curly_bracket": True, "min_sentences": 5},
    "fineweb": {
        "min_terminal_lines_share": 0.12,
        "max_short_lines_share": 0.67,
        "max_dup_line_chars_share": 0.01,
        "max_newlines_per_token": 0.3,
    },
}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_defaults_are_those_of_the_papers(name: str) -> None:
    """No threshold changes by accident."""
    assert MODULES[name].Config.__base__().model_dump() == PUBLISHED[name]


@pytest.mark.parametrize("name", sorted(SETS))
def test_every_threshold_belongs_to_one_rule_and_every_rule_has_one(name: str) -> None:
    """A field that no rule reads would silently do nothing; names show which side of the threshold fails."""
    module = MODULES[name]
    rules = module.SET.rules(module.Config())
    assert sorted(rule.threshold for rule in rules) == sorted(module.Config.__base__.model_fields)
    for rule in rules:
        low = rule.threshold.startswith("min_")
        assert rule.fails == ("<" if low else ">")
    assert meanings(module.Config).keys() == module.Config.model_fields.keys()


def test_c4_checks_other_lines_without_terminal_punctuation() -> None:
    """The option changes the columns of all three rules."""
    module = MODULES["c4"]
    for strict, loose in zip(
        module.SET.rules(module.Config()), module.SET.rules(module.Config(terminal_punctuation=False)), strict=True
    ):
        assert strict.value.replace("c4_", "c4_any_end_") == loose.value
        assert formula(strict.value).columns != formula(loose.value).columns


def test_exceptions_of_the_user_override_the_published_ones() -> None:
    """They are merged threshold by threshold, for any case of the language."""
    config = code.Config.model_validate({"by_language": {"JSON": {"max_chars": 7}, "zig": {"max_line_chars": 9}}})
    assert (config.by_language["json"].min_chars, config.by_language["json"].max_chars) == (50, 7)
    assert config.by_language["zig"].model_fields_set == {"max_line_chars"}
    assert config.by_language["yaml"].max_chars == 5000
    assert code.BY_LANGUAGE["json"]["max_chars"] == 5000


@pytest.mark.parametrize("name", sorted(SETS))
def test_the_documentation_has_every_rule_with_its_formula_and_threshold(name: str) -> None:
    """docs/rules.md has the table of the code."""
    text = DOCS.read_text()
    module = MODULES[name]
    for rule in module.SET.rules(module.Config()):
        default = getattr(module.Config.__base__(), rule.threshold)
        shown = "true" if default is True else "off" if default is None else f"{as_number(default):.10g}"
        value = rule.value.replace("code_signals.", "").replace("signals.", "")
        assert f"| `{rule.reason}` | `{value}` {rule.fails} | `{rule.threshold}` | {shown} |" in text
