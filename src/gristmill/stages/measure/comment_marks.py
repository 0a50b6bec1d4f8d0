"""How comments and quotes are written in the main families of programming languages."""

import numpy as np
import numpy.typing as npt

from gristmill.data_files import read_table
from gristmill.kernels.text.code_scan import BACKTICK, DOUBLE, MARK_BYTES, MARKS, SINGLE, TRIPLE

FAMILIES = read_table(__file__, "comment_marks.toml")["families"]
_QUOTES = {"double": DOUBLE, "single": SINGLE, "backtick": BACKTICK, "triple": TRIPLE}

FAMILY_OF = {language: place for place, family in enumerate(FAMILIES) for language in family["languages"]}


def marks() -> npt.NDArray[np.uint8]:
    """The marks of every family, as the kernel takes them."""
    table = np.zeros((len(FAMILIES), MARKS, MARK_BYTES), np.uint8)
    for row, family in zip(table, FAMILIES, strict=True):
        for place, mark in enumerate(family.get("lines", ())):
            row[place, : len(mark)] = np.frombuffer(mark.encode(), np.uint8)
        for place, block in enumerate(family.get("blocks", ())):
            for side, mark in enumerate(block):
                row[2 + 2 * place + side, : len(mark)] = np.frombuffer(mark.encode(), np.uint8)
    return table


def quotes() -> npt.NDArray[np.int64]:
    return np.array([sum(_QUOTES[name] for name in family["quotes"]) for family in FAMILIES], np.int64)
