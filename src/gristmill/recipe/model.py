"""A loaded recipe: every name is resolved and every value checked; nothing is left to look up in the YAML."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from gristmill.recipe.fields import EVERY_SOURCE, CdxFields
from gristmill.recipe.sections.accept import AcceptFields
from gristmill.recipe.sections.cluster import ClusterFields
from gristmill.recipe.sections.snapshot import is_regex, search
from gristmill.recipe.sections.watch import WatchFields
from gristmill.stages.contract import StageConfig
from gristmill.stages.own_code import Code


@dataclass(frozen=True)
class Source:
    """Input files that are read the same way and take the same route."""

    name: str
    kind: str
    """Sources of one kind share the steps listed under that kind."""
    format: str
    module: str
    """The reader's module."""
    config: StageConfig
    """The reader's own config."""
    paths: tuple[str, ...]
    """Absolute local patterns or URIs with their globs; glob characters in the recipe's own folder are escaped."""
    exclude: tuple[str, ...]
    """Patterns of the same form; a file that matches one is not read."""
    links: str
    """`inside`: links below a pattern's fixed part are followed if they stay below it; `follow`: all are."""
    snapshot: str | None
    """A literal, or a regular expression with one group that is searched for in the file's path."""
    part_bytes: int
    """Input bytes per part."""
    limit: int | None
    """The most records to read."""
    license: str | None
    domain: str | None
    tier: str | None
    tiers: dict[str, str]
    """Conditions by tier, if the source has several tiers."""
    weight: str | None
    """A value over columns."""
    line: int
    """The line of the source in the recipe."""
    domain_column: str | None = None
    """The column whose values are the domains; `domain` is for documents without a value."""
    tier_column: str | None = None
    """The same for tiers."""
    index: CdxFields | None = None
    """The index that names the records to read, with absolute patterns; `paths` is the folder of its file names."""
    path_lines: dict[str, int] = field(default_factory=dict, compare=False)
    """The line of each of its paths."""
    code: Code = field(default_factory=dict, compare=False)
    """The code of a user's own reader."""
    parents: tuple[str, ...] = ()
    """For a derived source: the sources whose documents its own are made from."""
    maker: "Step | None" = None
    """For a derived source: the step on the routes of its parents that makes its documents."""

    @property
    def made_by(self) -> str:
        """The id of that step; empty for a source that is read."""
        return "" if self.maker is None else self.maker.id

    def snapshots_of(self, paths: Sequence[str]) -> Sequence[str | None]:
        """The snapshots of files; None if the expression does not match."""
        if self.snapshot is None or not is_regex(self.snapshot):
            return [self.snapshot] * len(paths)
        return search(self.snapshot, paths)


@dataclass(frozen=True)
class Step:
    """One stage with its config, at one position of a route."""

    id: str
    """Route and name, `web/extract`; a second step of that name in the route is `web/extract_2`."""
    name: str
    """The name that other stages use: `extract`; for a user's own stage, the last part of its import path."""
    route: str
    """Its key in `steps`: a kind, a source's name or `all`."""
    module: str
    config: StageConfig
    line: int
    at: tuple[str | int, ...] = field(default=(), compare=False)
    """The position of its config in the recipe; empty for a stage that a step or a field of the recipe implies."""
    code: Code = field(default_factory=dict, compare=False)
    """The code of a user's own step."""
    implied_by: str = field(default="", compare=False)
    """For a stage that no user writes: the id of the step, or the field of the recipe, that implies it."""

    @classmethod
    def implied(
        cls, by: str, name: str, stage: ModuleType, config: StageConfig, line: int, route: str = EVERY_SOURCE
    ) -> "Step":
        """A stage that a field of the recipe implies, by default for every source."""
        return cls(f"{route}/{name}", name, route, stage.__name__, config, line, implied_by=by)


@dataclass(frozen=True)
class Recipe:
    """A checked recipe that can run."""

    name: str
    seed: int
    store: str
    """Absolute local path or URI."""
    strict: bool
    """Whether a warning (a filter that matched nothing) that is not accepted is an error."""
    path: str
    """The recipe's file, as the user gave it."""
    text: str = field(compare=False)
    """The content of the file."""
    sources: dict[str, Source]
    """In the order of the file."""
    steps: tuple[Step, ...]
    """Every step once, in the order of the file."""
    routes: dict[str, tuple[Step, ...]]
    """The steps that each source goes through, by the source's name."""
    index: bool = False
    """Whether documents can be looked up by id, URL and text without a full scan."""
    sample: float | None = None
    """The share of every source's records to read."""
    cluster: ClusterFields = field(default_factory=ClusterFields, compare=False)
    """How to request Slurm jobs; enters no key."""
    accept: tuple[AcceptFields, ...] = field(default=(), compare=False)
    """Warnings that are accepted; enters no key."""
    watch: WatchFields | None = field(default=None, compare=False)
    """The version to compare a finished run with; enters no key."""
    restore: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Takedown requests of earlier versions that the recipe may lack, with the reason; enters no key."""
    file_name: str = ""
    """The name in the file; `name` also says so if the run is a sample."""

    def as_written(self, stages: Iterable[str]) -> list[str]:
        """What the user wrote for these stages, each once: a step or a field may imply several stages. The engine's own
        stages are not among the steps and keep their names.
        """
        names = {step.id: step.implied_by or step.id for step in self.steps}
        return list(dict.fromkeys(names.get(stage, stage) for stage in stages))
