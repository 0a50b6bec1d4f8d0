"""Language models as stages: trained by language, and used by `perplexity`."""

import json
import random

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gristmill.errors import UserError
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.quality import perplexity
from gristmill.stages.quality.ngram_file import load
from gristmill_ngram import language_model
from gristmill_ngram.arpa import write_arpa

PARTS = {
    "en": (
        ["the mill", "a boat", "the old bridge"],
        ["stands by", "looks at", "was built near"],
        ["the river", "a hill"],
    ),
    "de": (["die Mühle", "ein Boot", "die Brücke"], ["steht an", "liegt bei", "war nahe"], ["dem Fluss", "einem Berg"]),
}


def prose(language, seed, count):
    draw = random.Random(f"{language}{seed}")
    lines = [" ".join(map(draw.choice, PARTS[language])) for _ in range(6 * count)]
    return ["\n".join(f"{line} {draw.randint(1, 99)}." for line in lines[at::count]) for at in range(count)]


def sample(texts, languages):
    rows = len(texts)
    columns = [pa.array(texts, pa.string()), pa.array(["text"] * rows), pa.nulls(rows, pa.float32())]
    columns += [pa.array(range(rows), pa.uint64()), pa.array(languages, pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=list(language_model.COLUMNS))


def documents(texts, languages=None):
    columns = {"text": pa.array(texts, pa.string())}
    if languages is not None:
        columns[LABEL] = pa.array(languages, pa.string())
    return pa.record_batch(columns)


def config_of(**given):
    return language_model.Config(name="clean", **{"order": 3, "memory": "16MiB", "min_documents": 50, **given})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "clean.ngrams"
    english, german = prose("en", 1, 1200), prose("de", 1, 1200)
    batches = [sample([*english, None, "solo"], ["en"] * 1201 + ["fr"]), sample(german, ["de"] * 1200)]
    return path, language_model.fit(batches, config_of(), path), batches


def scored(path, batch, **given):
    config = perplexity.Config(models={"clean": {"trained": "clean", **given}})
    return perplexity.apply(batch, config, {"quality_clean": path}), config


def test_each_language_has_its_own_model(model):
    path, metrics, _ = model
    assert sorted(load(path)) == ["de", "en"]
    assert metrics["left_out"] == {"fr": 1}
    message = language_model.warnings(metrics, config_of(languages=["en", "pl", "fr"]))
    assert any("fr (1)" in one for one in message)
    assert any("pl" in one for one in message)


def test_the_file_does_not_depend_on_batches(model, tmp_path):
    """Other cuts, another order: the same bytes, and no other files are left."""
    path, _, batches = model
    turned = [one.slice(at, 400) for one in reversed(batches) for at in range(0, one.num_rows, 400)]
    language_model.fit(iter(turned), config_of(), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert [one.name for one in tmp_path.iterdir()] == ["again"]


def test_prose_is_likelier_than_shuffled_words_and_random_letters(model):
    """For every text of the language, by far; but not with the model of the other language."""
    draw = random.Random(7)
    good = prose("en", 2, 40)
    shuffled = [" ".join(draw.sample(text.split(), len(text.split()))) for text in good]
    letters = ["".join(draw.choices("abcdefghij klmnop", k=200)) for _ in good]
    answers, _ = scored(model[0], documents([*good, *shuffled, *letters], ["en"] * 120))
    values = answers["clean"].to_pylist()
    assert max(values[:40]) < min(values[40:])
    bands = answers["clean_band"].to_pylist()
    assert set(bands[40:]) == {"tail"}
    assert {"head", "middle"} <= set(bands[:40])
    other, _ = scored(model[0], documents(good, ["de"] * 40))
    assert min(other["clean"].to_pylist()) > max(values[:40])


def test_a_model_for_all_scores_everything_where_it_is_alone(model, tmp_path):
    """Without a step `language`, and trained on a file of lines."""
    lines = "\n".join(prose("en", 3, 30)).replace("\n\n", "\n")
    (tmp_path / "lines.txt").write_text(lines)
    config = config_of(files=(str(tmp_path / "lines.txt"),))
    language_model.fit([], config, tmp_path / "model")
    answers, _ = scored(tmp_path / "model", documents(["the mill stands by a hill", "le moulin"], ["en", "fr"]))
    assert answers["clean"].null_count == 0
    plain, _ = scored(tmp_path / "model", documents(["the mill stands by a hill", "le moulin"]))
    assert plain == answers


def test_files_give_texts_with_their_language(tmp_path):
    records = [{"text": text, "language": "en"} for text in prose("en", 4, 60)]
    (tmp_path / "good.jsonl").write_text("\n".join(map(json.dumps, records)))
    language_model.fit([], config_of(files=(str(tmp_path / "good.jsonl"),)), tmp_path / "model")
    assert list(load(tmp_path / "model")) == ["en"]


@pytest.mark.parametrize("content", [b'{"text": 3}', b'{"text": "a"}\n{', b"a\n\xff\n"])
def test_a_file_that_is_no_text_is_refused(tmp_path, content):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(UserError, match="cannot be trained on it"):
        language_model.fit([], config_of(files=(str(tmp_path / "bad"),)), tmp_path / "model")


def test_too_little_text_is_reported(tmp_path):
    with pytest.raises(UserError, match="no language has 50 documents"):
        language_model.fit([sample(["one text"], ["en"])], config_of(), tmp_path / "model")
    with pytest.raises(ValidationError, match="must not decrease"):
        config_of(prune=(2, 1))


def test_an_arpa_file_scores_the_language_that_it_is_for(model, tmp_path):
    """It has the same value as the model that it was written from."""
    write_arpa(model[0], "en", tmp_path / "en.arpa")
    batch = documents(["the mill stands by a hill", "die Mühle steht"], ["en", "de"])
    config = perplexity.Config(models={"other": {"file": str(tmp_path / "en.arpa"), "language": "en"}})
    perplexity.check(config)
    ours, _ = scored(model[0], batch)
    answers = perplexity.apply(batch, config)
    assert answers["other"].to_pylist() == [ours["clean"][0].as_py(), None]
    assert answers["other_band"].null_count == 2
