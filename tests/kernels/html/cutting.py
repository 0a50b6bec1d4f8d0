"""Pages cut into blocks, all of them written, and what a plain reading of the same page says."""

from html.parser import HTMLParser
from typing import Any

import numpy as np

from gristmill.kernels.html.assemble import write_text
from gristmill.kernels.html.bounds import as_words
from gristmill.kernels.html.boxes import S_END, S_FULL
from gristmill.kernels.html.layout import B_START, B_STOP, BOX, BOX_FLAGS, BOX_NAMES, SKIPPED, SPACED
from gristmill.kernels.html.page import PageBuffers, cut_and_measure
from gristmill.stages.extract.formulas import write_formulas

_NAMES = list(enumerate(BOX_NAMES))
_EDGES = {name for kind, name in _NAMES if BOX_FLAGS[kind] & (BOX | SPACED)} | {"br", "hr"}
_SKIPPED = {name for kind, name in _NAMES if BOX_FLAGS[kind] & SKIPPED}


class Cut:
    """A page cut into blocks, in memory for pages of `room_bytes`."""

    def __init__(self, page: bytes | str, markdown: bool = False, room_bytes: int | None = None) -> None:
        page = page.encode() if isinstance(page, str) else page
        self.room = PageBuffers(len(page) if room_bytes is None else room_bytes)
        data, words = as_words(np.frombuffer(page, np.uint8))
        room = self.room
        self.count, _ = cut_and_measure(
            data, words, 0, len(page), markdown, room.small, room.tables, room.texts, room.flat
        )
        self.markdown = markdown
        self.table = room.tables[0][: self.count]
        self.used_bytes = int(room.small[0][S_END])
        self.is_full = bool(room.small[0][S_FULL])

    @property
    def texts(self) -> list[str]:
        marked = (self.room.texts[row[B_START] : row[B_STOP]].tobytes() for row in self.table)
        return [write_formulas(text).text.decode() for text in marked]

    def written(self) -> bytes:
        """The text if every block stays."""
        keep = np.ones(self.count, np.uint8)
        blocks, elements = self.room.tables[:2]
        end = write_text(blocks, self.count, elements, keep, self.room.texts, self.room.out, self.markdown)
        return self.room.out[:end].tobytes()


def text_of(page: str, markdown: bool = False) -> str:
    return write_formulas(Cut(page, markdown).written()).text.decode()


def words_of(page: str) -> list[str]:
    """The words of all blocks, without the separators between the cells of a row."""
    return [word for text in Cut(page).texts for word in text.split() if word != "|"]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.handle_data(" " if tag in _EDGES else "")
        if tag in _SKIPPED:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.inside:
            self.inside.remove(tag)
        self.handle_data(" " if tag in _EDGES else "")

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.pieces.append(data)


def read_words(page: str) -> list[str]:
    """The words of a page, parted by white space and by the edges of boxes. The oracle."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return "".join(reader.pieces).split()
