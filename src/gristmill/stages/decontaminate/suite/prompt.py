"""Splits the prompts of evaluations into passage, question and choices, and removes the labels around them.

Question: Where do adults use glue?                  question  Where do adults use glue?
Choices:                                        ->   choices   school, office
A. school
B. office
Answer:

The labels may also be within a line. If the record has the texts of its choices, these decide what is a list.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

_QUESTION = re.compile(r"(?im)^[ \t]*(?:question|q|query|problem|goal)[ \t]*[:：][ \t]*")
_QUESTION_WITHIN = re.compile(r"(?:^|(?<=\s))(?:Question|QUESTION)[ \t]*[:：][ \t]*")
_PASSAGE = re.compile(r"(?i)\A\s*(?:context|passage|text|story|situation|background|article|paragraph)[ \t]*[:：]\s*")
_ANSWER = re.compile(r"(?im)(?:^[ \t]*+a|(?<=\s)(?:the )?(?:correct |right |best )?answer(?: is)?)[ \t]*+[:：]\s*+\Z")
_CHOICES = re.compile(r"(?i)(?:^|\s)\(?(?:(?:answer|possible) )?(?:choices|options|answers)[ \t]*[:：]\s*\Z")
_TASK = re.compile(
    r"(?i)\A\s*(?:(?:please )?(?:answer|choose|select|pick)\b|the following (?:is|are)\b)"
    r"(?=[^\n]*\b(?:questions?|answers?|choices?|options?)\b)[^\n]*+\n\s*\n"
)
"""A first paragraph with instructions for a model: `Answer the following multiple choice question.`"""
_LABELS = [
    re.compile(rf"(?:^|(?<=\s)){name}(?=\s)", re.M)
    for name in (r"\(([A-Ja-j1-9])\)", r"([A-J1-9])\.\)", r"([A-J1-9])\)", r"([A-J1-9])\.", r"([A-J1-9]):")
]
_LETTERS, _DIGITS = "abcdefghij", "123456789"
_SIGNS = " \t\r\n\v\f.,;:!?*-–—•"
SITUATION_WORDS = 40
"""A labelled context of fewer words is part of the question (SIQA); a longer one is a passage."""


class Prompt(NamedTuple):
    """The parts of a prompt."""

    context: str
    question: str
    choices: tuple[str, ...]


def read_prompt(text: str, known: Sequence[str] = (), answer: str = "") -> Prompt:
    """Split a prompt; a text without labels is a question. `known`: the choices of its record, in order. If they are
    texts, any other list is part of the question. If they are letters, the listed texts are the choices. If there are
    none, a list is the choices if it contains the `answer`.
    """
    body = _ANSWER.sub("", _TASK.sub("", text)).rstrip() or text
    if any(len(choice.strip("().: ")) > 1 for choice in known):
        body, choices = _without(body, known), tuple(known)
    else:
        rest, choices = _listed(body, len(known))
        is_list = known or len(answer) < 2 or answer.lower() in map(str.lower, choices)
        body, choices = (rest, choices) if is_list else (body, ())
    within = _QUESTION_WITHIN if _PASSAGE.match(body) else _QUESTION
    *_, (start, end) = [(0, 0), *(label.span() for label in within.finditer(body))]
    before, question = body[:start], body[end:].strip()
    context = _PASSAGE.sub("", before).strip()
    if len(context) < len(before.strip()) and len(context.split()) < SITUATION_WORDS:
        return Prompt("", f"{context} {question}", choices)
    return Prompt(context, question, choices)


def _listed(body: str, count: int) -> tuple[str, tuple[str, ...]]:
    """The text before the last list of a prompt, and the list; `count`: the expected length, 0 if unknown. A list
    within a line must follow a heading or the end of a sentence, unless it has the expected length.
    """
    for style in _LABELS:
        labels = list(style.finditer(body))
        for first in reversed([at for at, label in enumerate(labels) if label[1] in "Aa1"]):
            order = _DIGITS if labels[first][1] == "1" else _LETTERS
            chain = [labels[first]]
            for label in labels[first + 1 :]:
                if len(chain) < len(order) and label[1].lower() == order[len(chain)]:
                    chain.append(label)
            before = body[: chain[0].start()]
            is_list = before.rstrip(" \t")[-1:] in "\n?:.!…？：。" or style is _LABELS[0] or len(chain) == count
            if len(chain) > 1 and (not count or len(chain) == count) and is_list:
                ends = [*(label.start() for label in chain[1:]), len(body)]
                items = [body[label.end() : end].strip() for label, end in zip(chain, ends, strict=True)]
                if all(item.endswith((",", ";")) for item in items[:-1]):
                    items = [item.rstrip(",; ") for item in items]
                return _CHOICES.sub("", before), tuple(items)
    return body, ()


def _without(body: str, choices: Sequence[str]) -> str:
    """Remove the list of choices at the end of a text, if there is one. `a cat or a dog?` is not a list."""
    left, are_named = body, True
    for at in reversed(range(len(choices))):
        left, choice = left.rstrip(_SIGNS), choices[at].strip(_SIGNS)
        if not choice or left[-len(choice) :].lower() != choice.lower():
            return body
        left = left[: -len(choice)]
        order = f"{_LETTERS[at : at + 1]}{_DIGITS[at : at + 1]}"
        label = re.search(rf"(?i)(?:^|(?<=[\s,;]))\(?[{order}][.):]{{1,2}}\s*\Z", left) if order else None
        are_named &= label is not None
        left = left[: label.start()] if label else left
    left = left.rstrip(" \t-*•")
    is_list = are_named or left.endswith("\n") or _CHOICES.search(left)
    return _CHOICES.sub("", left) if is_list else body
