"""A command that reads records needs no table and no kernel, so it imports no library for them."""

import json
import subprocess
import sys

from gristmill.cli.main import COMMANDS, FOLDERS

HEAVY = ("pydantic", "numba", "numpy", "pyarrow", "duckdb", "torch", "ray", "yaml", "fsspec")
READ_MORE = frozenset(
    [
        "steps",
        "plan",
        "report",
        "disclose",
        "run",
        "inspect",
        "lineage",
        "audit",
        "clusters",
        "whatif",
        "diff",
        "canaries",
        "watch",
        "sql",
        "takedown",
        "suite",
        "quality",
        "export",
        "tokenizer",
        "shards",
        "sample",
        "budget",
        "verify",
        "gc",
    ]
)
"""Commands that read documents, load recipes or run stages; every other command, even a new one, reads records."""
NOTES = """
recipe: few
store: ./store
sources: {lines: {kind: text, read: {format: jsonl, paths: [a.jsonl]}}}
steps: [stagebox.length]
"""


def imported_by(*lines: str, apart_from: str = "") -> list[str]:
    """The heavy libraries that a new process has imported after these lines."""
    heavy = [name for name in HEAVY if name != apart_from]
    code = "\n".join(["import sys", *lines, f"sys.exit(repr([name for name in {heavy} if name in sys.modules]))"])
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return list(json.loads(ended.stderr.splitlines()[-1].replace("'", '"')))


def test_a_command_that_reads_records_is_imported_without_heavy_libraries():
    """This holds for every command that is not known to read more."""
    assert set(COMMANDS) > READ_MORE
    assert (
        imported_by(
            *(
                f"import gristmill.cli.{folder}.{name}"
                for folder, names in FOLDERS.items()
                for name in names.split()
                if name not in READ_MORE
            )
        )
        == []
    )


def test_reading_the_record_of_a_run_imports_no_heavy_library(project):
    """The run is opened by its name in the store, and the answer is printed completely."""
    (project.folder / "a.jsonl").write_text('{"text": "a mill grinds"}\n{"text": ""}\n')
    project.recipe.write_text(NOTES)
    project.run()
    store = f"{project.folder}/store"
    runs = [f"{command} {store}@few".split() for command in ("status", "funnel", "versions show", "status --json")]
    commands = [f"sys.argv[1:] = {words}; assert run_command() == 0" for words in [*runs, ["versions", store]]]
    line = "from gristmill.cli.main import run_command"
    assert imported_by(line, *commands, apart_from="pydantic") == []  # it checks the options


def test_a_report_needs_no_kernel(project):
    """It reads what was measured, and Numba takes a fifth of its time to load."""
    (project.folder / "a.jsonl").write_text('{"text": "a mill grinds"}\n{"text": "it rains"}\n')
    project.recipe.write_text(NOTES.replace("stagebox.length", "signals"))
    project.run()
    words = ["report", f"{project.folder}/store@few", "--out", str(project.folder / "report.html")]
    report = ["import gristmill.report.corpus.report as report", "report.render = lambda *args, **values: str(values)"]
    command = ["from gristmill.cli.main import run_command", f"sys.argv[1:] = {words}; assert run_command() == 0"]
    assert "numba" not in imported_by(*report, *command)
    assert "Signals and scores" in (project.folder / "report.html").read_text()
