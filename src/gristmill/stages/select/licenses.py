"""Decides whether a list of allowed licenses satisfies a license expression (SPDX 2.3, annex D)."""

import re
from collections.abc import Iterable
from functools import lru_cache

MAX_CHARACTERS = 2000
MAX_DEPTH = 32

_TOKEN = re.compile(r"[()]|[^\s()]+")
_WORDS = ("AND", "OR", "WITH")


class _Unreadable(Exception):
    """The text is not an expression."""


def allow_list(names: Iterable[str]) -> frozenset[str]:
    """The names in the form used for comparison."""
    return frozenset(_plain(name) for name in names)


@lru_cache(maxsize=1 << 16)
def satisfied(expression: str | None, allowed: frozenset[str]) -> bool | None:
    """Whether the license is allowed; None if it is unknown (missing, NONE, NOASSERTION).

    OR needs one side, AND both, and AND binds more strongly. X also satisfies `X+` and `X-or-later`, since users may
    choose it, and `X WITH exception`, since an exception only permits more. Text that is not an expression
    ("CC BY 4.0", "MIT, no AI") is only satisfied by the same text in the list.
    """
    text = (expression or "").strip()
    if not text or text.upper() in ("NONE", "NOASSERTION", "UNKNOWN"):
        return None
    if _plain(text) in allowed:
        return True
    tokens = _TOKEN.findall(text[:MAX_CHARACTERS]) if len(text) <= MAX_CHARACTERS else []
    try:
        answer, end = _either(tokens, 0, allowed, 0)
    except _Unreadable:
        return False
    return answer and end == len(tokens)


def _plain(name: str) -> str:
    name = " ".join(name.lower().split())
    first, space, rest = name.partition(" ")
    first = f"{first.removesuffix('-or-later')}+" if first.endswith("-or-later") else first.removesuffix("-only")
    return first + space + rest


def _either(tokens: list[str], at: int, allowed: frozenset[str], depth: int) -> tuple[bool, int]:
    answer, at = _both(tokens, at, allowed, depth)
    while at < len(tokens) and tokens[at].upper() == "OR":
        right, at = _both(tokens, at + 1, allowed, depth)
        answer = answer or right
    return answer, at


def _both(tokens: list[str], at: int, allowed: frozenset[str], depth: int) -> tuple[bool, int]:
    answer, at = _operand(tokens, at, allowed, depth)
    while at < len(tokens) and tokens[at].upper() == "AND":
        right, at = _operand(tokens, at + 1, allowed, depth)
        answer = answer and right
    return answer, at


def _operand(tokens: list[str], at: int, allowed: frozenset[str], depth: int) -> tuple[bool, int]:
    if at >= len(tokens) or depth > MAX_DEPTH or tokens[at] == ")" or tokens[at].upper() in _WORDS:
        raise _Unreadable
    if tokens[at] == "(":
        answer, at = _either(tokens, at + 1, allowed, depth + 1)
        if at >= len(tokens) or tokens[at] != ")":
            raise _Unreadable
        return answer, at + 1
    name = _plain(tokens[at])
    answer = name in allowed or (name.endswith("+") and name[:-1] in allowed)
    if at + 1 < len(tokens) and tokens[at + 1].upper() == "WITH":
        if at + 2 >= len(tokens) or tokens[at + 2] in "()":
            raise _Unreadable
        return answer or f"{name} with {tokens[at + 2].lower()}" in allowed, at + 3
    return answer, at + 1
