"""Writes the file of language models, in the form that the core scores with (stages/quality/ngram_file.py).

Beside the tables of a language, it has what its n-grams can be written from: `words` and `offsets`, the vocabulary by
number, from <unk> on; `grams2` and so on: pairs of the n-gram without its first word, as an index into the list of
n-grams that are one word shorter, and that word.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.stages.shared.arrow_file import write_arrays
from gristmill_ngram.estimate import Estimate

Array = np.ndarray[Any, Any]
Banded = tuple[Estimate, tuple[float, float] | None]
"""A model and the bounds of its bands."""


def write_models(path: Path, models: Mapping[str, Banded]) -> None:
    """One file with the models of several languages, whose parts are in scratch files."""
    languages: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    for name, (model, bands) in sorted(models.items()):
        languages[name] = {"ngrams": model.ngrams, "shape": model.shape, "bands": bands}
        arrays[f"{name}/slots"] = _mapped(model.slots, np.uint64)
        arrays[f"{name}/words"] = np.frombuffer(model.words, np.uint8)
        arrays[f"{name}/offsets"] = model.offsets
        for order, grams in enumerate(model.grams, 2):
            arrays[f"{name}/grams{order}"] = _mapped(grams, np.uint32).reshape(-1, 2)
    write_arrays(path, {"languages": languages}, arrays)


def _mapped(path: Path, kind: Any) -> Array:
    """An array in a file, which is not read into memory as a whole."""
    return np.memmap(path, kind, "r").view(np.ndarray) if path.stat().st_size else np.empty(0, kind)
