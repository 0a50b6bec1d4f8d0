"""Compares the verdicts of a run with the truth: what was planted, what was caught, which good pages were lost.

A kind of defect whose step is not in the recipe is shown as such and does not count as missed.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from demo.truth import KINDS, Kind, Plant, Sign, Truth
from gristmill.stages import STEPS

DECONTAMINATE = "decontaminate"
NOT_PAGES = frozenset({"request_record", "warcinfo_record", "metadata_record"})
"""Reasons of rows that have the URL of a page but are not pages."""


class Texts(NamedTuple):
    """A page's text, whether or not the page was dropped."""

    extracted: str
    """The text before any step cut or replaced parts of it."""
    last: str
    """The text after the last step."""


TextOf = Callable[[str, str], Texts | None]
"""Maps (URL, snapshot) to the texts of the page; None if it has no text."""


class Row(NamedTuple):
    """A row of the corpus with its first verdict."""

    source: str
    url: str | None
    locator: str
    """`<path below the source's root>#<position>`"""
    snapshot: str | None
    stage: str | None
    """Name of the step that dropped the row; None for a kept row."""
    reason: str | None


@dataclass(slots=True)
class Line:
    """The result for one kind of defect."""

    kind: str
    planted: int
    expected_by: str
    """The responsible step."""
    present: bool
    """Whether the recipe of the run has such a step."""
    measured: bool = True
    """False if only the text could show it, and no text was given."""
    caught: int = 0
    elsewhere: int = 0
    """Removed by a step that is not responsible for this defect: its page was dropped, or it was not extracted."""
    by: Counter[str] = field(default_factory=Counter)
    """Caught defects by `step: reason`."""
    removed: int | None = None
    """Everything that the chief step removed, planted or not; None if it is not counted."""

    @property
    def precision(self) -> float | None:
        """The share of the chief step's removals that was planted."""
        return None if not self.removed else min(self.caught / self.removed, 1.0)

    @property
    def recall(self) -> float:
        """The share of the planted defects reaching the step that it caught."""
        left = self.planted - self.elsewhere
        return self.caught / left if left else 1.0

    @property
    def false_positives(self) -> int:
        """Removals of the chief step that were not planted."""
        return max((self.removed or 0) - self.caught, 0)

    @property
    def missed(self) -> int:
        return self.planted - self.caught - self.elsewhere if self.present and self.measured else 0


@dataclass(slots=True)
class Good:
    """The result for untouched pages. A page is not lost if a copy or another snapshot of it is kept."""

    total: int = 0
    lost: int = 0
    by: Counter[str] = field(default_factory=Counter)
    """Lost pages by `step: reason`."""


@dataclass(slots=True)
class Score:
    lines: list[Line]
    evals: Line
    """All kinds of eval items together; the step's other removals are documents that contain no item."""
    good: Good


class _Verdicts:
    """The rows by page and by file."""

    def __init__(self, rows: Iterable[Row | tuple[str, str | None, str, str | None, str | None, str | None]]) -> None:
        self.pages: dict[tuple[str, str | None], tuple[str | None, str | None]] = {}
        self.files: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        self.by_step: Counter[str] = Counter()
        for _, url, locator, snapshot, stage, reason in rows:
            if reason in NOT_PAGES:
                continue
            if stage is not None:
                self.by_step[stage] += 1
                self.files[_file_name(locator)][stage, reason or "no reason"] += 1
            if url is not None:
                page = (url, snapshot)
                if page not in self.pages or stage is None:
                    self.pages[page] = (stage, reason)

    def kept(self, url: str, snapshot: str | None) -> bool:
        return self.pages.get((url, snapshot), ("", ""))[0] is None


def score(
    truth: Truth,
    rows: Iterable[Row | tuple[str, str | None, str, str | None, str | None, str | None]],
    steps: Collection[str] = ("ingest", "extract"),
    text_of: TextOf | None = None,
    wrong: Mapping[str, int] = MappingProxyType({}),
) -> Score:
    """`rows`: every row, kept or not; `steps`: names of the steps that ran; `wrong`: wrong cuts by kind."""
    verdicts = _Verdicts(rows)
    lines = []
    for name, kind in KINDS.items():
        plants = truth.plants[name]
        line = Line(name, len(plants), kind.steps[0], any(step in steps for step in kind.steps))
        if kind.sign is Sign.FILE:
            _by_file(line, kind, plants, verdicts)
        elif kind.sign in (Sign.GONE, Sign.THERE):
            _by_text(line, kind, plants, verdicts, text_of)
        else:
            _by_verdict(line, kind, plants, verdicts)
        if kind.sign is Sign.PAIR:
            line.removed = verdicts.by_step[kind.steps[0]]
        elif name in wrong:
            line.removed = line.caught + wrong[name]
        lines.append(line)
    return Score(lines, _evals(truth, lines, verdicts), _good(truth, verdicts))


def _counts(kind: Kind, stage: str | None, reason: str | None) -> bool:
    return stage in kind.steps and (not kind.reasons or reason in kind.reasons)


def _evals(truth: Truth, lines: Iterable[Line], verdicts: _Verdicts) -> Line:
    """Counted together, because a dropped document without an item belongs to no single kind."""
    mine = [line for line in lines if line.expected_by == DECONTAMINATE]
    pages = {(plant.url or "", plant.snapshot) for line in mine for plant in truth.plants[line.kind]}
    right = sum(verdicts.pages.get(page, (None, None))[0] == DECONTAMINATE for page in pages)
    made = Line("eval items", sum(line.planted for line in mine), DECONTAMINATE, all(line.present for line in mine))
    made.caught, made.elsewhere = sum(line.caught for line in mine), sum(line.elsewhere for line in mine)
    made.removed = made.caught + verdicts.by_step[DECONTAMINATE] - right
    return made


def _by_verdict(line: Line, kind: Kind, plants: list[Plant], verdicts: _Verdicts) -> None:
    for plant in plants:
        # A missing row is a miss: a bad record never vanishes.
        page = verdicts.pages.get((plant.url or "", plant.snapshot), (None, None))
        both = [page]
        if kind.sign is Sign.PAIR and plant.original:
            both.append(verdicts.pages.get((plant.original, plant.snapshot), (None, None)))
        for stage, reason in both:
            if _counts(kind, stage, reason):
                line.caught += 1
                line.by[f"{stage}: {reason}"] += 1
                break
        else:
            line.elsewhere += any(stage is not None for stage, _ in both)  # without one of them it is not a pair


def _by_file(line: Line, kind: Kind, plants: list[Plant], verdicts: _Verdicts) -> None:
    planted = Counter(_file_name(plant.path or "") for plant in plants)
    for name, number in planted.items():
        left = number
        for (stage, reason), count in sorted(verdicts.files.get(name, Counter()).items()):
            found = min(left, count) if _counts(kind, stage, reason) else 0
            if found:
                line.by[f"{stage}: {reason}"] += found
                left -= found
        line.caught += number - left


def _by_text(line: Line, kind: Kind, plants: list[Plant], verdicts: _Verdicts, text_of: TextOf | None) -> None:
    line.measured = text_of is not None
    if text_of is None:
        return
    for plant in plants:
        url, snapshot, planted = plant.url or "", plant.snapshot or "", plant.text or ""
        if (url, snapshot) not in verdicts.pages:
            continue
        stage, reason = verdicts.pages[url, snapshot]
        texts = text_of(url, snapshot)
        there = texts is not None and _holds(texts.last, planted)
        if kind.sign is Sign.THERE and there:
            line.caught += 1
            line.by["read well"] += 1
        elif kind.sign is Sign.GONE and texts is not None and not _holds(texts.extracted, planted):
            line.elsewhere += 1  # no later step saw it
        elif kind.sign is Sign.GONE and (stage in kind.steps or (stage is None and texts is not None and not there)):
            line.caught += 1
            line.by[f"{stage}: {reason}" if stage else f"{kind.steps[0]}: gone from the text"] += 1
        elif stage is not None and stage not in kind.steps and (kind.sign is Sign.GONE or texts is None):
            line.elsewhere += 1


def _holds(text: str, planted: str) -> bool:
    return " ".join(planted.split()) in " ".join(text.split())


def _good(truth: Truth, verdicts: _Verdicts) -> Good:
    relatives: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    for url, snapshot in truth.good:
        relatives[url].append((url, snapshot))
    for kind in ("exact_copy", "near_copy"):
        for plant in truth.plants[kind]:
            relatives[plant.original or ""].append((plant.url or "", plant.snapshot))
    good = Good(total=len(truth.good))
    for url, snapshot in truth.good:
        stage, reason = verdicts.pages.get((url, snapshot), ("", "no row"))
        if stage is None:
            continue
        if stage.endswith("dedup") and any(verdicts.kept(*page) for page in relatives[url]):
            continue
        good.lost += 1
        good.by[f"{stage}: {reason}" if stage else "no row"] += 1
    return good


def _file_name(path: str) -> str:
    """The last part of the path in a locator; the names of planted files are unique."""
    return path.rsplit("#", 1)[0].rsplit("/", 1)[-1]


def table(found: Score) -> str:
    """One row for each kind of defect: planted, caught, by which step."""
    rows = [("defect", "planted", "caught", "missed", "by")]
    for line in found.lines:
        if not line.present:
            where = "in this recipe" if line.expected_by in STEPS else "in Gristmill yet"
            rows.append((line.kind, str(line.planted), "-", "-", f"no such step {where} ({line.expected_by})"))
        elif not line.measured:
            rows.append((line.kind, str(line.planted), "-", "-", "not measured: needs the text"))
        else:
            by = [f"{what} {number}" for what, number in sorted(line.by.items())]
            by += [f"gone by other steps {line.elsewhere}"] if line.elsewhere else []
            rows.append((line.kind, str(line.planted), str(line.caught), str(line.missed), ", ".join(by)))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return "\n".join(
        f"{kind:<{widths[0]}}  {planted:>{widths[1]}}  {caught:>{widths[2]}}  {missed:>{widths[3]}}  {by}".rstrip()
        for kind, planted, caught, missed, by in rows
    )


def summary(found: Score) -> str:
    """The totals of planted and caught defects, the steps with their false positives, and the good pages."""
    lines = [line for line in found.lines if line.present and line.measured]
    planted, caught, elsewhere, missed = (
        sum(getattr(line, name) for line in lines) for name in ("planted", "caught", "elsewhere", "missed")
    )
    text = [
        f"Planted defects: {planted} of {len(lines)} kinds; caught {caught}, missed {missed}, "
        f"removed by other steps {elsewhere}."
    ]
    for line in (*found.lines, found.evals):
        if line.present and line.precision is not None:
            shares = f"recall {line.recall:.3f}, precision {line.precision:.3f}"
            text.append(f"  {line.kind}: {shares}, false positives {line.false_positives} by {line.expected_by}")
    reasons = ", ".join(f"{what} {number}" for what, number in sorted(found.good.by.items()))
    text.append(f"Good pages: {found.good.total}, lost: {found.good.lost}" + (f" ({reasons})" if reasons else ""))
    return "\n".join(text)
