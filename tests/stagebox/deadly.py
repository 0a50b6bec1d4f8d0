"""A map stage that kills its process on certain texts, as a crashing C extension would."""

import os
import signal

import pyarrow as pa

from gristmill.stages.contract import StageConfig

VERSION = 1
READS = ("text",)
SCHEMA = pa.schema([("seen", pa.bool_())])


class Config(StageConfig):
    word: str = "POISON"
    """Texts with this word are fatal."""
    once: str = ""
    """A file that is made before the first death: later tries survive."""
    always: bool = False
    """Every record is fatal."""


def apply(batch, config):
    for text in batch.column("text").to_pylist():
        if config.always or (text is not None and config.word in text):
            if config.once:
                if os.path.exists(config.once):
                    continue
                open(config.once, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
    return pa.RecordBatch.from_arrays([pa.array([True] * batch.num_rows)], schema=SCHEMA)
