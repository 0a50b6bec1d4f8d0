"""The throughput of a run over time, in a bounded number of intervals."""

from typing import Any

INTERVALS = 120
"""The most intervals; if there are more, every two become one."""
FIRST_S = 2.0


class Throughput:
    """Bytes, rows and tasks by interval of time."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._width_s = FIRST_S
        self._counts: list[list[float]] = []

    def add(self, now: float, seconds: float, size: float, rows: float) -> None:
        """Add a task that has just ended. What it did is spread evenly over the seconds that it took."""
        end = max(0.0, now - self._started)
        begin = min(end, max(0.0, end - seconds))
        while end >= INTERVALS * self._width_s:
            self._widen()
        while len(self._counts) <= end // self._width_s:
            self._counts.append([0.0, 0.0, 0.0])
        last = int(end // self._width_s)
        self._counts[last][2] += 1
        for at in range(int(begin // self._width_s), last + 1):
            low, high = max(begin, at * self._width_s), min(end, (at + 1) * self._width_s)
            share = (high - low) / (end - begin) if end > begin else float(at == last)
            self._counts[at][0] += share * size
            self._counts[at][1] += share * rows

    def _widen(self) -> None:
        self._width_s *= 2
        pairs = zip(self._counts[::2], [*self._counts[1::2], [0.0, 0.0, 0.0]], strict=False)
        self._counts = [[one + other for one, other in zip(*pair, strict=True)] for pair in pairs]

    def as_record(self) -> dict[str, Any]:
        """The width of an interval, and for each interval since the start its bytes, rows and finished tasks."""
        counts = [[round(size), round(rows), round(tasks)] for size, rows, tasks in self._counts]
        return {"interval_s": self._width_s, "counts": counts}
