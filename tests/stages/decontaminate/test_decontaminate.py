"""Decontamination: which findings count over all documents, and what of an item is searched for."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stages.decontaminate.suites import Step, item, prose, write_suite

from gristmill.errors import CannotBeMet
from gristmill.stages.decontaminate import decontaminate, eval_index, eval_match

ITEM = item(0)
WORDS = ITEM["q"].split()
MOST_OF_IT = " ".join(WORDS[:36])
"""24 of 28 n-grams of 13 words."""
WHOLE = f"{ITEM['q']} {ITEM['a']}"


WHEEL = {"id": "wheel", "q": "the water wheel turns", "a": "a mill"}
"""15 letters of information, 23 in a line: it counts in 35 documents, and in 140."""
BARE = tuple(enumerate(("Who", "How many", "When", "Which", "Where to", "What for")))
WITHIN, IN_A_LINE = ". The water wheel turns.", "\n\nThe water wheel turns\n\n"


def documents(text, count):
    return [f"{prose(f'before {number}', 12)} {text} {prose(f'after {number}', 12)}" for number in range(count)]


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    return Step(write_suite(tmp_path_factory.mktemp("suite"), {"b": [ITEM, item(1), item(2, 6), WHEEL]}))


@pytest.mark.parametrize("limit", [None, 300])
def test_a_phrase_of_many_documents_is_ignored_by_degrees(step, limit):
    """A short question within a text is ignored first, one on a line to itself later; both are counted by item."""
    kept, counts = step.run([*documents(WITHIN, 20), *documents(IN_A_LINE, 15)], limit=limit)
    assert all(row["drop"] for row in kept)
    assert counts["let_go_as_phrases"] == 0
    rows, counts = step.run([*documents(WITHIN, 26), *documents(IN_A_LINE, 10)], limit=limit)
    assert [bool(row["drop"]) for row in rows] == [False] * 26 + [True] * 10
    assert (counts["let_go_as_phrases"], counts["let_go_items"]) == (26, {"b wheel": 26})


def test_a_long_question_counts_in_any_number_of_documents(step):
    """Most of it is a copy in forty documents as in one, without any answer."""
    rows, counts = step.run(documents(MOST_OF_IT, 40))
    assert [{one["rule"] for one in row["evidence"]} for row in rows] == [{"ngram"}] * 40
    assert counts["let_go_as_phrases"] == 0


def test_ignored_items_are_named_in_a_warning():
    """The warning names the items of the most documents, counts the others, and names the command that lists all."""
    items = {f"b i{number}": number for number in range(1, 8)}
    (said,) = eval_match.warnings({"let_go_as_phrases": 28, "let_go_items": items}, eval_match.Config())
    assert "28 findings were ignored as common phrases" in said
    assert "b i7, b i6, b i5, b i4, b i3 and 2 other items" in said
    assert "`gristmill suite touched` lists" in said
    assert eval_match.warnings({"let_go_as_phrases": 0}, eval_match.Config()) == ()


def test_a_suite_without_matches_is_a_warning(tmp_path):
    """There is no warning if something was found or there was no document."""
    config = decontaminate.Config(suite=str(write_suite(tmp_path, {"b": [ITEM]})))
    (said,) = decontaminate.warnings({"documents_seen": 3, "benchmarks": {}}, config)
    assert said.startswith("no document was flagged for an item of the suite")
    assert not decontaminate.warnings({"documents_seen": 3, "benchmarks": {"b": 1}}, config)
    assert not decontaminate.warnings({"documents_seen": 0, "benchmarks": {}}, config)


def test_an_edited_copy_of_a_phrase_is_a_phrase(tmp_path):
    """A phrase of many documents is not an item in a document that changed one word of it."""
    question = "how do you make a copy of a key"
    step = Step(write_suite(tmp_path, {"b": [{"id": "i", "q": question, "a": "file it"}]}), common_documents=1)
    changed = documents(f"\n\n{question.replace('a key', 'the key')}\n\n", 1)
    alone, _ = step.run(changed)
    assert alone[0]["drop"] == "eval_item"
    rows, _ = step.run([*documents(f"\n\n{question}\n\n", 5), *changed])
    assert [row["drop"] for row in rows] == [None] * 6


@pytest.mark.parametrize("limit", [None, 300])
def test_a_whole_item_counts_in_any_number_of_documents(step, limit):
    """An item that leaked often is not a phrase, and its copies do not make it one for other documents."""
    texts = [*documents(WHOLE, 50), *documents(MOST_OF_IT, 10)]
    rows, counts = step.run(texts, cuts=range(0, 60, 7), bits=3, limit=limit)
    assert [row["drop"] for row in rows] == ["eval_item"] * 60
    assert counts["let_go_as_phrases"] == 0
    assert [{one["whole"] for one in row["evidence"]} for row in rows] == [{True}] * 50 + [{False}] * 10


TEXTS = [
    *documents(MOST_OF_IT, 3),
    *documents(WITHIN, 34),
    *documents(IN_A_LINE, 2),
    *documents(WHOLE, 3),
    *documents(f"{item(1)['q']} {item(1)['a']}", 2),
    *documents(" ".join(item(1)["q"].split()[:38]), 4),
    *documents(f". {item(2, 6)['q']}? {item(2, 6)['a']}.", 2),
    "",
    "nothing of the kind",
    None,
]


@settings(max_examples=12, deadline=None)
@given(st.randoms(use_true_random=False), st.sets(st.integers(1, len(TEXTS) - 1), max_size=6), st.sampled_from([0, 3]))
def test_order_parts_and_blocks_change_nothing(step, draw, cuts, bits):
    """Every document has the same row of the layer, and the counts are the same."""
    expected, totals = step.run(TEXTS)
    assert sum(row["drop"] is not None for row in expected) == 16
    assert totals["let_go_items"] == {"b wheel": 34}
    order = list(range(len(TEXTS)))
    draw.shuffle(order)
    rows, counts = step.run([TEXTS[at] for at in order], cuts, bits=bits, limit=draw.choice([None, 300]))
    assert rows == [expected[at] for at in order]
    assert counts == totals


def test_a_filled_blank_is_found_alone(tmp_path):
    """A choice that is the question with its blank filled in flags without the question; another choice does not."""
    before, after = " ".join(WORDS[:8]), " ".join(WORDS[8:16])
    choices = [f"{before} {name} {after}" for name in ("Ada", "Eve")]
    texts = [f"{prose('a')}. {choice}. {prose('b')}" for choice in choices]
    for question, is_found in ((f"{before} _ {after}", True), (prose("other question"), False)):
        items = [{"id": "i", "q": question, "a": choices[0], "c": choices}]
        step = Step(write_suite(tmp_path / str(is_found), {"b": items}, {"b": ", choices: c"}))
        assert [bool(flags) for flags in step.flags(texts)] == [is_found] * 2


def test_a_suite_that_differs_from_the_pinned_one_stops_the_run(tmp_path):
    """The message has both hashes, and what to write if the change is intended."""
    suite = write_suite(tmp_path, {"b": [ITEM]})
    held = eval_index.read_pinned(eval_index.Config(suite=str(suite))).hash
    eval_index.make(eval_index.Config(suite=str(suite), suite_hash=held[:16]), tmp_path / "model")
    write_suite(tmp_path, {"b": [ITEM, item(1)]})
    with pytest.raises(CannotBeMet, match=f"the recipe pins {held[:16]}.*write suite_hash: [0-9a-f]{{16}}"):
        eval_index.make(eval_index.Config(suite=str(suite), suite_hash=held[:16]), tmp_path / "model")


def test_items_that_cannot_be_protected_are_a_warning(tmp_path):
    """It names five of them. A suite without any other item is refused."""
    bare = [{"id": f"bare{number}", "q": "Why so?", "a": ""} for number in range(1)]
    suite = write_suite(tmp_path, {"b": [ITEM, *bare], "c": [{"id": f"x{n}", "q": f"{w}?", "a": ""} for n, w in BARE]})
    config = eval_index.Config(suite=str(suite))
    metrics = eval_index.make(config, tmp_path / "index")
    assert metrics["unprotected_items"] == {"b": {"bare0": 1}, "c": {f"x{n}": 1 for n, _ in BARE}}
    (warning,) = [one for one in eval_index.warnings(metrics, config) if one.name == "unprotected_items"]
    assert warning.startswith("7 items of the suite cannot be protected")
    assert "b bare0, c x0, c x1, c x2, c x3 and 2 more" in warning
    write_suite(tmp_path, {"b": bare})
    with pytest.raises(CannotBeMet, match=r"No item of the eval suite small .*b bare0 \('Why so\?'\)"):
        eval_index.make(config, tmp_path / "index")


def test_spellings_of_an_item_are_one_flag(tmp_path):
    """A text that matches several spellings is flagged once, by the one with the largest share."""
    step = Step(write_suite(tmp_path, {"b": [item(0, q=f"{ITEM['q']} don't stop")]}))
    words = [*WORDS, "dont", "stop"]
    words[9] = words[25] = "otherwise"
    text = f"{prose('before')}. {' '.join(words)}. {prose('after')}"
    assert [len(found) for found in step.hits([text])] == [2], "units that are found there"
    (row,), _ = step.run([text])
    assert [(flag["rule"], round(flag["coverage"] * 42)) for flag in row["evidence"]] == [("fuzzy", 40)]


SCRIPTS = {
    "Burmese": "မြန်မာနိုင်ငံ၏ မြို့တော်က ဘယ်မြို့ဖြစ်ပါသလဲ ဆိုတာ ပြောပြပေးပါ။",
    "Khmer": "តើរាជធានីនៃប្រទេសកម្ពុជាឈ្មោះអ្វី? តើទីក្រុងនេះត្រូវបានបង្កើតឡើងនៅឆ្នាំណា?",
    "Thai": "เมืองหลวงของประเทศไทยคือเมืองอะไร และก่อตั้งขึ้นในปีใด",
    "Arabic": "ما هي عاصمة هذا البلد القديم؟",
    "Hindi": "इस पुराने देश की राजधानी क्या है।",
    "Amharic": "የዚህ አሮጌ አገር ዋና ከተማ ማን ናት፧",
}


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_questions_of_any_script_are_found(tmp_path, script):
    """Combining marks are not words, and a question ends with the punctuation of its script."""
    step = Step(write_suite(tmp_path, {"b": [item(0, q=SCRIPTS[script], a="word")]}))
    found = step.flags([f"{prose(1)}\n{SCRIPTS[script]} word {prose(2)}", prose(3)])
    assert [{one for one, _ in flags} for flags in found] == [{"i0"}, set()]


def test_flags_are_sorted_and_have_spans_of_the_text(step):
    """The text between start and stop belongs to the item."""
    draw = random.Random(3)
    for text in draw.sample(TEXTS[:3] + TEXTS[39:50], 8):
        (row,), _ = step.run([text])
        for flag in row["evidence"]:
            held = text.encode()[flag["start"] : flag["stop"]].decode()
            assert set(held.split()) <= {*WORDS, *item(1)["q"].split(), *item(2, 6)["q"].split()}
        assert row["evidence"] == sorted(row["evidence"], key=lambda flag: tuple(flag.values()))
