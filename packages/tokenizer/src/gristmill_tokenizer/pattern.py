"""Checks that a tokenizer splits text by its declared pattern and nothing else."""

import unicodedata
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from gristmill.counted import counted
from gristmill.kernels.bpe.pretoken_classes import class_table
from gristmill.kernels.bpe.pretokenize import split
from gristmill.kernels.bpe.pretokenize_ahead import NUMBER_CHARS
from gristmill.stages.buffers import bytes_of
from gristmill.tokenizer.hostile import HOSTILE
from gristmill.tokenizer.patterns import PATTERNS
from gristmill_tokenizer.result import Check, result
from gristmill_tokenizer.subject import Subject

MOST_DIGITS = 3
"""The limit without a named pattern. Models memorize longer number tokens instead of learning their digits."""

FEWEST_MERGES = 1000
"""With fewer merges, a vocabulary does not show which pattern it was trained with."""

DIGIT_TEXTS = (
    "1 12 123 1234 12345 1234567 123456789012345678901234567890",
    "in 2026, 20261115 and a1234b; v10.1234.99999, 1,000,000.000001 0x12345678 -98765",
    "\u0661\u0662\u0663\u0664\u0665\u0666\u0667 \uff11\uff12\uff13\uff14\uff15 \u0967\u0968\u0969\u096a\u096b",
)


def digits_are_split(subject: Subject) -> Check:
    """Numbers are split by the named pattern; without one, no token that is used has more than three digits."""
    name = subject.pattern
    most = MOST_DIGITS if name is None else PATTERNS[name].scanner & NUMBER_CHARS
    if most == 0:
        return Check("digits_are_split", True, f"{name} does not split numbers")
    shown = f"at most {most} per token ({name or 'no named pattern'})"
    long = [token.decode("utf-8", "ignore") for token in subject.tokens if _digits(token) > most]
    faults = []
    for text in (*DIGIT_TEXTS, *long):
        for number in subject.tokenizer.encode_text(text):
            if _digits(token := subject.tokens[number]) > most:
                faults.append(f"{token.decode('utf-8', 'replace')!r} is one token in {text[:40]!r}; expected: {shown}")
    if name is not None:
        faults += _crossings(subject, name, DIGIT_TEXTS)
    return result("digits_are_split", faults, shown)


def pattern_is_applied_once(subject: Subject, texts: Sequence[str] = ()) -> Check:
    """The text is split by the declared pattern and nothing else.

    The file must not have a second expression that matches all text; the library must split text as our scanner does;
    no token may cross a split; and each pre-token alone must give the same ids as inside its text.
    """
    check = partial(result, "pattern_is_applied_once")
    faults = []
    if len(subject.whole_expressions) > 1:
        then = " then ".join(recognised(expression) for expression in subject.whole_expressions)
        faults.append(f"{len(subject.whole_expressions)} expressions split the whole text: {then}")
    name = subject.pattern
    if name is None:
        return check(faults, "no named pattern, so there is no scanner to compare with", judged=False)
    samples = [text for text in (*HOSTILE.values(), *texts) if text]
    by_library = subject.definition is None
    for text, wanted in zip(samples, pretokens(samples, name), strict=True):
        cuts = subject.library_cuts(text) if by_library else None
        if cuts is not None and cuts != wanted:
            one, other = next((a, b) for a, b in zip(wanted, cuts, strict=False) if a != b)
            faults.append(f"{one!r} is one pre-token of {name}, but was split to {other!r}")
        apart, _ = subject.tokenizer.encode(pa.array(wanted, pa.string()))
        if apart.tolist() != subject.tokenizer.encode_text(text):
            faults.append(f"the pre-tokens of {text[:30]!r} give different ids alone than inside the text")
    faults += _crossings(subject, name, samples)
    return check(faults, f"{name}, on {counted(len(samples), 'text')}: split by the pattern alone")


def trained_with_its_pattern(subject: Subject) -> Check:
    """A pattern that joins `(self` or `;` with a newline produces such tokens. If there are none, training also applied
    GPT-2's expression, regardless of the file, and the merges are worse than the pattern allows.
    """
    check = partial(result, "trained_with_its_pattern")
    name = subject.pattern
    if name is None or PATTERNS[name].scanner == PATTERNS["gpt2"].scanner:
        return check([], "GPT-2's expression, or no named pattern", judged=False)
    if len(subject.merges) < FEWEST_MERGES:
        return check([], f"fewer than {FEWEST_MERGES} merges", judged=False)
    spelled = [text for number in subject.ordinary if (text := _text(subject.tokens[number]))]
    allowed = np.array([len(cuts) == 1 for cuts in pretokens(spelled, name)])
    cut_more = np.array([len(cuts) > 1 for cuts in pretokens(spelled, "gpt2")])
    count = int((allowed & cut_more).sum())
    fault = f"none of {counted(len(spelled), 'token')} joins characters that {name} joins and GPT-2's expression splits"
    return check(
        [] if count else [fault],
        f"{counted(count, 'token joins', 'tokens join')} characters that GPT-2's expression would split",
    )


def pretokens(texts: Sequence[str], pattern: str) -> list[list[str]]:
    """The pre-tokens of each text by a named pattern."""
    column = pa.array(texts, pa.string())
    data, offsets = bytes_of(column)
    ends, counts = split(data, offsets, PATTERNS[pattern].scanner, class_table())
    found = []
    for row, begin in enumerate(offsets[:-1].tolist()):
        stops = ends[counts[row] : counts[row + 1]].tolist()
        starts = [begin, *stops[:-1]]
        found.append([data[one:other].tobytes().decode() for one, other in zip(starts, stops, strict=True)])
    return found


def recognised(expression: str) -> str:
    """The name of an expression, or its first characters."""
    return next((name for name, pattern in PATTERNS.items() if pattern.text == expression), f"{expression[:40]}...")


def _crossings(subject: Subject, pattern: str, texts: Sequence[str]) -> list[str]:
    """Tokens that cross the end of a pre-token. Texts that do not round-trip have no positions and are skipped."""
    faults = []
    for text, wanted in zip(texts, pretokens(texts, pattern), strict=True):
        tokens = [subject.tokens[number] for number in subject.tokenizer.encode_text(text)]
        if b"".join(tokens) != text.encode():
            continue
        ends = np.cumsum([len(token) for token in tokens])
        cuts = np.cumsum([len(piece.encode()) for piece in wanted])
        if len(crossed := np.setdiff1d(cuts, ends)):
            token = tokens[int(np.searchsorted(ends, crossed[0]))]
            faults.append(f"the token {token.decode('utf-8', 'replace')!r} crosses a split of {pattern}")
    return faults


def _text(token: bytes) -> str | None:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None


def _digits(token: bytes) -> int:
    """The longest run of numbers (Unicode category N) in a token."""
    most = run = 0
    for character in token.decode("utf-8", "ignore"):
        run = run + 1 if unicodedata.category(character)[0] == "N" else 0
        most = max(most, run)
    return most
