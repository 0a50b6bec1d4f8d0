"""The words that nearly every text of a language has, for Gopher's rule that two of them must occur.

They are few and frequent, as FineWeb2 chose its own (Penedo et al. 2025, arXiv 2506.20920): words of stopwords-iso
(github.com/stopwords-iso, MIT License, Copyright (c) 2016 Gene Diaz), nearly all of which make up 0.3% or more of the
words of a hundred sentences (for Chinese also in traditional characters). Languages for which stopwords-iso has no
list, or one without the most common words, have frequent function words of our own choice, under `own` in the file.
English has Gopher's eight words, so that its verdicts are the published ones.

Each word is one token as `kernels/text/words.py` cuts text: in Chinese and Japanese one character. Thai, Lao, Khmer and
Burmese have no spaces and no rule that finds their words, so a word counts if it is anywhere in the text.
"""

from gristmill.data_files import read_table

_TABLES = read_table(__file__, "stop_words.toml")
GOPHER = ("the", "be", "to", "of", "and", "that", "have", "with")


def _words(listed: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(listed.split()))


STOP_WORDS: dict[str, tuple[str, ...]] = {
    "en": GOPHER,
    **{language: _words(listed) for language, listed in (_TABLES["iso"] | _TABLES["own"]).items()},
}
"""By the code of the language, as `natural_languages.language_of` returns it."""
