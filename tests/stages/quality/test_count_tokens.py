"""Token counts equal the lengths of encoded texts, and a recipe can cut by them."""

import numpy as np
import pyarrow as pa

from gristmill.stages.quality import count_tokens
from gristmill.tokenizer.files import load, write_json
from gristmill.tokenizer.model import Tokenizer


def written(folder):
    """A tokenizer of bytes and one merge: m and i, which are 76 and 72 in the order of its bytes."""
    path = write_json(Tokenizer.from_merges("gristmill", np.array([76], np.int32), np.array([72], np.int32)), folder)
    return str(path)


def test_counts_are_the_lengths_of_what_it_encodes(tmp_path):
    texts = ["a mill", "", None, "Mühle mi mi"]
    batch = pa.record_batch({"text": pa.array(texts, pa.string())})
    found = count_tokens.apply(batch, count_tokens.Config(tokenizer=written(tmp_path)))["tokens"].to_pylist()
    _, offsets = load(str(tmp_path / "tokenizer.json")).encode(batch["text"].fill_null(""))
    assert found == [None if text is None else int(n) for text, n in zip(texts, np.diff(offsets), strict=True)]
    assert 0 < found[0] < len("a mill")


def test_a_recipe_cuts_by_tokens(project):
    written(project.folder)
    project.write_recipe(
        "  - signals\n  - count_tokens: {tokenizer: tokenizer.json}\n"
        "  - keep_quality: {score: signals.words, keep_best: 0.5, by: tokens}"
    )
    funnel = project.run().states["notes/corpus"].metrics["funnel"]
    # Long ones score high here: half of the tokens are in fewer than half of the documents.
    assert (
        0
        < funnel["kept"]["rows"]
        < 0.45 * (funnel["kept"]["rows"] + funnel["first"]["all/keep_quality"]["low_quality"]["rows"])
    )
