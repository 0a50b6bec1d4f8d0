"""Generated documents in the commands: takedown takes the children of a parent, and lineage walks to its bytes."""

import json

import numpy as np
import pytest
from conftest import Project
from model_server import serving

from gristmill.cli.main import run_command
from gristmill.query.documents.documents import rows
from gristmill.store.parquet import PartReader
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer

pytestmark = pytest.mark.usefixtures("in_this_process")

RECIPE = """recipe: small
seed: 5
store: ./store
sources:
  notes: {{kind: text, domain: notes, read: {{format: jsonl, paths: [notes.jsonl], part_bytes: 20KB}}}}
  born: {{kind: generated, domain: born, generate: {{parents: notes, prompts: [rephrase, table], model: tiny,
          servers: ['{address}'], concurrency: 16}}}}
steps: {{text: [stagebox.length], generated: [], all: []}}
tokenizer: {{file: tokenizer.json}}
takedowns: requests.yaml
shards: {{seq_len_tokens: 256, shard_tokens: 40000}}
mix: {{domains: {{notes: 0.5, born: 0.5}}, max_epochs: 9, tokens: 60k{mix}}}
"""
DOCUMENTS = 1000
GONE = 10


def say(body, handler):
    """An answer of other words than its parent's, about as long."""
    number = int(body["messages"][-1]["content"].split()[-1])
    draw = np.random.default_rng([number, body["seed"], len(body["messages"][-1]["content"])])
    return " ".join(f"w{word}" for word in draw.integers(0, 10**9, 30).tolist())


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    """A corpus with generated documents, before and after a takedown of ten parents."""
    folder = tmp_path_factory.mktemp("family")
    project = Project(folder)
    empty = np.zeros(0, np.int32)
    write_json(Tokenizer.from_merges("gristmill", empty, empty), folder)
    draw = np.random.default_rng(3)
    texts = [" ".join(f"v{word}" for word in draw.integers(0, 10**9, 30)) + f" {n}" for n in range(DOCUMENTS)]
    lines = [json.dumps({"url": f"https://a.example/{n}", "text": text}) for n, text in enumerate(texts)]
    (folder / "notes.jsonl").write_text("\n".join(lines))
    (folder / "requests.yaml").write_text("")
    with serving(say) as server:
        project.recipe.write_text(RECIPE.format(address=server.address, mix=""))
        before = project.run()
        urls = [f"https://a.example/{n}" for n in range(0, DOCUMENTS, DOCUMENTS // GONE)]
        (folder / "requests.yaml").write_text(json.dumps([{"id": "r1", "urls": urls}]))
        after = project.run()
        asked = len(server.requests)
    return {"project": project, "before": before, "after": after, "urls": urls, "asked": asked}


def kept(run):
    return {row.fields["doc_id"]: row for row in rows(run, None, False, None)}


def run_gristmill(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["gristmill", *map(str, arguments)])
    code = run_command()
    output = capsys.readouterr()
    assert "Traceback" not in output.err
    return code, output


@pytest.mark.slow
def test_a_takedown_of_parents_takes_their_children_and_nothing_else(family, monkeypatch, capsys, tmp_path):
    """Ten of a thousand parents are named by URL: twenty children go, the shards prove it, and no request is sent."""
    old, new = kept(family["before"]), kept(family["after"])
    assert len(old) == 3 * DOCUMENTS
    assert family["asked"] == 2 * DOCUMENTS
    assert {row.fields["url"] for row in old.values()} & {*family["urls"]} == set()  # hidden, before the takedown too
    named = {one for one, url in stored(family["before"], "notes", "url").items() if url in family["urls"]}
    children = {one for one, row in old.items() if row.fields["source"] == "born" and parent_of(family, one) in named}
    assert len(named) == GONE
    assert len(children) == 2 * GONE
    assert old.keys() - new.keys() == named | children
    assert new.keys() <= old.keys()
    executed = family["project"].executed(family["after"])
    assert "notes/ingest" not in executed  # parents are read once; their children come from stored answers
    recipe, version = family["project"].recipe, family["before"].ended["version"]
    arguments = ("takedown", "receipt", recipe, "--before", version, "--out", tmp_path / "r")
    code, output = run_gristmill(monkeypatch, capsys, *arguments)
    assert code == 0, output.err
    receipt = json.loads((tmp_path / "r" / "receipt.json").read_text())
    gone = {bytes.fromhex(one["doc_id"]): one for one in (*receipt["documents"], *receipt["elsewhere"])}
    assert gone.keys() == named | children
    assert receipt["left"] == []
    for one in children:
        assert bytes.fromhex(gone[one]["parent"]) == parent_of(family, one)
    code, output = run_gristmill(monkeypatch, capsys, "takedown", "verify", tmp_path / "r")
    assert (code, "is left, nor a copy of one" in output.out) == (0, True), output
    code, output = run_gristmill(
        monkeypatch, capsys, "takedown", "check", family["project"].folder / "requests.yaml", recipe, "--json"
    )
    assert {bytes.fromhex(row["doc_id"]) for row in json.loads(output.out)["documents"]} == named | children


def parent_of(family, doc_id):
    """The parent of a child, from the documents themselves."""
    if "parents" not in family:
        family["parents"] = stored(family["before"], "born", "parent")
    return family["parents"][doc_id]


def stored(run, source, column):
    """{doc_id: the value of a column} of a source, as its parts have it."""
    values = {}
    for document in run.documents[source]:
        part = PartReader(run.store, document.part)
        for group in range(len(part.groups)):
            table = part.read_group(group, ["doc_id", column])
            values.update(zip(*(cells.to_pylist() for cells in table.columns), strict=True))
    return values


@pytest.mark.slow
def test_lineage_walks_to_the_bytes_of_the_parent(family, monkeypatch, capsys):
    """A child is shown with its parent, which is shown down to its file; both are proved from stored bytes alone."""
    child = next(one for one, row in kept(family["after"]).items() if row.fields["source"] == "born")
    parent = parent_of(family, child)
    recipe = family["project"].recipe
    code, output = run_gristmill(monkeypatch, capsys, "lineage", recipe, child.hex(), "--prove", "--json")
    first, second = map(json.loads, output.out.splitlines())
    assert code == 0, output
    assert first["generated"]["parent"] == second["doc_id"] == parent.hex()
    assert (first["generated"]["prompt"], first["generated"]["model"]) in {("rephrase", "tiny"), ("table", "tiny")}
    assert second["origin"]["file"] == "notes.jsonl"
    line = (family["project"].folder / "notes.jsonl").read_bytes()[second["origin"]["start"] :].split(b"\n")[0]
    assert json.loads(line)["text"] == second["text"]
    assert all("differs" not in one["proof"] for one in (first, second))
    assert "born/generate" in second["proof"]["run_again"]
    code, output = run_gristmill(monkeypatch, capsys, "lineage", recipe, child.hex())
    assert f"from {parent.hex()} (prompt" in " ".join(output.out.split())
