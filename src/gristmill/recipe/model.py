"""What a loaded recipe is: every name resolved, every value checked, nothing left to look up in the YAML."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gristmill.recipe.sections.cluster import ClusterFields
from gristmill.recipe.sections.snapshot import is_regex, search
from gristmill.stages.contract import StageConfig
from gristmill.stages.own_code import Code


@dataclass(frozen=True)
class Source:
    """Input files that are read the same way and take the same route."""

    name: str
    kind: str
    """Sources of one kind share the steps under that kind."""
    format: str
    module: str
    """The reader's module."""
    config: StageConfig
    """The reader's own config."""
    paths: tuple[str, ...]
    """Absolute local patterns or URIs, globs kept; glob characters of the recipe's own folder are escaped."""
    exclude: tuple[str, ...]
    """Patterns of the same form; a file that matches one is not read."""
    links: str
    """`inside`: links below a pattern's fixed part are followed if they stay below it; `follow`: all are."""
    snapshot: str | None
    """A literal, or a regular expression with one group that is searched in the file's path."""
    part_bytes: int
    """Input bytes that become one part."""
    limit: int | None
    """Records that are read at most."""
    license: str | None
    domain: str | None
    tier: str | None
    tiers: dict[str, str]
    """Conditions by tier, where a source has several."""
    weight: str | None
    """A value over columns."""
    line: int
    """Where the source stands in the recipe."""
    domain_column: str | None = None
    """The column whose values are the domains; `domain` is for documents without a value."""
    tier_column: str | None = None
    """The same for tiers."""
    path_lines: dict[str, int] = field(default_factory=dict, compare=False)
    """Where each of its paths does."""
    code: Code = field(default_factory=dict, compare=False)
    """Of a reader of the user's own: its code."""

    def snapshots_of(self, paths: Sequence[str]) -> Sequence[str | None]:
        """The snapshots of files; None where the expression does not match."""
        if self.snapshot is None or not is_regex(self.snapshot):
            return [self.snapshot] * len(paths)
        return search(self.snapshot, paths)


@dataclass(frozen=True)
class Step:
    """One stage with its config, at one place of a route."""

    id: str
    """Route and name, `web/extract`; a second step of that name in the route is `web/extract_2`."""
    name: str
    """What other stages call it: `extract`; for a stage of the user's own, the last part of its import path."""
    route: str
    """The key in `steps` that it stands under: a kind, a source's name or `all`."""
    module: str
    config: StageConfig
    line: int
    at: tuple[str | int, ...] = field(default=(), compare=False)
    """Where its config stands in the recipe; nowhere, for a stage that a step or a field of the recipe stands for."""
    code: Code = field(default_factory=dict, compare=False)
    """Of a step of the user's own: its code."""
    stands_for: str = field(default="", compare=False)
    """What the user wrote, of a stage that nobody writes: the id of its step, or the field of the recipe."""


@dataclass(frozen=True)
class Recipe:
    """A recipe that may run."""

    name: str
    seed: int
    store: str
    """Absolute local path or URI."""
    strict: bool
    """Whether a warning (a filter that matched nothing) is an error."""
    path: str
    """The recipe's file, as the user gave it."""
    text: str = field(compare=False)
    """What stands in it."""
    sources: dict[str, Source]
    """In the order of the file."""
    steps: tuple[Step, ...]
    """Every step once, in the order of the file."""
    routes: dict[str, tuple[Step, ...]]
    """The steps that each source goes through, by the source's name."""
    index: bool = False
    """Whether documents are found by id, address and text without a look at all of them."""
    sample: float | None = None
    """The share of every source's records that is taken."""
    cluster: ClusterFields = field(default_factory=ClusterFields, compare=False)
    """How Slurm is asked for jobs; in no key."""
    file_name: str = ""
    """The name that stands in the file; that of a sample says that it is one."""

    def as_written(self, stages: Iterable[str]) -> list[str]:
        """What the user wrote that these stages are or stand for, each once. The engine's own are not among the steps,
        and are called what they are.
        """
        names = {step.id: step.stands_for or step.id for step in self.steps}
        return list(dict.fromkeys(names.get(stage, stage) for stage in stages))
