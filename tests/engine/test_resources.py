"""A stage declares what its tasks need and what it loads once; executors schedule by it, and no key contains it."""

import asyncio
from dataclasses import replace

import pytest

import stagebox.length
import stagebox.loads
from gristmill.engine.executors import executor, local
from gristmill.engine.executors.local import LocalExecutor
from gristmill.engine.executors.turns import Turns
from gristmill.engine.work import setup
from gristmill.engine.work.needs import PROCESS_BYTES, kept_for, needs_of
from gristmill.engine.work.task import MapWork, Result, Task
from gristmill.errors import BrokenPromise, UserError
from gristmill.query.sizing.plan import make_plan
from gristmill.stages.contract import Resources, StageConfig
from gristmill.store.store import Part, Store

GB = 10**9
HEAD = """
import pyarrow as pa
from gristmill.stages.contract import Map, Resources, StageConfig
SCHEMA = pa.schema([("seen", pa.bool_())])
class Config(StageConfig): pass
def apply(batch, config):
    return pa.RecordBatch.from_arrays([pa.array([True] * batch.num_rows)], schema=SCHEMA)
"""
STAGE = "STAGE = Map(config=Config, reads=('text',), schema=SCHEMA, apply=apply, {})\n"


def task(label, node="all/loads", **settings):
    config = stagebox.loads.Config(diary="", **settings)
    return Task("", node, label, MapWork("stagebox.loads", config, (), (), (), {}))


def plain(label):
    return Task("", "all/length", label, MapWork("stagebox.length", stagebox.length.Config(), (), (), (), {}))


def kept_by(task):
    return kept_for(task.node, task.work)


class Made:
    """A worker that ends its task when the test says so."""

    def __init__(self, gpus, busy):
        self.gpus, self.step, self.is_free, self.has_gone = tuple(gpus), "", True, False
        self.busy = busy

    async def ask(self, task):
        self.busy[task.label] = asyncio.Event()
        await self.busy[task.label].wait()
        del self.busy[task.label]
        return Result(values=[task.label])

    def has_ended(self):
        return False

    def finish(self):
        self.has_gone = True

    hang_up = signal = finish

    def kill(self, patience_s=0.0):
        self.has_gone = True


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """An executor of ten workers on a fake machine, its workers, and the running tasks."""

    def make(memory, gpus=""):
        monkeypatch.setattr(local, "available_bytes", lambda: memory)
        monkeypatch.setattr(local, "total_bytes", lambda: memory)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
        made, workers, busy = LocalExecutor(Store(str(tmp_path)), 10), [], {}
        monkeypatch.setattr(made, "_make", lambda gpus: workers.append(Made(gpus, busy)) or workers[-1])
        return made, workers, busy

    return make


async def begun(busy, count):
    async with asyncio.timeout(60):
        while len(busy) < count:
            await asyncio.sleep(0.001)
    for _ in range(5):
        await asyncio.sleep(0)
    return sorted(busy)


def test_ten_tasks_of_2_gb_run_two_at_a_time_on_a_machine_of_5_gb(machine):
    """However many workers there may be; and each is done."""
    made, workers, busy = machine(5 * GB)

    async def work():
        tasks = [asyncio.create_task(made.run(task(str(number), memory="2GB"))) for number in range(10)]
        most = 0
        for _ in tasks:
            await begun(busy, min(2, sum(not one.done() for one in tasks)))
            most = max(most, len(busy))
            busy[min(busy)].set()
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)
        return most, [result.values[0] for result in await asyncio.gather(*tasks)]

    assert asyncio.run(work()) == (2, [str(number) for number in range(10)])
    assert len(workers) == 2


def test_an_idle_worker_gives_up_what_it_loaded_when_another_task_needs_the_memory(machine):
    """Until then it waits for tasks of its step, and tasks of other steps run elsewhere."""
    made, workers, busy = machine(5 * GB)

    async def one(task):
        running = asyncio.create_task(made.run(task))
        await begun(busy, 1)
        busy[task.label].set()
        await running
        return [worker.has_gone for worker in workers]

    async def work():
        yield await one(task("a", memory="2GB"))
        yield await one(plain("b"))
        yield await one(task("c", memory="2GB"))
        yield await one(task("d", "all/other", memory="4GB"))

    async def main():
        return [observed async for observed in work()]

    assert asyncio.run(main()) == [[False], [False, False], [False, False], [True, False, False]]


def test_tasks_at_once_have_different_gpus(machine):
    """And a third one waits."""
    made, workers, busy = machine(5 * GB, gpus="4,7")

    async def work():
        tasks = [asyncio.create_task(made.run(task(label, memory=1, gpus=1))) for label in "abc"]
        assert await begun(busy, 2) == ["a", "b"]
        busy["a"].set()
        await tasks[0]
        assert await begun(busy, 2) == ["b", "c"]
        for event in list(busy.values()):
            event.set()
        await asyncio.gather(*tasks)

    asyncio.run(work())
    assert sorted(worker.gpus for worker in workers) == [("4",), ("7",)]


def test_cores_count_and_a_task_with_more_than_there_are_runs_alone():
    async def main():
        turns, at_work = Turns(4), []

        async def one(name, cores, end):
            async with turns.turn((), Resources(cores=cores)):
                at_work.append(name)
                await end.wait()
                at_work.remove(name)

        ends = {name: asyncio.Event() for name in "abc"}
        tasks = [
            asyncio.create_task(one(name, cores, ends[name])) for name, cores in zip("abc", (3, 9, 2), strict=True)
        ]
        observed = []
        for name in "abc":
            for _ in range(5):
                await asyncio.sleep(0)
            observed.append(list(at_work))
            ends[name].set()
        await asyncio.gather(*tasks)
        return observed

    assert asyncio.run(main()) == [["a"], ["b"], ["c"]]


def test_needs_are_declared_as_a_constant_or_by_config_and_part_or_else_estimated(monkeypatch):
    """A stage that declares no memory gets the engine's estimate; a worker is kept for a step that loads something."""
    assert needs_of(task("a", memory="2GB", gpus=3).work) == Resources(memory=2 * GB, gpus=3)
    assert needs_of(task("a", gpus=1).work) == Resources(memory=PROCESS_BYTES, gpus=1)
    assert needs_of(plain("a").work) == Resources(memory=PROCESS_BYTES)
    by_part = replace(stagebox.loads.STAGE, resources=lambda config, part_bytes: Resources(memory=3 * part_bytes))
    monkeypatch.setattr(stagebox.loads, "STAGE", by_part)
    part = Part("a" * 64, "parquet", 10, 5, payload_bytes=700)
    assert needs_of(MapWork("stagebox.loads", stagebox.loads.Config(diary=""), (part,), (), (), {})).memory == 2100
    assert kept_by(task("a")) == "all/loads"
    assert kept_by(plain("a")) == ""
    declared = replace(stagebox.length.STAGE, resources=Resources(cores=2, gpus=1))
    monkeypatch.setattr(stagebox.length, "STAGE", declared)
    assert kept_by(plain("a")) == "all/length"
    assert needs_of(plain("a").work).cores == 2


@pytest.mark.parametrize(
    ("settings", "lacks"),
    [
        ("gpus: 1", r"needs 1 GPU, but this machine has none, so nothing was run\. Run on a machine that has it"),
        ("memory: 9GB", r"needs 9\.0 GB of memory, but this machine has 5\.0 GB, so nothing was run"),
    ],
)
def test_a_step_that_no_machine_here_can_run_is_refused_before_any_work(project, monkeypatch, settings, lacks):
    """With the line of the recipe. Once the step is in the store, made elsewhere, the resources are not needed."""
    monkeypatch.setattr(executor, "total_bytes", lambda: 5 * GB)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    project.write_recipe(f"  - stagebox.length\n  - stagebox.loads: {{diary: '{project.folder}', {settings}}}\n")
    with pytest.raises(UserError, match=rf"recipe\.yaml:\d+: a task of loads {lacks}"):
        project.run()
    assert not (project.store / "tasks").exists()
    assert not (project.store / "runs").exists()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(executor, "total_bytes", lambda: 50 * GB)
        elsewhere.setenv("CUDA_VISIBLE_DEVICES", "0")
        project.run()
    assert project.executed(project.run()) == {}


@pytest.mark.usefixtures("forgotten")
def test_resources_are_in_no_key_and_a_plan_shows_them(project):
    """Also those of a module next to the recipe, whose code is in its key, unless its code uses them itself."""
    own = project.folder / "heavy.py"
    project.write_recipe("  - heavy\n")

    def planned():
        mill = project.mill()
        [line] = [line for line in make_plan(mill, mill.dry_run()) if line.id == "all/heavy"]
        return line.explained, line.why

    named = STAGE.format("resources=RESOURCES")
    own.write_text(HEAD + "RESOURCES = Resources(memory='300MB')\n" + named)
    project.run()
    own.write_text(HEAD + "RESOURCES = Resources(\n    memory='1.5GB', cores=2)\n" + named)
    assert planned() == (("each task needs 1.5 GB of memory, 2 cores",), ())
    computed = "def resources(config, part_bytes):\n    return Resources(memory=2 * part_bytes)\n"
    own.write_text(HEAD + computed + STAGE.format("resources=resources"))
    assert planned() == (("each task needs 8.0 KB of memory",), ())
    own.write_text(HEAD + "RESOURCES = Resources(memory='1GB')\n_BATCH = RESOURCES.memory\n" + named)
    assert planned()[1] == ("heavy.py changed",)
    own.write_text(HEAD + STAGE.format("resources=Resources(memory='300MB')"))
    project.run()
    own.write_text(HEAD + STAGE.format("resources=Resources(\n    memory='1.5GB', cores=2)"))
    assert planned() == (("each task needs 1.5 GB of memory, 2 cores",), ())
    own.write_text(HEAD + STAGE.format("resources=Resources(memory='1GB'), only_kept=True"))
    assert planned()[1] == ("heavy.py changed",)


@pytest.mark.parametrize("workers", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_worker_loads_once_and_releases_at_the_end(project, workers):
    """In this process, and in others, however many tasks there are."""
    project.write_recipe(f"  - stagebox.loads: {{diary: '{project.folder}/diary'}}\n")
    (project.folder / "diary").mkdir()
    tasks = len(project.run(workers).states["all/loads"].executed)
    message = [path.read_text().split()[::2] for path in (project.folder / "diary").iterdir()]
    assert all(words == ["load", *["use"] * (len(words) - 2), "release"] for words in message)
    assert sum(len(words) - 2 for words in message) >= tasks > len(message)


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("resources={'memory': '2GB'}", "its resources are of type dict, not Resources"),
        ("resources=Resources(memroy='2GB')", "Resources has no field memroy. Did you mean memory"),
        ("resources=Resources(memory='2 sacks')", "'2 sacks' is not a size"),
        ("resource=Resources()", "Map has no field resource. Did you mean resources"),
        ("resources=lambda config: Resources()", "its resources does not accept the 2 arguments"),
        ("setup=lambda: 1", "its setup does not accept the 1 argument"),
        ("setup=lambda config: 1", "its apply does not accept the 2 arguments and loaded="),
    ],
)
def test_a_mistake_in_a_declaration_is_reported_before_any_work(project, code, message):
    (project.folder / "heavy.py").write_text(HEAD + STAGE.format(code))
    project.write_recipe("  - heavy\n")
    with pytest.raises(UserError, match=message):
        project.run()


def test_a_setup_that_yields_nothing_is_a_mistake(monkeypatch):
    """The step would get nothing as `loaded`."""
    monkeypatch.setattr(setup, "_loaded", [])

    def nothing(config):
        if config is None:
            yield 1

    with pytest.raises(BrokenPromise, match="setup yields nothing"):
        setup.with_loaded(replace(stagebox.loads.STAGE, setup=nothing), StageConfig(), {})


def test_a_failure_at_the_end_names_its_line(monkeypatch, capsys):
    """Results are stored by then."""
    monkeypatch.setattr(setup, "_loaded", [])

    def failing(config):
        yield 1
        raise ZeroDivisionError

    stage = replace(stagebox.loads.STAGE, setup=failing)
    assert setup.with_loaded(stage, StageConfig(), {}) == {"loaded": 1}
    setup.release()
    message = capsys.readouterr().err
    assert message.count("File ") == 1
    assert "ZeroDivisionError" in message


def test_a_second_value_of_a_setup_is_a_mistake(monkeypatch, capsys):
    """What comes after it would never run."""
    monkeypatch.setattr(setup, "_loaded", [])

    def twice(config):
        yield 1
        yield 2

    setup.with_loaded(replace(stagebox.loads.STAGE, setup=twice), StageConfig(), {})
    setup.release()
    assert "setup yields twice" in capsys.readouterr().err
