"""A map stage that kills its process on certain texts, as a crashing C extension or too large a document would."""

import ctypes
import os
import resource
import signal
from pathlib import Path

import pyarrow as pa

from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("seen", pa.bool_())])


class Config(StageConfig):
    word: str = "POISON"
    """Texts with this word are fatal; all, if it is empty."""
    how: str = "SIGSEGV"
    """The way to die: SIGSEGV (a real one), SIGKILL, exit, MemoryError; or to hang for ever."""
    mended: str = ""
    """Where this file exists, as if a library had been mended, nothing is fatal."""
    kills: str = ""
    """A folder that counts deaths: after `most` of them nothing is fatal any more, as when a storm is over."""
    most: int = 0


def apply(batch, config):
    for text in batch.column("text").to_pylist():
        if text is not None and config.word in text and is_deadly(config):
            die(config.how)
    return pa.RecordBatch.from_arrays([pa.array([True] * batch.num_rows)], schema=SCHEMA)


def is_deadly(config):
    if config.mended and os.path.exists(config.mended):
        return False
    if not config.kills:
        return True
    count = len(os.listdir(config.kills))
    if count >= config.most:
        return False
    Path(config.kills, f"{count}.{os.getpid()}").touch()
    return True


def die(how):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if how == "SIGSEGV":
        ctypes.string_at(0)
    elif how == "exit":
        os._exit(3)
    elif how == "MemoryError":
        raise MemoryError
    elif how == "hang":
        signal.pause()
    else:
        os.kill(os.getpid(), signal.Signals[how])


STAGE = Map(config=Config, reads=("text",), schema=SCHEMA, apply=apply)
