"""Rules for languages other than English, and the warning if one drops nearly all of a language."""

import re

import pyarrow as pa
import pytest

from gristmill.stages.measure import signals
from gristmill.stages.select import corpus, heuristics, lines

ALL = ["gopher_repetition", "gopher_quality", "c4", "fineweb"]
GERMAN = [
    "Die alte Mühle steht am Fluss, und sie mahlt seit vielen Jahren das Korn für das ganze Dorf.",
    "Niemand weiß mehr genau, wer sie gebaut hat; im Archiv liegt nur ein Brief aus dem Jahr 1823.",
    "Besucherinnen und Besucher steigen bis in das oberste Stockwerk, wo der Trichter hängt.",
    "Von dort sieht man den Kirchturm, die Landstraße nach Süden und bei gutem Wetter auch die Berge.",
    "Der Müllermeister erzählt gern von der Hochwasserkatastrophe, bei der das Wehr gebrochen ist.",
]
ENGLISH = [
    "The old mill stands by the river, and for many years it has ground the corn of the whole village.",
    "Nobody remembers who built it; all that the archive has is a letter that was written in 1823.",
    "Visitors may climb to the top floor, where the hopper is, and look at the stones with the guide.",
    "From there one can see the church, the road to the south and, when it is clear, the mountains.",
    "The miller likes to tell of the great flood, when the weir broke and the wheel had to be built anew.",
]
CHINESE = [
    "这座老磨坊在河边，很多年来一直为全村的人磨粮食，现在已经成了一个小小的博物馆。",
    "没有人记得是谁建了它，档案里只有一封一八二三年的信，信上说磨坊的主人要离开这里。",
    "来参观的人可以爬到最上面一层，看看那些沉重的石头，也可以听听老师傅讲过去的故事。",
    "从那里能看到教堂和往南去的大路，天气好的时候，还能看见远处的山和山上的白雪。",
]


def judged(texts, labels, **config):
    measured = {"text": pa.array(texts)}
    if labels is not None:
        measured["language.label"] = pa.array(labels, pa.string())
    counts = signals.apply(pa.RecordBatch.from_pydict(measured), signals.Config())
    columns = {f"signals.{name}": counts[name] for name in counts.schema.names}
    columns |= {name: column for name, column in measured.items() if name != "text"}
    columns["source"] = pa.array(["s"] * len(texts))
    return heuristics.apply(pa.RecordBatch.from_pydict(columns), heuristics.Config(**(config or {"rules": ALL})))


def test_a_german_and_a_chinese_page_stay_if_their_language_is_known():
    """Otherwise they are dropped: by the English rules they have no stop words, or words of one character."""
    texts = ["\n".join(GERMAN), "\n".join(CHINESE)]
    assert judged(texts, ["de", "zh"])["drop"].to_pylist() == [None, None]
    assert judged(texts, None)["drop"].to_pylist() == ["too_few_stop_words", "words_too_short"]


def test_verdicts_on_english_do_not_depend_on_the_label():
    """Rules, reasons and numbers are the published ones, with and without a label."""
    texts = [
        "\n".join(ENGLISH),
        " ".join(ENGLISH[:2]),
        "\n".join(ENGLISH[:2] * 9),
        "{ " + "\n".join(ENGLISH),
        "...\n" * 40,
        "",
        None,
    ]
    plain = judged(texts, None)
    assert judged(texts, ["en"] * 7).to_pylist() == plain.to_pylist()
    assert (
        judged([*texts, GERMAN[0]], [*["en", "eng_Latn"] * 3, None, "de"]).slice(0, 7).to_pylist() == plain.to_pylist()
    )
    assert {reason for reason in plain["drop"].to_pylist() if reason} >= {"too_few_words", "curly_bracket"}


def test_a_threshold_that_the_recipe_sets_holds_for_every_language():
    """This holds unless the recipe has another for that language."""
    texts = ["\n".join(CHINESE), "\n".join(GERMAN)]
    settings = {"gopher_quality": {"min_words": 1000}}
    assert judged(texts, ["zh", "de"], **settings)["drop"].to_pylist() == ["too_few_words"] * 2
    settings["gopher_quality"]["by_language"] = {"zh": {"min_words": 30}}
    assert judged(texts, ["zh", "de"], **settings)["drop"].to_pylist() == [None, "too_few_words"]
    config = heuristics.Config(**settings)
    again = heuristics.Config.model_validate(config.model_dump(mode="json"))
    assert again == config
    assert judged(texts, ["zh", "de"], **again.model_dump(mode="json"))["drop"].to_pylist() == [None, "too_few_words"]


def test_lines_without_spaces_are_not_lines_of_one_word():
    """This holds if the language is known; an English line of one word is still cut."""
    texts = ["\n".join([*CHINESE, "很" * 1200]), "Home\n" + ENGLISH[0], "\n".join(CHINESE)]
    batch = pa.RecordBatch.from_pydict({"text": pa.array(texts), "language.label": pa.array(["zh", "en", None])})
    found = lines.apply(batch, lines.Config(terminal_punctuation=False))
    assert found["text"].to_pylist() == [texts[0], ENGLISH[0], ""]
    assert found["drop"].to_pylist() == [None, None, "no_lines_left"]
    plain = lines.apply(batch.select(["text"]), lines.Config(terminal_punctuation=False))
    assert plain["drop"].to_pylist()[0] == "no_lines_left"
    assert plain.slice(1).to_pylist() == found.slice(1).to_pylist()


STEPS = ("ingest", "web/keep_language", "web/heuristics")


def ended(rows):
    """The metrics and warnings of the last step over rows of (label, drop of each step)."""
    config = corpus.Config(steps=STEPS, texts=("ingest",))
    columns = [pa.array([drops[at] for _, drops in rows], pa.string()) for at in range(len(STEPS))]
    columns += [pa.array([size] * len(rows), pa.int64()) for size in (1, 0)]
    columns += [pa.array([label for label, _ in rows], pa.string())]
    names = [*(f"{step}.drop" for step in STEPS), "ingest.text_bytes", "ingest.html_bytes", "language.label"]
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    found = corpus.metrics(batch, corpus.apply(batch, config), config)
    return found, corpus.warnings(found, config)


def test_a_rule_that_drops_a_language_is_a_warning_with_its_share():
    """The warning has rule, language, share and advice; languages that are not kept, and a handful of pages, are no
    warning.
    """
    kept, gone = (None, None, None), (None, None, "too_few_stop_words")
    rows = [("de", gone)] * 83 + [("de", kept)] * 2 + [("en", kept)] * 400 + [("xx", gone)] * 19
    rows += [("fr", (None, "other_language", None))] * 500 + [(None, ("warcinfo_record", None, None))] * 9000
    found, warned = ended(rows)
    assert len(warned) == 1
    for words in (
        "web/heuristics dropped 83 of 85 documents in de (98%) for too_few_stop_words",
        "by_language",
        "corpus.documents(reasons=",
    ):
        assert words in warned[0]
    assert found["languages"]["de"] == {
        "read": 85, "kept": 2, "first": {"web/heuristics": {"too_few_stop_words": 83}},
    }  # fmt: skip


def test_a_rule_that_drops_a_source_is_a_warning():
    """This holds if no single language is the cause."""
    rows = [(label, (None, None, "too_few_words")) for label in ("a", "b", "c", "d", "e") for _ in range(10)]
    warned = ended([*rows, ("en", (None, None, None))])[1]
    assert len(warned) == 1
    assert "dropped 50 of 51 documents of this source (98%) for too_few_words" in warned[0]
    (part,) = ended([*rows[:20], *[("en", (None, None, None))] * 6])[1]
    assert "dropped 20 of 26 documents of this source (77%) for too_few_words" in part
    assert "manuals: `rules: [documentation]`" in part
    assert ended([*rows[:20], *[("en", (None, None, None))] * 60])[1] == []


def test_rules_that_drop_a_source_together_are_a_warning():
    """No single rule of a set drops most of it; the warning names the most frequent reason."""
    taken = ["too_few_words"] * 30 + ["too_few_stop_words"] * 40 + ["too_many_bullets"] * 20 + [None] * 10
    [warned] = ended([(None, (None, None, reason)) for reason in taken])[1]
    assert "dropped 90 of 100 documents of this source (90%) for too_few_stop_words and other reasons" in warned
    assert "corpus.documents(reasons=['too_few_stop_words']))" in warned


def test_nearly_all_is_not_shown_as_all():
    """The percentage is that of the funnel."""
    rows = [("de", (None, None, "too_few_words"))] * 882 + [("de", (None, None, None))]
    (warned,) = ended(rows)[1]
    assert "dropped 882 of 883 documents in de (99.9%)" in warned


@pytest.mark.parametrize(
    ("step", "advice"),
    [
        (
            "web/heuristics",
            r"if the rule does not fit the source, change it \(by_source\), or give the source its own steps",
        ),
        ("all/near_dedup", r"if they are not copies of kept documents, change the settings of all/near_dedup, or give"),
        ("web/gate", r"if they should stay, change the settings of web/gate, or give"),
    ],
)
def test_the_advice_fits_the_step(step, advice):
    """Only heuristics has the setting `by_source`."""
    found = {"funnel": {"read": {"rows": 50}, "kept": {"rows": 1}, "first": {step: {"gone": {"rows": 49}}}}}
    (warned,) = corpus.warnings(found, corpus.Config(steps=("ingest", step), texts=("ingest",)))
    assert re.search(advice, warned)
    assert ("by_source" in warned) == (step == "web/heuristics")


@pytest.mark.parametrize("share", [0.8, 0.81])
def test_the_bound_is_above_eighty_percent(share):
    """At eighty percent of a language there is no warning."""
    gone = int(100 * share)
    rows = [("de", (None, None, "x"))] * gone + [("de", (None, None, None))] * (100 - gone)
    assert bool([one for one in ended(rows)[1] if " in de " in one]) == (share > 0.8)


@pytest.mark.parametrize(("step", "gone", "warns"), [("heuristics", 26, 1), ("heuristics", 25, 0), ("gate", 60, 0)])
def test_one_rule_that_drops_more_than_a_quarter_of_a_source_is_a_warning(step, gone, warns):
    """Two rules that drop a fifth each are not, nor is a step without rules, such as a block list."""
    counts = {"words_too_long": {"rows": gone}, "too_few_words": {"rows": 20}}
    found = {"funnel": {"read": {"rows": 100}, "kept": {"rows": 1}, "first": {f"web/{step}": counts}}}
    warned = corpus.warnings(found, corpus.Config(steps=("ingest", f"web/{step}"), texts=("ingest",)))
    assert len(warned) == warns
    assert all(f"dropped {gone} of 100 documents of this source ({gone}%) for words_too_long." in one for one in warned)


def test_many_languages_that_a_step_removes_are_one_warning():
    """The five largest are named, the others counted."""
    rows = [
        (label, (None, None, "too_few_words"))
        for place, label in enumerate(("de", "fr", "it", "nl", "pl", "pt", "sv"))
        for _ in range(60 - 5 * place)
    ]
    _, warning = ended(rows)[1]  # after "no document survived"
    assert "dropped 60 of 60 documents in de (100%) for too_few_words, and nearly all in fr (55 of 55), it" in warning
    assert "pl (40 of 40) and 2 more languages, so hardly any text in these languages is left." in warning
    assert warning.endswith("change its threshold for each of them (by_language), or stop keeping them")


def test_a_rule_that_drops_a_source_of_one_language_asks_if_it_has_manuals():
    """The language is hardly to blame then; of a language that is the smaller part of its source, it may be."""
    rows = [("en", (None, None, "too_few_letter_words"))] * 99 + [("de", (None, None, None))]
    assert ended(rows)[1][0].endswith("or stop keeping en (manuals: `rules: [documentation]`, if it has others)")
    assert ended(rows + [("de", (None, None, None))] * 99)[1][0].endswith("or stop keeping en")
