"""Generated documents are counted by every summary of a corpus: disclose, diff, export and its card."""

import json
from collections import Counter

import numpy as np
import pytest
from backports import zstd
from conftest import Project
from model_server import serving

from gristmill.shardformat.receipt import seal_of
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer

RECIPE = """recipe: small
store: ./store
sources:
  notes: {{kind: text, license: CC-BY-4.0, read: {{format: jsonl, paths: [notes.jsonl],
           fields: {{timestamp: date}}}}}}
  born: {{kind: generated, generate: {{parents: notes, prompts: [{prompts}], model: tiny, revision: r7,
          servers: ['{address}']}}}}
steps: {{text: [scrub], generated: [], all: [exact_dedup]}}
tokenizer: {{file: tokenizer.json}}
takedowns: requests.yaml
shards: {{seq_len_tokens: 64}}
"""
KEPT = 23
NO_DOMAINS = ["Jane Doe, letter 12", "record?token=abc&user=jane", "https://h8.example;s3cret=1/x"]
"""URLs that are text of the documents, and no domains to publish."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """24 pages, one of them taken down, and two generated documents for each; then a version with one prompt more."""
    folder = tmp_path_factory.mktemp("disclosed")
    project = Project(folder)
    empty = np.zeros(0, np.int32)
    write_json(Tokenizer.from_merges("gristmill", empty, empty), folder)
    lines = [
        {
            "url": f"https://www.a{n % 3}.co.uk/{n}",
            "date": f"2026-03-{n + 1:02}",
            "text": f"Page {n} about mills, by miller{n}@mill.org.",
        }
        for n in range(KEPT + 1)
    ]
    for n, url in enumerate(NO_DOMAINS, 1):  # these documents stay out of the counts
        lines[-n]["url"] = url
    (folder / "notes.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "requests.yaml").write_text('- {id: secret-7, urls: ["https://www.a0.co.uk/0"]}')
    with serving() as server:
        project.recipe.write_text(RECIPE.format(address=server.address, prompts="rephrase, table"))
        versions = [project.run().ended["version"]]
        project.recipe.write_text(RECIPE.format(address=server.address, prompts="rephrase, table, textbook"))
        versions.append(project.run().ended["version"])
    return project, versions


def test_disclose_says_what_the_store_proves(corpus, say, tmp_path):
    """Sources with sizes, licenses and dates, registered domains, generated shares, personal data and takedowns; what
    nothing measured is not recorded. The page has the numbers of the JSON file, and no id of a request."""
    project, versions = corpus
    done = say("disclose", f"{project.store}@{versions[0]}", "--out", tmp_path / "d.html")
    assert done.code == 0, done.err
    facts, page = json.loads((tmp_path / "d.json").read_text()), (tmp_path / "d.html").read_text()
    notes, born = facts["sources"]["notes"], facts["sources"]["born"]
    assert (notes["documents"], born["documents"], facts["documents"]) == (KEPT, 2 * KEPT, 3 * KEPT)
    assert notes["licenses"] == {"CC-BY-4.0": KEPT}
    assert born["licenses"] == {"CC-BY-4.0": 2 * KEPT}
    assert (notes["first_date"], notes["last_date"]) == ("2026-03-02", "2026-03-24")
    assert notes["languages"] is None
    assert facts["tokens"] == notes["tokens"] + born["tokens"] > 0
    assert facts["text_bytes"] == notes["text_bytes"] + born["text_bytes"]
    assert {one["domain"]: one["documents"] for one in facts["web_domains"]["listed"]} == {
        "a0.co.uk": 6,
        "a1.co.uk": 7,
        "a2.co.uk": 7,
    }
    assert facts["generated"]["born"] == {
        "parents": ["notes"],
        "model": "tiny",
        "revision": "r7",
        "samples": 1,
        "prompts": {"rephrase": KEPT, "table": KEPT},
    }
    assert facts["personal_data"] == {"email": KEPT + 1}
    assert facts["takedowns"] == {"requests": 1, "documents": 1}
    assert facts["benchmarks"] is None
    for words in (
        "tiny r7",
        "rephrase (23), table (23)",
        "not recorded",
        "66.7%",
        "CC-BY-4.0 (23)",
        "No step searched",
    ):
        assert words in page
    assert "secret-7" not in page + json.dumps(facts)


def test_a_page_is_never_written_over_the_json_file(corpus, say, tmp_path):
    project, versions = corpus
    done = say("disclose", f"{project.store}@{versions[0]}", "--out", tmp_path / "d.json")
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert "Name it FILE.html" in done.err


def test_takedown_verify_proves_that_a_named_parent_was_not_sent(corpus, say, tmp_path):
    """The receipt lists the documents that were never generated; `verify` finds one that is in the shards."""
    project, versions = corpus
    folder = tmp_path / "r"
    done = say("takedown", "receipt", project.recipe, "--before", versions[0], "--out", folder)
    assert done.code == 0, done.err
    content = json.loads((folder / "receipt.json").read_text())
    assert [(one["source"], one["request"]) for one in content["unsent"]] == [("born", "secret-7")] * 3
    assert len({one["parent"] for one in content["unsent"]}) == 1
    done = say("takedown", "verify", folder)
    assert (done.code, "nothing that was not sent to a model (3 requests)" in " ".join(done.out.split())) == (0, True)
    kept = say("sql", project.recipe, "select doc_id from documents where kept and source = 'born' limit 1", "--json")
    content["unsent"][0]["doc_id"] = json.loads(kept.out)["doc_id"]
    content["seal"] = seal_of(content)
    (folder / "receipt.json").write_text(json.dumps(content))
    done = say("takedown", "verify", folder)
    assert (done.code, "of secret-7" in done.out) == (1, True)


def test_diff_counts_generated_documents(corpus, say):
    """A third prompt adds a document for each parent, and nothing else changes."""
    project, versions = corpus
    done = say("diff", *(f"{project.store}@{one}" for one in versions), "--json")
    found = json.loads(done.out)
    assert found["sources"]["born"]["kept"] == [2 * KEPT, 3 * KEPT]
    assert found["sources"]["notes"]["kept"] == [KEPT, KEPT]
    assert found["came"]["causes"] == [
        {"source": "born", "step": "-", "reason": "not among its inputs", "documents": KEPT}
    ]
    assert found["went"]["documents"] == 0
    assert {one["group"] for one in found["tokens"]} == {"born", "notes"}


def test_an_export_and_its_card_count_generated_documents(corpus, say, tmp_path):
    """The card has their number, share, model and parents; each row has its parent and prompt."""
    project, versions = corpus
    done = say("export", f"{project.store}@{versions[1]}", "--out", tmp_path / "out", "--format", "jsonl.zst")
    assert done.code == 0, done.err
    card = (tmp_path / "out" / "README.md").read_text()
    assert "69 documents (75.0%)" in card
    assert "| born | notes | tiny | r7 | 3 | 1 |" in card
    (path,) = (tmp_path / "out" / "data").iterdir()
    rows = [json.loads(line) for line in zstd.open(path, "rt")]
    ids = {row["doc_id"] for row in rows if row["source"] == "notes"}
    born = [row for row in rows if row["source"] == "born"]
    assert Counter(row["prompt"] for row in born) == dict.fromkeys(("rephrase", "table", "textbook"), KEPT)
    assert {row["parent"] for row in born} == ids
    assert len(ids) == KEPT
