"""Members of archives are read like files in a folder, and large compressed files like plain ones, by many tasks."""

import gzip
import io
import json
import random
import shutil
import struct
import tarfile
import zipfile

import pytest
from backports import zstd

from gristmill import checked
from gristmill.engine.files.indexing import index_of
from gristmill.engine.mill import find_warnings
from gristmill.errors import UserError
from gristmill.query.lineage import origin
from gristmill.store.parquet import PartReader

WORDS = ("mill", "grist", "river", "stone", "wheel", "corn")


def lines(count, seed=1):
    draw = random.Random(seed)
    rows = ({"text": " ".join(draw.choices(WORDS, k=40)), "n": number} for number in range(count))
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def recipe(project, paths, read="format: jsonl", part_bytes="16KB"):
    project.recipe.write_text(
        f"recipe: packed\nstore: ./store\nsteps: []\nsources:\n  x: {{kind: text, read: {{{read}, "
        f"paths: {json.dumps(paths)}, part_bytes: {part_bytes}}}}}\n"
    )


def rows(project, run, *columns):
    found = []
    for document in run.documents["x"]:
        reader = PartReader(project.mill().store, document.part)
        for group in range(len(reader.groups)):
            table = reader.read_group(group, columns)
            found += zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    return found


def tar(members, mode="w"):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode=mode) as archive:
        for name, data in members:
            if isinstance(data, tarfile.TarInfo):
                archive.addfile(data)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return sink.getvalue()


def zipped(members, method=zipfile.ZIP_DEFLATED):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return sink.getvalue()


def zstd_frames(data, frame_bytes):
    return b"".join(zstd.compress(data[at : at + frame_bytes]) for at in range(0, len(data), frame_bytes))


PACKED = {
    "x.jsonl.gz": gzip.compress,
    "members.jsonl.gz": lambda data: gzip.compress(data[:70_001]) + gzip.compress(data[70_001:]) + b"\0" * 512,
    "x.jsonl.zst": lambda data: zstd_frames(data, 9_999),
}


@pytest.mark.parametrize("name", PACKED)
def test_a_large_compressed_file_is_one_task(project, name):
    """Documents, ids and locators are those of the plain file, which is cut into tasks."""
    data = lines(2000)
    found, tasks = [], []
    for folder, content in (("plain", data), ("packed", PACKED[name](data))):
        (project.folder / folder).mkdir()
        (project.folder / folder / name).write_bytes(content)
        recipe(project, [f"{folder}/{name}"])
        run = project.run()
        found.append(rows(project, run, "doc_id", "locator", "text"))
        tasks.append(len(run.inputs["x"].groups))
    assert found[0] == found[1]
    assert (len(found[0]), tasks[1]) == (2000, 1)


@pytest.mark.parametrize("damage", [lambda data: data[:-2000], lambda data: data + b"no gzip"])
def test_a_damaged_compressed_file_is_read_up_to_the_damage(project, damage):
    (project.folder / "x.jsonl.gz").write_bytes(damage(gzip.compress(lines(2000))))
    recipe(project, ["x.jsonl.gz"])
    run = project.run()
    dropped = [drop for (drop,) in rows(project, run, "drop") if drop]
    assert dropped in (["truncated_gzip"], ["corrupt_gzip"])


ARCHIVES = {
    "a.tar": tar,
    "a.tar.gz": lambda members: gzip.compress(tar(members)),
    "a.tgz": lambda members: gzip.compress(tar(members)),
    "a.tar.zst": lambda members: zstd_frames(tar(members), 1 << 30),
    "frames.tar.zst": lambda members: zstd_frames(tar(members), 5000),
    "a.tar.xz": lambda members: tar(members, "w:xz"),
    "a.zip": zipped,
    "stored.zip": lambda members: zipped(members, zipfile.ZIP_STORED),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_reads_like_a_folder_of_the_same_name(project, name):
    """Whatever the formats, sizes and order of its members: also compressed ones."""
    members = [
        ("z/late.jsonl", lines(30, 2)),
        ("b.jsonl", lines(700, 3)),
        *((f"many/{number:03}.jsonl", lines(3, number)) for number in range(40)),
        ("a.jsonl.gz", gzip.compress(lines(50, 4))),
        ("naïve name#1.jsonl", lines(2, 5)),
        ("empty.jsonl", b""),
    ]
    folder = project.folder / "data" / name
    for path, data in members:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    recipe(project, ["data/"])
    expected = rows(project, project.run(), "doc_id", "locator", "text", "drop")
    shutil.rmtree(folder)
    folder.write_bytes(ARCHIVES[name](members))
    recipe(project, [f"data/{name}"])
    run = project.run()
    assert sorted(rows(project, run, "doc_id", "locator", "text", "drop")) == sorted(expected)
    groups = run.inputs["x"].groups
    is_one_stream = name not in ("a.tar", "a.zip", "stored.zip")
    assert len(groups) == 1 if is_one_stream else len(groups) > 4
    if name in ("a.tar", "stored.zip"):
        assert sum(group.pieces[0].name.endswith("/b.jsonl") for group in groups) > 4
    document = run.documents["x"][-1]
    batch = PartReader(project.mill().store, document.part).read_group(0, ["doc_id", "locator"]).to_pylist()
    found = origin.origin_of(run, document, batch[0], None)
    assert batch[0]["locator"] == f"{found.file}#{found.start}"
    assert found.sha256 == run.inputs["x"].content[str(folder)].sha256


def test_patterns_select_members_and_other_formats_read_them(project):
    members = [("docs/a.md", b"# one"), ("docs/deep/b.md", b"two"), ("src/c.md", b"three"), ("docs/x.png", b"\x89PNG")]
    (project.folder / "one.zip").write_bytes(zipped(members))
    (project.folder / "two.tar").write_bytes(tar(members))
    (project.folder / "unnamed").mkdir()
    (project.folder / "unnamed" / "three.zip").write_bytes(zipped(members))
    for paths, expected in (
        (["*.zip/docs/*.md"], {"one.zip/docs/a.md"}),
        (["*.zip/docs"], {"one.zip/docs/a.md", "one.zip/docs/deep/b.md"}),
        (["one.zip/**/b.md", "two.tar/src"], {"one.zip/docs/deep/b.md", "two.tar/src/c.md"}),
    ):
        recipe(project, paths, "format: text")
        assert {locator.partition("#")[0] for (locator,) in rows(project, project.run(), "locator")} == expected
    recipe(project, ["two.tar"], "format: text, exclude: [two.tar/docs/deep, 'two.tar/**/c.*']")
    run = project.run()
    assert [locator for (locator,) in rows(project, run, "locator")] == ["two.tar/docs/a.md#0"]
    assert run.inputs["x"].unread["excluded"].files == 2
    assert ".png 1" in "\n".join(find_warnings(run))
    recipe(project, ["unnamed/"], "format: text")
    with pytest.raises(UserError, match="skips all of them"):
        project.run()
    recipe(project, ["one.zip/nothing/*.md"], "format: text")
    with pytest.raises(UserError, match="no member of an archive matches"):
        project.run()
    recipe(project, ["one.zip"], "format: pdf")
    with pytest.raises(UserError, match="because of their names"):
        project.run()


def reasons(project, name, data, read="format: text"):
    (project.folder / name).write_bytes(data)
    recipe(project, [name], read)
    return sorted(
        (drop, detail.partition(":")[0]) for drop, detail in rows(project, project.run(), "drop", "detail") if drop
    )


def link(name, kind):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return name, info


def test_what_cannot_be_read_of_an_archive_is_a_row_with_a_reason(project):
    good = ("good.md", b"good text")
    hostile = [("../up.md", b"x"), ("/abs.md", b"x"), ("in.zip", zipped([good])), ("in.tar.gz", b"x"), good]
    named = [("nested_archive", "in.tar.gz"), ("nested_archive", "in.zip"), ("unsafe_name", "../up.md")]
    named += [("unsafe_name", "/abs.md")]
    assert reasons(project, "a.zip", zipped(hostile)) == named
    links = [link("soft.md", tarfile.SYMTYPE), link("hard.md", tarfile.LNKTYPE), link("pipe.md", tarfile.FIFOTYPE)]
    found = reasons(project, "a.tar", tar([*hostile, *links]))
    assert found == sorted([*named, *(("not_a_file", f"{one}.md") for one in ("soft", "hard", "pipe"))])
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = zipped([("a.md", b"first"), ("a.md", b"second")])
    assert reasons(project, "twice.zip", twice) == [("duplicate_member", "a.md")]
    assert rows(project, project.run(), "text", "drop")[0] == ("second", None)
    secret = bytearray(zipped([good, ("secret.md", b"x" * 99)]))
    at = secret.rfind(b"PK\1\2")
    secret[at + 8] |= 1
    assert reasons(project, "secret.zip", bytes(secret)) == [("encrypted", "secret.md")]
    whole = tar([good, ("b.md", b"y" * 2000)])
    assert reasons(project, "cut.tar", whole[:2000]) == [("truncated_archive", "b.md")]
    broken = bytearray(tar([good, ("b.md", b"y")]))
    broken[1024:1100] = b"\xff" * 76
    assert reasons(project, "bad.tar", bytes(broken)) == [
        ("corrupt_tar", "no member begins at byte 1024 of the archive; the rest is not read")
    ]
    with pytest.raises(UserError, match="not_an_archive"):
        reasons(project, "no.zip", b"plain text")


@pytest.mark.parametrize(
    ("name", "data"), [("a.zip", zipped([])), ("a.tar", tar([])), ("b.zip", zipped([("d/", b"")]))]
)
def test_an_archive_without_files_says_so(project, name, data):
    """It is not `neither a zip nor a tar archive`."""
    with pytest.raises(UserError, match=r"empty_archive.*the archive has no files"):
        reasons(project, name, data)


def test_a_tar_file_of_headers_alone_is_a_row(project):
    """Each of thousands of long names in a row would be a call within the call for the one before."""
    name = tarfile.TarInfo("././@LongLink")
    name.type, name.size = tarfile.GNUTYPE_LONGNAME, 512
    whole = tarfile.TarInfo("e.txt")
    data = (name.tobuf() + b"q" * 512) * 5000 + whole.tobuf() + b"\0" * 1024
    found = reasons(project, "l.tar", tar([("good.md", b"good text")])[:1024] + data)
    assert found == [("corrupt_tar", "more than 100 headers for one member")]


def test_zip_bombs_are_bounded_by_what_they_declare(project):
    """Overlapping members, a size that lies, and damage within a member: rows with reasons, and no more bytes."""
    flat = bytearray(zipped([("a.md", b"a" * 500), ("b.md", b"b" * 500)]))
    second = flat.rfind(b"PK\1\2")
    flat[second + 42 : second + 46] = struct.pack("<I", 3)  # the header of b.md is said to be within a.md
    assert ("overlapping_member", "a.md") in reasons(project, "flat.zip", bytes(flat))
    lies = bytearray(zipped([("good.md", b"fine"), ("lie.md", b"\n" * 10_000_000)]))
    central = lies.rfind(b"PK\1\2")
    lies[central + 24 : central + 28] = struct.pack("<I", 100)
    assert reasons(project, "lies.zip", bytes(lies))[0][0] == "corrupt_zip"
    bad = bytearray(zipped([("good.md", b"fine"), ("bad.md", lines(40))]))
    at = bad.find(b"bad.md") + 200
    bad[at : at + 9] = b"\xff" * 9
    assert [reason for reason, _ in reasons(project, "bad.zip", bytes(bad))] == ["corrupt_zip"]
    assert index_of(io.BytesIO(flat[:-30])).faults[0][1] == "truncated_archive"


@pytest.mark.slow
def test_workers_change_no_byte(project):
    """Each process unpacks what it needs, whatever the others read."""
    (project.folder / "a.jsonl.zst").write_bytes(zstd_frames(lines(900), 30_000))
    members = [(f"{number:03}.jsonl", lines(20, number)) for number in range(60)]
    (project.folder / "b.tar.gz").write_bytes(gzip.compress(tar(members)))
    recipe(project, ["a.jsonl.zst", "b.tar.gz"])
    expected = project.parts(project.run(store=str(project.folder / "one")))
    assert project.parts(project.run(2, store=str(project.folder / "two"))) == expected


@pytest.mark.parametrize("pack", [zipped, tar])
def test_an_archive_of_many_members_is_checked_once(project, pack, monkeypatch):
    """Each member would read and hash the block of four megabytes that it is in."""
    blocks = []
    load = checked._CheckedFile._load
    monkeypatch.setattr(checked._CheckedFile, "_load", lambda file, number: blocks.append(number) or load(file, number))
    name = f"many.{'zip' if pack is zipped else 'tar'}"
    data = pack([(f"{number}.txt", f"member {number} of the archive".encode()) for number in range(60)])
    (project.folder / name).write_bytes(data)
    recipe(project, [name], "format: text", part_bytes="64MB")
    assert len(rows(project, project.run(), "text")) == 60
    assert len(blocks) < 10
