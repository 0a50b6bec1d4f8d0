"""The rules that FineWeb added (Penedo et al. 2024, arXiv 2406.17557, section 3.6), with the thresholds of its code.

A document is dropped if fewer than 12% of its lines end in a terminal punctuation mark; if more than 67% of its lines
have 30 characters or fewer; if more than 1% of its characters (without newlines) are in lines that repeat an earlier
one (the paper says 10%; the run that made the corpus used 1%); if there are more than three newlines per ten words.
"""

from pydantic import Field

from gristmill.stages.contract import StageConfig
from gristmill.stages.shared.rule import (
    OTHER_LANGUAGES,
    ByLanguage,
    BySource,
    Languages,
    PublishedRules,
    Ratio,
    Rule,
    Share,
)

# FineWeb2 (Penedo et al. 2025) has 0.1 for duplicate text, no rule for short lines, and a share of lines with terminal
# punctuation fitted to each language, 0 to 0.25, mostly below that of English. Thai and Lao do not mark the end of a
# sentence.
LANGUAGES: Languages = {
    OTHER_LANGUAGES: {
        "min_terminal_lines_share": 0.06,
        "max_short_lines_share": None,
        "max_dup_line_chars_share": 0.1,
    },
    **{language: {"min_terminal_lines_share": None} for language in ("th", "lo")},
}

RULES = (
    Rule("too_few_terminal_lines", "signals.terminal_lines / signals.lines", "<", "min_terminal_lines_share"),
    Rule("too_many_short_lines", "signals.short_lines / signals.lines", ">", "max_short_lines_share"),
    Rule(
        "too_much_duplicate_text",
        "signals.dup_line_chars / (signals.chars - signals.newlines)",
        ">",
        "max_dup_line_chars_share",
    ),
    Rule("too_many_newlines", "signals.newlines / signals.tokens", ">", "max_newlines_per_token"),
)


class FineWebThresholds(StageConfig):
    min_terminal_lines_share: Share | None = 0.12
    """The least share of lines that end in a terminal punctuation mark, 0 to 1."""
    max_short_lines_share: Share | None = 0.67
    """The largest share of lines of at most 30 characters, 0 to 1."""
    max_dup_line_chars_share: Share | None = 0.01
    """The largest share of characters, without newlines, in lines that repeat an earlier one, 0 to 1."""
    max_newlines_per_token: Ratio | None = 0.3
    """The most newlines per token (word or mark)."""


class Config(FineWebThresholds):
    by_language: ByLanguage[FineWebThresholds] = Field(default={})
    """Other thresholds for documents in a language, by its code (language.label)."""
    by_source: BySource[FineWebThresholds] = Field(default={})
    """Other thresholds for documents of a source, by its name in the recipe; they go before those of the language."""


SET = PublishedRules(lambda config: RULES, "language.label", LANGUAGES)
