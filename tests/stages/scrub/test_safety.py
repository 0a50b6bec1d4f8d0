"""The step `safety`: what it measures, what it drops, and what it withholds."""

import hashlib
import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError
from tests.kernels.text.test_fasttext import Tiny
from tests.stages.select.test_gate import SPELLINGS

from gristmill.errors import UserError, WrongSetting
from gristmill.stages.scrub import safety, safety_hashes, safety_scores, term_lists
from gristmill.stages.shared import fasttext_model
from lent_arrays import lent

HERE = Path(__file__).parent
MODEL = str(HERE / "toxic.bin")
SCORES = [(text, score) for text, score in json.loads((HERE / "toxic.json").read_text())]


@pytest.fixture
def folder(tmp_path):
    """Writes files below a folder and returns its path."""

    def write(**files: str) -> str:
        root = tmp_path / "-".join(files)
        for name, text in files.items():
            path = root / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(root)

    return write


def column(name: str, documents: list[dict], layers: dict) -> pa.Array:
    step, _, own = name.rpartition(".")
    if step in layers:
        return layers[step][own]
    return pa.array([document.get(name.removeprefix("language.")) for document in documents], pa.string())


def run(documents: list[dict], with_language: bool = True, **settings):
    """All layers of the step, for documents with url, text, label and source; and the batch that each part got."""
    config = safety.Config.model_validate(settings)
    documents = [{"source": "web", "ingest.text": document.get("text"), **document} for document in documents]
    layers: dict = {}
    batches = {}
    for module in (safety_hashes, safety_scores, safety):
        own = config if module is safety else module.STAGE.config_within(config)
        names = [*module.STAGE.reads_of(own), *(module.STAGE.may_read_of(own) if with_language else ())]
        batch = pa.RecordBatch.from_arrays([column(name, documents, layers) for name in names], names=names)
        name = module.__name__.rpartition(".")[2]
        layers[name], batches[name] = module.apply(batch, own), batch
        layers[name].validate(full=True)
        assert layers[name].schema.equals(module.SCHEMA)
    return layers, batches, config


def verdicts(documents: list[dict], **settings) -> list[tuple]:
    return [tuple(row.values()) for row in run(documents, **settings)[0]["safety"].to_pylist()]


def test_a_step_without_a_rule_is_refused():
    """Law 7: it would silently do nothing."""
    with pytest.raises(ValidationError, match="no rule"):
        safety.Config()


def test_terms_are_those_of_the_language(folder):
    """A German word is not an English one; a list for all applies to every language and to unknown ones."""
    lists = folder(en="damn\nbad word", de="verdammt\nmist", all="universal", **{"USERS.md": "everybody"})
    texts = [
        ("en", "damn mist bad-word"),
        ("de", "Mist! damn"),
        ("fr", "mist universal"),
        (None, "universal everybody"),
    ]
    layers, _, _ = run([{"label": label, "text": text} for label, text in texts], terms=lists)
    assert layers["safety_scores"]["terms"].to_pylist() == [2, 1, 1, 1]
    assert layers["safety_scores"]["words"].to_pylist() == [4, 2, 2, 2]


def test_without_a_list_nothing_is_measured_and_the_run_warns(folder):
    """A language without a list has nulls, not zeros, and the run names it."""
    lists = folder(en="damn")
    documents = [{"label": "en", "text": "damn"}, {"label": "fr", "text": "damn"}, {"label": None, "text": "damn"}]
    layers, batches, config = run(documents, terms=lists)
    assert layers["safety_scores"]["terms"].to_pylist() == [1, None, None]
    found = safety_scores.metrics(batches["safety_scores"], layers["safety_scores"], config)
    messages = " ".join(safety_scores.warnings(found, config))
    assert "no list of terms for 1 language: fr (1 document)" in messages
    assert "1 document has no language" in messages


@pytest.mark.parametrize(
    ("name", "language"),
    [("en", "en"), ("pt-BR", "pt"), ("fr-CA-u-sd-caqc", "fr"), ("fil", "tl"), ("German", "de"), ("all", ""), ("", "")],
)
def test_a_list_is_named_by_its_language(name, language):
    """Regional codes, codes with a script and English names map to the classifier's labels."""
    assert term_lists.language_of_list(name) == language


def test_both_a_number_and_a_ratio_of_terms_are_needed(folder):
    """Few terms do not drop a short text, nor many terms a long one; the ratio is exact."""
    lists = folder(en="damn")
    texts = ["damn " * 2, "damn " * 3, "damn " * 3 + "calm " * 297, "damn " * 3 + "calm " * 296, "calm", None]
    found = verdicts([{"label": "en", "text": text} for text in texts], terms=lists)
    assert [row[0] for row in found] == [None, "unsafe_terms", None, "unsafe_terms", None, None]
    assert found[1][1] == "3 in 3 words, en"


def test_no_verdict_contains_a_term(folder):
    """Details and metrics appear in logs and on pages."""
    layers, batches, config = run([{"label": "en", "text": "damn " * 9}], terms=folder(en="damn"))
    metrics = [
        module.metrics(batches[name], layers[name], config)
        for name, module in (("safety", safety), ("safety_scores", safety_scores))
    ]
    assert "damn" not in json.dumps([layers["safety"].to_pylist(), metrics])


def test_a_host_is_on_a_list_however_it_is_written(folder):
    """Tabs, capitals, Unicode forms and percent signs hide no page."""
    lists = folder(**{"adult.txt": "b\u00fccher.example"})
    assert {row[0] for row in verdicts([{"url": url} for url in SPELLINGS], domains=lists)} == {"blocked_category"}


def test_domains_have_a_category_and_are_dropped_by_choice(folder):
    """A host on two lists belongs to the one that drops it, even if the other names a shorter domain."""
    lists = folder(**{"adult.txt": "sub.both.example\nbad.example", "news__domains": "both.example\nnews.example"})
    urls = [
        "https://x.bad.example/",
        "https://news.example",
        "https://sub.both.example/a",
        "https://fine.example",
        None,
    ]
    documents = [{"url": url} for url in urls]
    assert verdicts(documents, domains=lists, drop_categories=["adult"]) == [
        ("blocked_category", "adult", "adult"),
        (None, None, "news"),
        ("blocked_category", "adult", "adult"),
        (None, None, None),
        (None, None, None),
    ]
    assert [row[0] for row in verdicts(documents, domains=lists)] == ["blocked_category"] * 3 + [None] * 2
    assert [row[0] for row in verdicts(documents, domains=lists, drop_categories=[])] == [None] * 5
    with pytest.raises(WrongSetting, match=r"adlut is not a list .+ Lists: adult, news"):
        safety.check(safety.Config(domains=lists, drop_categories=("adlut",)))


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


def test_a_run_warns_about_lists_without_effect(folder):
    """Empty lists, entries that are not digests, and lists and rules that matched nothing."""
    settings = {"hashes": folder(one="abc", two=""), "terms": folder(en="!!!\ndamn"), "domains": folder(x="a.example")}
    layers, batches, config = run([{"label": "en", "text": "calm", "url": "https://b.example"}], **settings)
    messages = []
    for module in (safety_hashes, safety_scores, safety):
        name = module.__name__.rpartition(".")[2]
        found = module.metrics(batches[name], layers[name], config)
        messages += module.warnings({**found, "dropped": {}}, config)
    assert messages == [
        "hashes/one is an empty list",
        "hashes/two is an empty list",
        "hashes/one has 1 entry without effect: not digests of 32, 40 or 64 hexadecimal digits",
        "hashes/one matched no documents",
        "hashes/two matched no documents",
        "terms/en has 1 entry without effect: without a word, one letter of a script without spaces, or too long",
        "no document contains a term of the lists",
        "domains matched no documents",
        "terms dropped no documents: none is above max_term_ratio (0.01)",
    ]


def test_toxicity_equals_the_library_s():
    """A model of words, character n-grams and word n-grams that the library trained, against its own probabilities."""
    layers, _, _ = run([{"text": text} for text, _ in SCORES], toxicity=MODEL)
    found = layers["safety_scores"]["toxicity"].to_pylist()
    assert found == pytest.approx([score for _, score in SCORES], abs=1e-5)
    assert max(found) - min(found) > 0.5


def test_texts_without_words_have_no_toxicity_and_others_are_dropped_above_the_threshold():
    """Null is not a low score; the threshold itself passes."""
    (text, _score) = max(SCORES, key=lambda one: one[1])
    documents = [{"text": None}, {"text": " \n"}, {"text": text}]
    layers, _, _ = run(documents, toxicity=MODEL, max_toxicity=0.5)
    assert layers["safety_scores"]["toxicity"].to_pylist()[:2] == [None, None]
    assert layers["safety"]["drop"].to_pylist() == [None, None, "toxic"]
    exact = layers["safety_scores"]["toxicity"][2].as_py()
    assert verdicts(documents[2:], toxicity=MODEL, max_toxicity=exact)[0][0] is None


def test_a_model_that_cannot_serve_is_refused_when_the_recipe_is_loaded(tmp_path):
    """A missing label, too many labels, and a file that is not a model."""
    with pytest.raises(WrongSetting, match=r"no label hate, .+ Its labels: fine, toxic"):
        safety_scores.check(safety_scores.Config(toxicity=MODEL, toxic_label="hate"))
    safety_scores.check(safety_scores.Config(toxicity=MODEL, toxic_label="__label__toxic"))
    many = tmp_path / "many.bin"
    many.write_bytes(Tiny(labels=tuple(map(str, range(300)))).file)
    with pytest.raises(WrongSetting, match="300 labels"):
        safety_scores.check(safety_scores.Config(toxicity=str(many), toxic_label="1"))
    many.write_bytes(Path(MODEL).read_bytes()[:999])
    with pytest.raises(UserError, match="cut off"):
        safety_scores.check(safety_scores.Config(toxicity=str(many)))


def test_any_slice_gives_the_same_rows(folder):
    """A row depends only on its document."""
    lists = folder(en="damn\nbad word", all="calm")
    documents = [{"label": ["en", "de", None][n % 3], "text": "damn calm bad word " * n} for n in range(9)]
    _, batches, config = run(documents, terms=lists, toxicity=MODEL)
    batch, own = batches["safety_scores"], safety_scores.STAGE.config_within(config)
    whole = safety_scores.apply(batch, own)
    for start, size in [(0, 1), (3, 5), (8, 1), (4, 0)]:
        assert safety_scores.apply(batch.slice(start, size), own).equals(whole.slice(start, size))


def test_found_counts_by_reason_source_and_language(folder):
    """The table that `gristmill audit --counts` prints."""
    documents = [
        {"label": "en", "text": "damn " * 5},
        {"label": "en", "text": "damn " * 5, "source": "books"},
        {"label": None, "text": "bad"},
        {"label": "en", "text": "calm"},
    ]
    hashes = folder(x=hashlib.md5(b"bad").hexdigest())
    layers, batches, config = run(documents, terms=folder(en="damn"), hashes=hashes)
    found = safety.metrics(batches["safety"], layers["safety"], config)["found"]
    assert found == {"unsafe_terms": {"web": {"en": 1}, "books": {"en": 1}}, "listed_hash": {"web": {"(none)": 1}}}


def test_highlights_are_the_terms_that_were_counted(folder):
    """In bytes of each text, also of a slice of a column."""
    documents = [{"label": "en", "text": text} for text in ("gone", "É damn, bad\nword", "calm", "damn")]
    _, _, config = run(documents, terms=folder(en="damn\nbad word"))
    columns = {"text": column("text", documents, {}), "language.label": column("language.label", documents, {})}
    batch = pa.RecordBatch.from_pydict(columns).slice(1)
    found = safety.highlights(batch, config)
    texts = batch["text"].to_pylist()
    assert [(row, texts[row].encode()[a:b].decode(), label) for row, a, b, label in found] == [
        (0, "damn", "term"),
        (0, "bad\nword", "term"),
        (2, "damn", "term"),
    ]


def test_a_changed_list_is_read_again(tmp_path):
    """A process that has read lists notices that they were replaced."""
    path = tmp_path / "terms.txt"
    path.write_text("damn")
    first = term_lists.load(str(path))
    path.write_text("damn\ncalm")
    assert (first.entries, term_lists.load(str(path)).entries) == ({"terms": 1}, {"terms": 2})
    assert np.count_nonzero(term_lists.load(str(path)).of(None).heads) == 2


def test_a_damaged_model_is_refused_or_does_no_harm():
    """For any changed byte: a clear message, or valid probabilities."""
    draw = random.Random(7)
    whole = Path(MODEL).read_bytes()
    texts = pa.array([text for text, _ in SCORES[:5]])
    refused = 0
    for _ in range(150):
        data = np.frombuffer(bytearray(whole), np.uint8)
        for place in draw.choices(range(len(whole)), k=draw.choice([1, 1, 4])):
            data[place] = draw.randrange(256)
        try:
            model = fasttext_model.parse(*lent(data), "damaged.bin")
            _, chances = fasttext_model.predict(model, texts, k=len(model.labels))
        except UserError:
            refused += 1
            continue
        assert ((chances >= 0) & (chances <= 1)).all()
    assert 0 < refused < 150
