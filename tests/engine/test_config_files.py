"""Law 8 for files that configs name: tasks use a copy of what was hashed."""

import json
import os

import pytest

from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent
from gristmill.errors import UserError
from gristmill.recipe.checks.files import placed_in
from gristmill.stages.mix.mix import Config as MixConfig
from gristmill.stages.select.gate import Config as GateConfig
from gristmill.store.parquet import PartReader
from gristmill.store.store import Store


@pytest.fixture
def web(project):
    """Pages of three sites, and a list of sites to block."""
    rows = [{"url": f"https://{site}.org/{n}", "text": f"page {n}"} for site in ("a", "b", "c") for n in range(50)]
    (project.folder / "in.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    write_lists(project, "lists/blocked.txt")
    return project


def write_lists(project, path, top=""):
    project.recipe.write_text(
        f"recipe: lists\nstore: ./store\n{top}\n"
        "sources:\n  x: {kind: web, read: {format: jsonl, paths: [in.jsonl], part_bytes: 2KB}}\n"
        f"steps:\n  - gate: {{block_domains: {path}}}\n"
    )


def write(path, *entries):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{entry}\n" for entry in entries))


class Meddling(InlineExecutor):
    """Does something before its second step of the kind under test."""

    def __init__(self, store, act):
        super().__init__(store)
        self._act, self._gates = act, 0

    async def run(self, task):
        if task.node == "all/gate":
            self._gates += 1
            if self._gates == 2:
                self._act()
        return await super().run(task)


def run(project, act):
    mill = project.mill()
    mill.executor = lambda *_: Meddling(mill.store, act)
    return mill.run(None, Silent())


def dropped(project, found):
    return dropped_in(Store(str(project.store)), found)


def dropped_in(store, found):
    made = found.states["all/gate"].layers
    rows = [PartReader(store, part).read(["drop"]).column("drop").to_pylist() for part, _ in made.values()]
    return sum(reason is not None for column in rows for reason in column)


@pytest.mark.parametrize("path", ["lists/blocked.txt", "lists"])
def test_a_list_that_is_edited_during_a_run_changes_the_next_run(web, path):
    """Every task of a run reads the list that was hashed, and the store is intact after the list is put back."""
    blocked = web.folder / "lists" / "blocked.txt"
    write(blocked, "a.org")
    write_lists(web, path)
    first = run(web, lambda: write(blocked, "a.org", "b.org"))
    assert dropped(web, first) == 50
    second = web.run()
    assert dropped(web, second) == 100
    write(blocked, "a.org")
    third = web.run()
    assert web.executed(third) == {}
    assert web.parts(third) == web.parts(first)


def test_a_list_may_be_deleted_during_a_run(web):
    """Tasks only read the copy."""
    blocked = web.folder / "lists" / "blocked.txt"
    write(blocked, "a.org")
    assert dropped(web, run(web, blocked.unlink)) == 50


def test_a_list_that_changes_before_the_run_begins_stops_it(web):
    """The plan was made with other content; nothing is run, and the next run uses the new content."""
    blocked = web.folder / "lists" / "blocked.txt"
    write(blocked, "a.org")
    mill = web.mill()
    write(blocked, "b.org")
    with pytest.raises(UserError, match=r"blocked\.txt changed since it was hashed"):
        mill.run(None, Silent())
    assert not list(web.store.glob("tasks/*"))
    assert dropped(web, web.run()) == 50


def test_a_damaged_copy_is_made_again(web):
    """Or the run reports that it cannot be, if the file itself has changed."""
    blocked = web.folder / "lists" / "blocked.txt"
    write(blocked, "a.org")
    web.run()
    [copy] = web.store.glob("parts/*/*.txt")
    for name in ("tasks", "datasets"):
        for path in (web.store / name).iterdir():
            path.unlink()
    os.chmod(copy, 0o644)
    stamp = copy.stat()
    copy.write_text("c.org\n")
    os.utime(copy, ns=(stamp.st_mtime_ns, stamp.st_mtime_ns))
    assert dropped(web, web.run()) == 50
    assert copy.read_text() == "a.org\n"


def test_a_copy_that_is_damaged_while_its_list_changes_is_refused(web):
    """Neither has what was hashed."""
    blocked = web.folder / "lists" / "blocked.txt"
    write(blocked, "a.org")

    def both():
        [copy] = web.store.glob("parts/*/*.txt")
        os.chmod(copy, 0o644)
        copy.write_text("longer than it was\n")
        write(blocked, "b.org")

    with pytest.raises(UserError, match=r"copy of .*blocked\.txt .*changed since the run began.*Run again"):
        run(web, both)
    assert dropped(web, web.run()) == 50


def test_a_plan_copies_nothing(web):
    """A dry run leaves the store unchanged."""
    write(web.folder / "lists" / "blocked.txt", "a.org")
    web.dry_run()
    assert not list(web.store.glob("parts/**/*.txt"))


def test_the_run_record_names_the_copies(web):
    """So garbage collection knows that they are needed."""
    write(web.folder / "lists" / "blocked.txt", "a.org")
    web.run()
    record = web.mill().last_run()["nodes"]
    [part] = record["all/gate"]["config_files"]
    assert (web.store / "parts" / part["hash"][:2] / f"{part['hash']}.txt").read_text() == "a.org\n"
    assert "config_files" not in record["x/ingest"]


def test_folders_keep_names_compression_and_links(web):
    """A folder of lists is one list per name, as the user arranged it: the copy has the same names."""
    import gzip

    folder = web.folder / "lists"
    write(folder / "spam" / "domains", "a.org")
    (folder / "other.txt.gz").write_bytes(gzip.compress(b"b.org\n"))
    (folder / "junk").symlink_to("spam")
    (folder / "spam" / "again").symlink_to("..")
    write_lists(web, "lists")
    found = web.run()
    assert dropped(web, found) == 100
    decided = found.states["all/gate"].metrics["decided"]
    assert {"block_domains/spam", "block_domains/junk", "block_domains/other"} <= set(decided)


def test_a_folder_that_no_process_needs_any_more_leaves_the_store(web):
    """Workers end by being killed; the folders that they made are swept."""
    write(web.folder / "lists" / "blocked.txt", "a.org")
    write_lists(web, "lists")
    web.run(workers=1)
    assert not list(web.store.glob("tmp/*"))


def test_errors_of_a_stage_name_the_users_file(web):
    """And not the copy in the store."""
    write(web.folder / "terms.txt")
    recipe = web.recipe.read_text().split("steps:")[0]
    web.recipe.write_text(recipe + "steps:\n  - signals: {blocked_list: terms.txt}\n")
    with pytest.raises(UserError, match=r"^\S*/terms\.txt: blocked_list has no term"):
        web.run()


@pytest.mark.parametrize("kind", ["pipe", "folder with a pipe", "folder with a broken link"])
def test_anything_but_a_file_is_refused_before_any_work(web, kind):
    """And never waited for."""
    path = web.folder / "lists" / "x"
    path.parent.mkdir()
    if kind.endswith("link"):
        path.symlink_to("nowhere")
    else:
        os.mkfifo(path)
    write_lists(web, "lists/x" if kind == "pipe" else "lists")
    with pytest.raises(UserError, match=r"not a file, so it cannot be read"):
        web.mill()


def test_a_store_elsewhere_has_the_copies_too(web):
    """An object store keeps them, and a worker fetches them."""
    write(web.folder / "lists" / "blocked.txt", "a.org")
    write_lists(web, "lists")
    found = web.run(store="memory://lists-elsewhere")
    assert dropped_in(Store("memory://lists-elsewhere"), found) == 50


def test_paths_are_replaced_everywhere_in_a_config():
    """Fields, options, tuples and nested configs; everything else is unchanged."""
    gate = GateConfig(block_domains="/a", allow_licenses=("MIT",))
    assert placed_in(gate, str.upper) == GateConfig(block_domains="/A", allow_licenses=("MIT",))
    mix = MixConfig.model_validate(
        {"recipe": "x", "sources": {"a": "b"}, "continues": {"manifest": "/m.json", "at_sample": 3}}
    )
    placed = placed_in(mix, str.upper)
    assert placed.continues.manifest == "/M.JSON"
    assert placed.continues.at_sample == 3
    assert placed.recipe == "x"
