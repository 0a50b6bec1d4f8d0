"""Reads and writes ARPA files, the format of KenLM, SRILM and others for language models of n-grams.

    \\data\\
    ngram 1=3
    ngram 2=1
    \\1-grams:
    -1.2  the  -0.3          base 10 logarithm, n-gram, backoff
    ...
    \\end\\

The numbers that are written are those that we score with, so every reader of the file gets the same scores. Numbers
that are read are rounded to the same steps of 1/4096. Words are kept as they are in the file, but texts are cut as
usual (kernels/ngram/cut.py), so a word with a capital letter or a sign never matches.
"""

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from typing import IO, Any

import numpy as np

from gristmill.errors import UserError, cause_of
from gristmill.kernels.hash.radix import sort_order
from gristmill.kernels.ngram.arpa import FINE, NO_NUMBER, NO_WORD, TOO_LARGE, TOO_MANY, read_ngrams
from gristmill.kernels.ngram.cut import ROOM, ROOM_BYTES, cut_tables, cut_texts
from gristmill.kernels.ngram.tables import Tables, hash_ngrams, packed, unpacked, values_of
from gristmill.kernels.ngram.vocabulary import hash_strings
from gristmill.stages.quality.ngram_file import Language, NgramModel, special_hashes
from gristmill.stages.quality.ngram_train import write_slots
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.stream import MAGIC_BYTES, compression

Array = np.ndarray[Any, Any]

MOST_ORDER = 5
_CHUNK = 1 << 22
_MOST_LINE = 1 << 16
_ROWS = 1 << 16
_WRONG = {
    NO_NUMBER: "a line must have a number, words, and at most one more number",
    NO_WORD: "it has fewer words than its section says",
    TOO_MANY: "it has more words than its section says",
    TOO_LARGE: "the logarithm of a probability is above 0, or a backoff is out of range",
}


def write_arpa(model: NgramModel, name: str, path: str | os.PathLike[str]) -> None:
    """Writes all n-grams of a language's model."""
    language = model.language(name)
    if len(language.grams) != language.order - 1:
        raise UserError(f"{model.path} was made from an ARPA file and has no n-grams to write. Copy the ARPA file.")
    words = [word.decode("utf-8", "replace") for word in _split(language.words.tobytes(), language.offsets)]
    hashes = np.concatenate([np.zeros(1, np.uint64), hash_strings(language.words, language.offsets)])
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write("\\data\\\n")
        file.writelines(f"ngram {order}={count}\n" for order, count in enumerate(language.ngrams, 1))
        for order, count in enumerate(language.ngrams, 1):
            file.write(f"\n\\{order}-grams:\n")
            for begin in range(0, count, _ROWS):
                ids = _numbers(language, order, np.arange(begin, min(begin + _ROWS, count)), model.path)
                file.writelines(_lines(language, order, ids, hashes, words))
        file.write("\n\\end\\\n")


def _split(data: bytes, offsets: Array) -> Iterator[bytes]:
    at = offsets.tolist()
    return (data[begin:end] for begin, end in pairwise(at))


def _numbers(language: Language, order: int, places: Array, path: str) -> Array:
    """The words of n-grams of an order, by their indices in its list."""
    found = np.empty((len(places), order), np.int64)
    for length in range(order, 1, -1):
        pairs = language.grams[length - 2][places]
        places, found[:, order - length] = pairs[:, 0].astype(np.int64), pairs[:, 1]
        if len(places) and (places.max() >= language.ngrams[length - 2] or pairs[:, 1].max() > language.ngrams[0]):
            raise UserError(f"{path} is damaged: an n-gram refers to one that does not exist. Train it again.")
    found[:, -1] = places + 1
    if (found < 1).any():
        raise UserError(f"{path} is damaged: an n-gram refers to word 0. Train it again.")
    return found


def _lines(language: Language, order: int, ids: Array, hashes: Array, words: list[str]) -> Iterator[str]:
    values = values_of(hash_ngrams(ids, hashes), order, language.tables)
    probabilities, backoffs = unpacked(values)
    for row, probability, backoff in zip(ids.tolist(), probabilities.tolist(), backoffs.tolist(), strict=True):
        suffix = f"\t{backoff!r}" if order < language.order else ""
        yield f"{probability!r}\t{' '.join([words[one - 1] for one in row])}{suffix}\n"


def read_arpa(path: str | os.PathLike[str]) -> Language:
    """The model of an ARPA file, plain or compressed; cached for the process as long as the file does not change."""
    path = os.fspath(path)
    try:
        status = os.stat(path)
        return _read(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise UserError(f"{path}: {cause_of(error)}, so no text can be scored. Check the path.") from error
    except ReadFault as fault:
        raise UserError(
            f"{path}: {fault.detail} ({fault.reason}), so no text can be scored. Give an intact file."
        ) from None


@lru_cache(maxsize=4)
def _read(path: str, _size: int, _mtime_ns: int) -> Language:
    with open(path, "rb") as file:
        return _Reader(path, file).read()


class _Reader:
    """Reads an ARPA file from start to end and names the line with a fault."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        self._path, self._chunks = path, _opened(file)
        self._data, self._at, self._line, self._is_end = b"", 0, 0, False
        self._empty = 0

    def _fail(self, fact: str) -> UserError:
        return UserError(
            f"{self._path}:{max(self._line, 1)}: {fact}. The language model cannot be read, so no text can be scored. "
            "Give an intact ARPA file."
        )

    def read(self) -> Language:
        while (line := self._next()) != b"\\data\\":
            if line:
                raise self._fail("an ARPA file begins with \\data\\")
        counts: list[int] = []
        while (line := self._next()) or not counts:
            if not line:
                continue
            found = re.fullmatch(rb"ngram\s+(\d{1,2})\s*=\s*(\d{1,12})", line)
            if found is None or int(found[1]) != len(counts) + 1:
                raise self._fail(f"expected `ngram {len(counts) + 1}=` and a number")
            counts.append(int(found[2]))
        if not 1 <= len(counts) <= MOST_ORDER:
            raise self._fail(f"it has n-grams up to order {len(counts)}, but only 1 to {MOST_ORDER} are supported")
        slots, shape, words = BytesIO(), [], b""
        offsets = np.zeros(1, np.int64)
        first = 0
        for order, count in enumerate(counts, 1):
            rows, spelled = self._section(order, count)
            if order == 1:
                words, offsets = b"".join(spelled), np.cumsum([0, *map(len, spelled)], dtype=np.int64)
                self._check_words(spelled)
            ordered = rows[sort_order(rows[:, 0], rows[:, 1])]
            twice = ordered[1:, 0] == ordered[:-1, 0]
            if twice.any():
                raise self._fail(f"an n-gram of order {order} appears twice")
            places, size, walk = write_slots([ordered] if len(ordered) else [], count, slots)
            shape.append([first, places, walk])
            first += size
        if self._skip_empty() != b"\\end\\":
            raise self._fail("\\end\\ is missing")
        held = np.frombuffer(slots.getvalue(), np.uint64)
        tables = Tables(held, np.array(shape, np.int64), special_hashes())
        return Language(tuple(counts), tables, np.frombuffer(words, np.uint8), offsets, (), None)

    def _check_words(self, words: list[bytes]) -> None:
        known = {word.lower() if word.startswith(b"<") else word for word in words}
        missing = [name for name in ("<unk>", "<s>", "</s>") if name.encode() not in known]
        if missing:
            raise self._fail(f"the word {', '.join(missing)} is missing, and scoring needs it")

    def _section(self, order: int, count: int) -> tuple[Array, list[bytes]]:
        """Rows for `write_slots`, and the words of order 1."""
        if self._skip_empty() != f"\\{order}-grams:".encode():
            raise self._fail(f"expected \\{order}-grams:")
        blocks: list[Array] = []
        words: list[bytes] = []
        done = 0
        special = special_hashes()
        spaces = np.empty(_ROWS, np.uint64), np.empty((_ROWS, 2)), np.empty((_ROWS, 2), np.int64)
        while True:
            self._data, self._at = self._data[self._at :], 0
            data = np.frombuffer(self._data, np.uint8)
            self._at, read, lines, wrong = read_ngrams(data, 0, order, _ROWS, *spaces, special)
            self._line += lines + (wrong != FINE)
            if wrong != FINE:
                raise self._fail(_WRONG[wrong])
            if read:
                block = np.empty((read, 3), np.uint64)
                block[:, 0], block[:, 1] = spaces[0][:read], np.arange(done, done + read, dtype=np.uint64)
                block[:, 2] = packed(spaces[1][:read, 0], spaces[1][:read, 1])
                blocks.append(block)
                done += read
                if order == 1:
                    words += [self._data[begin:end] for begin, end in spaces[2][:read].tolist()]
            elif b"\n" in self._data[self._at :] or not self._more():
                break
        if done != count:
            raise self._fail(f"the header announces {count:,} n-grams of order {order}, but there are {done:,}")
        return np.concatenate([np.empty((0, 3), np.uint64), *blocks]), words

    def _skip_empty(self) -> bytes:
        while not (line := self._next()):
            if self._is_end and self._at >= len(self._data):
                raise self._fail("the file ends here")
        return line

    def _next(self) -> bytes:
        """The next line, without surrounding white space."""
        while (end := self._data.find(b"\n", self._at)) < 0 and self._more():
            pass
        if end < 0 and self._at >= len(self._data):
            raise self._fail("the file ends here")
        end = len(self._data) if end < 0 else end
        line = self._data[self._at : end].strip()
        self._at = end + 1
        self._line += 1
        self._empty += not line
        if self._empty > _MOST_EMPTY:
            raise self._fail(f"it has more than {_MOST_EMPTY:,} empty lines")
        return line

    def _more(self) -> bool:
        if len(self._data) - self._at > _MOST_LINE and b"\n" not in self._data[self._at :]:
            raise self._fail(f"a line is longer than {_MOST_LINE:,} bytes")
        chunk = b"" if self._is_end else next(self._chunks, b"")
        if not chunk and not self._is_end:
            self._is_end, chunk = True, b"\n"
        self._data, self._at = self._data[self._at :] + chunk, 0
        return bool(chunk)


_MOST_EMPTY = 10_000
_MOST_UNPACKED = 50
"""Bytes for each packed one; ARPA files compress to a fifth."""


def _opened(file: IO[bytes]) -> Iterator[bytes]:
    magic = file.read(MAGIC_BYTES)
    file.seek(0)
    if compression(magic):
        from gristmill.stages.reading.archive import chunks_of

        most = _MOST_UNPACKED * (os.fstat(file.fileno()).st_size + (1 << 20))
        for chunk in chunks_of(file):
            most -= len(chunk)
            if most < 0:
                raise ReadFault("unpacks_to_too_much", f"it unpacks to more than {_MOST_UNPACKED} times its size")
            yield chunk
        return
    while chunk := file.read(_CHUNK):
        yield chunk


def normal_form(texts: list[str]) -> list[str]:
    """Texts as the words that a model sees: spaces between words, one line per sentence."""
    data = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, data)], dtype=np.int64)
    spaces = np.empty(ROOM_BYTES, np.uint8), np.empty((ROOM, 3), np.int64)
    out, ends = cut_texts(np.frombuffer(b"".join(data), np.uint8), offsets, cut_tables(), *spaces)
    at = [0, *ends.tolist()]
    return [out[begin:end].tobytes().decode("utf-8", "replace") for begin, end in pairwise(at)]
