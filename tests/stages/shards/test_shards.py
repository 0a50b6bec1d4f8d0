"""Shards have the whole corpus, in an order that depends only on the documents."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.shardformat.index import read_index
from gristmill.stages.doc_order import doc_order
from gristmill.stages.shards import shards
from stages.shards.checked_shard import check_shard
from stages.shards.made import (
    END,
    PAD,
    batch_of,
    corpus,
    doc_id,
    documents_of,
    locator,
    pieces_of,
    records_of,
    tokenizer_file,
    written,
)

CONFIG = shards.Config(seq_len_tokens=64, shard_tokens=8000, recipe="test", seed=5)


def counts_of(documents, group="web/A"):
    tokens = sum(map(len, documents.values()))
    return {"groups": {"web": {group: {"documents": len(documents), "tokens": tokens}}}}


def build_all(folder, documents, config=CONFIG, layout=None):
    """Build every shard of a corpus like the engine; returns the folder and metrics of each."""
    layout = layout or shards.layout(counts_of(documents), config)["web"]
    records = pa.Table.from_batches([shards.emit(batch_of(documents), config, layout)])
    models = {"tokenizer": tokenizer_file(folder / "tokenizer")}
    made = []
    for number, entry in enumerate(layout):
        mine = records.filter(pa.array(records["key"].to_numpy() == number)).drop_columns(["key"])
        here = folder / f"shard_{number}"
        here.mkdir()
        made.append((here, shards.build(mine if mine.num_rows else None, config, entry, here, models=models)))
    return made


def contents(folder):
    return {name: (folder / name).read_bytes() for name in shards.FILES}


@pytest.mark.parametrize("pack", ["best_fit", "whole", "concat"])
def test_the_shards_have_every_document_once_and_whole(tmp_path, pack):
    """Joined again, the pieces of all shards are the encoded corpus, token for token, and each shard is valid."""
    documents = corpus()
    made = build_all(tmp_path, documents, CONFIG.model_copy(update={"pack": pack}))
    assert len(made) > 2
    assert documents_of(*(folder for folder, _ in made)) == documents
    for folder, _ in made:
        files = [folder / name for name in shards.FILES]
        assert check_shard(*files, vocab_size=258) == []
    assert sum(metrics["documents"] for _, metrics in made) == len(documents)


@given(st.integers(1, 10**15), st.integers(1, 10**10))
def test_the_number_of_shards_is_the_nearest_power_of_two(tokens, wanted):
    """No other power of two brings the tokens of a shard closer to shard_tokens, as a ratio."""

    def distance(count):
        ratio = Fraction(tokens, count * wanted)
        return max(ratio, 1 / ratio)

    shards_made = shards.shards_of(tokens, wanted)
    assert shards_made.bit_count() == 1
    assert all(distance(shards_made) <= distance(other) for other in (shards_made * 2, max(1, shards_made // 2)))


def test_groups_have_separate_shards_in_the_order_of_names():
    """Sources keep their order, groups are sorted by name, and a group without tokens has no shard."""
    counts = {
        "groups": {
            "web": {"web/B": {"documents": 9, "tokens": 32000}, "web/A": {"documents": 1, "tokens": 10}},
            "code": {"code": {"documents": 0, "tokens": 0}},
        }
    }
    found = shards.layout(counts, CONFIG)
    assert list(found) == ["web", "code"]
    assert [(entry["group"], entry["shard"], entry["of"]) for entry in found["web"]] == [
        ("web/A", 0, 1),
        *(("web/B", shard, 4) for shard in range(4)),
    ]
    assert found["code"] == []


def test_the_top_bits_of_its_hash_select_the_shard_of_a_document(tmp_path):
    """This holds in any batch, and with other groups before and after."""
    documents = corpus()
    layout = [
        {"group": group, "source": "web", "shard": shard, "of": of}
        for group, of in (("web/0", 1), ("web/A", 8), ("web/Z", 2))
        for shard in range(of)
    ]
    sent = shards.emit(batch_of(documents), CONFIG, layout)
    hashes, _ = doc_order(sent.column("doc_id"), CONFIG.seed)
    assert sent.column("key").to_pylist() == [1 + int(value) // 2**61 for value in hashes]
    assert sent.schema.field("key").type == pa.uint64()
    alone = [shards.emit(batch_of(documents).slice(at, 7), CONFIG, layout) for at in range(0, len(documents), 7)]
    assert pa.Table.from_batches(alone).equals(pa.Table.from_batches([sent]))
    one = shards.emit(batch_of(documents, "web/0"), CONFIG, layout)
    assert set(one.column("key").to_pylist()) == {0}


def test_documents_without_tokens_are_not_sent():
    """A null in `ids` or `group` means that an earlier step had no result for the document."""
    doc_ids, locators, ids, groups = batch_of(corpus(3)).columns
    ids = pa.array([None, *ids.to_pylist()[1:]], pa.large_binary())
    batch = pa.RecordBatch.from_arrays([doc_ids, locators, ids, groups], names=list(shards.READS))
    sent = shards.emit(batch, CONFIG, [{"group": "web/A", "source": "web", "shard": 0, "of": 1}])
    assert sent.column("doc_id").to_pylist() == doc_ids.to_pylist()[1:]
    empty = shards.emit(batch.slice(0, 0), CONFIG, [])
    assert empty.num_rows == 0
    assert empty.schema == pa.schema([("key", pa.uint64()), *shards.RECORD_SCHEMA])


@given(st.randoms(use_true_random=False), st.sampled_from(["best_fit", "whole", "concat"]))
@settings(max_examples=15, deadline=None)
def test_the_order_and_the_chunks_of_records_do_not_matter(tmp_path_factory, draw, pack):
    """The same documents in any order and chunks give the same bytes."""
    documents = corpus(60)
    models = {"tokenizer": tokenizer_file(tmp_path_factory.mktemp("tokenizer"))}
    entry = {"group": "web/A", "source": "web", "shard": 0, "of": 1}
    config = CONFIG.model_copy(update={"pack": pack})
    names = list(documents)
    draw.shuffle(names)
    shuffled = records_of({name: documents[name] for name in names})
    cuts = sorted(draw.randrange(len(names)) for _ in range(3))
    chunks = [shuffled.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(names)], strict=True)]
    found = []
    for records in (records_of(documents), pa.concat_tables(chunks)):
        folder = tmp_path_factory.mktemp("shard")
        shards.build(records, config, entry, folder, models=models)
        found.append(contents(folder))
    assert found[0] == found[1]


def test_removing_a_document_changes_one_shard(tmp_path):
    """All other shards keep every byte."""
    documents = corpus()
    layout = shards.layout(counts_of(documents), CONFIG)["web"]
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()
    before = build_all(tmp_path / "before", documents, layout=layout)
    gone = doc_id(17)
    after = build_all(tmp_path / "after", {k: v for k, v in documents.items() if k != gone}, layout=layout)
    changed = [one for (one, _), (other, _) in zip(before, after, strict=True) if contents(one) != contents(other)]
    assert len(changed) == 1
    assert gone in documents_of(changed[0])


def test_the_seed_changes_the_order(tmp_path):
    """Another seed is another shuffle of the same documents."""
    documents = corpus(50)
    written(tmp_path / "one", documents)
    written(tmp_path / "two", documents, seed=6)
    assert documents_of(tmp_path / "one") == documents_of(tmp_path / "two")
    assert contents(tmp_path / "one") != contents(tmp_path / "two")


@pytest.mark.parametrize("pack", ["best_fit", "whole", "concat"])
def test_documents_are_ordered_by_the_hash(tmp_path, pack):
    """Pieces in a sample, and samples by their first pieces, are sorted by hash and tie."""
    documents = corpus()
    written(tmp_path, documents, pack=pack)
    hashes, ties = doc_order(pa.array(documents, pa.binary(16)), 5)
    place = {name: key for name, *key in zip(documents, hashes.tolist(), ties.tolist(), strict=True)}
    pieces = [(sample, place[name], offset) for sample, _, name, offset, _ in pieces_of(tmp_path)]
    assert pieces == sorted(pieces)
    firsts = [pieces[at][1:] for at in read_index(tmp_path / "tokens.index").first_piece[:-1].tolist()]
    assert firsts == sorted(firsts)


@pytest.mark.parametrize("kind", ["<u2", "<u4"])
@pytest.mark.parametrize("pack", ["best_fit", "whole", "concat"])
def test_the_metrics_are_those_of_the_files(tmp_path, pack, kind):
    """Documents, tokens, samples, pieces, padding and split documents, counted again from the files."""
    documents = corpus()
    metrics = written(tmp_path, documents, kind, pack=pack)
    ids = np.fromfile(tmp_path / "tokens.bin", kind)
    pieces = pieces_of(tmp_path)
    split = {name for _, _, name, offset, _ in pieces if offset}
    assert metrics == {
        "documents": len(documents),
        "tokens": sum(map(len, documents.values())),
        "samples": len(ids) // 64,
        "pieces": len(pieces),
        "padding": int((ids == PAD).sum()),
        "split_documents": len(split),
        "split_to_fill": sum(len(documents[name]) <= 64 for name in split),
    }
    assert int((ids == END).sum()) == len(documents)
    assert documents_of(tmp_path) == documents
    header = read_index(tmp_path / "tokens.index").header
    assert (header.tokenizer, header.recipe, header.group, header.seq_len) == ("f" * 64, "test", "web/A", 64)
    if pack == "whole":
        assert metrics["split_to_fill"] == 0


def test_documents_over_half_a_sample_are_split_to_fill_samples(tmp_path):
    """By default at most 2% is padding, and the split documents are counted; `whole` pads a third."""
    documents = {doc_id(number): [65] * 41 + [END] for number in range(600)}
    whole, filled = (written(tmp_path / pack, documents, pack=pack) for pack in ("whole", "best_fit"))
    assert (whole["samples"], whole["split_documents"]) == (600, 0)
    assert filled["padding"] <= 0.02 * filled["samples"] * 64
    assert filled["split_to_fill"] == filled["split_documents"] == 600 - filled["samples"]
    assert documents_of(tmp_path / "best_fit") == documents
    assert check_shard(*(tmp_path / "best_fit" / name for name in shards.FILES), vocab_size=258) == []


def test_every_token_traces_to_its_document(tmp_path):
    """The lineage has document, position and locator of each piece of each sample, and the source twice."""
    documents = corpus()
    written(tmp_path, documents)
    table = pq.read_table(tmp_path / "lineage.parquet")
    assert table.schema.metadata[b"source"] == b"web"
    assert pa.types.is_dictionary(table.schema.field("source").type)
    ids = np.fromfile(tmp_path / "tokens.bin", "<u2").reshape(-1, 64)
    traced = ids == PAD
    for row in table.to_pylist():
        begin, end = row["offset"], row["offset"] + row["length"]
        whole = documents[row["doc_id"]]
        assert ids[row["sample"], begin:end].tolist() == whole[row["doc_offset"] : row["doc_offset"] + row["length"]]
        assert row["locator"] == locator(row["doc_id"])
        assert row["source"] == "web"
        traced[row["sample"], begin:end] = True
    assert traced.all()


def test_a_shard_without_documents_is_three_valid_files(tmp_path):
    """A group of few long documents leaves some of its shards empty."""
    models = {"tokenizer": tokenizer_file(tmp_path)}
    entry = {"group": "web/A", "source": "web", "shard": 0, "of": 2}
    metrics = shards.build(None, CONFIG, entry, tmp_path, models=models)
    assert not any(metrics.values())
    assert check_shard(*(tmp_path / name for name in shards.FILES)) == []


def test_two_documents_with_the_same_id_have_a_fixed_order(tmp_path):
    """An input may have two records with the same id; their order must not depend on the input."""
    names, tokens = [doc_id(1), doc_id(1), doc_id(2)], [[7, END], [3, 4, END], [9, END]]
    found = []
    for number, order in enumerate(([0, 1, 2], [2, 1, 0])):
        records = pa.table(
            [
                pa.array([names[at] for at in order], pa.binary(16)),
                pa.array(["same"] * 3),
                pa.array([np.array(tokens[at], "<u2").tobytes() for at in order], pa.large_binary()),
            ],
            schema=shards.RECORD_SCHEMA,
        )
        here = tmp_path / str(number)
        here.mkdir()
        models = {"tokenizer": tokenizer_file(tmp_path)}
        shards.build(records, CONFIG, {"group": "web/A", "source": "web", "shard": 0, "of": 1}, here, models=models)
        found.append(contents(here))
    assert found[0] == found[1]


def test_facts_name_the_tokenizer_and_the_size_of_ids(tmp_path):
    """The catalogue has the facts common to all shards once."""
    models = {"tokenizer": tokenizer_file(tmp_path)}
    known = shards.facts(CONFIG, models)
    assert known["token_bytes"] == 2
    assert known["seq_len"] == 64
    assert {name: known["tokenizer"][name] for name in ("vocab_size", "end_of_document", "padding")} == {
        "vocab_size": 258,
        "end_of_document": END,
        "padding": PAD,
    }


def test_a_config_that_cannot_work_is_refused():
    """Shards smaller than a sample, and names that are too long for a header."""
    with pytest.raises(UserError, match="mostly padding"):
        shards.check(shards.Config(seq_len_tokens=8192, shard_tokens=8191))
    with pytest.raises(UserError, match="has space for only 128"):
        shards.check(shards.Config(recipe="ü" * 65))
    with pytest.raises(UserError, match="shorter name"):
        shards.layout({"groups": {"web": {"x" * 129: {"documents": 1, "tokens": 1}}}}, CONFIG)


@pytest.mark.parametrize(
    ("groups", "message"),
    [(["web+En", "web+en"], r"web\+En and web\+en differ in case only"), (map(str, range(2001)), "2,001 groups")],
)
def test_domains_of_a_column_that_disks_cannot_hold_are_refused(groups, message):
    """Each group is a folder."""
    with pytest.raises(UserError, match=message):
        shards.layout({"groups": {"web": {name: {"documents": 1, "tokens": 1} for name in groups}}}, CONFIG)
    shards.check(shards.Config(recipe="ü" * 64))


def test_a_run_warns_about_too_much_padding_and_about_no_documents():
    """There is no warning without a cause."""
    good = {"documents": 9, "tokens": 300 * 64 - 20, "padding": 20, "samples": 300}
    assert shards.warnings(good, CONFIG) == ()
    assert "3.0% of the tokens are padding" in shards.warnings({**good, "padding": 600}, CONFIG)[0]
    whole = CONFIG.model_copy(update={"pack": "whole"})
    assert "use pack: best_fit" in shards.warnings({**good, "padding": 600}, whole)[0]
    assert shards.warnings({**good, "samples": 50, "padding": 600}, CONFIG) == ()
    assert "no document" in shards.warnings({}, CONFIG)[0]
    assert "64 tokens" in shards.explain(CONFIG)[0]


def test_the_stage_loads_without_compiled_code():
    """Every command imports every stage, so `build` imports what only it needs."""
    code = "import sys, gristmill.stages.shards.shards; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
