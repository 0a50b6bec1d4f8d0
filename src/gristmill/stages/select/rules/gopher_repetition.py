"""Gopher's rules of repetition (Rae et al. 2021, arXiv 2112.11446, appendix A.1.1 and table A1), as FineWeb ran them.

A document goes if more than 30% of its lines, or of its paragraphs, are repeats of earlier ones, or if these hold more
than 20% of its characters; if its most frequent 2-, 3- or 4-gram holds more than 20, 18, 16% of its characters; if
5-, 6-, ... 10-grams that occurred before hold more than 15, 14, ... 10%. A document without words, of which all of this
is void, goes as well.
"""

from pydantic import Field

from gristmill.stages.contract import StageConfig
from gristmill.stages.shared.rule import ByLanguage, BySource, Count, Languages, PublishedRules, Rule, Share

# Where every character is a token, ten of them are five or six words: shorter runs repeat in any text. FineWeb2's
# thresholds for five and six words. A space is counted between the tokens of the most frequent n-gram, so that n
# characters count as 2n - 1: the published shares, times that.
_CHARACTERS = {
    "max_top_2gram_chars": 0.3,
    "max_top_3gram_chars": 0.3,
    "max_top_4gram_chars": 0.28,
    "max_dup_5gram_chars": None,
    "max_dup_6gram_chars": None,
    "max_dup_7gram_chars": None,
    "max_dup_8gram_chars": None,
    "max_dup_9gram_chars": None,
}
_CHINESE = {**_CHARACTERS, "max_dup_10gram_chars": 0.2}
LANGUAGES: Languages = {
    **dict.fromkeys(("zh", "yue", "wuu"), _CHINESE),
    "ja": {**_CHARACTERS, "max_dup_10gram_chars": 0.3},
}

CHARS = "signals.chars"
RULES = (
    Rule("no_words", "signals.words", "<", "min_words"),
    Rule("too_many_duplicate_paragraphs", "signals.dup_paragraphs / signals.paragraphs", ">", "max_dup_paragraphs"),
    Rule("too_much_duplicate_paragraph_text", f"signals.dup_paragraph_chars / {CHARS}", ">", "max_dup_paragraph_chars"),
    Rule("too_many_duplicate_lines", "signals.dup_lines / signals.lines", ">", "max_dup_lines"),
    Rule("too_much_duplicate_line_text", f"signals.dup_line_chars / {CHARS}", ">", "max_dup_line_chars"),
    Rule("too_much_top_2gram", f"signals.top_2_gram_chars / {CHARS}", ">", "max_top_2gram_chars"),
    Rule("too_much_top_3gram", f"signals.top_3_gram_chars / {CHARS}", ">", "max_top_3gram_chars"),
    Rule("too_much_top_4gram", f"signals.top_4_gram_chars / {CHARS}", ">", "max_top_4gram_chars"),
    Rule("too_much_duplicate_5gram", f"signals.dup_5_gram_chars / {CHARS}", ">", "max_dup_5gram_chars"),
    Rule("too_much_duplicate_6gram", f"signals.dup_6_gram_chars / {CHARS}", ">", "max_dup_6gram_chars"),
    Rule("too_much_duplicate_7gram", f"signals.dup_7_gram_chars / {CHARS}", ">", "max_dup_7gram_chars"),
    Rule("too_much_duplicate_8gram", f"signals.dup_8_gram_chars / {CHARS}", ">", "max_dup_8gram_chars"),
    Rule("too_much_duplicate_9gram", f"signals.dup_9_gram_chars / {CHARS}", ">", "max_dup_9gram_chars"),
    Rule("too_much_duplicate_10gram", f"signals.dup_10_gram_chars / {CHARS}", ">", "max_dup_10gram_chars"),
)


class Thresholds(StageConfig):
    min_words: Count | None = 1
    """Words, at least; a word has a letter or a digit."""
    max_dup_paragraphs: Share | None = 0.30
    """Share of paragraphs that repeat an earlier one, at most, 0 to 1."""
    max_dup_paragraph_chars: Share | None = 0.20
    """Share of characters in such paragraphs, at most, 0 to 1."""
    max_dup_lines: Share | None = 0.30
    """Share of lines that repeat an earlier one, at most, 0 to 1; lines are those with something in them."""
    max_dup_line_chars: Share | None = 0.20
    """Share of characters in such lines, at most, 0 to 1."""
    max_top_2gram_chars: Share | None = 0.20
    """Share of characters in the most frequent pair of tokens, at most, 0 to 1."""
    max_top_3gram_chars: Share | None = 0.18
    """The same for three tokens."""
    max_top_4gram_chars: Share | None = 0.16
    """The same for four tokens."""
    max_dup_5gram_chars: Share | None = 0.15
    """Share of characters in runs of five tokens that occurred before, at most, 0 to 1."""
    max_dup_6gram_chars: Share | None = 0.14
    """The same for six tokens."""
    max_dup_7gram_chars: Share | None = 0.13
    """The same for seven tokens."""
    max_dup_8gram_chars: Share | None = 0.12
    """The same for eight tokens."""
    max_dup_9gram_chars: Share | None = 0.11
    """The same for nine tokens."""
    max_dup_10gram_chars: Share | None = 0.10
    """The same for ten tokens."""


class Config(Thresholds):
    by_language: ByLanguage[Thresholds] = Field(default={})
    """Other thresholds for documents in a language, by its code (language.label)."""
    by_source: BySource[Thresholds] = Field(default={})
    """Other thresholds for documents of a source, by its name in the recipe; they go before those of the language."""


SET = PublishedRules(lambda config: RULES, "language.label", LANGUAGES)
