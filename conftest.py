"""A small project in a temporary folder: inputs, a recipe with stages of every kind, a store."""

import gc
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.cpu_seconds import begin_early, mark_slow, needs_ray

from first_failure import pytest_configure as pytest_configure
from gristmill import stages
from gristmill.cli.corpus import verify
from gristmill.engine import mill
from gristmill.engine.executors.executor import Executor, InlineExecutor
from gristmill.engine.mill import Mill, Silent
from gristmill.engine.schedule.run import Run
from gristmill.recipe.load import load
from gristmill.stages import own_code
from gristmill.store.store import Store
from slurm_cluster import Cluster, missing

# No test depends on time: on a busy machine an example may take any time. `make test-fast` runs fewer examples.
settings.register_profile("gristmill", deadline=None, max_examples=int(os.environ.get("EXAMPLES", "100")))
settings.load_profile("gristmill")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a job that a shell started in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.pop("COLUMNS", None)  # the test decides the width of tables, not the terminal
# Hundreds of processes would each compile all modules again, as images of containers often ask for.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

ROOT = Path(__file__).parent
WORDS = ["mill", "grain", "stone", "water", "wheel", "flour", "sack", "hopper", "sieve", "dam", "race", "gear"]

STEPS = """
  - stagebox.length
  - stagebox.longer_than: {chars: 12}
  - stagebox.upper: {min_chars: 20}
  - stagebox.exact
  - stagebox.two_rounds
  - stagebox.vocabulary
  - stagebox.rarity
  - stagebox.weigh
  - stagebox.bundle
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_slow(items)
    if "EXAMPLES" in os.environ:
        run_few_examples(items, int(os.environ["EXAMPLES"]))
    begin_early(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def run_few_examples(items: list[Any], most: int) -> None:
    """Also limit the tests that name a number of examples of their own, which a profile does not change."""
    for test in {item.obj for item in items if item.get_closest_marker("hypothesis")}:
        own = test._hypothesis_internal_use_settings
        test._hypothesis_internal_use_settings = settings(own, max_examples=min(own.max_examples, most))


gc.disable()  # until all tests are collected, since nothing that is created before then is freed


def pytest_collection_finish() -> None:
    gc.freeze()  # full collections during tests skip the modules and the nine thousand tests
    gc.enable()


class Project:
    """A folder with a recipe that tests can change and run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recipe = folder / "recipe.yaml"
        self.notes: list[str] = []
        self.store = folder / "store"

    def write_inputs(self, files: int = 4, records: int | None = None, seed: int = 7) -> None:
        """Write files with the given number of records each; by default the first has two parts, the others one."""
        draw = random.Random(seed)
        (self.folder / "in").mkdir(exist_ok=True)
        for number in range(files):
            size = records if records is not None else 70 if number else 200
            lines = [json.dumps({"text": " ".join(draw.choices(WORDS[:5], k=draw.randint(1, 7)))}) for _ in range(size)]
            (self.folder / "in" / f"{number:02}.jsonl").write_text("\n".join([*lines, "{broken", ""]))

    def write_recipe(self, steps: str = STEPS, read: str = "", top: str = "", pattern: str = "in/*.jsonl") -> None:
        self.recipe.write_text(
            f"recipe: project\nseed: 3\nstore: ./store\n{top}\n"
            f"sources:\n  notes: {{kind: text, read: {{format: jsonl, paths: ['{pattern}'], part_bytes: 4KB{read}}}}}\n"
            f"steps:\n{steps.strip(chr(10))}\n"
        )

    def mill(self, until: str | None = None, store: str | None = None) -> Mill:
        return Mill(load(self.recipe, store=store), until)

    def run(self, workers: int | None = None, until: str | None = None, store: str | None = None) -> Run:
        """Run the recipe in this process, unless a test needs workers, which take a second to start."""
        listener = Silent()
        self.notes = listener.notes
        corpus = self.mill(until, store)
        if workers is None:
            corpus.executor = lambda *_: InlineExecutor(corpus.store)  # type: ignore[method-assign]
        return corpus.run(workers, listener)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A run in a separate process, as a user would start it."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "gristmill", "run", str(self.recipe), *arguments]
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def dry_run(self) -> Run:
        return self.mill().dry_run()

    def executed(self, run: Run) -> dict[str, int]:
        return {node_id: len(state.executed) for node_id, state in run.states.items() if state.executed}

    def parts(self, run: Run) -> dict[str, list[str]]:
        """The hashes of all parts of a run, by node and in order."""
        return {
            node_id: [part.hash for _, (part, _) in sorted(state.layers.items())]
            for node_id, state in run.states.items()
        }

    def datasets(self) -> Any:
        record = self.mill().last_run()
        assert record is not None
        return {node_id: node["datasets"] for node_id, node in record["nodes"].items()}


@pytest.fixture(scope="module")
def in_this_process() -> Iterator[None]:
    """Commands in a test start no workers unless it gives a number: they take a second to start."""

    def make_executor(store: Store, workers: int | None, *more: Any, **named: Any) -> Executor:
        inline = workers is None and named.get("name") != "ray"
        return InlineExecutor(store) if inline else with_workers(store, workers, *more, **named)

    with_workers = mill.make_executor
    with pytest.MonkeyPatch.context() as patch:
        for module in (mill, verify):
            patch.setattr(module, "make_executor", make_executor)
        yield


@pytest.fixture
def project(tmp_path: Path) -> Project:
    small = Project(tmp_path)
    small.write_inputs(records=80)
    small.write_inputs(files=1)  # the first file is cut into two parts
    small.write_recipe()
    return small


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes with one CPU each, for all tests of this process."""
    why = missing()
    if why is not None:
        pytest.skip(why)
    cluster = Cluster(tmp_path_factory.mktemp("slurm")).start()
    yield cluster
    cluster.stop()


@pytest.fixture
def slurm(slurm_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster with an empty queue. Jobs find the test modules, and leave logs in the test's folder."""
    slurm_cluster.clear()
    monkeypatch.setenv("SLURM_CONF", str(slurm_cluster.conf))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.chdir(tmp_path)
    return slurm_cluster


@pytest.fixture
def lines_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes may read the format `lines`."""
    monkeypatch.setitem(stages.READERS, "lines", "stagebox.lines")


@pytest.fixture
def edit() -> Callable[[Path, str, str], None]:
    """Replace a text in a file, and fail if it is not there."""

    def change(path: Path, old: str, new: str) -> None:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


@pytest.fixture
def forgotten() -> Iterator[None]:
    """User modules that a test loads are removed before the next test."""
    yield
    own_code.forget(own_code._FINDER.code)
    own_code._FINDER.code.clear()


class RayNodes:
    """A Ray cluster on this machine: a head that runs no tasks, and nodes with one core that tests may kill."""

    running: "RayNodes | None" = None
    """All tests share one cluster, since it takes half a minute to start."""

    def __init__(self) -> None:
        import ray
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "object_store_memory": 80 << 20, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address: str = self.cluster.address
        RayNodes.running = self
        ray.init(self.address, log_to_driver=False, logging_level="CRITICAL")

    @classmethod
    def end(cls) -> None:
        """Stop the cluster if it runs."""
        if cls.running:
            import ray

            ray.shutdown()
            cls.running.cluster.shutdown()
            cls.running = None

    def restore(self) -> None:
        """Start nodes until there are two."""
        while len(self.cluster.worker_nodes) < 2:
            self.cluster.add_node(num_cpus=1, memory=3 << 30, object_store_memory=80 << 20)

    def lose_node_of(self, pid: int) -> None:
        """Kill the node that runs a process."""
        raylets = {node.all_processes["raylet"][0].process.pid: node for node in self.cluster.worker_nodes}
        while pid not in raylets:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        self.cluster.remove_node(raylets[pid], allow_graceful=False)


@pytest.fixture
def ray_nodes(request: pytest.FixtureRequest) -> RayNodes:
    """Two nodes, to which this process is connected."""
    assert needs_ray(request.node), "a test that requests the cluster while it runs has the marker `ray`"
    pytest.importorskip("ray", reason="Ray is not installed: pip install ./packages/ray")
    nodes = RayNodes.running or RayNodes()
    nodes.restore()
    return nodes


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """The cluster ends after its last test: its processes would take a share of the machine until the session ends."""
    if nextitem is None or not needs_ray(nextitem):
        RayNodes.end()


def pytest_sessionfinish() -> None:
    RayNodes.end()  # the session was stopped between tests on the cluster
