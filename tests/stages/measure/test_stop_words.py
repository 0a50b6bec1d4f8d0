"""Stop words by the language of a document."""

import pyarrow as pa
import pytest
from tests.kernels.text.test_words import split_tokens

from gristmill.stages.measure import language, signals
from gristmill.stages.measure.stop_words import GOPHER, STOP_WORDS
from gristmill.stages.natural_languages import FOUND_ANYWHERE, LID_176, WITHOUT_SPACES, language_of
from gristmill.stages.shared import fasttext_model

SENTENCES = {
    "ar": "ذهب الأولاد إلى المدرسة في الصباح و عاد الجميع من هناك مع أصدقائهم بعد الظهر.",
    "de": "Die Mühle steht am Fluss und mahlt Korn für das ganze Dorf.",
    "en": "The mill stands by the river, and nobody remembers to whom it belongs.",
    "fr": "Le moulin est au bord de la rivière et les gens du village y vont.",
    "hi": "यह चक्की नदी के किनारे है और गाँव के लोग वहाँ जाते हैं।",
    "ja": "水車は川のそばにあり、村のために穀物をひいている。",
    "ko": "이 물레방아는 강가에 있다. 마을 사람들은 그 곡식을 빻을 수 있다.",
    "ru": "Мельница стоит на берегу реки, и никто не помнит, кто её построил.",
    "th": "โรงสีตั้งอยู่ที่ริมแม่น้ำและเป็นของหมู่บ้าน",
    "zh": "这座磨坊在河边，是村里的人建的，也没有人记得是谁。",
}


def counted(texts, labels=None, **config):
    columns = {"text": pa.array(texts)}
    if labels is not None:
        columns["language.label"] = pa.array(labels, pa.string())
    return signals.apply(pa.RecordBatch.from_pydict(columns), signals.Config(**config))


def test_there_are_lists_for_the_fifty_largest_languages_and_each_word_can_be_found():
    """A word of two tokens would never be found."""
    assert len(STOP_WORDS) >= 50
    assert {
        "en",
        "de",
        "fr",
        "zh",
        "hi",
        "ar",
        "es",
        "ru",
        "ja",
        "pt",
        "id",
        "bn",
        "ur",
        "vi",
        "ta",
    } <= STOP_WORDS.keys()
    for name, words in STOP_WORDS.items():
        assert len(words) >= 8, name
        assert list(words) == [word.lower() for word in words], name
        if name not in FOUND_ANYWHERE:
            assert [word for word in words if split_tokens(word) != [word]] == [], name


def test_the_built_in_labels_are_those_of_the_model():
    """And every list is for a language that the model knows."""
    assert {label.lower() for label in fasttext_model.load(language.built_in_model()).labels} == LID_176
    assert STOP_WORDS.keys() <= LID_176
    assert WITHOUT_SPACES - {"dz"} <= LID_176


def test_a_sentence_has_stop_words_of_its_own_language_and_not_of_english():
    """Gopher's rule requires two."""
    found = counted(list(SENTENCES.values()), list(SENTENCES))["stop_words"].to_pylist()
    assert dict(zip(SENTENCES, found, strict=True)) == pytest.approx(dict.fromkeys(SENTENCES, 99), abs=97)
    english = counted(list(SENTENCES.values()))["stop_words"].to_pylist()
    assert [name for name, count in zip(SENTENCES, english, strict=True) if count >= 2] == ["en"]


def test_labels_with_a_script_are_the_same_languages():
    """GlotLID says deu_Latn where lid.176 says de."""
    texts = [SENTENCES["de"], SENTENCES["zh"], SENTENCES["en"]]
    assert counted(texts, ["deu_Latn", "cmn_Hani", "eng_Latn"]) == counted(texts, ["de", "zh", "en"])
    assert language_of("hin_Latn") == "hin_latn"


def test_english_and_what_has_no_label_is_counted_as_without_labels():
    """This holds for every column of every row, with any other rows in the batch."""
    texts = [SENTENCES["en"], None, "", SENTENCES["en"] * 3]
    plain = counted(texts)
    mixed = counted([*texts, SENTENCES["de"], SENTENCES["th"]], ["en", None, None, "EN", "de", "th"])
    assert mixed.slice(0, 4).to_pylist() == plain.to_pylist()
    assert plain["stop_words"].to_pylist()[0] == len({"the", "and", "to"} & set(GOPHER))


def test_other_columns_do_not_depend_on_the_label():
    """Only stop words depend on the language here."""
    texts = list(SENTENCES.values())
    plain, labelled = counted(texts), counted(texts, list(SENTENCES))
    for name in plain.schema.names:
        if name != "stop_words":
            assert plain[name] == labelled[name], name


def test_a_language_without_a_list_is_not_known():
    """Null fails no rule; a list of the recipe counts, and one for all takes precedence over the languages."""
    texts = ["La muelejo staras apud la rivero kaj la vilaĝo.", SENTENCES["de"]]
    assert counted(texts, ["eo", "de"])["stop_words"].null_count == 1
    own = counted(texts, ["eo", "de"], stop_words_by_language={"EO": ["la", "kaj"]})
    assert own["stop_words"].to_pylist()[0] == 2
    assert counted(texts, ["eo", "de"], stop_words=["kaj"])["stop_words"].to_pylist() == [1, 0]
    with pytest.raises(ValueError, match="Remove one"):
        signals.Config(stop_words=["a"], stop_words_by_language={"eo": ["la"]})
