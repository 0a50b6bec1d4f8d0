"""One item of every public benchmark as in its files: (like, form, file name, content, item)."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq

A = {"question": "Which stone grinds?", "answer": "the runner", "choices": ("the bed", "the runner")}
NO_ANSWER = {**A, "answer": ""}
LABELLED = [{"text": "the bed", "label": "A"}, {"text": "the runner", "label": "B"}]
COLUMNS = {"text": ["the bed", "the runner"], "label": ["A", "B"]}
QUERY = {"query": "Question: Which stone grinds?\n", "choices": ["the bed", "the runner"], "gold": 1}
PLAIN_QUERY = {**QUERY, "query": "Which stone grinds?"}
SOLUTION = {"question": "Add 1 and 2.", "answer": "1 + 2 = 3"}
CODE = {"question": "Write a sum.", "code": ("def s(a): return a",)}
STATED = {"question": "Kai fell. Why is Kai sad?", "answer": "b", "choices": ("a", "b", "c")}
SITUATION = {"context": "Kai fell.", "question": "Why is Kai sad?", "answerA": "a", "answerB": "b", "answerC": "c"}
BLANK = {"sentence": "The _ turns.", "option1": "wheel", "option2": "sack"}
FILLED = {"question": "The _ turns.", "answer": "The sack turns.", "choices": ("The wheel turns.", "The sack turns.")}
GOAL = {"goal": "Which stone grinds?", "sol1": "the bed", "sol2": "the runner"}
YES = {"question": "is rye a grain", "answer": "true", "context": "Rye is a grain."}
BOOLQ = {"question": "is rye a grain", "passage": "Rye is a grain."}
PASSAGE = {"question": "He drank the water"}
PREMISE = {"premise": "Which stone grinds?", "choice1": "the bed", "choice2": "the runner", "idx": 0}
TRIVIA = {"question": "Who built it?", "answer": "Ada", "choices": ("Ada", "Countess")}
TRUE = {"question": "Why?", "answer": "Yes", "choices": ("Yes", "Right", "No", "Wrong")}


def jsonl(*records):
    return "\n".join(map(json.dumps, records)).encode()


def parquet(*records):
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(records)), file)
    return file.getvalue()


def ai2(**more):
    return {"id": "x", "question": {"stem": "Which stone grinds?", "choices": LABELLED}, **more}


PUBLISHED = [
    ("gsm8k", "jsonl or parquet", "test.jsonl", jsonl(SOLUTION), SOLUTION),
    ("gsm8k", "jsonl or parquet", "test.parquet", parquet(SOLUTION), SOLUTION),
    (
        *("humaneval", "HumanEval.jsonl.gz or parquet", "h.jsonl"),
        jsonl({"task_id": "HumanEval/0", "prompt": "def f():\n", "canonical_solution": "    pass\n"}),
        {"question": "def f():", "code": ("    pass\n", "def f():\n    pass\n"), "id": "HumanEval/0"},
    ),
    (
        *("mbpp", "mbpp.jsonl or its parquet", "mbpp.jsonl"),
        jsonl({"text": "Write a sum.", "code": "def s(a): return a", "task_id": 11, "test_list": []}),
        {**CODE, "id": "11"},
    ),
    (
        *("mbpp", "sanitized-mbpp.json or its parquet", "sanitized-mbpp.json"),
        json.dumps([{"task_id": 2, "prompt": "Write a sum.", "code": "def s(a): return a"}], indent=1).encode(),
        {**CODE, "id": "2"},
    ),
    (
        *("mmlu", "csv with header", "mmlu.csv"),
        b",Question,A,B,C,D,Answer,Subject\n0,Which stone grinds?,the bed,the runner,c,d,B,mills\n",
        {**A, "choices": ("the bed", "the runner", "c", "d")},
    ),
    (
        *("mmlu", "parquet", "test-00000.parquet"),
        parquet({"question": A["question"], "subject": "mills", "choices": A["choices"], "answer": 1}),
        A,
    ),
    ("mmlu", "jsonl", "t.jsonl", jsonl({"question": A["question"], "choices": A["choices"], "answer": 1}), A),
    ("mmlu", "llm-foundry", "t.jsonl", jsonl(QUERY), A),
    ("arc", "jsonl", "ARC-Easy-Test.jsonl", jsonl(ai2(answerKey="B")), {**A, "id": "x"}),
    ("arc", "parquet", "a.parquet", parquet({"question": A["question"], "choices": COLUMNS, "answerKey": "B"}), A),
    ("arc", "llm-foundry", "arc.jsonl", jsonl(QUERY), A),
    ("commonsenseqa", "jsonl", "dev.jsonl", jsonl(ai2(answerKey="B")), {**A, "id": "x"}),
    ("commonsenseqa", "jsonl without answers", "test.jsonl", jsonl(ai2()), NO_ANSWER),
    (
        *("commonsenseqa", "parquet", "c.parquet"),
        parquet({"question": A["question"], "choices": COLUMNS, "answerKey": ""}),
        NO_ANSWER,
    ),
    ("commonsenseqa", "llm-foundry", "c.jsonl", jsonl(QUERY), A),
    ("openbookqa", "jsonl", "test.jsonl", jsonl(ai2(answerKey="B", fact1="f")), A),
    (
        *("openbookqa", "parquet", "o.parquet"),
        parquet({"id": "7", "question_stem": A["question"], "choices": COLUMNS, "answerKey": "B"}),
        {**A, "id": "7"},
    ),
    ("openbookqa", "llm-foundry", "o.jsonl", jsonl(PLAIN_QUERY), A),
    (
        *("hellaswag", "jsonl or parquet", "val.jsonl"),
        jsonl({"ind": 24, "ctx": A["question"], "endings": A["choices"], "label": 1}),
        {**A, "id": "24"},
    ),
    (
        *("hellaswag", "jsonl or parquet", "val.parquet"),
        parquet({"ind": 24, "ctx": A["question"], "endings": A["choices"], "label": "1"}),
        {**A, "id": "24"},
    ),
    ("hellaswag", "llm-foundry", "h.jsonl", jsonl(PLAIN_QUERY), A),
    (
        *("truthfulqa", "parquet (generation)", "g.parquet"),
        parquet(
            {
                "question": "Why?",
                "best_answer": "Yes",
                "correct_answers": ["Yes", "Right"],
                "incorrect_answers": ["No", "Wrong"],
            }
        ),
        TRUE,
    ),
    (
        *("truthfulqa", "parquet (multiple_choice)", "m.parquet"),
        parquet(
            {
                "question": "Why?",
                "mc1_targets": {"choices": ["Yes", "No"], "labels": [1, 0]},
                "mc2_targets": {"choices": ["Right", "Wrong"], "labels": [1, 0]},
            }
        ),
        {**TRUE, "choices": ("Yes", "No", "Right", "Wrong")},
    ),
    (
        *("truthfulqa", "mc_task.json", "mc_task.json"),
        json.dumps([{"question": "Why?", "mc1_targets": {"Yes": 1, "No": 0}, "mc2_targets": {"Right": 1}}]).encode(),
        {"question": "Why?", "choices": ("Yes", "No", "Right")},
    ),
    ("piqa", "jsonl without answers", "tests.jsonl", jsonl(GOAL), NO_ANSWER),
    ("piqa", "parquet", "p.parquet", parquet({**GOAL, "label": 1}), A),
    ("piqa", "parquet", "p.parquet", parquet({**GOAL, "label": -1}), NO_ANSWER),
    ("piqa", "llm-foundry", "piqa.jsonl", jsonl(QUERY), A),
    (
        "winogrande",
        "jsonl or parquet",
        "dev.jsonl",
        jsonl({**BLANK, "qID": "q1", "answer": "2"}),
        {**FILLED, "id": "q1"},
    ),
    ("winogrande", "jsonl or parquet", "w.parquet", parquet({**BLANK, "answer": "2"}), FILLED),
    ("winogrande", "jsonl without answers", "test.jsonl", jsonl(BLANK), {**FILLED, "answer": ""}),
    ("lambada", "jsonl or parquet with text", "l.jsonl", jsonl({"text": "He drank the water"}), PASSAGE),
    (
        *("lambada", "context and continuation (llm-foundry)", "l.jsonl"),
        jsonl({"context": "He drank the", "continuation": "water"}),
        {**PASSAGE, "answer": "water"},
    ),
    (
        *("math", "json, jsonl or parquet", "algebra/1.json"),
        json.dumps({"problem": "Add 1 and 2.", "level": "Level 1", "solution": "1 + 2 = 3"}, indent=2).encode(),
        SOLUTION,
    ),
    (
        "math",
        "json, jsonl or parquet",
        "t.jsonl",
        jsonl({"problem": "Add 1 and 2.", "solution": "1 + 2 = 3"}),
        SOLUTION,
    ),
    ("boolq", "jsonl or parquet", "dev.jsonl", jsonl({**BOOLQ, "title": "Rye", "answer": True}), YES),
    ("boolq", "jsonl or parquet", "b.parquet", parquet({**BOOLQ, "answer": True}), YES),
    ("boolq", "SuperGLUE", "val.jsonl", jsonl({**BOOLQ, "idx": 5, "label": True}), {**YES, "id": "5"}),
    ("boolq", "SuperGLUE without answers", "test.jsonl", jsonl({**BOOLQ, "idx": 5}), {**YES, "answer": ""}),
    ("siqa", "parquet", "s.parquet", parquet({**SITUATION, "label": "2"}), STATED),
    ("siqa", "socialIQa_v1.4 jsonl", "s.jsonl", jsonl({**SITUATION, "correct": "B"}), STATED),
    ("siqa", "jsonl without answers", "s.jsonl", jsonl(SITUATION), {**STATED, "answer": ""}),
    (
        *("triviaqa", "parquet", "t.parquet"),
        parquet(
            {
                "question": "Who built it?",
                "question_id": "q",
                "answer": {"aliases": ["Ada", "Countess"], "value": "Ada"},
            }
        ),
        TRIVIA,
    ),
    (
        *("triviaqa", "llm-foundry", "t.jsonl"),
        jsonl({"context": "Question: Who built it?", "answer": "Ada", "aliases": ["Ada", "Countess"]}),
        TRIVIA,
    ),
    ("copa", "jsonl or parquet", "val.jsonl", jsonl({**PREMISE, "question": "cause", "label": 1}), A),
    ("copa", "jsonl without answers", "test.jsonl", jsonl({**PREMISE, "question": "cause"}), NO_ANSWER),
    ("copa", "llm-foundry", "copa.jsonl", jsonl(PLAIN_QUERY), A),
    (
        *("svamp", "SVAMP.json or parquet", "SVAMP.json"),
        json.dumps([{"ID": "chal-1", "Body": "Add 1", "Question": "and 2.", "Answer": 3.0}]).encode(),
        {"question": "Add 1 and 2.", "answer": "3.0", "id": "chal-1"},
    ),
    ("svamp", "llm-foundry", "svamp.jsonl", jsonl({"context": "Add 1 and 2.", "answer": "1 + 2 = 3"}), SOLUTION),
    ("multiple_choice", "llm-foundry", "any.jsonl", jsonl(QUERY), A),
]

PROMPT = "Question: Which stone grinds?\nChoices:\nA. the bed\nB. the runner"
LETTERS = {"query": f"{PROMPT}\nAnswer:", "choices": ["A", "B"], "gold": 1}
GRAIN = "Rye is a grain. " * 20
PASSAGE_PROMPT = f"Passage: {GRAIN}\nQuestion: is rye a grain?"
WITH_CHOICES = {like for like, form, *_ in PUBLISHED if form == "llm-foundry"} - {"svamp", "triviaqa"}
WITH_CHOICES |= {"siqa", "truthfulqa", "winogrande"}
PUBLISHED += [(like, "llm-foundry", "letters.jsonl", jsonl(LETTERS), A) for like in sorted(WITH_CHOICES)]
PUBLISHED += [
    (like, "llm-foundry prompt", "prompt.jsonl", jsonl({"context": PROMPT, "answer": "B"}), A)
    for like in sorted(WITH_CHOICES | {"boolq", "triviaqa"})
]
PUBLISHED += [
    (
        *("siqa", "llm-foundry", "context.jsonl"),
        jsonl({**LETTERS, "query": f"Context: Kai fell.\n{LETTERS['query']}"}),
        {**A, "question": "Kai fell. Which stone grinds?"},
    ),
    (
        *("boolq", "llm-foundry", "boolq.jsonl"),
        jsonl({"query": PASSAGE_PROMPT, "choices": ["no", "yes"], "gold": 1}),
        {
            "question": "is rye a grain?",
            "answer": "yes",
            "choices": ("no", "yes"),
            "context": "Rye is a grain. " * 19 + "Rye is a grain.",
        },
    ),
]
"""Prompts with their choices in them, as llm-foundry has them."""
