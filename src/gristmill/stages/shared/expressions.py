"""The language of rules: `signals.digit_chars / signals.chars > 0.3 and language.label != "th" -> too_many_digits`.

    rule        = condition "->" reason
    condition   = both {"or" both}
    both        = negated {"and" negated}
    negated     = "not" negated | comparison
    comparison  = sum [operator sum | ["not"] "in" "[" literal {"," literal} "]" | "is" ["not"] "null"]
    operator    = "<" | "<=" | ">" | ">=" | "==" | "!="
    sum         = product {("+" | "-") product}
    product     = signed {("*" | "/") signed}
    signed      = "-" signed | number | "text" | 'text' | true | false | column | "(" condition ")"
                | ("max" | "min") "(" sum {"," sum} ")"

Columns are written as in READS: `text_bytes`, `signals.words`. `vectors` defines missing values and division. A rule
becomes a tree of calls on whole columns; nothing is passed to `eval`.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np

from gristmill.counted import counted
from gristmill.stages.shared.vectors import (
    ARITHMETIC,
    COMPARE,
    ColumnVectors,
    Vector,
    arithmetic,
    compare,
    conjoin,
    disjoin,
    invert,
    is_among,
    is_null,
    number,
    truth,
)

MOST_CHARS = 2000
MOST_NESTED = 50
"""Nested parentheses, `not` and `-`; keeps a hostile rule from exhausting the stack."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<text>"[^"]*"|'[^']*')
      | (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
      | (?P<sign>->|<=|>=|==|!=|[-+*/<>()\[\],])
    )""",
    re.VERBOSE | re.ASCII,
)
_WORDS = {"and", "or", "not", "in", "is", "null", "true", "false"}
_OPERAND = "a column, a number, a text in quotes or ("
_FUNCTIONS = ("max", "min")


class Token(NamedTuple):
    kind: str
    """number, text, name, sign, word, or end."""
    text: str
    at: int
    """Its offset in the text."""


class Term(NamedTuple):
    """A part of an expression."""

    run: Callable[[ColumnVectors], Vector]
    text: str
    literal: Vector | None = None
    condition: bool = False
    """Whether it is always a truth value, regardless of its columns' types."""


class Formula(NamedTuple):
    """A value or a condition over columns."""

    run: Callable[[ColumnVectors], Vector]
    columns: tuple[str, ...]
    """In the order of their first use."""
    text: str
    limits: tuple[tuple[str, float], ...] = ()
    """The comparisons of a value with a number in it."""


class OwnRule(NamedTuple):
    """A condition, and the reason to drop a document that meets it."""

    condition: Formula
    reason: str


def parse_rule(text: str) -> OwnRule:
    """Parses a rule. ValueError says where `text` is wrong and what was expected there."""
    parser = _Parser(text)
    condition = parser.formula(parser.condition(), as_condition=True)
    parser.take("sign", "->", wanted="an operator, or -> and the reason")
    reason = parser.take("name", wanted="the reason, a name such as too_many_digits").text
    if "." in reason:
        parser.fail("the reason, a name without dots")
    parser.take("end", wanted="the end")
    return OwnRule(condition, reason)


def parse_condition(text: str) -> Formula:
    """Parses a condition, which gives a truth value for each row."""
    parser = _Parser(text)
    formula = parser.formula(parser.condition(), as_condition=True)
    parser.take("end", wanted="an operator or the end")
    return formula


def parse_value(text: str) -> Formula:
    """Parses a value, which gives a number for each row."""
    parser = _Parser(text)
    formula = parser.formula(parser.sum(), as_condition=False)
    parser.take("end", wanted="an operator or the end")
    return formula


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARS:
            raise ValueError(f"the rule has {counted(len(text), 'character')}, but the limit is {MOST_CHARS}. Split it")
        self.text = text
        self.columns: dict[str, None] = {}
        self.limits: list[tuple[str, float]] = []
        self.nested = 0
        self.tokens = list(self._split())
        self.at = 0

    def _split(self) -> Iterator[Token]:
        at = 0
        end = len(self.text.rstrip())
        while at < end:
            found = _TOKEN.match(self.text, at)
            if found is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                what = "the text that begins here has no closing quote" if self.text[at] in "\"'" else "not understood"
                raise ValueError(f"{self.text!r}, character {at + 1}: {self.text[at]!r}: {what}")
            kind = str(found.lastgroup)
            word = found[kind]
            yield Token("word" if kind == "name" and word in _WORDS else kind, word, found.start(kind))
            at = found.end()
        yield Token("end", "", len(self.text))

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def fail(self, wanted: str, token: Token | None = None) -> NoReturn:
        token = token or self.next
        found = repr(token.text) if token.kind != "end" else "the end"
        raise ValueError(f"{self.text!r}, character {token.at + 1}: expected {wanted}, found {found}")

    def take(self, kind: str, *texts: str, wanted: str) -> Token:
        token = self.next
        if token.kind != kind or (texts and token.text not in texts):
            self.fail(wanted)
        self.at += 1
        return token

    def skip(self, kind: str, *texts: str) -> Token | None:
        token = self.next
        if token.kind != kind or token.text not in texts:
            return None
        self.at += 1
        return token

    def formula(self, term: Term, as_condition: bool) -> Formula:
        if not self.columns:
            raise ValueError(f"{self.text!r} names no column, so it is the same for every document. Use a column")
        cast = truth if as_condition else number
        if as_condition and term.literal is not None:
            self.fail("a comparison")
        run = lambda columns: cast(term.run(columns), term.text)  # noqa: E731
        return Formula(run, tuple(self.columns), term.text, tuple(self.limits))

    def condition(self) -> Term:
        return self._chain("or", self._both, disjoin)

    def _both(self) -> Term:
        return self._chain("and", self._negated, conjoin)

    def _chain(self, word: str, part: Callable[[], Term], join: Callable[[Vector, Vector], Vector]) -> Term:
        start = self.next
        term = part()
        while self.skip("word", word):
            self._want_condition(term, start)
            start = self.next
            right = part()
            self._want_condition(right, start)
            term = _joined(join, term, right, f"{term.text} {word} {right.text}")
        return term

    def _want_condition(self, term: Term, start: Token) -> None:
        if term.literal is not None and term.literal.kind != "truth":
            self.fail("a comparison", start)

    def _negated(self) -> Term:
        if self.skip("word", "not"):
            self._deeper()
            start = self.next
            term = self._negated()
            self._want_condition(term, start)
            self.nested -= 1
            text = f"not {term.text}"
            return Term(lambda columns: invert(truth(term.run(columns), term.text)), text, condition=True)
        return self._comparison()

    def _comparison(self) -> Term:
        left = self.sum()
        if sign := self.skip("sign", *COMPARE):
            right = self.sum()
            text = f"{left.text} {sign.text} {right.text}"
            if self.next.kind == "sign" and self.next.text in COMPARE:
                self.fail("and, or, or ->; a comparison has two sides")
            for value, limit in ((left, right.literal), (right, left.literal)):
                if limit is not None and limit.kind == "number" and value.literal is None and not value.condition:
                    self.limits.append((value.text, float(limit.data)))
            run = lambda columns: compare(sign.text, left.run(columns), right.run(columns), text)  # noqa: E731
            return Term(run, text, condition=True)
        if self.skip("word", "is"):
            negated = self.skip("word", "not") is not None
            self.take("word", "null", wanted="null")
            return _maybe_not(negated, lambda columns: is_null(left.run(columns), columns.rows), f"{left.text} is null")
        negated = self.next.text == "not" and self.skip("word", "not") is not None
        if negated or self.next.text == "in":
            self.take("word", "in", wanted="in")
            options = self._literals()
            text = f"{left.text} in [{', '.join(option.text for option in options)}]"
            values = [option.literal for option in options if option.literal is not None]
            return _maybe_not(negated, lambda columns: is_among(left.run(columns), values, text), text)
        return left

    def _literals(self) -> list[Term]:
        self.take("sign", "[", wanted="[")
        found = []
        while True:
            term = self._signed()
            if term.literal is None:
                self.fail("a number or a text in quotes", self.tokens[self.at - 1])
            found.append(term)
            if self.take("sign", ",", "]", wanted=", or ]").text == "]":
                return found

    def sum(self) -> Term:
        return self._operate(("+", "-"), self._product)

    def _product(self) -> Term:
        return self._operate(("*", "/"), self._signed)

    def _operate(self, signs: tuple[str, ...], part: Callable[[], Term]) -> Term:
        start = self.next
        term = part()
        while sign := self.skip("sign", *signs):
            self._want_number(term, start)
            start = self.next
            right = part()
            self._want_number(right, start)
            term = _computed(sign.text, term, right)
        return term

    def _want_number(self, term: Term, start: Token) -> None:
        if term.condition or (term.literal is not None and term.literal.kind != "number"):
            self.fail("a number or a column", start)

    def _deeper(self) -> None:
        self.nested += 1
        if self.nested > MOST_NESTED:
            self.fail(f"at most {MOST_NESTED} levels")

    def _signed(self) -> Term:
        if self.skip("sign", "-"):
            self._deeper()
            start = self.next
            term = self._signed()
            self._want_number(term, start)
            self.nested -= 1
            if term.literal is not None:
                return _literal("number", -term.literal.data, f"-{term.text}")
            return _computed("-", _literal("number", np.float64(0), ""), term)
        token = self.next
        self.at += 1
        if token.kind == "number":
            return _literal("number", np.float64(token.text), token.text)
        if token.kind == "text":
            return _literal("text", token.text[1:-1], token.text)
        if token.kind == "word" and token.text in ("true", "false"):
            return _literal("truth", np.bool_(token.text == "true"), token.text)
        if token.kind == "name" and token.text in _FUNCTIONS and self.skip("sign", "("):
            return self._function(token.text)
        if token.kind == "name":
            self.columns.setdefault(token.text)
            return Term(lambda columns: columns[token.text], token.text)
        if (token.kind, token.text) != ("sign", "("):
            self.fail(_OPERAND, token)
        self._deeper()
        term = self.condition()
        self.take("sign", ")", wanted="an operator or )")
        self.nested -= 1
        return term._replace(text=f"({term.text})")

    def _function(self, name: str) -> Term:
        """Parses the arguments of `max` or `min`, after the opening parenthesis."""
        self._deeper()
        found: Term | None = None
        texts = []
        while True:
            start = self.next
            term = self.sum()
            self._want_number(term, start)
            texts.append(term.text)
            found = term if found is None else _computed(name, found, term)
            if self.take("sign", ",", ")", wanted="an operator, a comma or )").text == ")":
                break
        self.nested -= 1
        text = f"{name}({', '.join(texts)})"
        run = found.run
        return Term(lambda columns: number(run(columns), text), text)


def _literal(kind: Any, value: Any, text: str) -> Term:
    vector = Vector(kind, value)
    return Term(lambda columns: vector, text, literal=vector)


def _joined(join: Callable[[Vector, Vector], Vector], left: Term, right: Term, text: str) -> Term:
    def run(columns: ColumnVectors) -> Vector:
        return join(truth(left.run(columns), left.text), truth(right.run(columns), right.text))

    return Term(run, text, condition=True)


def _computed(sign: str, left: Term, right: Term) -> Term:
    assert sign in ARITHMETIC
    text = f"{left.text} {sign} {right.text}".strip()
    return Term(lambda columns: arithmetic(sign, left.run(columns), right.run(columns), text), text)


def _maybe_not(negated: bool, run: Callable[[ColumnVectors], Vector], text: str) -> Term:
    if not negated:
        return Term(run, text, condition=True)
    return Term(lambda columns: invert(run(columns)), f"not {text}", condition=True)
