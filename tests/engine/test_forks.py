"""Of two forks, every file that both have is kept from the same one."""

import random

import pytest

import gristmill
from gristmill.query.documents.documents import rows as documents

STEPS = {
    "exact_dedup": lambda text: text,
    "near_dedup: {scope: global}": lambda text: text.replace("w7 ", "changed ", 1),
}


def write_forks(folder, change):
    """Thirteen files that two repositories share, and one that only each of them has."""
    for number in range(13):
        draw = random.Random(number)
        text = "\n".join(f"w{draw.randrange(9)} = call_{draw.getrandbits(20)}(value)" for _ in range(80))
        for repository, content in (("mill", text), ("mill-fork", change(text))):
            path = folder / "repos" / repository / f"f{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")
    for repository in ("mill", "mill-fork"):
        own = "\n".join(f"own_{repository[-1]}_{number} = {number}" for number in range(90))
        (folder / "repos" / repository / "own.py").write_text(f"{own}\n")


@pytest.mark.parametrize("step", STEPS)
def test_every_shared_file_is_kept_from_the_same_fork(project, step):
    """An order without the repository mixes them."""
    write_forks(project.folder, STEPS[step])
    kept = {}
    for by in ("[source, repository, score, length, date]", "[date]"):
        name = step.partition(":")[0]
        scope = ", scope: global" if ":" in step else ""
        project.recipe.write_text(
            "recipe: r\nstore: ./store\nsources:\n  x: {kind: code, read: {format: code, paths: [repos/]}}\n"
            f"steps:\n  - {name}: {{keep: {{by: {by}}}{scope}}}\n"
        )
        run = project.run()
        kept[by] = {row.fields["locator"].partition("#")[0] for row in documents(run, None, False, None)}
    together, apart = kept.values()
    shared = {path.partition("/")[0] for path in together if not path.endswith("own.py")}
    assert len(together) == 15
    assert len(shared) == 1
    assert len({path.partition("/")[0] for path in apart if not path.endswith("own.py")}) == 2


def test_a_git_folder_says_where_a_repository_begins(project):
    """Whatever folders are above it; elsewhere the first folder is the repository. Its HEAD is no document."""
    for path in ("owner/mill/.git/HEAD", "owner/mill/.git/objects/x.py", "owner/mill/src/a.py", "owner/loose.py"):
        file = project.folder / "repos" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("ref: refs/heads/main\n" if path.endswith("HEAD") else "x = 1\n" * 9)
    (project.folder / "repos" / "owner" / "mill" / "LICENSE").write_text("SPDX-License-Identifier: MIT\n")
    project.recipe.write_text(
        "recipe: r\nstore: ./store\nsources:\n  x: {kind: code, read: {format: code, paths: [repos/]}}\nsteps: []\n"
    )
    run = project.run()
    corpus = gristmill.open(str(project.recipe))
    found = corpus.documents(columns=["locator", "ingest.repository"]).rows()
    kept = {row["locator"]: row["ingest.repository"] for row in found}
    assert kept == {"owner/mill/src/a.py#0": "owner/mill", "owner/loose.py#0": "owner"}
    assert "owner/mill/.git/HEAD#0" in {row.fields["locator"] for row in documents(run, None, True, "not_code")}
