"""gristmill lineage: from a token, an id, a URL or a text to the bytes that it came from, and proof of it."""

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


@pytest.fixture(scope="module")
def kept(everything):
    return list(rows(everything.run, None, False, None))


@pytest.fixture(scope="module")
def looked(everything):
    """The run as a command sees it."""
    return everything.project.dry_run()


@pytest.fixture
def lineage(everything, say):
    def ask(*arguments, code=0):
        said = say("lineage", everything.project.recipe, *arguments, "--json")
        assert said.code == code, said.err
        return [json.loads(line) for line in said.out.splitlines()]

    return ask


def test_every_token_of_every_sample_leads_to_bytes_that_give_it(everything, looked, kept):
    """All documents of the shards are proved, all their tokens compared, and every sample is made of nothing else."""
    shards = Published(looked)
    places = find(looked, doc_id=[row.fields["doc_id"].hex() for row in kept])
    prover, proved = Prover(looked, places), {}
    for place in places:
        pieces = list(shard_pieces(shards, place.doc_id.hex()))
        proof = prover.prove(place, pieces)
        assert proof.tokens == sum(len(piece.ids) for piece in pieces) > 0
        proved[place.doc_id] = np.concatenate([piece.ids for piece in sorted(pieces, key=lambda one: one.doc_offset)])
    order, manifest = Order(shards.manifest), shards.manifest
    for sample in range(manifest.samples):
        at = order.place(sample)
        group = manifest.groups[at.group]
        files = shards.open_shard(group, at.shard)
        held = files.view(at.row)
        first, last = int(files.index.first_piece[at.row]), int(files.index.first_piece[at.row + 1])
        begin = 0
        for piece in range(first, last):
            begins, length = int(files.index.doc_offset[piece]), int(files.index.length[piece])
            whole = proved[bytes(files.index.doc_id[piece])]
            assert held[begin : begin + length].tolist() == whole[begins : begins + length].tolist()
            begin += length
        assert set(held[begin:].tolist()) <= {files.index.header.padding}


def test_the_bytes_of_the_input_are_those_of_the_record(everything, looked, lineage, kept):
    """Of a crawl bytes of the file, one gzip member; of lines bytes of the stream, one line."""
    page = next(row for row in kept if row.fields["source"] == "crawl")
    note = next(row for row in kept if row.fields["source"] == "notes")
    (life,) = lineage(page.fields["doc_id"].hex())
    origin = life["origin"]
    data = (everything.project.folder / "in" / origin["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == origin["sha256"]
    assert page.fields["url"].encode() in gzip.decompress(data[origin["start"] : origin["stop"]])
    (life,) = lineage(note.fields["doc_id"].hex())
    origin = life["origin"]
    data = (everything.project.folder / "in" / origin["file"]).read_bytes()
    assert json.loads(data[origin["start"] : origin["stop"]])["id"] == life["fields"]["locator"].partition("#")[2]
    assert origin["unit"] == "bytes of the decompressed stream"


def test_a_token_is_told_with_its_document_its_steps_its_shard_and_its_samples(lineage, everything):
    (life,) = lineage("--sample", 3, "--token", 10, "--prove")
    assert life["is_kept"]
    assert life["token"]["sample"] == 3
    assert any(3 in piece["seen_at"] for piece in life["shards"])
    assert life["steps"][0]["step"] == "ingest"
    assert life["group"] == life["token"]["group"] == life["shards"][0]["group"]
    assert sum(piece["tokens"] for piece in life["shards"]) == life["tokens"] == life["proof"]["tokens"]
    assert life["versions"][0]["names"] == ["v1"]
    assert life["weights"]["main"] > 0


def test_what_a_step_cut_is_what_is_missing_behind_it(looked, kept):
    places = find(looked, doc_id=[row.fields["doc_id"].hex() for row in kept])
    cut = [step for place in places for step in life_of(looked, place).steps if step.cuts]
    assert len({step.step for step in cut}) > 1
    for step in cut:
        gone = sum(one.stop - one.start for one in step.cuts)
        assert step.bytes_before - gone == step.bytes_after
        assert all(len(one.text.encode()) == one.stop - one.start for one in step.cuts)


def test_a_dropped_document_has_a_life_up_to_the_step_that_dropped_it(everything, lineage):
    near = next(rows(everything.run, "near_dedup", True, None))
    (life,) = lineage(near.fields["doc_id"].hex(), "--prove")
    assert not life["is_kept"]
    assert life["dropped_by"] == life["steps"][-1]["step"] == near.step
    assert life["steps"][-1]["reason"] == near.reason
    (cluster,) = life["clusters"]
    assert not cluster["is_keeper"]
    (keeper,) = lineage(cluster["id"])
    assert keeper["is_kept"]
    assert keeper["fields"]["locator"] == cluster["keeper"]
    assert keeper["clusters"][0]["is_keeper"]
    assert (life["shards"], life["versions"]) == ([], [])


def test_one_document_by_url_hash_words_and_file(lineage, kept, tmp_path):
    row = max((row for row in kept if row.fields["source"] == "crawl"), key=lambda row: len(row.text))
    doc_id = row.fields["doc_id"].hex()
    file = tmp_path / "quoted.txt"
    file.write_text(row.text)
    digest = hashlib.sha256(row.text.encode()).hexdigest()
    for question in ([row.fields["url"]], [digest], [row.text[5:-5]], ["--text-file", file]):
        assert [life["doc_id"] for life in lineage(*question)] == [doc_id]


def test_the_store_alone_tells_the_same_but_for_what_only_the_input_says(everything, lineage, say, kept):
    for source in ("crawl", "notes"):
        row = next(row for row in kept if row.fields["source"] == source)
        (life,) = lineage(row.fields["doc_id"].hex())
        said = say("lineage", f"{everything.project.store}@v1", row.fields["doc_id"].hex(), "--json")
        alone = json.loads(said.out)
        known = alone.pop("origin"), life.pop("origin")
        assert alone == life
        assert known[0]["start"] == (known[1]["start"] if source == "crawl" else None)


def test_people_see_it_on_a_screen(everything, say):
    said = say("lineage", everything.project.recipe, "--sample", 0, "--token", 0, "--prove")
    assert said.code == 0, said.err
    for result in (
        "kept   id ",
        "read from ",
        "ingest stays",
        "tokens ",
        "seen at sample",
        "held by everything ",
        "proved ",
    ):
        assert result in said.out


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ([], "No query is given"),
        (["abcd", "--sample", "1", "--token", "1"], "More than one query"),
        (["--sample", "1"], "--sample and --token must be given together"),
        (["--token", "1"], "--sample and --token must be given together"),
        (["--sample", "99999", "--token", "1"], "--sample 99999 is too large"),
        (["--sample", "1", "--token", "128"], "samples have 128 tokens"),
        (["--text-file", "nowhere.txt"], "cannot be read"),
        ([" "], "empty text"),
    ],
)
def test_what_cannot_be_asked_is_one_message(everything, say, arguments, result):
    said = say("lineage", everything.project.recipe, *arguments)
    assert said.code == 2
    assert result in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_proof_wants_the_inputs_and_a_document_that_is_not_there_is_said(everything, say):
    said = say("lineage", f"{everything.project.store}@v1", "abcd", "--prove")
    assert (said.code, "Give the recipe file" in said.err) == (2, True)
    said = say("lineage", everything.project.recipe, "0" * 32)
    assert (said.code, "has no such document" in said.err) == (1, True)


def test_proof_finds_every_kind_of_difference(looked, kept, monkeypatch):
    """Another token, another text in a layer, a step that says otherwise: each is named where it is met."""
    row = next(row for row in kept if row.fields["source"] == "notes")
    (place,) = find(looked, doc_id=row.fields["doc_id"].hex())
    pieces = list(shard_pieces(Published(looked), place.doc_id.hex()))
    prover = Prover(looked, [place])
    prover.prove(place, pieces)
    other = ShardPiece(pieces[0].where, pieces[0].doc_offset, pieces[0].ids + np.uint16(1))
    with pytest.raises(Differs, match="the tokens in the shard differ"):
        prover.prove(place, [other, *pieces[1:]])
    with pytest.raises(Differs, match="the number of tokens of the document differs"):
        prover.prove(place, pieces + pieces)
    layers, cell = prover._layers, prover._layers.cell
    for layer, column in (("ingest", "text"), ("all/heuristics", "failed"), ("all/tokens", "tokens")):

        def changed(asked, name, row, layer=layer, column=column):
            found = cell(asked, name, row)
            return pa.nulls(1, found.type) if (asked, name) == (layer, column) else found

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
def test_a_step_that_loads_something_can_be_proved_and_asked(project, say):
    """What its `setup` gives is given to it there as in a run."""
    (project.folder / "loading.py").write_text(LOADING)
    project.write_recipe("  - loading\n")
    row = next(iter(rows(project.run(), None, False, None)))
    result = say("lineage", project.recipe, row.fields["doc_id"].hex(), "--prove")
    assert result.code == 0, result.err
    result = say("whatif", project.recipe, "loading.least=30")
    assert result.code == 0, result.err
    assert "too_short" in result.out
