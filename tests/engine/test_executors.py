"""What every executor must do: `make_executor` returns them by name, and each of them passes all of this."""

import asyncio
import hashlib

import pytest
from tests.packages import installed_from

from gristmill.engine.executors.registry import BUILT_IN
from gristmill.engine.mill import Mill, Silent, make_executor
from gristmill.engine.run_options import check_executor
from gristmill.engine.work.task import Hash, MapWork, Task
from gristmill.errors import UserError
from gristmill.installed import EXECUTORS, PACKAGES
from gristmill.places import FileLocation
from gristmill.recipe.load import load
from gristmill.stages.contract import Resources
from gristmill.stages.select import corpus
from gristmill.store.store import CorruptPart, Part, Store

MARKS = {"ray": [pytest.mark.slow, pytest.mark.ray], "slurm": [pytest.mark.slow, pytest.mark.slurm]}


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, [])) for name in (*BUILT_IN, *PACKAGES[EXECUTORS])])
def name(request):
    if request.param == "ray":
        request.getfixturevalue("ray_nodes")
    if request.param == "slurm":
        request.getfixturevalue("slurm")
    return request.param


def carry_out(name, folder, work, workers=None):
    executor = make_executor(Store(str(folder / "store")), workers, name=name)

    async def main():
        try:
            return await work(executor)
        finally:
            executor.close()

    return asyncio.run(main())


def hashing(folder, *contents):
    places = []
    for number, content in enumerate(contents):
        path = folder / f"file{number}"
        path.write_bytes(content)
        places.append(FileLocation(str(path)))
    return Task("", "inputs", "hashing", Hash(tuple(places)))


def test_a_task_is_answered_and_says_what_it_cost(name, tmp_path):
    result = carry_out(name, tmp_path, lambda executor: executor.run(hashing(tmp_path, b"grain", b"flour")))
    assert [value.sha256 for value in result.values] == [
        hashlib.sha256(one).hexdigest() for one in (b"grain", b"flour")
    ]
    assert result.cost["wall_s"] >= 0
    assert result.cost["peak_rss_bytes"] > 0


def test_it_takes_more_tasks_than_it_has_slots(name, tmp_path):
    """They wait, and each gets its own answer."""
    tasks = []
    for number in range(8):
        (tmp_path / str(number)).mkdir()
        tasks.append(hashing(tmp_path / str(number), b"%d" % number))

    async def work(executor):
        assert 1 <= executor.slots < len(tasks)
        return await asyncio.gather(*(executor.run(task) for task in tasks))

    results = carry_out(name, tmp_path, work, 1)
    assert [result.values[0].sha256 for result in results] == [
        hashlib.sha256(b"%d" % number).hexdigest() for number in range(8)
    ]


def test_a_damaged_part_is_reported_as_such(name, tmp_path):
    """The engine decides what to do about it."""
    gone = Part("ab" * 32, "parquet", 10)
    work = MapWork(corpus.__name__, corpus.Config(steps=(), texts=()), (gone,), (), (), {})
    task = Task("", "a/corpus", "part", work)
    with pytest.raises(CorruptPart) as message:
        carry_out(name, tmp_path, lambda executor: executor.run(task))
    assert message.value.part_hash == gone.hash


def test_a_mistake_of_the_user_is_one_message(name, tmp_path):
    task = hashing(tmp_path, b"grain")
    (tmp_path / "file0").unlink()
    with pytest.raises(UserError, match="cannot be read: No such file"):
        carry_out(name, tmp_path, lambda executor: executor.run(task))


def test_alone_gives_workers_that_answer(name, tmp_path):
    """And the other tasks continue afterwards."""
    task = hashing(tmp_path, b"grain")

    async def work(executor):
        async with executor.alone(Resources()) as start:
            worker = await start()
            first = await worker.ask(task)
            worker.kill()
        return first, await executor.run(task)

    first, second = carry_out(name, tmp_path, work)
    assert first.values == second.values


def test_a_recipe_comes_out_the_same(name, project):
    """Law 1, whichever executor runs the tasks."""
    project.write_inputs(files=1, records=30)
    recipe = load(project.recipe, store=str(project.folder / name))
    run = Mill(recipe, executor=name).run(None, Silent())
    assert project.parts(run) == project.parts(project.run())


@pytest.fixture
def yard(tmp_path, monkeypatch):
    """The package of docs/engine.md, installed."""
    with installed_from("engine.md", tmp_path / "site", monkeypatch) as site:
        yield site


def test_an_installed_package_adds_an_executor_by_an_entry_point(project, yard):
    """As docs/engine.md says; the bytes are the same."""
    check_executor("yard", "somewhere:1", None)
    listener = Silent()
    run = Mill(load(project.recipe, store=str(project.folder / "yard")), executor="yard").run(None, listener)
    assert any(note.startswith("yard: notes/ingest") for note in listener.notes)
    assert project.parts(run) == project.parts(project.run())


def test_a_wrong_name_lists_the_executors_that_there_are(yard):
    with pytest.raises(UserError, match=r"yrad is not known.*: local, inline, ray, slurm, yard\. Did you mean yard"):
        check_executor("yrad", None, None)


def test_an_executor_that_cannot_be_imported_is_one_message(tmp_path, yard):
    (yard / "yard.py").write_text("import nowhere_to_be_found\n")
    with pytest.raises(UserError, match=r"executor=yard cannot be imported from yard:.*nowhere_to_be_found"):
        make_executor(Store(str(tmp_path)), None, name="yard")


def test_a_store_in_memory_is_for_this_process_alone(tmp_path):
    """An option that does not apply is an error."""
    store = Store(f"memory://{tmp_path}")
    with pytest.raises(UserError, match="cannot see the store"):
        make_executor(store, None, name="local")
    with pytest.raises(UserError, match="workers=3 does not apply"):
        make_executor(store, 3)
    assert make_executor(store, 1).slots == 1
