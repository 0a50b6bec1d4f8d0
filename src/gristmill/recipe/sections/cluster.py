"""The `cluster` of a recipe, or a profile in a file of its own: how Slurm is asked for jobs. No key holds any of it."""

import os
import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.recipe.checks.check import check
from gristmill.recipe.checks.mistakes import Mistakes, Path, show
from gristmill.recipe.draft import Draft
from gristmill.recipe.yaml.lines import parse, read_text
from gristmill.stages.contract import Count, StageConfig

AT: Path = ("cluster",)
OURS = {
    "array": "jobs says how many there are",
    "job-name": "it is gristmill- and the name of the recipe",
    "comment": "it tells jobs of a run that was killed from others",
    "export": "jobs take their environment along; write `export NAME=value` under setup of a profile",
    "export-file": "jobs take their environment along; write `export NAME=value` under setup of a profile",
    "parsable": "the answer is read by a program",
    "wait": "nobody waits for the end of a job",
    "wrap": "lines that come before Gristmill go under setup of a profile",
    "test-only": "jobs would not start",
    "ntasks": "a job is one process on one node; cpus-per-task is how many tasks it does at once",
    "nodes": "a job is one process on one node; cpus-per-task is how many tasks it does at once",
}
"""Options of sbatch that are not for a user to set, and why."""
ACTING = ("setup", "python", "host", "port")
"""Fields that only a profile may have: a recipe is data, and does not say what is run and whom jobs dial."""
ASKING = (
    *("account", "begin", "cluster-constraint", "constraint", "contiguous", "core-spec", "cores-per-socket"),
    *("cpus-per-gpu", "cpus-per-task", "deadline", "delay-boot", "distribution", "exclude", "exclusive"),
    *("extra-node-info", "gpus", "gpus-per-node", "gpus-per-task", "gres", "hint", "licenses", "mem"),
    *("mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus", "network", "nice", "no-requeue", "nodelist"),
    *("ntasks-per-node", "oversubscribe", "partition", "prefer", "priority", "qos", "requeue", "reservation"),
    *("sockets-per-node", "switches", "thread-spec", "threads-per-core", "time", "time-min", "tmp", "wckey"),
)
"""Options of sbatch that a recipe may have: they ask for a place and its size. Others name a program, a file, a person
or a machine, or may in a version to come, and stand in a profile.
"""
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
_HOST = re.compile(r"[A-Za-z0-9_.-]+")

Value = str | int | float | bool


def _options(given: dict[str, Value]) -> dict[str, Value]:
    for name, value in given.items():
        if not _OPTION.fullmatch(name):
            raise ValueError(
                f"{name!r} is no long option of sbatch. Write its name without dashes before it: partition"
            )
        whole = next((ours for ours in OURS if ours.startswith(name)), None) if name not in ASKING else None
        if whole is not None:  # sbatch takes the beginning of a name for the whole
            raise ValueError(f"{name} is not yours to set: {OURS[whole]}. Take it out")
        if isinstance(value, str) and ("\n" in value or "\0" in value):
            raise ValueError(f"{name} has more than one line. Write one")
    cpus = given.get("cpus-per-task", 1)
    if isinstance(cpus, bool) or not str(cpus).isdigit() or int(cpus) < 1:
        raise ValueError(f"cpus-per-task is {show(cpus)}, and it is how many tasks a job does at once. Write 1 or more")
    return given


def _host(given: str) -> str:
    if not _HOST.fullmatch(given):
        raise ValueError(f"{given!r} is no name or IPv4 address of a machine. Write one that jobs can reach")
    return given


Options = Annotated[dict[str, Value], AfterValidator(_options)]


class ClusterFields(StageConfig):
    """Jobs of Slurm that do the tasks of a run (the executor slurm)."""

    jobs: Count = Field(default=10, ge=1, le=100_000)
    """jobs at once, at most, of each size (steps that declare resources have their own); each is one process on one
    node, and there are no more than there are tasks"""
    sbatch: Options = Field(default={})
    """options of sbatch by their long names, such as partition, time, account, mem, cpus-per-task, output"""
    alone: Options = Field(default={})
    """options that differ for the job that does a task alone that was lost twice: mem, a partition with more of it"""
    setup: tuple[str, ...] = ()
    """only in a profile: lines of shell that a job begins with, such as module load python, source venv/bin/activate"""
    python: str | None = Field(default=None, min_length=1)
    """only in a profile: the Python of jobs, which has Gristmill; without it the one of the run, by its path"""
    host: Annotated[str, AfterValidator(_host)] | None = None
    """only in a profile: name or address of the machine that runs the recipe, as jobs reach it; without it all that it
    knows are tried"""
    port: int = Field(default=0, ge=0, le=65535)
    """only in a profile: port that jobs reach it at; 0 is any that is free"""

    @property
    def cpus(self) -> int:
        """Tasks that a job does at once."""
        return int(self.sbatch.get("cpus-per-task", 1))


def load_cluster(draft: Draft, raw: Any) -> ClusterFields:
    """What stands under `cluster`; the defaults where nothing does, or where there is a mistake, which is told."""
    if not isinstance(raw, dict):
        return ClusterFields()
    acts: list[tuple[str, ...]] = [(name,) for name in ACTING if name in raw]
    options = [(part, raw[part]) for part in ("sbatch", "alone") if isinstance(raw.get(part), dict)]
    acts += [(part, str(name)) for part, given in options for name in given if name not in (*ASKING, *OURS)]
    for path in acts:
        draft.add_at_key(
            (*AT, *path),
            f"{'.'.join(('cluster', *path))} may name a program, a file or a machine, and a recipe, which anybody may "
            "write, runs, writes and calls none. Move it to a file of your own, and run with "
            f"{option('profile', 'FILE')}.",
        )
    return (None if acts else check(draft, ClusterFields, raw, AT)) or ClusterFields()


def load_profile(path: str) -> ClusterFields:
    """What a file holds that stands in place of `cluster` of the recipe. Raises UserError with every mistake and its
    line.
    """
    try:
        text = read_text(path, "profile", f"leave {option('profile')} out")
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
