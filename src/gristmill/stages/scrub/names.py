"""Names of persons, by a spaCy model that the recipe names: what no form and no checksum can find.

It is slow beside all else (a small model does some 100 kB/s), depends on the language that the model was trained for,
and is not sure to find the same in a text that was scrubbed before.
"""

from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from gristmill.errors import UserError
from gristmill.stages.scrub.finding import Finding

LIBRARIES = ("spacy",)
MOST_CHARS = 100_000
"""Of a piece that a model sees at once; its memory grows with it."""
MARK = "Person-"
"""Begins every pseudonym of a name."""


def find_names(text: bytes, model: str, labels: Collection[str]) -> Iterator[Finding]:
    read = _model(model)
    at = 0  # in bytes
    for piece in _pieces(text.decode()):
        seen, place = 0, at
        for entity in read(piece).ents:
            written = piece[entity.start_char : entity.end_char]
            if entity.label_ not in labels or written.startswith(MARK) or not written.replace(" ", "").isalpha():
                continue
            place += len(piece[seen : entity.start_char].encode())
            stop = place + len(written.encode())
            yield Finding(place, stop, "name", " ".join(written.split()).casefold())
            seen, place = entity.end_char, stop
        at += len(piece.encode())


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that end behind a line, or where they must."""
    start = 0
    while start < len(text):
        stop = min(start + MOST_CHARS, len(text))
        line = text.rfind("\n", start, stop) + 1
        stop = line if stop < len(text) and line > start else stop
        yield text[start:stop]
        start = stop


@lru_cache(maxsize=1)
def _model(path: str) -> Any:
    import spacy

    try:
        model = spacy.load(Path(path))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: spaCy cannot load it ({error}), so no name can be found. "
            "Set name_model to the folder of a model, the one with config.cfg in it"
        ) from None
    model.max_length = 2 * MOST_CHARS
    return model
