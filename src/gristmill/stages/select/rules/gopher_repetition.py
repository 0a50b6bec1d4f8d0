"""Gopher's repetition rules (Rae et al. 2021, arXiv 2112.11446, appendix A.1.1 and table A1), as FineWeb used them.

A document is dropped if more than 30% of its lines, or of its paragraphs, repeat earlier ones, or if these have more
than 20% of its characters; if its most frequent 2-, 3- or 4-gram has more than 20, 18, 16% of its characters; if 5-,
6-, ... 10-grams that occurred before have more than 15, 14, ... 10%. A document without words is also dropped.
"""

from pydantic import Field

from gristmill.stages.contract import StageConfig
from gristmill.stages.shared.rule import ByLanguage, BySource, Count, Languages, PublishedRules, Rule, Share

# If every character is a token, ten of them are five or six words, and shorter runs repeat in any text. These are the
# thresholds of FineWeb2 for five and six words. A space is counted between the tokens of the most frequent n-gram, so n
# characters count as 2n - 1, and the published shares are multiplied accordingly.
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


class GopherRepetitionThresholds(StageConfig):
    min_words: Count | None = 1
    """The least words; a word has a letter or a digit."""
    max_dup_paragraphs: Share | None = 0.30
    """The largest share of paragraphs that repeat an earlier one, 0 to 1."""
    max_dup_paragraph_chars: Share | None = 0.20
    """The largest share of characters in such paragraphs, 0 to 1."""
    max_dup_lines: Share | None = 0.30
    """The largest share of lines that repeat an earlier one, 0 to 1; blank lines do not count."""
    max_dup_line_chars: Share | None = 0.20
    """The largest share of characters in such lines, 0 to 1."""
    max_top_2gram_chars: Share | None = 0.20
    """The largest share of characters in the most frequent pair of tokens, 0 to 1."""
    max_top_3gram_chars: Share | None = 0.18
    """The same for three tokens."""
    max_top_4gram_chars: Share | None = 0.16
    """The same for four tokens."""
    max_dup_5gram_chars: Share | None = 0.15
    """The largest share of characters in runs of five tokens that occurred before, 0 to 1."""
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


class Config(GopherRepetitionThresholds):
    by_language: ByLanguage[GopherRepetitionThresholds] = Field(default={})
    """Other thresholds for documents in a language, by its code (language.label)."""
    by_source: BySource[GopherRepetitionThresholds] = Field(default={})
    """Other thresholds for documents of a source, by its name in the recipe; they go before those of the language."""


SET = PublishedRules(lambda config: RULES, "language.label", LANGUAGES)
