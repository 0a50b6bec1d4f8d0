"""Gopher's quality rules (Rae et al. 2021, arXiv 2112.11446, appendix A.1.1), as FineWeb used them.

A document is dropped if it has fewer than 50 or more than 100,000 words; if the mean length of its words is not 3 to 10
characters; if there is more than one `#`, or more than one ellipsis, per ten words; if more than 90% of its lines begin
with a bullet; if more than 30% end with an ellipsis; if fewer than 80% of its words have a letter; if fewer than two of
"the, be, to, of, and, that, have, with" occur in it (`stop_words` of the step `signals` sets another list). As in
datatrove, whose thresholds these are, punctuation marks count in the denominators of the rules for symbols and letters.
"""

from pydantic import Field

from gristmill.stages.contract import StageConfig
from gristmill.stages.shared.rule import (
    OTHER_LANGUAGES,
    ByLanguage,
    BySource,
    Count,
    Languages,
    PublishedRules,
    Ratio,
    Rule,
    Share,
)

# Word length: at most twice the mean of the language, as 10 is for English. In Chinese and Japanese a character is a
# word, and a dictionary word has 1.6 and 2 of them. Letters: marks count in the denominator, and English has many short
# words; FineWeb2 has 0.74 to 0.84 (Penedo et al. 2025), on words that a parser found.
_CHINESE = {"min_words": 80, "max_words": 160_000, "min_mean_word_chars": 1, "max_mean_word_chars": 5}
_LONG = {"max_mean_word_chars": 16}
LANGUAGES: Languages = {
    OTHER_LANGUAGES: {"min_mean_word_chars": 2, "max_mean_word_chars": 12, "min_letter_words_share": 0.7},
    **dict.fromkeys(("zh", "yue", "wuu"), _CHINESE),
    "ja": {"min_words": 100, "max_words": 200_000, "min_mean_word_chars": 1, "max_mean_word_chars": 5},
    "ko": {"min_mean_word_chars": 1},
    **dict.fromkeys(("az", "de", "et", "eu", "fi", "hu", "hy", "ka", "kk", "lt", "mn", "te", "tr", "uz"), _LONG),
    **{language: {"max_mean_word_chars": 20} for language in ("kn", "ml", "ta")},
}

RULES = (
    Rule("too_few_words", "signals.words", "<", "min_words"),
    Rule("too_many_words", "signals.words", ">", "max_words"),
    Rule("words_too_short", "signals.word_chars / signals.words", "<", "min_mean_word_chars"),
    Rule("words_too_long", "signals.word_chars / signals.words", ">", "max_mean_word_chars"),
    Rule("too_many_hashes", "signals.hashes / signals.tokens", ">", "max_hashes_per_token"),
    Rule("too_many_ellipses", "signals.ellipses / signals.tokens", ">", "max_ellipses_per_token"),
    Rule("too_many_bullets", "signals.bullet_lines / signals.lines", ">", "max_bullet_lines_share"),
    Rule("too_many_ellipsis_lines", "signals.ellipsis_lines / signals.lines", ">", "max_ellipsis_lines_share"),
    Rule("too_few_letter_words", "signals.letter_words / signals.tokens", "<", "min_letter_words_share"),
    Rule("too_few_stop_words", "signals.stop_words", "<", "min_stop_words"),
)


class GopherQualityThresholds(StageConfig):
    min_words: Count | None = 50
    """The least words; a word has a letter or a digit."""
    max_words: Count | None = 100_000
    """The most words."""
    min_mean_word_chars: Ratio | None = 3
    """The least characters of a word, on average."""
    max_mean_word_chars: Ratio | None = 10
    """The most characters of a word, on average."""
    max_hashes_per_token: Ratio | None = 0.1
    """The most `#` per token (word or mark)."""
    max_ellipses_per_token: Ratio | None = 0.1
    """The most `...` and `…` per token."""
    max_bullet_lines_share: Share | None = 0.9
    """The largest share of lines that begin with a bullet, 0 to 1."""
    max_ellipsis_lines_share: Share | None = 0.3
    """The largest share of lines that end with an ellipsis, 0 to 1."""
    min_letter_words_share: Share | None = 0.8
    """The least share of tokens with a letter, 0 to 1."""
    min_stop_words: Count | None = 2
    """The least number of different stop words."""


class Config(GopherQualityThresholds):
    by_language: ByLanguage[GopherQualityThresholds] = Field(default={})
    """Other thresholds for documents in a language, by its code (language.label)."""
    by_source: BySource[GopherQualityThresholds] = Field(default={})
    """Other thresholds for documents of a source, by its name in the recipe; they go before those of the language."""


SET = PublishedRules(lambda config: RULES, "language.label", LANGUAGES)
