"""A user's lists of terms, each of which defines a group: a dialect, a trade, a topic.

    terms/plattdeutsch.txt, terms/falconry.txt      one term or phrase per line; `#` begins a comment

A text belongs to a group if it has enough different terms of its list (`kernels/text/listed_terms.py`: whole words,
case ignored). It may belong to several groups, or to none.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.text.listed_terms import Terms, find_terms, hash_terms, terms_of
from gristmill.places import system_of
from gristmill.recipe.checks.mistakes import nearest_file
from gristmill.stages.buffers import bytes_of
from gristmill.stages.shared import lists


class TermGroups:
    """The lists of a folder."""

    def __init__(self, folder: str, min_terms: int) -> None:
        self.min_terms = min_terms
        self.notes: list[str] = []
        """Notes about entries that no text can match."""
        self.lists: Mapping[str, Terms] = dict(self._load(folder))

    def _load(self, folder: str) -> Any:
        fs, root = system_of(folder)
        if not fs.isdir(root):
            near = nearest_file(folder)
            hint = f" Did you mean {near}?" if near else ""
            raise UserError(
                f"{option('terms', folder)} is not a folder, so it has no groups.{hint} Give a folder of "
                ".txt files, each a list of terms, one per line."
            )
        found: dict[str, list[Any]] = {}
        for name, uri, _ in lists.files(fs, root, "terms"):
            if uri.endswith((".txt", ".txt.gz", ".txt.bz2", ".txt.xz", ".txt.zst")):
                found.setdefault(name, []).extend(hash_terms(block, word_tables()) for block in lists.blocks(fs, uri))
        if not found:
            raise UserError(
                f"{option('terms', folder)} has no file that ends with .txt, so it has no groups. Add "
                "a list for each dialect or topic, one term per line."
            )
        for name, blocks in sorted(found.items()):
            hashes = np.concatenate([block for block, _ in blocks]) if blocks else np.empty((0, 4), np.uint64)
            bad, entries = sum(int(faults) for _, faults in blocks), len(np.unique(hashes[:, 3]))
            if bad:
                useless = counted(bad, "entry that is", "entries that are")
                self.notes.append(
                    f"The list {name} has {useless} never matched: without a word, too long, or one letter of a script "
                    "without spaces."
                )
            if entries < self.min_terms:
                raise UserError(
                    f"The list {name} in {option('terms', folder)} has {counted(entries, 'term')}, but a text needs "
                    f"{self.min_terms} of them, so it would have no document. Add terms, or lower "
                    f"{option('min_terms')}."
                )
            yield name, terms_of(hashes)

    def find(self, texts: pa.Array) -> dict[str, np.ndarray[Any, Any]]:
        """For each list, whether each text belongs to it."""
        data, offsets = bytes_of(texts)
        rows = np.arange(len(texts))
        found = {}
        for name, terms in self.lists.items():
            _, spans = find_terms(data, offsets, rows, word_tables(), terms)
            different: dict[int, set[str]] = {}
            for row, begin, end in spans.tolist():
                term = data[begin:end].tobytes().decode("utf-8", "replace").lower()
                different.setdefault(row, set()).add(" ".join(term.split()))
            belongs = np.zeros(len(texts), np.bool_)
            belongs[[row for row, own in different.items() if len(own) >= self.min_terms]] = True
            found[name] = belongs
        return found
