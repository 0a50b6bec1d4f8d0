"""Prompt files: strict templates, and strict answers."""

import json
import os
import re
from itertools import accumulate
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill_generate.chunks import chunks_of
from gristmill_generate.prompts import (
    FIELDS,
    Malformed,
    fill,
    parse_template,
    read_prompt,
)
from gristmill_generate.settings import READY, Ready, ready_path

QUIZ = """name: quiz
user: |
  About {title}:
  {text}
answer: {question: string, answer: string}
many: true
write: "{question} - {answer}"
"""


def prompt_of(tmp_path, text):
    path = tmp_path / "prompt.yaml"
    path.write_text(text)
    read_prompt.cache_clear()
    return read_prompt(str(path))


def test_every_ready_prompt_can_be_used():
    assert sorted(f"{name}.yaml" for name in get_args(Ready)) == sorted(os.listdir(READY))
    for name in get_args(Ready):
        prompt = read_prompt(ready_path(name), ("target_language",))
        assert prompt.name == name
        sent = prompt.messages(dict.fromkeys(FIELDS, "?") | {"text": "THE TEXT", "target_language": "French"})
        assert "THE TEXT" in sent[-1]["content"]


@given(text=st.text(), title=st.text())
def test_values_are_never_read_as_templates(text, title):
    """Braces in a document stay as they are, whatever they say."""
    template = parse_template("{{{title}}} {text}{text}", FIELDS, "here")
    assert fill(template, {"text": text, "title": title}) == f"{{{title}}} {text}{text}"


@pytest.mark.parametrize(
    ("text", "line", "fact"),
    [
        (QUIZ.replace("{title}", "{titel}"), 2, "{titel} is not a field. Fields: text, title, url, language, source"),
        (QUIZ.replace("{title}", "{text.__class__}"), 2, "{text.__class__} is not a field"),
        (QUIZ.replace("{title}", "{text!r}"), 2, "{text!r} is not a field"),
        (QUIZ.replace("{title}", "{text:>9}"), 2, "{text:>9} is not a field"),
        (QUIZ.replace("{title}", "{0}"), 2, "{0} is not a field"),
        (QUIZ.replace("{title}", "{"), 2, "the braces of the template do not match"),
        (QUIZ.replace("{text}", "nothing"), 2, "does not contain {text}"),
        (QUIZ.replace("- {answer}", "- {text}"), 7, "{text} is not a field. Fields: question, answer"),
        (QUIZ.replace("many", "mnay"), 6, "Did you mean many?"),
        (QUIZ.replace('write: "{question} - {answer}"\n', ""), 5, "answer and write belong together"),
        ("user: [", 2, "not valid YAML"),
    ],
)
def test_a_wrong_prompt_is_an_error_with_its_line(tmp_path, text, line, fact):
    with pytest.raises(UserError) as error:
        prompt_of(tmp_path, text)
    assert f"prompt.yaml:{line}: " in str(error.value)
    assert fact in str(error.value)


def test_answers_are_parsed_strictly(tmp_path):
    """Exactly the fields of the prompt, each once, all of them text; the JSON schema of the request says the same."""
    prompt = prompt_of(tmp_path, QUIZ)
    pair = {"question": "Why?", "answer": "Water."}
    assert prompt.text_of(json.dumps({"items": [pair, pair]})) == "Why? - Water.\n\nWhy? - Water."
    bad = [
        "Why? Water.",
        "```json\n{}\n```",
        json.dumps([pair]),
        json.dumps({"items": []}),
        json.dumps({"items": [pair], "more": 1}),
        json.dumps({"items": [{**pair, "more": "x"}]}),
        json.dumps({"items": [{"question": "Why?"}]}),
        json.dumps({"items": [{**pair, "answer": 7}]}),
        json.dumps({"items": [{**pair, "answer": "  "}]}),
        json.dumps({"items": "x"}),
        '{"items": [{"question": "Why?", "answer": "Wind.", "answer": "Water."}]}',
        '{"items": ' + "[" * 900 + "]" * 900 + ', "items": [{"question": "Why?", "answer": "Water."}]}',
    ]
    for answer in bad:
        with pytest.raises(Malformed):
            prompt.text_of(answer)
    schema = prompt.schema()
    assert schema["properties"]["items"]["items"]["required"] == ["question", "answer"]


@given(text=st.text(st.sampled_from("ab. \n\té世🙂"), max_size=300), most=st.integers(16, 60))
def test_chunks_are_the_text(text, most):
    """Concatenated they are the text, none is too long, and no paragraph that fits is cut."""
    chunks = chunks_of(text, most)
    assert "".join(chunks) == text
    assert all(0 < len(chunk.encode()) <= most for chunk in chunks)
    cuts = set(accumulate(map(len, chunks)))
    start = 0
    for paragraph in re.findall(r".*?(?:\n[ \t]*\n\s*|\n)|.+", text):
        stop = start + len(paragraph)
        assert len(paragraph.encode()) > most or not cuts & set(range(start + 1, stop))
        start = stop


@given(words=st.lists(st.integers(1, 6), min_size=4, max_size=30), most=st.integers(40, 90))
def test_a_long_paragraph_is_cut_between_sentences(words, most):
    """A number such as 3.5 does not end one."""
    text = " ".join("A 3.5" + " b" * count + "." for count in words)
    chunks = chunks_of(text, most)
    assert "".join(chunks) == text
    assert all(chunk.rstrip().endswith(".") and chunk.startswith("A") for chunk in chunks)
