"""`gristmill sql`: the views say what other commands say, nothing but reading is possible, a mistake is one line."""

import io
import json
import random
import string
import sys
from collections import Counter

import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import gristmill
from gristmill.install_command import install_extra
from gristmill.loader import read_manifest
from gristmill.query.documents.documents import rows
from gristmill.query.documents.sql import Session
from gristmill.query.opening import open_run
from gristmill.store.parquet import PartReader
from gristmill.store.store import Store

pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install 'gristmill[sql]'")


@pytest.fixture(scope="module")
def name(everything):
    return f"{everything.project.store}@v1"


@pytest.fixture(scope="module")
def session(name):
    opened = Session(open_run(name))
    yield opened
    opened.close()


@pytest.fixture
def query_rows(session):
    def run_query(query):
        _, batches = session.ask(query)
        return [row for batch in batches for row in batch.to_pylist()]

    return run_query


def test_documents_equal_those_of_the_python_api(everything, query_rows):
    """All common columns are equal, in the same order."""
    corpus = gristmill.open(everything.project.recipe)
    names = [column for column in corpus.columns if "." not in column]
    quoted = ", ".join(f'"{column}"' for column in names)
    for expected, row in zip(
        corpus.documents(kept=None, columns=names).rows(),
        query_rows(f"select {quoted} from documents"),
        strict=True,
    ):
        assert row == expected


def test_a_step_used_twice_has_one_row_per_document(project):
    """The view has the last value of each document, in SQL as in Python; each use is available by its id."""
    texts = ["one two", "one two three four five", "one two three four five\none two three four five\nlorem ipsum {"]
    (project.folder / "in" / "00.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    rules = "{gopher_quality: {min_words: 3, min_stop_words: 0}}"
    project.write_recipe(
        f"- signals\n- heuristics: {rules}\n- lines: {{terminal_punctuation: false}}\n- signals\n",
        pattern="in/00.jsonl",
    )
    project.run()
    corpus = gristmill.open(project.recipe)
    found = corpus.sql("select doc_id, words from signals").to_pylist()
    [again] = corpus.sql('select count(*) n, count(words) m from "all/signals_2"').to_pylist()
    assert again == {"n": 3, "m": 2}
    table = corpus.documents(kept=None, columns=["doc_id", "signals.words"])
    assert [{"doc_id": row["doc_id"], "words": row["signals.words"]} for row in table.rows()] == found
    assert len(found) == 3
    assert found[0]["words"] == 2, "dropped before it was measured again"


def test_verdicts_include_all_layers(everything, query_rows):
    """The first verdict of a document is its final one."""
    firsts = {row.fields["doc_id"].hex(): row for row in rows(everything.run, None, True, None, records=False)}
    found = query_rows("select * from verdicts")
    assert {entry["doc_id"] for entry in found} == set(firsts)
    verdicts = {(entry["doc_id"], entry["step"], entry["reason"], entry["detail"]) for entry in found}
    assert {(doc_id, row.step, row.reason, row.detail) for doc_id, row in firsts.items()} <= verdicts


def test_columns_of_steps_join_by_id(query_rows):
    """`doc_id` identifies a document in every view."""
    (counts,) = query_rows(
        "select count(*) n, count(*) filter (s.words = a.words) same "
        'from documents d join signals s using (doc_id) join "all/signals" a using (doc_id) where d.kept'
    )
    assert counts["n"] == counts["same"] > 20
    assert query_rows("select distinct step from clusters") == [{"step": "all/near_dedup"}]
    assert (
        query_rows("select count(*) n from clusters c join documents d on c.cluster = d.doc_id where kept")[0]["n"] > 0
    )


def test_samples_say_when_a_document_is_seen(everything, say, query_rows):
    """They equal the pieces that `shards find` lists."""
    doc_id = query_rows("select doc_id from samples where len(seen_at) > 1 order by doc_id limit 1")[0]["doc_id"]
    pieces = json.loads(say("shards", "find", everything.project.recipe, doc_id, "--json").out)["pieces"]
    found = query_rows(f"select * from samples where doc_id = '{doc_id}'")
    assert sorted(
        (entry["group"], entry["shard"], entry["sample"], entry["length"], entry["seen_at"]) for entry in found
    ) == sorted((entry["group"], entry["shard"], entry["row"], entry["tokens"], entry["seen_at"]) for entry in pieces)
    samples = read_manifest(everything.run.shards).samples
    assert query_rows("select count(*) n, max(seen_at) last from schedule")[0] == {"n": samples, "last": samples - 1}


def test_every_view_can_be_read(session, query_rows):
    """`show tables` lists all of them."""
    for view in session.views:
        assert query_rows(f'select count(*) n from (select * from "{view}")')[0]["n"] > 0, view
    assert {row["name"] for row in query_rows("show tables")} >= set(session.views)


def test_texts_are_not_read_unless_requested(project, monkeypatch):
    """Only the columns that a query needs are read."""
    draw = random.Random(1)
    texts = ["".join(draw.choices(string.ascii_letters, k=2000)) for _ in range(40)]
    (project.folder / "in" / "00.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    project.write_recipe("  - stagebox.upper: {min_chars: 20}", pattern="in/00.jsonl")
    project.recipe.write_text(project.recipe.read_text().replace("part_bytes: 4KB", "part_bytes: 1MB"))
    project.run()
    read = Counter()
    read_group = PartReader.read_group

    def counting_read(reader, index, columns):
        read.update(columns)
        return read_group(reader, index, columns)

    monkeypatch.setattr(PartReader, "read_group", counting_read)
    session = Session(project.dry_run())
    for query, is_read in (
        ("select reason, count(*), sum(text_bytes) from documents group by 1", False),
        ("select step, reason, detail, doc_id from verdicts", False),
        ("select max(url) from documents where kept", False),
        ("select sum(length(text)) from documents", True),
    ):
        read.clear()
        list(session.ask(query)[1])
        assert (read["text"] > 0) == is_read, query
    session.close()


ATTACKS = (
    "copy (select 1) to '{0}/stolen.csv'",
    "copy documents to '{0}/stolen.parquet'",
    "copy (select 1) to 'gristmill://documents/crawl/000000000.parquet'",
    "explain analyze copy (select 1) to '{0}/stolen.csv'",
    "select * from read_csv('/etc/passwd')",
    "select * from read_text('/etc/passwd')",
    "select * from read_blob('{0}/recipe.yaml')",
    "select * from '/etc/passwd'",
    "select * from glob('/etc/*')",
    "select * from read_parquet('{0}/store/parts/*/*.parquet')",
    "select * from read_parquet('gristmill://../../etc/passwd')",
    "select * from parquet_metadata('/etc/passwd')",
    "attach '{0}/new.db'",
    "install httpfs",
    "load httpfs",
    "pragma enable_profiling",
    "set enable_external_access = true",
    "reset lock_configuration",
    "export database '{0}/stolen'",
    "import database '{0}'",
    "create table t as select 1",
    "drop view documents",
    "select * from read_csv('https://example.com/a.csv')",
    "select getenv('HOME')",
    "select * from query('copy (select 1) to ''{0}/stolen.csv''')",
    "call pragma_version()",
    "begin transaction",
    "select 1; copy (select 1) to '{0}/stolen.csv'",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_queries_can_only_read_the_corpus(everything, query_rows, attack):
    """Each attack is one message, changes no file and leaves the session usable."""
    folder = everything.project.folder
    before = sorted(folder.rglob("*"))
    with pytest.raises(gristmill.UserError) as refused:
        query_rows(attack.format(folder))
    assert "Traceback" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert sorted(folder.rglob("*")) == before
    assert query_rows("select 1 as still") == [{"still": 1}]


def test_python_variables_are_not_tables(query_rows):
    """By default, DuckDB searches the calling frames for them."""
    secret = __import__("pyarrow").table({"a": [1]})
    assert secret.num_rows
    with pytest.raises(gristmill.UserError, match="no view secret"):
        query_rows("select * from secret")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select txt from documents", '"text"'),
        ("select * from docments", "Did you mean documents?"),
        ("select * from web_extract", 'Did you mean "web/extract"?'),
        ("select * from web/extract", 'A name with a slash needs quotes: "'),
        ("selec 1", "syntax error"),
        ("", "No query is given"),
        ("select 1; select 2", "2 queries are given"),
        ("select cast(url as integer) from documents where url is not null", "Could not convert"),
    ],
)
def test_an_invalid_query_is_one_message(say, name, query, message):
    """The message suggests the nearest name or quotes DuckDB's error."""
    output = say("sql", name, query)
    assert output.code == 2
    assert message in output.err
    assert "Traceback" not in output.err
    assert len(output.err.strip().splitlines()) == 2  # the run that is read, and the message


def test_every_output_format_has_the_same_rows(say, name, tmp_path):
    """The formats are a table, JSON lines, CSV and Parquet."""
    query = "select source, kept, count(*) as n, max(doc_id) as one from documents group by all order by all"
    lines = [json.loads(line) for line in say("sql", name, query, "--json").out.splitlines()]
    assert {line["source"] for line in lines} == {"crawl", "notes"}
    table = pcsv.read_csv(io.BytesIO(say("sql", name, query, "--csv").out.encode()))
    assert table.to_pylist() == lines
    assert say("sql", name, query, "--parquet", tmp_path / "answer.parquet").code == 0
    assert pq.read_table(tmp_path / "answer.parquet").to_pylist() == lines
    assert [path.name for path in tmp_path.iterdir()] == ["answer.parquet"]
    shown = say("sql", name, query).out.splitlines()
    assert shown[0].split() == ["source", "kept", "n", "one"]
    assert len(shown) == len(lines) + 1
    lists = say("sql", name, "select [1, 2] as a, sum(i) as b from range(3) t(i)", "--csv").out
    assert lists.splitlines() == ['"a","b"', '"[1, 2]",3']


def test_a_long_result_says_how_many_rows_are_not_shown(say, name):
    """The table has at most 1000 rows."""
    output = say("sql", name, "select i from range(1500) t(i)")
    assert "500 more rows are not shown" in output.err
    assert len(output.out.splitlines()) == 1001


def test_escape_sequences_in_a_result_are_not_sent_to_the_terminal(say, name):
    """Text from data is escaped."""
    output = say("sql", name, "select chr(27) || '[31mred' as a")
    assert "\x1b" not in output.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'QUERY'"),
        (("select 1", "--json", "--csv"), "exclude each other"),
        (("select 1", "--parquet", "/nowhere/a.parquet"), "there is no folder"),
        (("select 1", "more"), "unexpected extra argument"),
    ],
)
def test_wrong_arguments_are_one_message(say, name, arguments, message):
    """The exit code is 2."""
    output = say("sql", name, *arguments)
    assert output.code == 2
    assert message in output.err


def test_a_recipe_that_has_not_run_is_refused(say, everything, tmp_path):
    """The message has the command that runs it."""
    output = say("sql", everything.project.recipe, "select 1", "--store", tmp_path / "empty")
    assert output.code == 2
    assert "Run: gristmill run" in output.err


def test_a_damaged_part_is_reported_and_not_read(name, monkeypatch):
    """Bytes of a part are checked against their hash before DuckDB gets them."""
    session = Session(open_run(name))
    get_range = Store.get_range
    monkeypatch.setattr(
        Store,
        "get_range",
        lambda store, part, start, stop, check: get_range(store, part, start, stop, lambda _: check(b"x")),
    )
    with pytest.raises(Exception, match="does not match the hash"):
        list(session.ask("select max(title) from documents")[1])
    session.close()


def test_without_duckdb_the_extra_is_named(say, name, monkeypatch):
    """The message has the install command."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    output = say("sql", name, "select 1")
    assert output.code == 2
    assert install_extra("sql") in output.err


def test_python_gets_an_arrow_table(everything, name):
    """An invalid query raises UserError."""
    corpus = gristmill.open(everything.project.recipe)
    assert corpus.sql("select count(*) as n from documents where kept").to_pylist() == [
        {"n": sum(line["documents"] for line in corpus.funnel() if line["what"] == "kept")}
    ]
    with pytest.raises(gristmill.UserError, match="Did you mean documents"):
        corpus.sql("select * from document")


def test_a_remote_store_is_read_by_column_chunks(project, monkeypatch):
    """Queries and exports equal those from a folder; no part is fetched whole."""
    project.write_inputs(1, 30)
    project.write_recipe("  - stagebox.upper: {min_chars: 20}")
    query = "select doc_id, text, reason from documents order by doc_id"
    results = {}
    get_part = Store.get_part

    def only_verdicts(store, part):
        assert part.suffix == "verdicts"
        return get_part(store, part)

    for store in (str(project.folder / "store"), "memory://elsewhere"):
        corpus = gristmill.open(project.recipe, store=store)
        corpus.run()
        with monkeypatch.context() as patch:
            if store.startswith("memory"):
                patch.setattr(Store, "get_part", only_verdicts)
            result = corpus.export(project.folder / f"out{len(results)}")
            results[store] = (corpus.sql(query).to_pylist(), result.files)
    assert len({repr(entry) for entry in results.values()}) == 1
    assert len(corpus.sql(query)) > 20


def test_duplicate_column_names_get_suffixes(say, name):
    """The JSON has all values."""
    output = say("sql", name, "select 1 as a, 2 as a, 3 as a_1", "--json")
    assert json.loads(output.out) == {"a": 1, "a_1": 2, "a_1_1": 3}


@pytest.mark.parametrize("value", ["'infinity'::timestamp", "date '9999-12-31' + 5", "'\\xff'::blob, '101'::bit"])
@pytest.mark.parametrize("options", [(), ("--json",), ("--csv",)])
def test_a_value_that_cannot_be_written_is_one_message(say, name, value, options):
    """It is printed, or refused with the advice to cast it."""
    output = say("sql", name, f"select {value} as x", *options)
    assert output.code in (0, 2)
    assert "Traceback" not in output.err
    assert output.code == 0 or "Cast it" in output.err
