"""The result of a finished run, and the listener that reports its progress."""

from collections.abc import Callable, Mapping, Sequence

from gristmill.api.tables import Table
from gristmill.counted import counted
from gristmill.engine.mill import Silent
from gristmill.engine.plan.graph import Node
from gristmill.engine.schedule.run import Run
from gristmill.engine.schedule.task_cache import LOG
from gristmill.log import INFO
from gristmill.query.removal.funnel import funnels


class Finished(Table):
    """What a run did, one row per step. The corpus has its results."""

    def __init__(self, run: Run, tag: str | None, notes: Sequence[str], warnings: Sequence[str]) -> None:
        nodes = run.ended["nodes"]
        super().__init__(
            [{"step": name, "executed": node["executed"], "cached": node["cached"]} for name, node in nodes.items()],
            [*notes, *(f"WARNING: {warning}" for warning in warnings)],
        )
        self.version: str = run.ended["version"]
        """The hash of all its results, for `gristmill.open(recipe, version=...)`."""
        self.tag = tag
        self.shards = run.shards
        """The location of the manifest for a trainer; None if the recipe writes no shards."""
        self.warnings = list(warnings)
        self.documents: int = sum(funnel["kept"]["rows"] for funnel in funnels(run).values())
        """The number of kept documents."""
        self.executed: int = sum(line["executed"] for line in self.lines)
        self.cached: int = sum(line["cached"] for line in self.lines)
        done = f"{counted(self.executed, 'task')} run, {self.cached:,} cached"
        self.title = f"{run.name} version {self.version}: {done}; {counted(self.documents, 'document')} kept"


class ProgressListener(Silent):
    """A listener that reports notes and finished steps to the log and to a function."""

    def __init__(self, progress: Callable[[str], object] | None) -> None:
        super().__init__()
        self._progress = progress
        self._left: dict[str, int] = {}
        self._settled: set[str] = set()

    def expect(self, node: Node, tasks: int) -> None:
        self._left[node.id] = self._left.get(node.id, 0) + tasks

    def done(self, node: Node, task: object, result: object, cached: bool) -> None:
        self._left[node.id] = self._left.get(node.id, 0) - 1
        self._report_if_done(node)

    def settled(self, node: Node) -> None:
        self._settled.add(node.id)
        self._report_if_done(node)

    def found(self, node: Node, tasks: int, cost: Mapping[str, float]) -> None:
        message = f"{node.id}: in the store ({counted(tasks, 'task')})"
        LOG(message, step=node.id, tasks=tasks)
        self._report(message)

    def note(self, message: str, level: int = INFO, /) -> None:
        super().note(message, level)
        self._report(message)

    def _report_if_done(self, node: Node) -> None:
        if node.id in self._settled and self._left.get(node.id) == 0:
            del self._left[node.id]
            LOG(f"{node.id}: done", step=node.id)
            self._report(f"{node.id}: done")

    def _report(self, message: str) -> None:
        if self._progress is not None:
            self._progress(message)
