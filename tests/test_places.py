"""Where files lie: what a user writes is a URL or a path, and what was found stays what it was found as."""

import os
import re
import socket
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gristmill
from gristmill.errors import UserError
from gristmill.places import (
    FileLocation,
    exact,
    from_exact,
    is_url,
    local_path,
    place_of,
    shown,
    shown_exact,
    system_of,
)
from gristmill.shardformat import locations

ODD = ["a::b", "memory::x", "a b", "#1", "a?b", "100%", "%41", "[x]", "~", "~root", "-rf", "a\nb", "x://y", "'\"", "*"]


@pytest.mark.parametrize("name", ODD)
def test_a_path_is_a_path_whatever_is_in_it(tmp_path, name):
    """Nothing in a name makes it another file."""
    path = tmp_path / "folder::of" / name.replace("/", "_")
    path.parent.mkdir()
    path.write_text(name)
    for location in (str(path), f"file://{path}"):
        with place_of(location).open() as file:
            assert file.read().decode() == name
        system, found = system_of(location)
        assert system.cat_file(found).decode() == name


def test_what_was_found_elsewhere_is_not_parsed_again():
    """A key of an object store may hold `::`, which in a URL is a chain of file systems."""
    system = fsspec.filesystem("memory")
    system.pipe_file("/odd/a::b#1", b"content")
    with FileLocation("/odd/a::b#1", system).open() as file:
        assert file.read() == b"content"


@pytest.mark.parametrize("text", ["s3://bucket/x", "memory://x", "simplecache::s3://bucket/x", "file:///x"])
def test_a_scheme_makes_a_url(text):
    """And only one at the start."""
    assert is_url(text)
    assert not is_url(f"/{text}")
    assert not is_url(text.replace("://", ":"))


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
def test_anything_but_a_file_is_refused_without_waiting(tmp_path, kind, monkeypatch):
    """Reading a pipe that nobody writes to would never end."""
    monkeypatch.chdir(tmp_path)  # a socket's path is at most 108 bytes
    path = {"device": "/dev/null"}.get(kind, "x")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        os.mkdir(path)
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(path)
    with pytest.raises(UserError, match=f"is a {kind}, not a file"):
        FileLocation(path).open()


NAMES = st.binary(min_size=1, max_size=12).map(
    lambda name: name.replace(b"\0", b"!").decode("utf-8", "surrogateescape")
)


@given(st.lists(NAMES, unique=True, max_size=20))
def test_exact_names_are_text_and_stay_different(names):
    """Any bytes that may be a name: valid UTF-8 for records, and never two names in one."""
    assert len({exact(name).encode() for name in names}) == len(names)
    for name in names:
        shown(name).encode()
        assert shown_exact(exact(name)).encode()
        assert from_exact(exact(name)) == name


def test_one_place_opens_locations():
    """Whoever parses a location by himself takes a path for a URL some day."""
    source, plugins = Path(gristmill.__file__).parent, Path(__file__).parents[1] / "plugins"
    for path in sorted([*source.rglob("*.py"), *plugins.rglob("*.py")]):
        name = path.relative_to(source if source in path.parents else plugins).as_posix()
        if name.startswith("loader/") or name in ("shardformat/locations.py", "places.py", "engine/files/listing.py"):
            continue
        found = re.search(r"url_to_fs|fsspec\.open\(|fsspec\.core", path.read_text("utf-8"))
        assert found is None, f"{name}: {found and found[0]}; use gristmill.places"


def test_readers_open_their_files_in_one_way():
    """`piece.open()` compares what it reads with what was hashed; `piece.uri` is for messages."""
    source = Path(gristmill.__file__).parent / "stages" / "ingest"
    for path in sorted(source.glob("*.py")):
        assert not re.search(r"\.uri\b|\bopen\([^)]*\.(?:uri|path)", path.read_text("utf-8")), path.name


@pytest.mark.parametrize(
    "location",
    [
        *("s3://bucket/x", "simplecache::s3://b/x", "file:///x", "local:///x/y", "memory://x", "a/b://c", "/s3://x"),
        *("file::x", "weird::name", "http:/x", "1a://x", "./a://b", "C://x", "x y://z", "a::b/c://d", "://", ""),
    ],
)
def test_the_loader_takes_the_same_locations_for_paths(location):
    """It may not import this module, so it has the rule a second time."""
    path = local_path(location)
    assert locations.is_remote(location) == (path is None)
    if path is not None:
        assert locations.local_path(location) == os.path.abspath(path)


def test_a_manifest_may_lie_in_a_folder_with_an_odd_name(tmp_path):
    """`://` in the middle of a path is no address."""
    folder = tmp_path / "runs:" / "x"
    manifest = locations.manifest_at(f"{tmp_path}/runs://x/manifest.json")
    assert manifest == str(folder / "manifest.json")
    assert locations.beside(manifest, "odd://name.bin") == "odd://name.bin"
    assert locations.beside(manifest, "a/odd://name.bin") == f"{folder}/a/odd://name.bin"
