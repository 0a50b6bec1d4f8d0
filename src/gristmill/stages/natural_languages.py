"""Maps the labels of language classifiers to languages, and lists what our rules need to know about a language."""

from collections.abc import Collection
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.data_files import read_table

LABEL = "language.label"
"""The column with the language of a document, on routes with the step `language`."""

ENGLISH = "en"

WITHOUT_SPACES = frozenset({"zh", "yue", "wuu", "ja", "th", "lo", "km", "my", "bo", "dz"})
"""Languages written without spaces between words: a run without white space is a sentence or more."""

FOUND_ANYWHERE = frozenset({"th", "lo", "km", "my"})
"""Languages among those whose words our scan cannot find: a word counts wherever its letters are in the text."""

_TABLES = read_table(__file__, "natural_languages.toml")


def _pairs(table: str) -> dict[str, str]:
    return dict(pair.split() for pair in _TABLES[table].split(","))


_SCRIPTED = _pairs("scripted")
"""Labels of GlotLID and of NLLB's classifier in lower case: ISO 639-3 and a script."""
LID_176 = frozenset(_TABLES["lid_176"].split())
"""The labels of lid.176.ftz, which the step `language` uses unless another model is given."""
CODES = {**_pairs("names"), **_pairs("codes")}
"""What people write instead of `de`: English names and other codes."""


def language_of(label: str | None) -> str | None:
    """The language of a label: a code as in lid.176 (de), or one with a script (deu_Latn)."""
    if label is None:
        return None
    folded = label.lower()
    return _SCRIPTED.get(folded, folded)


def rows_by_label(labels: pa.Array) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The distinct labels of a column and, for each row, the index of its label; for a null, the next index."""
    encoded = labels if pa.types.is_dictionary(labels.type) else labels.dictionary_encode()
    names: list[str] = encoded.dictionary.cast(pa.string()).to_pylist()
    places = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False).astype(np.int64)
    return names, places


def intended_label(name: str, labels: Collection[str]) -> str | None:
    """The label that the user means who writes the name of a language or another classifier's code."""
    known = {language_of(label): label for label in labels}
    folded = name.lower().replace("-", "_")
    by_three = {scripted[:3]: code for scripted, code in _SCRIPTED.items()}
    for code in (language_of(folded), folded.split("_")[0], CODES.get(folded), by_three.get(folded)):
        if code in known:
            return known[code]
    near = get_close_matches(folded, [name for name in CODES if len(name) > 3], n=1, cutoff=0.75)
    return known.get(CODES[near[0]]) if near else None
