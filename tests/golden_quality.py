"""The outputs of the stages that train quality models on fixed texts, for tests/stages/test_golden.py."""

import hashlib

import pyarrow as pa

from exchanged import run_stage
from gristmill.stages.quality import classifier, sample, texts
from gristmill.stages.quality.classifier_settings import ClassTexts

SIDES = {"mill": "positive", "shop": "negative"}


def model_outputs(folder, copies, digest_of):
    """A sample, its texts and a classifier for texts with copies."""
    rows = len(copies)
    known = {
        "text": pa.array(copies),
        "text_bytes": pa.array([len(text.encode()) for text in copies], pa.int64()),
        "doc_id": pa.array([hashlib.md5(bytes([n])).digest() for n in range(rows)], pa.binary(16)),
        "source": pa.array([("mill", "shop")[n % 2] for n in range(rows)]),
        "url": pa.array([None, *(f"https://www.site{n // 2}.co.uk/{n}" for n in range(1, rows))]),
        "language_hint": pa.array(["en"] * rows),
    }
    taken = sample.Config(sample_bytes=900, sides=SIDES, seed=3)
    (split,), counts = run_stage(sample, taken, [pa.table(known)])
    known["quality_mill_sample.split"] = split["split"]
    texts_config = texts.Config(name="mill", sides=SIDES)
    (layer,), _ = run_stage(texts, texts_config, [pa.table(known)])
    learned = classifier.Config(
        name="mill",
        positives=ClassTexts(sources=("mill",)),
        negatives=ClassTexts(sources=("shop",)),
        buckets=1000,
        min_count=1,
        min_words=5,
        example_words=10,
        held_out_share=0.3,
    )
    every = pa.array(["train"] * rows)
    (whole,), _ = run_stage(texts, texts_config, [pa.table({**known, "quality_mill_sample.split": every})])
    numbers = classifier.fit(whole.to_batches(), learned, folder / "mill.bin")
    assert split["split"].null_count not in (0, rows)
    assert "auc" in numbers
    found = {
        "quality_sample": (sample, taken, digest_of([split.to_pylist(), counts])),
        "quality_text": (texts, texts_config, digest_of(layer.to_pylist())),
        "classifier": (classifier, learned, _hash(folder / "mill.bin")),
    }
    return {
        name: {
            "version": module.STAGE.version,
            "libraries": module.STAGE.libraries_of(config),
            "output": output,
        }
        for name, (module, config, output) in found.items()
    }


def _hash(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
