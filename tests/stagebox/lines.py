"""A reader of plain lines that kills its process on a line with POISON; and files that it cannot get past."""

from gristmill.schema import Record
from gristmill.stages.contract import Reader, StageConfig
from stagebox.deadly import die


class Config(StageConfig):
    pass


def read(piece, config):
    with piece.open() as file:
        position = 0
        for line in file:
            start, position = position, position + len(line)
            if b"WALL" in line and (piece.stop is None or start < piece.stop):
                die("SIGSEGV")
            if piece.start <= start and (piece.stop is None or start < piece.stop):
                if b"POISON" in line:
                    die("SIGSEGV")
                yield Record(start, text=line.decode().rstrip("\n"))


STAGE = Reader(config=Config, read=read, splittable=True)
