"""A recipe from end to end: run it, plan it, and write down what came of it."""

import asyncio
import importlib
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gristmill.engine.config_files import store_copies
from gristmill.engine.content import ContentHashes
from gristmill.engine.executor import Executor, InlineExecutor
from gristmill.engine.graph import Node, build
from gristmill.engine.insist import Note
from gristmill.engine.local import LocalExecutor
from gristmill.engine.obtain import Item, Listener, NotReproduced
from gristmill.engine.run import Run
from gristmill.engine.run_record import finished_runs, make_record, run_records
from gristmill.engine.task import digest, layer_schema, part_to_json
from gristmill.errors import UserError
from gristmill.recipe.columns import INGEST
from gristmill.recipe.model import Recipe
from gristmill.schema import DOCUMENTS
from gristmill.stages.own_code import Code
from gristmill.stages.resolve import schema_of
from gristmill.stopping import Interrupted, heeded
from gristmill.store.leases import Lease, hold, holders
from gristmill.store.store import Store

EXECUTORS = ("local",)
MOST_RESTARTS = 3


@dataclass
class Silent:
    """A listener that keeps notes and shows nothing."""

    notes: list[str] = field(default_factory=list)

    def begin(self, nodes: Iterable[Node], before: Mapping[str, Mapping[str, Any]]) -> None: ...
    def expect(self, node: Node, tasks: int) -> None: ...
    def settled(self, node: Node) -> None: ...
    def done(self, node: Node, task: Any, result: Any, cached: bool) -> None: ...
    def note(self, message: str) -> None:
        self.notes.append(message)

    def track(self, name: str, items: Iterable[Item], total: int) -> Iterator[Item]:
        yield from items


class Mill:
    """A recipe, its graph and its store."""

    def __init__(self, recipe: Recipe, until: str | None = None) -> None:
        self.recipe = recipe
        self.store = Store(recipe.store)
        self.contents = ContentHashes(self.store, recipe.file_name or recipe.name)
        self.graph = build(recipe, self.contents, until)
        self.until = until if self.graph.beyond else None
        """The step that the run ends after, where the recipe goes on behind it."""

    def executor(self, workers: int | None, note: Note = lambda _: None) -> Executor:
        return make_executor(self.store, workers, self.graph.modules, self.graph.code, note)

    def look(self, listener: Listener | None = None) -> Run:
        """Follow the recipe through the store without running a stage; input files are hashed if they are new."""
        executor = self.executor(None)
        run = Run(self.graph, self.store, executor, self.contents, listener or Silent(), dry=True)
        wait_for(run.go(), executor)
        return run

    def run(self, workers: int | None, listener: Listener, retry_crashed: bool = False) -> Run:
        """Run what is not in the store, and record it. An interrupted run is recorded too, and goes on later.

        `retry_crashed` also runs the tasks again that gave documents up because they killed their worker.
        """
        started = datetime.now(UTC)
        with hold(self.store, "run", self.recipe.name) as lease:
            self._await_collection(lease, listener)
            self.store.sweep_temporaries()
            store_copies(
                (file for node in self.graph.nodes.values() for file in node.files.values()), self.store, self.contents
            )
            before = self.known_before()
            for _ in range(MOST_RESTARTS):
                listener.begin(self.graph.nodes.values(), before)
                executor = self.executor(workers, listener.note)
                run = Run(self.graph, self.store, executor, self.contents, listener, False, lease, retry_crashed)
                try:
                    wait_for(run.go(), executor)
                except NotReproduced as changed:
                    listener.note(str(changed))
                    continue
                except BaseException as stop:
                    if run.tasks.begun:  # else it was refused, and the recipe has not been run
                        self._record(run, started, {}, f"stopped: {type(stop).__name__}")
                    self.store.sweep_temporaries()
                    raise
                self._record(run, started, write_datasets(run, self.store), "finished")
                self.store.sweep_temporaries()
                return run
        raise UserError(
            "Parts come out with other bytes each time they are made, so no run of this recipe can finish. "
            "A stage is not a pure function of its input: `gristmill verify --recompute 100%` finds which."
        )

    def _await_collection(self, lease: Lease, listener: Listener) -> None:
        """Garbage collection decides what nothing needs while no run is under way, so a run lets it end first."""
        told = False
        while any(other.purpose == "gc" for other in holders(self.store, but=lease)):
            if not told:
                listener.note(f"the store {self.store.uri} is being cleaned by `gristmill gc`; waiting for its end")
            told = True
            time.sleep(0.2)

    def _record(self, run: Run, started: datetime, datasets: Mapping[str, Any], status: str) -> None:
        now = datetime.now(UTC)
        record = make_record(run, started, now, datasets, status, self.until)
        self.store.write_json(f"runs/{self.recipe.name}/{now.strftime('%Y-%m-%dT%H-%M-%S.%fZ')}.json", record)

    def check_tag(self, tag: str) -> None:
        """A version's name is a file's name, and a version is never overwritten."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", tag):
            raise UserError(f"--tag {tag!r} cannot be a name. Use letters, digits, dots, dashes and underscores.")
        if self.store.read_file(f"versions/{tag}.json") is not None:
            raise UserError(f"Version {tag} exists in {self.store.uri}, and versions do not change. Use another --tag.")

    def last_run(self, finished: bool = False) -> dict[str, Any] | None:
        """The newest run record of this recipe."""
        return next((finished_runs if finished else run_records)(self.store, self.recipe.name), None)

    def known_before(self) -> dict[str, Mapping[str, Any]]:
        """Of each node what its newest run says: the newest run of all may have ended before it (`--until`, a kill)."""
        found: dict[str, Mapping[str, Any]] = {}
        for record in run_records(self.store, self.recipe.name):
            for node_id, told in record["nodes"].items():
                if told["tasks"] or record["status"] == "finished":
                    found.setdefault(node_id, told)
            if self.graph.nodes.keys() <= found.keys():
                break
        return found


def make_executor(
    store: Store,
    workers: int | None,
    modules: Sequence[str] = (),
    code: Code | None = None,
    note: Note = lambda _: None,
) -> Executor:
    """Processes on this machine; this process alone where no other could see the store."""
    if not store.is_shared:
        return InlineExecutor(store)
    return LocalExecutor(store, workers or available_cores(), modules, code, note)


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def write_datasets(run: Run, store: Store) -> dict[str, dict[str, str]]:
    """Write a manifest for every layer of every source, after all its parts: node -> source -> dataset hash."""
    written: dict[str, dict[str, str]] = {}
    for node_id, node in run.graph.nodes.items():
        made = run.made[node_id]
        for source in node.sources if node.has_layers else ("",):
            layers = [(part, key) for (owner, _), (part, key) in sorted(made.layers.items()) if owner == source]
            manifest: dict[str, Any] = {
                "kind": {"read": "documents", "fit": "model", "sink": "files"}.get(node.kind, "columns"),
                "produced_by": {"node": node_id, **node.identity},
                "parts": [{**part_to_json(part), "task": key} for part, key in layers],
                "rows": sum(part.rows for part, _ in layers),
                "file_bytes": sum(part.file_bytes for part, _ in layers),
            }
            if not node.has_layers:
                manifest["metrics"] = made.metrics
            else:
                manifest["source"] = source
                manifest["schema"] = {item.name: str(item.type) for item in _layer_columns(node)}
                manifest["metrics"] = made.metrics if len(node.sources) == 1 else {}
            if node.has_layers and node.kind != "read":
                manifest["aligned_to"] = written[f"{source}/ingest"][source]
            name = digest(manifest)
            store.write_json(f"datasets/{name}.json", manifest)
            written.setdefault(node_id, {})[source or "model"] = name
    return written


def _layer_columns(node: Node) -> Any:
    if node.kind == "read":
        return DOCUMENTS
    return layer_schema(schema_of(importlib.import_module(node.module), node.config))


def find_warnings(run: Run) -> list[str]:
    """Everything that silently did nothing (law 7)."""
    found = [
        f"{source}/{INGEST}: {message}"
        for source in run.chains  # in the order of the recipe, not in that of their arrival
        if source in run.inputs
        for message in run.inputs[source].warnings(run.made[f"{source}/{INGEST}"].metrics)
    ]
    for node in run.graph.nodes.values():
        warn = getattr(importlib.import_module(node.module), "warnings", None)
        metrics = run.made[node.id].metrics
        if warn is not None and metrics:
            found += [f"{node.id}: {message}" for message in warn(metrics, node.config)]
    return found


def wait_for(work: Any, executor: Executor) -> None:
    """Run a coroutine to its end; SIGINT and SIGTERM end it and every worker at once. The second one leaves at once."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stopped: list[int] = []

        def stop(number: int) -> None:
            stopped.append(number)
            for other in asyncio.all_tasks():  # before their workers go: nobody shall wonder how one was lost
                other.cancel()
            executor.close()

        before = {number: signal.getsignal(number) for number in heeded()}
        for number in before:
            loop.add_signal_handler(number, stop, number)
        try:
            await work
        except asyncio.CancelledError:
            if stopped:
                raise Interrupted(stopped[0]) from None
            raise
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)
            executor.close()

    asyncio.run(main())
