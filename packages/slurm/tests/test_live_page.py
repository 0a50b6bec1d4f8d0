"""The live page follows a run on a Slurm of two nodes: another process reads it from the store."""

import re

import pytest
from starlette.testclient import TestClient

from gristmill.store.store import Store
from gristmill_explore.app import create_app
from gristmill_explore.live.page import LivePages
from slurm_cluster import until

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def rows(page, title):
    """The cells of the table below a heading."""
    section = page.partition(f"<h2>{title}</h2>")[2].partition("<h2>")[0].partition("</table>")[0]
    found = [re.findall("<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in section.split("<tr>")]
    return [[re.sub("<[^>]*>", "", cell).strip() for cell in row] for row in found if row]


def test_the_page_shows_progress_drops_slow_tasks_and_failures(project, slurm):
    """A task hangs on a node: the page names it. Its job is cancelled: the page shows the failure, then the result."""
    project.write_inputs(records=40)
    mark = project.folder / "mark"
    steps = f"  - stagebox.length\n  - stagebox.stuck_once: {{mark: {mark}}}\n  - stagebox.exact\n"
    project.write_recipe(steps, pattern="in/0[01].jsonl")
    profile = project.folder / "cluster.yaml"
    profile.write_text(f"jobs: 2\nsbatch: {{output: {project.folder}/logs/%A_%a.log}}\n")
    process = project.start("--executor", "slurm", "--profile", str(profile))
    until(mark.exists)
    app = create_app("project", [LivePages(Store(str(project.store)), "project").group(is_first=True)], "secret", 8080)
    asked = TestClient(app, base_url="http://127.0.0.1:8080", headers={"authorization": "Bearer secret"})

    def page():
        return asked.get("/live").text

    def stage(name):
        [row] = [row for row in rows(page(), "Stages") if row[0].endswith(name)]
        return row

    until(lambda: [row[0] for row in rows(page(), "Running now")] == ["all/stuck_once"])
    assert "Running for" in page()
    until(lambda: stage("length")[1:3] == ["100%", "2 / 2"])
    until(lambda: stage("stuck_once")[2:4] == ["1 / 2", "1"])
    slurm.command("scancel", mark.read_text())
    _, message = process.communicate()
    assert process.returncode == 0, message
    after = page()
    assert "Finished after" in after
    assert "Running now" not in after
    [failure] = [row for row in rows(after, "Failures and messages") if "Slurm ended it" in row[1]]
    assert "stuck_once" in failure[1]
    assert [row[-1] for row in rows(after, "Stages") if row[0] == "all/stuck_once"] == ["1"]
    run = project.dry_run()
    expected = {
        (name, reason): str(number)
        for name, state in run.states.items()
        for reason, number in state.metrics.get("dropped", {}).items()
        if not name.endswith("/corpus")
    }
    assert {(step, reason): number for step, reason, number, _ in rows(after, "Dropped so far")} == expected
    assert expected.keys() >= {("notes/ingest", "invalid_json"), ("all/exact", "duplicate")}
    slowest = rows(after, "Slowest tasks")
    assert {"all/length", "all/exact"} <= {row[0] for row in slowest}
    assert all(" process " in row[-1] for row in slowest)
