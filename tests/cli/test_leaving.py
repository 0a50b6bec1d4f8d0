"""Values that scrub removes from texts do not leave the store in another column, name or file."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd
from conftest import Project

import gristmill
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
    """Return a record with personal data in every field."""
    secret = (MAIL, IP, PHONE, KEY)[number % 4]
    text = f"Document {number} of the mill says: write to {MAIL}, host {IP}, tel {PHONE}, key {KEY}, or come."
    return {
        "id": f"record of {secret}",
        "text": text,
        "title": f"About {secret}",
        "url": f"https://mill.example/{number}?from={PLANTED[number % 5] if number % 5 != 3 else 'x'}",
        "license": f"ask {MAIL}",
        "author": {"name": f"Jane {secret}", "all": [MAIL, IP]},
    }


@pytest.fixture(scope="module")
def scrubbed(tmp_path_factory, in_this_process):
    """A corpus with email addresses, IP addresses, phone numbers and keys in every field that a person can fill."""
    project = Project(tmp_path_factory.mktemp("leaving"))
    (project.folder / "in" / "tree").mkdir(parents=True)
    (project.folder / "in" / "a.jsonl").write_text("\n".join(json.dumps(planted(n)) for n in range(20)))
    (project.folder / "in" / "tree" / f"{MAIL}.txt").write_text(f"A file that is named after {MAIL}, and more.")
    empty = np.zeros(0, np.int32)
    write_json(Tokenizer.from_merges("gristmill", empty, empty), project.folder)
    project.recipe.write_text(RECIPE.format(scrub=", scrub"))
    return SimpleNamespace(project=project, run=project.run())


def leaks(data, where):
    """Return the planted values that are in some bytes."""
    return [(where, value) for value in PLANTED if value.encode() in data]


def leaks_in_folder(folder):
    """Return the planted values in names and files of a folder, packed or unpacked."""
    leaked = []
    for path in sorted(Path(folder).rglob("*")):
        leaked += leaks(str(path.relative_to(folder)).encode(), "a name")
        if not path.is_file():
            continue
        data = path.read_bytes()
        leaked += leaks(data, path.name)
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            leaked += leaks(repr(table.to_pylist()).encode(), path.name)
            leaked += leaks(repr(pq.read_metadata(path).to_dict()).encode(), path.name)
        elif path.suffix == ".zst":
            leaked += leaks(zstd.decompress(data), path.name)
        elif path.suffix == ".gz":
            leaked += leaks(gzip.decompress(data), path.name)
    return leaked


@pytest.mark.parametrize("form", ["parquet", "jsonl.zst"])
@pytest.mark.parametrize("of_run", [False, True])
def test_no_byte_of_an_export_has_what_scrub_removed(scrubbed, tmp_path, form, of_run, say):
    """This covers titles, URLs, licenses, meta, record keys and file names, by recipe and by stored run."""
    corpus = f"{scrubbed.project.folder}/store@leaving" if of_run else scrubbed.project.recipe
    output = say("export", corpus, "--out", tmp_path / "out", "--format", form, "--columns", COLUMNS)
    assert output.code == 0, output.err
    assert leaks_in_folder(tmp_path / "out") == []
    assert "Values that scrub changed in columns other than the text: " in output.out
    assert "title 20" in output.out
    card = (tmp_path / "out" / "README.md").read_text()
    assert "changed values: ingest.meta (20), " in card
    assert "Personal data was not removed" not in card


def test_shards_lineage_and_sidecars_have_no_scrubbed_value(scrubbed):
    """The lineage table and the file for OLMo-core contain names of records and files."""
    folder = Path(scrubbed.run.shards).parent
    assert list(folder.rglob("*.csv.gz"))
    assert leaks_in_folder(folder) == []


def test_a_file_written_by_sql_is_scrubbed_and_the_store_is_exact(scrubbed, tmp_path, say):
    """A file may leave the machine; output on screen and takedowns use the original values."""
    query = "select url, title, meta, {'deep': title} as nested, [url] as listed from documents"
    assert say("sql", scrubbed.project.recipe, query, "--parquet", tmp_path / "answer.parquet").code == 0
    assert leaks_in_folder(tmp_path) == []
    assert MAIL in say("sql", scrubbed.project.recipe, query, "--json").out
    assert MAIL in repr(
        gristmill.open(scrubbed.project.recipe).documents(columns=["url", "title"]).to_arrow().to_pylist()
    )


def test_the_card_says_that_personal_data_was_not_removed(scrubbed, tmp_path):
    """A recipe without scrub replaces nothing, and its card says so."""
    scrubbed.project.recipe.write_text(RECIPE.format(scrub=""))
    try:
        scrubbed.project.run()
        gristmill.open(scrubbed.project.recipe).export(tmp_path / "out")
    finally:
        scrubbed.project.recipe.write_text(RECIPE.format(scrub=", scrub"))
    assert "Personal data was not removed in files, lines: " in (tmp_path / "out" / "README.md").read_text()
    assert leaks_in_folder(tmp_path / "out")


def test_a_column_of_any_shape_is_scrubbed():
    """Strings in lists, structs and maps are scrubbed; nulls, slices and other types are unchanged."""
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
