"""Matches paths with the rules of robots.txt (RFC 9309, section 2.2.2): `*` is any bytes, `$` at the end is the end.

Both are brought to one form first: `%XX` of a letter, digit or one of `-._~` is decoded, other `%XX` get upper-case
digits, bytes above 127 are encoded. `*` and `$` in a path are `%2A` and `%24`, which is also how a rule spells the
characters.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.hashset import hex_digit, lower
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.text.ascii import (
    BACKSLASH,
    COLON,
    DOT,
    HYPHEN,
    LOWER_A,
    LOWER_Z,
    NINE,
    QUESTION,
    SLASH,
    TILDE,
    UNDERSCORE,
    ZERO,
)
from gristmill.kernels.urls.parts import HOST, HOST_END, PORT, PORT_END, REST, REST_END

Array = np.ndarray[Any, Any]

_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_ROBOTS = np.frombuffer(b"/robots.txt", np.uint8)
_STAR, _DOLLAR, _PERCENT = 42, 36, 37


@njit(nogil=True, cache=True)
def _unreserved(byte: int) -> bool:
    letter = LOWER_A <= byte | 32 <= LOWER_Z and byte < 128
    return letter or ZERO <= byte <= NINE or byte == HYPHEN or byte == DOT or byte == UNDERSCORE or byte == TILDE


@njit(nogil=True, cache=True)
def _escape(out: Array, size: int, byte: int) -> int:
    out[size] = _PERCENT
    out[size + 1] = _HEX[byte >> 4]
    out[size + 2] = _HEX[byte & 15]
    return size + 3


@njit(nogil=True, cache=True)
def _write(data: Bytes, begin: int, end: int, out: Array, size: int, rule: bool) -> int:
    """Appends a path, or the path of a rule, in the common form; returns the new size."""
    at = begin
    # Each turn writes one byte: escapes of characters that need none are resolved, and all others are escaped alike.
    while at < end:
        byte = data[at]
        at += 1
        if byte == _PERCENT and at + 1 < end:
            high, low = hex_digit(data[at]), hex_digit(data[at + 1])
            if high >= 0 and low >= 0:
                byte = high << 4 | low
                at += 2
                if _unreserved(byte):
                    out[size] = byte
                    size += 1
                else:
                    size = _escape(out, size, byte)
                continue
        star, dollar = byte == _STAR, byte == _DOLLAR
        if byte >= 128 or (star and not rule) or (dollar and not (rule and at == end)):
            size = _escape(out, size, byte)
        else:
            out[size] = byte
            size += 1
    return size


@njit(nogil=True, cache=True)
def write_rule(data: Array) -> Array:
    """Returns the path of a rule in the common form."""
    out = np.empty(3 * len(data), np.uint8)
    return out[: _write(view(data), 0, len(data), out, 0, True)].copy()


@njit(nogil=True, cache=True)
def sites_and_paths(data: Array, spans: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Returns two Arrow arrays (offsets and bytes): host in lower case with its port, and path with query in the common
    form; and which paths are /robots.txt.
    """
    rows = len(spans)
    site_offsets, path_offsets = np.zeros(rows + 1, np.int32), np.zeros(rows + 1, np.int32)
    sites = np.empty(len(data) + rows, np.uint8)
    paths = np.empty(3 * len(data) + rows, np.uint8)
    robots = np.zeros(rows, np.bool_)
    text = view(data)
    size = length = 0
    # Rows are independent of each other.
    for row in range(rows):
        # Hosts are written in lower case.
        for at in range(spans[row, HOST], spans[row, HOST_END]):
            sites[size] = lower(text[at])
            size += 1
        if spans[row, PORT] < spans[row, PORT_END]:
            sites[size] = COLON
            size += 1
            # Digits of the port.
            for at in range(spans[row, PORT], spans[row, PORT_END]):
                sites[size] = text[at]
                size += 1
        site_offsets[row + 1] = size
        begin = length
        rest, end = spans[row, REST], spans[row, REST_END]
        if rest == end or (text[rest] != SLASH and text[rest] != BACKSLASH):
            paths[length] = SLASH
            length += 1
        length = _write(text, rest, end, paths, length, False)
        if paths[begin] == BACKSLASH:
            paths[begin] = SLASH
        path_offsets[row + 1] = length
        robots[row] = length - begin >= len(_ROBOTS)
        for at in range(len(_ROBOTS)):
            robots[row] = robots[row] and paths[begin + at] == _ROBOTS[at]
        robots[row] = robots[row] and (length - begin == len(_ROBOTS) or paths[begin + len(_ROBOTS)] == QUESTION)
    return site_offsets, sites[:size].copy(), path_offsets, paths[:length].copy(), robots


@njit(nogil=True, cache=True)
def _matches(rule: Bytes, begin: int, end: int, path: Bytes, at: int, stop: int) -> bool:
    """Whether a rule matches the start of a path. A `*` matches as little as possible, and more if that fails; only the
    last `*` ever has to match more.
    """
    anchored = end > begin and rule[end - 1] == _DOLLAR
    if anchored:
        end -= 1
    star = -1
    resume = 0
    place = begin
    # Each turn compares one sign of the rule; if it fails, the last `*` takes one byte more.
    while True:
        if place == end:
            if not anchored or at == stop:
                return True
        elif rule[place] == _STAR:
            star, resume = place, at
            place += 1
            continue
        elif at < stop and rule[place] == path[at]:
            place += 1
            at += 1
            continue
        if star < 0 or resume >= stop:
            return False
        resume += 1
        place, at = star + 1, resume


@njit(nogil=True, cache=True)
def decide(
    paths: Array, path_offsets: Array, rules: Array, rule_offsets: Array, first_rules: Array, last_rules: Array
) -> Array:
    """Returns for each path the first of its rules, in [first, last), that matches it, or -1."""
    decided = np.full(len(path_offsets) - 1, -1, np.int64)
    text, rule_text = view(paths), view(rules)
    # Rows are independent of each other.
    for row in range(len(decided)):
        # Rules are in the order of their precedence.
        for rule in range(first_rules[row], last_rules[row]):
            if _matches(
                rule_text, rule_offsets[rule], rule_offsets[rule + 1], text, path_offsets[row], path_offsets[row + 1]
            ):
                decided[row] = rule
                break
    return decided
