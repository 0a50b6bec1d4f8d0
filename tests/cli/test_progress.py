"""Progress: one line for the whole run, then the active stages; a log shows what changed since its last line."""

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
    """A log that prints a line after every task."""
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.0)
    progress = Bars()
    monkeypatch.setattr(HANDLER, "show", progress._show)
    with log_shown():
        yield progress


def test_a_log_line_has_the_totals_and_what_changed(bars, capsys):
    """Stages without progress are not repeated."""
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


def test_json_output_has_no_progress(capsys, monkeypatch):
    """Notes are still printed."""
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.0)
    with Bars(quiet=True) as bars:
        bars.expect(node("a"), 1)
        work(bars, "a", 1)
        bars.note("something happened")
    assert capsys.readouterr().err.count("\n") == 1
    assert bars.notes == ["something happened"]


def test_cached_tasks_do_not_count_as_work(bars):
    """No time left is shown before a task has run, because the parallelism is not known yet."""
    bars.expect(node("a"), 4)
    work(bars, "a", 2, cached=True)
    assert bars.summary() == "0 of 1 stage done"
    work(bars, "a", 1)
    assert bars.summary().startswith("0 of 1 stage done, about ")
    work(bars, "a", 1)
    assert bars.summary() == "1 of 1 stage done"


def test_compiling_counts_as_neither_throughput_nor_time_left(bars):
    """The first task waits two minutes for machine code; the others do not."""
    bars.expect(node("a"), 5)
    work(bars, "a", 1, wall_s=121.0, compile_s=120.0)
    assert bars.stages["a"].rate == "1.0 KB/s a worker"
    assert bars.summary().endswith("about 0:04 left")
    bars.expect(node("b"), 1)
    assert bars.summary() == "0 of 2 stages done"


def test_after_a_restart_the_time_left_covers_the_remaining_work(bars):
    """The recorded time of cached tasks predicts the rest of their stage."""
    bars.expect(node("a"), 100)
    work(bars, "a", 50, cached=True, wall_s=22.0, compile_s=20.0)
    bars.expect(node("b"), 4)
    work(bars, "b", 1, wall_s=10.0)
    assert bars.summary().endswith("about 2:10 left")


def test_pending_stages_use_the_times_of_earlier_runs(bars):
    """This includes tasks that are not known yet; compile time is left out."""
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
    """No growing task total is shown either: a stage that never ran may have any number of tasks."""
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


def test_the_number_of_finished_stages_never_decreases(project):
    """The run has stages of all kinds, which discover tasks as they go; the number of stages is fixed."""
    project.write_recipe()
    mill = project.mill()
    mill.executor = lambda *_: InlineExecutor(mill.store)
    summaries = []

    class RecordingBars(Bars):
        def _moved(self, name, stage):
            summaries.append(self.summary().partition(" stages")[0].split(" of "))

    with RecordingBars(quiet=True) as bars:
        mill.run(None, bars)
    done = [int(count) for count, _ in summaries]
    assert done == sorted(done)
    assert {int(of) for _, of in summaries} == {len(mill.graph.nodes)}
    assert done[-1] == len(mill.graph.nodes)
    assert len(set(done)) > 5


def test_progress_just_after_a_line_is_in_the_next_one(monkeypatch):
    """The log never says that nothing finished when something did."""
    monkeypatch.setattr(show, "FIRST_S", 0.01)
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.01)
    monkeypatch.setattr(show, "SILENCE_S", 0.01)
    lines, line_written = [], threading.Event()

    def record_line(text):
        lines.append(text)
        line_written.set()

    monkeypatch.setattr(show, "log", record_line)
    bars = Bars()
    bars.expect(node("a"), 9)
    bars.stages["a"].done = 5
    with bars:
        line_written.wait()
    assert "a 5/9 (5 new)" in lines[0]


@pytest.mark.slow
def test_stages_may_be_added_while_the_log_thread_prints(monkeypatch):
    """The log thread and the counting thread do not fail."""
    monkeypatch.setattr(show, "FIRST_S", 0.0)
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.0)
    monkeypatch.setattr(show, "SILENCE_S", 0.0)
    monkeypatch.setattr(show, "log", lambda text: None)
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    with Bars() as bars:
        for number in range(300):
            bars.expect(node(str(number)), 2)
            work(bars, str(number), 1)
    assert not failed


def test_work_before_the_first_task_is_logged_once(monkeypatch):
    """It is not repeated after a task is done."""
    monkeypatch.setattr(show, "FIRST_S", 0.01)
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.01)
    lines, line_written = [], threading.Event()

    def record_line(text):
        lines.append(text.partition("] ")[2])
        line_written.set()

    def wait_for_line():
        assert line_written.wait(60)
        line_written.clear()

    monkeypatch.setattr(show, "log", record_line)
    with Bars() as bars:
        wait_for_line()
        bars.doing("hashing 1 file of notes (202 MB)")
        wait_for_line()
        bars.expect(node("notes/ingest"), 1)
        wait_for_line()
        work(bars, "notes/ingest", 1)
        wait_for_line()
    expected = ["starting", "hashing 1 file of notes (202 MB)", "notes/ingest: 1 task begun, none done yet"]
    assert [line for line in lines if "tasks" not in line and "1 of 1 task" not in line] == expected


def test_a_run_reports_its_work_before_the_first_task(project):
    """It reads and hashes its files, which may take a minute."""
    messages = []

    class RecordingProgress(Silent):
        def doing(self, message):
            messages.append(message)

    mill = project.mill()
    mill.executor = lambda *_: InlineExecutor(mill.store)
    mill.run(None, RecordingProgress())
    size = sum(path.stat().st_size for path in (project.folder / "in").iterdir())
    assert messages == ["reading the beginning of 4 files of notes", f"hashing 4 files of notes ({show.size(size)})"]


def test_a_long_task_does_not_leave_the_log_silent(monkeypatch, capsys):
    """The log says that no task finished since the last line."""
    monkeypatch.setattr(show, "FIRST_S", 0.01)
    monkeypatch.setattr(show, "LOG_EVERY_S", 0.01)
    monkeypatch.setattr(show, "SILENCE_S", 0.01)
    line_written = threading.Event()
    monkeypatch.setattr(
        show, "log", lambda text: line_written.set() if "no task finished since the last line" in text else None
    )
    with Bars() as bars:
        bars.expect(node("a"), 1)
        line_written.wait()


def test_a_terminal_has_one_total_bar_and_hides_finished_stages(monkeypatch):
    """The total comes first, followed by the active stages."""
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


def test_a_command_without_tasks_shows_progress_by_item(bars, capsys):
    """Checking shards and writing an index are examples."""
    with bars:
        assert list(bars.track("shards", "abc", 3)) == ["a", "b", "c"]
    assert capsys.readouterr().err.splitlines()[1].endswith("shards 2/3 (1 new)")


def test_the_first_result_does_not_set_the_estimate(monkeypatch):
    """Workers take eight seconds to start and then give a hundred results per second: the estimate waits for enough
    results and is never hours.
    """
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(show.time, "monotonic", lambda: clock.now)
    bars = Bars(quiet=True)
    summaries = []
    for number in bars.track("parts", range(1000), 1000):
        clock.now += 8.4 if number == 0 else 0.01
        summaries.append(bars.summary())
    assert [summary for summary in summaries[:6] if "about" in summary] == []
    assert summaries[-1].endswith("about 0:00 left")
    assert summaries[6].endswith("about 0:10 left")


def test_a_few_of_many_tasks_give_no_estimate(bars):
    """The first task of a stage loads its models; an earlier run predicts better, and without one there is
    no estimate.
    """
    before = {"a": {"executed": 1000, "cached": 0, "cost": {"wall_s": 100.0}}}
    bars.begin([node("a"), node("b")], before)
    for name in "ab":
        bars.expect(node(name), 1000)
        bars.settled(node(name))
        work(bars, name, 1, wall_s=30.0)
    assert [bars.stages[name].seconds_left for name in "ab"] == [pytest.approx(99.9), None]
    work(bars, "b", 4, wall_s=0.0)
    assert bars.stages["b"].seconds_left == pytest.approx(6 * 995)


def test_a_log_line_stays_short_with_many_active_steps(bars, capsys):
    """Cached tasks are one number; of forty active steps, only those that fit are listed."""
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


def test_verify_logs_progress_like_every_command(everything, say):
    """It logs every few seconds, however short the check is."""
    output = say("verify", everything.project.recipe, "--workers", 1)
    assert output.code == 0
    lines = [line for line in output.err.splitlines() if line.startswith("[")]
    assert "hashing" in lines[0]
    assert not [line for line in lines if "hashed" in line]
