import gzip
import json

import pytest

from gristmill.stages.contract import Piece
from gristmill.stages.ingest import text, whole_file
from gristmill.stages.ingest.decode import decode
from gristmill.stages.ingest.front_matter import first_heading, split_front_matter
from gristmill.stages.reading.decompress import ReadFault


def row(tmp_path, name, data, **config):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    [found] = text.read(Piece(str(path), name), text.Config(**config))
    return found


def test_file_is_one_document(tmp_path):
    """A file is one record at position 0, whole and unchanged, with the type of its suffix."""
    found = row(tmp_path, "a.txt", "one\r\ntwo\f\n\n")
    assert (found.position, found.text, found.content_type, found.charset) == (
        0,
        "one\r\ntwo\f\n\n",
        "text/plain",
        "utf-8",
    )
    assert (found.title, found.meta, found.drop) == (None, None, None)


def test_piece_beyond_the_start_is_empty(tmp_path):
    """The one record belongs to the piece that holds position 0, and to no other."""
    (tmp_path / "a.txt").write_text("a")
    for start, stop, count in ((0, 1, 1), (0, 0, 0), (1, None, 0)):
        assert len(list(text.read(Piece(str(tmp_path / "a.txt"), "a.txt", start, stop), text.Config()))) == count


def test_compressed_file_is_unpacked(tmp_path):
    """`notes.md.gz` is Markdown, and a cut one is a row that says so."""
    packed = gzip.compress(b"# Title\n\nbody")
    assert row(tmp_path, "notes.md.gz", packed).title == "Title"
    assert row(tmp_path, "notes.md.gz", packed[:-9]).drop == "truncated_gzip"


def test_text_that_begins_as_an_archive_might_is_text(tmp_path):
    """`BZh9` begins a bzip2 file only if a block follows it."""
    assert row(tmp_path, "a.txt", "BZh9 is how bzip2 files begin").text == "BZh9 is how bzip2 files begin"


def test_front_matter_goes_to_meta(tmp_path):
    """YAML front matter is moved from the text to `meta`, gives the title, and stays in the text with `keep`."""
    source = '---\ntitle: "A: b"\ndate: 2013-05-18\ntags: [x, y]\n---\n\n# Heading\nbody\n'
    found = row(tmp_path, "a.md", source)
    assert (found.title, found.text) == ("A: b", "\n# Heading\nbody\n")
    assert json.loads(found.meta) == {"title": "A: b", "date": "2013-05-18", "tags": ["x", "y"]}
    kept = row(tmp_path, "a.md", source, front_matter="keep")
    assert (kept.text, kept.title, kept.meta) == (source, found.title, found.meta)
    assert row(tmp_path, "a.txt", source).text == source


@pytest.mark.parametrize(
    "source",
    [
        "---\nonly a ruler\n\n---\nbody",
        "---\ntitle: [unclosed\n---\nbody",
        "---\na: b\nnever closed",
        "---\n- a list\n---\nbody",
        "---\na: &x [1]\nb: *x\n---\nbody",
        "---\na: " + "[" * 3000 + "]" * 3000 + "\n---\nbody",
        "---\ndate: 2013-99-99\n---\nbody",
        "---\n? [a]\n: b\n---\nbody",
        "--- \x01\n---\n",
        "---\n---\nbody",
    ],
)
def test_other_text_between_rulers_stays_in_the_text(source):
    """Rulers, broken YAML, aliases that could expand, and endless nesting are text."""
    assert split_front_matter(source) == ({}, source)


@pytest.mark.parametrize(
    ("kind", "source", "title"),
    [
        ("text/markdown", "intro\n\n## Two ##\n# One", "Two"),
        ("text/markdown", "```\n# comment\n```\n~~~\n# no\n~~~\n# Yes", "Yes"),
        ("text/markdown", "Title\n=====\n", "Title"),
        ("text/markdown", "# C#\n", "C#"),
        ("text/markdown", "- a list\n---\n#hashtag\nno heading", None),
        ("text/markdown", "# " + " " * 100_000 + "x", None),
        ("text/x-rst", "=====\nTitle\n=====\n\ntext", "Title"),
        ("text/x-rst", ".. note::\n\nA longer line\n---\n\nTitle\n~~~~~", "Title"),
        ("text/asciidoc", "= Title\n", "Title"),
        ("text/org", "#+TITLE: Title\n* One", "Title"),
        ("text/x-tex", "% \\title{no}\n\\title{Yes}", "Yes"),
        ("text/plain", "# no markup", None),
    ],
)
def test_title_is_the_first_heading(kind, source, title):
    """The first heading of each markup, outside code, is the title; plain text has no title."""
    assert first_heading(source, kind) == title


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty_file"),
        (b" \n\t\n", "empty_file"),
        (b"---\ntitle: a\n---\n\n", "empty_text"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "binary_file"),
        (bytes(range(1, 32)) * 9, "binary_file"),
        ("eine längere Zeile mit Ü und ß".encode().replace(b"\xc3\x9f", b"\xff"), "invalid_utf8"),
    ],
)
def test_a_file_that_is_not_text_is_a_row_with_a_reason(tmp_path, data, reason):
    """Empty, binary and damaged files are rows with reasons."""
    assert row(tmp_path, "a.md", data).drop == reason


def test_large_file_is_dropped_by_size(tmp_path):
    """The limit counts decompressed bytes."""
    assert row(tmp_path, "a.txt.gz", gzip.compress(b"a" * 1001), max_record_bytes="1KB").drop == "record_too_large"
    assert row(tmp_path, "a.txt.gz", gzip.compress(b"a" * 1000), max_record_bytes="1KB").drop is None


PROSE = {
    "iso8859-1": "Grüße aus Köln: die schöne Straße, die süßen Früchte und die größten Bäume. " * 8,
    "koi8-r": "Съешь же ещё этих мягких французских булок да выпей чаю. " * 8,
    "shift_jis": "いろはにほへとちりぬるを。色は匂えど散りぬるを我が世誰ぞ常ならむ。" * 8,
}


@pytest.mark.parametrize("charset", ["utf-8-sig", "utf-16", "utf-32", "utf-16-be"])
def test_byte_order_mark_decides(charset):
    """A file that begins with a mark is decoded by it, and the mark is not part of the text."""
    mark = b"\xfe\xff" if charset == "utf-16-be" else b""
    found, name = decode(mark + PROSE["koi8-r"].encode(charset))
    assert found == PROSE["koi8-r"]
    assert name.startswith("utf-")


@pytest.mark.parametrize("charset", PROSE)
def test_old_charsets_are_detected(charset):
    """Text in an 8-bit or double-byte charset is decoded correctly without a declaration."""
    assert decode(PROSE[charset].encode(charset))[0] == PROSE[charset]


def test_a_declared_charset_is_used():
    """A coding line decides if the bytes are not UTF-8; a name that is not a text codec is ignored."""
    assert decode("# -*- coding: cp1251 -*-\nЯ".encode("cp1251")) == ("# -*- coding: cp1251 -*-\nЯ", "cp1251")
    assert decode(b"# coding: unicode_escape\n\\ud800 \xe9t\xe9 d\xe9j\xe0 vu")[0].endswith("\\ud800 été déjà vu")


@pytest.mark.parametrize("data", ["größere Bäume über Köln".encode() + b"\xff", "ein ü".encode() + b" caf\xe9 "])
def test_damaged_utf8_is_not_taken_for_latin1(data):
    """A file that is UTF-8 except for a few bytes is a fault: a guess would spoil every other letter."""
    with pytest.raises(ReadFault, match="invalid_utf8"):
        decode(data)


def test_files_are_chosen_by_suffix():
    """Suffixes count in any case, before a compression suffix; folders of version control never count."""
    config = text.Config()
    assert all(whole_file.wanted(name, config) for name in ("a.txt", "b/C.MD", "d.rst.gz", ".hidden/e.txt"))
    assert not any(whole_file.wanted(name, config) for name in ("a.py", "txt", "b.gz", ".git/a.txt", "x/.svn/b/c.md"))
    assert whole_file.wanted("b/README", text.Config(suffixes=("",)))
