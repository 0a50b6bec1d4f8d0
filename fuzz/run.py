"""The fuzzer: it takes a file that reached something new, changes it, and checks whether anything breaks.

Everything is drawn from the seed; the time limit only says when to stop. An input that breaks something is made smaller
and written to a folder with its traceback. Then the fuzzer looks for other faults.
"""

import random
import resource
import sys
import time
import traceback
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz.meter import METER, TooMuchWork
from fuzz.mutate import mutated
from fuzz.target import Target
from fuzz.windows import small_windows

CORPUS = Path(__file__).parent / "corpus"
"""Inputs that once broke something, one folder per target. Every fuzzer and a test run them first."""
MOST_FILES = 1000
_BASE_WORK = 5_000_000
_MEMORY_BYTES = 4 << 30


@dataclass
class Found:
    """An input that breaks something, and how."""

    data: bytes
    place: str
    """The exception and the line that raised it: two inputs with the same location are one fault."""
    report: str


@dataclass
class Fuzzer:
    target: Target
    seed: int
    folder: Path
    last: Path | None = None
    """The file that holds the input during a try, because a crash of the process leaves nothing else."""
    files: list[bytes] = field(default_factory=list)
    edges: set[int] = field(default_factory=set)
    found: dict[str, Found] = field(default_factory=dict)
    tries: int = 0
    corpus_holds: bool = False
    """Another process tries the files of the corpus; this one only changes them."""

    def start(self) -> None:
        seeds, corpus = list(self.target.seeds()), corpus_of(self.target.name)
        self.files += [*seeds, *corpus]
        for data in seeds if self.corpus_holds else self.files[:]:
            self.tried(data)

    def step(self, number: int) -> None:
        """Runs one try, which depends on the seed, its number and earlier discoveries."""
        draw = random.Random(f"{self.target.name} {self.seed} {number}")
        at = (
            draw.randrange(len(self.files))
            if draw.random() < 0.5
            else -1 - min(int(draw.expovariate(0.1)), len(self.files) - 1)
        )
        data = self.files[at]
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            own = self.target.mutations
            if own and draw.random() < 0.4:
                data = draw.choice(own)(draw, data)
            else:
                data = mutated(draw, data, self.target.words, self.files)
        if self.tried(data) and len(self.files) < MOST_FILES:
            self.files.append(data)

    def tried(self, data: bytes) -> bool:
        """Whether the input reached something new."""
        self.tries += 1
        fault = self._fault(data)
        if fault is not None and fault.place not in self.found:
            self.found[fault.place] = self._smaller(fault)
        new = not self.edges.issuperset(METER.edges)
        self.edges |= METER.edges
        return new

    def _fault(self, data: bytes) -> Found | None:
        """Only the check is limited: seeds and changes of files may also go through counting modules."""
        if self.last is not None:
            self.last.write_bytes(data)
        METER.reset(_BASE_WORK + self.target.work_per_byte * self.target.size(data))
        try:
            self.target.check(data, self.folder)
        except (Exception, TooMuchWork) as error:
            return Found(data, _place(error), traceback.format_exc())
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            return Found(data, _place(error), traceback.format_exc())
        finally:
            METER.unbound()
        return None

    def _smaller(self, fault: Found) -> Found:
        """Cuts passages away as long as the same fault occurs; inputs that hang stay unchanged."""
        size = len(fault.data) // 2
        tries = 0
        while size and tries < 300 and not fault.place.startswith("TooMuchWork"):
            at = 0
            while at < len(fault.data) and tries < 300:
                tries += 1
                less = self._fault(fault.data[:at] + fault.data[at + size :])
                if less is not None and less.place == fault.place:
                    fault = less
                else:
                    at += size
            size //= 2
        return fault


def _place(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "meter.py" not in frame.filename]
    words = str(error).splitlines()[0][:80] if isinstance(error, AssertionError) and str(error) else ""
    if isinstance(error, TooMuchWork):
        return "TooMuchWork"
    return f"{type(error).__name__} {Path(frames[-1].filename).name}:{frames[-1].lineno} {words}".strip()


def corpus_of(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*")) if path.is_file()]


def fuzz(
    target: Target,
    seed: int,
    seconds: float | None = None,
    tries: int | None = None,
    last: Path | None = None,
    corpus_holds: bool = False,
) -> Fuzzer:
    """Runs until the time is over or the number of tries is reached."""
    with TemporaryDirectory(prefix="gristmill-fuzz-") as folder, small_windows():
        fuzzer = Fuzzer(target, seed, Path(folder), last, corpus_holds=corpus_holds)
        fuzzer.start()
        end = time.monotonic() + seconds if seconds is not None else None
        number = 0
        while (end is None or time.monotonic() < end) and (tries is None or number < tries):
            fuzzer.step(number)
            number += 1
    if last is not None:
        last.unlink()
    return fuzzer


def bound_memory() -> None:
    """Limits the further memory of the process; beyond it, code gets a MemoryError, which is a finding."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + _MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def write_findings(fuzzer: Fuzzer, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for found in fuzzer.found.values():
        path = folder / f"{fuzzer.target.name}-{zlib.crc32(found.data):08x}"
        path.write_bytes(found.data)
        path.with_suffix(".txt").write_text(found.report)
        written.append(path)
    return written
