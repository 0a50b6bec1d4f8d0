"""gristmill lineage: from a token, an id, a URL or a text back to the input bytes, with proof."""

import gzip
import hashlib
import json

import numpy as np
import pyarrow as pa
import pytest

from gristmill.loader.order import Order
from gristmill.query.documents.documents import rows
from gristmill.query.documents.lookup import find
from gristmill.query.lineage.lineage import life_of
from gristmill.query.lineage.lives import shard_pieces
from gristmill.query.lineage.prove import Differs, Prover, ShardPiece
from gristmill.query.versions.published import Published
from gristmill.stages.measure import signals


@pytest.fixture(scope="module")
def kept(everything):
    return list(rows(everything.run, None, False, None))


@pytest.fixture(scope="module")
def view(everything):
    """The run as a command opens it."""
    return everything.project.dry_run()


@pytest.fixture
def lineage(everything, say):
    def run_lineage(*arguments, code=0):
        output = say("lineage", everything.project.recipe, *arguments, "--json")
        assert output.code == code, output.err
        return [json.loads(line) for line in output.out.splitlines()]

    return run_lineage


def test_every_token_of_every_sample_is_traced_to_its_input_bytes(everything, view, kept):
    """Every document in the shards is proved, all its tokens are compared, and samples contain nothing else."""
    shards = Published(view)
    places = find(view, doc_id=[row.fields["doc_id"].hex() for row in kept])
    prover, proved = Prover(view, places), {}
    for place in places:
        pieces = list(shard_pieces(shards, place.doc_id.hex()))
        proof = prover.prove(place, pieces)
        assert proof.tokens == sum(len(piece.ids) for piece in pieces) > 0
        proved[place.doc_id] = np.concatenate([piece.ids for piece in sorted(pieces, key=lambda part: part.doc_offset)])
    order, manifest = Order(shards.manifest), shards.manifest
    for sample in range(manifest.samples):
        location = order.place(sample)
        group = manifest.groups[location.group]
        files = shards.open_shard(group, location.shard)
        tokens = files.view(location.row)
        first, last = int(files.index.first_piece[location.row]), int(files.index.first_piece[location.row + 1])
        begin = 0
        for piece in range(first, last):
            begins, length = int(files.index.doc_offset[piece]), int(files.index.length[piece])
            document = proved[bytes(files.index.doc_id[piece])]
            assert tokens[begin : begin + length].tolist() == document[begins : begins + length].tolist()
            begin += length
        assert set(tokens[begin:].tolist()) <= {files.index.header.padding}


def test_the_origin_gives_the_bytes_of_the_record(everything, view, lineage, kept):
    """For a crawl it is one gzip member of the file; for JSON Lines it is one line of the decompressed stream."""
    page = next(row for row in kept if row.fields["source"] == "crawl")
    note = next(row for row in kept if row.fields["source"] == "notes")
    (entry,) = lineage(page.fields["doc_id"].hex())
    origin = entry["origin"]
    data = (everything.project.folder / "in" / origin["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == origin["sha256"]
    assert page.fields["url"].encode() in gzip.decompress(data[origin["start"] : origin["stop"]])
    (entry,) = lineage(note.fields["doc_id"].hex())
    origin = entry["origin"]
    data = (everything.project.folder / "in" / origin["file"]).read_bytes()
    assert json.loads(data[origin["start"] : origin["stop"]])["id"] == entry["fields"]["locator"].partition("#")[2]
    assert origin["unit"] == "bytes of the decompressed stream"


def test_a_token_is_shown_with_its_document_steps_shard_and_samples(lineage, everything):
    """The answer also has the proof, the weights and the versions that contain the document."""
    (entry,) = lineage("--sample", 3, "--token", 10, "--prove")
    assert entry["is_kept"]
    assert entry["token"]["sample"] == 3
    assert any(3 in piece["seen_at"] for piece in entry["shards"])
    assert entry["steps"][0]["step"] == "ingest"
    assert entry["group"] == entry["token"]["group"] == entry["shards"][0]["group"]
    assert sum(piece["tokens"] for piece in entry["shards"]) == entry["tokens"] == entry["proof"]["tokens"]
    assert entry["versions"][0]["names"] == ["v1"]
    assert entry["weights"]["main"] > 0


def test_the_cuts_of_a_step_equal_the_bytes_it_removed(view, kept):
    """The size before a step minus its cuts is the size after it."""
    places = find(view, doc_id=[row.fields["doc_id"].hex() for row in kept])
    cut = [step for place in places for step in life_of(view, place).steps if step.cuts]
    assert len({step.step for step in cut}) > 1
    for step in cut:
        gone = sum(span.stop - span.start for span in step.cuts)
        assert step.bytes_before - gone == step.bytes_after
        assert all(len(span.text.encode()) == span.stop - span.start for span in step.cuts)


def test_the_lineage_of_a_dropped_document_ends_at_the_step_that_dropped_it(everything, lineage):
    """A near-duplicate names its cluster and the document that was kept."""
    duplicate = next(rows(everything.run, "near_dedup", True, None))
    (entry,) = lineage(duplicate.fields["doc_id"].hex(), "--prove")
    assert not entry["is_kept"]
    assert entry["dropped_by"] == entry["steps"][-1]["step"] == duplicate.step
    assert entry["steps"][-1]["reason"] == duplicate.reason
    (cluster,) = entry["clusters"]
    assert not cluster["is_keeper"]
    (keeper,) = lineage(cluster["id"])
    assert keeper["is_kept"]
    assert keeper["fields"]["locator"] == cluster["keeper"]
    assert keeper["clusters"][0]["is_keeper"]
    assert (entry["shards"], entry["versions"]) == ([], [])


def test_a_document_is_found_by_url_hash_and_text(lineage, kept):
    """All four queries find the same document."""
    row = max((row for row in kept if row.fields["source"] == "crawl"), key=lambda row: len(row.text))
    doc_id = row.fields["doc_id"].hex()
    digest = hashlib.sha256(row.text.encode()).hexdigest()
    for query in ([row.fields["url"]], [digest], [row.text[5:-5]], [row.text]):
        assert [entry["doc_id"] for entry in lineage(*query)] == [doc_id]


def test_the_store_alone_gives_the_same_lineage_except_offsets_of_lines(everything, lineage, say, kept):
    """The offset of a line requires the input file; the offset of a gzip member is stored."""
    for source in ("crawl", "notes"):
        row = next(row for row in kept if row.fields["source"] == source)
        (entry,) = lineage(row.fields["doc_id"].hex())
        output = say("lineage", f"{everything.project.store}@v1", row.fields["doc_id"].hex(), "--json")
        from_store = json.loads(output.out)
        origins = from_store.pop("origin"), entry.pop("origin")
        assert from_store == entry
        assert origins[0]["start"] == (origins[1]["start"] if source == "crawl" else None)


def test_the_text_output_has_every_section(everything, say):
    """It shows the origin, the steps, the tokens, the samples, the versions and the proof."""
    output = say("lineage", everything.project.recipe, "--sample", 0, "--token", 0, "--prove")
    assert output.code == 0, output.err
    for phrase in (
        "kept   id ",
        "read from ",
        "ingest (version ",
        f"all/signals (version {signals.STAGE.version}",
        ") stays",
        "tokens ",
        "seen at sample",
        "held by everything ",
        "proved ",
    ):
        assert phrase in output.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "No query is given"),
        (["abcd", "--sample", "1", "--token", "1"], "More than one query"),
        (["--sample", "1"], "--sample and --token must be given together"),
        (["--token", "1"], "--sample and --token must be given together"),
        (["--sample", "99999", "--token", "1"], "--sample 99999 is too large"),
        (["--sample", "1", "--token", "128"], "samples have 128 tokens"),
        ([" "], "empty text"),
    ],
)
def test_an_invalid_query_is_one_message(everything, say, arguments, message):
    """The exit code is 2, without a traceback and without output."""
    output = say("lineage", everything.project.recipe, *arguments)
    assert output.code == 2
    assert message in output.err
    assert "Traceback" not in output.err
    assert output.out == ""


def test_proof_requires_the_inputs_and_an_unknown_document_is_reported(everything, say):
    """A proof from the store alone is refused with code 2; an unknown document gives code 1."""
    output = say("lineage", f"{everything.project.store}@v1", "abcd", "--prove")
    assert (output.code, "Give the recipe file" in output.err) == (2, True)
    output = say("lineage", everything.project.recipe, "0" * 32)
    assert (output.code, "has no such document" in output.err) == (1, True)


def test_proof_finds_every_kind_of_difference(view, kept, monkeypatch):
    """A changed token, a changed value in a layer and a changed verdict are each reported where they are found."""
    row = next(row for row in kept if row.fields["source"] == "notes")
    (place,) = find(view, doc_id=row.fields["doc_id"].hex())
    pieces = list(shard_pieces(Published(view), place.doc_id.hex()))
    prover = Prover(view, [place])
    prover.prove(place, pieces)
    other = ShardPiece(pieces[0].where, pieces[0].doc_offset, pieces[0].ids + np.uint16(1))
    with pytest.raises(Differs, match="the tokens in the shard differ"):
        prover.prove(place, [other, *pieces[1:]])
    with pytest.raises(Differs, match="the number of tokens of the document differs"):
        prover.prove(place, pieces + pieces)
    layers, cell = prover._layers, prover._layers.cell
    for layer, column in (("ingest", "text"), ("all/heuristics", "failed"), ("all/tokens", "tokens")):

        def changed(stage, name, row, layer=layer, column=column):
            value = cell(stage, name, row)
            return pa.nulls(1, value.type) if (stage, name) == (layer, column) else value

        monkeypatch.setattr(layers, "cell", changed)
        with pytest.raises(Differs, match=f"{column} is None in the store"):
            prover.prove(place, pieces)


LOADING = """
import pyarrow as pa
from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("drop", pa.string())])


class Config(StageConfig):
    least: int = 3


def setup(config):
    yield {"too short": "too_short"}


def apply(batch, config, loaded):
    short = [len(text or "") < config.least for text in batch.column("text").to_pylist()]
    return pa.record_batch([pa.array([loaded["too short"] if one else None for one in short], pa.string())], SCHEMA)


STAGE = Map(version=1, config=Config, reads=("text",), schema=SCHEMA, only_kept=True, setup=setup, apply=apply)
"""


@pytest.mark.usefixtures("forgotten")
def test_a_step_with_a_setup_function_works_in_lineage_and_whatif(project, say):
    """It gets the value of its `setup` there, as in a run."""
    (project.folder / "loading.py").write_text(LOADING)
    project.write_recipe("  - loading\n")
    row = next(iter(rows(project.run(), None, False, None)))
    result = say("lineage", project.recipe, row.fields["doc_id"].hex(), "--prove")
    assert result.code == 0, result.err
    result = say("whatif", project.recipe, "loading.least=30")
    assert result.code == 0, result.err
    assert "too_short" in result.out
