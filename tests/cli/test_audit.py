"""gristmill audit: a sample of the documents that steps matched, with the matches marked."""

import hashlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Project
from hypothesis import given
from hypothesis import strategies as st

from gristmill.cli.shared.options import open_view
from gristmill.query.removal.audit import MOST_PASSAGES, OPENING_BYTES, passages
from gristmill_explore.index import DocumentIndex

MODEL = Path(__file__).parents[1] / "stages" / "quality" / "toxic.bin"
RECIPE = """
recipe: audited
seed: 5
store: ./store
sources:
  notes: {{kind: text, read: {{format: jsonl, paths: [in.jsonl], fields: {{key: id}}, part_bytes: {part_bytes}}}}}
steps:
  - signals: {{blocked_list: terms.txt}}
  - quality: {{models: {{toxic: {{file: toxic.bin, label: toxic}}}}}}
  - marked
  - safety: {{hashes: digests, max_scores: {{toxic: 0.999}}, max_blocked_share: 0.001, min_blocked: 1}}
"""
OWN = '''"""Marks digits."""
import re
import pyarrow as pa
from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("digits", pa.list_(pa.int32())), ("text", pa.string())])

class Config(StageConfig): ...

def apply(batch, config):
    found = [[n for m in re.finditer("[0-9]+", t or "") for n in m.span()] for t in batch["text"].to_pylist()]
    texts = [re.sub("[0-9]+", "#", t or "") for t in batch["text"].to_pylist()]
    return pa.record_batch([pa.array(found, pa.list_(pa.int32())), pa.array(texts)], schema=SCHEMA)

def highlights(batch, config):
    for row, spans in enumerate(batch["digits"].to_pylist()):
        for start, stop in zip(spans[::2], spans[1::2]):
            yield row, start, stop, "even" if batch["text"][row].as_py()[stop - 1] in "02468" else "odd"
STAGE = Map(config=Config, reads=("text",), schema=SCHEMA, highlights=highlights, matched=("digits",), apply=apply)
'''
SECRET = "An unspeakable text that is on a list of digests, with damn and 12 in it."


def documents():
    for number in range(40):
        yield {"id": f"c{number}", "text": f"A calm page, number {2 * number}, about grain and water."}
    yield {"id": "odd", "text": "The only odd page is 7."}
    for number in range(30):
        yield {
            "id": f"t{number}",
            "text": f"<b>Damn</b> the {'old ' * (number % 9)}mill & its \x1b[mwheel, bloody hell!",
        }
    yield {"id": "s", "text": SECRET}


def make(folder: Path, part_bytes: str) -> Project:
    project = Project(folder)
    (folder / "in.jsonl").write_text("\n".join(map(json.dumps, documents())))
    (folder / "terms.txt").write_text("damn\nbloody hell\n")
    (folder / "digests").mkdir()
    (folder / "digests" / "known").write_text(hashlib.sha256(SECRET.encode()).hexdigest())
    (folder / "marked.py").write_text(OWN)
    shutil.copy(MODEL, folder)
    project.recipe.write_text(RECIPE.format(part_bytes=part_bytes))
    project.run()
    return project


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    return make(tmp_path_factory.mktemp("audited"), "1KB")


@pytest.fixture
def audit(audited, say):
    def run_audit(*words, recipe=None):
        result = say("audit", recipe or audited.recipe, *words)
        found = [json.loads(line) for line in result.out.splitlines()] if "--json" in words else None
        return SimpleNamespace(found=found, **vars(result))

    return run_audit


def test_every_type_has_its_share(audit):
    """Rare types are in the sample, common types fill the rest, and a document is drawn once per step."""
    entries = audit("-n", "20", "--json").found
    kinds = [(entry["step"], entry["type"]) for entry in entries]
    counts = {kind: kinds.count(kind) for kind in kinds}
    assert counts == {
        ("all/marked", "even"): 10,
        ("all/marked", "odd"): 1,
        ("all/safety", "unsafe_terms"): 9,
    }
    assert len({(entry["step"], entry["doc_id"]) for entry in entries}) == len(entries)


def test_audit_inspect_and_the_explorer_draw_the_same_documents(audit, audited, say, tmp_path):
    """The same ones in another store, too; and they are not the first of the corpus."""
    reason, view = "unsafe_terms", open_view(str(audited.recipe), None)
    drawn = [entry["doc_id"] for entry in audit("-n", "9", "--json", "--type", reason).found]
    other = audit("-n", "9", "--json", "--type", reason, recipe=make(tmp_path, "1KB").recipe)
    assert drawn == [entry["doc_id"] for entry in other.found]
    lines = say("inspect", audited.recipe, "--reason", reason, "-n", "9", "--json").out.splitlines()
    assert {json.loads(line)["doc_id"] for line in lines} == set(drawn)
    index = DocumentIndex(view)
    index.start()
    index.wait()
    first = index.documents("reason = ?", [reason], "rank", 9)
    everyone = index.documents("reason = ?", [reason], "number", 99)
    index.close()
    assert [one.doc_id for one in first] == drawn
    assert set(drawn) != {one.doc_id for one in everyone[:9]}
    skipped = say("inspect", audited.recipe, "--reason", reason, "-n", "90", "--skip", "9", "--json").out.splitlines()
    assert {json.loads(line)["doc_id"] for line in skipped} == {one.doc_id for one in everyone} - set(drawn)


def test_matches_are_marked_in_the_text_before_the_step(audit):
    """A step that rewrites texts marks matches in its input text; escape sequences in a text are shown,
    not executed.
    """
    (odd,) = audit("--step", "marked", "--type", "odd", "--json").found
    assert odd["passages"] == [{"start": 0, "pieces": [["The only odd page is ", None], ["7", "odd"], [".", None]]}]
    result = audit("--type", "unsafe_terms", "-n", "1")
    assert "<b>Damn</b> the" in result.out
    assert "\\x1b[mwheel, bloody hell!" in result.out


def test_a_document_on_a_digest_list_is_counted_and_never_shown(audit):
    """No output shows its text, even where another step matched the document."""
    results = [audit("-n", "500"), audit("-n", "500", "--json")]
    assert "unspeakable" not in "".join(result.out + result.err for result in results)
    assert "1 document is withheld: on a list of digests, or not checked against it yet." in results[0].err
    assert ["listed_hash", 1] in [[row["type"], row["documents"]] for row in audit("--counts", "--json").found]


def test_counts_equal_the_metrics(audit):
    """Counts by type, source and language need no texts."""
    assert audit("--counts").out.splitlines()[1].split() == ["all/safety", "unsafe_terms", "notes", "(none)", "30"]
    counts = {row["type"]: row["documents"] for row in audit("--counts", "--json").found}
    assert counts == {"unsafe_terms": 30, "listed_hash": 1}


def test_a_run_is_audited_without_its_recipe(audit, audited):
    """Lists that are files are in the store; lists in folders are not, and the audit warns about that."""
    result = audit("-n", "4", recipe=f"{audited.store}@audited")
    assert "Matches of all/safety are not marked" in result.err
    assert "unsafe_terms by all/safety" in result.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--step", "saftey"), "has no such step to audit. Did you mean safety? Steps: marked, safety."),
        (("--type", "unsafe_term"), "Did you mean unsafe_terms? Types: "),
    ],
)
def test_an_unknown_name_lists_the_valid_ones(audit, words, message):
    """The command exits with code 2 and one message."""
    result = audit(*words)
    assert result.code == 2
    assert message in result.err


def test_a_recipe_without_auditable_steps_is_refused(say, routes):
    """The message lists the steps that can be audited."""
    result = say("audit", routes.project.recipe)
    assert result.code == 2
    assert "nothing to audit. Steps that can be audited: decontaminate, safety, scrub." in result.err


@given(st.text("aé漢 ", max_size=4000), st.lists(st.integers(0, 4000), max_size=12))
def test_passages_come_from_the_text_and_are_bounded(text, edges):
    """Joined pieces are a slice of the text, every match in them is whole, and there are at most MOST_PASSAGES."""
    bounds = sorted({min(edge, len(text)) for edge in edges})
    spans = [
        (len(text[:a].encode()), len(text[:b].encode()), "x") for a, b in zip(bounds[::2], bounds[1::2], strict=False)
    ]
    result = list(passages(text.encode(), spans))
    assert 1 <= len(result) <= MOST_PASSAGES
    for passage in result:
        shown = "".join(piece for piece, _ in passage.pieces).encode()
        assert text.encode()[passage.start : passage.start + len(shown)] == shown
    matches = [piece for passage in result for piece, label in passage.pieces if label]
    assert set(matches) <= {text.encode()[a:b].decode() for a, b, _ in spans}
    assert matches or not spans or len(spans) > 1 or not text
    if not spans:
        assert len("".join(piece for passage in result for piece, _ in passage.pieces).encode()) <= OPENING_BYTES
