"""Whether generated texts are as diverse as their parents, by prompt and model.

A generator that collapses repeats itself: the same n-grams, the same openings, texts that resemble each other. Each
measure is taken of the texts and of their parents, both cut to the same number of words, in BLOCKS blocks of documents.
The spread between blocks gives the sampling error. A difference in the direction of collapse that is larger than three
errors and a tenth of the parents' value is a warning.
"""

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from markupsafe import Markup

from gristmill.api.corpus import Corpus
from gristmill.api.tables import Table
from gristmill.counted import counted
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.query.documents.columns import ColumnReader, columns_of
from gristmill.report.page import TABLE_PAGE, render

MOST_DOCUMENTS, MOST_PARTS = 2000, 64
"""Documents of a prompt and model that are read, and parts that they are read from."""
MOST_ROWS = 4 * MOST_DOCUMENTS
"""Rows of a part that are read."""
BLOCKS = 10
LEAST_OF_A_BLOCK = 10
"""With fewer documents in a block, no error and no warning is given."""
PAIRS = 100
"""Pairs of documents that are compared in each block."""
OPENING_WORDS = 3
ERRORS, CHANGE = 3.0, 0.1
"""A warning needs a difference of so many errors, and of this share of the parents' value."""
FIELDS = ("prompt", "model", "parent_text")


class DiversityMeasure(NamedTuple):
    name: str
    collapse: int
    """The sign of a change towards collapse."""


MEASURES = (
    DiversityMeasure("distinct 3-grams of words, share", -1),
    DiversityMeasure("compressed size, share", -1),
    DiversityMeasure("similarity of two texts (Jaccard)", 1),
    DiversityMeasure("texts with the most common opening, share", 1),
)


class GeneratedPair(NamedTuple):
    """The words of a generated text and of its parent, equally many."""

    text: list[str]
    parent: list[str]


def page(corpus: Corpus) -> str:
    """The report page `diversity`."""
    lines, note = diversity(corpus._view_now())
    if not lines:
        raise UserError(f"No document of {corpus.name} has a parent, so nothing was written. Use a corpus with some.")
    return render(
        TABLE_PAGE,
        title=f"Diversity of generated text: {corpus.name}",
        table=Markup(Table(lines, [note])._repr_html_()),
    )


def diversity(view: CorpusView) -> tuple[list[dict[str, Any]], str]:
    """A line for each prompt, model and measure, and a note about all of them."""
    lines: list[dict[str, Any]] = []
    warned = 0
    groups = read_pairs(view)
    for (prompt, model), pairs in groups.items():
        opening, times = Counter(_opening(pair.text) for pair in pairs).most_common(1)[0]
        for measure, (own, parents, error) in zip(MEASURES, compare_blocks(pairs), strict=True):
            is_warned = error is not None and is_collapse(measure, own, parents, error)
            warned += is_warned
            note = "less diverse than the parents" if is_warned else "" if error is not None else "too few documents"
            if is_warned and measure is MEASURES[-1]:
                note += f": {times:,} begin with “{opening}”"
            difference = f"{own - parents:+.3f}" + ("" if error is None else f" ± {error:.3f}")
            shown = {"generated": f"{own:.3f}", "parents": f"{parents:.3f}", "difference": difference}
            lines.append({"prompt": prompt, "model": model, "measure": measure.name, "warning": note, **shown})
    documents = sum(map(len, groups.values()))
    return lines, (
        f"Kept generated texts and their parents, cut to the same length: {counted(documents, 'document')} read. "
        f"The error is the standard error over {BLOCKS} blocks. {counted(warned, 'warning')}."
    )


def read_pairs(view: CorpusView) -> dict[tuple[str, str], list[GeneratedPair]]:
    """At most MOST_DOCUMENTS pairs of each prompt and model, from parts that are spread over the corpus. A prompt,
    model or parent is a column of a step, or a field of `meta`.
    """
    known = columns_of(view)
    columns = {field: next((one for one in known if one.rpartition(".")[2] == field), None) for field in FIELDS}
    named = [one for one in columns.values() if one is not None]
    if not named and not any(node.name == "faithful" for node in view.nodes.values()):
        return {}
    found: dict[tuple[str, str], list[GeneratedPair]] = {}
    reader = ColumnReader(view, ["text", "meta", *named])
    parts = reader.parts[:: max(1, -(-len(reader.parts) // MOST_PARTS))]
    each = -(-MOST_DOCUMENTS // max(1, len(parts)))
    for document in parts:
        taken: Counter[tuple[str, str]] = Counter()
        for batch in reader.read(document, (0, MOST_ROWS)):
            for row in batch.to_pylist():
                meta = orjson.loads(row["meta"]) if row["meta"] else {}
                prompt, model, parent = (_value(row, meta, field, columns[field]) for field in FIELDS)
                if parent is None or row["text"] is None:
                    continue
                key = (prompt or "(none)", model or "(none)")
                words, parent_words = row["text"].split(), parent.split()
                size = min(len(words), len(parent_words))
                if size and taken[key] < each:
                    taken[key] += 1
                    found.setdefault(key, []).append(GeneratedPair(words[:size], parent_words[:size]))
    return dict(sorted(found.items()))


def _value(row: Mapping[str, str | None], meta: Mapping[str, object], field: str, column: str | None) -> str | None:
    value = row[column] if column is not None else None
    other = meta.get(field)
    return value if value is not None else other if isinstance(other, str) else None


def compare_blocks(pairs: Sequence[GeneratedPair]) -> list[tuple[float, float, float | None]]:
    """For each measure: the means over blocks of texts and of parents, and the standard error of their difference."""
    blocks = BLOCKS if len(pairs) >= BLOCKS * LEAST_OF_A_BLOCK else 1
    # Neighbours share a site or a parent, so each block is spread over the corpus.
    sides = [
        np.array([measure_texts([pair[side] for pair in pairs[block::blocks]]) for block in range(blocks)])
        for side in (0, 1)
    ]
    differences = sides[0] - sides[1]
    errors = differences.std(axis=0, ddof=1) / np.sqrt(blocks) if blocks > 1 else None
    own, parents = (side.mean(axis=0) for side in sides)
    return [
        (float(own[place]), float(parents[place]), None if errors is None else float(errors[place]))
        for place in range(len(MEASURES))
    ]


def is_collapse(measure: DiversityMeasure, own: float, parents: float, error: float) -> bool:
    """Whether texts are less diverse than their parents, beyond the sampling error."""
    change = measure.collapse * (own - parents)
    return change > ERRORS * error and change > CHANGE * parents


def measure_texts(texts: Sequence[list[str]]) -> tuple[float, ...]:
    """The MEASURES of some texts, given as words."""
    from gristmill.kernels.dedup.sketch import jaccard  # most reports need no kernel, and Numba is slow to load
    from gristmill.stages.matches import shingles_of

    grams = [gram for text in texts for gram in zip(text, text[1:], text[2:], strict=False)]
    data = "\n".join(map(" ".join, texts)).encode()
    openings = Counter(map(_opening, texts))
    ends, values = shingles_of(pa.array([" ".join(text) for text in texts]))
    sets = [values[ends[row] : ends[row + 1]] for row in range(len(texts))]
    drawn = np.random.default_rng(0).integers(0, len(texts), (PAIRS, 2))
    shares = [jaccard(sets[one], sets[other]) for one, other in drawn.tolist() if one != other]
    return (
        len(set(grams)) / max(1, len(grams)),
        len(zlib.compress(data, 6)) / max(1, len(data)),
        sum(both / max(1, either) for both, either in shares) / max(1, len(shares)),
        max(openings.values()) / len(texts),
    )


def _opening(words: Sequence[str]) -> str:
    return " ".join(words[:OPENING_WORDS]).lower()
