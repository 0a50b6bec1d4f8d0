"""What runs again when a suite or a setting changes: for a larger suite, only the new items are searched."""

import json

import pyarrow as pa
import pytest
from tests.stages.decontaminate.suites import Step, item, prose, write_suite

from gristmill.errors import UserError
from gristmill.stages.decontaminate import eval_scan_new
from gristmill.stages.decontaminate.eval_index import Config as IndexConfig
from gristmill.stages.decontaminate.eval_index_new import make
from gristmill.stages.decontaminate.suite.suite import pin_suite
from gristmill.store.parquet import PartReader

COLUMNS = ("evidence", "drop", "detail")
ITEMS = [item(number) for number in range(30)]
STEP = "  - decontaminate: {suite: evals}"


@pytest.fixture
def corpus(project):
    """Four files; a quarter of their documents have an item of thirty, one has half of one; and a suite of twenty."""
    for number in range(4):
        lines = [{"text": prose(f"plain {number} {at}", 25)} for at in range(20)]
        for at in range(0, 20, 4):
            lines[at]["text"] += f" {ITEMS[(5 * number + at) % 30]['q']} {prose(f'behind {at}', 6)}"
        lines[1]["text"] += " " + " ".join(ITEMS[number]["q"].split()[:26])
        (project.folder / "in" / f"{number:02}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    write_suite(project.folder / "evals", {"b": ITEMS[:20]})
    project.write_recipe(STEP)
    return project


def answers(run):
    """The layer of the step."""
    layers = run.states["all/decontaminate"].layers
    return [
        row for _, (part, _) in sorted(layers.items()) for row in PartReader(run.store, part).read(COLUMNS).to_pylist()
    ]


def scans(project, run):
    """The number of tasks that scanned texts, by stage."""
    done = project.executed(run)
    return {name: done.get(f"all/{name}", 0) for name in ("eval_scan", "eval_scan_new")}


def test_only_the_new_items_of_a_suite_are_searched(corpus):
    """After ten more items, no document is compared with the others again, and the evidence is that of a suite that had
    all of them from the start.
    """
    pin_suite(str(corpus.folder / "evals"))
    first = corpus.run()
    parts = len(first.documents["notes"])
    assert scans(corpus, first) == {"eval_scan": parts, "eval_scan_new": parts}
    write_suite(corpus.folder / "evals", {"b": ITEMS})
    pin_suite(str(corpus.folder / "evals"))
    grown = corpus.run()
    assert scans(corpus, grown) == {"eval_scan": 0, "eval_scan_new": parts}
    assert grown.states["all/eval_index_new"].metrics["items"] == 10
    found = answers(grown)
    assert {one["item"] for row in found for one in row["evidence"] or ()} - {one["id"] for one in ITEMS[:20]}
    (corpus.folder / "evals" / "suite.lock").unlink()
    assert answers(corpus.run()) == found


def test_growth_is_cheap_before_it_is_pinned(corpus):
    """Items that are not in the lock yet are new, and pinning them runs nothing."""
    pin_suite(str(corpus.folder / "evals"))
    corpus.run()
    write_suite(corpus.folder / "evals", {"b": ITEMS})
    assert scans(corpus, corpus.run())["eval_scan"] == 0
    pin_suite(str(corpus.folder / "evals"))
    assert scans(corpus, corpus.run()) == {"eval_scan": 0, "eval_scan_new": 0}


@pytest.mark.parametrize("where", ["recipe", "suite"])
def test_another_coverage_scans_nothing(corpus, where):
    """With another coverage of the step or of a benchmark, findings are judged again, but no text is read."""
    before = answers(corpus.run())
    if where == "recipe":
        corpus.write_recipe("  - decontaminate: {suite: evals, coverage: 0.3, common_documents: 100}")
    else:
        write_suite(corpus.folder / "evals", {"b": ITEMS[:20]}, {"b": ", coverage: 0.3"})
    again = corpus.run()
    assert scans(corpus, again) == {"eval_scan": 0, "eval_scan_new": 0}
    assert corpus.executed(again)["all/eval_match"]
    assert sum(row != other for row, other in zip(answers(again), before, strict=True)) == 4


def test_the_first_pin_does_not_change_the_index(corpus):
    """A lock alone changes no index, so pinning a suite that was already scanned for repeats no scan."""
    corpus.run()
    pin_suite(str(corpus.folder / "evals"))
    assert scans(corpus, corpus.run())["eval_scan"] == 0


def test_the_suite_of_a_scan_for_new_items_changes_nothing(tmp_path):
    """The suite is not in the key: if the index is empty, the result is the same with and without texts."""
    suites = [write_suite(tmp_path / name, {"b": ITEMS[:2]}) for name in ("open", "pinned")]
    pin_suite(str(suites[1]))
    configs = [eval_scan_new.Config(suite=str(suite)) for suite in suites]
    make(IndexConfig(suite=str(suites[0])), tmp_path / "index")
    assert [eval_scan_new.reads(config) for config in configs] == [("doc_id",), ("text",)]
    columns = {"doc_id": pa.array([bytes(16)] * 2, pa.binary(16)), "text": pa.array([ITEMS[0]["q"], None])}
    models = {"eval_index_new": tmp_path / "index"}
    found = [
        eval_scan_new.apply(pa.record_batch({name: columns[name] for name in eval_scan_new.reads(one)}), one, models)
        for one in configs
    ]
    assert found[0].to_pylist() == found[1].to_pylist() == [{"hits": [], "bounded": False}] * 2


def test_items_that_cannot_be_protected_count_over_all_generations(tmp_path):
    """A later item is not allowed just because an earlier one is."""
    bare = [{"id": f"bare{n}", "q": f"{word}?", "a": ""} for n, word in enumerate(("Why so", "Who"))]
    suite = write_suite(tmp_path, {"b": [ITEMS[0], bare[0]]})
    pin_suite(str(suite))
    write_suite(tmp_path, {"b": [ITEMS[0], *bare]})
    with pytest.raises(UserError, match=r"2 items .*b bare0 .*b bare1 .*allow_unprotected: 2"):
        Step(suite, allow_unprotected=1)
    metrics = Step(suite, allow_unprotected=2).metrics
    assert [metrics[name]["unprotected_items"] for name in ("eval_index", "eval_index_new")] == [
        {"b": {"bare0": 1}},
        {"b": {"bare1": 1}},
    ]


@pytest.mark.parametrize(
    ("config", "items", "expected"),
    [
        ("suite: evals, suite_hash: 0123456789abcdef", ITEMS[:2], "the suite has changed since it was pinned"),
        ("suite: evals", [{"id": "bare", "q": "Why so?", "a": ""}], "b bare ('Why so?')"),
        ("suite: nowhere", ITEMS[:2], "nowhere does not exist"),
    ],
)
def test_a_run_that_would_protect_less_does_not_begin(corpus, config, items, expected):
    """There is one message before any document is read."""
    write_suite(corpus.folder / "evals", {"b": items})
    corpus.write_recipe(f"  - decontaminate: {{{config}}}")
    with pytest.raises(UserError) as error:
        corpus.run()
    assert expected in str(error.value)
    assert not (corpus.store / "runs").exists() or "notes/ingest" not in corpus.executed(corpus.dry_run())


def test_workers_and_parts_change_no_byte(corpus):
    """Two workers write the same parts as one process; other parts have the same verdicts."""
    inline = corpus.parts(corpus.run())
    assert corpus.parts(corpus.run(workers=2, store=str(corpus.folder / "other"))) == inline
    expected = sorted(map(str, answers(corpus.dry_run())))
    corpus.write_recipe(STEP)
    text = corpus.recipe.read_text()
    corpus.recipe.write_text(text.replace("part_bytes: 4KB", "part_bytes: 64KB"))
    again = corpus.run()
    assert len(again.documents["notes"]) != len(inline["notes/ingest"])
    assert sorted(map(str, answers(again))) == expected
