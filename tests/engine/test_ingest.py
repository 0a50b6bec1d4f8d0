"""Document ids are unique for any keys of their records, and row groups fit into memory."""

import gzip
import json

import pyarrow.parquet as pq
import pytest

from gristmill.engine.mill import find_warnings
from gristmill.engine.work import read as ingest
from gristmill.engine.work.exchange import part_id
from gristmill.errors import UserError
from gristmill.schema import DOCUMENTS
from gristmill.store.parquet import PartReader, PartWriter
from gristmill.store.store import Store

NEAR = "  - near_dedup: {ngram: 2, bands: 20, rows: 2, verify_jaccard: 0.6}\n  - substring_dedup\n"


def recipe(project, files, steps=" []", read="", part_bytes="4KB"):
    for name, rows in files.items():
        (project.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    project.recipe.write_text(
        "recipe: ids\nseed: 3\nstore: ./store\nsources:\n  x: {kind: text, read: {format: jsonl, "
        f"paths: ['*.jsonl'], part_bytes: {part_bytes}{read}}}}}\nsteps:{steps}\n"
    )


def documents(project, run, *columns):
    found = []
    for document in run.documents["x"]:
        reader = PartReader(project.mill().store, document.part)
        for group in range(len(reader.groups)):
            table = reader.read_group(group, columns)
            found += zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    return found


def test_a_key_that_every_record_has_leaves_ids_and_marks_unique(project):
    """The locator has the key; the id identifies the record."""
    recipe(
        project, {name: [{"id": "same", "text": f"{name} {n}"} for n in range(40)] for name in ("a.jsonl", "b.jsonl")}
    )
    project.recipe.write_text(
        project.recipe.read_text().replace("part_bytes: 4KB", "part_bytes: 300B, fields: {key: id}")
    )
    run = project.run()
    found = documents(project, run, "doc_id", "locator")
    assert len({doc_id for doc_id, _ in found}) == len(found) == 80
    assert {locator for _, locator in found} == {"a.jsonl#same", "b.jsonl#same"}
    marks = [document.rows_hash for document in run.documents["x"]]
    assert len(marks) > 4
    assert len(set(marks)) == len(marks)


def test_repaired_records_are_counted_in_a_warning(project):
    """For lines and tables, also if meta is not kept; a text that contains the word does not count."""
    recipe(
        project,
        {"a.jsonl": [{"text": "the _mended mill"}, {"text": "a", "x": float("nan")}]},
        read=", keep_meta: false",
    )
    (project.folder / "b.csv").write_text('text,id\n"the "old" mill",1\nb,2\n')
    more = "  y: {kind: text, read: {format: csv, paths: [b.csv]}}\nsteps:"
    project.recipe.write_text(project.recipe.read_text().replace("steps:", more))
    run = project.run()
    message = [line for line in find_warnings(run) if "mended" in line]
    assert [line.partition(",")[0].partition(" record ")[0] for line in message] == ["x/ingest: 1", "y/ingest: 1"]
    assert [meta for meta, *_ in documents(project, run, "meta")] == [None, '{"_mended":["not a number"]}']


def test_repeated_keys_are_counted_in_a_warning(project):
    """Per file: two files may number their records alike."""
    rows = [{"id": str(n % 30), "text": f"text {n}"} for n in range(40)]
    recipe(project, {"a.jsonl": rows, "b.jsonl": rows[:30]}, read=", fields: {key: id}", part_bytes="64KB")
    run = project.run()
    assert run.states["x/ingest"].metrics["repeated_keys"] == 10
    assert any(
        "10 records have the same key as an earlier record of the same file" in message
        for message in find_warnings(run)
    )
    recipe(project, {"a.jsonl": rows[:30]}, read=", fields: {key: id}", part_bytes="64KB")
    assert not any("key" in message for message in find_warnings(project.run()))


def test_a_position_that_is_also_a_key_gives_a_warning(project):
    """A record without a key is located by its position, which may be another's key: ids differ, and the run warns."""
    rows = [{"text": "first"}, {"text": "second"}, {"id": "b", "text": "third"}]
    recipe(project, {"a.jsonl": rows}, read=", fields: {key: id}")
    locator = documents(project, project.run(), "locator")[1][0]
    rows[2]["id"] = locator.partition("#")[2]
    recipe(project, {"a.jsonl": rows}, read=", fields: {key: id}")
    run = project.run()
    found = documents(project, run, "locator", "doc_id")
    assert [one for one, _ in found].count(locator) == 2
    assert len({doc_id for _, doc_id in found}) == 3
    assert any(f"1 record has the same key as an earlier record of the same file (such as {locator})" in message
               for message in find_warnings(run))  # fmt: skip


def test_repeated_keys_do_not_mix_up_documents(project):
    """Parts with equal keys and unrelated texts: no false duplicate is found."""
    texts = {
        "a.jsonl": [f"the mill by the river grinds corn number {n} for the village of {n * 7}" for n in range(30)],
        "b.jsonl": [f"{n} ships left the harbour {n * 3} days ago with salt and wool aboard" for n in range(30)],
    }
    files = {name: [{"id": str(n), "text": text} for n, text in enumerate(some)] for name, some in texts.items()}
    plain = {name: [{"text": row["text"]} for row in rows] for name, rows in files.items()}
    recipe(project, files, f"\n{NEAR}", ", fields: {key: id}")
    keyed = {name: [{**row, "id": "0"} for row in rows] for name, rows in files.items()}
    verdicts = []
    for some, read in ((plain, ""), (keyed, ", fields: {key: id}")):
        recipe(project, some, f"\n{NEAR}", read)
        run = project.run(store=str(project.folder / f"store{len(verdicts)}"))
        verdicts.append(run.states["all/near_dedup"].metrics["dropped"])
    assert verdicts[0] == verdicts[1]


def test_parts_of_equal_ids_have_different_marks(tmp_path):
    """The mark of a part depends on its identity as well as on the ids of its rows."""

    def written(identity):
        writer = PartWriter(DOCUMENTS, identity)
        row = {name: [None] for name in DOCUMENTS.names}
        row |= {"doc_id": [bytes(16)], "source": ["x"], "locator": ["y"], "text_bytes": [0], "html_bytes": [0]}
        import pyarrow as pa

        writer.write(pa.RecordBatch.from_pydict(row, schema=DOCUMENTS))
        return writer.rows_hash

    assert written(b"a") == written(b"a")
    assert written(b"a") != written(b"b")


def test_two_parts_of_one_number_are_refused(project, monkeypatch):
    """Answers of an exchange find their part by 64 bits: refusing is better than mixing them up."""
    monkeypatch.setattr("gristmill.engine.schedule.run_exchange.part_id", lambda mark: part_id(mark) >> 60)
    project.write_recipe(steps="  - stagebox.exact")
    project.recipe.write_text(project.recipe.read_text().replace("4KB", "500B"))
    with pytest.raises(UserError, match=r"notes part .* and notes part .* have the same number.*Change part_bytes"):
        project.run()


@pytest.mark.parametrize("column", ["meta", "title", "url", "key"])
def test_row_groups_count_all_that_they_hold(project, monkeypatch, column):
    """A field that no step reads takes memory like any other."""
    monkeypatch.setattr(ingest, "ROW_GROUP_CHARACTERS", 10_000)
    long = "x" * 2000
    rows = [{"text": f"text {n}", {"meta": "other", "key": "id"}.get(column, column): f"{n}{long}"} for n in range(40)]
    recipe(project, {"a.jsonl": rows}, read=", fields: {key: id}" if column == "key" else "", part_bytes="64MB")
    [document] = project.run().documents["x"]
    groups = PartReader(project.mill().store, document.part).groups
    assert sum(groups) == 40
    assert max(groups) <= 5


@pytest.mark.slow
def test_a_part_of_nothing_but_meta_ends(project):
    """The part in memory is bounded by everything that it holds, not only by its texts."""
    rows = [{"text": "t", "other": f"{n}" + "x" * 2000} for n in range(2000)]
    recipe(project, {"a.jsonl": rows}, part_bytes="64KB")
    project.recipe.write_text(project.recipe.read_text().replace("*.jsonl", "*.gz"))
    with gzip.open(project.folder / "a.jsonl.gz", "wb") as file:
        file.write((project.folder / "a.jsonl").read_bytes())
    ingest.ROW_GROUP_CHARACTERS, usual = 10_000, ingest.ROW_GROUP_CHARACTERS
    try:
        run = project.run()
    finally:
        ingest.ROW_GROUP_CHARACTERS = usual
    assert len(run.documents["x"]) > 10
    assert max(part.part.rows for part in run.documents["x"]) < 200


def test_a_record_that_no_column_could_hold_is_a_row_with_a_reason(project, monkeypatch):
    """Any field may be too large; its neighbours are kept."""
    monkeypatch.setattr(ingest, "MOST_RECORD_CHARACTERS", 5000)
    rows = [{"text": "before"}, {"text": "t", "other": "x" * 6000, "id": "k"}, {"text": "after"}]
    recipe(project, {"a.jsonl": rows}, read=", fields: {key: id}")
    found = documents(project, project.run(), "text", "drop", "detail", "locator", "meta")
    assert [text for text, *_ in found] == ["before", None, "after"]
    assert found[1][1] == "record_too_large"
    assert found[1][2].endswith("characters in all fields, the most is 5000")
    assert found[1][3:] == ("a.jsonl#k", None)


@pytest.mark.slow
def test_a_small_file_of_huge_unused_fields_takes_little_memory(project):
    """6 MB of gzip, 32,768 rows with 36 KB in a field of no column: 1.2 GB if they were held at once."""
    line = json.dumps({"text": "a mill", "unread": "0123456789abcdef" * 2250}).encode() + b"\n"
    with gzip.open(project.folder / "a.jsonl.gz", "wb", compresslevel=1) as file:
        for _ in range(128):
            file.write(line * 256)
    recipe(project, {})
    project.recipe.write_text(project.recipe.read_text().replace("*.jsonl", "*.gz").replace("4KB", "64MB"))
    run = project.run(workers=1)
    assert run.states["x/ingest"].metrics["rows"] == 32_768
    assert run.states["x/ingest"].cost["peak_rss_bytes"] < 800 << 20
    assert sum(document.part.rows for document in run.documents["x"]) == 32_768
    groups = [
        pq.ParquetFile(Store(str(project.store)).part_path(document.part)).metadata for document in run.documents["x"]
    ]
    assert max(meta.row_group(n).total_byte_size for meta in groups for n in range(meta.num_row_groups)) < 64 << 20


def test_markup_that_no_step_removes_is_warned_of(project):
    """With count and fix; not if `extract` follows, which warns itself, and not for plain text or code."""
    page = "<div><p>The mill</p><ul><li>grinds</li><li>rye</li></ul></div>"
    rows = [{"text": f"{page} {n}"} for n in range(8)] + [{"text": f"The mill grinds rye {n}."} for n in range(2)]
    warned = []
    for given, steps in ((rows, " []"), (rows, "\n  - extract"), (rows[8:], " []")):
        recipe(project, {"a.jsonl": given}, steps)
        warned.append([line for line in find_warnings(project.run()) if "markup" in line])
    ((message,), (of_extract,), none) = warned
    assert message.startswith("x/ingest: 8 of 10 texts that were checked (80%) are mostly markup")
    assert "Add the step `- extract`. Read the field as markup with `fields: {html: NAME, text: null}`" in message
    assert of_extract.startswith("all/extract: 8 of 10 plain texts")
    assert not none
    (project.folder / "pages").mkdir()
    (project.folder / "pages" / "a.html").write_text(page * 3)
    recipe(project, {})
    project.recipe.write_text(
        project.recipe.read_text().replace("format: jsonl, paths: ['*.jsonl']", "format: code, paths: [pages]")
    )
    run = project.run()
    assert run.states["x/ingest"].metrics["markup_texts"] == 1
    assert not [line for line in find_warnings(run) if "markup" in line]
