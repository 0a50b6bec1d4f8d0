"""A plan and a run read the beginning of every source first, and report all its mistakes at once."""

import gzip
import json
import lzma
import random
import sys
from dataclasses import replace
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.engine.mill import find_warnings
from gristmill.engine.work.preview import MOST_RECORDS, HeadPiece, perform_preview
from gristmill.engine.work.task import Preview
from gristmill.errors import UserError
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import jsonl, parquet, warc
from gristmill.stages.reading import head
from gristmill.stages.reading.head import MOST_BYTES, MOST_READ_BYTES, Budget, Spent

ROWS = [{"id": n, "text": f"the mill number {n}"} for n in range(60)]
NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4}).encode()
PAGE = b"<!DOCTYPE html>\n<html><body>" + b"<p>the mill</p>\n" * 40


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def plan(project):
    """Plan a recipe of these sources: name -> (settings, file name, content)."""

    def planned(sources, steps="[stagebox.length]"):
        entries = []
        for name, (setting, file, content) in sources.items():
            if not (project.folder / file).exists():  # else its times would change
                (project.folder / file).write_bytes(content)
            entries.append(f"  {name}: {{kind: text, read: {{{setting}, paths: [{file}]}}}}\n")
        project.recipe.write_text(f"recipe: p\nstore: ./store\nsources:\n{''.join(entries)}steps: {steps}\n")
        return project.mill().dry_run(previews=True).previews

    return planned


def test_all_mistakes_of_all_sources_are_one_message(plan, project):
    """One line each, in the order of the recipe, with file, fact and fix; nothing was hashed or run for it."""
    table = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(ROWS), table)
    with pytest.raises(UserError) as refused:
        plan(
            {
                "marks": ("format: csv", "a.csv", b"id;text\n" + b"1;the mill\n" * 9),
                "good": ("format: jsonl", "good.jsonl", lines(ROWS)),
                "field": ("format: jsonl, fields: {text: txt}", "b.jsonl", lines(ROWS)),
                "column": ("format: parquet, fields: {text: body}", "c.parquet", table.getvalue().to_pybytes()),
                "packed": ("format: parquet", "d.parquet", b"no table at all"),
                "page": ("format: jsonl", "e.jsonl", PAGE),
                "notebook": ("format: json", "f.ipynb", NOTEBOOK),
                "charset": ("format: jsonl", "g.jsonl", b'{"text": "the m\xfchle"}\n' * 9),
                "empty": ("format: jsonl", "h.jsonl", b""),
            }
        )
    first, *message = str(refused.value).split("\n- ")
    assert first == "8 of 9 sources cannot be read, so nothing was run."
    wanted = {
        "marks": ("a.csv#0", 'delimiter: ";"'),
        "field": ("b.jsonl#0", 'there are ["id", "text"]', "did you mean `fields: {text: text}`"),
        "column": ("c.parquet#0", "nothing under body", '["id", "text"]'),
        "packed": ("d.parquet#0", "not_parquet"),
        "page": ("e.jsonl#0", "The first bytes of e.jsonl suggest `format: html`"),
        "notebook": ("f.ipynb#0", "f.ipynb is a Jupyter notebook", "`format: notebook`"),
        "charset": ("g.jsonl#0", "iconv -f latin1"),
        "empty": ("h.jsonl#0", "empty_file"),
    }
    for (name, facts), line in zip(wanted.items(), message, strict=True):
        assert f": sources.{name}: " in line
        assert "\n" not in line
        assert [fact for fact in facts if fact not in line] == []
    assert not list(project.store.glob("inputs/*"))


def test_lesser_faults_are_warnings_or_nothing(plan):
    """Some records that cannot be used, markup that is read as text, records that are read as one page."""
    some = lines([*ROWS[:40], *({"no": n} for n in range(20))])
    found = plan(
        {
            "good": ("format: jsonl", "a.jsonl", lines(ROWS)),
            "some": ("format: jsonl", "b.jsonl", some),
            "markup": ("format: jsonl", "c.jsonl", lines([{"text": "<p>the mill</p>" * 9}] * 9)),
        }
    )
    assert (found.sources, found.faults) == (3, {})
    some, markup = sorted(found.warnings, reverse=True)
    assert some.startswith("some/ingest: 20 of the first 60 records cannot be used: missing_text. The first, b.jsonl#")
    assert markup.startswith("markup/ingest: 9 of 9 texts (100%) are mostly markup")
    pages = {"pages": ("format: html", "d.html", lines([{"html": "<p>the mill</p>"}]))}
    [message] = plan(pages, "[extract]").formats
    assert message.startswith("pages/ingest: d.html looks like `format: jsonl`, but `format: html` reads it as")


def test_a_field_that_no_record_has_gives_a_warning(plan, project):
    """By the plan, by a run, and by a run that finds everything in the store; never for a default, nor for a field
    that a record has with a value that cannot be used.
    """
    rows = [{"body": f"the mill {n}", "link": "https://a.example/", "when": "x"} for n in range(9)]
    some = lines([*rows, {"body": "the last mill", "when": None, "title": ["of no use"]}]) + b"{no JSON\n"
    names = "{text: body, url: lnik, timestamp: when, key: uid, title: title, html: null}"
    sources = {
        "a": (f"format: jsonl, fields: {names}", "a.jsonl", some),
        "b": (f"format: json, keep_meta: false, fields: {names}", "b.json", some),
        "c": ("format: csv, fields: {title: title}", "c.csv", b"text,tilte\nthe mill,1\n"),
    }
    wanted = [
        "a/ingest: fields.url names `lnik`, which none of N 10 records has. Did you mean `link`?",
        "a/ingest: fields.key names `uid`, which none of N 10 records has. Correct it, or omit it",
        "b/ingest: fields.url names `lnik`, which none of N 10 records has. Correct it, or omit it",
        "b/ingest: fields.key names `uid`, which none of N 10 records has. Correct it, or omit it",
        "c/ingest: fields.title names `title`, which none of N 1 record has. Did you mean `tilte`?",
    ]
    found = sorted(plan(sources).warnings, key=lambda message: message[0])
    assert [message for message in found if " names `" in message] == [
        message.replace(" N ", " the first ") for message in wanted
    ]
    for _ in range(2):
        found = find_warnings(project.run())
        assert [message for message in found if " names `" in message] == [
            message.replace(" N ", " its ") for message in wanted
        ]


def test_a_run_says_that_a_text_file_is_jsonl(plan, project):
    """Its lines would be one document, and no metric of a run shows it."""
    warning = "texts/ingest: e.txt looks like `format: jsonl`, but `format: text` reads it as one document"
    [message] = plan({"texts": ("format: text", "e.txt", lines(ROWS))}).formats
    assert message.startswith(warning)
    assert [message for message in find_warnings(project.run()) if message.startswith(warning)]


def test_a_beginning_that_proves_little_refuses_nothing(plan):
    """A few bad records before a large one may be followed by good ones."""
    content = lines([{"no": 1}] * 9 + [{"no": "x" * (2 << 20)}] + ROWS)
    found = plan({"a": ("format: jsonl", "a.jsonl", content)})
    assert found.faults == {}
    assert "9 of the first 9 records" in found.warnings[0]


def test_a_source_that_was_read_is_not_previewed_again(plan, project):
    """Neither by a plan nor by a run; another setting is another reading."""
    good = {"a": ("format: jsonl", "a.jsonl", lines(ROWS))}
    assert plan(good).sources == 1
    run = project.run()
    assert run.previews.sources == 1
    assert project.run().previews.sources == 0
    assert plan(good).sources == 0
    with pytest.raises(UserError, match="did you mean"):
        plan({"a": ("format: jsonl, fields: {text: txt}", "a.jsonl", lines(ROWS))})


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_a_preview_reads_little_of_a_huge_file(tmp_path, pack):
    """A compressed file of blank lines yields no record, and is not unpacked to its end."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(pack(b"\n" * (8 << 20)))
    budget = Budget()
    piece = HeadPiece(str(path), "a.jsonl", budget=budget)
    with pytest.raises(Spent):
        list(jsonl.read(piece, jsonl.Config()))
    assert budget.unpacked_bytes <= 2 * MOST_BYTES
    assert budget.read_bytes <= MOST_READ_BYTES


def test_a_preview_reads_little_of_a_file_that_nothing_unpacks(tmp_path):
    """Readers of tables seek, and read any number of bytes."""
    (tmp_path / "a.parquet").write_bytes(bytes(MOST_READ_BYTES + 1))
    budget = Budget()
    with HeadPiece(str(tmp_path / "a.parquet"), "a.parquet", budget=budget).open() as file:
        assert len(file.read(9)) == 9
        with pytest.raises(Spent):
            file.read(MOST_READ_BYTES)
    assert budget.read_bytes == 9


def test_a_table_that_is_larger_than_the_bound_has_no_damage(tmp_path):
    """The row group in which the preview ends is not a damaged one."""
    texts = [random.Random(number).randbytes(1 << 19).hex() for number in range(9)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=3, compression="none")
    pieces = (Piece(str(tmp_path / "a.parquet"), "a.parquet"),)
    work = Preview(parquet.__name__, parquet.Config(), pieces, {}, "a", None, None, 1 << 20)
    [_, [found]] = perform_preview(work).values
    assert found.dropped == {}
    assert not found.is_whole


def test_no_reader_takes_the_bound_for_damage(tmp_path, monkeypatch):
    """Also a reader that treats every Exception as damage."""

    def read(piece, config):
        try:
            yield from jsonl.read(piece, config)
        except Exception as error:
            pytest.fail(f"{error!r} is damage")

    careful = ModuleType("careful")
    careful.STAGE = replace(jsonl.STAGE, read=read)
    monkeypatch.setitem(sys.modules, "careful", careful)
    (tmp_path / "a.jsonl").write_bytes(b"\n" * (2 * MOST_BYTES))
    work = Preview("careful", jsonl.Config(), (Piece(str(tmp_path / "a.jsonl"), "a.jsonl"),), {}, "a", None, None, 1)
    [_, [found]] = perform_preview(work).values
    assert (found.rows, found.is_whole) == (0, False)


def test_a_record_that_a_reader_makes_of_the_bound_is_not_counted(tmp_path, monkeypatch):
    """A reader that catches everything reports damage where the preview ended."""

    def read(piece, config):
        try:
            yield from jsonl.read(piece, config)
        except BaseException:
            yield from jsonl.read(Piece(str(tmp_path / "b.jsonl"), "b.jsonl"), config)

    careless = ModuleType("careless")
    careless.STAGE = replace(jsonl.STAGE, read=read)
    monkeypatch.setitem(sys.modules, "careless", careless)
    (tmp_path / "a.jsonl").write_bytes(b"\n" * (2 * MOST_BYTES))
    (tmp_path / "b.jsonl").write_bytes(b"{broken\n")
    work = Preview("careless", jsonl.Config(), (Piece(str(tmp_path / "a.jsonl"), "a.jsonl"),), {}, "a", None, None, 1)
    [_, [found]] = perform_preview(work).values
    assert (found.rows, found.dropped, found.is_whole) == (0, {}, False)


def test_few_records_of_a_file_are_read(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(lines(ROWS * 10))
    pieces = (Piece(str(tmp_path / "a.jsonl"), "a.jsonl"),)
    work = Preview(jsonl.__name__, jsonl.Config(), pieces, {}, "a", None, None, 1 << 20)
    [_, [found]] = perform_preview(work).values
    assert (found.rows, found.is_whole) == (MOST_RECORDS, False)


def test_an_archive_that_is_cut_by_the_bound_has_no_damage(tmp_path):
    """The record in which the preview ends is not a truncated one."""
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + b"<p>the mill" * 4000
    head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/\r\nContent-Length: %d\r\n\r\n"
    (tmp_path / "a.warc").write_bytes((head % len(block) + block + b"\r\n\r\n") * MOST_RECORDS)
    pieces = (Piece(str(tmp_path / "a.warc"), "a.warc"),)
    work = Preview(warc.__name__, warc.Config(), pieces, {}, "a", None, None, 1 << 20)
    [_, [found]] = perform_preview(work).values
    assert MOST_RECORDS > found.rows > 9
    assert found.dropped == {}


@pytest.mark.parametrize(("text", "rows"), [("a" * (1 << 20), 0), (random.Random(1).randbytes(1 << 17).hex(), 4)])
def test_a_preview_unpacks_only_the_start_of_a_table(tmp_path, monkeypatch, text, rows):
    """One that unpacks to many times its size is left for the run, others after a few batches. Neither is a fault."""
    monkeypatch.setattr(head, "MOST_ROWS_BYTES", 1 << 20)
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 1 << 18)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [text] * 9}), path, compression="zstd", use_dictionary=False, write_batch_size=1)
    work = Preview(parquet.__name__, parquet.Config(), (Piece(str(path), "a.parquet"),), {}, "a", None, None, 1 << 20)
    (found,) = perform_preview(work).values[1]
    assert (found.rows, found.dropped, found.is_whole) == (rows, {}, False)


@pytest.mark.parametrize(
    ("setting", "content", "bad"),
    [
        (
            "format: csv",
            b"id,text\n" + b"1,the mill\n" * 50 + b'2,the,mill\n3\n4,"the "old" mill" x\n',
            {"repaired": 1, "wrong_field_count": 2},
        ),
        ("format: jsonl", lines(ROWS) + b"{no json\n" + b'{"text": "\\ud800"}\n', {"invalid_json": 1, "repaired": 1}),
        ("format: json", lines(ROWS) + b'{"text": 7}\n', {"bad_field_type": 1}),
        ("format: jsonl", lines(ROWS) + b'{"text": ""}\n', {}),
    ],
)
def test_every_fault_in_a_beginning_is_counted(plan, setting, content, bad):
    """Also the few that deserve no warning; an empty text is no fault."""
    found = plan({"a": (setting, "a.txt", content)})
    assert (found.warnings, found.faults) == ([], {})
    assert found.bad == bad
    assert found.records == len(content.splitlines()) - (setting == "format: csv")
