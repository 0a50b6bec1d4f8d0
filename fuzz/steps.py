"""Counts the steps of a regular expression: a plain backtracking matcher over Python's own parse tree.

Python's engine takes short cuts (a literal that must occur, a set that a match begins with), so its steps are fewer;
but where these grow faster than the text, so do its own on some text. Captures are not kept.
"""

import re
from collections.abc import Iterator, Sequence
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Text = str | bytes
_SPACE, _DIGIT = frozenset(map(ord, " \t\n\r\f\v")), frozenset(range(48, 58))
_WORD = frozenset(c for c in range(128) if chr(c).isalnum()) | {95}


class Steps:
    """How many characters an expression looks at."""

    def __init__(self, pattern: re.Pattern[Any], limit: int = 1 << 62) -> None:
        self.tree = list(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
        self.flags = pattern.flags
        self.is_bytes = isinstance(pattern.pattern, bytes)
        self.count, self.limit = 0, limit
        self.text: Sequence[int] = ()

    def search(self, text: Text, everywhere: bool = True, whole: bool = False) -> int:
        """The steps of a search through a text, or of one match at its start, which may have to be all of the text."""
        self.text = [ord(c) for c in text] if isinstance(text, str) else text
        self.count = 0
        at = 0
        while at <= len(self.text) and self.count < self.limit:
            ends = self._sequence(self.tree, 0, at)
            end = next((end for end in ends if not whole or end == len(self.text)), None)
            if not everywhere:
                break
            at = max(end, at + 1) if end is not None else at + 1
        return self.count

    def _sequence(self, nodes: Sequence[Any], place: int, at: int) -> Iterator[int]:
        if self.count > self.limit:
            return
        if place == len(nodes):
            yield at
            return
        for end in self._node(nodes[place], at):
            yield from self._sequence(nodes, place + 1, end)

    def _node(self, node: Any, at: int) -> Iterator[int]:
        kind, given = node
        if kind in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
            if self._single(node, at):
                yield at + 1
        elif kind is op.BRANCH:
            for branch in given[1]:
                yield from self._sequence(branch, 0, at)
        elif kind is op.SUBPATTERN:
            yield from self._sequence(given[3], 0, at)
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            yield from self._repeat(kind, given, at)
        elif kind is op.ATOMIC_GROUP:
            yield from [end for end in [next(self._sequence(given, 0, at), None)] if end is not None]
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            width = parser.SubPattern(None, given[1]).getwidth()[0] if given[0] < 0 else 0
            found = at >= width and next(self._sequence(given[1], 0, at - width), None) is not None
            if found == (kind is op.ASSERT):
                yield at
        elif kind is op.AT:
            self.count += 1
            if self._at(given, at):
                yield at
        elif kind is op.GROUPREF:
            yield from (end for end in (at, at + 1) if end <= len(self.text))
        else:
            raise NotImplementedError(str(kind))

    def _repeat(self, kind: Any, given: Any, at: int) -> Iterator[int]:
        least, most, inner = int(given[0]), given[1], given[2]
        single = len(inner) == 1 and inner[0][0] in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)
        if single and kind is not op.MIN_REPEAT:
            end = at
            while (most is op.MAXREPEAT or end - at < most) and self._single(inner[0], end):
                end += 1
            if kind is op.POSSESSIVE_REPEAT:
                yield from [end] * (end - at >= least)
                return
            for stop in range(end, at + least - 1, -1):
                self.count += 1
                yield stop
            return
        ends = self._times(inner, at, 0, least, most, kind is op.MIN_REPEAT)
        yield from ends if kind is not op.POSSESSIVE_REPEAT else [end for end in [next(ends, None)] if end is not None]

    def _times(self, inner: Any, at: int, done: int, least: int, most: Any, lazy: bool) -> Iterator[int]:
        more = most is op.MAXREPEAT or done < most
        if lazy and done >= least:
            yield at
        if more:
            for end in self._sequence(inner, 0, at):
                if end > at or done < least:
                    yield from self._times(inner, end, done + 1, least, most, lazy)
        if not lazy and done >= least:
            yield at

    def _single(self, node: Any, at: int) -> bool:
        self.count += 1
        if at >= len(self.text):
            return False
        kind, given = node
        char = self.text[at]
        if kind is op.ANY:
            return char != 10 or bool(self.flags & re.DOTALL)
        if kind in (op.LITERAL, op.NOT_LITERAL):
            return self._same(char, given) == (kind is op.LITERAL)
        return in_set(given, char) or (bool(self.flags & re.IGNORECASE) and in_set(given, _swapped(char)))

    def _same(self, one: int, other: int) -> bool:
        return one == other or (bool(self.flags & re.IGNORECASE) and _swapped(one) == other)

    def _at(self, where: Any, at: int) -> bool:
        here = self.text[at] if at < len(self.text) else -1
        before = self.text[at - 1] if at else -1
        if where in (op.AT_BOUNDARY, op.AT_NON_BOUNDARY):
            return ((here in _WORD) != (before in _WORD)) == (where is op.AT_BOUNDARY)
        many = bool(self.flags & re.MULTILINE)
        if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return at == 0 or (many and where is op.AT_BEGINNING and before == 10)
        last = at == len(self.text)
        return last or (where is op.AT_END and here == 10 and (many or at + 1 == len(self.text)))


def _swapped(char: int) -> int:
    return ord(chr(char).swapcase()) if char < 128 else char


def in_set(given: Any, char: int) -> bool:
    negated = given[0][0] is op.NEGATE
    for kind, value in given[1:] if negated else given:
        if kind is op.LITERAL:
            found = char == value
        elif kind is op.RANGE:
            found = value[0] <= char <= value[1]
        else:
            members = {"SPACE": _SPACE, "DIGIT": _DIGIT, "WORD": _WORD}[str(value).rpartition("_")[2]]
            found = (char in members) != ("NOT" in str(value))
        if found:
            return not negated
    return bool(negated)


def samples(nodes: Sequence[Any]) -> list[str]:
    """For each part of an expression a short text that it matches (nearly: an assertion is no text)."""
    return [_sample(node) for node in nodes]


def _sample(node: Any) -> str:
    kind, given = node
    if kind is op.LITERAL:
        return chr(given)
    if kind is op.NOT_LITERAL:
        return "a" if given != 97 else "b"
    if kind is op.ANY:
        return "a"
    if kind is op.IN:
        return next((chr(c) for c in (97, 32, 49, 46, 45, *range(33, 256), 10) if in_set(given, c)), "")
    if kind is op.BRANCH:
        return "".join(samples(given[1][0]))
    if kind is op.SUBPATTERN:
        return "".join(samples(given[3]))
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return "".join(samples(given[2])) * max(1, min(int(given[0]), 8))
    return "".join(samples(given)) if kind is op.ATOMIC_GROUP else ""


def parts(nodes: Sequence[Any]) -> Iterator[Any]:
    """All parts of an expression, at any depth."""
    for node in nodes:
        yield node
        kind, given = node
        inner = {op.SUBPATTERN: lambda g: g[3], op.ATOMIC_GROUP: lambda g: g}.get(kind)
        if inner:
            yield from parts(inner(given))
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            yield from parts(given[2])
        elif kind is op.BRANCH:
            for branch in given[1]:
                yield from parts(branch)


def attacks(nodes: Sequence[Any], size: int) -> Iterator[str]:
    """Texts that pump: each part of the expression again and again, behind what comes before it, with a wrong end."""
    flat = samples(nodes)
    pumps = dict.fromkeys(text for text in (*map(_sample, parts(nodes)), *flat, "".join(flat)) if text)
    before = dict.fromkeys("".join(flat[:count]) for count in range(len(flat) + 1))
    for pump in list(pumps)[:40]:
        for start in list(before)[:12]:
            yield start + pump * (size // len(pump)) + "\x01"
