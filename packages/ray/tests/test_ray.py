"""The Ray executor on a cluster of two nodes: lost tasks run elsewhere, and failures are one message."""

import asyncio
import json
import pickle
import signal
import socket
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from gristmill.cli.main import main
from gristmill.engine.executors import attempts
from gristmill.engine.executors.executor import StageFailed, WorkerDied
from gristmill.engine.mill import Mill, Silent
from gristmill.engine.publish.journal import read_journals
from gristmill.engine.work.needs import PROCESS_BYTES
from gristmill.engine.work.task import Hash, MapWork, Result, Task
from gristmill.errors import UserError
from gristmill.processes import name_of, runs
from gristmill.recipe.load import load
from gristmill.stages.contract import Resources
from gristmill.store.store import Store
from gristmill_ray import connection as ray_connection
from gristmill_ray import executor as ray_cluster
from gristmill_ray import host as ray_host
from gristmill_ray.executor import HOST_BYTES, RayExecutor
from stagebox import loads

TASK = Task("", "inputs", "hashing", Hash(()))


def run_on_ray(project, listener=None):
    mill = Mill(load(project.recipe, store=str(project.folder / "on-ray")), executor="ray")
    return mill.run(None, listener or Silent())


def texts(project, word=None):
    for path in (project.folder / "in").iterdir():
        path.unlink()
    said = [f"the miller has sack number {n}{' POISON' * (n == word)}" for n in range(60)]
    lines = [json.dumps({"text": text}) for text in said]
    (project.folder / "in" / "00.jsonl").write_text("\n".join(lines))


class Hanging:
    """A step whose first tasks hang, and write which process they are in."""

    def __init__(self, project, most):
        self.folder = project.folder / "hung"
        self.folder.mkdir()
        self.config = f"{{word: 'number 7', how: hang, kills: '{self.folder}', most: {most}}}"
        self.observed = set()

    def next(self):
        while not (new := set(self.folder.iterdir()) - self.observed):
            time.sleep(0.01)
        self.observed |= new
        [path] = new
        return int(path.suffix[1:])


# Losses.


@pytest.mark.slow
def test_a_node_lost_in_the_middle_of_a_task_costs_nothing(project, ray_nodes):
    """Its tasks run on the remaining node: the same bytes, and no record is suspected."""
    texts(project)
    hung, listener = Hanging(project, 1), Silent()
    project.write_recipe(f"  - stagebox.deadly: {hung.config}\n  - stagebox.exact\n")
    lost = threading.Thread(target=lambda: ray_nodes.lose_node_of(hung.next()), daemon=True)
    lost.start()
    run = run_on_ray(project, listener)
    lost.join()
    assert [note for note in listener.notes if "its node was lost" in note and "trying again" in note]
    assert not [note for note in listener.notes if "alone" in note]
    [journal] = read_journals(run.store, "project")
    assert journal.record["stages"]["all/deadly"]["failures"] == 1
    assert [note for note in journal.record["notes"] if "its node was lost" in note["message"]]
    assert {one["where"] for one in journal.record["slowest"]} != {""}
    assert project.parts(run) == project.parts(project.run())


@pytest.mark.slow
def test_a_record_that_kills_its_worker_is_found_as_on_one_machine(project, ray_nodes, monkeypatch):
    """The same row with the same text, so the same bytes."""
    monkeypatch.setattr(attempts, "PAUSE_S", 0.0)
    texts(project, word=17)
    project.write_recipe("  - stagebox.deadly\n")
    run = run_on_ray(project)
    [found] = [result for _, result in run.tasks.kept if result.poisoned]
    assert found.poisoned[0][0] == 17
    assert project.parts(run) == project.parts(project.run(workers=1))


@pytest.mark.slow
def test_a_stopped_or_killed_driver_leaves_no_process_and_the_next_continues(project, ray_nodes):
    """Workers end with it, on Ctrl-C and on a kill; finished work is not repeated."""
    texts(project)
    hung = Hanging(project, 2)
    project.write_recipe(f"  - stagebox.length\n  - stagebox.deadly: {hung.config}\n")
    for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        process = project.start("--executor", "ray", "--address", ray_nodes.address)
        worker = name_of(hung.next())
        process.send_signal(number)
        said = process.communicate()[1]
        assert process.returncode == code, said
        assert "Traceback" not in said
        while runs(worker):
            time.sleep(0.01)
    run = run_on_ray(project)
    assert not project.executed(project.mill(store=str(project.folder / "on-ray")).run(1, Silent()))
    assert project.parts(run) == project.parts(project.run())


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_one_message(tmp_path, ray_nodes, monkeypatch):
    """Ray itself would end the process after a minute."""
    monkeypatch.setattr(ray_cluster, "CHECK_EVERY_S", 0.0)
    monkeypatch.setattr(ray_cluster, "SILENT_S", 0.01)
    executor = RayExecutor(Store(str(tmp_path)), None)
    silent = SimpleNamespace(**{name: getattr(executor._ray, name) for name in ("exceptions", "cancel")})
    silent.nodes = threading.Event().wait
    silent.is_initialized = lambda: False

    async def work():
        executor._ray = silent
        await executor._answer(executor._work.options(num_cpus=9).remote({}, b""))  # no node has so many

    with pytest.raises(UserError, match=r"The Ray cluster is lost: it has not answered.*same command to continue"):
        asyncio.run(work())
    executor.close()


# Ray's errors.


@pytest.mark.slow
def test_deaths_are_distinguished(tmp_path, ray_nodes):
    """A lost node says nothing about the task; too little memory, or the end of a process, may."""
    from ray import exceptions as ray_said

    executor = RayExecutor(Store(str(tmp_path)), None)
    lost = [ray_said.NodeDiedError("x"), ray_said.ObjectLostError("ab", "", ""), ray_said.ActorUnschedulableError("x")]
    for error in lost:
        assert executor._translated(error).machine_lost, error
    [node, *_] = executor._nodes
    for at, is_lost in ((node, False), ("0" * 56, True), (None, False)):
        assert asyncio.run(executor._death(ray_said.ActorDiedError(), at)).machine_lost is is_lost
    for error in (ray_said.OutOfMemoryError("x"), ray_said.WorkerCrashedError(), ray_said.ActorDiedError()):
        death = executor._translated(error)
        assert isinstance(death, WorkerDied)
        assert (death.machine_lost, death.inside) == (False, False), error
    assert "out of memory" in executor._translated(ray_said.OutOfMemoryError("x")).cause
    assert isinstance(executor._translated(ray_said.LocalRayletDiedError()), UserError)
    assert isinstance(executor._translated(ray_said.RuntimeEnvSetupError("no such thing")), UserError)
    for cause, kind in ((ImportError("No module named 'gristmill'"), UserError), (KeyError("bug"), StageFailed)):
        error = ray_said.RayTaskError("perform", "the traceback", cause).as_instanceof_cause()
        assert isinstance(executor._translated(error), kind)
    executor.close()


@pytest.mark.slow
def test_a_task_that_had_too_little_memory_is_given_more_next_time(tmp_path, ray_nodes, monkeypatch):
    """Up to the memory of the largest node: Ray would wait forever for more. A lost node does not count."""
    executor = RayExecutor(Store(str(tmp_path)), None)
    requests = []
    killed, lost = WorkerDied("SIGKILL", peak_rss_bytes=900 << 20), WorkerDied("its node was lost", machine_lost=True)
    answers = iter([lost, killed, WorkerDied("out of memory"), Result(), Result()])

    class Work:
        def options(self, **options):
            requests.append(options["memory"] >> 20)
            return SimpleNamespace(remote=lambda *_: None)

    async def answer(_):
        if isinstance(one := next(answers), WorkerDied):
            raise one
        return one

    executor._work = Work()
    monkeypatch.setattr(executor, "_answer", answer)

    async def work():
        return await asyncio.gather(*[executor.run(TASK) for _ in range(5)], return_exceptions=True)

    executor._turns.slots = 1
    asyncio.run(work())
    executor.close()
    assert PROCESS_BYTES + HOST_BYTES <= 512 << 20
    assert requests == [512, 512, 2048, 3072, 512]


@pytest.mark.slow
def test_ray_gets_the_resources_that_a_step_declares(project, ray_nodes):
    """Cores, at most those of one node, GPUs and memory; a step that no node can run is refused before any work."""
    requests = []

    class Work:
        def options(self, **options):
            requests.append({name: options[name] for name in ("num_cpus", "num_gpus", "memory")})
            return SimpleNamespace(remote=lambda *_: None)

    async def answer(_):
        return Result()

    config = loads.Config(diary="", memory="1GB", gpus=2)
    task = Task("", "all/loads", "a", MapWork("stagebox.loads", config, (), (), (), {}))
    executor = RayExecutor(Store(str(project.folder)), None)
    executor._work = executor._work_on_gpu = Work()
    executor._answer = answer
    asyncio.run(executor.run(task))
    executor.close()
    assert requests == [{"num_cpus": 1, "num_gpus": 2, "memory": 5 * (256 << 20)}]
    assert executor.lacks(Resources(gpus=1)) == "1 GPU, but the largest node of the Ray cluster has none"
    assert "9.0 TB of memory" in executor.lacks(Resources(memory="9TB"))
    assert executor.lacks(Resources(memory="1GB", cores=99)) is None
    project.write_recipe(f"  - stagebox.loads: {{diary: '{project.folder}', gpus: 1}}\n")
    with pytest.raises(UserError, match=r"a task of loads needs 1 GPU, but the largest node .* has none"):
        run_on_ray(project)
    assert not (project.folder / "on-ray" / "tasks").exists()


@pytest.mark.slow
def test_a_worker_of_ray_loads_once(project, ray_nodes):
    """Ray may end a process before it releases what it loaded."""
    (project.folder / "diary").mkdir()
    project.write_recipe(f"  - stagebox.loads: {{diary: '{project.folder}/diary'}}\n", pattern="in/00.jsonl")
    run = run_on_ray(project)
    for path in (project.folder / "diary").iterdir():
        words = path.read_text().split()[::2]
        assert words[0] == "load"
        assert set(words[1:]) in ({"use"}, {"use", "release"})
    assert project.parts(run) == project.parts(project.run())


@pytest.mark.slow
def test_no_more_tasks_are_with_ray_than_twice_the_cores(tmp_path, ray_nodes):
    """And as many as --workers says, if it is given."""
    executor = RayExecutor(Store(str(tmp_path)), None)
    node = {"NodeID": "a", "Alive": True, "Resources": {"CPU": 40.0, "memory": 5e9}}
    executor._update([node, {**node, "NodeID": "b"}, {**node, "Alive": False}])
    assert (executor.slots, executor._turns.slots) == (160, 160)
    executor._update([])
    assert executor.slots == ray_cluster.LEAST_SLOTS
    executor.close()
    few = RayExecutor(Store(str(tmp_path)), 3)
    few._update([node])
    assert few.slots == 3
    few.close()


# Mistakes of the user.


def typed(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["gristmill", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "[::1]:1", "nowhere.invalid:6379"])
def test_no_cluster_at_an_address_is_reported_at_once(monkeypatch, address):
    """Before Ray tries for minutes."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(UserError, match=r"Ray cluster at .* cannot be joined: .*Nothing was run.*ray start --head"):
        ray_connection.connect(None, address)


def test_an_address_of_another_kind_is_reported():
    with pytest.raises(UserError, match=r"this is not the address of a Ray cluster; write HOST:PORT"):
        ray_connection.connect(None, "http://127.0.0.1:8265")


@pytest.mark.parametrize(
    ("answer", "text_shown"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak gRPC"),
        (b"", "does not speak gRPC"),
        (bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), "what Ray says of it"),
    ],
)
def test_another_server_at_an_address_is_reported_at_once(monkeypatch, answer, text_shown):
    """One that speaks gRPC is left to Ray."""
    monkeypatch.delenv("RAY_USE_TLS", raising=False)

    def serve(listener):
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(33, socket.MSG_WAITALL).startswith(b"PRI * HTTP/2.0")
            connection.sendall(answer)

    def init(**_):
        raise ConnectionError("what Ray says of it")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        with pytest.raises(UserError, match=rf"cannot be joined: .*{text_shown}.* Nothing was run"):
            ray_connection.connect(fake_ray(init, None), f"127.0.0.1:{listener.getsockname()[1]}")
        server.join()


def test_a_silent_server_is_reported(monkeypatch):
    monkeypatch.setattr(ray_connection, "CONNECT_S", 0.1)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(UserError, match=r"sent nothing for .* Nothing was run"),
    ):
        ray_connection.connect(None, f"127.0.0.1:{listener.getsockname()[1]}")


def test_no_cluster_on_this_machine_is_reported(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    def init(address, **_):
        raise ConnectionError(f"Could not find {address}.")

    ray = fake_ray(init, None)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(UserError, match=r"Ray cluster of this machine cannot be joined: Could not find auto\. Nothing"):
        ray_connection.connect(ray, None)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_killed_cluster_is_reported_at_once(monkeypatch):
    """A file still has its address, and Ray would try it for minutes."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(UserError, match=r"Ray cluster of this machine cannot be joined: .*refused.* Nothing was run"):
        ray_connection.connect(fake_ray(None, "127.0.0.1:1"), None)


def fake_ray(init, known):
    utils = SimpleNamespace(read_ray_address=lambda: known)
    return SimpleNamespace(init=init, _private=SimpleNamespace(worker=SimpleNamespace(), utils=utils))


def test_an_address_without_its_executor_is_refused(project, monkeypatch, capsys):
    code, said = typed(monkeypatch, capsys, "run", str(project.recipe), "--address", "head:6379")
    assert code == 2
    assert "only applies to --executor ray" in said


def test_a_node_that_does_not_see_the_store_says_so(tmp_path, monkeypatch):
    """A folder of another machine, or one with the same path, is reported and not used."""
    monkeypatch.setattr(ray_host, "VISIBLE_S", 0.0)
    store = Store(str(tmp_path / "store"))
    probe = ray_cluster._leave_probe(store)
    ray_host._check_store(ray_host.About(store, probe, (), {}))
    ray_cluster._remove_probe(probe)
    for gone in (probe, "/nowhere/tmp/probe"):
        about = pickle.dumps(ray_host.About(store, gone, (), {}))
        answer = ray_host.perform(about, {}, pickle.dumps(TASK))
        assert isinstance(answer, UserError)
        assert "does not see the store" in str(answer)
    assert ray_cluster._leave_probe(Store("memory://x")) is None


def test_a_node_of_other_versions_does_nothing(tmp_path):
    """It would write other bytes under the same key."""
    versions = {"gristmill": "of sources 123", "numpy": "1.0", "nowhere-to-be-found": "2.0"}
    answer = ray_host.perform(b"", versions, b"")
    assert isinstance(answer, UserError)
    for text_shown in (
        "gristmill is of sources ",
        "numpy is ",
        "nowhere-to-be-found is missing there and 2.0 here",
        "Install the same",
    ):
        assert text_shown in str(answer)
    ray_host.compare(ray_cluster._versions(TASK))


def test_a_task_says_which_libraries_it_depends_on():
    """Those that are in its key."""
    from gristmill.engine.work.task import MapWork
    from gristmill.stages.extract import extract

    task = Task("", "", "", MapWork(extract.__name__, extract.Config(), (), (), (), {}))
    assert ray_cluster._versions(task).keys() == {"gristmill", *extract.libraries(extract.Config())}


def test_code_of_the_users_own_is_opened_by_the_worker_and_not_by_its_host():
    """The host passes a task on as it came."""
    opened = pickle.loads(pickle.dumps(ray_host._packed(pickle.dumps(TASK))))
    assert opened == TASK
    assert type(opened) is Task
    broken = ray_host._packed(b"cnowhere_to_be_found\nthing\n.")
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(pickle.dumps(broken))
