"""Law 5: memory is bounded by the part, not the corpus."""

import json

import pytest


@pytest.mark.slow
def test_four_times_the_input_takes_the_same_memory(project):
    """Peak memory of a worker's task does not grow with the file that it is cut from.

    The smaller input has some thirty parts already: a worker's allocator settles within its first ten tasks.
    """
    peaks = []
    for copies in (4, 16):
        line = json.dumps({"text": "the mill grinds slowly but exceeding small " * 20})
        for path in (project.folder / "in").iterdir():
            path.unlink()
        (project.folder / "in" / "big.jsonl").write_text((line + "\n") * 15_000 * copies)
        project.write_recipe("  - extract\n")
        project.recipe.write_text(project.recipe.read_text().replace("4KB", "2MB"))
        run = project.run(store=str(project.folder / f"store{copies}"))
        peaks.append(max(made.cost["peak_rss_bytes"] for made in run.made.values()))
        assert len(run.documents["notes"]) >= 4 * copies
    assert peaks[1] < 1.1 * peaks[0]
