"""The map stage over Arrow batches."""

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gristmill.errors import UserError
from gristmill.stages.measure import signals
from gristmill.stages.measure.signals import SCHEMA, Config, apply, language_of_list
from gristmill.stages.natural_languages import LABEL

TEXTS = ["The cat sat.\nThe cat sat.\n", None, "", "Ünïcödé 漢字 with the end…", "{ x }", None, "a " * 50]


def batch_of(texts):
    return pa.record_batch({"text": pa.array(texts, pa.string())})


def test_one_row_for_each_row_with_the_schema():
    """Every row gets a row with the declared columns; a row without text gets only nulls."""
    out = apply(batch_of(TEXTS), Config())
    assert out.schema == SCHEMA
    assert out.num_rows == len(TEXTS)
    out.validate(full=True)
    for row, text in zip(out.to_pylist(), TEXTS, strict=True):
        assert {value is None for value in row.values()} == {text is None}
    assert out.to_pylist()[0]["dup_lines"] == 1
    assert out.to_pylist()[3]["stop_words"] == 2


@pytest.mark.parametrize("cut", range(len(TEXTS) + 1))
def test_any_slice_gives_the_same_rows(cut):
    """The engine may call the stage with any slice of a part: offsets into shared buffers count."""
    whole = batch_of(TEXTS)
    pieces = [whole.slice(0, cut), whole.slice(cut)]
    got = pa.Table.from_batches([apply(piece, Config()) for piece in pieces])
    assert got.to_pylist() == apply(whole, Config()).to_pylist()


def test_a_batch_without_rows_and_one_without_text():
    """No row in, no row out; only nulls in, only nulls out."""
    assert apply(batch_of([]), Config()).num_rows == 0
    assert apply(batch_of([None, None]), Config()).column("words").null_count == 2


def test_stop_words_and_blocked_terms_come_from_the_config(tmp_path):
    """Both are found in any case; the terms of the file are added to those of the recipe."""
    listed = tmp_path / "terms.txt"
    listed.write_text("big dog\n\nКот\n", encoding="utf-8")
    config = Config(stop_words=("der", "und"), blocked_terms=("cat",), blocked_list=str(listed))
    row = apply(batch_of(["Der Hund UND der Cat, a big dog, кот"]), config).to_pylist()[0]
    assert row["stop_words"] == 2
    assert row["blocked_tokens"] == 4


def test_blocked_terms_are_those_of_the_language(tmp_path):
    """A German word is not an English one; a list for all applies to every language and to unknown ones."""
    lists = {"en": "gift\n", "de.txt": "gift\nschlimm # bad\n", "all.txt": "damn\n", "README.md": "gift"}
    for name, text in lists.items():
        (tmp_path / name).write_text(text)
    text = "Gift schlimm damn"
    batch = pa.record_batch({"text": pa.array([text] * 4), LABEL: pa.array(["en", "deu_Latn", "fr", None])})
    for stop_words in (None, ("the",)):
        counts = apply(batch, Config(blocked_list=str(tmp_path), stop_words=stop_words)).column("blocked_tokens")
        assert counts.to_pylist() == [2, 3, 1, 1]


@pytest.mark.parametrize(
    ("name", "language"), [("en", "en"), ("pt-BR", "pt"), ("fil", "tl"), ("German", "de"), ("all", ""), ("", "")]
)
def test_a_list_is_named_by_its_language(name, language):
    """Regional codes, codes with a script and English names map to the classifier's labels."""
    assert language_of_list(name) == language


def test_a_list_that_would_count_nothing_is_an_error(tmp_path):
    """An empty file, a stop word or a term that is never one token: rejected, with its name."""
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    with pytest.raises(UserError, match="no term"):
        apply(batch_of(["x"]), Config(blocked_list=str(empty)))
    with pytest.raises(ValidationError, match="don't"):
        Config(stop_words=("don't",))
    with pytest.raises(ValidationError, match="blocked term"):
        Config(blocked_terms=("",))


def test_the_version_of_the_character_tables_is_in_the_task_key():
    """Other tables give other counts."""
    assert signals.STAGE.libraries_of(Config()).keys() == {"unicode"}


def test_the_stage_declares_what_it_reads():
    """Its declared columns."""
    assert signals.STAGE.reads == ("text",)
