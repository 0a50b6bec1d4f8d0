"""The step `safety` in a run: what is measured again, and what is not."""

import hashlib
import json

import pytest

STEPS = """
  - signals: {{blocked_list: terms.txt}}
  - safety: {{hashes: hashes.txt, min_blocked: {least}, max_blocked_share: 0.0}}
"""


@pytest.fixture
def flagged(project):
    texts = ["damn the mill", "damn, damn the mill", "a calm mill", "a listed mill"]
    (project.folder / "in").mkdir(exist_ok=True)
    for path in (project.folder / "in").iterdir():
        path.unlink()
    (project.folder / "in" / "a.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    (project.folder / "terms.txt").write_text("damn\n")
    (project.folder / "hashes.txt").write_text(hashlib.sha1(b"a listed mill").hexdigest())
    project.write_recipe(STEPS.format(least=1))
    return project


def found(run) -> dict[str, int]:
    return run.states["all/safety"].metrics["dropped"]


def test_another_threshold_measures_nothing_again(flagged):
    """Law 3: only the verdict runs, over stored counts; another list of digests scores no text again."""
    assert found(flagged.run()) == {"unsafe_terms": 2, "listed_hash": 1}
    flagged.write_recipe(STEPS.format(least=2))
    run = flagged.run()
    assert found(run) == {"unsafe_terms": 1, "listed_hash": 1}
    assert set(flagged.executed(run)) <= {"all/safety", "notes/corpus"}
    (flagged.folder / "hashes.txt").write_text(hashlib.md5(b"a calm mill").hexdigest())
    run = flagged.run()
    assert found(run) == {"unsafe_terms": 1, "listed_hash": 1}
    assert "all/signals" not in flagged.executed(run)


def test_other_terms_are_counted_again(flagged):
    """Law 2: the content of a list is in the key."""
    flagged.run()
    (flagged.folder / "terms.txt").write_text("mill\n")
    run = flagged.run()
    assert found(run) == {"unsafe_terms": 3, "listed_hash": 1}
    assert "all/safety_hashes" not in flagged.executed(run)
