"""Reads ARPA files, the format of KenLM, SRILM and others for language models of n-grams.

    \\data\\
    ngram 1=3
    ngram 2=1
    \\1-grams:
    -1.2  the  -0.3          base 10 logarithm, n-gram, backoff
    ...
    \\end\\

Numbers are rounded to steps of 1/4096. Words are kept as they are in the file, but texts are cut as usual
(kernels/ngram/cut.py), so a word with a capital letter or a sign never matches.
"""

import os
import re
from functools import lru_cache
from io import BytesIO
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import UserError, cause_of
from gristmill.kernels.hash.radix import sort_order
from gristmill.kernels.ngram.tables import HIGHEST_ORDER, Tables, hash_strings, mixed_hashes, packed
from gristmill.stages.buffers import large_texts
from gristmill.stages.quality.ngram_file import SPECIAL, NgramModel, special_hashes, write_slots
from gristmill.stages.reading.archive import chunks_of
from gristmill.stages.reading.decompress import ReadFault

Array = np.ndarray[Any, Any]

_MOST_LINE = 1 << 16
_END_OF_SECTION = re.compile(rb"^[ \t\r]*(?:\\[^\n]*)?\n", re.MULTILINE)
_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"


def read_arpa(path: str | os.PathLike[str]) -> NgramModel:
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
def _read(path: str, _size: int, _mtime_ns: int) -> NgramModel:
    with open(path, "rb") as file:
        return _Reader(path, file).read()


class _Reader:
    """Reads an ARPA file from start to end and names the line with a fault."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        self._path, self._chunks = path, chunks_of(file)
        self._data, self._offset, self._line, self._is_end = b"", 0, 0, False
        self._special = special_hashes()

    def _fail(self, fact: str, line: int | None = None) -> UserError:
        return UserError(
            f"{self._path}:{max(self._line if line is None else line, 1)}: {fact}. The language model cannot be read, "
            "so no text can be scored. Give an intact ARPA file."
        )

    def read(self) -> NgramModel:
        if self._next_text() != b"\\data\\":
            raise self._fail("an ARPA file begins with \\data\\")
        counts: list[int] = []
        while (line := self._next_line()) or not counts:
            if not line:
                continue
            match = re.fullmatch(rb"ngram\s+(\d{1,2})\s*=\s*(\d{1,12})", line)
            if match is None or int(match[1]) != len(counts) + 1:
                raise self._fail(f"expected `ngram {len(counts) + 1}=` and a number")
            counts.append(int(match[2]))
        if not 1 <= len(counts) <= HIGHEST_ORDER:
            raise self._fail(f"it has n-grams up to order {len(counts)}, but only 1 to {HIGHEST_ORDER} are supported")
        slots, shape, first = BytesIO(), [], 0
        for order, count in enumerate(counts, 1):
            rows = self._section(order, count)
            rows = rows[sort_order(rows[:, 0], rows[:, 1])]
            if (rows[1:, 0] == rows[:-1, 0]).any():
                raise self._fail(f"an n-gram of order {order} appears twice")
            places, size, walk = write_slots([rows] if len(rows) else [], count, slots)
            shape.append([first, places, walk])
            first += size
        if self._next_text() != b"\\end\\":
            raise self._fail("\\end\\ is missing")
        values = np.frombuffer(slots.getvalue(), np.uint64)
        return NgramModel(Tables(values, np.array(shape, np.int64), self._special), None)

    def _section(self, order: int, count: int) -> Array:
        """The rows of an order for `write_slots`, in the order of the file."""
        if self._next_text() != f"\\{order}-grams:".encode():
            raise self._fail(f"expected \\{order}-grams:")
        blocks = [np.empty((0, 3), np.uint64)]
        while lines := self._ngram_lines():
            blocks.append(self._rows(lines, order))
        rows = np.concatenate(blocks)
        if len(rows) != count:
            raise self._fail(f"the header announces {count:,} n-grams of order {order}, but there are {len(rows):,}")
        rows[:, 1] = np.arange(count, dtype=np.uint64)
        if order == 1:
            missing = ~np.isin(mixed_hashes([self._special]), rows[:, 0])
            if missing.any():
                names = ", ".join(name for name, is_missing in zip(SPECIAL, missing, strict=True) if is_missing)
                raise self._fail(f"the word {names} is missing, and scoring needs it")
        return rows

    def _ngram_lines(self) -> list[bytes]:
        """The next lines of n-grams, some megabytes at a time; none at the end of a section."""
        while True:
            end = _END_OF_SECTION.search(self._data, self._offset)
            stop = end.start() if end else self._data.rfind(b"\n") + 1
            if stop > self._offset:
                lines = self._data[self._offset : stop - 1].split(b"\n")
                self._offset = stop
                return lines
            if end or not self._more():
                return []

    def _rows(self, lines: list[bytes], order: int) -> Array:
        texts = pc.ascii_trim_whitespace(pa.array(lines, pa.large_binary()).view(pa.large_string()))
        fields = pc.ascii_split_whitespace(texts)
        firsts, sizes = fields.offsets.to_numpy()[:-1], fields.value_lengths().to_numpy()
        has_backoff = sizes == order + 2
        logarithm = fields.values.take(pa.array(firsts))
        backoff = pc.if_else(pa.array(has_backoff), self._field(fields, firsts + order + 1), "0")
        numbers = np.array([_numbers(texts) for texts in (logarithm, backoff)])
        faults = {
            "it has more words than its section says": sizes > order + 2,
            "a line must have a number, words, and at most one more number": np.isnan(numbers[0])
            | np.isnan(numbers[1]),
            "it has fewer words than its section says": sizes < order + 1,
            "the logarithm of a probability is above 0, or a backoff is out of range": (numbers[0] > 0)
            | ~(np.abs(numbers[1]) < 1e6),
        }
        is_wrong = np.any(list(faults.values()), axis=0)
        if is_wrong.any():
            row = int(np.argmax(is_wrong))
            fact = next(fact for fact, rows in faults.items() if rows[row])
            raise self._fail(fact, self._line + row + 1)
        self._line += len(lines)
        words = [self._hashes(self._field(fields, firsts + index)) for index in range(1, order + 1)]
        rows = np.zeros((len(lines), 3), np.uint64)
        rows[:, 0], rows[:, 2] = mixed_hashes(words), packed(*numbers)
        return rows

    def _field(self, fields: pa.Array, indices: Array) -> pa.Array:
        return fields.values.take(pa.array(np.minimum(indices, len(fields.values) - 1)))

    def _hashes(self, words: pa.Array) -> Array:
        """The hashes of words; variants such as <UNK> are <unk>."""
        data, offsets = large_texts(words)
        hashes = hash_strings(data, offsets.copy())
        is_unknown = pc.equal(pc.ascii_lower(words), SPECIAL[0]).to_numpy(zero_copy_only=False)
        return np.where(is_unknown, self._special[0], hashes)

    def _next_text(self) -> bytes:
        """The next line that is not empty."""
        while not (line := self._next_line()):
            pass
        return line

    def _next_line(self) -> bytes:
        """The next line, without surrounding white space."""
        while (end := self._data.find(b"\n", self._offset)) < 0 and self._more():
            pass
        if end < 0:
            raise self._fail("the file ends here")
        line = self._data[self._offset : end].strip()
        self._offset = end + 1
        self._line += 1
        return line

    def _more(self) -> bool:
        """Adds the next bytes of the file; False at its end. A last line needs no line feed."""
        self._data, self._offset = self._data[self._offset :], 0
        if len(self._data) > _MOST_LINE and b"\n" not in self._data:
            raise self._fail(f"a line is longer than {_MOST_LINE:,} bytes")
        if self._is_end:
            return False
        chunk = next(self._chunks, b"")
        self._is_end = not chunk
        self._data += chunk or b"\n"
        return True


def _numbers(texts: pa.Array) -> Array:
    """Decimal numbers, float64; NaN for any other text."""
    is_number = pc.match_substring_regex(texts, _NUMBER)
    return np.asarray(pc.if_else(is_number, pc.ascii_ltrim(texts, "+"), "nan").cast(pa.float64()).to_numpy())
