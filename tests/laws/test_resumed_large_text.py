"""Law 1 for a large text: earlier work of a process changes the state of its memory and nothing else."""

import json

import pyarrow.parquet as pq
import pytest


@pytest.mark.slow
def test_a_text_of_5_mb_survives_a_resume(project):
    """A run, and a run that resumes after ingest in new processes, give the same bytes and keep the document.

    Double spaces cause every line to be rewritten into scratch memory, which the C library of a new process unmaps when
    it is freed.
    """
    for path in (project.folder / "in").iterdir():
        path.unlink()
    lines = [f"stone  {number}  grinds  the  grain  of  the  whole  valley" for number in range(5_000_000 // 55)]
    rows = [{"text": "\n".join(lines)}, {"text": "a  short  one\nof  two  lines"}]
    (project.folder / "in" / "large.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    project.write_recipe("  - line_dedup: {unit: line}\n")
    project.recipe.write_text(project.recipe.read_text().replace("4KB", "64MB"))
    once = project.run(workers=1, store=str(project.folder / "once"))
    project.run(workers=1, until="ingest", store=str(project.folder / "twice"))
    again = project.run(workers=1, store=str(project.folder / "twice"))
    assert project.parts(again) == project.parts(once)
    for part in (project.folder / "twice" / "parts").rglob("*.parquet"):
        table = pq.read_table(part)
        if "drop" in table.column_names:
            assert table.column("drop").null_count == len(table)
