"""Sorts more rows than memory holds: sorted runs in files, merged block by block.

A row is some numbers (uint64); the first two are its key. The result does not depend on the order of the input.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from gristmill.kernels.hash.radix import sort_order
from gristmill_ngram.kernels.counts import combine, rows_up_to

Array = np.ndarray[Any, Any]

_RUNS = 64
"""Files that are merged at once; if there are more, they are first merged into one."""
_LEAST_ROWS = 1 << 12


class RowFile:
    """Rows in a file, which is written once and read any number of times."""

    def __init__(self, path: Path, width: int) -> None:
        self.path, self.width, self.rows = path, width, 0
        self._out: IO[bytes] | None = open(path, "wb")  # noqa: SIM115 closed when it is read

    def write(self, rows: Array) -> None:
        assert self._out is not None
        np.ascontiguousarray(rows).tofile(self._out)
        self.rows += len(rows)

    def blocks(self, rows: int) -> Iterator[Array]:
        """All rows, some at a time."""
        if self._out is not None:
            self._out.close()
            self._out = None
        with open(self.path, "rb") as file:
            while len(block := np.fromfile(file, np.uint64, rows * self.width)):
                yield block.reshape(-1, self.width)

    def remove(self) -> None:
        if self._out is not None:
            self._out.close()
        self.path.unlink(missing_ok=True)


class Sorter:
    """Takes rows in any order and yields them sorted. With `sums`, rows with the same key become one, with the sum of
    the third numbers; otherwise keys are unique."""

    def __init__(self, path: Path, width: int, memory: int, sums: bool = False) -> None:
        self._path, self._width, self._sums = path, width, sums
        # A row, its sorted copy, and the keys and indices of the sort, each with a spare.
        self._most = max(memory // (16 * width + 40), _LEAST_ROWS)
        self._held: list[Array] = []
        self._held_rows = 0
        self._runs: list[RowFile] = []
        self._run_count = 0

    def add(self, rows: Array) -> None:
        for begin in range(0, len(rows), self._most):
            part = rows[begin : begin + self._most]
            if self._held_rows + len(part) > self._most:
                self._spill()
            self._held.append(part.copy())
            self._held_rows += len(part)

    def sorted(self) -> Iterator[Array]:
        """Blocks of rows in the order of their keys. The sorter is empty afterwards."""
        if not self._runs:
            rows = self._take()
            if len(rows):
                yield rows
            return
        if self._held:
            self._spill()
        yield from self._merged()
        self._drop_runs()

    def _take(self) -> Array:
        rows = np.concatenate(self._held) if self._held else np.empty((0, self._width), np.uint64)
        self._held, self._held_rows = [], 0
        return self._ordered(rows)

    def _ordered(self, rows: Array) -> Array:
        rows = rows[sort_order(rows[:, 0], rows[:, 1])]
        return rows[: combine(rows)] if self._sums else rows

    def _spill(self) -> None:
        run = self._new_run()
        run.write(self._take())
        self._runs.append(run)
        if len(self._runs) == _RUNS:
            together = self._new_run()
            for block in self._merged():
                together.write(block)
            self._drop_runs()
            self._runs = [together]

    def _new_run(self) -> RowFile:
        self._run_count += 1
        return RowFile(self._path.with_name(f"{self._path.name}.{self._run_count}"), self._width)

    def _drop_runs(self) -> None:
        for run in self._runs:
            run.remove()
        self._runs = []

    def _merged(self) -> Iterator[Array]:
        """All rows up to the smallest of the last keys that were read are in memory: these are sorted and yielded."""
        block_rows = max(self._most // (2 * len(self._runs)), 64)
        readers = [run.blocks(block_rows) for run in self._runs]
        heads = [next(reader, None) for reader in readers]
        while any(head is not None for head in heads):
            last = min((int(head[-1, 0]), int(head[-1, 1])) for head in heads if head is not None)
            taken = []
            for index, head in enumerate(heads):
                if head is None:
                    continue
                count = rows_up_to(head, np.uint64(last[0]), np.uint64(last[1]))
                taken.append(head[:count])
                heads[index] = head[count:] if count < len(head) else next(readers[index], None)
            yield self._ordered(np.concatenate(taken))
