"""A reserved slot of the tokenizer gets a name after training: nothing is trained, encoded or packed again."""

import pytest

from gristmill.engine.mill import find_warnings
from gristmill.errors import UserError
from gristmill.loader import Loader
from gristmill.query.versions.published import Published
from gristmill.recipe.load import load as load_recipe
from gristmill.tokenizer.files import load
from sharded import Corpus

TRAIN = "tokenizer: {train: {vocab: 600, special: [document, fim, <|mine|>], sample_bytes: {notes: 20KB, tales: 20KB}}"
NAMED = f"{TRAIN}, names: {{<|reserved_2|>: <|table|>}}}}"


@pytest.fixture
def corpus(project, edit):
    made = Corpus(project)
    made.recipe()
    edit(project.recipe, "tokenizer: {file: tokenizer.json}", f"{TRAIN}}}")
    return made


def test_a_slot_is_named_without_training_encoding_or_packing_again(corpus, edit):
    """Only the names and the manifest are made; ids, shards and their order stay, and the file has the name."""
    _, before = corpus.run()
    edit(corpus.project.recipe, f"{TRAIN}}}", NAMED)
    run, after = corpus.run()
    assert corpus.project.executed(run) == {"all/tokenizer_names": 1, "all/mix": 1}
    shards = [[[one.bin for one in group.shards] for group in manifest.groups] for manifest in (before, after)]
    assert shards[0] == shards[1]
    old, new = (load(manifest.where(manifest.tokenizer["file"])) for manifest in (before, after))
    ids = dict(old.specials)
    ids["<|table|>"] = ids.pop("<|reserved_2|>")
    assert new.specials == ids
    assert (ids["<|mine|>"], len(ids)) == (ids["<|end_of_text|>"] + 9, 256)
    assert new.encode_text("a<|table|>b", "all")[1] == ids["<|table|>"]
    texts = ["the mill grinds <|table|>", "<|mine|>"]
    assert [old.encode_text(text) for text in texts] == [new.encode_text(text) for text in texts]
    assert Published(run.shards).tokenizer.hash == new.hash
    for digest in (old.hash, new.hash):
        Loader(run.shards, tokenizer_hash=digest).close()
    with pytest.raises(UserError, match=f"the hash of the tokenizer is {new.hash}, but {'0' * 64} is required"):
        Loader(run.shards, tokenizer_hash="0" * 64)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("{<|mine|>: <|table|>}", r"tokenizer\.names: '<\|mine\|>' is not a reserved slot"),
        ("{<|reserved_2|>: ' '}", "cannot be a special token"),
        ("{<|reserved_2|>: <|mine|>}", "occurs twice"),
        ("{<|reserved_2|>: mill}", "'mill' is an ordinary token"),
    ],
)
def test_a_slot_that_cannot_be_named_so_is_refused(corpus, edit, names, message):
    """The message says what is wrong; no file with the name is made."""
    edit(corpus.project.recipe, f"{TRAIN}}}", f"{TRAIN}, names: {names}}}")
    with pytest.raises(UserError, match=message):
        corpus.run()


def test_names_for_slots_that_training_does_not_make_are_refused_before_any_work(corpus, edit):
    """The slots of a tokenizer that the recipe trains follow from the recipe."""
    edit(corpus.project.recipe, f"{TRAIN}}}", f"{TRAIN},\n  names: {{<|reserved_999|>: <|table|>}}}}")
    line = corpus.project.recipe.read_text().partition("names:")[0].count("\n") + 1
    with pytest.raises(UserError, match=rf":{line}: tokenizer\.names: '<\|reserved_999\|>' is not a reserved slot"):
        load_recipe(corpus.project.recipe)


def test_a_word_as_a_special_token_is_warned_about(corpus, edit):
    """Ordinary text may contain it."""
    named = NAMED.replace("<|mine|>", "grind").replace("<|table|>", "gristly")
    edit(corpus.project.recipe, f"{TRAIN}}}", named)
    run, _ = corpus.run()
    warned = [message for message in find_warnings(run, "r.yaml") if "may occur in ordinary text" in message]
    assert [word for message in warned for word in ("grind ", "gristly ") if word in message] == ["grind ", "gristly "]
