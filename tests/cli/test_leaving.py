"""What scrub takes out of texts leaves the store in no other column, name or file."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import gristmill
from conftest import Project
from gristmill.stages.scrub import scrub
from gristmill.stages.scrub.scrub import scrub_column
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer

MAIL, IP, PHONE, KEY = (
    "jane@stone-mill.org",
    "45.33.32.156",
    "+1 415-867-5309",
    "ghp_" + "a9Bc8De7Fg6Hi5Jk4Lm3No2Pq1Rs0Tu9Vw8X",
)
PLANTED = (MAIL, MAIL.replace("@", "%40"), IP, PHONE, KEY)
RECIPE = """
recipe: leaving
store: ./store
sources:
  lines:
    kind: text
    read: {{format: jsonl, paths: [in/a.jsonl], fields: {{key: id}}}}
    domain: one
    tier: A
  files: {{kind: text, read: {{format: text, paths: [in/tree]}}, domain: one, tier: A}}
steps: [signals{scrub}]
tokenizer: {{file: tokenizer.json}}
shards: {{seq_len_tokens: 64, shard_tokens: 4000}}
mix: {{tokens: 1k, domains: {{one: 1}}, max_epochs: 50}}
"""
COLUMNS = "doc_id,text,source,locator,url,title,license,meta,ingest.url,ingest.meta,scrub.replaced_types"


def planted(number):
    secret = (MAIL, IP, PHONE, KEY)[number % 4]
    said = f"Document {number} of the mill says: write to {MAIL}, host {IP}, tel {PHONE}, key {KEY}, or come."
    return {
        "id": f"record of {secret}",
        "text": said,
        "title": f"About {secret}",
        "url": f"https://mill.example/{number}?from={PLANTED[number % 5] if number % 5 != 3 else 'x'}",
        "license": f"ask {MAIL}",
        "author": {"name": f"Jane {secret}", "all": [MAIL, IP]},
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory, in_this_process):
    """A corpus with an address, a number and a key in every place that a person can write to."""
    project = Project(tmp_path_factory.mktemp("leaving"))
    (project.folder / "in" / "tree").mkdir(parents=True)
    (project.folder / "in" / "a.jsonl").write_text("\n".join(json.dumps(planted(n)) for n in range(20)))
    (project.folder / "in" / "tree" / f"{MAIL}.txt").write_text(f"A file that is named after {MAIL}, and more.")
    empty = np.zeros(0, np.int32)
    write_json(Tokenizer.from_merges("gristmill", empty, empty), project.folder)
    project.recipe.write_text(RECIPE.format(scrub=", scrub"))
    return SimpleNamespace(project=project, run=project.run())


def leaks(data, where):
    """What is planted and stands in some bytes, as they are or unpacked."""
    return [(where, one) for one in PLANTED if one.encode() in data]


def leaks_of(folder):
    found = []
    for path in sorted(Path(folder).rglob("*")):
        found += leaks(str(path.relative_to(folder)).encode(), "a name")
        if not path.is_file():
            continue
        data = path.read_bytes()
        found += leaks(data, path.name)
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            found += leaks(repr(table.to_pylist()).encode(), path.name)
            found += leaks(repr(pq.read_metadata(path).to_dict()).encode(), path.name)
        elif path.suffix == ".zst":
            found += leaks(zstandard.ZstdDecompressor().stream_reader(data).read(), path.name)
        elif path.suffix == ".gz":
            found += leaks(gzip.decompress(data), path.name)
    return found


@pytest.mark.parametrize("form", ["parquet", "jsonl.zst"])
@pytest.mark.parametrize("of_run", [False, True])
def test_no_byte_of_an_export_has_what_scrub_removed(made, tmp_path, form, of_run, say):
    """In titles, URLs, licenses, meta, keys of records and file names; by the recipe and by the run in the store."""
    what = f"{made.project.folder}/store@leaving" if of_run else made.project.recipe
    said = say("export", what, "--out", tmp_path / "out", "--format", form, "--columns", COLUMNS)
    assert said.code == 0, said.err
    assert leaks_of(tmp_path / "out") == []
    assert "Values that scrub changed in columns other than the text: " in said.out
    assert "title 20" in said.out
    card = (tmp_path / "out" / "README.md").read_text()
    assert "changed values: ingest.meta (20), " in card
    assert "Personal data was not removed" not in card


def test_shards_their_lineage_and_sidecars_have_no_such_name(made):
    """The table of lineage and the file for OLMo-core name records and files."""
    folder = Path(made.run.shards).parent
    assert list(folder.rglob("*.csv.gz"))
    assert leaks_of(folder) == []


def test_a_file_of_sql_is_scrubbed_and_the_store_is_exact(made, tmp_path, say):
    """A file may leave; what is shown here, and what a takedown goes by, is as it was read."""
    query = "select url, title, meta, {'deep': title} as nested, [url] as listed from documents"
    assert say("sql", made.project.recipe, query, "--parquet", tmp_path / "answer.parquet").code == 0
    assert leaks_of(tmp_path) == []
    assert MAIL in say("sql", made.project.recipe, query, "--json").out
    assert MAIL in repr(gristmill.open(made.project.recipe).documents(columns=["url", "title"]).to_arrow().to_pylist())


def test_a_card_says_that_personal_data_was_not_removed(made, tmp_path):
    """Of a recipe without scrub: nothing is replaced, and nobody is told otherwise."""
    made.project.recipe.write_text(RECIPE.format(scrub=""))
    try:
        made.project.run()
        gristmill.open(made.project.recipe).export(tmp_path / "out")
    finally:
        made.project.recipe.write_text(RECIPE.format(scrub=", scrub"))
    assert "Personal data was not removed in files, lines: " in (tmp_path / "out" / "README.md").read_text()
    assert leaks_of(tmp_path / "out")


def test_a_column_of_any_shape_is_scrubbed():
    """Strings in lists, structs and maps; nulls, slices and other types stay as they are."""
    config = scrub.Config()
    deep = pa.array([{"a": [MAIL, None]}, None, {"a": None}, {"a": ["x", f"?q={MAIL.replace('@', '%40')}&z=%40"]}])
    after, changed = scrub_column(deep, config)
    assert after.to_pylist() == [{"a": ["<EMAIL>", None]}, None, {"a": None}, {"a": ["x", "?q=<EMAIL>&z=@"]}]
    assert changed == 2
    pairs = pa.array([[("k", MAIL)], None], pa.map_(pa.string(), pa.string()))
    assert scrub_column(pairs, config)[0].to_pylist() == [[("k", "<EMAIL>")], None]
    numbers = pa.array([1, None])
    assert scrub_column(numbers, config) == (numbers, 0)
    assert scrub_column(deep.slice(3), config)[0].to_pylist() == after.slice(3).to_pylist()
