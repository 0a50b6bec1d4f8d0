"""The `cluster` of a recipe, or a profile in its own file: how to request Slurm jobs. No key depends on it."""

import os
import re
from typing import Annotated

from pydantic import AfterValidator, Field

from gristmill.data_files import read_table
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.recipe.checks.check import check
from gristmill.recipe.checks.mistakes import Mistakes, Path, show
from gristmill.recipe.draft import Draft
from gristmill.recipe.yaml.lines import parse, read_text
from gristmill.stages.contract import Count, StageConfig

AT: Path = ("cluster",)
_SBATCH = read_table(__file__, "sbatch.toml")
OURS: dict[str, str] = _SBATCH["ours"]
"""Options of sbatch that a user cannot set, and why."""
ASKING: list[str] = _SBATCH["asking"]["options"]
"""Options of sbatch that a recipe may have: they request nodes and their size."""
ACTING = ("setup", "python", "host", "port")
"""Fields that only a profile may have: a recipe is data and does not choose programs to run or hosts to call."""
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
_HOST = re.compile(r"[A-Za-z0-9_.-]+")

Value = str | int | float | bool


def _options(given: dict[str, Value]) -> dict[str, Value]:
    for name, value in given.items():
        if not _OPTION.fullmatch(name):
            raise ValueError(
                f"{name!r} is not a long option of sbatch. Write its name without leading dashes: partition"
            )
        whole = next((ours for ours in OURS if ours.startswith(name)), None) if name not in ASKING else None
        if whole is not None:  # sbatch accepts any unique prefix of a name
            raise ValueError(f"{name} cannot be set: {OURS[whole]}. Remove it")
        if isinstance(value, str) and ("\n" in value or "\0" in value):
            raise ValueError(f"{name} has more than one line. Write one")
    cpus = given.get("cpus-per-task", 1)
    if isinstance(cpus, bool) or not str(cpus).isdigit() or int(cpus) < 1:
        raise ValueError(f"cpus-per-task is {show(cpus)}, but a job runs that many tasks at once. Write 1 or more")
    return given


def _host(given: str) -> str:
    if not _HOST.fullmatch(given):
        raise ValueError(f"{given!r} is not a host name or an IPv4 address. Write one that jobs can reach")
    return given


Options = Annotated[dict[str, Value], AfterValidator(_options)]


class ClusterFields(StageConfig):
    """Slurm jobs that run the tasks of a run (the executor slurm)."""

    jobs: Count = Field(default=10, ge=1, le=100_000)
    """the most jobs at once of each size (steps that declare resources have their own size); each is one process on one
    node, and there are never more jobs than tasks"""
    sbatch: Options = Field(default={})
    """sbatch options by their long names, such as partition, time, account, mem, cpus-per-task, output"""
    alone: Options = Field(default={})
    """options that differ for a job that runs one task alone, after two workers died on it: mem, a larger partition"""
    setup: tuple[str, ...] = ()
    """only in a profile: shell lines that a job runs first, such as module load python, source venv/bin/activate"""
    python: str | None = Field(default=None, min_length=1)
    """only in a profile: the Python of jobs, with Gristmill installed; by default the path of the run's own Python"""
    host: Annotated[str, AfterValidator(_host)] | None = None
    """only in a profile: name or address of the machine that runs the recipe, as jobs reach it; by default jobs try
    every address it has"""
    port: int = Field(default=0, ge=0, le=65535)
    """only in a profile: the port that jobs connect to; 0 is any free port"""

    @property
    def cpus(self) -> int:
        """Tasks that a job runs at once."""
        return int(self.sbatch.get("cpus-per-task", 1))


def load_cluster(draft: Draft, raw: object) -> ClusterFields:
    """The field `cluster`; the defaults if it is missing or has a mistake, which is reported."""
    if not isinstance(raw, dict):
        return ClusterFields()
    acts: list[tuple[str, ...]] = [(name,) for name in ACTING if name in raw]
    options = [(part, raw[part]) for part in ("sbatch", "alone") if isinstance(raw.get(part), dict)]
    acts += [(part, str(name)) for part, given in options for name in given if name not in (*ASKING, *OURS)]
    for path in acts:
        draft.add_at_key(
            (*AT, *path),
            f"{'.'.join(('cluster', *path))} may name a program, a file or a machine. A recipe is not allowed to, "
            "because anybody may have written it. Move this to a profile, and run with "
            f"{option('profile', 'FILE')}.",
        )
    return (None if acts else check(draft, ClusterFields, raw, AT)) or ClusterFields()


def load_profile(path: str) -> ClusterFields:
    """Load a file that replaces `cluster` of the recipe. Raises UserError with every mistake and its line."""
    try:
        text = read_text(path, "profile", f"omit {option('profile')}")
    except UserError as error:
        raise UserError(f"{option('profile')} {error} Nothing was run.") from None
    mistakes = Mistakes(path)
    tree = parse(text, os.environ, mistakes)
    draft = Draft(tree, mistakes, os.path.dirname(os.path.abspath(path)), seed=0)
    found = None
    if isinstance(tree.value, dict):
        found = check(draft, ClusterFields, tree.value, ())
    else:
        fields = ", ".join(ClusterFields.model_fields)
        mistakes.add(tree.line_of_value(()), f"a profile is a mapping, not {show(tree.value)}. Fields: {fields}")
    mistakes.raise_any()
    assert found is not None
    return found
