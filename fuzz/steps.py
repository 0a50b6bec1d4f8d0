"""Counts the steps of a regular expression with a plain backtracking matcher over Python's own parse tree.

Python's engine takes short cuts (a literal that must occur, a set that a match begins with), so it takes fewer steps.
But if the steps here grow faster than the text, Python's steps do so too on some text. Captures are not kept.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Text = str | bytes
_SPACE, _DIGIT = frozenset(map(ord, " \t\n\r\f\v")), frozenset(range(48, 58))
_WORD = frozenset(c for c in range(128) if chr(c).isalnum()) | {95}
_END = -1
"""The position after the last character; nothing accepts it."""
_ASSERTS = (op.ASSERT, op.ASSERT_NOT)
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)


class _One(dict[int, bool]):
    """Whether a single-character part accepts a character. It is called a million times for a few dozen characters."""

    def __init__(self, node: Any, flags: int) -> None:
        super().__init__({_END: False})
        self.node, self.flags = node, flags

    def __missing__(self, char: int) -> bool:
        self[char] = found = self._accepts(char)
        return found

    def _accepts(self, char: int) -> bool:
        kind, given = self.node
        if kind is op.ANY:
            return char != 10 or bool(self.flags & re.DOTALL)
        cases = (char, _swapped(char)) if self.flags & re.IGNORECASE else (char,)
        if kind is op.IN:
            return any(in_set(given, case) for case in cases)
        return (given in cases) == (kind is op.LITERAL)


def _plain(nodes: Sequence[Any], flags: int) -> list[tuple[Any, Any]]:
    """The tree as lists and tuples, with everything precomputed that each step needs."""
    return [_plain_node(kind, given, flags) for kind, given in nodes]


def _plain_node(kind: Any, given: Any, flags: int) -> tuple[Any, Any]:
    if kind in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
        return _One, _One((kind, given), flags)
    if kind is op.BRANCH:
        return kind, [_plain(branch, flags) for branch in given[1]]
    if kind is op.SUBPATTERN:
        return kind, _plain(given[3], flags)
    if kind in _REPEATS:
        most = sys.maxsize if given[1] is op.MAXREPEAT else int(given[1])
        return kind, (int(given[0]), most, _plain(given[2], flags))
    if kind is op.ATOMIC_GROUP:
        return kind, _plain(given, flags)
    if kind in _ASSERTS:
        width = parser.SubPattern(None, given[1]).getwidth()[0] if given[0] < 0 else 0
        return kind, (width, _plain(given[1], flags))
    return kind, given


class Steps:
    """Counts the characters that an expression reads."""

    def __init__(self, pattern: re.Pattern[Any], limit: int = 1 << 62) -> None:
        self.tree = list(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
        self.is_bytes = isinstance(pattern.pattern, bytes)
        self.count, self.limit = 0, limit
        self._nodes = _plain(self.tree, pattern.flags)
        self._many_lines = bool(pattern.flags & re.MULTILINE)
        self._text: list[int] = []
        self._end = 0

    def search(self, text: Text, everywhere: bool = True, whole: bool = False) -> int:
        """The steps of a search through a text, or of one match at its start, which may have to cover all of it."""
        self._text = [*(map(ord, text) if isinstance(text, str) else text), _END]
        self._end = len(text)
        self.count = 0
        at = 0
        while at <= self._end and self.count < self.limit:
            ends = self._sequence(self._nodes, 0, at)
            end = next((end for end in ends if end == self._end) if whole else ends, None)
            if not everywhere:
                break
            at = max(end, at + 1) if end is not None else at + 1
        return self.count

    def _sequence(self, nodes: Sequence[Any], first: int, at: int) -> Iterator[int]:
        if self.count > self.limit:
            return
        for place in range(first, len(nodes)):
            kind, given = nodes[place]
            if kind is _One:
                self.count += 1
                if not given[self._text[at]]:
                    return
                at += 1
            elif kind is op.AT or kind in _ASSERTS:
                if not self._holds(kind, given, at):
                    return
            else:
                for end in self._node(kind, given, at):
                    yield from self._sequence(nodes, place + 1, end)
                return
        yield at

    def _holds(self, kind: Any, given: Any, at: int) -> bool:
        if kind is op.AT:
            self.count += 1
            return self._at(given, at)
        width, inner = given
        found = at >= width and next(self._sequence(inner, 0, at - width), None) is not None
        return found == (kind is op.ASSERT)

    def _node(self, kind: Any, given: Any, at: int) -> Iterator[int]:
        if kind is op.BRANCH:
            for branch in given:
                yield from self._sequence(branch, 0, at)
        elif kind is op.SUBPATTERN:
            yield from self._sequence(given, 0, at)
        elif kind in _REPEATS:
            yield from self._repeat(kind, given, at)
        elif kind is op.ATOMIC_GROUP:
            yield from [end for end in [next(self._sequence(given, 0, at), None)] if end is not None]
        elif kind is op.GROUPREF:
            yield from (end for end in (at, at + 1) if end <= self._end)
        else:
            raise NotImplementedError(str(kind))

    def _repeat(self, kind: Any, given: Any, at: int) -> Iterator[int]:
        least, most, inner = given
        if len(inner) == 1 and inner[0][0] is _One and kind is not op.MIN_REPEAT:
            end = self._run(inner[0][1], at, at + most)
            if kind is op.POSSESSIVE_REPEAT:
                yield from [end] * (end - at >= least)
                return
            for stop in range(end, at + least - 1, -1):
                self.count += 1
                yield stop
            return
        ends = self._times(inner, at, 0, least, most, kind is op.MIN_REPEAT)
        yield from ends if kind is not op.POSSESSIVE_REPEAT else [end for end in [next(ends, None)] if end is not None]

    def _run(self, one: _One, at: int, stop: int) -> int:
        """The end of a run of characters, at most `stop`."""
        end = at
        while end < stop and one[self._text[end]]:
            end += 1
        self.count += end - at + (end < stop)
        return end

    def _times(self, inner: Any, at: int, done: int, least: int, most: int, lazy: bool) -> Iterator[int]:
        if lazy and done >= least:
            yield at
        if done < most:
            for end in self._sequence(inner, 0, at):
                if end > at or done < least:
                    yield from self._times(inner, end, done + 1, least, most, lazy)
        if not lazy and done >= least:
            yield at

    def _at(self, where: Any, at: int) -> bool:
        here = self._text[at]
        before = self._text[at - 1] if at else _END
        if where in (op.AT_BOUNDARY, op.AT_NON_BOUNDARY):
            return ((here in _WORD) != (before in _WORD)) == (where is op.AT_BOUNDARY)
        if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return at == 0 or (self._many_lines and where is op.AT_BEGINNING and before == 10)
        last = at == self._end
        return last or (where is op.AT_END and here == 10 and (self._many_lines or at + 1 == self._end))


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
    """For each part of an expression, a short text that it matches (approximately: an assertion has no text)."""
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
    """Pumping texts: each part of the expression repeated after what comes before it, with two wrong ends."""
    flat = samples(nodes)
    before = dict.fromkeys("".join(flat[:count]) for count in range(len(flat) + 1))
    pumps = dict.fromkeys(text for text in (*map(_sample, parts(nodes)), *flat, *reversed(before)) if text)
    for pump in list(pumps)[:40]:
        for start in list(before)[:12]:
            for end in ("\x01", "\n\x01"):
                yield start + pump * (size // len(pump)) + end
