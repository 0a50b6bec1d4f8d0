"""Finds quotations, code and formulas among the tokens of a text. Each mark is searched for once, so time is linear."""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from gristmill_generate.compare.tokens import TextToken

MOST_QUOTED, MOST_CODE = 300, 5000
"""Tokens of a quotation, and of a block of code."""
_CLOSING = {'"': '"', "“": "”", "„": "“", "«": "»", "「": "」", "『": "』"}
_FENCE = 3
"""Backticks before and after a block of code."""


class QuotedPiece(NamedTuple):
    """A quotation or a piece of code, by the indexes of its tokens."""

    first: int
    """Its opening mark."""
    inside: int
    """The first token inside it."""
    end: int
    """Its closing mark."""
    stop: int
    """The token after it."""


def quotations_in(tokens: Sequence[TextToken]) -> Iterator[QuotedPiece]:
    """The quotations: they end with their paragraph at the latest."""
    searched: dict[str, int] = {}  # up to where the mark that closes such a quotation was not found
    index = 0
    while index + 1 < len(tokens):
        opening = str(tokens[index].key) if tokens[index].kind == "symbol" else ""
        if opening not in _CLOSING or not _opens(tokens, index):
            index += 1
            continue
        closing = _CLOSING[opening]
        end, last = max(index + 1, searched.get(opening, 0)), min(len(tokens), index + MOST_QUOTED)
        while end < last and not tokens[end].begins_paragraph and not tokens[end].is_symbol(closing):
            end += 1
        is_closed = end < last and not tokens[end].begins_paragraph
        # A straight mark that opens another quotation shows that the one before it closed one.
        if is_closed and not (closing == '"' and end + 1 < len(tokens) and _opens(tokens, end)):
            yield QuotedPiece(index, index + 1, end, end + 1)
            index = end + 1
        else:
            searched[opening] = end
            index += 1


def _opens(tokens: Sequence[TextToken], index: int) -> bool:
    """Whether a quotation mark opens one: a straight mark only after white space or a symbol."""
    mark, after = tokens[index], tokens[index + 1]
    if after.is_spaced:
        return False
    return mark.key != '"' or mark.is_spaced or (tokens[index - 1].kind == "symbol" and after.kind != "symbol")


def code_in(tokens: Sequence[TextToken]) -> Iterator[QuotedPiece]:
    """Code and formulas: between equal marks (`, ```, $, $$), or between \\( and \\), \\[ and \\]."""
    searched: dict[tuple[object, int], int] = {}
    index = 0
    while index < len(tokens):
        if not tokens[index].is_symbol("`$\\"):
            index += 1
            continue
        piece = _code_at(tokens, index, searched)
        if piece is not None:
            yield piece
        index = index + _run(tokens, index) if piece is None else piece.stop


def _run(tokens: Sequence[TextToken], index: int) -> int:
    """How often a symbol is repeated without white space, at most three times."""
    size = 1
    for token in tokens[index + 1 : index + _FENCE]:
        if token.is_spaced or token.kind != "symbol" or token.key != tokens[index].key:
            break
        size += 1
    return size


def _code_at(tokens: Sequence[TextToken], index: int, searched: dict[tuple[object, int], int]) -> QuotedPiece | None:
    mark, size = tokens[index].key, _run(tokens, index)
    inside, closing = index + size, None
    if inside >= len(tokens):
        return None
    after = tokens[inside]
    if mark == "\\":
        if size > 1 or after.is_spaced or not after.is_symbol("(["):
            return None
        closing, inside = {"(": ")", "[": "]"}[str(after.key)], inside + 1
    elif mark == "$" and size == 1 and (after.is_spaced or after.kind == "number"):
        return None  # `$5 and $6` are amounts of money
    is_block = size == _FENCE or (mark == "$" and size == 2) or closing == "]"
    kind = (closing or mark, size)
    end, last = max(inside, searched.get(kind, 0)), min(len(tokens), index + (MOST_CODE if is_block else MOST_QUOTED))
    while end < last:
        token = tokens[end]
        if not is_block and (token.begins_paragraph if mark == "$" else token.begins_line):
            break
        if token.kind == "symbol" and token.key == mark:
            if closing is None and _run(tokens, end) >= size:
                return QuotedPiece(index, inside, end, end + size)
            if closing is not None and end + 1 < len(tokens) and tokens[end + 1].is_symbol(closing):
                return QuotedPiece(index, inside, end, end + 2)
        end += 1
    searched[kind] = end
    return None


def begins_again(tokens: Sequence[TextToken], index: int) -> bool:
    """Whether the text before a token may be elsewhere in the parent: at a line, a sentence, or left-out words."""
    token = tokens[index]
    return (
        token.begins_line
        or token.is_symbol("[…")
        or (token.is_spaced and index > 0 and tokens[index - 1].ends_sentence)
    )


def code_key(token: TextToken) -> Hashable:
    """The key of a token in code; all double quotes are one."""
    return token.kind, '"' if token.is_symbol("“”„") else token.key
