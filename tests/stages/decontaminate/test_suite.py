"""An eval suite depends only on its content, not on its packing. Unreadable files are named; no other is read."""

import bz2
import gzip
import json
import lzma
import os
import re

import pytest
from backports import zstd

from gristmill.errors import UserError
from gristmill.stages.decontaminate.suite import files as suite_files
from gristmill.stages.decontaminate.suite.suite import read_suite, read_with_counts
from gristmill.stages.reading import archive as suite_archive

ITEMS = [{"q": f"How many sacks are {n} sacks and one more?", "a": str(n + 1)} for n in range(12)]


def lines(items):
    return "".join(json.dumps(item) + "\n" for item in items).encode()


def write(folder, files, entry="{files: q.jsonl, question: q, answer: a}", version="1"):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (folder / "suite.yaml").write_text(f"suite: s\nversion: {version}\nbenchmarks:\n  b: {entry}\n")
    return str(folder)


DATA = lines(ITEMS)
HALVES = {"x/1.jsonl": lines(ITEMS[6:]), "x/2.jsonl": lines(ITEMS[:6])}
CSV = "q,a\r\n" + "".join(f'"{item["q"]}",{item["a"]}\r\n' for item in ITEMS)
LAYOUTS = {
    "plain": ({"q.jsonl": DATA}, "{files: q.jsonl, question: q, answer: a}"),
    "gzip": ({"q.jsonl.gz": gzip.compress(DATA)}, "{files: q.*, question: q, answer: a}"),
    "bzip2": ({"q.jsonl.bz2": bz2.compress(DATA)}, "{files: q.*, question: q, answer: a}"),
    "xz": ({"q.jsonl.xz": lzma.compress(DATA)}, "{files: q.*, question: q, answer: a}"),
    "zstd": ({"q.jsonl.zst": zstd.compress(DATA)}, "{files: q.*, question: q, answer: a}"),
    "two files": (HALVES, '{files: ["x/1.jsonl", "x/2.*"], question: q, answer: a}'),
    "folder": (HALVES, "{files: x/, question: q, answer: a}"),
    "array": ({"q.json": json.dumps(ITEMS, indent=1).encode()}, "{files: q.json, question: q, answer: a}"),
    "a file an item": (
        {f"i/{n:02}.json": json.dumps(item).encode() for n, item in enumerate(ITEMS)},
        '{files: "i/*.json", question: q, answer: a}',
    ),
    "csv": ({"q.csv": CSV.encode()}, "{files: q.csv, question: q, answer: a}"),
    "tsv": ({"q.tsv": CSV.replace(",", "\t").encode()}, "{files: q.tsv, question: q, answer: a}"),
    "no suffix": ({"data": DATA}, "{files: data, format: jsonl, question: q, answer: a}"),
    "all files": ({"q.jsonl": DATA, ".hidden": b"x"}, '{files: "*", question: q, answer: a}'),
    "twice": ({"q.jsonl": DATA + DATA}, "{files: q.jsonl, question: q, answer: a}"),
    "template": ({"q.jsonl": DATA}, '{files: q.jsonl, question: "{q}", answer: " {a} "}'),
}


HASH = "57b0919ad04d08fa3f175a7b89b6f22b49f386ba6b285c551465afc53d8e0f4a"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_hash_depends_only_on_the_content(tmp_path, layout):
    """Packing, splitting, order, ids and file names do not change the hash."""
    plain = read_suite(write(tmp_path / "plain", *LAYOUTS["plain"]))
    other = read_suite(write(tmp_path / "other", *LAYOUTS[layout]))
    assert other.hash == plain.hash
    assert plain.hash == HASH, "recipes that pin it would have to be changed"
    assert sorted(item.digest for item in other.items) == sorted(item.digest for item in plain.items)
    assert len(other.items) == len(ITEMS)
    assert {item.benchmark for item in other.items} == {"b"}


@pytest.mark.parametrize(
    ("files", "entry", "version"),
    [
        ({"q.jsonl": lines(ITEMS[1:])}, "{files: q.jsonl, question: q, answer: a}", "1"),
        ({"q.jsonl": DATA}, "{files: q.jsonl, question: q}", "1"),
        ({"q.jsonl": DATA}, "{files: q.jsonl, question: q, answer: a}", "2"),
    ],
)
def test_another_content_has_another_hash(tmp_path, files, entry, version):
    """The hash changes with an item, a field and the version."""
    plain = read_suite(write(tmp_path / "plain", *LAYOUTS["plain"]))
    assert read_suite(write(tmp_path / "other", files, entry, version)).hash != plain.hash


def test_items_are_in_order_and_ids_are_unique(tmp_path):
    """Items are sorted by benchmark and in file order; a duplicate id gets a number, and a missing id is the file and
    row.
    """
    records = [{"q": "one", "id": "x"}, {"q": "two", "id": "x"}, {"q": "three"}, {"q": "one", "id": "y"}]
    folder = write(tmp_path, {"q.jsonl": lines(records)}, "{files: q.jsonl, question: q, id: id}")
    suite, counts = read_with_counts(folder)
    assert [(item.id, item.question) for item in suite.items] == [("x", "one"), ("x#2", "two"), ("q.jsonl:3", "three")]
    assert counts["b"].duplicates == 1


BAD = {
    "unknown field": (
        "{files: q.jsonl, qestion: q}",
        r"suite.yaml:4: 'qestion' is not a field .* Did you mean question\?",
    ),
    "no question": ("{files: q.jsonl}", "suite.yaml:4: b does not say which field is the question"),
    "no such field": ("{files: q.jsonl, question: z}", r"(?s)12 records.*q.jsonl:1: nothing under z; there are .*more"),
    "unknown description": ("{files: q.jsonl, like: gsm8}", "no ready description 'gsm8'. Did you mean gsm8k"),
    "two descriptions": ("{files: q.jsonl, like: gsm8k, question: q}", "sets both like and question"),
    "wrong form": (
        "{files: q.jsonl, like: arc}",
        "q.jsonl matches none of the known forms.* first record has q, a; the forms need",
    ),
    "no file": ("{files: p.jsonl, question: q}", "no file matches 'p.jsonl' below .*it contains"),
    "outside": ("{files: ../q.jsonl, question: q}", "is outside the folder"),
    "absolute": ("{files: /etc/passwd, question: q}", "is outside the folder"),
    "unknown format": ("{files: odd.bin, question: q}", "the format of odd.bin is not clear from its name"),
    "archive": ("{files: x.tar, question: q}", "the format of x.tar is not clear .*unpack or convert the file"),
    "idle labels": ("{files: q.jsonl, question: q, labels: a}", "labels has no effect without answer_choice"),
    "idle blank": ("{files: q.jsonl, question: q, blank: true}", "blank has no effect without choices"),
    "two answers": (
        "{files: q.jsonl, question: q, answer: a, choices: a, answer_choice: a}",
        "answer and answer_choice",
    ),
    "open brace": ('{files: q.jsonl, question: "{q"}', "has braces without a path in them"),
    "choice that is none": (
        "{files: q.jsonl, question: q, choices: [a], answer_choice: a}",
        "is not one of the choices",
    ),
    "list for text": ("{files: list.jsonl, question: q}", "q is a list, not text; name a value in it"),
    "empty question": ("{files: empty.jsonl, question: q}", r"(?s)1 record.*empty.jsonl:2: no question: q is empty"),
    "no item": ("{files: none.jsonl, question: q}", "it has no items"),
    "no mapping": ("[1]", "a benchmark must be a mapping"),
    "cut line": ("{files: cut.jsonl, question: q}", r"(?s)cut.jsonl:2: .*invalid_json"),
    "cut gzip": ("{files: cut.jsonl.gz, question: q}", "truncated_gzip"),
    "cut array": ("{files: cut.json, question: q}", "cut.json cannot be read to its end"),
    "open quote": ("{files: quote.csv, question: q}", "quote.csv cannot be read to its end.*unexpected end of data"),
    "short row": ("{files: short.csv, question: q}", r"(?s)short.csv:1: 1 fields instead of 2 \(wrong_field_count\)"),
    "not utf-8": ("{files: latin.csv, question: q}", "latin.csv cannot be read to its end.*utf-8"),
    "no parquet": ("{files: p.parquet, question: q}", "not_parquet"),
    "deep": ("[" * 5000, "nested too deeply"),
    "tag": ("!!python/object/apply:os.system [echo]", "is not allowed|not valid YAML"),
    "nul": ('{files: "a\\0b", question: q}', "an invalid character|is not valid YAML"),
    "twice": ("{files: q.jsonl, files: q.jsonl}", "'files' appears twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_one_message_with_its_line(tmp_path, case):
    """Unknown fields, missing files, records that are not items, damaged archives."""
    entry, message = BAD[case]
    files = {
        "q.jsonl": DATA,
        "odd.bin": DATA,
        "x.tar": DATA,
        "list.jsonl": lines([{"q": ["a"]}]),
        "empty.jsonl": lines([{"q": "well?"}, {"q": " "}]),
        "none.jsonl": b"",
        "cut.jsonl": DATA[:100],
        "cut.jsonl.gz": gzip.compress(DATA)[:-20],
        "cut.json": json.dumps(ITEMS).encode()[:-1],
        "quote.csv": b'q\n"well',
        "short.csv": b"q,a\nwell\n",
        "latin.csv": "q\nM\xfchle\n".encode("latin-1"),
        "p.parquet": DATA,
    }
    with pytest.raises(UserError, match=message) as raised:
        read_suite(write(tmp_path, files, entry))
    assert str(raised.value).startswith(f"{tmp_path}/suite.yaml:")


def test_a_wrong_name_is_explained_in_words(tmp_path):
    """A pattern is not an explanation."""
    folder = write(tmp_path, {"q.jsonl": DATA}, "{files: q.jsonl, question: q}")
    path = tmp_path / "suite.yaml"
    path.write_text(re.sub("^suite: .*", "suite: my suite", path.read_text(), flags=re.M))
    with pytest.raises(UserError, match=r"suite\.yaml:\d: suite: 'my suite' is not allowed\. Use up to 100 of A-Z a-z"):
        read_suite(folder)


ROWS = [{"q": f"How many grains are {n} and {n * n}?"} for n in range(1000)]
JSON = json.dumps(ROWS).encode()
DAMAGED = {
    "q.jsonl.gz": gzip.compress(lines(ROWS))[:-2000],
    "q.parquet": b"PAR1 and no more",
    "open.json": JSON.replace(b'and 16?"', b"and 16?"),
    "cut.json": JSON[: JSON.index(b"and 16?") + 11],
    "two.json": JSON.replace(b'and 16?"', b"and 16?").replace(b'and 100?"', b"and 100?"),
    "q.csv": b'q\nfirst\n"second\n' + b"row\n" * 50,
    "one.json": JSON[1:50],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_never_allowed(tmp_path, name):
    """The number of lost records is unknown."""
    with pytest.raises(UserError, match=r"cannot be read to its end"):
        read_suite(write(tmp_path, {name: DAMAGED[name]}, f"{{files: {name}, question: q}}"))


def test_aliases_cannot_expand_a_file(tmp_path):
    """A billion laughs are refused before they are built."""
    laughs = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
    (tmp_path / "suite.yaml").write_text(f"l0: &l0 [ha]\n{laughs}")
    with pytest.raises(UserError, match="aliases expand this file"):
        read_suite(str(tmp_path))


def test_a_folder_without_a_description_is_refused(tmp_path):
    """The message names the file that is missing, also if there is no folder."""
    for folder in (tmp_path, tmp_path / "no"):
        with pytest.raises(UserError, match=r"no suite\.yaml in this folder"):
            read_suite(str(folder))


def test_the_file_may_be_named_instead_of_its_folder(tmp_path, monkeypatch):
    """A folder may also be named from within it."""
    folder = write(tmp_path, *LAYOUTS["plain"])
    monkeypatch.chdir(tmp_path)
    hashes = {read_suite(name).hash for name in (folder, f"{folder}/suite.yaml", ".", "suite.yaml")}
    assert len(hashes) == 1


def test_links_that_leave_the_folder_are_not_followed(tmp_path):
    """Links to a file or a folder outside are not followed; a link within the folder is."""
    (tmp_path / "secret.jsonl").write_bytes(DATA)
    folder = write(tmp_path / "suite", {"real.jsonl": DATA})
    os.symlink(tmp_path / "secret.jsonl", tmp_path / "suite" / "q.jsonl")
    with pytest.raises(UserError, match=r"q\.jsonl is a link to a file outside"):
        read_suite(folder)
    os.remove(tmp_path / "suite" / "q.jsonl")
    os.symlink(tmp_path, tmp_path / "suite" / "up")
    with pytest.raises(UserError, match="a link to a file outside the folder"):
        read_suite(write(tmp_path / "suite", {}, '{files: "up/secret.jsonl", question: q}'))
    os.symlink("real.jsonl", tmp_path / "suite" / "q.jsonl")
    assert len(read_suite(write(tmp_path / "suite", {})).items) == len(ITEMS)


def test_only_regular_files_are_opened(tmp_path):
    """A link that points to itself and a pipe are refused."""
    os.symlink("q.jsonl", tmp_path / "q.jsonl")
    with pytest.raises(UserError, match=r"q\.jsonl is a link that points to itself"):
        read_suite(write(tmp_path, {}))
    os.remove(tmp_path / "q.jsonl")
    folder = write(tmp_path, {"q.jsonl": DATA})
    os.remove(tmp_path / "suite.yaml")
    os.mkfifo(tmp_path / "suite.yaml")
    with pytest.raises(UserError, match=r"suite\.yaml: not a regular file"):
        read_suite(folder)


@pytest.mark.parametrize("kind", ["gz", "bz2", "zst"])
def test_a_bomb_is_refused(tmp_path, monkeypatch, kind):
    """A file that unpacks to far more than its size allows is refused before it is in memory."""
    monkeypatch.setattr(suite_archive, "FREE_UNPACKED_BYTES", 1 << 16)
    pack = {"gz": gzip.compress, "bz2": bz2.compress, "zst": zstd.compress}[kind]
    files = {f"q.jsonl.{kind}": pack(bytes(8 << 20))}
    with pytest.raises(UserError, match="unpacks_too_large"):
        read_suite(write(tmp_path, files, "{files: q.*, question: q}"))


def test_a_file_above_the_limit_is_refused(tmp_path, monkeypatch):
    """Files of suites are read whole."""
    monkeypatch.setattr(suite_files, "MOST_BYTES", len(DATA) - 1)
    with pytest.raises(UserError, match="file_too_large"):
        read_suite(write(tmp_path, {"q.jsonl": DATA}))


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.jsonl", ["a.jsonl"]),
        ("*.jsonl", ["a.jsonl"]),
        ("b", ["b/a.jsonl", "b/c/[a].csv"]),
        ("b/", ["b/a.jsonl", "b/c/[a].csv"]),
        ("b/*.jsonl", ["b/a.jsonl"]),
        ("*/c/[[]a].csv", ["b/c/[a].csv"]),
        ("*", ["a.jsonl", "a_jsonl", "b/a.jsonl", "b/c/[a].csv"]),
    ],
)
def test_a_glob_matches_files_and_whole_folders(tmp_path, pattern, names):
    """`*` stays within a name."""
    for name in ("a.jsonl", "a_jsonl", "b/a.jsonl", "b/c/[a].csv", ".hidden"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert sorted(suite_files.Folder(str(tmp_path)).find(pattern)) == names
