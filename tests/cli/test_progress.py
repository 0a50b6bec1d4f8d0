"""Progress: one line for all of it, then the stages under way; in a log, what changed since the last line."""

import threading
from types import SimpleNamespace

import pytest

from gristmill.cli.shared import show
from gristmill.cli.shared.screen import HANDLER, log_shown
from gristmill.cli.shared.show import Bars
from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent


def node(name):
    return SimpleNamespace(id=name)


def work(bars, name, times, cached=False, wall_s=0.5, compile_s=0.0):
    result = SimpleNamespace(metrics={"bytes_in": 1000}, cost={"wall_s": wall_s, "compile_s": compile_s})
    for _ in range(times):
        bars.done(node(name), None, result, cached)


@pytest.fixture
def bars(monkeypatch):
    """A log that speaks at every task."""
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.0)
    made = Bars()
    monkeypatch.setattr(HANDLER, "show", made._show)
    with log_shown():
        yield made


def test_a_log_line_tells_all_of_it_and_what_changed(bars, capsys):
    """Stages that stand still are not told again."""
    with bars:
        bars.expect(node("web/extract"), 3)
        bars.expect(node("web/signals"), 3)
        work(bars, "web/extract", 2)
        work(bars, "web/signals", 1)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "1 of 6 tasks, 0 of 2 stages done; " in lines[0]
    assert lines[0].endswith("web/extract 1/3 (1 new)")
    assert lines[1].endswith("web/extract 2/3 (1 new)")
    assert lines[2].endswith("web/signals 1/3 (1 new)")
    assert "0 of 2 stages done, about" in lines[2]
    assert "left; " in lines[2]


def test_nothing_is_told_where_a_program_reads(capsys, monkeypatch):
    """`--json` has no progress, and notes all the same."""
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.0)
    with Bars(quiet=True) as bars:
        bars.expect(node("a"), 1)
        work(bars, "a", 1)
        bars.note("something happened")
    assert capsys.readouterr().err.count("\n") == 1
    assert bars.notes == ["something happened"]


def test_what_is_cached_does_not_count_as_work(bars):
    """No time is told before a task was carried out: how many go on at once is not known."""
    bars.expect(node("a"), 4)
    work(bars, "a", 2, cached=True)
    assert bars.summary() == "0 of 1 stage done"
    work(bars, "a", 1)
    assert bars.summary().startswith("0 of 1 stage done, about ")
    work(bars, "a", 1)
    assert bars.summary() == "1 of 1 stage done"


def test_compiling_counts_as_neither_throughput_nor_time_left(bars):
    """The first task waits two minutes for machine code; the others will not."""
    bars.expect(node("a"), 5)
    work(bars, "a", 1, wall_s=121.0, compile_s=120.0)
    assert bars.stages["a"].rate == "1.0 KB/s a worker"
    assert bars.summary().endswith("about 0:04 left")
    bars.expect(node("b"), 1)
    assert bars.summary() == "0 of 2 stages done"


def test_after_a_stop_the_time_left_is_that_of_the_work_to_come(bars):
    """What is cached took some time when it was made, and the rest of its stage will take as long."""
    bars.expect(node("a"), 100)
    work(bars, "a", 50, cached=True, wall_s=22.0, compile_s=20.0)
    bars.expect(node("b"), 4)
    work(bars, "b", 1, wall_s=10.0)
    assert bars.summary().endswith("about 2:10 left")


def test_stages_to_come_take_as_long_as_in_earlier_runs(bars):
    """Also the tasks that are not known yet; compiling is not done again."""
    before = {"b": {"executed": 3, "cached": 1, "cost": {"wall_s": 100.0, "compile_s": 60.0}}}
    bars.begin([node("a"), node("b")], before)
    bars.expect(node("a"), 3)
    bars.settled(node("a"))
    work(bars, "a", 1, wall_s=5.0)
    assert bars.summary() == "0 of 2 stages done, about 0:50 left"
    assert bars.line().startswith("1 of 7 tasks, ")
    bars.expect(node("b"), 6)
    bars.settled(node("b"))
    assert bars.summary() == "0 of 2 stages done, about 1:10 left"


def test_no_time_is_shown_before_every_stage_has_an_estimate(bars, capsys):
    """Nor a total of tasks that grows: a stage that never ran may have any number of tasks."""
    bars.begin([node("a"), node("b")], {})
    bars.expect(node("a"), 2)
    bars.settled(node("a"))
    work(bars, "a", 1, wall_s=5.0)
    assert bars.summary() == "0 of 2 stages done"
    work(bars, "a", 1)
    assert bars.summary() == "1 of 2 stages done"
    assert "2 tasks done, 1 of 2 stages done; a 2/2" in capsys.readouterr().err
    bars.expect(node("b"), 2)
    bars.settled(node("b"))
    work(bars, "b", 1, wall_s=61.0, compile_s=60.0)
    assert bars.summary().startswith("1 of 2 stages done, about 0:0")
    assert "3 of 4 tasks, 1 of 2 stages done, about" in capsys.readouterr().err
    work(bars, "b", 1)
    assert bars.summary() == "2 of 2 stages done"


def test_the_stages_that_are_done_never_become_fewer(project):
    """In a real run with stages of all kinds, which learn of their tasks on the way; how many there are is known."""
    project.write_recipe()
    mill = project.mill()
    mill.executor = lambda *_: InlineExecutor(mill.store)
    told = []

    class Heard(Bars):
        def _moved(self, name, stage):
            told.append(self.summary().partition(" stages")[0].split(" of "))

    with Heard(quiet=True) as bars:
        mill.run(None, bars)
    done = [int(count) for count, _ in told]
    assert done == sorted(done)
    assert {int(of) for _, of in told} == {len(mill.graph.nodes)}
    assert done[-1] == len(mill.graph.nodes)
    assert len(set(done)) > 5


def test_what_moved_just_after_a_line_is_told_in_the_next_one(monkeypatch):
    """Nobody says that nothing finished when something did."""
    monkeypatch.setattr(show, "FIRST_S", 0.01)
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.01)
    monkeypatch.setattr(show, "SILENCE_S", 0.01)
    lines, spoke = [], threading.Event()

    def hear(text):
        lines.append(text)
        spoke.set()

    monkeypatch.setattr(show, "log", hear)
    bars = Bars()
    bars.expect(node("a"), 9)
    bars.stages["a"].done = 5
    with bars:
        spoke.wait()
    assert "a 5/9 (5 new)" in lines[0]


@pytest.mark.slow
def test_stages_may_come_while_a_silence_is_broken(monkeypatch):
    """Who looks and who counts are two threads."""
    monkeypatch.setattr(show, "FIRST_S", 0.0)
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.0)
    monkeypatch.setattr(show, "SILENCE_S", 0.0)
    monkeypatch.setattr(show, "log", lambda text: None)
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    with Bars() as bars:
        for number in range(1000):
            bars.expect(node(str(number)), 2)
            work(bars, str(number), 1)
    assert not failed


def test_what_is_done_before_the_first_task_is_told_once(monkeypatch):
    """And no more once a task is done."""
    monkeypatch.setattr(show, "FIRST_S", 0.01)
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.01)
    lines, spoke = [], threading.Event()

    def hear(text):
        lines.append(text.partition("] ")[2])
        spoke.set()

    def heard():
        assert spoke.wait(60)
        spoke.clear()

    monkeypatch.setattr(show, "log", hear)
    with Bars() as bars:
        heard()
        bars.doing("hashing 1 file of notes (202 MB)")
        heard()
        bars.expect(node("notes/ingest"), 1)
        heard()
        work(bars, "notes/ingest", 1)
        heard()
    told = ["starting", "hashing 1 file of notes (202 MB)", "notes/ingest: 1 task begun, none done yet"]
    assert [line for line in lines if "tasks" not in line and "1 of 1 task" not in line] == told


def test_a_run_says_what_it_does_before_its_first_task(project):
    """Its files are read and hashed, which may take a minute."""
    said = []

    class Heard(Silent):
        def doing(self, what):
            said.append(what)

    mill = project.mill()
    mill.executor = lambda *_: InlineExecutor(mill.store)
    mill.run(None, Heard())
    size = sum(path.stat().st_size for path in (project.folder / "in").iterdir())
    assert said == ["reading the beginning of 4 files of notes", f"hashing 4 files of notes ({show.size(size)})"]


def test_a_long_silence_is_broken(monkeypatch, capsys):
    """One task takes minutes: a log says that it is waited for."""
    monkeypatch.setattr(show, "FIRST_S", 0.01)
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.01)
    monkeypatch.setattr(show, "SILENCE_S", 0.01)
    spoke = threading.Event()
    monkeypatch.setattr(
        show, "log", lambda text: spoke.set() if "no task finished since the last line" in text else None
    )
    with Bars() as bars:
        bars.expect(node("a"), 1)
        spoke.wait()


def test_a_terminal_has_one_bar_for_all_and_finished_stages_are_folded(monkeypatch):
    """First the whole, then only what is under way."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    bars = Bars()
    with bars:
        for name, tasks in (("a", 2), ("b", 3), ("c", 5)):
            bars.expect(node(name), tasks)
        work(bars, "a", 2)
        work(bars, "b", 1)
        shown = [task for task in bars._progress.tasks if task.visible]
        assert [task.description for task in shown] == ["all", "b"]
        assert (shown[0].completed, shown[0].total) == (3, 10)
        assert "1 of 3 stages done" in shown[0].fields["status"]


def test_a_command_without_tasks_tells_how_far_it_is(bars, capsys):
    """Checking shards, writing an index: item by item."""
    with bars:
        assert list(bars.track("shards", "abc", 3)) == ["a", "b", "c"]
    assert capsys.readouterr().err.splitlines()[1].endswith("shards 2/3 (1 new)")


def test_the_wait_for_the_first_answer_is_no_measure_of_the_others(monkeypatch):
    """Workers take eight seconds to start and answer a hundred times a second then: no hours are told, and no time
    before there is something to tell it from.
    """
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(show.time, "monotonic", lambda: clock.now)
    bars = Bars(quiet=True)
    told = []
    for number in bars.track("parts", range(1000), 1000):
        clock.now += 8.4 if number == 0 else 0.01
        told.append(bars.summary())
    assert [words for words in told[:6] if "about" in words] == []
    assert told[-1].endswith("about 0:00 left")
    assert told[6].endswith("about 0:10 left")


def test_a_few_tasks_of_very_many_are_no_measure(bars):
    """The first of a stage opens its models; an earlier run knows better, and without one nothing is promised."""
    before = {"a": {"executed": 1000, "cached": 0, "cost": {"wall_s": 100.0}}}
    bars.begin([node("a"), node("b")], before)
    for name in "ab":
        bars.expect(node(name), 1000)
        bars.settled(node(name))
        work(bars, name, 1, wall_s=30.0)
    assert [bars.stages[name].seconds_left for name in "ab"] == [pytest.approx(99.9), None]
    work(bars, "b", 4, wall_s=0.0)
    assert bars.stages["b"].seconds_left == pytest.approx(6 * 995)


def test_a_log_line_is_short_however_many_steps_moved(bars, capsys):
    """What was found in the store is a number; of forty steps that worked, those that fit."""
    for number in range(40):
        bars.expect(node(f"crawl/step-with-a-long-name-{number}"), 3)
    work(bars, "crawl/step-with-a-long-name-0", 1)
    bars._quiet = True
    for number in range(40):
        work(bars, f"crawl/step-with-a-long-name-{number}", 1, cached=True)
    bars._quiet = False
    work(bars, "crawl/step-with-a-long-name-1", 1)
    bars._quiet = True
    for number in range(2, 40):
        work(bars, f"crawl/step-with-a-long-name-{number}", 1)
    bars._quiet = False
    work(bars, "crawl/step-with-a-long-name-2", 1)
    _, cached, many = capsys.readouterr().err.splitlines()
    assert "; 40 found in the store; crawl/step-with-a-long-name-1 2/3 (1 new)" in cached
    assert cached.count("long-name") == 1
    assert "step-with-a-long-name-2 3/3 (2 new), " in many
    assert many.endswith(" more")
    assert max(len(cached), len(many)) <= 200


def test_verify_tells_of_its_parts_as_every_command_does(everything, say):
    """Every few seconds, not nine times however short it takes."""
    told = say("verify", everything.project.recipe, "--workers", 1)
    assert told.code == 0
    lines = [line for line in told.err.splitlines() if line.startswith("[")]
    assert "hashing" in lines[0]
    assert not [line for line in lines if "hashed" in line]
