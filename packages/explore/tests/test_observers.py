"""The live page, the metrics and the lineage events: true, harmless, and never in the way of a run."""

import base64
import json
import os
import re
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import Project
from starlette.testclient import TestClient

from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent
from gristmill.engine.publish.journal import RunJournal, read_journals
from gristmill.engine.publish.observers import make_observers
from gristmill.errors import UserError
from gristmill.store.store import Store
from gristmill_explore.app import create_app
from gristmill_explore.live import openlineage
from gristmill_explore.live.openlineage import LineageEvents, make_event
from gristmill_explore.live.openmetrics import MetricsFile, metrics_text
from gristmill_explore.live.page import LivePages, dropped_lines, state_sentence

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e\"'}\n# EOF {{x}} \\"
PORT = 8080


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A project, the record of its finished run, and what an observer received during it."""
    project = Project(tmp_path_factory.mktemp("live"))
    project.write_inputs(files=2, records=40)
    project.write_recipe()
    run = run_with(project, [])
    [journal] = read_journals(run.store, "project")
    return project, run, journal.record


def run_with(project, observers):
    mill = project.mill()
    mill.executor = lambda *_: InlineExecutor(mill.store)
    return mill.run(None, Silent(), observers=observers)


def hostile(record):
    """The record with hostile text in every place that comes from data or a recipe."""
    stage = next(iter(record["stages"].values()))
    task = {"stage": HOSTILE, "task": HOSTILE, "begun": record["started"], "where": HOSTILE}
    return {
        **record,
        "recipe": HOSTILE,
        "error": HOSTILE,
        "sources": {HOSTILE: [HOSTILE]},
        "status": "stopped: UserError",
        "stages": {HOSTILE: {**stage, "dropped": {HOSTILE: 3}}},
        "running": [task],
        "slowest": [{**record["slowest"][0], **task}],
        "notes": [{"time": record["started"], "level": "warning", "message": HOSTILE}],
        "funnel": {HOSTILE: {"read": 3, "kept": 0, "first": {HOSTILE: {HOSTILE: 3}}}},
    }


# The page.


def client(store, token="secret"):
    pages = LivePages(store, "project")
    app = create_app("project", [pages.group(is_first=True)], token, PORT)
    return TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers={"authorization": f"Bearer {token}"})


def with_record(tmp_path, record):
    store = Store(str(tmp_path / "store"))
    store.write_json(f"progress/project/{record['run']}.json", record)
    return store


def cells(page):
    return [
        re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    ]


def test_the_page_shows_the_counts_of_the_run(finished, tmp_path):
    """Stages, drops, slow tasks and the numbers of the pictures; the address without a path leads there."""
    _, run, record = finished
    page = client(with_record(tmp_path, record)).get("/").text
    assert "Finished after " in page
    assert f"version {run.ended['version']}" in page
    rows = cells(page)
    for name, state in run.states.items():
        [row] = [row for row in rows if row[:1] == [name] and len(row) == 10]
        assert row[2] == f"{len(state.tasks):,} / {len(state.tasks):,}"
    for line in dropped_lines(record):
        assert [line.step, line.reason, f"{line.so_far:,}", f"{line.first:,}"] in rows
    assert record["slowest"][0]["task"] in page
    assert page.count('<tr><td class="n">') == len(record["throughput"]["counts"])


def test_the_page_asks_for_its_content_again_until_it_is_paused(finished, tmp_path):
    """htmx replaces the content, and the table of numbers next to the chart, which stays open."""
    asked = client(with_record(tmp_path, finished[2]))
    assert 'hx-trigger="every 2s"' in asked.get("/live").text
    assert "every 2s" not in asked.get("/live?pause").text
    part = asked.get("/live", headers={"hx-request": "true"}).text
    assert "<html" not in part
    assert '<div id="throughput" hx-swap-oob="innerHTML">' in part


def test_before_the_first_run_the_page_says_so(tmp_path):
    """The page waits for a run; metrics are empty."""
    asked = client(Store(str(tmp_path)))
    assert "No run of this recipe is recorded" in asked.get("/live").text
    assert asked.get("/metrics").text == "# EOF\n"


def test_names_and_messages_cannot_act_on_the_page(finished, tmp_path):
    """Markup is text, control characters are written out, and nothing leaves its element."""
    _, _, record = finished
    page = client(with_record(tmp_path, hostile(record))).get("/live").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m\\u202e" in page
    assert not re.search("[\x1b\u202e]", page)
    assert page.count("alert(1)") >= 8


@pytest.mark.parametrize(
    ("state", "change", "expected"),
    [
        (
            "running",
            {},
            "Running for 20 minutes (process 7 on vm). 3 of 8 tasks done. No task has ended for 12 minutes.",
        ),
        ("running", {"seconds_left": 90.0, "moved": 1200}, "3 of 8 tasks done, about 90 seconds left."),
        ("killed", {}, "No task has ended for 12 minutes; process 7 on vm is gone. 3 of 8 tasks done."),
        ("stopped", {"error": "The sack has a hole."}, "(process 7 on vm). 3 of 8 tasks done. The sack has a hole."),
        ("stopped", {}, "3 of 8 tasks done. Interrupted."),
        ("finished", {"version": "ab12"}, "Finished after 20 minutes: version ab12. 3 of 8 tasks done."),
    ],
)
def test_one_sentence_says_whether_a_run_goes_on(state, change, expected):
    """It names the process, and how long nothing has moved."""
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def at(second):
        return (start + timedelta(seconds=second)).isoformat()

    moved = at(change.pop("moved", 480))
    record = {"host": "vm", "pid": 7, "started": at(0), "moved": moved, "written": at(1200), "doing": "", "error": None}
    record |= {"seconds_left": None, "version": None, "stages": {"a": {"done": 3, "tasks": 8, "more": False}}, **change}
    assert expected in state_sentence(RunJournal("", record, state), start + timedelta(seconds=1200))


def test_metrics_need_the_token(finished, tmp_path):
    """As a header, since a program that scrapes has no cookie."""
    record = finished[2]
    asked = client(with_record(tmp_path, record))
    assert asked.get("/metrics").text == metrics_text(record, "finished")
    assert asked.get("/metrics", headers={"authorization": "Bearer other"}).status_code == 403
    assert asked.get("/metrics", headers={"authorization": ""}).status_code == 403


# Metrics.

SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (-?[0-9.e+-]+)')


def parsed(text):
    """The samples of OpenMetrics text; raises AssertionError where it is not such text."""
    *lines, end = text.splitlines()
    assert end == "# EOF"
    assert text.endswith("# EOF\n")
    found, families = {}, {}
    for line in lines:
        if line.startswith("# "):
            what, family, *rest = line[2:].split(" ", 2)
            assert what in ("TYPE", "UNIT", "HELP")
            if what == "TYPE":
                assert family not in families
                families[family] = rest[0]
            assert family == list(families)[-1]
            assert what != "UNIT" or family.endswith(f"_{rest[0]}")
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        kind = families[list(families)[-1]]
        assert sample[1] == list(families)[-1] + {"counter": "_total", "info": "_info"}.get(kind, "")
        labels = re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', sample[2])
        key = (sample[1], tuple(value for name, value in labels if name != "recipe"))
        assert key not in found
        found[key] = float(sample[3])
    return found


def test_metrics_are_openmetrics_and_have_the_counts_of_the_run(finished):
    """Every stage with its tasks and drops; the state is one of four."""
    _, run, record = finished
    found = parsed(metrics_text(record, "finished"))
    assert [found["gristmill_run", (state,)] for state in ("running", "finished", "stopped", "killed")] == [0, 1, 0, 0]
    for name, state in run.states.items():
        assert found["gristmill_stage_tasks_done_total", (name,)] == len(state.tasks)
        assert found["gristmill_stage_documents_total", (name,)] == state.metrics.get("rows", 0)
    dropped = {key: value for key, value in found.items() if key[0] == "gristmill_stage_documents_dropped_total"}
    expected = {(line.step, line.reason): line.so_far for line in dropped_lines(record)}
    assert {labels: value for (_, labels), value in dropped.items()} == expected
    assert found["gristmill_documents_kept_total", ("notes",)] == record["funnel"]["notes"]["kept"]


def test_names_cannot_forge_metrics(finished):
    """A line feed or a quote in a name stays inside its label."""
    _, _, record = finished
    found = parsed(metrics_text(hostile(record), "stopped"))
    assert {float(value) for key, value in found.items() if key[0].startswith("gristmill_stage_documents_dropped")} == {
        3
    }


def test_a_metrics_file_is_replaced_at_once(finished, tmp_path):
    """A collector never reads half a file, and no other file stays behind."""
    _, _, record = finished
    observe = MetricsFile(tmp_path / "run.prom")
    for state in ("running", "finished"):
        observe({**record, "status": state})
        assert parsed((tmp_path / "run.prom").read_text())["gristmill_run", (state,)] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run.prom"]
    with pytest.raises(UserError, match="nothing was run"):
        MetricsFile(tmp_path / "none" / "run.prom")


@pytest.mark.parametrize("observer", [MetricsFile, lambda path: LineageEvents(str(path))])
def test_only_a_file_is_written(finished, tmp_path, observer):
    """A link stays and its file is written; a pipe, a folder and a loop of links are refused and stay."""
    _, _, record = finished
    (tmp_path / "link").symlink_to("file")
    observer(tmp_path / "link")(record)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").stat().st_size > 0
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    names = {path.name for path in tmp_path.iterdir()}
    wrong = {"pipe": "is a pipe, not a file", "folder": "is a folder", "loop": "cannot be written", "x" * 300: "cannot"}
    for name, message in wrong.items():
        with pytest.raises(UserError, match=f"{message}.*nothing was run"):
            observer(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("observer", [MetricsFile, lambda path: LineageEvents(str(path))])
def test_a_file_of_something_else_is_never_written(finished, tmp_path, observer):
    """A typo must not cost a file; an empty one, and one of an earlier run, are taken."""
    _, _, record = finished
    for name, content in (("notes.md", b"# TYPE notes"), ("short", b"#"), ("other.jsonl", b'{"event": 1}\n')):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match="exists and was not written by a run with this option, so nothing was run"):
            observer(tmp_path / name)
        assert (tmp_path / name).read_bytes() == content
    (tmp_path / "empty").touch()
    for _ in range(2):
        observer(tmp_path / "empty")(record)


# Lineage events.


class Collector:
    """A server for events, on this machine. Without `answers` it never answers."""

    def __init__(self, answers=True):
        received = self.received = []
        over = self.over = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                received.append((self.path, self.headers.get("authorization"), json.loads(body)))
                if not answers:
                    over.wait()
                self.send_response(201)
                self.end_headers()

            def log_message(self, *_):
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


def checked(event):
    """An event that has what the schema requires, everywhere."""
    assert {"eventTime", "producer", "schemaURL", "run", "job"} <= event.keys()
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", event["run"]["runId"])
    places = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    assert all({"namespace", "name"} <= place.keys() for place in places[1:])
    for place in places:
        for facets in ("facets", "inputFacets", "outputFacets"):
            for facet in place.get(facets, {}).values():
                assert facet["_producer"].startswith("https://")
                assert facet["_schemaURL"].startswith("https://openlineage.io/spec/")
    return event


def test_a_server_gets_the_start_and_the_end_of_a_run(finished, monkeypatch):
    """As the environment says: the inputs are the sources, and the output is the corpus with its version."""
    project, _, record = finished
    with Collector() as collector:
        for name, value in (("URL", collector.url), ("API_KEY", "key"), ("NAMESPACE", "team")):
            monkeypatch.setenv(f"OPENLINEAGE_{name}", value)
        run = run_with(project, make_observers())
        assert {one[:2] for one in collector.received} == {("/api/v1/lineage", "Bearer key")}
        start, end = (checked(event) for _, _, event in collector.received)
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert (end["job"]["namespace"], end["job"]["name"]) == ("team", "project")
    assert [one["name"] for one in end["inputs"]] == [str(project.folder / "in/*.jsonl")]
    rows = end["run"]["facets"]["gristmill_progress"]["stages"]["notes/ingest"]["rows"]
    assert rows == record["stages"]["notes/ingest"]["rows"]
    [output] = end["outputs"]
    assert output["facets"]["version"]["datasetVersion"] == run.ended["version"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == run.ended["documents"]
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert make_observers() == []


def test_a_server_that_redirects_or_repeats_the_key_is_one_warning_without_it(finished, monkeypatch, caplog):
    """Nothing else is fetched."""
    project, _, _ = finished
    fetched = []

    class Hostile(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(302, self.headers["Authorization"])
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/internal")
            self.end_headers()

        def do_GET(self):
            fetched.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "sk-secret")
    run_with(project, make_observers([f"openlineage=http://127.0.0.1:{server.server_port}"]))
    server.shutdown()
    server.server_close()
    assert "does not take lineage events (HTTP 302)" in caplog.text
    assert (fetched, "sk-secret" in caplog.text) == ([], False)


def test_a_user_in_the_url_logs_in_and_appears_nowhere(finished, monkeypatch, caplog):
    """The server gets user and password as a header, unquoted; no event, no record and no message has them."""
    project, _, _ = finished
    with Collector() as collector, caplog.at_level("DEBUG"):
        url = collector.url.replace("http://", "http://me:hunter%402@")
        run = run_with(project, make_observers([f"openlineage={url}"]))
        (login,) = {login for _, login, _ in collector.received}
        assert base64.b64decode(login.removeprefix("Basic ")) == b"me:hunter@2"
        assert "hunter" not in json.dumps([event for _, _, event in collector.received])
    run_with(project, make_observers([f"openlineage={url}"]))  # the server is gone
    assert "does not take lineage events" in caplog.text
    files = (path.read_bytes() for path in (project.folder / "store").rglob("*") if path.is_file())
    assert not any(b"hunter" in one for one in files)
    assert "hunter" not in caplog.text
    assert "hunter" not in json.dumps(run.ended)
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "key")
    with pytest.raises(UserError, match="has a user, and OPENLINEAGE_API_KEY is set, so nothing was run") as raised:
        LineageEvents(url)
    assert "hunter" not in str(raised.value)


def test_a_server_that_never_answers_costs_a_run_nothing(finished, monkeypatch, caplog):
    """Events that do not fit into the queue are lost, the run ends as usual, and there is one warning."""
    project, _, record = finished
    monkeypatch.setattr(openlineage, "PATIENCE_S", 0.01)
    monkeypatch.setattr(openlineage, "EVERY_S", 0.0)
    with Collector(answers=False) as collector, caplog.at_level("WARNING", "gristmill"):
        events = LineageEvents(f"{collector.url}?key=hunter2")
        for _ in range(3 * openlineage.MOST_WAITING):
            events({**record, "status": "running"})
        assert run_with(project, [events]).ended["status"] == "finished"
    messages = [one.getMessage() for one in caplog.records]
    assert len(messages) == 1
    assert "does not take lineage events" in messages[0]
    assert "hunter2" not in messages[0]


def test_a_server_that_is_gone_is_one_warning(finished, caplog):
    """The message names it, and the fix is not urgent: the run goes on."""
    project, _, _ = finished
    with Collector() as collector:
        pass
    with caplog.at_level("WARNING", "gristmill"):
        assert run_with(project, [LineageEvents(collector.url)]).ended["status"] == "finished"
    [message] = [one.getMessage() for one in caplog.records]
    assert message.startswith(f"{collector.url}/api/v1/lineage does not take lineage events (")
    assert message.endswith("The run goes on without them.")


def test_events_go_to_a_file_line_by_line(finished, tmp_path):
    """RUNNING is not sent for every record; a failed run has its message, an interrupted one is aborted."""
    _, _, record = finished
    path = tmp_path / "events.jsonl"
    for status, error in (("stopped: UserError", "The sack has a hole."), ("stopped: Interrupted", None)):
        events = LineageEvents(str(path))
        for one in ("running", "running", status):
            events({**record, "status": one, "error": error if one == status else None})
    found = [checked(json.loads(line)) for line in path.read_text().splitlines()]
    assert [one["eventType"] for one in found] == ["START", "FAIL", "START", "ABORT"]
    assert found[1]["run"]["facets"]["errorMessage"]["message"] == "The sack has a hole."


@pytest.mark.parametrize(
    "url", ["ftp://me:hunter2@host/", "http://[::bad", "http://", "http://host:port", "https://me:hunter2@host:99999"]
)
def test_a_url_that_names_no_server_is_refused(url):
    """Before any work, and without the password."""
    with pytest.raises(UserError, match="Name an http or https URL") as raised:
        LineageEvents(url)
    assert "hunter2" not in str(raised.value)


def test_a_location_is_named_as_openlineage_names_it(finished):
    """The bucket is the namespace, and the key is the name."""
    _, _, record = finished
    locations = ["s3://bucket/a/*.gz", "/data/in/*.gz", "file:///data/in"]
    event = make_event("START", {**record, "sources": {"notes": locations}, "store": "gs://b/store/"}, "n")
    names = [(one["namespace"], one["name"]) for one in (*event["inputs"], *event["outputs"])]
    assert names == [
        ("s3://bucket", "a/*.gz"),
        ("file", "/data/in/*.gz"),
        ("file", "/data/in"),
        ("gs://b", "store@project"),
    ]


def test_hostile_text_in_events_is_data(finished):
    """JSON has no place where it could act, and stays ASCII."""
    _, _, record = finished
    text = json.dumps(checked(make_event("FAIL", hostile(record), "n")))
    assert text.isascii()
    assert json.loads(text)["run"]["facets"]["errorMessage"]["message"] == HOSTILE
