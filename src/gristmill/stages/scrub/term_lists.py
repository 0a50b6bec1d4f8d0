"""Lists of words and phrases by language: a folder with a file for each, named by its code (the layout of LDNOOBW).

    terms/en, terms/de.txt, terms/pt-br.txt     for documents in that language; a region counts as its language
    terms/all.txt                               for documents in any language, and in an unknown one

A single file is a list for all. One term or phrase per line; `#` begins a comment. Files that end with .md are not
lists.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.text.listed_terms import Terms, hash_terms, terms_of
from gristmill.places import system_of
from gristmill.stages.natural_languages import LID_176, intended_label
from gristmill.stages.shared import lists

FOR_ALL = ("", "all", "any")
"""Names of a list for every language; a single file has no name."""


@dataclass(frozen=True)
class TermLists:
    """The lists of a folder, as sets for look-ups."""

    by_language: Mapping[str, Terms]
    """By language code, each including the terms for all."""
    for_all: Terms | None
    """For other and unknown languages; None: there is no such list."""
    entries: Mapping[str, int]
    """Entries of each file, by its name."""
    faults: Mapping[str, int]
    """Entries of each file that never match: see `hash_terms`."""

    def of(self, language: str | None) -> Terms | None:
        """The terms for documents in a language."""
        return self.for_all if language is None else self.by_language.get(language, self.for_all)


def load(path: str) -> TermLists:
    """The lists at `path`, from memory if they are unchanged."""
    fs, root = system_of(path)
    found = [one for one in lists.files(fs, root, "terms") if not one[0].lower().endswith(".md")]
    return lists.keep(("terms", path), lists.stamp_of(found), lambda: _build(fs, found))


def _build(fs: object, found: list[tuple[str, str, dict[str, Any]]]) -> TermLists:
    entries, faults = dict[str, int](), dict[str, int]()
    hashes: dict[str, list[Any]] = {}
    for name, uri, _ in found:
        shown = f"terms/{name}" if name else "terms"
        entries.setdefault(shown, 0)
        for block in lists.blocks(fs, uri):
            hashed, bad = hash_terms(block, word_tables())
            entries[shown] += len(hashed)
            faults[shown] = faults.get(shown, 0) + int(bad)
            hashes.setdefault(language_of_list(name), []).append(hashed)
    for_all = hashes.pop("", [])
    return TermLists(
        {language: terms_of(np.concatenate([*own, *for_all])) for language, own in hashes.items()},
        terms_of(np.concatenate(for_all)) if for_all else None,
        entries,
        {name: bad for name, bad in faults.items() if bad},
    )


def language_of_list(name: str) -> str:
    """The language of a list, by its name; empty: any."""
    folded = name.lower()
    return "" if folded in FOR_ALL else intended_label(folded, LID_176) or folded
