"""A user's lists of terms, each of which defines a group: a dialect, a trade, a topic.

    terms/plattdeutsch.txt, terms/falconry.txt      one term or phrase per line; `#` begins a comment

A text belongs to a group if it has enough different terms of its list: the same tokens in a row, case ignored, as the
step `signals` counts `blocked_tokens`. It may belong to several groups, or to none.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.kernels.signals.terms import token_hashes
from gristmill.places import system_of
from gristmill.recipe.checks.mistakes import nearest_file
from gristmill.stages.shared import lists

Term = tuple[int, ...]
"""The hashes of its tokens in lower case."""


class TermGroups:
    """The lists of a folder."""

    def __init__(self, folder: str, min_terms: int) -> None:
        self.min_terms = min_terms
        self.notes: list[str] = []
        """Notes about entries that no text can match."""
        self.lists: Mapping[str, set[Term]] = dict(self._load(folder))

    def _load(self, folder: str) -> Any:
        fs, root = system_of(folder)
        if not fs.isdir(root):
            near = nearest_file(folder)
            hint = f" Did you mean {near}?" if near else ""
            raise UserError(
                f"{option('terms', folder)} is not a folder, so it has no groups.{hint} Give a folder of "
                ".txt files, each a list of terms, one per line."
            )
        found: dict[str, list[Term]] = {}
        for name, uri, _ in lists.files(fs, root, "terms"):
            if uri.endswith((".txt", ".txt.gz", ".txt.bz2", ".txt.xz", ".txt.zst")):
                entries_of = (entry for block in lists.blocks(fs, uri) for entry in lists.entries_of(block))
                found.setdefault(name, []).extend(tuple(token_hashes(entry)) for entry in entries_of)
        if not found:
            raise UserError(
                f"{option('terms', folder)} has no file that ends with .txt, so it has no groups. Add "
                "a list for each dialect or topic, one term per line."
            )
        for name, listed in sorted(found.items()):
            terms = {term for term in listed if term and 0 not in term}
            if bad := sum(not term or 0 in term for term in listed):
                useless = counted(bad, "entry that is", "entries that are")
                self.notes.append(f"The list {name} has {useless} never matched: without a word, or too long.")
            entries = len(terms)
            if entries < self.min_terms:
                raise UserError(
                    f"The list {name} in {option('terms', folder)} has {counted(entries, 'term')}, but a text needs "
                    f"{self.min_terms} of them, so it would have no document. Add terms, or lower "
                    f"{option('min_terms')}."
                )
            yield name, terms

    def find(self, texts: pa.Array) -> dict[str, np.ndarray[Any, Any]]:
        """For each list, whether each text belongs to it."""
        tokens = [token_hashes(text or "") for text in texts.to_pylist()]
        found = {}
        for name, terms in self.lists.items():
            sizes: dict[int, set[int]] = {}
            for term in terms:
                sizes.setdefault(term[0], set()).add(len(term))
            counts = [len(terms.intersection(_pieces(own, sizes))) for own in tokens]
            found[name] = np.array(counts) >= self.min_terms
        return found


def _pieces(tokens: list[int], sizes: Mapping[int, set[int]]) -> Iterator[Term]:
    """The parts of a text that may be terms; `sizes`: the lengths of the terms that begin with a token."""
    for index, token in enumerate(tokens):
        for size in sizes.get(token, ()):
            yield tuple(tokens[index : index + size])
