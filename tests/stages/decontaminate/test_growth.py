"""What runs again when a suite or a setting changes."""

import json

import pytest
from tests.stages.decontaminate.suites import item, prose, write_suite

from gristmill.errors import UserError
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


def test_another_coverage_scans_nothing(corpus):
    """Findings are judged again, but no text is read."""
    before = answers(corpus.run())
    corpus.write_recipe("  - decontaminate: {suite: evals, coverage: 0.3, common_documents: 100}")
    again = corpus.run()
    assert "all/eval_scan" not in corpus.executed(again)
    assert corpus.executed(again)["all/eval_match"]
    assert sum(row != other for row, other in zip(answers(again), before, strict=True)) == 4


def test_a_suite_with_more_items_is_searched_again(corpus):
    """The evidence is that of a suite that had all of them from the start."""
    corpus.run()
    write_suite(corpus.folder / "evals", {"b": ITEMS})
    grown = corpus.run()
    assert corpus.executed(grown)["all/eval_scan"] == len(grown.documents["notes"])
    found = answers(grown)
    assert {flag["item"] for row in found for flag in row["evidence"] or ()} - {one["id"] for one in ITEMS[:20]}
    assert answers(corpus.run(store=str(corpus.folder / "other"))) == found


@pytest.mark.parametrize(
    ("config", "items", "expected"),
    [
        ("suite: evals, suite_hash: 0123456789abcdef", ITEMS[:2], "the suite has changed since it was pinned"),
        ("suite: evals", [{"id": "bare", "q": "Why so?", "a": ""}], "nothing would be protected: b bare ('Why so?')"),
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
