"""The step `safety`: what it drops, and what it withholds."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from gristmill.stages.scrub import safety, safety_hashes


@pytest.fixture
def folder(tmp_path):
    """Writes files below a folder and returns its path."""

    def write(**files: str) -> str:
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        return str(tmp_path)

    return write


TYPES = {safety.BLOCKED: pa.int32(), safety.WORDS: pa.int32(), "quality.toxic": pa.float32()}


def run(documents: list[dict], **settings):
    """The layers of both stages, for documents with the columns that they read; and the batch that each got."""
    config = safety.Config.model_validate(settings)
    documents = [{"source": "web", "ingest.text": document.get("text"), **document} for document in documents]
    layers, batches = {}, {}
    for name, module in (("safety_hashes", safety_hashes), ("safety", safety)):
        own = config if module is safety else module.STAGE.config_within(config)
        names = [*module.STAGE.reads_of(own), *module.STAGE.may_read_of(own)]
        withheld = layers["safety_hashes"]["withheld"] if layers else None
        columns = [
            withheld
            if column == "safety_hashes.withheld"
            else pa.array([document.get(column) for document in documents], TYPES.get(column, pa.string()))
            for column in names
        ]
        batches[name] = pa.RecordBatch.from_arrays(columns, names=names)
        layers[name] = module.apply(batches[name], own)
        layers[name].validate(full=True)
        assert layers[name].schema.equals(module.SCHEMA)
    return layers, batches, config


def verdicts(documents: list[dict], **settings) -> list[tuple]:
    return [tuple(row.values()) for row in run(documents, **settings)[0]["safety"].to_pylist()]


def test_a_step_without_a_rule_is_refused():
    """Law 7: it would silently do nothing."""
    with pytest.raises(ValidationError, match="no rule"):
        safety.Config()


def counts(blocked, words, **more):
    return {safety.BLOCKED: blocked, safety.WORDS: words, **more}


def test_both_a_number_and_a_share_of_words_are_needed():
    """Few words do not drop a short text, nor many a long one; the share is exact; an unmeasured text stays."""
    documents = [counts(2, 2), counts(3, 300), counts(3, 299, **{"language.label": "de"}), counts(None, None)]
    found = verdicts(documents, max_blocked_share=0.01)
    assert found == [(None, None), (None, None), ("unsafe_terms", "3 of 299 words, de"), (None, None)]


def test_a_score_above_its_limit_drops():
    """The limit itself passes, also where float32 rounds it up; a text without a score stays."""
    scores = [0.8, np.nextafter(np.float32(0.8), np.float32(1)), 0.93, None]
    found = verdicts([{"quality.toxic": score} for score in scores], max_scores={"toxic": 0.8})
    assert found == [(None, None), ("unsafe_score", "toxic 0.8"), ("unsafe_score", "toxic 0.93"), (None, None)]


@pytest.mark.parametrize("digest", safety_hashes.DIGESTS)
def test_digests_of_urls_and_texts_are_withheld(folder, digest):
    """For each of the three kinds: of the URL as written or in its normal form, and of the text."""

    def of(text: str) -> str:
        return hashlib.new(digest, text.encode()).hexdigest()

    lists = folder(
        a=of("https://Bad.example/x?utm_source=y").upper(), b="\n".join(map(of, ["bad text", "https://bad.example/n"]))
    )
    documents = [
        {"url": "https://Bad.example/x?utm_source=y", "text": "fine"},
        {"url": "http://bad.example/n/", "text": None},
        {"url": None, "text": "bad text"},
        {"url": None, "text": "<SCRUBBED> text", "ingest.text": "bad text"},
        {"url": "https://fine.example", "text": "bad texts"},
        {"url": "", "text": ""},
    ]
    layers, batches, config = run(documents, hashes=lists)
    names = ["hashes/a", "hashes/b", "hashes/b", "hashes/b", None, None]
    assert layers["safety_hashes"]["withheld"].to_pylist() == names
    assert layers["safety"]["drop"].to_pylist() == ["listed_hash"] * 4 + [None] * 2
    assert layers["safety"]["detail"].to_pylist() == names
    found = safety_hashes.metrics(batches["safety_hashes"], layers["safety_hashes"], config)
    assert found["listed"] == {"hashes/a": 1, "hashes/b": 3}


def test_a_run_warns_about_lists_and_rules_without_effect(folder):
    """Empty lists, entries that are not digests, and lists and rules that matched nothing."""
    settings = {"hashes": folder(one="abc", two=""), "max_blocked_share": 0.5, "max_scores": {"toxic": 0.9}}
    layers, batches, config = run([counts(0, 9, text="calm", **{"quality.toxic": 0.1})], **settings)
    messages = []
    for name, module in (("safety_hashes", safety_hashes), ("safety", safety)):
        found = module.metrics(batches[name], layers[name], config)
        messages += module.warnings({**found, "dropped": {}}, config)
    assert messages == [
        "hashes/one is an empty list",
        "hashes/two is an empty list",
        "hashes/one has 1 entry without effect: not digests of 32, 40 or 64 hexadecimal digits",
        "hashes/one matched no documents",
        "hashes/two matched no documents",
        "max_blocked_share dropped no documents: none is above it",
        "max_scores dropped no documents: none is above it",
    ]


def test_found_counts_by_reason_source_and_language(folder):
    """The table that `gristmill audit --counts` prints; the first rule that a document fails counts."""
    documents = [
        counts(5, 5, **{"language.label": "en"}),
        counts(5, 5, source="books", **{"language.label": "en"}),
        counts(5, 5, text="bad"),
        counts(0, 1, **{"language.label": "en"}),
    ]
    hashes = folder(x=hashlib.md5(b"bad").hexdigest())
    layers, batches, config = run(documents, max_blocked_share=0.1, hashes=hashes)
    found = safety.metrics(batches["safety"], layers["safety"], config)["found"]
    assert found == {"unsafe_terms": {"web": {"en": 1}, "books": {"en": 1}}, "listed_hash": {"web": {"(none)": 1}}}
