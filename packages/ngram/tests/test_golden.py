"""A changed output comes with a new version."""

import hashlib

import pyarrow as pa

from gristmill_ngram import language_model

GOLDEN = {"version": 3, "unicode": "14.0.0", "hash": "1a876de46fceb908"}
TEXTS = ["the mill grinds grain\nthe miller sleeps", "the mill stands by the water", "grain and water", "", None] * 3


def test_a_changed_model_file_has_a_new_version(tmp_path):
    """After an intended change: raise the version, and copy the hash from the message."""
    columns = [pa.array(TEXTS), *(pa.nulls(len(TEXTS)) for _ in range(3)), pa.array(["en"] * len(TEXTS))]
    batch = pa.RecordBatch.from_arrays(columns, names=list(language_model.COLUMNS))
    config = language_model.Config(name="mill", sources=("mill",), min_documents=1, order=3, prune=(1, 1, 1))
    language_model.fit([batch], config, tmp_path / "model")
    digest = hashlib.sha256((tmp_path / "model").read_bytes()).hexdigest()[:16]
    assert (language_model.STAGE.version, digest) == (GOLDEN["version"], GOLDEN["hash"])
