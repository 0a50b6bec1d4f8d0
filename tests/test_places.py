"""Locations of files: a user writes a URL or a path, and a file that was found keeps its kind."""

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
    without_secrets,
)
from gristmill.shardformat import locations

ODD = ["a::b", "memory::x", "a b", "#1", "a?b", "100%", "%41", "[x]", "~", "~root", "-rf", "a\nb", "x://y", "'\"", "*"]


@pytest.mark.parametrize("name", ODD)
def test_a_path_is_a_path_with_any_characters(tmp_path, name):
    """No character in a name turns it into another file."""
    path = tmp_path / "folder::of" / name.replace("/", "_")
    path.parent.mkdir()
    path.write_text(name)
    for location in (str(path), f"file://{path}"):
        with place_of(location).open() as file:
            assert file.read().decode() == name
        system, found = system_of(location)
        assert system.cat_file(found).decode() == name


def test_a_location_that_was_found_is_not_parsed_again():
    """A key of an object store may contain `::`, which in a URL is a chain of file systems."""
    system = fsspec.filesystem("memory")
    system.pipe_file("/odd/a::b#1", b"content")
    with FileLocation("/odd/a::b#1", system).open() as file:
        assert file.read() == b"content"


@pytest.mark.parametrize("text", ["s3://bucket/x", "memory://x", "simplecache::s3://bucket/x", "file:///x"])
def test_a_scheme_makes_a_url(text):
    """Only a scheme at the start counts."""
    assert is_url(text)
    assert not is_url(f"/{text}")
    assert not is_url(text.replace("://", ":"))


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
def test_anything_but_a_file_is_rejected_without_waiting(tmp_path, kind, monkeypatch):
    """Reading a pipe without a writer would never end."""
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
    """For any bytes that may be a name: valid UTF-8 for records, and never one text for two names."""
    assert len({exact(name).encode() for name in names}) == len(names)
    for name in names:
        shown(name).encode()
        assert shown_exact(exact(name)).encode()
        assert from_exact(exact(name)) == name


def test_only_one_module_opens_locations():
    """Other code that parses a location would eventually mistake a path for a URL."""
    source, packages = Path(gristmill.__file__).parent, Path(__file__).parents[1] / "packages"
    for path in sorted([*source.rglob("*.py"), *packages.rglob("*.py")]):
        name = path.relative_to(source if source in path.parents else packages).as_posix()
        if name.startswith("loader/") or name in ("shardformat/locations.py", "places.py", "engine/files/listing.py"):
            continue
        found = re.search(r"url_to_fs|fsspec\.open\(|fsspec\.core", path.read_text("utf-8"))
        assert found is None, f"{name}: {found and found[0]}; use gristmill.places"


def test_readers_open_their_files_through_the_piece():
    """`piece.open()` compares the bytes it reads with their hash; `piece.uri` is for messages."""
    source = Path(gristmill.__file__).parent / "stages" / "ingest"
    for path in sorted(source.glob("*.py")):
        assert not re.search(r"\.uri\b|\bopen\([^)]*\.(?:uri|path)", path.read_text("utf-8")), path.name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:pw@host:80/a?X-Amz-Signature=pw#pw", "https://host:80/a"),
        ("s3://bucket/a*.gz", "s3://bucket/a*.gz"),
        ("two: http://t@h/x?a=b, and 'gs://b/k?c=d' (ftp://u:p@q)", "two: http://h/x and 'gs://b/k' (ftp://q)"),
        ("simplecache::s3://k:v@b/x", "simplecache::s3://b/x"),
        ("what? me@host, a/b?c=d and 50%", "what? me@host, a/b?c=d and 50%"),
        ("https://u:p/w@host/x", "https://host/x"),
    ],
)
def test_secrets_in_addresses_are_removed(text, expected):
    """The user's part, the query and the fragment of every URL in a text."""
    assert without_secrets(text) == expected


@pytest.mark.parametrize(
    "location",
    [
        *("s3://bucket/x", "simplecache::s3://b/x", "file:///x", "local:///x/y", "memory://x", "a/b://c", "/s3://x"),
        *("file::x", "weird::name", "http:/x", "1a://x", "./a://b", "C://x", "x y://z", "a::b/c://d", "://", ""),
    ],
)
def test_the_loader_treats_the_same_locations_as_paths(location):
    """It may not import this module, so it has a copy of the rule."""
    path = local_path(location)
    assert locations.is_remote(location) == (path is None)
    if path is not None:
        assert locations.local_path(location) == os.path.abspath(path)


def test_a_manifest_may_be_in_a_folder_with_an_unusual_name(tmp_path):
    """`://` in the middle of a path does not make it a URL."""
    folder = tmp_path / "runs:" / "x"
    manifest = locations.manifest_at(f"{tmp_path}/runs://x/manifest.json")
    assert manifest == str(folder / "manifest.json")
    assert locations.beside(manifest, "odd://name.bin") == "odd://name.bin"
    assert locations.beside(manifest, "a/odd://name.bin") == f"{folder}/a/odd://name.bin"
