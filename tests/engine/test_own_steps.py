"""A user's own steps: found next to the recipe, keyed by their code, run as hashed, blamed for their faults."""

import re
from dataclasses import replace

import pytest

from gristmill.engine.executors import local
from gristmill.engine.mill import Silent, find_warnings
from gristmill.errors import UserError
from gristmill.query.sizing.plan import make_plan
from gristmill.stages.dedup import exact_dedup
from gristmill.store.parquet import PartReader

pytestmark = pytest.mark.usefixtures("forgotten")

HEAD = """
import pyarrow as pa
from gristmill.stages.contract import Fit, Map, Reader, StageConfig
class Config(StageConfig): pass
SCHEMA = pa.schema([("text", pa.string())])
"""
TAIL = 'STAGE = Map(config=Config, reads=("text",), schema=SCHEMA, apply=apply)\n'


@pytest.fixture
def own(project):
    """A small project, and a way to write modules next to its recipe."""
    project.write_inputs(files=1, records=20)

    def write(steps, **modules):
        for name, text in modules.items():
            (project.folder / f"{name}.py").write_text(text)
        project.write_recipe(steps, pattern="in/00.jsonl")
        return project

    return write


def said(project, workers=None):
    with pytest.raises(UserError) as raised:
        project.run(workers)
    return str(raised.value)


def test_a_module_and_a_function_next_to_the_recipe_are_steps(own):
    """Without setting a path; a package of modules works as well."""
    project = own(
        "  - loud\n  - words.long_enough: {min_chars: 20}\n  - more.words.short_enough\n",
        loud=HEAD + "import pyarrow.compute as pc\n"
        "def apply(batch, config): return pa.RecordBatch.from_arrays([pc.utf8_upper(batch['text'])], schema=SCHEMA)\n"
        + TAIL,
        words="def long_enough(text, min_chars=3): return len(text) >= min_chars\n",
    )
    (project.folder / "more").mkdir()
    (project.folder / "more" / "words.py").write_text("def short_enough(text): return text.isupper()\n")
    run = project.run()
    assert run.states["all/long_enough"].metrics["dropped"]["not_long_enough"] > 0
    assert run.states["all/short_enough"].metrics["dropped"] == {}


def test_an_edited_module_runs_its_step_again_and_no_other(own):
    """Also a module that the step only imports; `plan` names the file, and what a step took that is slow."""
    project = own(
        "  - stagebox.length\n  - words.long_enough\n  - words.fine\n  - lone.fine\n",
        words="import time\nimport limits\ndef long_enough(text): return len(text) >= limits.LEAST\n"
        "def fine(text): return time.sleep(0.15) is None\n",
        limits="LEAST = 12\n",
        lone="def fine(text): return True\n",
    )
    project.run()
    assert project.executed(project.run()) == {}
    (project.folder / "limits.py").write_text("LEAST = 13\n")
    mill = project.mill()
    why = {stage.id: stage.why for stage in make_plan(mill, mill.dry_run())}
    assert why["all/long_enough"] == ("limits.py changed",)
    changed, bill = why["all/fine"]
    assert changed == "limits.py changed"
    assert re.fullmatch(r"took [\d.]+ s for 21 documents \([\d.]+ s each\); will run again for 21", bill)
    executed = project.executed(project.run())
    assert "all/length" not in executed
    assert {"all/long_enough", "all/fine"} <= set(executed)


def test_a_comment_runs_nothing_again(own):
    """And neither does a docstring of a module that the step imports."""
    words = "import limits\ndef long_enough(text): return len(text) >= limits.LEAST\n"
    project = own("  - words.long_enough\n", words=words, limits="LEAST = 12\n")
    project.run()
    (project.folder / "words.py").write_text(f"# Of words.\n\n{words}")
    (project.folder / "limits.py").write_text('"""Limits."""\nLEAST = 12  # characters\n')
    assert project.executed(project.run()) == {}


def test_a_pinned_step_runs_again_for_another_version_only(own):
    """`plan` says that its code changed, until the next run."""
    module = HEAD + "def apply(batch, config): return batch\n" + TAIL.replace("Map(", "Map(version=3, ")
    project = own("  - mine\n", mine=module)

    def planned():
        mill = project.mill()
        [line] = [line for line in make_plan(mill, mill.dry_run()) if line.id == "all/mine"]
        return line.why, line.explained

    project.run()
    assert planned() == ((), ())
    (project.folder / "mine.py").write_text(module.replace("return batch", "return batch.slice(0)"))
    assert planned() == ((), ("mine.py changed, but it pins version=3: raise it if results change",))
    assert project.executed(project.run()) == {}
    assert planned() == ((), ())
    more = '("text", pa.string()), ("n", pa.int32())'
    (project.folder / "mine.py").write_text(module.replace('("text", pa.string())', more))
    assert planned()[0] == ("column n: nothing -> int32",)
    (project.folder / "mine.py").write_text(module.replace("version=3", "version=4"))
    assert planned()[0][0] == "VERSION: 3 -> 4"
    assert project.executed(project.run())["all/mine"] == 1


def test_a_module_elsewhere_counts_by_content_too(own, tmp_path, monkeypatch):
    """A module on PYTHONPATH is not a library."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "farther.py").write_text("def fine(text): return True\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    project = own("  - farther.fine\n")
    before = project.mill().graph.nodes["all/fine"].identity
    (tmp_path / "lib" / "farther.py").write_text("def fine(text): return bool(text)\n")
    assert before["code"] != project.mill().graph.nodes["all/fine"].identity["code"]
    assert set(before["code"]) == {"farther.py"}


def test_steps_of_gristmill_have_no_code_in_their_key(own):
    """They have their VERSION."""
    nodes = own("  - exact_dedup\n").mill().graph.nodes
    assert all("code" not in node.identity for node in nodes.values())


def test_an_unknown_step_names_the_nearest_modules_that_are_steps(own):
    """At most five, and no module without functions of a step."""
    step = HEAD + "def apply(batch, config): return batch\n" + TAIL
    modules = {f"step_{letter}": step for letter in "abcdefg"}
    project = own("  - zzz\n", **modules, helper="def once(x): return x\n", settings="SIZE = 3\n")
    with pytest.raises(UserError) as refused:
        project.mill()
    text_shown = str(refused.value)
    assert sum(name in text_shown for name in modules) == 5
    assert "helper" not in text_shown
    assert "settings" not in text_shown


MISTAKES = {
    "misspelt module": ("  - wrods\n", ["wrods is not a step. Did you mean words?"]),
    "misspelt function": ("  - words.long_enuogh\n", ["no function long_enuogh", "Did you mean words.long_enough?"]),
    "misspelt setting": (
        "  - words.long_enough: {min_cahrs: 2}\n",
        ["min_cahrs is not a field. Did you mean min_chars?"],
    ),
    "misspelt column": ("  - words.wrong_column\n", ["reads the column txet", "Did you mean text?"]),
    "a module of functions": (
        "  - words\n",
        ["words is not a step", "To use one of its functions as a step", "words.lines"],
    ),
    "no Python": ("  - syntax\n", ["syntax.py:1 is not valid Python", "def f(:"]),
    "raises": ("  - raises.f\n", ["raises.f cannot be imported: ZeroDivisionError", "raises.py:2 in <module>: 1 / 0"]),
    "exits": ("  - exits.f\n", ["exits.f cannot be imported: SystemExit: 4", "exits.py:2"]),
    "wants a library": ("  - wants.f\n", ["there is no module no_such_library", "Install no_such_library"]),
    "the name of ours": ("  - gate\n", ["gate is a step of Gristmill, but gate.py next to", "Rename gate.py"]),
    "the short name of ours": ("  - words.lines\n", ["lines, which is the name of a step of Gristmill", "my_lines"]),
    "documents' own name": ("  - ingest\n", ["ingest, which is the name"]),
    "large text": (
        "  - large\n",
        ["declares the column text as large_string, but every document", ".cast(pa.string())"],
    ),
    "what cannot be stored": ("  - odd\n", ["declares the column n as month_day_nano_interval", "cannot store"]),
    "columns that SQL takes for one": (
        "  - cases\n",
        ["its schema has score, which is Score to SQL", "has Source, which is source to SQL"],
    ),
    "what is no schema": ("  - listed\n", ["its schema is of type list, not a pyarrow.Schema"]),
    "library not there": ("  - library\n", ["declares the library 'no_such_library', which is not installed"]),
    "reads raises": ("  - reads\n", ["KeyError: 'x', in your own code", "reads.py"]),
}


@pytest.mark.parametrize("step", ["syntax", "raises.f", "words", "wants.f"])
def test_a_fault_of_a_module_is_reported_once(step, own):
    """Not for each step that uses it: it is fixed in one place. A name that is wrong twice is reported twice."""
    code = {
        "syntax": "def f(:\n",
        "raises": "1 / 0\n",
        "words": "def g(text): return True\n",
        "wants": "import no_such_library\n",
        "other": f"import {step.split('.')[0]}\n",
    }
    uses = [step, step, *(("other",) if step != "words" else ())]
    with pytest.raises(UserError) as text_shown:
        own("".join(f"  - {name}\n" for name in uses), **code).mill()
    assert len(str(text_shown.value).splitlines()) == 1
    with pytest.raises(UserError) as text_shown:
        own("  - sytnax\n  - sytnax\n", **code).mill()
    assert len(str(text_shown.value).splitlines()) == 2


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_reported_with_the_recipes_line_before_any_work(case, own):
    """One message each."""
    steps, telling = MISTAKES[case]
    apply = f"def apply(batch, config): return batch\n{TAIL}"
    project = own(
        steps,
        words="def long_enough(text, min_chars=1): return True\ndef wrong_column(txet): return True\n"
        "def lines(text): return True\n",
        syntax="def f(:\n",
        raises="def f(text): return True\n1 / 0\n",
        exits="import sys\nsys.exit(4)\n",
        wants="import no_such_library\n",
        gate=HEAD + apply,
        ingest=HEAD + apply,
        large=HEAD + "SCHEMA = pa.schema([('text', pa.large_string())])\n" + apply,
        odd=HEAD + "SCHEMA = pa.schema([('n', pa.month_day_nano_interval())])\n" + apply,
        cases=HEAD + "SCHEMA = pa.schema([(n, pa.int64()) for n in ('Score', 'score', 'Source')])\n" + apply,
        listed=HEAD + "SCHEMA = ['text']\n" + apply,
        library=HEAD + apply.replace("reads=", "libraries=('no_such_library',), reads="),
        reads=HEAD + apply.replace('("text",)', "lambda config: {}['x']"),
    )
    message = said(project)
    for fragment in telling:
        assert fragment in message
    assert message.count("recipe.yaml:") == 1
    assert not project.store.exists()


def test_an_unrelated_file_with_the_name_of_a_step_is_no_step(own):
    """`extract.py` next to a recipe may be any script."""
    assert own("  - exact_dedup\n", exact_dedup="print(1 / 0)\n").mill().graph.nodes["all/exact_dedup"]


FAULTS = {
    "another type": ("pa.RecordBatch.from_arrays([batch['text'].cast('large_string')], ['text'])", "as large_string"),
    "rows missing": ("batch.slice(1)", "rows for"),
    "a table": ("pa.Table.from_batches([batch])", "returned a pyarrow.lib.Table"),
    "nothing": ("None", "returned nothing (None)"),
    "raises": ("batch['nosuch']", "does not exist in schema', in your own code:\n  "),
    "exits": ("exit(3)", "SystemExit: 3, in your own code"),
    "wants to be stopped": ("(_ for _ in ()).throw(KeyboardInterrupt)", "KeyboardInterrupt, in your own code"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_step_stops_the_run_and_no_document_is_to_blame(fault, own):
    """At once, with the step and what it did; nothing is retried."""
    body, telling = FAULTS[fault]
    project = own("  - faulty\n", faulty=f"{HEAD}from sys import exit\ndef apply(batch, config): return {body}\n{TAIL}")
    message = said(project)
    assert message.startswith("all/faulty, notes part 0.0: ")
    assert telling in message
    assert "no document is at fault" in message
    assert ("Add the column to the `reads` of the step and run again." in message) == (fault == "raises")
    assert project.notes == []


def test_a_fault_of_a_function_is_reported_with_its_call(own):
    """Line, exception and arguments."""
    message = said(own("  - words.fine\n", words="def fine(text, /):\n    return text.nosuch\n"))
    assert "AttributeError: 'str' object has no attribute 'nosuch', in your own code" in message
    assert "words.py:2 in fine: return text.nosuch" in message
    assert "It was called with text='" in message


def test_an_exception_of_many_lines_is_one_paragraph(own):
    """As some libraries raise them; the location has its own lines."""
    page = "def fine(text):\n    raise ValueError('first' + '\\n - and more' * 400)\n"
    message = said(own("  - words.fine\n", words=page))
    assert "ValueError: first - and more - and more" in message
    assert message.count("\n") <= 4
    assert len(message) < 2000


def test_a_custom_reader_must_return_what_it_declares(own):
    """The same for formats."""
    reader = "from gristmill.schema import Record\ndef read(piece, config): yield Record(0, text=b'x')\n"
    reader += "STAGE = Reader(config=Config, read=read)\n"
    project = own("  - stagebox.length\n", mine=HEAD + reader)
    text = project.recipe.read_text()
    project.recipe.write_text(text.replace("format: jsonl", "format: mine"))
    assert "notes/ingest" in said(project)
    assert "mine.read returned text as bytes, but a Record has str" in said(project)


EXCHANGE = """
import numpy as np, pyarrow as pa
from gristmill.stages.contract import Exchange, StageConfig
SCHEMA = pa.schema([("n", pa.int32())])
class Config(StageConfig): pass
def emit(batch, config):
    return pa.RecordBatch.from_arrays([pa.array(np.zeros(batch.num_rows, np.uint64)), pa.array(range(batch.num_rows))],
                                      names=["key", "row"])
def reduce(records, config):
    return records.select(["part", "row"]).append_column("n", pa.array([1] * len(records), pa.int32()))
STAGE = Exchange(config=Config, reads=("text",), only_kept=True, record_schema=pa.schema([]), schema=SCHEMA,
                 emit=emit, reduce=reduce)
"""


@pytest.mark.parametrize(
    ("before", "after", "telling"),
    [
        ("np.uint64", "np.int64", "odd.emit wrote the column key as int64"),
        ("pa.int32())", "pa.int64())", "odd.reduce wrote the column n as int64, but its schema (with part and row)"),
        ('["part", "row"])', '["row"]).add_column(0, "part", pa.array([7] * len(records), pa.uint64()))', "part 7"),
    ],
)
def test_a_custom_exchange_must_return_what_it_declares(own, before, after, telling):
    """At emit and at reduce; an answer for a part that does not exist is reported and not lost."""
    project = own("  - odd\n", odd=EXCHANGE)
    assert project.run().states["all/odd"].metrics["answers"] == 20
    head, body = EXCHANGE.split("class Config")
    (project.folder / "odd.py").write_text(f"{head}class Config{body.replace(before, after)}")
    assert telling in said(project)


def test_a_step_may_import_a_module_that_is_called_as_a_function_of_the_contract(own):
    """`import warnings` is in many files."""
    run = own("  - odd\n", odd="import warnings\n" + EXCHANGE).run()
    assert not [line for line in find_warnings(run) if "odd" in line]


def test_a_fit_that_writes_nothing_is_reported(own):
    """And not as a file that is missing somewhere."""
    project = own("  - empty\n", empty=HEAD + "def fit(*_): pass\nSTAGE = Fit(config=Config, reads=(), fit=fit)\n")
    assert "empty.fit did not write model" in said(project)


def test_a_bug_in_gristmill_is_not_blamed_on_the_user(own, monkeypatch):
    """It stays an exception, and its traceback is shown."""
    broken = replace(exact_dedup.STAGE, emit=lambda batch, config: 1 / 0)
    monkeypatch.setattr(exact_dedup, "STAGE", broken)
    with pytest.raises(ZeroDivisionError):
        own("  - exact_dedup\n").run()


@pytest.mark.slow
def test_workers_run_what_was_hashed(own):
    """A file that is edited after the recipe was loaded changes the next run, not this one."""
    project = own(
        "  - words.fine\n",
        words="import limits\ndef fine(text): return len(text) > limits.LEAST\n",
        limits="LEAST = 0\n",
    )
    mill = project.mill()
    (project.folder / "limits.py").write_text("LEAST = 10**6\n")
    assert mill.run(1, Silent()).states["all/fine"].metrics["dropped"] == {}
    assert project.run(1).states["all/fine"].metrics["dropped"] == {"not_fine": 20}


FAIL = "def fail(): raise GeneratorExit\n"


@pytest.mark.slow
def test_a_step_that_forks_is_answered_once(own):
    """Its child returns from the step as a second worker on the same pipe."""
    once = "if not forks:\n        forks.append(1)\n        if os.fork() == 0: return False"
    forked = f"import os\nforks = []\ndef fine(text):\n    {once}\n    return True\n"
    project = own("  - words.fine\n", words=forked)
    assert project.run(1).states["all/fine"].metrics["dropped"] == {}
    assert project.notes == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["sys.exit(3)", "1 / 0", "batch.slice(1)", "fail()"])
def test_a_fault_in_a_worker_stops_the_run_at_once(own, fault):
    """No retry, no search for a document, no worker lost."""
    project = own("  - faulty\n", faulty=f"{HEAD}import sys\n{FAIL}def apply(batch, config): return {fault}\n{TAIL}")
    assert "no document is at fault" in said(project, workers=1)
    assert project.notes == []


@pytest.mark.slow
def test_a_module_that_only_a_worker_cannot_import_is_reported(own):
    """For instance because it reads a file that is gone by then."""
    once = "import os\nif os.path.exists('{0}'): os.unlink('{0}')\nelse: open('{0}')\n"
    project = own("  - fickle\n")
    flag = project.folder / "flag"
    flag.touch()
    apply = f"def apply(batch, config): return batch\n{TAIL}"
    (project.folder / "fickle.py").write_text(once.format(flag) + HEAD + apply)
    message = said(project, workers=1)
    assert "A worker cannot import a module that could be imported before: FileNotFoundError" in message
    assert project.notes == []


@pytest.mark.slow
def test_output_of_a_step_is_not_mixed_into_standard_output(own):
    """`run --json` stays JSON."""
    project = own("  - words.fine\n", words="print('imported')\ndef fine(text):\n    print('seen')\n    return True\n")
    done = project.start("--json", "--workers", "1")
    out, err = done.communicate()
    assert done.returncode == 0, err
    assert out.startswith("{")
    assert out.count("\n") == 1
    assert "imported" in err
    assert "seen" in err


@pytest.mark.slow
def test_a_library_that_makes_a_lock_leaves_nothing_behind(own):
    """As torch and tqdm do: a worker is killed when the run ends, and Python would warn of leaked semaphores."""
    project = own(
        "  - words.fine\n",
        words="import multiprocessing\nLOCK = multiprocessing.RLock()\ndef fine(text): return True\n",
    )
    done = project.start("--workers", "2")
    _, err = done.communicate()
    assert done.returncode == 0, err
    assert "semaphore" not in err


def test_compiling_is_noted_once_and_is_in_the_cost_of_its_task(own):
    """A kernel that this machine has not compiled yet: the run says what it waits for."""
    project = own(
        "  - kernel.fine\n",
        kernel="from numba import njit\n@njit(cache=True)\ndef one(count): return count + 1\n"
        "def fine(text): return one(len(text)) > 0\n",
    )
    listener = Silent()
    made = project.mill().run(1, listener).states["all/fine"]
    assert [note.partition(" (")[0] for note in listener.notes] == ["compiling kernels"]
    assert 0 < made.cost["compile_s"] < made.cost["wall_s"]


def test_compiled_code_that_cannot_be_kept_is_reported(monkeypatch, tmp_path):
    """Else every run takes a minute longer, and nobody sees why."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert local._how_often().startswith(f"again in every run: {tmp_path}/file/kernels cannot be written")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "folder"))
    assert local._how_often().startswith("once")


@pytest.mark.slow
def test_a_step_that_ends_its_process_is_reported_as_such(own):
    """Not as lack of memory: a process that was killed has no exit code."""
    text_shown = said(own("  - ends.fine\n", ends="import os\ndef fine(text): os._exit(0)\n"), workers=1)
    assert "your own code, ends:fine" in text_shown
    assert "exit code was not killed" in text_shown
    assert "memory" not in text_shown


@pytest.mark.slow
def test_a_step_that_takes_the_modules_away_is_one_message(own, capfd):
    """Its worker cannot send anything any more, and ends silently."""
    project = own("  - ruin.fine\n", ruin="import sys\ndef fine(text):\n    sys.modules.clear()\n    return True\n")
    assert "your own code, ruin:fine" in said(project, workers=1)
    assert "Traceback" not in capfd.readouterr().err


def test_a_format_is_suggested_from_readers_only(own):
    """A module next to the recipe that declares no Reader is suggested as a step, and not as a format."""
    project = own("  - wrods", words="def lines(text): return True\n", reader="STAGE = Reader()\n")
    project.recipe.write_text(project.recipe.read_text().replace("format: jsonl", "format: jsnol"))
    formats, steps = said(project).splitlines()
    assert re.search(r"Did you mean jsonl\? Formats: .*, code, .*, reader\.", formats)
    assert re.search(r"Did you mean words\? Steps: .*, words\.", steps)
    assert "reader" not in steps


RANGED = """
import pyarrow as pa
import pyarrow.compute as pc
from gristmill.stages.contract import Map, StageConfig
SCHEMA = pa.schema([("share", pa.float64())])
class Config(StageConfig): pass
def apply(batch, config):
    letters = pc.utf8_length(batch["text"]).cast("float64")
    return pa.RecordBatch.from_arrays([pc.divide(letters, 20)], schema=SCHEMA)
STAGE = Map(config=Config, reads=("text",), schema=SCHEMA, ranges={"share": (0, 1)}, only_kept=True, apply=apply)
"""


def test_a_value_outside_of_its_range_stops_the_run_and_names_the_document(own):
    """A share above 1: the message has the step, the column, the value, and an id that finds the document."""
    project = own("  - shares\n", shares=RANGED)
    message = said(project)
    assert message.startswith("all/shares, notes part 0.0: ")
    found = re.search(
        r"wrote ([\d.]+) in the column share of document ([0-9a-f]{32}) \(row (\d+)\), but its ranges", message
    )
    assert found is not None
    project.write_recipe("  - stagebox.length\n")
    text = {
        row["doc_id"].hex(): row["text"]
        for one in project.run().documents["notes"]
        for row in PartReader(project.mill().store, one.part).read(["doc_id", "text"]).to_pylist()
    }[found[2]]
    assert float(found[1]) == len(text) / 20 > 1
