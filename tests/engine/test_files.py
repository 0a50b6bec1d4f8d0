"""Inputs are cut and grouped by their names and sizes alone."""

import itertools
import random
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from gristmill.engine.files import InputFile, group_files

SPLITTABLE = SimpleNamespace(SPLITTABLE=lambda name: True)
WHOLE = SimpleNamespace(SPLITTABLE=lambda name: False)
PART = 1000


def files_of(sizes, snapshot=None, prefix="f"):
    return [
        InputFile(f"/x/{prefix}{n:04}", f"{prefix}{n:04}", size, snapshot, "", None) for n, size in enumerate(sizes)
    ]


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
    """One piece a file."""
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


def test_snapshots_are_not_mixed_in_a_group():
    """A per-snapshot step never has to split a part."""
    files = sorted(files_of([5] * 50, "a", "x") + files_of([5] * 50, "b", "y"), key=lambda file: file.name)
    for group in group_files(files, PART, WHOLE):
        names = {piece.name[0] for piece in group.pieces}
        assert len(names) == 1
        assert {"a": {"x"}, "b": {"y"}}[group.snapshot] == names


def test_links_are_followed_and_circles_end(project):
    """A folder of links to data, as labs have them: linked files and folders count, a link to a parent does not."""
    real = project.folder / "elsewhere"
    real.mkdir()
    for number in range(2):
        (project.folder / "in" / f"0{number}.jsonl").rename(real / f"{number}.jsonl")
    farm = project.folder / "farm"
    farm.mkdir()
    (farm / "snapshot").symlink_to(real)
    (farm / "one.jsonl").symlink_to(project.folder / "in" / "02.jsonl")
    (real / "round").symlink_to(farm)
    for pattern, names in {
        "farm": ["one.jsonl", "snapshot/0.jsonl", "snapshot/1.jsonl"],
        "farm/*/*.jsonl": ["snapshot/0.jsonl", "snapshot/1.jsonl"],
    }.items():
        project.write_recipe(steps="  - stagebox.length", pattern=pattern)
        run = project.run(until="ingest")
        found = sorted(file.name for file in run.inputs["notes"].files.values())
        assert found == names
