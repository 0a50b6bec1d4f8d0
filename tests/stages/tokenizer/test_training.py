"""The tokenizer of a recipe is trained only on its sample, and its bytes do not depend on parts or workers."""

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from tests.tokenizer.library_made import library_json

from gristmill.engine.mill import Mill, Silent, find_warnings
from gristmill.errors import UserError
from gristmill.query.documents.sample import sample_texts
from gristmill.query.documents.sample import tokenizer_file as file_of
from gristmill.recipe.load import load
from gristmill.stages.tokenizer import tokenizer, tokenizer_file
from gristmill.tokenizer import files
from gristmill.tokenizer.patterns import PATTERNS
from gristmill.tokenizer.special import SPECIAL_TOKENS

pytestmark = pytest.mark.slow

SYLLABLES = ["mil", "gra", "in", "sto", "ne", "wä", "ter", "el", "flo", "ur", "don't", "'s", "数据", "据", "123", "\n"]


class Corpus:
    """Two sources of two domains, and a recipe that trains on them."""

    def __init__(self, folder):
        self.folder = folder
        draw = random.Random(3)
        for name in ("web", "books"):
            (folder / name).mkdir()
            for number in range(3):
                lines = [json.dumps({"id": f"{number}-{row}", "text": self.text(draw)}) for row in range(80)]
                (folder / name / f"{number}.jsonl").write_text("\n".join(lines) + "\n")

    def text(self, draw):
        words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(draw.randint(1, 60))]
        return " ".join(words)

    def run(self, name, part_bytes="20KB", workers=1, train="vocab: 700", order=("web", "books"), tokenizer=None):
        budgets = "sample_bytes: {web: 15KB, books: 6KB}, held_out_share: 0.1"
        sources = "".join(
            f"  {source}: {{kind: text, domain: {source}, read: {{format: jsonl, paths: ['{source}/*.jsonl'], "
            f"fields: {{key: id}}, part_bytes: {part_bytes}}}}}\n"
            for source in order
        )
        recipe = self.folder / f"{name}.yaml"
        recipe.write_text(
            f"recipe: {name}\nseed: 3\nstore: ./{name}\nsources:\n{sources}"
            "steps: [stagebox.length, stagebox.longer_than: {chars: 30}]\n"
            f"tokenizer: {tokenizer or f'{{train: {{{train}, {budgets}}}}}'}\n"
        )
        mill = Mill(load(recipe))
        return mill, mill.run(workers, Silent())

    def texts(self, mill, run, split):
        return sorted(text for _, some in sample_texts(run, split) for text in some.to_pylist())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return Corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def ran(corpus):
    return corpus.run("first", train="vocab: 700, min_count: 1")


def test_part_size_workers_and_order_of_sources_do_not_change_a_byte(corpus):
    """The file of the tokenizer is the same, and so are the held-out texts."""
    mill, run = corpus.run("one")
    whole, held_out = Path(file_of(run)).read_bytes(), corpus.texts(mill, run, "held_out")
    assert len(run.documents["web"]) > 2
    other_mill, other = corpus.run("other", part_bytes="3KB", workers=2, order=("books", "web"))
    assert len(other.documents["web"]) > len(run.documents["web"])
    assert Path(file_of(other)).read_bytes() == whole
    assert corpus.texts(other_mill, other, "held_out") == held_out


def test_the_merges_are_those_of_the_library_on_the_same_texts(corpus, ran):
    """`tokenizers`, trained on exactly the texts of the sample with the same pattern, makes the same merges."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
    from tokenizers.trainers import BpeTrainer

    mill, run = ran
    library = Tokenizer(BPE())
    cut = Split(Regex(PATTERNS["gristmill"].text), "isolated")
    library.pre_tokenizer = Sequence([cut, ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = BpeTrainer(
        vocab_size=700 - len(SPECIAL_TOKENS),
        min_frequency=2,
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(corpus.texts(mill, run, "train"), trainer)
    wanted = json.loads(library.to_str())["model"]["merges"]
    made = json.loads(Path(file_of(run)).read_text())["model"]["merges"]
    assert len(made) == 700 - 512
    assert [merge.split(" ") for merge in made] == [list(merge) for merge in wanted]


def test_held_out_texts_are_separate_and_only_kept_documents_are_sampled(corpus, ran):
    """No document is on both sides, no dropped document is in the sample, and the metrics match."""
    mill, run = ran
    train, held_out = (corpus.texts(mill, run, split) for split in ("train", "held_out"))
    assert held_out
    assert min(map(len, train + held_out)) > 30
    assert not set(train) & set(held_out)
    metrics = run.states["all/tokenizer"].metrics
    assert metrics["domains"].keys() == {"web", "books"}
    for split, texts in (("train", train), ("held_out", held_out)):
        counted = [counts[split] for counts in metrics["domains"].values()]
        assert sum(counts["documents"] for counts in counted) == len(texts)
        assert sum(counts["bytes"] for counts in counted) == sum(len(text.encode()) for text in texts)
    assert metrics["domains"]["web"]["train"]["bytes"] <= 15_000
    sampled = run.states["all/tokenizer_sample"].metrics["domains"]
    assert {name: {key: counts[key] for key in ("train", "held_out")} for name, counts in sampled.items()} == metrics[
        "domains"
    ]


def test_the_manifest_of_the_model_names_its_hash_and_what_it_was_trained_on(ran):
    """The store, and not only the log, has the sampled text of each domain next to the file."""
    mill, run = ran
    name = mill.last_run()["nodes"]["all/tokenizer"]["datasets"]["model"]
    manifest = mill.store.read_json(f"datasets/{name}.json")
    assert manifest["metrics"] == run.states["all/tokenizer"].metrics
    assert list(manifest["metrics"]["tokenizers"]) == [files.load(file_of(run)).hash]


def test_a_change_of_the_vocabulary_repeats_only_the_training(corpus, ran):
    """Nothing is sampled again."""
    _, run = corpus.run("first", train="vocab: 600, min_count: 1")
    assert {name for name, state in run.states.items() if state.executed} == {"all/tokenizer"}


def test_a_sample_too_small_for_the_vocabulary_is_a_warning(corpus, ran):
    """The vocabulary is as large as the merges allow, and the run warns."""
    _, run = corpus.run("first", train="vocab: 90000, min_count: 1")
    size = run.states["all/tokenizer"].metrics["vocab"]
    assert 600 < size < 90_000
    assert files.load(file_of(run)).vocab_size == size
    assert (
        sum(f"the vocabulary has {size:,} entries instead of 90,000" in warning for warning in find_warnings(run)) == 1
    )


@pytest.mark.slow
def test_a_given_file_is_the_tokenizer_and_is_pinned_by_its_content(corpus, ran):
    """Its bytes are copied to the store; another name changes nothing, other bytes run again."""
    whole = Path(file_of(ran[1])).read_bytes()
    (corpus.folder / "given.json").write_bytes(whole)
    _, run = corpus.run("given", tokenizer="{file: given.json}")
    assert Path(file_of(run)).read_bytes() == whole
    assert list(sample_texts(run, "held_out")) == []
    (corpus.folder / "again.json").write_bytes(whole)
    _, run = corpus.run("given", tokenizer="{file: again.json}")
    assert not any(state.executed for state in run.states.values())
    (corpus.folder / "again.json").write_bytes(whole.replace(b'"<|reserved_7|>"', b'"<|renamed|>"'))
    _, run = corpus.run("given", tokenizer="{file: again.json}")
    assert {name for name, state in run.states.items() if state.executed} == {"all/tokenizer"}


def test_a_given_file_that_our_kernel_cannot_encode_is_a_warning(tmp_path):
    """The library encodes instead, and the run warns."""
    spec = json.loads(library_json("gristmill"))
    (tmp_path / "t.json").write_text(json.dumps({**spec, "normalizer": {"type": "NFC"}}))
    config = tokenizer_file.Config(file=str(tmp_path / "t.json"))
    warned = tokenizer_file.warnings(tokenizer_file.make(config, tmp_path / "model"), config)
    assert [message for message in warned if "normalizer NFC" in message] == list(warned) != []


def test_a_file_that_is_not_a_tokenizer_stops_the_recipe_before_any_work(corpus):
    """It is checked when the recipe is loaded."""
    (corpus.folder / "other.json").write_text("[]")
    with pytest.raises(UserError, match=r"other\.json is not a tokenizer\.json"):
        corpus.run("wrong", tokenizer="{file: other.json}")


def test_rare_pretokens_are_left_out_by_min_count(tmp_path):
    """A pre-token below the count gives no merge, and the metrics have both numbers."""
    texts = pa.array(["aaaa bbbb", "aaaa cccc"], pa.string())
    columns = [texts, pa.array(["web"] * 2), pa.array(["train"] * 2)]
    batch = pa.RecordBatch.from_arrays(columns, names=list(tokenizer.READS))
    config = tokenizer.Config(vocab=1000, min_count=2, min_pair_count=1)
    found = tokenizer.fit(iter([batch]), config, tmp_path / "model")
    assert (found["distinct_pretokens"], found["distinct_pretokens_used"], found["merges"]) == (3, 1, 2)


def test_a_sample_without_text_is_an_error_that_says_where_to_look(tmp_path):
    """There is nothing to train on."""
    empty = pa.RecordBatch.from_arrays([pa.nulls(2, pa.string())] * 3, names=list(tokenizer.READS))
    with pytest.raises(UserError, match="no document is left to train on"):
        tokenizer.fit(iter([empty]), tokenizer.Config(), tmp_path / "model")


def test_every_pattern_can_be_chosen():
    """The field lists all patterns that have a scanner."""
    assert set(tokenizer.Config.model_fields["pattern"].annotation.__args__) == set(PATTERNS)
