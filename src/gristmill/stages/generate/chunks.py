"""Cuts a text into chunks for requests: between paragraphs, each chunk at most so many bytes."""

import re
from collections.abc import Iterator

_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*|\n")
"""The ends of paragraphs and lines."""
_SENTENCE = re.compile(r"[.!?。！？]\s*|\s+")
"""Where a paragraph that is too long may be cut."""


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


def _pieces(text: str, most_bytes: int) -> Iterator[str]:
    """The paragraphs with the line ends after them; longer ones in sentences, words, or at last in characters."""
    for paragraph in _split(text, _PARAGRAPH):
        if len(paragraph.encode()) <= most_bytes:
            yield paragraph
            continue
        for piece in _split(paragraph, _SENTENCE):
            data, start = piece.encode(), 0
            while len(data) - start > most_bytes:
                end = start + most_bytes
                while data[end] & 0xC0 == 0x80:  # not inside a character
                    end -= 1
                yield data[start:end].decode()
                start = end
            yield data[start:].decode()


def _split(text: str, ends: re.Pattern[str]) -> Iterator[str]:
    start = 0
    for found in ends.finditer(text):
        yield text[start : found.end()]
        start = found.end()
    if start < len(text):
        yield text[start:]
