"""Gopher's rules for manuals and reference pages, whose code, tables and templates the published thresholds mistake for
bad text: `gopher_quality` drops 99% of the Markdown of four software manuals, nearly all for `too_few_letter_words`.

The thresholds were chosen on three manuals so that no rule drops more than about 2% of one, and measured on three
others (bench/RESULTS.md).
"""

from pydantic import Field

from gristmill.stages.select.rules import gopher_quality, gopher_repetition
from gristmill.stages.select.rules.gopher_quality import GopherQualityThresholds
from gristmill.stages.select.rules.gopher_repetition import GopherRepetitionThresholds
from gristmill.stages.shared.rule import ByLanguage, BySource, Count, Languages, PublishedRules, Ratio, Share

# In other languages words have other lengths, and in Chinese and Japanese the n-grams are of characters.
LANGUAGES: Languages = {
    language: {
        name: value
        for name, value in {**gopher_repetition.LANGUAGES.get(language, {}), **others}.items()
        if value is None or "mean_word" in name
    }
    for language, others in gopher_quality.LANGUAGES.items()
}

RULES = (*gopher_quality.RULES, *(rule for rule in gopher_repetition.RULES if rule.threshold != "min_words"))


class DocumentationThresholds(GopherQualityThresholds, GopherRepetitionThresholds):
    min_words: Count | None = 40
    """The least words; a word has a letter or a digit."""
    max_mean_word_chars: Ratio | None = 12
    """The most characters of a word, on average."""
    min_letter_words_share: Share | None = 0.35
    """The least share of tokens with a letter, 0 to 1."""
    min_stop_words: Count | None = 1
    """The least number of different stop words."""
    max_dup_lines: Share | None = 0.5
    """The largest share of lines that repeat an earlier one, 0 to 1; blank lines do not count."""
    max_dup_paragraphs: Share | None = 0.6
    """The largest share of paragraphs that repeat an earlier one, 0 to 1: references repeat `Parameters:`."""
    max_top_4gram_chars: Share | None = 0.2
    """The largest share of characters in the most frequent run of four tokens, 0 to 1."""
    max_dup_5gram_chars: Share | None = 0.4
    """The largest share of characters in runs of five tokens that occurred before, 0 to 1."""
    max_dup_6gram_chars: Share | None = 0.38
    """The same for six tokens."""
    max_dup_7gram_chars: Share | None = 0.36
    """The same for seven tokens."""
    max_dup_8gram_chars: Share | None = 0.34
    """The same for eight tokens."""
    max_dup_9gram_chars: Share | None = 0.32
    """The same for nine tokens."""
    max_dup_10gram_chars: Share | None = 0.3
    """The same for ten tokens."""


class Config(DocumentationThresholds):
    by_language: ByLanguage[DocumentationThresholds] = Field(default={})
    """Other thresholds for documents in a language, by its code (language.label)."""
    by_source: BySource[DocumentationThresholds] = Field(default={})
    """Other thresholds for documents of a source, by its name in the recipe; they go before those of the language."""


SET = PublishedRules(lambda config: RULES, "language.label", LANGUAGES)
