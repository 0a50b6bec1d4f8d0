"""Names, found by a spaCy model that the recipe names; no pattern or checksum can find them.

It is slow compared to everything else (a small model processes about 100 kB/s), depends on the language of the model,
and does not always find the same names in a text that was scrubbed before.
"""

import importlib.util
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from gristmill.errors import UserError, WrongSetting
from gristmill.install_command import install_extra
from gristmill.stages.scrub.finding import PiiSpan

LIBRARIES = ("spacy",)
MOST_CHARS = 100_000
"""Characters of a piece that a model sees at once; its memory grows with them."""
MARK = "Person-"
"""Begins every pseudonym of a name."""


def check_library(setting: str, fix: str) -> None:
    """Raise an error about a setting that needs spaCy if it is not installed."""
    if importlib.util.find_spec("spacy") is None:
        fact = f"spacy is not installed, so no name can be found. Run {install_extra('ner')}"
        raise WrongSetting(setting, f"{fact}, or {fix}")


def find_names(text: bytes, model: str, labels: Collection[str]) -> Iterator[PiiSpan]:
    for start, stop, written in find_entities(text.decode(), model, labels):
        if not written.startswith(MARK) and written.replace(" ", "").isalpha():
            yield PiiSpan(start, stop, "name", " ".join(written.split()).casefold())


def find_entities(text: str, model: str, labels: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """The start and stop in bytes of each entity with one of the labels, and the entity."""
    read = _model(model)
    at = 0  # in bytes
    for piece in _pieces(text):
        done, place = 0, at
        for entity in read(piece).ents:
            if entity.label_ in labels:
                written = piece[entity.start_char : entity.end_char]
                place += len(piece[done : entity.start_char].encode())
                stop = place + len(written.encode())
                yield place, stop, written
                done, place = entity.end_char, stop
        at += len(piece.encode())


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that end after a line, or at the limit."""
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
            "Set name_model to the folder of a model, which contains config.cfg"
        ) from None
    model.max_length = 2 * MOST_CHARS
    return model
