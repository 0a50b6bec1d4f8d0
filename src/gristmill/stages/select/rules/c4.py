"""C4's rules for documents (Raffel et al. 2020, arXiv 1910.10683, section 2.2).

C4 keeps the lines that end in a terminal punctuation mark, have at least 3 words, no word over 1000 characters, and do
not speak of javascript or of policies and cookies; then a document goes if it has "lorem ipsum" or a `{` in it, or if
fewer than 5 sentences are left. The rules here judge the document that C4 would be left with and change no text; the
stage `lines` cuts the lines. FineWeb took the rules without the demand for terminal punctuation, which alone dropped
30% of all tokens (Penedo et al. 2024): `terminal_punctuation: false`.
"""

from pydantic import Field

from gristmill.stages.contract import StageConfig
from gristmill.stages.shared.rule import OTHER_LANGUAGES, ByLanguage, BySource, Count, Languages, PublishedRules, Rule

# FineWeb2 ran none of these rules on other languages than English (Penedo et al. 2025): a bracket and the number of
# sentences, in lines of three words with spaces between them, are measures of English pages.
LANGUAGES: Languages = {OTHER_LANGUAGES: {"curly_bracket": False, "min_sentences": None}}


class Thresholds(StageConfig):
    lorem_ipsum: bool | None = True
    """Whether "lorem ipsum" in a line that C4 looks at drops the document."""
    curly_bracket: bool | None = True
    """Whether `{` in a line that C4 looks at drops the document."""
    min_sentences: Count | None = 5
    """Sentences in the lines that C4 keeps, at least."""


class Config(Thresholds):
    terminal_punctuation: bool = True
    """Whether a line must end in a terminal punctuation mark to count; false in FineWeb."""
    by_language: ByLanguage[Thresholds] = Field(default={})
    """Other thresholds for documents in a language, by its code (language.label)."""
    by_source: BySource[Thresholds] = Field(default={})
    """Other thresholds for documents of a source, by its name in the recipe; they go before those of the language."""


def rules(config: Config) -> tuple[Rule, ...]:
    lines = "signals.c4_" if config.terminal_punctuation else "signals.c4_any_end_"
    return (
        Rule("lorem_ipsum", f"{lines}lorem_ipsum_lines", ">", "lorem_ipsum"),
        Rule("curly_bracket", f"{lines}brace_lines", ">", "curly_bracket"),
        Rule("too_few_sentences", f"{lines}sentences", "<", "min_sentences"),
    )


SET = PublishedRules(rules, "language.label", LANGUAGES)
