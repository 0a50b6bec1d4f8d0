"""Runs or plans a recipe from end to end, and records the result."""

import asyncio
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gristmill.counted import counted
from gristmill.engine.executors import registry
from gristmill.engine.executors.executor import Begun, Executor, InlineExecutor
from gristmill.engine.executors.stragglers import Stragglers
from gristmill.engine.files.config_files import store_copies
from gristmill.engine.files.content import ContentHashes
from gristmill.engine.plan.graph import Graph, Node, build
from gristmill.engine.plan.inputs import read_twice
from gristmill.engine.publish.catalog import check_name, give_name, turn, wanted_again
from gristmill.engine.publish.folder import point_latest, publish
from gristmill.engine.publish.input_changes import input_changes
from gristmill.engine.publish.journal import Journal, Observer
from gristmill.engine.publish.kept_takedowns import keep_takedowns, refuse_lost, refuse_undone, takedown_notes
from gristmill.engine.publish.run_record import is_partial, make_record, newest_run, next_name, run_records, version_of
from gristmill.engine.schedule.run import Run
from gristmill.engine.schedule.task_cache import LOG, Earlier, Item, Listener
from gristmill.engine.work.task import Result, Task
from gristmill.errors import UserError
from gristmill.hints import as_command_line, hint, option
from gristmill.log import INFO, WARNING, Note
from gristmill.objects import requests
from gristmill.objects.patience import HURRIED, POLL_S, report_waits
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.checks.mistakes import listed
from gristmill.recipe.model import Recipe
from gristmill.recipe.sections.cluster import ClusterFields
from gristmill.stages.declarations import stage_of
from gristmill.stages.own_code import Code
from gristmill.stopping import Interrupted, heeded
from gristmill.store.leases import Lease, await_collection, hold
from gristmill.store.store import CorruptPart, Store
from gristmill.warned import Warned

MOST_ALARMS = 8
"""Alarms that a run shows: later ones are often caused by the first."""


@dataclass
class Silent:
    """A listener that keeps notes, and sends them to the log."""

    notes: list[str] = field(default_factory=list)

    def begin(self, nodes: Iterable[Node], before: Mapping[str, Mapping[str, Any]]) -> None: ...
    def doing(self, what: str) -> None: ...
    def expect(self, node: Node, tasks: int) -> None: ...
    def settled(self, node: Node) -> None: ...
    def done(self, node: Node, task: object, result: object, cached: bool) -> None: ...
    def found(self, node: Node, tasks: int, cost: Mapping[str, float]) -> None: ...
    def note(self, message: str, level: int = INFO, /) -> None:
        self.notes.append(message)
        LOG(message, level)

    def track(self, name: str, items: Iterable[Item], total: int) -> Iterator[Item]:
        yield from items


class Mill:
    """A recipe, its graph and its store."""

    def __init__(
        self,
        recipe: Recipe,
        until: str | None = None,
        executor: str | None = None,
        address: str | None = None,
        graph: Graph | None = None,
    ) -> None:
        """`graph` replaces the recipe's own graph with stages that are not steps of a recipe."""
        self.recipe = recipe
        self.executor_name = executor
        """A name that `registry.py` knows; None means that the store decides."""
        self.address = address
        """The address of the cluster, if the executor uses one."""
        self.store = Store(recipe.store)
        self.contents = ContentHashes(self.store, recipe.file_name or recipe.name)
        self.graph = graph or build(recipe, self.contents, until)
        self.until = until if self.graph.beyond else None
        """The step that the run ends after, if the recipe has steps after it."""
        self.watch: Callable[[Run], Mapping[str, Any]] | None = None
        """Compares a finished run with another version (query/watch.py): alarms, and notes."""

    def executor(self, workers: int | None, note: Note = lambda *_: None, begun: Begun = lambda *_: None) -> Executor:
        return make_executor(
            self.store,
            workers,
            self.graph.modules,
            self.graph.code,
            note,
            begun,
            name=self.executor_name,
            address=self.address,
            cluster=self.recipe.cluster,
            recipe=self.recipe.name,
        )

    def dry_run(
        self,
        listener: Listener | None = None,
        keep: Callable[[Task, Result], bool] | None = None,
        previews: bool = False,
    ) -> Run:
        """Follow the recipe through the store without running a stage; input files are hashed if they are new.

        With `keep`, every task is visited, and those that it chooses are kept (`Run.tasks.kept`). With `previews`,
        the beginning of each source that was never read is checked (`Run.previews`).
        """
        executor = self.executor(None)
        listener = listener or Silent()
        run = Run(self.graph, self.store, executor, self.contents, listener, dry=True, keep=keep, previews=previews)
        wait_for(run.go(), executor)
        return run

    def run(
        self,
        workers: int | None,
        listener: Listener,
        tag: str | None = None,
        observers: Sequence[Observer] = (),
    ) -> Run:
        """Run what is not in the store, publish the shards, record the run, and name it. An interrupted run is recorded
        as well, and can be continued.

        If a part turns out to be damaged, it is removed, and the run starts over; finished work is not repeated.
        `observers` receive its progress (`journal.py`).
        """
        self._started, self._requests_before = datetime.now(UTC), requests.counted()
        earlier = Earlier()
        listener = journal = Journal(listener, self.store, self.recipe, observers)
        with (
            report_waits(listener.note),
            hold(self.store, "run", self.recipe.name) as lease,
            journal,
        ):
            await_collection(self.store, lease, listener.note)
            self._refuse_twin()
            for line in self.check_takedowns():
                listener.note(line)
            self.store.sweep_temporaries()
            journal.open(lease)
            before = self.known_before()
            earlier.paces = {node_id: node.get("pace", {}) for node_id, node in before.items()}
            while True:
                # First of all, because there may be no cluster.
                executor = self.executor(workers, listener.note, journal.begun)
                self._refuse_unmet(executor)
                if executor.several_machines:
                    executor = Stragglers(executor, listener.note)
                files = (file for node in self.graph.nodes.values() for file in node.files.values())
                store_copies(files, self.store, self.contents)
                listener.begin(self.graph.nodes.values(), before)
                run = Run(
                    self.graph,
                    self.store,
                    executor,
                    self.contents,
                    listener,
                    lease=lease,
                    earlier=earlier,
                    previews=True,
                )
                try:
                    wait_for(journal.beside(run), executor)
                    datasets = {node.id: run.stages.write_datasets(node) for node in self.graph.nodes.values()}
                    self._compare(run)
                    self._refuse_warnings(run)
                    refuse_undone(self.store, self.recipe)  # another run may have taken more down since
                    if self.until is None:
                        refuse_lost(run, self.newest_whole())
                    run.shards = publish(run, version_of(datasets), self.recipe.text)
                except CorruptPart as corrupt:
                    self._remove_damaged(corrupt, earlier)
                    earlier.executed.update(*(state.executed for state in run.states.values()))
                    continue
                except BaseException as stop:
                    with suppress(UserError):  # a store that is unreachable or full must not hide why the run stops
                        if run.tasks.begun:  # otherwise the run was refused before it began
                            self._record(run, lease, {}, f"stopped: {type(stop).__name__}")
                        self.store.sweep_temporaries()
                    raise
                last = self.newest_whole()
                run.warned_before = None if last is None else last.get("warnings", ())
                run.ended = self._record(run, lease, datasets, "finished")
                wanted_again(self.store, lease, run.ended)
                if tag is not None:
                    give_name(self.store, lease, tag, run.ended, option("tag"))
                for line in input_changes(run, last):
                    listener.note(line)
                self.store.sweep_temporaries()
                for fact in self.store.damaged_records.values():
                    check = f"To check all records: gristmill verify {self.recipe.path}"
                    listener.note(f"{fact}. It was not used. {check}", WARNING)
                if run.fault_of_latest is not None:
                    raise UserError(run.fault_of_latest)
                return run

    def _compare(self, run: Run) -> None:
        """Compare a whole run with the version that its recipe watches. With `strict`, an alarm stops the run before
        anything is published, so that the version before it stays the newest.
        """
        if self.watch is None or self.until is not None:
            return
        run.listener.doing("comparing with the watched version")
        run.watched = self.watch(run)
        for note in run.watched["notes"]:
            run.listener.note(note)
        alarms = [with_recipe(line, run.label) for line in alarm_lines(run.watched["alarms"])]
        if alarms and self.recipe.strict:
            raise UserError(
                f"{self.recipe.path}: strict is true and watch raised {counted(len(run.watched['alarms']), 'alarm')}, "
                "so nothing was published. All work is stored, and the newest version is the one before this run. Fix "
                f"the cause, or list intended changes under ignore of watch, and run again. {'; '.join(alarms)}"
            )

    def _refuse_warnings(self, run: Run) -> None:
        """With `strict`, a warning that the recipe does not accept stops the run before anything is published."""
        if not self.recipe.strict or self.until is not None:  # a part of a run publishes nothing
            return
        found = find_warnings(run)
        lines = [f"{one} [{one.name}]" for one in found if not any(entry.covers(one) for entry in self.recipe.accept)]
        if lines:
            listed_lines = "".join(f"\n  {line}" for line in lines)
            raise UserError(
                f"{self.recipe.path}: strict is true and the run has {counted(len(lines), 'warning')}, so nothing was "
                "published. All work is stored, and the newest version is the one before this run. Fix the recipe, "
                f"accept them (accept: {{name: reason}}), or set strict: false.{listed_lines}"
            )

    def _refuse_unmet(self, executor: Executor) -> None:
        """Refuse a step that has work to do and needs more than any machine here has."""
        declared = [(node, needs) for node in self.graph.nodes.values() if (needs := self.graph.declared(node))]
        unmet = [(node, lacks) for node, needs in declared if (lacks := executor.lacks(needs)) is not None]
        if not unmet:
            return
        inline = InlineExecutor(self.store)
        dry = Run(self.graph, self.store, inline, self.contents, Silent(), dry=True)
        wait_for(dry.go(), inline)
        for node, lacks in unmet:
            if dry.states[node.id].missing or dry.states[node.id].waiting:
                executor.close()
                raise UserError(
                    f"{node.where or node.id}: a task of {node.name} needs {lacks}, so nothing was run. Run on a "
                    f"machine that has it, or on a cluster ({option('executor', 'ray')} or slurm), or remove the "
                    "step."
                )

    def _refuse_twin(self) -> None:
        """Refuse a recipe whose name differs from another's only in case: some disks would merge their folders."""
        name, recipes = self.recipe.name, {path.split("/")[1] for path, _ in self.store.list_files("runs")}
        twin = next((one for one in sorted(recipes) if one.lower() == name.lower()), name)
        if name not in recipes and twin != name:
            raise UserError(
                f"{self.store.uri} has runs of the recipe {twin}, and {name} differs from it only in case: on some "
                "disks they would overwrite each other. Nothing was run. Rename the recipe, or use another store."
            )

    def _remove_damaged(self, corrupt: CorruptPart, earlier: Earlier) -> None:
        """Remove a damaged part, so that its task runs again; only once."""
        if corrupt.part_hash in earlier.damaged:
            raise UserError(
                f"Part {corrupt.part_hash[:12]} {corrupt.fact}, even after it was made again: the store "
                f"{self.store.uri} does not return what is written to it. Use another disk or bucket."
            ) from None
        earlier.damaged[corrupt.part_hash] = corrupt.fact
        self.store.remove_damaged(corrupt)

    def _record(self, run: Run, lease: Lease, datasets: Mapping[str, Any], status: str) -> dict[str, Any]:
        """Record a run as the next one of its store. Runs take turns, so the newest, its parent and `latest` agree."""
        with turn(self.store, lease):
            run.cost = requests.since(self._requests_before)
            before = self.newest_whole() if datasets else None
            if datasets and self.until is None:
                keep_takedowns(self.store, self.recipe)
            with as_command_line():  # the texts are compared with those of the next run, wherever it is started
                found = find_warnings(run, "RECIPE") if status == "finished" else []
            warnings = [{"name": one.name, "step": one.step, "text": one} for one in found]
            record = make_record(run, warnings, self._started, datetime.now(UTC), datasets, status, self.until, before)
            path = f"runs/{self.recipe.name}/{next_name(self.store, lease.id)}.json"
            self.store.write_json(path, record)
            if datasets and self.until is None:
                run.fault_of_latest = point_latest(run)
        return record

    def check_takedowns(self) -> list[str]:
        """Refuse a recipe that would undo a takedown, before any work; returns what else to know of its takedowns."""
        refuse_undone(self.store, self.recipe)
        return list(takedown_notes(self.store, self.recipe))

    def check_tag(self, tag: str) -> None:
        """Check that a run can have the name, before a run that may take days."""
        if self.recipe.sample is not None:
            raise UserError(
                f"{option('tag')} names a version of the whole corpus, but this is a sample of it, stored as "
                f"{self.recipe.name}. Omit {option('tag')}, or the sample."
            )
        if not self.store.is_shared:
            raise UserError(
                f"{option('tag')} names a version for later, but the store {self.store.uri} ends with this command, so "
                f"nothing was run. Name a folder (store: in the recipe, or {option('store')}), or omit "
                f"{option('tag')}."
            )
        if tag == self.recipe.name:
            raise UserError(
                f"{option('tag', tag)} is the name of the recipe, which refers to its last run. Use another name."
            )
        check_name(self.store, tag, option("tag"))

    def newest_whole(self) -> dict[str, Any] | None:
        """The record of the newest run of this recipe that is not partial."""
        found = newest_run(self.store, self.recipe.name)
        return None if found is None or is_partial(found) else found

    def last_run(self) -> dict[str, Any] | None:
        """The newest run record of this recipe, however it ended."""
        return next(run_records(self.store, self.recipe.name), None)

    def known_before(self) -> dict[str, Mapping[str, Any]]:
        """For each node the record of its newest run; the newest run of all may have ended before it (`until`)."""
        found: dict[str, Mapping[str, Any]] = {}
        for record in run_records(self.store, self.recipe.name):
            for node_id, node in record["nodes"].items():
                if node["executed"] or node["cached"] or record["status"] == "finished":
                    found.setdefault(node_id, node)
            if self.graph.nodes.keys() <= found.keys():
                break
        return found


def make_executor(
    store: Store,
    workers: int | None,
    modules: Sequence[str] = (),
    code: Code | None = None,
    note: Note = lambda *_: None,
    begun: Begun = lambda *_: None,
    name: str | None = None,
    address: str | None = None,
    cluster: ClusterFields | None = None,
    recipe: str = "run",
) -> Executor:
    """The executor with a name; by default processes on this machine, or this process if no other can access the store.
    `address` is for a Ray cluster; `cluster` and the name of the recipe are for Slurm jobs.
    """
    name = name or ("local" if store.is_shared else "inline")
    if name != "inline" and not store.is_shared:
        raise UserError(
            f"{option('executor', name)} runs tasks in other processes, which cannot see the store {store.uri}. Omit "
            f"{option('executor')}, or give a folder with {option('store')}."
        )
    more = {"modules": modules, "code": code, "note": note, "begun": begun, "address": address, "cluster": cluster}
    executor: Executor = registry.load(name)(store, workers, **more, recipe=recipe)
    return executor


def find_warnings(run: Run, typed: str | None = None) -> list[Warned]:
    """Everything that silently had no effect (law 7). Stages do not know their recipe, so RECIPE in the commands that
    they name becomes what the user typed (None: its file).
    """
    found: list[Warned] = []
    for source in run.chains:  # in the order of the recipe, not of their arrival
        if source in run.inputs:
            metrics = run.states[f"{source}/{INGEST}"].metrics
            found += about(f"{source}/{INGEST}", INGEST, run.inputs[source].warnings(metrics))
    formats = run.previews.formats if run.previews else ()
    found += [*formats, *about("", "read_twice", read_twice(run.inputs))]
    for node in run.graph.nodes.values():
        warn = stage_of(node.module).warnings
        metrics = run.states[node.id].metrics
        if warn is not None and metrics:
            some = 0 < len(node.sources) < len(run.chains) and node.id.partition("/")[0] not in node.sources
            label = f"{node.id} (of {listed(node.sources, 5)})" if some else node.id
            found += about(node.id, node.name, warn(metrics, node.config), label)
    found += about("", "watch", alarm_lines(run.watched.get("alarms", ())))
    recipe = run.graph.recipe
    if not run.graph.beyond and recipe.sample is None:  # a part of a run cannot have all warnings
        idle = [entry for entry in recipe.accept if not any(map(entry.covers, found))]
        texts = (
            f"{entry.name}: the run has no such warning, so accepting it has no effect. Remove it" for entry in idle
        )
        found += about("accept", "accept_unused", texts)
    return [Warned(one.name, with_recipe(one, typed or run.label), one.step) for one in found]


def about(step: str, name: str, messages: Iterable[str], label: str | None = None) -> list[Warned]:
    """The warnings about a step; `name` is for those without a name."""
    start = f"{label or step}: " if step else ""
    return [Warned(getattr(one, "name", name), f"{start}{one}", step) for one in messages]


def with_recipe(message: str, typed: str) -> str:
    """A message of a stage with the recipe in the commands that it names."""
    return re.sub(r"(gristmill [a-z ]+ )RECIPE\b", lambda at: f"{at[1]}{typed}", message)


def alarm_lines(alarms: Sequence[Mapping[str, Any]], most: int = MOST_ALARMS) -> list[str]:
    """One line for each first alarm, with the number of alarms that may follow from it, and how many more lines there
    are.
    """
    following = Counter(alarm["cause"] for alarm in alarms)
    lines = []
    for number, times in following.items():
        follows = f" {counted(times - 1, 'more alarm')} may follow from it." if times > 1 else ""
        fact, look, command = alarms[number]["message"].partition(" To look: ")
        lines.append(f"{fact}{follows}{look}{command}")
    rest = len(lines) - most
    more = [f"watch: {counted(rest, 'more cause')}. To see all: {hint('watch')}"] if rest > 0 else []
    return [*lines[:most], *more]


def wait_for(work: Any, executor: Executor) -> None:
    """Run a coroutine to its end; SIGINT and SIGTERM end it and every worker. A second signal exits at once.

    Only the main thread gets signals. If a loop already runs in this thread (a notebook), the coroutine runs in its own
    thread, and KeyboardInterrupt ends it.
    """
    stops: list[Callable[[int], object]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stopped: list[int] = []
        HURRIED.clear()

        def stop(number: int) -> None:
            stopped.append(number)
            HURRIED.set()
            for other in asyncio.all_tasks():  # before their workers end, so that no task reports a lost worker
                other.cancel()
            executor.close()

        stops.append(lambda number: loop.call_soon_threadsafe(stop, number))
        is_main = threading.current_thread() is threading.main_thread()
        before = {number: signal.getsignal(number) for number in (heeded() if is_main else ())}
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

    if not _is_in_loop():
        asyncio.run(main())
        return
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(asyncio.run, main())
        try:
            ended.result()
        except KeyboardInterrupt:
            while not stops and not ended.done():  # its loop is about to begin
                wait([ended], timeout=POLL_S)
            for stop in stops:
                with suppress(RuntimeError):  # it has already ended
                    stop(signal.SIGINT)
            raise


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
