"""The Python API returns what the commands show and refuses what they refuse."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

import gristmill
from gristmill.cli.main import run_command
from gristmill.cli.shared.screen import print_json
from gristmill.install_command import install_library
from gristmill.query.documents.documents import rows
from gristmill.query.removal.funnel import funnels
from gristmill.query.takedown import withheld
from gristmill.store.parquet import PartReader
from gristmill.store.store import CorruptPart

EVERY = ["doc_id", "source", "locator", "url", "title", "language", "language_hint", "license", "meta", "text"]


@pytest.fixture
def corpus(everything):
    return gristmill.open(everything.project.recipe)


def plain_rows(inspected):
    """Yield rows from `inspect` as plain values."""
    for row in inspected:
        fields = {name: row.fields[name] for name in EVERY if name in row.fields}
        yield {**fields, "doc_id": row.fields["doc_id"].hex(), "text": row.text}


@pytest.mark.parametrize("kept", [True, False, None])
def test_documents_equal_those_of_inspect(everything, corpus, kept):
    """Columns of all layers, joined by position, equal rows that are assembled one by one."""
    dropped = None if kept is None else not kept
    expected = list(plain_rows(rows(everything.run, None, dropped, None, records=False)))
    documents = list(corpus.documents(kept=kept, columns=EVERY).rows())
    for document, expected_row in zip(documents, expected, strict=True):
        is_markup = document["text"] is None  # inspect shows the raw page when no step has extracted text
        assert {**document, "text": None} == {**expected_row, "text": None}
        assert is_markup or document["text"] == expected_row["text"]


def test_reasons_select_the_documents_dropped_for_them(corpus):
    """The counts equal the funnel, including unreadable records; an unknown reason is an error with a suggestion."""
    dropped = [line for line in corpus.funnel() if line["what"] == "dropped" and line["documents"]]
    for reason in {line["reason"] for line in dropped}:
        documents = list(corpus.documents(columns=["reason"], reasons=[reason]).rows())
        assert {row["reason"] for row in documents} == {reason}
        assert len(documents) == sum(line["documents"] for line in dropped if line["reason"] == reason)
    with pytest.raises(gristmill.UserError, match=r"dropped nothing for near_duplicat\. Did you mean near_duplicate\?"):
        corpus.documents(reasons=["near_duplicat"])


def test_columns_of_steps_are_available_by_id_or_name(everything, corpus):
    """Sources that do not pass the step have nulls; ids are text everywhere."""
    table = corpus.documents(columns=["source", "doc_id", "signals.words", "web/language.label", "near_dedup.cluster"])
    for row in table.rows():
        assert row["signals.words"] > 0
        assert (row["web/language.label"] is not None) == (row["source"] == "crawl")
    near = corpus.documents(kept=None, columns=["doc_id", "near_dedup.cluster", "near_dedup.linked_to"]).to_arrow()
    ids = set(near["doc_id"].to_pylist())
    links = [link for links in near["near_dedup.linked_to"].to_pylist() for link in links or ()]
    assert links
    assert {*links, *filter(None, near["near_dedup.cluster"].to_pylist())} <= ids


def test_every_listed_column_can_be_read(corpus):
    """This holds for all columns that the error message lists."""
    names = corpus.columns
    assert len(names) > 100
    table = corpus.documents(kept=None, columns=names).to_arrow()
    assert table.column_names == names
    assert table.num_rows == sum(line["documents"] for line in corpus.funnel() if line["what"] == "read")


def test_texts_are_not_read_unless_requested(corpus, monkeypatch):
    """When only the verdict of a part is needed, only its small verdict file is opened."""
    documents = corpus.documents(kept=None, columns=["kept", "text_bytes"])
    original = PartReader._whole

    def whole(reader):
        assert "text" not in reader.names, "a large part is read"
        assert withheld.COLUMN in reader.names, "a large part is read"  # it is as small, and needed for every document
        return original(reader)

    monkeypatch.setattr(PartReader, "_whole", whole)
    assert sum(batch.num_rows for batch in documents) > 20


def test_batches_come_part_by_part(corpus):
    """A reader gets the first batch without reading the others; all have the same schema."""
    documents = corpus.documents()
    first = next(iter(documents))
    assert isinstance(first, pa.RecordBatch)
    assert first.schema == documents.schema
    assert pa.table(documents).num_rows == documents.to_arrow().num_rows > first.num_rows


def test_the_funnel_equals_that_of_the_command(everything, corpus):
    """Its kept documents are those that `documents` returns."""
    funnel = corpus.funnel()
    assert funnel.sources == funnels(everything.run)
    kept = sum(line["documents"] for line in funnel if line["what"] == "kept")
    assert kept == corpus.documents(columns=["doc_id"]).to_arrow().num_rows
    assert funnel.to_arrow().column_names == list(funnel[0])
    assert "near_duplicate" in repr(funnel)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)


def test_lineage_equals_that_of_the_command(everything, corpus, monkeypatch, capsys):
    """Both give the same JSON."""
    doc_id = next(corpus.documents(columns=["doc_id"]).rows())["doc_id"]
    lineage = corpus.lineage(doc_id)
    monkeypatch.setattr(sys, "argv", ["gristmill", "lineage", str(everything.project.recipe), doc_id, "--json"])
    assert run_command() == 0
    print_json(lineage.lives[0])
    by_command, from_python = map(json.loads, capsys.readouterr().out.splitlines())
    assert by_command == from_python
    assert [line["step"] for line in lineage] == [step["step"] for step in lineage.lives[0]["steps"]]
    assert len(corpus.lineage("no document has these words, none at all")) == 0
    with pytest.raises(gristmill.UserError, match="More than one query"):
        corpus.lineage(doc_id, sample=0, token=0)


def test_a_notebook_shows_tables_and_escapes_markup_from_data(corpus, monkeypatch):
    """Text from data is shown as text."""
    for displayed in (corpus, corpus.plan(), corpus.funnel()):
        parser = Tags()
        parser.feed(displayed._repr_html_())
        assert parser.tags <= {"p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    funnel = corpus.funnel()
    funnel.lines = [{**funnel.lines[0], "reason": "<script>alert(1)</script>"}]
    assert "<script" not in funnel._repr_html_()
    assert "&lt;script" in funnel._repr_html_()


def test_a_run_works_inside_an_event_loop_and_in_a_thread(project):
    """A notebook has a running event loop, and a thread gets no signals; the run still finishes with workers."""
    project.write_inputs(1, 20)
    project.write_recipe("  - stagebox.length", top="")
    messages = []

    async def in_a_notebook():
        return gristmill.open(project.recipe).run(workers=1, progress=messages.append)

    first = asyncio.run(in_a_notebook())
    assert first.executed > 0
    assert "notes/ingest: done" in messages
    finished_runs = []
    thread = threading.Thread(target=lambda: finished_runs.append(gristmill.open(project.recipe).run(tag="v1")))
    thread.start()
    thread.join()
    assert (finished_runs[0].executed, finished_runs[0].version) == (0, first.version)
    assert gristmill.open(project.recipe, version="v1").version == first.version
    assert gristmill.open(project.recipe, version=first.version).funnel().sources
    assert gristmill.open(project.recipe).plan().is_done


def test_an_interrupt_inside_an_event_loop_ends_the_run(project, monkeypatch):
    """Ctrl-C in a notebook reaches the waiting thread; the run stops and KeyboardInterrupt is raised."""

    async def endless(run):
        await asyncio.Event().wait()

    def interrupted(future):
        raise KeyboardInterrupt

    async def in_a_notebook():
        gristmill.open(project.recipe).run()

    monkeypatch.setattr("gristmill.engine.schedule.run.Run.go", endless)
    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(in_a_notebook())


def test_the_api_refuses_what_the_commands_refuse(everything, corpus, tmp_path):
    """Each case raises UserError with the message of the command."""
    recipe, store = everything.project.recipe, everything.project.store
    run = gristmill.open(f"{store}@v1")
    cases = {
        "there is no such file": lambda: gristmill.open(tmp_path / "none.yaml"),
        "has no finished run of that name": lambda: gristmill.open(f"{store}@nothing"),
        "Versions: v1": lambda: gristmill.open(recipe, version="v2"),
        "already names a run, so version=v1 is ambiguous": lambda: gristmill.open(f"{store}@v1", version="v1"),
        "write STORE@NAME": lambda: gristmill.open(store),
        "Did you mean text?": lambda: corpus.documents(columns=["txt"]),
        "Did you mean signals.words?": lambda: corpus.documents(columns=["signals.word"]),
        "Did you mean crawl?": lambda: corpus.documents(sources=["crawls"]),
        "are repeated": lambda: corpus.documents(columns=["text", "text"]),
        "lists of names": lambda: corpus.documents(columns="text"),
        "names a run, but this needs the recipe": run.run,
        "cannot be a name": lambda: corpus.run(tag="a b"),
        "Executors: local": lambda: corpus.run(executor="spark"),
        "needs at least one worker": lambda: corpus.run(workers=0),
        "has not finished with the current recipe": lambda: gristmill.open(
            recipe, store=str(tmp_path / "empty")
        ).documents(),
        "so there is nothing to count": lambda: gristmill.open(recipe, store=str(tmp_path / "empty")).funnel(),
    }
    for message, call in cases.items():
        with pytest.raises(gristmill.UserError, match=message):
            call()


def test_a_missing_library_is_named(corpus, monkeypatch):
    """pandas and datasets are not dependencies."""
    for name, call in (("pandas", corpus.documents().to_pandas), ("datasets", corpus.documents().to_hf)):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(gristmill.UserError, match=re.escape(install_library(name))):
            call()


def test_a_damaged_part_is_reported_as_the_command_reports_it(corpus, monkeypatch):
    """The message says how to repair it."""

    def damaged(*_):
        raise CorruptPart("ab" * 32, "is missing")

    documents = corpus.documents()
    monkeypatch.setattr("gristmill.query.documents.columns.open_parts", damaged)
    with pytest.raises(gristmill.UserError, match="with its option repair, makes it again"):
        documents.to_arrow()


def test_the_python_page_runs_as_printed(everything, copy_of, monkeypatch):
    """Every block of Python in docs/python.md runs, in order."""
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    monkeypatch.chdir(copy_of(everything).folder)
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(block.replace("workers=2, ", ""), names)
    assert names["finished"].executed == 0
    assert names["before"].version == names["finished"].version


def test_the_package_is_light():
    """Importing gristmill for the loader or the version imports nothing else of it."""
    code = "import gristmill, sys; assert gristmill.__version__; print(*(m for m in sys.modules if 'gristmill' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["gristmill"]
    with pytest.raises(AttributeError):
        gristmill.nothing  # noqa: B018
