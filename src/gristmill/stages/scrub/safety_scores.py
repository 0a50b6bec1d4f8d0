"""Second part of `safety`: measures texts, so that another threshold does not measure again.

`terms` counts the words and phrases of the lists for the document's language (term_lists.py), `words` all its words by
the same scan; both are null if there is no list for the language. `toxicity` is the probability of one label of a
fastText classifier, equal to the library's to 1e-5; null if a text has no word.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.errors import WrongSetting
from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.text.listed_terms import Terms, find_terms
from gristmill.stages.buffers import bytes_of
from gristmill.stages.contract import File, Map, StageConfig
from gristmill.stages.natural_languages import LABEL, language_of, rows_by_label
from gristmill.stages.scrub import term_lists
from gristmill.stages.shared import fasttext_model
from gristmill.stages.shared.counting import counts_of, languages_of
from gristmill.stages.shared.fasttext_model import MOST_LABELS
from gristmill.stages.shared.lists import list_warnings
from gristmill.stages.shared.tally import NOTHING
from gristmill.warned import Warnings

SCHEMA = pa.schema([("words", pa.int32()), ("terms", pa.int32()), ("toxicity", pa.float32())])

_LABEL = "__label__"

Array = np.ndarray[Any, Any]


class Config(StageConfig):
    terms: File | None = None
    """Words and phrases by language: a folder with a file for each, named by its code (`en`, `de.txt`; `all.txt` for
    every language), one term per line. A single file is for every language."""
    toxicity: File | None = None
    """A supervised fastText model, .bin or .ftz."""
    toxic_label: str = "toxic"
    """The label of that model whose probability is used, with or without `__label__`."""


def check(config: Config) -> None:
    """Checks that the model has the label."""
    if config.toxicity is None:
        return
    labels = fasttext_model.load(config.toxicity).labels
    if len(labels) > MOST_LABELS:
        raise WrongSetting(
            "toxicity",
            f"{config.toxicity} has {len(labels):,} labels, but a toxicity classifier has at most {MOST_LABELS}. Give "
            "a model that was trained to separate toxic texts from others.",
        )
    if config.toxic_label.removeprefix(_LABEL) not in labels:
        raise WrongSetting(
            "toxic_label",
            f"{config.toxicity} has no label {config.toxic_label}, so nothing would be measured. Its labels: "
            f"{', '.join(labels[:20])}.",
        )


def may_read(config: Config) -> tuple[str, ...]:
    return (LABEL,) if config.terms else ()


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    words, terms = np.zeros(batch.num_rows, np.int32), np.zeros(batch.num_rows, np.int32)
    known = np.zeros(batch.num_rows, np.bool_)
    for rows, counts, spans in spans_of_terms(batch, config):
        words[rows] = counts
        terms += np.bincount(spans[:, 0], minlength=batch.num_rows).astype(np.int32)
        known[rows] = True
    columns = [pa.array(words, mask=~known), pa.array(terms, mask=~known), _toxicity(batch["text"], config)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def spans_of_terms(batch: pa.RecordBatch, config: Config) -> Iterator[tuple[Array, Array, Array]]:
    """For the documents of each list: their rows, word counts, and terms as (row, begin, end), in bytes."""
    if config.terms is None:
        return
    data, offsets = bytes_of(batch["text"])
    valid = batch["text"].is_valid().to_numpy(zero_copy_only=False)
    for terms, mask in _by_list(batch, term_lists.load(config.terms)):
        rows = np.flatnonzero(mask & valid)
        yield rows, *find_terms(data, offsets, rows, word_tables(), terms)


def _by_list(batch: pa.RecordBatch, lists: term_lists.TermLists) -> Iterator[tuple[Terms, Array]]:
    """Each list with the rows that use it."""
    if LABEL not in batch.schema.names:
        if lists.for_all is not None:
            yield lists.for_all, np.ones(batch.num_rows, np.bool_)
        return
    labels, places = rows_by_label(batch[LABEL])
    by_list: dict[int, tuple[Terms, list[int]]] = {}
    for place, label in enumerate([*labels, None]):
        terms = lists.of(language_of(label))
        if terms is not None:
            by_list.setdefault(id(terms), (terms, []))[1].append(place)
    for terms, some in by_list.values():
        yield terms, np.isin(places, some)


def _toxicity(text: pa.Array, config: Config) -> pa.Array:
    if config.toxicity is None:
        return pa.nulls(len(text), pa.float32())
    model = fasttext_model.load(config.toxicity)
    wanted = config.toxic_label.removeprefix(_LABEL)
    return fasttext_model.scores(model, text, np.array([float(label == wanted) for label in model.labels]))


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """By language: documents with terms, and documents without a list; also faults in the lists."""
    if config.terms is None:
        return {}
    lists = term_lists.load(config.terms)
    languages = languages_of(batch)
    some = pc.fill_null(pc.greater(answers["terms"], 0), False)
    unmeasured = pc.and_(answers["terms"].is_null(), batch["text"].is_valid())
    return {
        "batches": 1,
        "languages": counts_of(languages),
        "with_terms": counts_of(languages.filter(some)),
        "without_list": counts_of(languages.filter(unmeasured)),
        "empty_lists": {name: 1 for name, entries in lists.entries.items() if not entries},
        "bad_entries": dict(lists.faults),
    }


def warnings(found: dict[str, Any], config: Config) -> list[str]:
    """Warns about empty lists, entries that never match, and languages without a list."""
    if config.terms is None or not found.get("batches"):
        return []
    messages = Warnings(
        list_warnings(found, lambda _: "without a word, one letter of a script without spaces, or too long")
    )
    without = dict(found["without_list"])
    unknown = without.pop(NOTHING, 0)
    if unknown:
        messages.add(
            "no_list",
            f"{counted(unknown, 'document has', 'documents have')} no language, and there is no list for such "
            "documents. Add the step `language` before this one, or add all.txt to the lists",
        )
    if without:
        most = sorted(without.items(), key=lambda item: (-item[1], item[0]))
        messages.add(
            "no_list",
            f"there is no list of terms for {counted(len(without), 'language')}: "
            + ", ".join(f"{name} ({counted(count, 'document')})" for name, count in most[:10])
            + (" and others" if len(most) > 10 else ""),
        )
    if not found["with_terms"]:
        messages.add("no_effect", "no document contains a term of the lists")
    return messages


STAGE = Map(
    version=4,
    config=Config,
    libraries=("unicode",),
    reads=("text",),
    may_read=may_read,
    only_kept=True,
    schema=SCHEMA,
    ranges={"toxicity": fasttext_model.PROBABILITY},
    apply=apply,
    metrics=metrics,
    check=check,
    warnings=warnings,
)
