"""Slurm's commands: submit arrays of jobs, query their states, cancel them.

`submitit` submits Python functions with their arguments as pickles in a shared folder, one array element per function.
Our jobs need no folder and are all the same, so one call of sbatch is enough.
"""

import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.recipe.sections.cluster import ClusterFields, Value

MAX_ARRAY = 1001
"""Slurm's default MaxArraySize, which is one more than the largest index."""
COMMAND_S = 60.0
"""The timeout of Slurm commands in seconds."""
CANCEL_S = 10.0
WAITS = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
RUNS = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}
_ABSENT = re.compile("configuration source|resolve_ctls_from_dns|slurm.conf", re.I)
_LATER = re.compile(
    "unable to contact|timed out|temporarily|connection refused|communication|controller|try again|submit limit"
    "|MaxSubmitJob|maximum number of jobs",
    re.I,
)
"""Messages of sbatch after which it may accept the same job later."""


class Busy(Exception):
    """Slurm accepts no job now, but may later."""


@dataclass(frozen=True)
class Job:
    """An element of an array, as squeue shows it."""

    array: int
    index: int
    state: str
    node: str
    left_s: float
    """Seconds until its time limit; infinite if there is none."""
    reason: str

    @property
    def id(self) -> str:
        return f"{self.array}_{self.index}"

    @property
    def waits(self) -> bool:
        return self.state in WAITS

    @property
    def ended(self) -> bool:
        return self.state not in WAITS | RUNS


def require() -> None:
    """Raise UserError if Slurm is not installed."""
    lacking = [name for name in ("sbatch", "squeue", "scancel", "scontrol") if shutil.which(name) is None]
    if lacking:
        raise UserError(
            f"{option('executor', 'slurm')} needs Slurm's commands, but there is no {', '.join(lacking)} on the PATH "
            "of this machine, so nothing was run. Run it on a machine that has them, such as a login node, or leave "
            f"{option('executor')} out."
        )


def script(cluster: ClusterFields, module: str) -> str:
    """The script of a job."""
    python = shlex.quote(cluster.python or sys.executable)
    return "\n".join(["#!/bin/sh", *cluster.setup, f"exec {python} -m {module}", ""])


def submit(
    text: str, options: Mapping[str, Value], name: str, comment: str, count: int, environment: Mapping[str, str]
) -> int:
    """Submit an array of `count` jobs and return its id. Raises UserError, or Busy if it may succeed later.

    Variables are passed in the environment of sbatch, where other users cannot see them, not as arguments.
    """
    given: dict[str, Value] = {"no-requeue": True, **options}
    if given.get("requeue"):
        del given["no-requeue"]
    given |= {"job-name": name, "comment": comment, "array": f"0-{count - 1}", "open-mode": "append"}
    given |= {"parsable": True, "ntasks": 1, "nodes": 1}
    words = [
        f"--{option}" if value is True else f"--{option}={value}"
        for option, value in given.items()
        if value is not False
    ]
    _make_log_folder(str(options.get("output", "")))
    # A coordinator inside a job has the settings of that job in its environment.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_") or key == "SLURM_CONF"}
    try:
        ended = _run(["sbatch", *words], COMMAND_S, text, {**inherited, **environment})
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Busy(f"sbatch: {error}") from None
    answer = re.match(r"(\d+)", ended.stdout.strip())
    if ended.returncode == 0 and answer:
        return int(answer[1])
    said = " ".join(ended.stderr.replace("sbatch: error: ", "").split()) or f"it ended with {ended.returncode}"
    if _LATER.search(said):
        raise Busy(said)
    shown = shlex.join(word for word in words if word.split("=")[0] not in ("--comment", "--parsable", "--open-mode"))
    if _ABSENT.search(said):
        raise UserError(
            f"sbatch is installed here but finds no Slurm: {said}. Nothing was run. Run on a node of the cluster, or "
            "set SLURM_CONF to its slurm.conf."
        )
    raise UserError(
        f"Slurm refuses the jobs: {said} (sbatch {shown}). Nothing runs there; finished tasks are kept. Correct "
        "sbatch under cluster in the recipe, or in the profile; `sinfo` lists partitions."
    )


def jobs_of(name: str) -> dict[str, Job] | None:
    """The user's jobs with a name, by id, including those that ended minutes ago; None if Slurm does not answer."""
    output = _query(["squeue", "--me", "-h", "-r", "-t", "all", "-n", name, "-o", "%F|%K|%T|%N|%L|%r"])
    if output is None:
        return None
    found = {}
    for line in output.splitlines():
        array, index, state, node, left, reason = (line.split("|") + [""] * 6)[:6]
        if array.isdigit() and index.isdigit():
            job = Job(int(array), int(index), state, node, seconds_of(left), reason)
            found[job.id] = job
    return found


def comments_of(name: str) -> dict[int, str]:
    """The comments of the user's waiting and running arrays with a name."""
    output = _query(["squeue", "--me", "-h", "-n", name, "-o", "%F|%k"]) or ""
    lines = (line.split("|", 1) for line in output.splitlines() if "|" in line)
    return {int(array): comment for array, comment in lines if array.isdigit()}


def cancel(ids: Collection[int | str]) -> None:
    if ids:
        with suppress(OSError, subprocess.TimeoutExpired):
            _run(["scancel", *map(str, sorted(ids, key=str))], CANCEL_S)


def max_array() -> int:
    """The largest number of jobs in one array."""
    output = re.search(r"^MaxArraySize\s*=\s*(\d+)", _query(["scontrol", "show", "config"]) or "", re.M)
    return max(int(output[1]), 1) if output else MAX_ARRAY


def log_of(job: str, most_bytes: int = 1500) -> str:
    """The path of a job's log, and its end if this machine can read it."""
    output = re.search(r"^\s*StdOut=(.*)$", _query(["scontrol", "show", "job", job]) or "", re.M)
    if output is None:
        return "Slurm no longer knows where its log is."
    path = output[1].strip()
    try:
        with open(path, "rb") as file:
            file.seek(max(os.path.getsize(path) - most_bytes, 0))
            text = file.read().decode(errors="replace").strip()
    except OSError:
        return f"Its log is {path} on the node, which this machine cannot read."
    return f"The end of its log, {path}:\n{text}" if text else f"Its log, {path}, is empty."


def seconds_of(text: str) -> float:
    """The seconds of `1-02:03:04`, squeue's format of the remaining time; infinite if there is no limit."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text.strip())
    if found is None:
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def split(count: int, most: int) -> list[int]:
    """Sizes of arrays for `count` jobs, each at most `most`."""
    return [min(most, count - at) for at in range(0, count, most)]


def _make_log_folder(output: str) -> None:
    """Create the folder of the logs: a job whose log cannot be opened ends without a message."""
    folder = os.path.dirname(output)
    if folder and "%" not in folder:
        with suppress(OSError):
            os.makedirs(folder, exist_ok=True)


def _query(words: Sequence[str]) -> str | None:
    try:
        ended = _run(words, COMMAND_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout if ended.returncode == 0 else None


def _run(
    words: Sequence[str], patience_s: float, text: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        input=text,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=patience_s,
        start_new_session=True,  # Ctrl-C must not reach it: we need the id of a job that is being submitted
    )
