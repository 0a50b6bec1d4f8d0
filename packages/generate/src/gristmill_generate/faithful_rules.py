"""Rules for generated text that says what its parent does not, by the columns of the step `faithful`.

A document is dropped if it has a number, date, unit, name, address, quotation or piece of code that its parent lacks, a
negation or comparison that is turned round, another language, a loop, or a phrase about the model's task; or if it is
three times as long. The rules for copies, for short texts and for coverage are off: what they should be depends on the
prompt. The rules for sentences are off, too: they need the step `entail`. A document without a parent fails no rule.
"""

from pydantic import Field

from gristmill.stages.contract import StageConfig
from gristmill.stages.shared.rule import ByLanguage, BySource, Count, PublishedRules, Ratio, Rule, Share

RULES = (
    Rule("leaked_prompt", "faithful.leaks", ">", "max_leaks"),
    Rule("language_changed", "faithful.language_changed", ">", "same_language"),
    Rule("looped", "faithful.looped_words / faithful.words", ">", "max_looped_share"),
    Rule("new_number", "faithful.new_numbers", ">", "max_new_numbers"),
    Rule("new_date", "faithful.new_dates", ">", "max_new_dates"),
    Rule("new_unit", "faithful.new_units", ">", "max_new_units"),
    Rule("new_name", "faithful.new_names", ">", "max_new_names"),
    Rule("new_url", "faithful.new_urls", ">", "max_new_urls"),
    Rule("new_quotation", "faithful.new_quotations", ">", "max_new_quotations"),
    Rule("new_code", "faithful.new_code", ">", "max_new_code"),
    Rule("flipped_negation", "faithful.flipped_negations", ">", "max_flipped_negations"),
    Rule("flipped_comparison", "faithful.flipped_comparisons", ">", "max_flipped_comparisons"),
    Rule("longer_than_parent", "faithful.words / faithful.parent_words", ">", "max_length_ratio"),
    Rule("shorter_than_parent", "faithful.words / faithful.parent_words", "<", "min_length_ratio"),
    Rule("copy_of_parent", "faithful.copied_ngrams / faithful.ngrams", ">", "max_copied_share"),
    Rule(
        "too_little_of_parent",
        "faithful.covered_content_words / faithful.parent_content_words",
        "<",
        "min_covered_share",
    ),
    Rule("too_many_new_words", "faithful.new_content_words / faithful.content_words", ">", "max_new_words_share"),
    Rule("unsupported_sentence", "entail.unsupported", ">", "max_unsupported_sentences"),
    Rule("unjudged_sentence", "entail.unjudged", ">", "max_unjudged_sentences"),
)


class FaithfulThresholds(StageConfig):
    max_leaks: Count | None = 0
    """The most phrases about the task ("As an AI", "Here is the rewritten text") that the parent does not have."""
    same_language: bool = True
    """Whether a text must be in the language of its parent. Turn it off for translations."""
    max_looped_share: Share | None = 0.1
    """The largest share of words that repeat a passage of eight words more often than the parent, 0 to 1."""
    max_new_numbers: Count | None = 0
    """The most numbers and times that the parent lacks."""
    max_new_dates: Count | None = 0
    """The most dates that the parent lacks."""
    max_new_units: Count | None = 0
    """The most numbers that have another unit in the parent."""
    max_new_names: Count | None = 0
    """The most words with a capital that the parent lacks."""
    max_new_urls: Count | None = 0
    """The most addresses that the parent lacks."""
    max_new_quotations: Count | None = 0
    """The most quotations that the parent lacks."""
    max_new_code: Count | None = 0
    """The most pieces of code and formulas that the parent lacks."""
    max_flipped_negations: Count | None = 0
    """The most pairs of words that only one of the two texts negates."""
    max_flipped_comparisons: Count | None = 0
    """The most pairs of words with the opposite of the parent's word (more, less)."""
    max_length_ratio: Ratio | None = 3.0
    """The most words for each word of the parent."""
    min_length_ratio: Ratio | None = None
    """The least words for each word of the parent."""
    max_copied_share: Share | None = None
    """The largest share of 3-grams of words that are in the parent, 0 to 1."""
    min_covered_share: Share | None = None
    """The least share of the parent's content words that the text has, 0 to 1."""
    max_new_words_share: Share | None = None
    """The largest share of the text's content words that the parent lacks, 0 to 1."""
    max_unsupported_sentences: Count | None = None
    """The most sentences that the parent does not support, by the step `entail`."""
    max_unjudged_sentences: Count | None = None
    """The most sentences that the step `entail` has no score for."""


class Config(FaithfulThresholds):
    by_language: ByLanguage[FaithfulThresholds] = Field(default={})
    """Other thresholds for documents in a language, by its code (language.label)."""
    by_source: BySource[FaithfulThresholds] = Field(default={})
    """Other thresholds for documents of a source, by its name in the recipe; they go before those of the language."""


SET = PublishedRules(lambda config: RULES, "language.label", {})
