"""Ready descriptions read public benchmarks in every form in which they are published."""

import json

import pyarrow.parquet as pq
import pytest
from tests.stages.decontaminate.published import PUBLISHED, parquet

from gristmill.errors import UserError
from gristmill.stages.decontaminate.suite.describe import ready, ready_names
from gristmill.stages.decontaminate.suite.form import Form, item_of
from gristmill.stages.decontaminate.suite.prompt import read_prompt
from gristmill.stages.decontaminate.suite.suite import read_suite, read_with_counts


@pytest.mark.parametrize(
    ("like", "form", "name", "content", "wanted"), PUBLISHED, ids=[f"{one[0]}-{one[1]}-{one[2]}" for one in PUBLISHED]
)
def test_a_published_file_gives_its_item(tmp_path, like, form, name, content, wanted):
    """Question, answer, choices, code and context are those of the paper, read with the right form."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    (tmp_path / "suite.yaml").write_text(f"suite: s\nversion: 1\nbenchmarks: {{b: {{files: {name}, like: {like}}}}}\n")
    suite, counts = read_with_counts(str(tmp_path))
    (item,) = suite.items
    found = {role: getattr(item, role) for role in (*wanted, "question", "answer", "choices", "code", "context")}
    assert found == {"answer": "", "choices": (), "code": (), "context": "", **wanted}
    assert counts["b"].forms == (form,)


def test_every_listed_form_has_an_example():
    """A form without an example could be wrong unnoticed."""
    listed = {(name, form) for name in ready_names() for form in ready(name).forms}
    assert listed == {one[:2] for one in PUBLISHED}


def test_only_the_columns_of_the_form_are_read(tmp_path, monkeypatch):
    """TriviaQA's evidence is a thousand times larger than its questions. If a column is missing, all are listed."""
    row = {"question": "Who built it?", "evidence": {"text": "a book"}, "answer": {"aliases": [], "value": "Ada"}}
    (tmp_path / "t.parquet").write_bytes(parquet(row))
    columns_read = []
    batches = pq.ParquetFile.iter_batches

    def watched(self, *given, columns, **named):
        columns_read.append(columns)
        return batches(self, *given, columns=columns, **named)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    head = "suite: s\nversion: 1\nbenchmarks: {b: {files: t.parquet, "
    (tmp_path / "suite.yaml").write_text(f"{head}question: question, answer: answer.value, id: question_id}}}}")
    assert read_suite(str(tmp_path)).items[0].answer == "Ada"
    assert set(map(tuple, columns_read)) == {("question", "answer")}
    (tmp_path / "suite.yaml").write_text(f"{head}question: questions}}}}")
    with pytest.raises(UserError, match=r"nothing under questions; there are .*evidence.text"):
        read_suite(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Which stone grinds?", ("", "Which stone grinds?", ())),
        ("Q: Which stone grinds?\nA:", ("", "Which stone grinds?", ())),
        ("Which stone?\nA) bed\nB) runner\nThe answer is:", ("", "Which stone?", ("bed", "runner"))),
        ("Which stone? (A) bed (B) runner", ("", "Which stone?", ("bed", "runner"))),
        (
            "Of mills.\nQ: Which?\nOptions:\nA.) bed\nB.) runner\n",
            ("Of mills.", "Which?", ("bed", "runner")),
        ),
        ("Question: one?\nAnswer: bed\n\nQuestion: two?\nAnswer:", ("Question: one?\nAnswer: bed", "two?", ())),
        ("What does the label Options: mean?", ("", "What does the label Options: mean?", ())),
        ("What is vitamin A. made of?", ("", "What is vitamin A. made of?", ())),
        ("Sort:\nB. bed\nC. runner", ("", "Sort:\nB. bed\nC. runner", ())),
        ("Which? Options: (A) bed (B) runner  Answer:", ("", "Which?", ("bed", "runner"))),
        ("Question: Which? Choices: A. bed B. runner Answer:", ("", "Which?", ("bed", "runner"))),
        ("Q: Which?\nOptions: A: bed; B: runner\nA:", ("", "Which?", ("bed", "runner"))),
        ("Which?\n1. bed\n2. runner\nAnswer:", ("", "Which?", ("bed", "runner"))),
        ("Choose the best option for each question.\n\nWhich?\nAnswer:", ("", "Which?", ())),
        (f"Passage: {'Mills grind. ' * 30}Question: Which? Answer:", (("Mills grind. " * 30).strip(), "Which?", ())),
    ],
)
def test_a_prompt_is_split_into_its_parts(text, parts):
    """Labels at the start of a line and letters in order are scaffolding; the same words in a question are not."""
    assert read_prompt(text) == parts


TWO = "Steps:\n1. wash\n2. dry\nWhich?\n1. bed\n2. runner"


@pytest.mark.parametrize(
    ("text", "known", "answer", "question", "choices"),
    [
        ("Of these:\nA. bed\nB. runner\nWhich is longer?", (), "both", None, ()),
        ("Take vitamin A. red or B. blue pills", (), "", None, ()),
        ("Which?\nA. bed\nB. runner\nC. sled", ("A", "B"), "", None, ()),
        ("She has a cat, a dog", ("a cat", "a dog"), "", None, ("a cat", "a dog")),
        (TWO, (), "", "Steps:\n1. wash\n2. dry\nWhich?", ("bed", "runner")),
        ("Which?\nA. bed\nB. runner\nA. again", (), "", "Which?", ("bed", "runner\nA. again")),
        ("A:", (), "", None, ()),
    ],
)
def test_other_lists_stay_in_the_question(text, known, answer, question, choices):
    """A list without the answer, letters within a sentence, too many, or out of order; and no question is empty."""
    found = read_prompt(text, known, answer)
    assert (found.question, found.choices) == (text if question is None else question, choices)


STYLES = {
    "lines": "Question: {q}\nChoices:\nA. {a}\nB. {b}\nAnswer:",
    "one line": "Question: {q} Choices: A. {a} B. {b} Answer:",
    "brackets": "{q} Options: (A) {a} (B) {b}  Answer:",
    "commas": "Q: {q}\nOptions: A) {a}, B) {b}\nA:",
    "numbers": "{q}\n1. {a}\n2. {b}",
    "no names": "{q}\nOptions:\n- {a}\n- {b}\nThe correct answer is:",
    "a row": "{q} Choices: {a}, {b}",
    "nothing else": "{q}",
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("like", ["commonsenseqa", "arc", "multiple_choice"])
def test_an_item_does_not_depend_on_its_prompt(tmp_path, like, style):
    """Question, choices and answer are compared without the prompt around them."""
    questions = [
        "Where do adults use glue sticks?",
        "Which stone of a mill grinds",
        "Why is rye bread dark? (Options: many)",
    ]
    answers = [("at the office", "school"), ("the runner", "the bed"), ("bran, which is brown", "it is old")]
    records = [
        {"query": STYLES[style].format(q=q, a=b, b=a), "choices": [b, a], "gold": 1}
        for q, (a, b) in zip(questions, answers, strict=True)
    ]
    if style not in ("no names", "a row", "nothing else"):
        records += [{**one, "choices": ["A", "B"]} for one in records]
    (tmp_path / "f.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in records))
    (tmp_path / "suite.yaml").write_text(f"suite: s\nversion: 1\nbenchmarks: {{b: {{files: f.jsonl, like: {like}}}}}\n")
    items = read_suite(str(tmp_path)).items
    assert {(one.question, one.answer, one.choices) for one in items} == {
        (q, a, (b, a)) for q, (a, b) in zip(questions, answers, strict=True)
    }


def test_choices_that_end_a_question_stay_in_it():
    """Without a heading, labels or separate lines they are words of the question."""
    assert read_prompt("Which is larger, a cat or a mill?", ["a cat", "a mill"]).question.endswith("cat or a mill?")


def test_statements_of_a_question_stay_in_it():
    """A list is the choices if the record has letters or the same texts; otherwise it is part of the question."""
    question = "Which hold?\nA. rye is a grain\nB. salt is a grain"
    form = Form(question="q", choices="c", answer_choice="n", prompt=True)
    both = item_of({"q": question, "c": ["A alone", "both"], "n": 0}, form, "b", "x")
    assert (both.question, both.choices) == (question, ("A alone", "both"))
    letters = item_of({"q": question, "c": ["A", "B"], "n": 0}, form, "b", "x")
    assert (letters.question, letters.answer) == ("Which hold?", "rye is a grain")
    own = item_of({"q": question, "c": ["A", "B"], "n": 0}, form.model_copy(update={"prompt": False}), "b", "x")
    assert own.question == question
