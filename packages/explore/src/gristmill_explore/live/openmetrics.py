"""The progress of a run as OpenMetrics text, which Prometheus and others scrape.

https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from gristmill.engine.publish.journal import FINISHED, KILLED, RUNNING, STOPPED
from gristmill.errors import UserError
from gristmill.places import kind_of
from gristmill.printable import one_line

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
FIRST = "gristmill_run"
"""The first family of metrics."""
STATES = (RUNNING, FINISHED, STOPPED, KILLED)
Samples = Iterable[tuple[Mapping[str, str], float]]


class MetricsFile:
    """Writes the metrics of a run to a file, for the textfile collector of node_exporter."""

    def __init__(self, path: Path) -> None:
        self._path = output_file(path, f"# TYPE {FIRST}")

    def __call__(self, record: Mapping[str, Any]) -> None:
        # The collector may read at any moment, and reads only names that end in .prom.
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        temporary.write_text(metrics_text(record, str(record["status"]).partition(":")[0]), encoding="utf-8")
        temporary.replace(self._path)


def observe(target: str | None) -> MetricsFile | None:
    """The observer `metrics`: `target` is a file."""
    return None if target is None else MetricsFile(Path(target))


def output_file(path: Path, begins: str) -> Path:
    """The file that a path or its links lead to. Raises UserError if it is something else, like a pipe: a run would
    replace it, or wait for its reader. A file that does not begin like those of earlier runs is refused as well.
    """
    found = Path(os.path.realpath(path))
    try:
        mode = found.stat().st_mode
    except OSError as error:
        if not isinstance(error, FileNotFoundError) or not found.parent.is_dir():
            raise UserError(
                f"{path} cannot be written ({error.strerror}), so nothing was run. Name a file in a folder that exists."
            ) from None
    else:
        if not stat.S_ISREG(mode):
            raise UserError(f"{path} is {kind_of(mode)}, not a file, so nothing was run. Name a file.")
        try:
            with found.open("rb") as file:
                start = file.read(len(begins))
        except OSError as error:
            raise UserError(
                f"{path} cannot be read ({error.strerror}), so nothing was run. Name another file."
            ) from None
        if start not in (b"", begins.encode()):
            raise UserError(
                f"{path} exists and was not written by a run with this option, so nothing was run. Name another file."
            )
    return found


def metrics_text(record: Mapping[str, Any], state: str) -> str:
    """The metrics of a run, by its record and its state."""
    return "".join(f"{line}\n" for line in (*_lines(record, state), "# EOF"))


def _lines(record: Mapping[str, Any], state: str) -> Iterator[str]:
    run = {"recipe": record["recipe"]}
    stages = [({**run, "stage": name}, stage) for name, stage in record["stages"].items()]

    def of(key: str) -> Samples:
        return [(labels, stage[key]) for labels, stage in stages]

    states = [({**run, "gristmill_run": one}, int(one == state)) for one in STATES]
    yield from _family(FIRST, "stateset", "The state of the run.", states)
    about = {**run, "run": record["run"], "host": record["host"], "version": record["version"] or ""}
    yield from _family("gristmill_run_about", "info", "Which run this is.", [(about, 1)], "_info")
    for name, what, key in (
        ("gristmill_run_started_timestamp", "When the run began.", "started"),
        ("gristmill_run_moved_timestamp", "When a task ended last.", "moved"),
    ):
        seconds = datetime.fromisoformat(record[key]).timestamp()
        yield from _family(f"{name}_seconds", "gauge", what, [(run, round(seconds, 3))])
    left = [] if record["seconds_left"] is None else [(run, record["seconds_left"])]
    yield from _family("gristmill_run_left_seconds", "gauge", "Estimated seconds until the end.", left)
    yield from _family("gristmill_run_slots", "gauge", "Tasks that can run at once.", [(run, record["slots"])])
    gauges = (("tasks", "Known tasks of the stage.", "tasks"), ("tasks_running", "Tasks that run now.", "running"))
    for name, what, key in gauges:
        yield from _family(f"gristmill_stage_{name}", "gauge", what, of(key))
    counters = (
        ("tasks_done", "Finished tasks, with cached ones.", "done"),
        ("tasks_cached", "Tasks whose result was in the store.", "cached"),
        ("documents", "Documents in finished tasks.", "rows"),
        ("bytes", "Bytes of document content in finished tasks.", "bytes"),
        ("cpu_seconds", "CPU time of finished tasks.", "cpu_s"),
        ("seconds", "Time of finished tasks, without compiling.", "seconds"),
        ("worker_failures", "Workers that died while they ran a task.", "failures"),
        ("documents_given_up", "Documents that killed every worker.", "given_up"),
    )
    for name, what, key in counters:
        yield from _family(f"gristmill_stage_{name}", "counter", what, of(key), "_total")
    dropped = [
        ({**labels, "reason": reason}, rows) for labels, stage in stages for reason, rows in stage["dropped"].items()
    ]
    what = "Documents that the stage dropped; one that two stages drop counts in both."
    yield from _family("gristmill_stage_documents_dropped", "counter", what, dropped, "_total")
    kept = [({**run, "source": source}, counts["kept"]) for source, counts in record["funnel"].items()]
    passed = [({**run, "source": source}, counts["read"]) for source, counts in record["funnel"].items()]
    yield from _family("gristmill_documents_passed", "counter", "Documents that passed all steps.", passed, "_total")
    yield from _family("gristmill_documents_kept", "counter", "Documents among them that are kept.", kept, "_total")


def _family(name: str, kind: str, what: str, samples: Samples, suffix: str = "") -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    unit = next((unit for unit in ("seconds", "bytes") if name.endswith(f"_{unit}")), None)
    if unit is not None:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {what}"
    for labels, value in samples:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{suffix}{{{pairs}}} {value}"


def _escaped(text: str) -> str:
    """A value of a label: names of stages and sources, and reasons, come from recipes and data."""
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')
