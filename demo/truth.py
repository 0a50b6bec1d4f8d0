"""The planted defects and the untouched pages: the ground truth for the demo inputs."""

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path


class Sign(StrEnum):
    """The evidence that a defect was handled."""

    DROPPED = "dropped"
    """The page's row has a verdict of a responsible step."""
    FILE = "file"
    """The file has as many rows with such a verdict as it has plants, since a broken record may not know its URL."""
    PAIR = "pair"
    """The copy or its original has such a verdict; the recipe decides which of them is kept."""
    GONE = "gone"
    """The planted string is no longer in the text."""
    THERE = "there"
    """The planted string is in the text, so the record was decoded correctly."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of defect and the responsible step."""

    sign: Sign
    steps: tuple[str, ...]
    """Responsible steps by their names in a recipe, the chief one first. `ingest` and `extract` come with a source."""
    reasons: frozenset[str] = frozenset()
    """Reasons that count; if empty, any reason of a responsible step."""


_BROKEN_MEMBER = frozenset({"truncated_gzip", "corrupt_gzip", "truncated_record", "unreadable_bytes"})

KINDS = {
    "truncated_gzip": Kind(Sign.FILE, ("ingest",), _BROKEN_MEMBER),
    "bad_json_line": Kind(Sign.FILE, ("ingest",)),
    "invalid_utf8_line": Kind(Sign.FILE, ("ingest",)),
    "binary_file": Kind(Sign.FILE, ("ingest",), frozenset({"not_code"})),
    "empty_file": Kind(Sign.FILE, ("ingest",)),
    "http_404": Kind(Sign.DROPPED, ("ingest",)),
    "redirect": Kind(Sign.DROPPED, ("ingest",)),
    "image": Kind(Sign.DROPPED, ("ingest",)),
    "robots_txt": Kind(Sign.DROPPED, ("ingest",)),
    "empty_body": Kind(Sign.DROPPED, ("ingest", "extract")),
    "huge_page": Kind(Sign.DROPPED, ("extract", "ingest")),
    "deep_page": Kind(Sign.DROPPED, ("extract", "ingest")),
    "mostly_invalid_utf8": Kind(Sign.DROPPED, ("ingest", "extract", "keep_language", "heuristics")),
    "few_invalid_bytes": Kind(Sign.THERE, ("ingest",)),
    "encoded_body": Kind(Sign.THERE, ("ingest",)),
    "charset": Kind(Sign.THERE, ("ingest",)),
    "robots_disallowed": Kind(Sign.DROPPED, ("robots", "gate")),
    "foreign_language": Kind(Sign.DROPPED, ("keep_language",)),
    "gibberish": Kind(Sign.DROPPED, ("heuristics", "keep_language", "keep_quality")),
    "keyword_spam": Kind(Sign.DROPPED, ("heuristics", "keep_quality")),
    "sales_talk": Kind(Sign.DROPPED, ("keep_quality",)),
    "exact_copy": Kind(Sign.PAIR, ("exact_dedup", "near_dedup")),
    "near_copy": Kind(Sign.PAIR, ("near_dedup",)),
    "boilerplate_line": Kind(Sign.GONE, ("line_dedup",)),
    "eval_whole": Kind(Sign.GONE, ("decontaminate",)),
    "eval_partial": Kind(Sign.GONE, ("decontaminate",)),
    "eval_edited": Kind(Sign.GONE, ("decontaminate",)),
    "eval_short": Kind(Sign.GONE, ("decontaminate",)),
    "email": Kind(Sign.GONE, ("scrub",)),
    "ip_address": Kind(Sign.GONE, ("scrub",)),
    "secret": Kind(Sign.GONE, ("scrub",)),
}
"""Every kind of defect, in the order of the pipeline."""


@dataclass(frozen=True, slots=True)
class Plant:
    """One planted defect and how to find it."""

    url: str | None = None
    snapshot: str | None = None
    path: str | None = None
    """The file below the demo folder, if only the file is known; its last part is unique."""
    original: str | None = None
    """URL of the page in the same snapshot that this one copies."""
    text: str | None = None
    """The planted string."""
    item: str | None = None
    """Id of the eval item that was copied."""
    note: str | None = None
    """What distinguishes this plant from others of its kind."""


@dataclass(slots=True)
class Truth:
    seed: int
    scale: float
    plants: dict[str, list[Plant]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    good: list[tuple[str, str]] = field(default_factory=list)
    """(URL, snapshot) of every page that a good recipe keeps; copies of it may replace it."""
    other: list[tuple[str, str]] = field(default_factory=list)
    """(URL, snapshot) of pages that a recipe may keep or drop: listings in nested tables."""

    def write(self, path: Path) -> None:
        plants = {
            kind: {"number": len(found), "plants": [_without_none(plant) for plant in found]}
            for kind, found in self.plants.items()
        }
        pages = {"good": self.good, "other": self.other}
        content = {"seed": self.seed, "scale": self.scale, "kinds": plants, **pages}
        path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")

    @classmethod
    def read(cls, path: Path) -> "Truth":
        content = json.loads(path.read_text("utf-8"))
        plants = {kind: [Plant(**plant) for plant in found["plants"]] for kind, found in content["kinds"].items()}
        good, other = ([(url, snapshot) for url, snapshot in content[name]] for name in ("good", "other"))
        return cls(content["seed"], content["scale"], plants, good, other)


def _without_none(plant: Plant) -> dict[str, str]:
    return {name: value for name, value in asdict(plant).items() if value is not None}
