"""Deduplication as a user sees it: verdicts through the engine, clusters side by side, an index for later runs."""

import json
import sys
from types import SimpleNamespace

import pytest

from gristmill.cli.look.clusters import side_by_side
from gristmill.cli.main import main
from stages.dedup.test_near_dedup import families

pytestmark = pytest.mark.slow

STEPS = "  - url_dedup\n  - exact_dedup\n  - near_dedup: {scope: global}\n"


@pytest.fixture
def run_command(monkeypatch, capfd):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gristmill", *map(str, arguments)])
        monkeypatch.setenv("NO_COLOR", "1")
        with pytest.raises(SystemExit) as ended:
            main()
        output = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=output.out, err=output.err)

    return run


def write(project, texts, files=3):
    folder = project.folder / "in"
    for old in folder.glob("*"):
        old.unlink()
    folder.mkdir(exist_ok=True)
    for number in range(files):
        lines = [
            json.dumps({"text": text, "id": f"d{at}", "url": f"https://example.org/{at}"})
            for at, text in enumerate(texts)
            if at % files == number
        ]
        (folder / f"{number}.jsonl").write_text("\n".join(lines) + "\n")


def verdicts(mill, run):
    """Map each document's key to its reason, the key of its keeper and its chain length."""
    from gristmill.query.documents.documents import rows

    documents = list(rows(run, None, None, None))
    keys = {row.fields["doc_id"]: row.fields["locator"].split("#")[1] for row in documents}
    return {
        keys[row.fields["doc_id"]]: (row.reason, keys.get(row.columns["cluster"]), row.columns["chain"])
        for row in documents
    }


@pytest.mark.slow
def test_workers_and_part_sizes_change_no_verdict(project):
    """The same documents in other parts and with another number of workers have the same keepers."""
    texts = families(6, 40)
    texts += texts[:3]
    results = []
    write(project, texts)
    for workers, part_bytes in ((1, "1MB"), (2, "4KB")):
        project.write_recipe(STEPS, read=", fields: {key: id}")
        project.recipe.write_text(project.recipe.read_text().replace("part_bytes: 4KB", f"part_bytes: {part_bytes}"))
        store = str(project.folder / f"store-{workers}")
        results.append(verdicts(project.mill(store=store), project.run(workers, store=store)))
    assert results[0] == results[1]
    reasons = [reason for reason, _, _ in results[0].values()]
    assert reasons.count("duplicate_text") == len(texts) - len(set(texts))
    assert reasons.count("near_duplicate") > 10


def test_clusters_are_shown(project, run_command):
    """With their sizes, links and members."""
    texts = families(7, 30)
    write(project, texts)
    project.write_recipe(STEPS, read=", fields: {key: id}")
    project.run()
    shown = run_command("clusters", project.recipe, "-n", "2")
    assert shown.code == 0, shown.err
    assert "documents in a cluster" in shown.out
    assert "links to the keeper" in shown.out
    assert "kept:" in shown.out
    clusters = [json.loads(line) for line in run_command("clusters", project.recipe, "--json").out.splitlines()]
    assert clusters[0]["size"] == max(cluster["size"] for cluster in clusters)
    assert clusters[0]["members"][0]["similarity"][0] >= 0.8


def test_unavailable_clusters_are_reported(project, run_command):
    """Of a recipe without a step that makes them."""
    project.write_recipe("  - stagebox.length\n")
    project.run()
    assert "no step that makes clusters" in run_command("clusters", project.recipe).err


def test_a_plan_summarises_the_s_curve_and_draws_it_with_explain(project, run_command):
    """The plan states the probability of a comparison at the threshold before any work starts."""
    project.write_recipe(STEPS)
    shown = run_command("plan", project.recipe).out
    assert "half of the pairs with Jaccard 0.68" in shown
    assert "92.35%" in shown
    assert "##" not in shown
    drawn = run_command("plan", project.recipe, "--explain").out
    assert "14 bands x 8 rows = 112 hashes" in drawn
    assert "##  <- verify_jaccard" in drawn


def test_differences_are_shown_and_equal_passages_are_shortened():
    """Each side shows its own words; equal words are left out except near a difference."""
    text = " ".join(f"w{n}" for n in range(200))
    left, right = side_by_side(text.replace("w100", "left"), text.replace("w100", "right"), False)
    assert "left" in left.plain
    assert "right" in right.plain
    assert "equal words" in left.plain
    assert len(left.plain) < len(text)
    whole, _ = side_by_side(text, text + " end", True)
    assert whole.plain.split() == text.split()
