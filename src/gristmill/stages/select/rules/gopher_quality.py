"""Gopher's rules of quality (Rae et al. 2021, arXiv 2112.11446, appendix A.1.1), as FineWeb ran them.

A document goes if it has fewer than 50 or more than 100,000 words; if the mean length of its words is outside of 3 to
10 characters; if there is more than one `#`, or more than one ellipsis, for ten words; if more than 90% of its lines
begin with a bullet; if more than 30% end with an ellipsis; if fewer than 80% of its words hold a letter; if fewer than
two of "the, be, to, of, and, that, have, with" occur in it (another list: `stop_words` of the step `signals`). As in
datatrove, whose thresholds these are in practice, punctuation marks count in the denominators of the rules for symbols
and letters.
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

# Words of at most twice the language's mean, as 10 is of English words; a character is a word of Chinese and Japanese,
# and 1.6 and 2 of them make one of a dictionary. Letters: marks count in the denominator, and English words are many
# and short; FineWeb2 has 0.74 to 0.84 (Penedo et al. 2025), on words that a parser found.
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


class Thresholds(StageConfig):
    min_words: Count | None = 50
    """Words, at least; a word has a letter or a digit."""
    max_words: Count | None = 100_000
    """Words, at most."""
    min_mean_word_chars: Ratio | None = 3
    """Characters of a word on average, at least."""
    max_mean_word_chars: Ratio | None = 10
    """Characters of a word on average, at most."""
    max_hashes_per_token: Ratio | None = 0.1
    """`#` for each token (word or mark), at most."""
    max_ellipses_per_token: Ratio | None = 0.1
    """`...` and `…` for each token, at most."""
    max_bullet_lines_share: Share | None = 0.9
    """Share of lines that begin with a bullet, at most, 0 to 1."""
    max_ellipsis_lines_share: Share | None = 0.3
    """Share of lines that end with an ellipsis, at most, 0 to 1."""
    min_letter_words_share: Share | None = 0.8
    """Share of tokens that hold a letter, at least, 0 to 1."""
    min_stop_words: Count | None = 2
    """Different stop words, at least."""


class Config(Thresholds):
    by_language: ByLanguage[Thresholds] = Field(default={})
    """Other thresholds for documents in a language, by its code (language.label)."""
    by_source: BySource[Thresholds] = Field(default={})
    """Other thresholds for documents of a source, by its name in the recipe; they go before those of the language."""


SET = PublishedRules(lambda config: RULES, "language.label", LANGUAGES)
