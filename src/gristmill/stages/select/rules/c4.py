"""C4's rules for documents (Raffel et al. 2020, arXiv 1910.10683, section 2.2).

C4 keeps the lines that end in a terminal punctuation mark, have at least 3 words, have no word over 1000 characters,
and do not mention javascript, policies or cookies. Then it drops documents with "lorem ipsum" or `{`, or with fewer
than 5 sentences left. The rules here judge the text that C4 would be left with and change no text; the step `lines`
cuts lines. FineWeb did not require terminal punctuation, which alone dropped 30% of all tokens (Penedo et al. 2024):
`terminal_punctuation: false`.
"""

from pydantic import Field

from gristmill.stages.contract import StageConfig
from gristmill.stages.shared.rule import OTHER_LANGUAGES, ByLanguage, BySource, Count, Languages, PublishedRules, Rule

# FineWeb2 used none of these rules on languages other than English (Penedo et al. 2025): brackets, and the number of
# sentences in lines of three words separated by spaces, are measures of English pages.
LANGUAGES: Languages = {OTHER_LANGUAGES: {"curly_bracket": False, "min_sentences": None}}


class C4Thresholds(StageConfig):
    lorem_ipsum: bool | None = True
    """Whether to drop documents with "lorem ipsum" in a line that C4 checks."""
    curly_bracket: bool | None = True
    """Whether to drop documents with `{` in a line that C4 checks."""
    min_sentences: Count | None = 5
    """The least sentences in the lines that C4 keeps."""


class Config(C4Thresholds):
    terminal_punctuation: bool = True
    """Whether only lines that end in a terminal punctuation mark count; false in FineWeb."""
    by_language: ByLanguage[C4Thresholds] = Field(default={})
    """Other thresholds for documents in a language, by its code (language.label)."""
    by_source: BySource[C4Thresholds] = Field(default={})
    """Other thresholds for documents of a source, by its name in the recipe; they go before those of the language."""


def rules(config: Config) -> tuple[Rule, ...]:
    lines = "signals.c4_" if config.terminal_punctuation else "signals.c4_any_end_"
    return (
        Rule("lorem_ipsum", f"{lines}lorem_ipsum_lines", ">", "lorem_ipsum"),
        Rule("curly_bracket", f"{lines}brace_lines", ">", "curly_bracket"),
        Rule("too_few_sentences", f"{lines}sentences", "<", "min_sentences"),
    )


SET = PublishedRules(rules, "language.label", LANGUAGES)
