"""A thinned pool: whole documents with all their repeats, and copies together."""

from collections import Counter

import numpy as np
import pytest

from gristmill.loader.loader import Loader
from gristmill_ablate.proxy.pool import Pool, gram_hashes, thin
from sharded import Corpus


@pytest.fixture
def manifest(project):
    """Every tale is in the corpus three times, with other ids."""
    corpus = Corpus(project)
    lines = (project.folder / "tales.jsonl").read_text().splitlines()
    (project.folder / "tales.jsonl").write_text("\n".join([*lines, *lines, *lines]))
    corpus.recipe()
    return corpus.run()[1]


def counted(manifest):
    """Every piece of the whole training, by its tokens: all of them, and those that are whole documents."""
    pieces, whole = Counter(), Counter()
    with Loader(manifest.location, threads=0) as loader:
        for sample in map(loader.sample, range(loader.samples)):
            for (start, stop), offset in zip(sample.doc_spans.tolist(), sample.doc_offsets, strict=True):
                tokens = sample.tokens[start:stop]
                pieces[tokens.tobytes()] += 1
                whole[tokens.tobytes()] += offset == 0 and tokens[-1] == manifest.tokenizer["end_of_document"]
    return pieces, whole


def test_what_is_kept_repeats_as_in_the_real_training(manifest):
    """Each document of the pool is in it as often as in the whole training, its copies included."""
    (_, whole), pool = counted(manifest), thin(manifest, 8000)
    kept = Counter(
        pool.tokens[start:stop].tobytes() for start, stop in zip(pool.starts[:-1], pool.starts[1:], strict=True)
    )
    assert 8000 <= len(pool.tokens) < 12000
    repeats = {kept[piece] for piece in kept if whole[piece]}
    assert all(kept[piece] == whole[piece] for piece in kept if whole[piece])
    assert max(repeats) >= 3


def test_a_pool_as_large_as_the_training_has_all_of_it(manifest, tmp_path):
    """In phases as the mixture has them; a saved pool is the same."""
    pool = thin(manifest, 10**9)
    assert len(pool.keys) == sum(counted(manifest)[0].values())
    assert pool.decay.tolist() == [False, True]
    assert (np.diff(pool.phases) >= 0).all()
    pool.save(tmp_path / "pool")
    assert (Pool.load(tmp_path / "pool").tokens == pool.tokens).all()


def test_hashes_are_those_of_the_n_grams():
    tokens = np.array([5, 6, 7, 5, 6, 7, 8], np.uint16)
    hashes = gram_hashes(tokens, 3)
    assert len(hashes) == 5
    assert hashes[0] == hashes[3]
    assert len({*hashes.tolist()}) == 4
