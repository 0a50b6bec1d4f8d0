"""Which files a source has, and how they are cut and grouped: by their names and sizes alone."""

import itertools
import os
import random
import signal
import socket
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.engine.files.grouping import group_files
from gristmill.engine.files.listing import InputFile
from gristmill.engine.files.tree import ANYTHING, Folders, ListingStopped, list_tree
from gristmill.engine.mill import find_warnings
from gristmill.errors import UserError
from gristmill.stages.ingest import jsonl
from gristmill.stages.reading.stream import COMPRESSED_SUFFIXES

SPLITTABLE = replace(jsonl.STAGE, splittable=True)
WHOLE = replace(jsonl.STAGE, splittable=False)
PART = 1000


def files_of(sizes, snapshot=None, prefix="f"):
    return [
        InputFile(f"/x/{prefix}{n:04}", f"{prefix}{n:04}", size, snapshot, "", None) for n, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("suffix", ["", *COMPRESSED_SUFFIXES, ".GZ"])
def test_only_plain_files_are_cut(suffix):
    """A compressed stream can only be read from its start."""
    (file,) = files_of([10 * PART])
    groups = list(group_files([replace(file, name=file.name + suffix)], PART, SPLITTABLE))
    assert len(groups) == 1 if suffix else len(groups) > 5


@given(st.lists(st.integers(0, 5000), max_size=60))
def test_every_byte_of_every_file_is_in_exactly_one_piece(sizes):
    """Nothing is read twice and nothing is left out."""
    files = files_of(sizes)
    stretches: dict[str, list[tuple[int, int]]] = {}
    for group in group_files(files, PART, SPLITTABLE):
        for piece in group.pieces:
            size = next(file.size for file in files if file.name == piece.name)
            stretches.setdefault(piece.name, []).append((piece.start, size if piece.stop is None else piece.stop))
    for file in files:
        found = sorted(stretches[file.name])
        assert found[0][0] == 0
        assert found[-1][1] == file.size
        assert all(one[1] == two[0] for one, two in itertools.pairwise(found))


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=60))
def test_a_file_that_cannot_be_entered_in_the_middle_stays_whole(sizes):
    """One piece per file."""
    groups = list(group_files(files_of(sizes), PART, WHOLE))
    assert sorted(piece.name for group in groups for piece in group.pieces) == [file.name for file in files_of(sizes)]
    assert all(piece.start == 0 and piece.stop is None for group in groups for piece in group.pieces)


def test_groups_of_small_files_stay_near_the_part_size():
    """Thousands of small files become tasks of about one part, not thousands of tasks."""
    groups = list(group_files(files_of([10] * 5000), PART, WHOLE))
    sizes = [10 * len(group.pieces) for group in groups]
    assert max(sizes) <= PART
    assert 50 <= len(groups) <= 250


def test_a_new_file_changes_few_groups():
    """Most groups of a long list of files are the same after an insertion in the middle."""
    draw = random.Random(5)
    files = files_of([draw.randint(1, 40) for _ in range(3000)])
    new = InputFile("/x/f1500a", "f1500a", 25, None, "", None)
    before = {group.pieces for group in group_files(files, PART, WHOLE)}
    after = {group.pieces for group in group_files(sorted([*files, new], key=lambda file: file.name), PART, WHOLE)}
    assert len(after - before) <= 4
    assert len(before) > 50


@pytest.mark.parametrize("suffix", [*COMPRESSED_SUFFIXES, ".lz4", ".parquet", ".GZ"])
def test_a_compressed_file_is_taken_to_hold_more_by_any_of_its_names(suffix):
    """Readers unpack `.gzip` and `.zstd` as well, so a part of such files is as large as one of `.gz`."""
    plain, packed = (InputFile(f"/x/{name}", name, 100, None, "", None) for name in ("a.jsonl", f"a.jsonl{suffix}"))
    assert (plain.payload_guess, packed.payload_guess) == (100, 400)


def test_snapshots_are_not_mixed_in_a_group():
    """A per-snapshot step never has to split a part."""
    files = sorted(files_of([5] * 50, "a", "x") + files_of([5] * 50, "b", "y"), key=lambda file: file.name)
    for group in group_files(files, PART, WHOLE):
        names = {piece.name[0] for piece in group.pieces}
        assert len(names) == 1
        assert {"a": {"x"}, "b": {"y"}}[group.snapshot] == names


def test_files_of_many_snapshots_are_grouped_in_one_pass():
    """With one snapshot per file, every file is visited once, not once per snapshot."""

    class Counted(InputFile):
        looks = 0

        @property
        def payload_guess(self):
            Counted.looks += 1
            return super().payload_guess

    def looks_of(count):
        Counted.looks = 0
        files = [Counted(f"/x/{n}", f"{n}", 5, f"s{n}", "", None) for n in range(count)]
        assert len(list(group_files(files, PART, WHOLE))) == count
        return Counted.looks

    assert looks_of(2000) == 2 * looks_of(1000)


# Links, second names, and entries that are not files


def names(project, pattern, links="inside", exclude=""):
    """The names of a source's files, and the warnings of the run about skipped entries."""
    read = f", links: {links}" + (f", exclude: ['{exclude}']" if exclude else "")
    project.write_recipe(steps="  - stagebox.length", pattern=pattern, read=read)
    run = project.run(until="ingest")
    return sorted(file.name for file in run.inputs["notes"].files.values()), find_warnings(run)


@pytest.fixture
def farm(project):
    """A folder of links to data elsewhere, as many labs have."""
    real = project.folder / "elsewhere"
    real.mkdir()
    for number in range(2):
        (project.folder / "in" / f"0{number}.jsonl").rename(real / f"{number}.jsonl")
    made = project.folder / "farm"
    made.mkdir()
    (made / "own.jsonl").write_text('{"text": "a mill"}\n')
    (made / "snapshot").symlink_to(real)
    (made / "one.jsonl").symlink_to(project.folder / "in" / "02.jsonl")
    (real / "round").symlink_to(made)
    return made


@pytest.mark.parametrize("pattern", ["farm", "farm/*", "farm/**"])
def test_links_out_of_the_tree_are_not_followed_and_give_a_warning(project, farm, pattern):
    """Entries of an input tree must not lead out of it."""
    found, warned = names(project, pattern)
    assert found == ["own.jsonl"]
    assert "links lead out of the source's folder; set `links: follow`" in warned[0]


def test_a_source_may_follow_links_out_of_the_tree(project, farm):
    """Each file is read once, and cycles end."""
    assert names(project, "farm", "follow")[0] == ["one.jsonl", "own.jsonl", "snapshot/0.jsonl", "snapshot/1.jsonl"]
    assert names(project, "farm/*/*.jsonl", "follow")[0] == ["snapshot/0.jsonl", "snapshot/1.jsonl"]
    assert names(project, "farm/**/*.jsonl", "follow")[0] == names(project, "farm", "follow")[0]


@pytest.mark.parametrize("pattern", ["farm/snapshot", "farm/snapshot/*.jsonl", "farm/one.jsonl"])
def test_a_path_in_the_recipe_may_be_a_link(project, farm, pattern):
    """It is the user's own, and the root of everything below it."""
    found, warned = names(project, pattern)
    assert found == (["one.jsonl"] if pattern.endswith("one.jsonl") else ["0.jsonl", "1.jsonl"])
    assert all("own.jsonl" not in message for message in warned)


def test_links_inside_the_tree_are_followed_once(project):
    """A file is read under its own name; a link adds nothing, and does not replace that name."""
    inside = project.folder / "in"
    before = names(project, "in")[0]
    (inside / "00-link.jsonl").symlink_to("03.jsonl")
    (inside / "0-folder").symlink_to(".")
    found, warned = names(project, "in")
    assert found == before
    assert "2 second names" in warned[0]
    (inside / ".kept").mkdir()
    (inside / "03.jsonl").rename(inside / ".kept" / "03.bin")
    (inside / "00-link.jsonl").unlink()
    (inside / "00-link.jsonl").symlink_to(".kept/03.bin")
    assert names(project, "in/*.jsonl")[0] == ["00-link.jsonl", "00.jsonl", "01.jsonl", "02.jsonl"]


def test_a_hard_link_is_a_second_name(project):
    """The first in the alphabet is read, the others are counted."""
    os.link(project.folder / "in" / "02.jsonl", project.folder / "in" / "00b.jsonl")
    found, warned = names(project, "in/*.jsonl")
    assert found == ["00.jsonl", "00b.jsonl", "01.jsonl", "03.jsonl"]
    assert "1 second name " in warned[0]
    assert "02.jsonl" in warned[0]


def test_a_file_that_two_patterns_find_is_read_once(project, edit):
    """Under the name that the first pattern gives it."""
    (project.folder / "in" / "sub").mkdir()
    (project.folder / "in" / "sub" / "x.jsonl").write_text('{"text": "a mill"}\n')
    project.write_recipe(steps="  - stagebox.length", pattern="in/sub/*.jsonl")
    edit(project.recipe, "['in/sub/*.jsonl']", "['in', 'in/sub/*.jsonl']")
    found = [file.name for file in project.run(until="ingest").inputs["notes"].files.values()]
    assert found == ["00.jsonl", "01.jsonl", "02.jsonl", "03.jsonl", "sub/x.jsonl"]


def test_files_skipped_because_of_their_suffix_give_a_warning(project):
    """A folder of code that is read as text must not look like a small folder of text. There is no warning if the
    recipe lists the suffixes or excludes the files, or for hidden files.
    """
    folder = project.folder / "code"
    (folder / ".git").mkdir(parents=True)
    for name in ("a.py", "b.PY", "c.cs", "d.txt", "e.doc", "LICENSE", ".DS_Store", ".git/x.sample"):
        (folder / name).write_text("a mill\n")
    read = "sources:\n  notes: {kind: text, read: {format: text, paths: [code, code/*]%s}}\n"

    def warned(more):
        project.recipe.write_text("recipe: few\nstore: ./store\n" + read % more + "steps: [stagebox.length]\n")
        return find_warnings(project.run(until="ingest"))

    (reported,) = warned("")
    assert "not read because of their suffixes: 5 of 6 files (.py 2, without any 1, .cs 1, .doc 1)" in reported
    assert "leave them out with `exclude`" in reported
    assert "`suffixes`" in reported
    assert "2 of 3 files" in warned(", exclude: ['code/*.[pP][yY]', code/LICENSE]")[0]
    assert warned(", suffixes: [.txt, .py]") == []


def test_files_of_records_are_no_code(project):
    """Each would be one document: in a tree they are skipped with a warning; named directly they are refused."""
    folder = project.folder / "code"
    (folder / "vendor").mkdir(parents=True)
    for name in ("a.py", "package.json", "b.jsonl", "c.CSV", "d.jsonl.gz", "e.parquet", "f.warc.gz", "vendor/g.csv"):
        (folder / name).write_text("mill = 1\n")

    def found(paths):
        project.recipe.write_text(
            f"recipe: few\nstore: ./store\nsources:\n  notes: {{kind: code, read: {{format: code, paths: {paths}}}}}\n"
            "steps: [stagebox.length]\n"
        )
        run = project.run(until="ingest")
        return sorted(file.name for file in run.inputs["notes"].files.values()), find_warnings(run)

    taken, (reported,) = found("[code]")
    assert taken == ["a.py", "package.json"]
    assert "not read because of their suffixes: 5 of 7 files (.jsonl 2, .csv 1, .parquet 1, .warc 1)" in reported
    formats = "; ".join(f"`format: {name}` for .{name}" for name in ("jsonl", "csv", "parquet", "warc"))
    assert f"in their own sources ({formats}), or leave them out with `exclude`" in reported
    for name, fits in (("b.jsonl", "jsonl"), ("c.CSV", "csv"), ("e.parquet", "parquet"), ("f.warc.gz", "warc")):
        with pytest.raises(UserError, match=f"skips all of them.*suggest `format: {fits}`"):
            found(f"[code/a.py, code/{name}]")


def test_links_to_nothing_and_to_themselves_give_a_warning(project):
    """They used to be skipped silently."""
    (project.folder / "in" / "self.jsonl").symlink_to("self.jsonl")
    (project.folder / "in" / "gone.jsonl").symlink_to("nowhere.jsonl")
    found, warned = names(project, "in/*.jsonl")
    assert len(found) == 4
    assert "2 links lead to nothing, or in a cycle" in warned[0]
    assert names(project, "in", exclude="in/[sg]*.jsonl")[1] == []


def rings(folder, count):
    """Folders that each contain a file and links to all others."""
    for one in range(count):
        (folder / str(one)).mkdir(parents=True)
        (folder / str(one) / "x.jsonl").write_text('{"text": "a mill"}\n')
        for other in range(count):
            if other != one:
                (folder / str(one) / f"to{other}").symlink_to(f"../{other}")


@pytest.mark.parametrize("links", ["inside", "follow"])
def test_rings_of_folders_end_at_once(project, links):
    """Nine folders have a million paths through each other and nine files."""
    rings(project.folder / "rings", 9)
    for pattern in ("rings", "rings/**/*.jsonl", "rings/**"):
        found, warned = names(project, pattern, links)
        assert found == [f"{n}/x.jsonl" for n in range(9)]
        assert "72 second names" in warned[0]


def test_a_listing_visits_every_entry_once(tmp_path, monkeypatch):
    """The test counts work, not time: folders that are listed, for rings of doubling size."""
    real, listed = os.scandir, []

    def counted(path):
        listed.append(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", counted)
    for count in (4, 8, 16):
        rings(tmp_path / str(count), count)
        for glob in (ANYTHING, ("**", "x.jsonl"), ("*", "*.jsonl")):
            listed.clear()
            tree = list_tree(str(tmp_path / str(count)), glob, follow=True, folders=Folders())
            assert len(tree.files) == count
            assert len(listed) == count + 1


def test_a_listing_ends_when_it_is_no_longer_needed(tmp_path):
    """A signal reaches a run that lists a large tree."""
    rings(tmp_path, 3)
    folders = Folders()
    folders.stopped.set()
    with pytest.raises(ListingStopped):
        list_tree(str(tmp_path), ANYTHING, follow=False, folders=folders)


@pytest.mark.slow
def test_a_signal_ends_a_run_that_is_listing(project):
    """The loop that receives signals continues while a thread lists."""
    script = (
        "import os, signal, sys\n"
        "from gristmill.engine.files import tree\n"
        "from gristmill.engine.mill import Interrupted, Mill, Silent\n"
        "from gristmill.recipe.load import load\n"
        "real = os.scandir\n"
        "def scan(path):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return real(path)\n"
        "mill = Mill(load(sys.argv[1]))\n"
        "tree.os = type(sys)('os')\n"
        "tree.os.__dict__.update(os.__dict__)\n"
        "tree.os.scandir = scan\n"
        "try:\n"
        "    mill.run(1, Silent())\n"
        "except Interrupted as stop:\n"
        "    print(stop)\n"
    )
    project.write_recipe(steps="  - lines: {min_words: 1}", pattern="in")
    done = subprocess.run([sys.executable, "-c", script, str(project.recipe)], capture_output=True, text=True)
    assert done.stdout.strip() == signal.SIGTERM.name, done.stderr


def test_pipes_sockets_and_devices_are_skipped_with_a_warning(project, monkeypatch):
    """Nothing waits for a pipe without a writer."""
    inside = project.folder / "in"
    os.mkfifo(inside / "pipe.jsonl")
    monkeypatch.chdir(inside)
    socket.socket(socket.AF_UNIX).bind("socket.jsonl")
    (inside / "link.jsonl").symlink_to("pipe.jsonl")
    for pattern in ("in", "in/*.jsonl"):
        found, warned = names(project, pattern)
        assert found == ["00.jsonl", "01.jsonl", "02.jsonl", "03.jsonl"]
        assert "3 pipes, sockets or devices skipped" in warned[0]


@pytest.mark.parametrize("path", ["in/pipe.jsonl", "/dev/zero"])
def test_a_pipe_or_device_that_is_named_is_refused(project, path):
    """One message before any work."""
    os.mkfifo(project.folder / "in" / "pipe.jsonl")
    with pytest.raises(UserError, match=r"sources\.notes: .* is a (pipe|device) and not a file.*Name a file or"):
        names(project, path)


def test_a_file_that_becomes_a_pipe_is_refused(project, monkeypatch):
    """Between listing and hashing."""
    from gristmill.engine.plan import inputs

    real = inputs.list_files

    def then_swap(*arguments):
        found = real(*arguments)
        (project.folder / "in" / "01.jsonl").unlink()
        os.mkfifo(project.folder / "in" / "01.jsonl")
        return found

    monkeypatch.setattr(inputs, "list_files", then_swap)
    with pytest.raises(UserError, match=r"01\.jsonl is a pipe, not a file"):
        project.run()


def test_a_pattern_of_nothing_but_links_says_so(project, farm):
    """The error names what was skipped."""
    (farm / "own.jsonl").unlink()
    with pytest.raises(UserError, match=r"no file.*Links out of it.*: 2, the first is .*one\.jsonl\..*links: follow"):
        names(project, "farm")


@settings(deadline=None)
@given(st.lists(st.sampled_from(["*", "**", "a", "b", "a*", "?"]), min_size=1, max_size=4))
def test_globs_match_like_pythons_glob(tmp_path_factory, segments):
    """Where there are no links, a glob finds what `glob` finds."""
    import glob

    root = tmp_path_factory.mktemp("globs")
    for path in ("a", "b/a", "b/b/a", "a1/b", "a1/a/b", ".h/a", "b/ab/a/b"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    found = glob.glob("/".join(segments), root_dir=root, recursive=True, include_hidden=True)
    expected = {f"{root}/{name}" for name in found if os.path.isfile(f"{root}/{name}")}
    assert set(list_tree(str(root), segments, follow=False, folders=Folders()).files) == expected


def test_links_to_scripts_and_styles_beside_pages_are_no_warning(project):
    """Documentation of Debian links them to shared copies; nobody expects a page reader to read them."""
    made, shared = project.folder / "site", project.folder / "shared"
    made.mkdir()
    shared.mkdir()
    (made / "index.html").write_text("<p>the mill stands by the river</p>")
    (made / "plain.css").write_text("p {}")
    for name in ("jquery.js", "basic.css", "logo.png"):
        (shared / name).write_text("x")
        (made / name).symlink_to(shared / name)
    project.write_recipe("  - extract", pattern="site")
    project.recipe.write_text(project.recipe.read_text().replace("format: jsonl", "format: html"))
    assert find_warnings(project.run()) == []
    (made / "more").symlink_to(shared)
    (made / "next.html").symlink_to(shared / "logo.png")
    assert [warning.name for warning in find_warnings(project.run())] == ["skipped_files"]
