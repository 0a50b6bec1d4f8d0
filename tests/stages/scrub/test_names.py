"""Names found by a model: their spans, and the message without the library."""

import importlib.util

import pytest
from tests.stages.scrub.scrubbed import scrub_texts

from gristmill.errors import UserError, WrongSetting
from gristmill.stages.scrub import names, scrub

TEXT = "Grüße an Anna Müller.\nThe mill of Anna Müller and Jörg stands, mail jo@mill.org"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model that knows two persons and a mill."""
    spacy = pytest.importorskip("spacy")
    made = spacy.blank("xx")
    ruler = made.add_pipe("entity_ruler")
    persons = [{"label": "PER", "pattern": name} for name in ("Anna Müller", "Jörg")]
    ruler.add_patterns([*persons, {"label": "LOC", "pattern": "mill"}])
    path = tmp_path_factory.mktemp("model") / "own"
    made.to_disk(path)
    return str(path)


def test_names_are_found_among_the_rest(model, monkeypatch):
    """At the right bytes after other letters, in one piece or in many; the same name has the same pseudonym."""
    for size in (names.MOST_CHARS, 30):
        monkeypatch.setattr(names, "MOST_CHARS", size)
        answers = scrub_texts([TEXT], types=["name", "email"], name_model=model)
        assert answers["text"][0].as_py() == "Grüße an <NAME>.\nThe mill of <NAME> and <NAME> stands, mail <EMAIL>"


def test_a_folder_that_is_not_a_model_is_reported(tmp_path):
    pytest.importorskip("spacy")
    with pytest.raises(UserError, match=r"config\.cfg"):
        scrub_texts([TEXT], types=["name"], name_model=str(tmp_path))


def test_without_the_library_the_extra_is_named(monkeypatch, tmp_path):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "spacy" else find(name, *rest))
    with pytest.raises(WrongSetting, match=r"pip install .*\[ner\]"):
        scrub.check(scrub.Config(types=("name",), name_model=str(tmp_path)))
