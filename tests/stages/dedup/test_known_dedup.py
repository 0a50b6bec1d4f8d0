"""A stored index: a new snapshot is compared with an earlier corpus without its texts."""

import random

import pyarrow as pa
import pytest

from gristmill.errors import UserError
from gristmill.stages.dedup.known_dedup import Config, apply, check, warnings
from gristmill.stages.dedup.near_candidates import Config as SketchConfig
from gristmill.stages.dedup.near_index import open_index, write_index
from stages.dedup.test_near_dedup import WORDS, families, jaccard, table


def batch(texts):
    return table(texts).select(["text", "doc_id"]).combine_chunks().to_batches()[0]


def make_index(folder, texts, **fields):
    about = write_index(folder, [batch(texts[:3]), batch(texts[3:])], SketchConfig(**fields))
    return str(folder), about


@pytest.mark.slow
def test_near_copies_of_known_documents_are_found_exactly(tmp_path):
    """A new document is dropped if and only if a known one is similar enough; the most similar one is named."""
    known = families(1, 40)
    draw = random.Random(9)
    new = [" ".join(draw.choices(WORDS, k=80)) for _ in range(20)]
    for text in known[::3]:
        words = text.split()
        for _ in range(draw.randint(0, 9)):
            words[draw.randrange(len(words))] = draw.choice(WORDS)
        new.append(" ".join(words))
    path, about = make_index(tmp_path / "index", known, bands=40, rows=3)
    assert about["documents"] == len(known)
    ids = [*batch(known[:3])["doc_id"].to_pylist(), *batch(known[3:])["doc_id"].to_pylist()]
    answers = apply(batch(new), Config(indexes=(path,))).to_pylist()
    hits = 0
    for text, answer in zip(new, answers, strict=True):
        best = max(jaccard(text, other) for other in known)
        assert (answer["drop"] == "known_near_duplicate") == (best >= 0.8)
        if answer["drop"]:
            hits += 1
            assert answer["similarity"] == pytest.approx(best, abs=1e-6)
            assert jaccard(text, known[ids.index(answer["known"])]) == pytest.approx(best, abs=1e-6)
    assert 5 < hits < len(new)


def test_an_index_is_the_same_bytes_every_time(tmp_path):
    """The index has the same files for any batches of the documents."""
    texts = families(3, 20)
    make_index(tmp_path / "one", texts)
    write_index(tmp_path / "two", [batch(texts[:3]), batch(texts[3:])], SketchConfig())
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_an_empty_index_knows_nothing(tmp_path):
    """No document is dropped, and the run warns."""
    write_index(tmp_path / "index", [], SketchConfig())
    answers = apply(batch(["some words that nobody knows of yet"]), Config(indexes=(str(tmp_path / "index"),)))
    assert answers.column("drop").null_count == 1
    assert warnings({"rows": 1, "dropped": {}}, Config(indexes=("x",)))


def test_wrong_folders_are_refused_with_the_reason(tmp_path):
    """A folder that is not an index, an incomplete index, and an index that already exists."""
    with pytest.raises(UserError, match="not an index of near duplicates"):
        check(Config(indexes=(str(tmp_path),)))
    path, _ = make_index(tmp_path / "index", families(1, 5))
    with pytest.raises(UserError, match="exists"):
        make_index(tmp_path / "index", ["text"] * 4)
    bands = tmp_path / "index" / "bands"
    bands.write_bytes(bands.read_bytes()[:-8])
    open_index.cache_clear()
    with pytest.raises(UserError, match="incomplete"):
        check(Config(indexes=(path,)))
    with pytest.raises(UserError, match="local folder"):
        check(Config(indexes=("s3://bucket/index",)))


def test_the_schema_is_kept(tmp_path):
    path, _ = make_index(tmp_path / "index", families(1, 5))
    assert apply(batch(["a"]), Config(indexes=(path,))).schema.field("known").type == pa.binary(16)
