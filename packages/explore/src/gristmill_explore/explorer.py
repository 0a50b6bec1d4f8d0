"""What the pages of the explorer show: documents that match a filter, searches in texts, and labels."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.mill import Mill
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.engine.schedule.run import Run
from gristmill.engine.work.memory import available_cores
from gristmill.errors import UserError
from gristmill.query.documents.documents import Row, rows_at
from gristmill.query.lineage.evidence import Suites
from gristmill.query.takedown import withheld
from gristmill_explore.filters import NONE, DocumentFilter
from gristmill_explore.index import AllRows, DocumentIndex, IndexedDocument
from gristmill_explore.labels import GOOD, LabelFile, wilson

PAGE = 25
"""Documents in a list."""
MOST_DIGITS = 19
"""Numbers of more digits do not fit into 64 bits."""
SEARCH_BYTES = 64 << 20
"""Bytes of text that one request searches, about; the page then requests the rest."""


@dataclass(frozen=True)
class FoundPage:
    """Some of the documents that match a filter."""

    documents: Sequence[IndexedDocument]
    after: str | None
    """Where the next documents begin; None if there are no more."""
    is_searching: bool = False
    """Whether the search has stopped before it found enough."""
    searched: int = 0
    """Documents whose texts have been searched, up to here."""


@dataclass(frozen=True)
class Precision:
    """How many of the labelled documents a rule judged right: bad ones that it dropped, or good ones that it kept."""

    step: str | None
    reason: str | None
    right: int
    labelled: int
    low: float
    high: float


def beginning(text: str, most: int) -> str:
    """The first characters of a text, on one line."""
    line = " ".join(text[: 2 * most].split())
    return f"{line[:most]}…" if len(line) > most else line


class Explorer:
    """A corpus, its index, and the labels of a person."""

    def __init__(
        self, view: CorpusView, labels: Path, mill: Mill | None = None, against: CorpusView | None = None
    ) -> None:
        self.view, self.against = view, against
        self.what_if = (mill, view) if mill is not None and isinstance(view, Run) else None
        """What a what-if needs: the recipe and its state; None for the recorded result of a run."""
        self.labels = LabelFile(labels)
        self.index = DocumentIndex(view, against)
        self.suites = Suites(view)
        known = [(one["doc_id"], one["score"] == GOOD, one["note"]) for one in self.labels]
        columns = [pa.array(list(column)) for column in zip(*known, strict=True)] if known else []
        if columns:
            self.index.replace("labels", "select * from given", pa.table(columns, ["doc_id", "is_good", "note"]))
        self._facets = lru_cache(maxsize=1)(self._count_facets)
        self._texts = AllRows(view, ["doc_id", "text", "locator", "url"])

    def labels_in_recipe(self) -> str:
        """The path of the labels as a recipe has to name them: relative to its folder; absolute without a recipe."""
        path = self.labels.path.resolve()
        if self.what_if is None:
            return str(path)
        return os.path.relpath(path, Path(self.what_if[0].recipe.path).resolve().parent)

    def close(self) -> None:
        """Remove the index."""
        self.index.close()

    def facets(self) -> dict[str, dict[str, int]]:
        """The values of each field with the number of documents, the most frequent first."""
        return self._facets(self.index.rows_indexed)

    def _count_facets(self, _: int) -> dict[str, dict[str, int]]:
        names = ("source", "step", "reason", "language")
        found: dict[str, dict[str, int]] = {name: {} for name in names}
        for *values, number in self.index.ask(f"select {', '.join(names)}, count(*) from documents group by all"):
            for name, value in zip(names, values, strict=True):
                if value is not None or name == "language":
                    key = NONE if value is None else value
                    found[name][key] = found[name].get(key, 0) + number
        return {name: dict(sorted(one.items(), key=lambda item: (-item[1], item[0]))) for name, one in found.items()}

    def count(self, wanted: DocumentFilter) -> int:
        """How many documents match, whatever their text."""
        condition, values = wanted.condition(self.index)
        return int(self.index.ask(f"select count(*) from documents where {condition}", values)[0][0])

    def find(self, wanted: DocumentFilter, after: str) -> FoundPage:
        """The documents that match a filter, from a place on."""
        if wanted.text:
            return self._search(wanted, after)
        condition, values = wanted.condition(self.index)
        key = "rank" if wanted.is_shuffled else "number"
        if after:
            condition += f" and {key} > try_cast(? as ubigint)"
            values.append(after)
        found = self.index.documents(condition, values, key, PAGE + 1)
        last = found[PAGE - 1] if len(found) > PAGE else None
        return FoundPage(found[:PAGE], None if last is None else str(getattr(last, key)))

    def _search(self, wanted: DocumentFilter, after: str) -> FoundPage:
        """Read the texts of documents that match otherwise, part by part, up to a bound; none of a hidden one."""
        condition, values = wanted.condition(self.index)
        condition += " and hidden is null"
        last = int(after) if after.isdecimal() and len(after) < MOST_DIGITS else -1
        found: list[int] = []
        read = 0
        left = f"from documents where {condition} and number > ?"
        for (part,) in self.index.ask(f"select distinct part {left} order by part", [*values, last]):
            if len(found) > PAGE or read > SEARCH_BYTES:
                break
            rows = self.index.arrays(f"select number, row {left} and part = ? order by number", [*values, last, part])
            hits, first = [np.zeros(0, np.int64)], 0
            for batch in self._texts.read(self.index.parts[part]):
                matches = pc.match_substring(batch.column("text"), wanted.text, ignore_case=True).fill_null(False)
                hits.append(first + np.flatnonzero(matches.to_numpy(zero_copy_only=False)))
                first += batch.num_rows
                read += batch.nbytes
            found += rows["number"][np.isin(rows["row"], np.concatenate(hits))].tolist()
            last = int(rows["number"][-1])
        is_full = len(found) > PAGE
        last = found[PAGE - 1] if is_full else last
        is_end = not is_full and not self.index.ask(f"select 1 {left} limit 1", [*values, last])
        searched = self.index.ask(f"select count(*) from documents where {condition} and number <= ?", [*values, last])
        documents = self.index.documents("list_contains(?, number)", [found[:PAGE]], "number", PAGE)
        return FoundPage(documents, None if is_end else str(last), not is_end and not is_full, searched[0][0])

    def document(self, number: int) -> IndexedDocument:
        """A document by its number. Raises UserError if there is none."""
        found = self.index.documents("number = ?", [number], "number", 1)
        if not found:
            more = "" if self.index.is_whole else " The index is not complete yet: try again in a moment."
            raise UserError(f"There is no document {number}.{more}")
        return found[0]

    def beside(self, wanted: DocumentFilter, here: IndexedDocument) -> tuple[int | None, int | None]:
        """The numbers of the documents before and after one, among those that match a filter (but for the text)."""
        condition, values = wanted.condition(self.index)
        key, value = ("rank", here.rank) if wanted.is_shuffled else ("number", here.number)
        sides = (f"{condition} and {key} < ?", f"{key} desc"), (f"{condition} and {key} > ?", key)
        found = [self.index.documents(one, [*values, value], order, 1) for one, order in sides]
        return found[0][0].number if found[0] else None, found[1][0].number if found[1] else None

    def rows(self, documents: Sequence[IndexedDocument], cuts: bool = False) -> list[Row]:
        """The documents with their texts, except for hidden ones."""
        found = rows_at(self.view, [one.place for one in documents], cuts=cuts)
        return [
            row if one.hidden is None else row.without_content(one.hidden)
            for one, row in zip(documents, found, strict=True)
        ]

    def texts(self, places: Sequence[tuple[DocumentPart, int]]) -> list[dict[str, Any]]:
        """The texts and origins of documents, for a list; much cheaper than everything that is known about them."""
        by_part: dict[DocumentPart, set[int]] = {}
        for document, row in places:
            by_part.setdefault(document, set()).add(row)
        found: dict[tuple[DocumentPart, int], dict[str, Any]] = {}

        def read(document: DocumentPart) -> None:
            rows = sorted(by_part[document])
            values = [row for batch in self._texts.take(document, rows) for row in batch.to_pylist()]
            for row, one in zip(rows, values, strict=True):
                if is_withheld := one["doc_id"] in self.index.hidden:
                    one = {"text": None, "locator": withheld.NOWHERE, "url": None}
                fields = {"locator": one["locator"], "url": one["url"], "is_withheld": is_withheld}
                found[document, row] = {"text": one["text"] or "", **fields}

        with ThreadPoolExecutor(available_cores()) as pool:
            list(pool.map(read, by_part))
        return [found[place] for place in places]

    def before(self, doc_id: str) -> Row | None:
        """The document in the other version."""
        found = self.index.ask("select part, row from before where doc_id = ?", [doc_id])
        if self.against is None or not found:
            return None
        return rows_at(self.against, [(self.index.parts_before[found[0][0]], found[0][1])])[0]

    def label(self, number: int, label: str, note: str) -> IndexedDocument:
        """Label a document, in the file and in the index."""
        scores = {"good": GOOD, "bad": 0, "none": None}
        if label not in scores:
            raise UserError(f"{label} is not a label. Labels: {', '.join(scores)}.")
        document = self.document(number)
        self.labels.set(self.rows([document])[0], scores[label], note)
        self.index.ask("delete from labels where doc_id = ?", [document.doc_id])
        if scores[label] is not None:
            self.index.ask("insert into labels values (?, ?, ?)", [document.doc_id, label == "good", note])
        return document

    def precisions(self, only: IndexedDocument | None = None) -> list[Precision]:
        """The precision of every rule with labels, or of the rule that judged one document."""
        where = "" if only is None else "and step is not distinct from ? and reason is not distinct from ?"
        found = self.index.ask(
            "select step, reason, count(*) filter (is_good = (reason is null)), count(*) "
            f"from documents join labels using (doc_id) where hidden is null {where} "
            "group by step, reason order by step nulls last, reason",
            [] if only is None else [only.step, only.reason],
        )
        return [Precision(step, reason, hits, all_of, *wilson(hits, all_of)) for step, reason, hits, all_of in found]
