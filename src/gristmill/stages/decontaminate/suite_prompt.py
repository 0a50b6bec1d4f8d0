"""Prompts of evaluations, taken apart: passage, question and choices without the labels around them.

Question: Where do adults use glue?                  question  Where do adults use glue?
Choices:                                        ->   choices   school, office
A. school
B. office
Answer:
"""

import re
from typing import NamedTuple

_QUESTION = re.compile(r"(?im)^[ \t]*(?:question|q|query|problem|goal)[ \t]*[:：][ \t]*")
_PASSAGE = re.compile(r"(?i)\A\s*(?:context|passage|text|story|situation|background|article|paragraph)[ \t]*[:：]\s*")
_ANSWER = re.compile(r"(?im)\s*^[ \t]*(?:the )?(?:answer|a)(?: is)?[ \t]*[:：]\s*\Z")
_CHOICES = re.compile(r"(?im)\s*^[ \t]*(?:answer )?(?:choices|options)[ \t]*[:：]\s*\Z")
_LABEL = re.compile(r"(?:^[ \t]*|[ \t])\(([A-Ja-j])\)[ \t]*|^[ \t]*([A-Ja-j])(?:\.\)|[.):])[ \t]+", re.M)
"""`A. `, `A) `, `A.) `, `A: ` at the start of a line, `(A) ` also within one."""
SITUATION_WORDS = 40
"""A labelled context of fewer words is asked together with its question (SIQA); a longer one is a passage."""


class Prompt(NamedTuple):
    """The parts of a prompt."""

    context: str
    question: str
    choices: tuple[str, ...]


def read_prompt(text: str, has_list: bool = True) -> Prompt:
    """The parts of a prompt; a text without labels is a question. `has_list`: lettered lines at its end are choices."""
    body, choices = _ANSWER.sub("", text), []
    labels = list(_LABEL.finditer(body)) if has_list else []
    names = "".join(label[1] or label[2] for label in labels).lower()
    if (first := names.rfind("a")) >= 0 and names[first:] in "abcdefghij" and len(names) - first > 1:
        ends = [*(label.start() for label in labels[first + 1 :]), len(body)]
        choices = [body[label.end() : end].strip() for label, end in zip(labels[first:], ends, strict=True)]
        body = _CHOICES.sub("", body[: labels[first].start()])
    *_, (start, end) = [(0, 0), *(label.span() for label in _QUESTION.finditer(body))]
    before, question = body[:start], body[end:].strip()
    context = _PASSAGE.sub("", before).strip()
    if len(context) < len(before.strip()) and len(context.split()) < SITUATION_WORDS:
        return Prompt("", f"{context} {question}", tuple(choices))
    return Prompt(context, question, tuple(choices))
