"""Cuts a text for requests: into chunks between paragraphs, each at most so many bytes, and into sentences."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LINE_END = re.compile(r"\n[ \t]*\n\s*|\n")
"""The ends of paragraphs and lines."""
SENTENCE_END = re.compile(r"""(?<![.!?…؟۔।॥።։။។])[.!?…؟۔।॥።։။។]++["'”’»)\]]*+\s+|[。！？]+["'”’」』）]*\s*""")
"""The ends of sentences: a mark and white space, or a mark of Chinese or Japanese."""
_WORD = re.compile(r"\s+")


def chunks_of(text: str, most_bytes: int) -> list[str]:
    """The chunks of a text. Concatenated, they are the text; none has more than `most_bytes` bytes of UTF-8, and
    paragraphs stay whole unless one of them is longer than that.
    """
    if len(text.encode()) <= most_bytes:
        return [text] if text else []
    chunks: list[str] = []
    held: list[str] = []
    size = 0
    for piece in _pieces(text, most_bytes):
        length = len(piece.encode())
        if held and size + length > most_bytes:
            chunks.append("".join(held))
            held, size = [], 0
        held.append(piece)
        size += length
    return [*chunks, "".join(held)] if held else chunks


class Sentence(NamedTuple):
    """A sentence, and its place in bytes of the whole text."""

    start: int
    stop: int
    text: str


def sentences_of(text: str) -> list[Sentence]:
    """The sentences of a text, none longer than a line; pieces without a letter, such as a list's numbers, are not."""
    found, at = [], 0
    for line in split(text, LINE_END):
        for piece in split(line, SENTENCE_END):
            sentence = piece.strip()
            if any(map(str.isalpha, sentence)):
                start = at + len(piece[: len(piece) - len(piece.lstrip())].encode())
                found.append(Sentence(start, start + len(sentence.encode()), sentence))
            at += len(piece.encode())
    return found


def _pieces(
    text: str, most_bytes: int, ends: Sequence[re.Pattern[str]] = (LINE_END, SENTENCE_END, _WORD)
) -> Iterator[str]:
    """The paragraphs with the line ends after them; one that is too long in sentences, a sentence that is too long in
    words, and such a word in characters.
    """
    for piece in split(text, ends[0]) if ends else ():
        if len(piece.encode()) <= most_bytes:
            yield piece
        else:
            yield from _pieces(piece, most_bytes, ends[1:])
    if not ends:
        data, start = text.encode(), 0
        while len(data) - start > most_bytes:
            end = start + most_bytes
            while data[end] & 0xC0 == 0x80:  # not inside a character
                end -= 1
            yield data[start:end].decode()
            start = end
        yield data[start:].decode()


def split(text: str, ends: re.Pattern[str]) -> Iterator[str]:
    """The pieces of a text, each with the end after it."""
    start = 0
    for found in ends.finditer(text):
        yield text[start : found.end()]
        start = found.end()
    if start < len(text):
        yield text[start:]
