"""A reader of plain lines that kills its process on a line with POISON; and files that it cannot get past."""

import os
import signal

from gristmill.schema import Record
from gristmill.stages.contract import StageConfig

VERSION = 1
LIBRARIES = ()


class Config(StageConfig):
    pass


def SPLITTABLE(name):
    return name.endswith(".lines")


def read(piece, config):
    with open(piece.uri, "rb") as file:
        position = 0
        for line in file:
            start, position = position, position + len(line)
            if b"WALL" in line and (piece.stop is None or start < piece.stop):
                os.kill(os.getpid(), signal.SIGKILL)
            if piece.start <= start and (piece.stop is None or start < piece.stop):
                if b"POISON" in line:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield Record(start, text=line.decode().rstrip("\n"))
