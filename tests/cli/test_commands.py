"""The commands as a user runs them: their output and their exit codes."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Project

import gristmill as gristmill_package
from gristmill.cli.main import main
from gristmill.cli.run.steps import reflowed
from gristmill.recipe.stage_module import known_steps
from gristmill.store.leases import DEAD_SECONDS, hold

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "run",
    "plan",
    "status",
    "inspect",
    "clusters",
    "whatif",
    "sample",
    "budget",
    "verify",
    "gc",
    "init",
    "steps",
)


def gristmill(*arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "gristmill", *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def run_command(monkeypatch, capfd):
    """Run a command without a new process and without workers, which saves seconds per call."""
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gristmill", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capfd.readouterr()
        return SimpleNamespace(returncode=ended.value.code or 0, stdout=output.out, stderr=output.err)

    return run


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """Return a project that ran in its own process with workers, as a user runs it, and the JSON summary of the run."""
    project = Project(tmp_path_factory.mktemp("ran"))
    project.write_inputs()
    project.write_recipe("  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n")
    done = gristmill("run", project.recipe, "--json")
    assert done.returncode == 0, done.stderr
    return project, json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def ran(first_run, tmp_path):
    """Return a copy of that project, which a test may change."""
    project, summary = first_run
    shutil.copytree(project.folder, tmp_path / "ran")
    return Project(tmp_path / "ran"), summary


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(command, run_command):
    """`--help` shows an example and mentions --json."""
    shown = run_command(command, "--help").stdout
    assert "--json" in shown
    assert f"Example: gristmill {command}" in " ".join(shown.split())


def test_the_version_has_one_source(run_command):
    """The option, the import and the package metadata all read it from the same line."""
    assert run_command("--version").stdout == f"gristmill {gristmill_package.__version__}\n"
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "gristmill.__version__"}


@pytest.mark.parametrize(
    ("arguments", "left_out"),
    [
        (["--version"], ("numba", "pyarrow", "pydantic")),
        (["status", "no.yaml"], ("gristmill.stages.decontaminate.matching.index",)),
    ],
)
def test_a_command_imports_only_what_it_needs(arguments, left_out):
    """Unneeded imports would be most of the second that a command takes to start."""
    code = (
        "import sys; from gristmill.cli import main; sys.argv[1:] = sys.argv[2:]; main.run_command(); "
        "print([name for name in sys.argv[0].split() if name in sys.modules])"
    )
    command = [sys.executable, "-c", f"import sys; sys.argv[0] = {' '.join(left_out)!r}; {code}", "-", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_package_runs_as_a_module():
    """`python -m gristmill` is the same as `gristmill`."""
    done = subprocess.run([sys.executable, "-m", "gristmill", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gristmill ")


def test_steps_lists_all_and_shows_one(run_command):
    """`steps` lists every step, shows the settings of one step, suggests the nearest name for a typo, and accepts
    custom steps.
    """
    listed = run_command("steps").stdout
    assert all(re.search(f"^{name} ", listed, re.M) for name in known_steps())
    shown = run_command("steps", "near_dedup").stdout
    assert "verify_jaccard" in shown
    assert "0.8" in shown
    result = json.loads(run_command("steps", "heuristics", "--json").stdout)
    names = {setting["name"]: setting for setting in result["settings"]}
    assert names["gopher_quality.min_words"]["default"] == "50"
    assert "gopher_quality.by_language.min_words" not in names  # it would repeat the settings above
    wrong = run_command("steps", "near_dedpu")
    assert wrong.returncode == 2
    assert "Did you mean near_dedup?" in wrong.stderr
    assert "chars" in run_command("steps", "stagebox.longer_than").stdout
    assert "It is a setting of read: gristmill steps read." in run_command("steps", "limit").stderr


def test_a_docstring_is_reflowed():
    """Line breaks within a paragraph are joined; list items start new lines, and code is unchanged."""
    text = "One sentence\nover two lines.\n\n- an item\n  of two\n- another\n\n    a: 1\n    b: 2\nBehind\nit."
    shown = "One sentence over two lines.\n\n- an item of two\n- another\n\n    a: 1\n    b: 2\nBehind it."
    assert reflowed(text) == shown


@pytest.mark.parametrize(
    "command",
    [
        *("status", "funnel", "inspect", "clusters", "sample", "verify", "gc", "suite touched"),
        *("shards verify", "shards find", "tokenizer show", "tokenizer audit"),
    ],
)
def test_every_read_only_command_accepts_a_stored_run(command, run_command):
    """STORE@NAME works without the recipe's files and inputs."""
    assert "STORE@NAME" in run_command(*command.split(), "--help").stdout


def test_run_json_ends_with_one_object(ran):
    """It has the recipe, version, stages with executed and cached tasks, rows, bytes and dataset hashes."""
    project, summary = ran
    assert summary["recipe"] == "project"
    assert len(summary["version"]) == 12
    stages = {stage["stage"]: stage for stage in summary["stages"]}
    assert stages["notes/ingest"]["executed"] > 0
    assert stages["notes/ingest"]["cached"] == 0
    assert stages["all/longer_than"]["dropped"]["not_longer"] > 0
    for stage in summary["stages"]:
        for name in stage["datasets"].values():
            manifest = json.loads((project.store / "datasets" / f"{name}.json").read_text())["body"]
            assert manifest["rows"] == stage["rows"]
            for part in manifest["parts"]:
                assert (project.store / "parts" / part["hash"][:2] / f"{part['hash']}.parquet").exists()


def test_a_second_run_has_the_same_version_and_runs_nothing(ran, run_command):
    """The version identifies the output, not the time of the run."""
    project, first = ran
    again = json.loads(run_command("run", project.recipe, "--json").stdout.splitlines()[-1])
    assert again["version"] == first["version"]
    assert sum(stage["executed"] for stage in again["stages"]) == 0


def test_a_verbose_run_shows_the_funnel(ran, run_command):
    """It shows what came in, what each step removed and what is kept."""
    project, summary = ran
    shown = run_command("run", project.recipe, "--verbose").stdout
    assert "not_longer" in shown
    assert "invalid_json" in shown
    assert f"{summary['rows']:,}" in shown
    assert summary["version"] in shown


def test_status_shows_tasks_rows_speed_and_memory(ran, run_command):
    """There is one line per stage."""
    project, _ = ran
    result = json.loads(run_command("status", project.recipe, "--json").stdout)
    for stage in result["stages"]:
        assert stage["tasks_done"] > 0
        assert stage["tasks_open"] == 0
        assert stage["rows"] == 414
        assert stage["peak_rss_bytes"] > 10_000_000
    assert "peak memory" in run_command("status", project.recipe).stdout


def test_inspect_shows_documents_and_verdicts(ran, run_command):
    """Dropped documents are shown with their reason and step, for the named step or for any."""
    project, _ = ran
    command = ("inspect", project.recipe, "--stage", "longer_than", "--dropped", "-n", "1000", "--json")
    entries = [json.loads(line) for line in run_command(*command).stdout.splitlines()]
    reasons = {entry["verdict"]["reason"] for entry in entries}
    assert reasons == {"not_longer"}
    assert all(len(entry["text"]) <= 12 for entry in entries if entry["verdict"]["reason"] == "not_longer")
    shown = run_command("inspect", project.recipe, "--reason", "invalid_json", "-n", "2").stdout
    assert shown.count("invalid_json by ingest") == 2
    kept = run_command("inspect", project.recipe, "--kept", "-n", "3", "--json").stdout.splitlines()
    assert [json.loads(line)["verdict"]["reason"] for line in kept] == [None] * 3


def test_inspect_of_an_unknown_reason_lists_the_known_ones(ran, run_command):
    """A typo in --reason does not look like an empty result."""
    project, _ = ran
    done = run_command("inspect", project.recipe, "--reason", "not_lnger")
    assert done.returncode == 2
    assert "Did you mean not_longer? Reasons here: invalid_json, not_longer." in done.stderr


def test_whatif_equals_a_run_with_the_changed_recipe(ran, edit, run_command):
    """The answer from stored columns equals a run of the changed recipe; whatif stores nothing."""
    project, first = ran
    tasks = len(list(project.store.glob("tasks/*")))
    for chars in (5, 30):
        result = json.loads(run_command("whatif", project.recipe, f"longer_than.chars={chars}", "--json").stdout)
        edit(project.recipe, "chars: 12", f"chars: {chars}")
        ran_again = run_command("run", project.recipe, "--json", "--store", project.folder / f"store{chars}")
        after = json.loads(ran_again.stdout.splitlines()[-1])
        edit(project.recipe, f"chars: {chars}", "chars: 12")
        assert result["corpus"] == first["rows"]
        assert result["corpus"] + result["come"]["documents"] - result["go"]["documents"] == after["rows"]
        assert result["come"]["bytes"] - result["go"]["bytes"] == after["bytes"] - first["bytes"]
        assert (result["come"]["documents"] > 0) == (chars == 5)
        assert (result["go"]["documents"] > 0) == (chars == 30)
        assert all(len(sample["text"]) > 5 for sample in result["come"]["samples"])
    assert len(list(project.store.glob("tasks/*"))) == tasks
    assert "would be added" in run_command("whatif", project.recipe, "longer_than.chars=5").stdout


def test_verify_finds_damage_and_repairs_it(ran, run_command):
    """A damaged part gives exit code 1; --repair recomputes it."""
    project, _ = ran
    path = sorted(project.store.glob("parts/*/*.parquet"))[0]
    content, stat = path.read_bytes(), path.stat()
    assert run_command("verify", project.recipe).returncode == 0
    path.chmod(0o644)
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    done = run_command("verify", project.recipe, "--json")
    assert done.returncode == 1
    assert [broken["part"] for broken in json.loads(done.stdout)["broken"]] == [path.stem]
    assert run_command("verify", project.recipe, "--repair").returncode == 0
    assert path.read_bytes() == content


def test_a_damaged_task_record_is_named_and_its_tasks_are_counted_as_unchecked(ran, run_command):
    """A fully cached run opens no task record; `verify` opens all of them, and --repair repeats the task."""
    project, _ = ran
    paths = sorted(project.store.glob("tasks/*.json"))
    content = paths[0].read_bytes()
    paths[0].write_bytes(content[:99] + bytes([content[99] ^ 1]) + content[100:])
    assert run_command("run", project.recipe).returncode == 0
    done = run_command("verify", project.recipe, "--recompute", "100%", "--json")
    result = json.loads(done.stdout)
    assert (done.returncode, list(result["damaged"])) == (1, [f"tasks/{paths[0].name}"])
    assert result["unchecked"]
    assert result["recomputed"] + len(result["unchecked"]) == len(paths)
    shown = run_command("verify", project.recipe)
    assert (shown.returncode, f"tasks/{paths[0].name} is damaged" in shown.stdout) == (1, True)
    repaired = run_command("verify", project.recipe, "--repair", "--recompute", "100%", "--json")
    result = json.loads(repaired.stdout)
    assert (repaired.returncode, result["damaged"], result["recomputed"]) == (0, {}, len(paths))
    assert "It was not used" in repaired.stderr


def test_verify_recompute_runs_tasks_again_and_compares(ran, run_command):
    """A pure stage gives the same output; a record that names other bytes is found."""
    project, _ = ran
    honest = json.loads(run_command("verify", project.recipe, "--recompute", "100%", "--json").stdout)
    tasks = len(list(project.store.glob("tasks/*.json")))
    assert (honest["recomputed"], honest["different"]) == (tasks, [])
    store = project.mill().store
    records = {
        f"tasks/{path.name}": json.loads(path.read_text())["body"] for path in project.store.glob("tasks/*.json")
    }
    forged = [name for name, record in records.items() if record["node"] == "all/length"][:2]
    one, other = (records[name] for name in forged)
    store.write_json(forged[0], {**one, "parts": other["parts"]})
    dishonest = run_command("verify", project.recipe, "--recompute", "1.0", "--json")
    assert dishonest.returncode == 1
    assert json.loads(dishonest.stdout)["different"]


def test_gc_removes_only_unreferenced_files(ran, edit, run_command):
    """After a change, the old output is garbage once the new run has finished, unless a version keeps it."""
    project, first = ran
    assert json.loads(run_command("gc", project.recipe, "--dry-run", "--json").stdout)["files"] == {}
    assert run_command("run", project.recipe, "--tag", "first").returncode == 0
    edit(project.recipe, "chars: 12", "chars: 14")
    run_command("run", project.recipe)
    assert json.loads(run_command("gc", project.recipe, "--json").stdout)["files"] == {}
    (project.store / "versions" / "first.json").unlink()
    dry = json.loads(run_command("gc", project.recipe, "--dry-run", "--json").stdout)
    assert dry["files"]
    assert all((project.store / path).exists() for path in dry["files"])
    wet = json.loads(run_command("gc", project.recipe, "--json").stdout)
    assert wet["files"] == dry["files"]
    assert not any((project.store / path).exists() for path in wet["files"])
    again = json.loads(run_command("run", project.recipe, "--json").stdout.splitlines()[-1])
    assert sum(stage["executed"] for stage in again["stages"]) == 0
    assert run_command("verify", project.recipe).returncode == 0
    assert first["version"] != again["version"]


def test_gc_refuses_while_a_run_is_active(ran, run_command):
    """An active run may need files that no record names yet."""
    project, _ = ran
    (project.store / "parts" / "00").mkdir(exist_ok=True)
    (project.store / "parts" / "00" / ("00" * 32 + ".parquet")).write_bytes(b"stray")
    with hold(project.mill().store, "run", "project"):
        done = run_command("gc", project.recipe)
    assert done.returncode == 2
    assert "in use by" in done.stderr
    assert f"are ignored after {DEAD_SECONDS:.0f} seconds" in " ".join(done.stderr.split())
    assert run_command("gc", project.recipe).returncode == 0
    assert not (project.store / "parts" / "00" / ("00" * 32 + ".parquet")).exists()


def test_init_does_not_overwrite_a_recipe(tmp_path, run_command, monkeypatch):
    """An existing file is unchanged."""
    monkeypatch.chdir(tmp_path)
    assert run_command("init").returncode == 0
    text = (tmp_path / "recipe.yaml").read_text()
    assert "sources:" in text
    again = run_command("init")
    assert again.returncode == 2
    assert "exists and was not changed" in again.stderr
    assert (tmp_path / "recipe.yaml").read_text() == text


def test_the_commands_in_a_new_recipe_use_its_file_name(tmp_path, run_command, monkeypatch):
    """They can be copied as printed, and a file name cannot end the comment that contains it."""
    monkeypatch.chdir(tmp_path)
    assert run_command("init", "my new.yaml").returncode == 0
    text = (tmp_path / "my new.yaml").read_text()
    assert "gristmill run 'my new.yaml' --sample 1%" in text
    assert "recipe.yaml" not in text
    assert run_command("init", "a\nseed: 5.yaml").returncode == 0
    assert "\nseed: 5" not in (tmp_path / "a\nseed: 5.yaml").read_text()


MISTAKES = [
    (("run", "nowhere.yaml"), "nowhere.yaml"),
    (("run", "RECIPE", "--until", "lenght"), "Did you mean length?"),
    (("run", "RECIPE", "--executor", "cloud"), "Executors: local"),
    (("run", "RECIPE", "--store", "/proc/nothing/here"), "cannot be written"),
    (("run", "RECIPE", "--store", "/dev/null/store"), "cannot be read"),
    (("run", "RECIPE", "--workers", "0"), "--workers"),
    (("run", "RECIPE", "--tag", "a/b"), "cannot be a name"),
    (("inspect", "RECIPE", "--stage", "lenght"), "Did you mean length?"),
    (("inspect", "RECIPE", "--dropped", "--kept"), "exclude each other"),
    (("inspect", "RECIPE", "--source", "note"), "Sources: notes"),
    (("verify", "RECIPE", "--recompute", "half"), "is not a share"),
    (("whatif", "RECIPE", "length.chars"), "is not a change"),
    (("whatif", "RECIPE", "lenght.chars=3"), "Did you mean length.chars?"),
    (("whatif", "RECIPE", "length.chars=3"), "length.chars is not a field"),
    (("frobnicate",), "frobnicate"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_one_message_and_exit_code_2(project, arguments, message, run_command):
    """There is no traceback and nothing on stdout; the message has the fix."""
    project.write_recipe("  - stagebox.length\n")
    done = run_command(*(project.recipe if word == "RECIPE" else word for word in arguments))
    assert done.returncode == 2, done
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_a_bug_in_a_custom_step_is_one_message(project):
    """The message quotes the line of the user's code, without a traceback through ours."""
    project.write_recipe("  - stagebox.broken\n")
    done = gristmill("run", project.recipe)
    assert done.returncode == 2
    assert "ZeroDivisionError" in done.stderr
    assert "stagebox/broken.py:15 in apply: return batch.num_rows / 0" in done.stderr
    assert "Traceback" not in done.stderr


def test_strict_turns_a_warning_into_exit_code_2(project, run_command):
    """Law 7: strict mode turns warnings into errors."""
    project.write_recipe("  - stagebox.upper: {min_chars: 100000}\n", top="strict: true")
    done = run_command("run", project.recipe)
    assert done.returncode == 2
    assert "no document survived" in done.stderr
