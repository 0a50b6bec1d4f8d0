"""Brings URLs into a form in which spellings of one address are equal. It is a key to compare, not an address to fetch.

    scheme      http and https are equal and removed; another one stays, in lower case
    host        as `urls.split` finds it, in lower case; IDN must be `xn--` (`odd_hosts` finds others), without tabs and
                line breaks (`stages/shared/url_forms.py`, which also composes letters: NFC)
    port        80 and 443 are removed, like the scheme that they belong to; leading zeros are removed
    path        `\\` is a slash; dot segments are resolved (RFC 3986, 5.2.4); slashes at the end are removed, also
                before a query; tracking parameters of a segment are removed (`;jsessionid=…`)
    query       tracking parameters and empty ones are removed; with `sort` the others are sorted by name, those with
                the same name stay in order; an empty query is removed; `&amp;` is `&`
    fragment    is removed, stays, or stays only as `#!…`, in which old AJAX pages differ
    %XX         letters, digits and `-._~` are decoded; other codes get capitals; bytes that are not allowed in a URL
                (white space, controls, `"<>^`{|}`, all outside ASCII) are encoded; `%` without two digits stays

A URL without a host (`urn:…`) stays as it is, without white space around it.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.dedup.exact_hash import sealed
from gristmill.kernels.hash.hashset import lower
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.text.ascii import (
    AMPERSAND,
    AT_SIGN,
    BACKSLASH,
    COLON,
    DOT,
    EQUALS,
    EXCLAMATION,
    HASH,
    LOWER_A,
    LOWER_H,
    LOWER_M,
    LOWER_P,
    LOWER_S,
    LOWER_T,
    LOWER_W,
    PERCENT,
    QUESTION,
    SEMICOLON,
    SLASH,
    SP,
    ZERO,
)
from gristmill.kernels.urls.parts import HOST, HOST_END, split
from gristmill.kernels.urls.spelling import ParamNames, UrlViews, is_named, put_next, tables_of

Array = np.ndarray[Any, Any]

MOST_SORTED = 256
"""A query with more parameters keeps its order: insertion sort is for the few parameters of real queries."""

NO_FRAGMENT, HASHBANG, FRAGMENT = range(3)
"""Which fragments stay."""


@njit(nogil=True, cache=True)
def _segment_end(data: Bytes, at: int, end: int) -> int:
    # A segment ends with a slash or with the path.
    while at < end:
        byte = data[at]
        if byte == SLASH or byte == BACKSLASH or byte == QUESTION:
            return at
        at += 1
    return at


@njit(nogil=True, cache=True)
def _put_path(data: Bytes, at: int, end: int, out: Bytes, size: int, tables: UrlViews) -> tuple[int, int]:
    """Writes a path; returns where the query begins, and where the next byte is written."""
    root = size
    # Each turn writes one segment, and `..` takes the one before it back.
    while at < end and data[at] != QUESTION:
        at += 1  # the slash before a segment
        stop = _segment_end(data, at, end)
        out[size] = SLASH
        slash, size = size, size + 1
        piece, name_end = -1, -1  # of a parameter: its `;`, and the end of its name
        # Write the segment, without the parameters of sessions.
        while at < stop:
            sign = data[at]
            if sign == SEMICOLON:
                size = _without(out, piece, name_end, size, tables)
                piece, name_end = size, -1
            elif sign == EQUALS and name_end < 0:
                name_end = size
            at, size = put_next(data, at, stop, out, size, tables)
        size = _without(out, piece, name_end, size, tables)
        dots = size - slash - 1
        if dots == 1 and out[size - 1] == DOT:
            size = slash
        elif dots == 2 and out[size - 1] == DOT and out[size - 2] == DOT:
            size = slash
            # Go back to the slash before the last segment.
            while size > root:
                size -= 1
                if out[size] == SLASH:
                    break
    while size > root and out[size - 1] == SLASH:
        size -= 1
    return at, size


@njit(nogil=True, cache=True)
def _without(out: Bytes, piece: int, name_end: int, size: int, tables: UrlViews) -> int:
    """Removes the parameter of a segment that begins at `piece` if it is a tracking parameter; returns where the next
    byte is written.
    """
    if piece < 0:
        return size
    return piece if is_named(out, piece + 1, size if name_end < 0 else name_end, tables) else size


@njit(nogil=True, cache=True)
def _after(out: Bytes, one: Any, two: Any) -> bool:
    """Whether the name of parameter `one` (begin, end of name) sorts after that of `two`."""
    size = min(one[1] - one[0], two[1] - two[0])
    # The first byte that differs decides.
    for place in range(size):
        difference = out[one[0] + place] - out[two[0] + place]
        if difference:
            return bool(difference > 0)
    return bool(one[1] - one[0] > two[1] - two[0])


@njit(nogil=True, cache=True)
def _sort_query(out: Bytes, begin: int, size: int, pieces: Array, count: int, spare: Bytes) -> None:
    """Sorts the parameters (begin, end of name, end) by name; `spare` has room for all."""
    moved = False
    # Insertion sort: there are at most MOST_SORTED parameters, nearly always few.
    for number in range(1, count):
        at = number
        one, two, three = pieces[number, 0], pieces[number, 1], pieces[number, 2]
        # Move parameters that sort later up.
        while at > 0 and _after(out, (pieces[at - 1, 0], pieces[at - 1, 1]), (one, two)):
            pieces[at, 0], pieces[at, 1], pieces[at, 2] = pieces[at - 1, 0], pieces[at - 1, 1], pieces[at - 1, 2]
            at -= 1
            moved = True
        pieces[at, 0], pieces[at, 1], pieces[at, 2] = one, two, three
    if not moved:
        return
    for at in range(begin, size):
        spare[at - begin] = out[at]
    to = begin
    # Write them in their order.
    for number in range(count):
        if number:
            out[to] = AMPERSAND
            to += 1
        # Parameters are copied with their values.
        for at in range(pieces[number, 0], pieces[number, 2]):
            out[to] = spare[at - begin]
            to += 1


@njit(nogil=True, cache=True)
def _is_amp(data: Bytes, at: int, end: int) -> bool:
    """Whether the bytes at `at` are `amp;`, the rest of a `&` that was copied out of HTML."""
    if at + 4 > end or data[at + 3] != SEMICOLON:
        return False
    two = lower(data[at]) == LOWER_A and lower(data[at + 1]) == LOWER_M
    return bool(two and lower(data[at + 2]) == LOWER_P)


@njit(nogil=True, cache=True)
def _put_query(
    data: Bytes, at: int, end: int, out: Bytes, size: int, tables: UrlViews, sort: bool, pieces: Array, spare: Bytes
) -> int:
    """Writes a query with its `?`, if it is not empty; returns where the next byte is written."""
    mark = size
    size += 1
    count = 0
    # Each turn writes one parameter; one of the list is taken back.
    while at < end:
        begin, name_end = size, -1
        while _is_amp(data, at, end):
            at += 4
        # The name ends with the first `=`.
        while at < end and data[at] != AMPERSAND:
            if data[at] == EQUALS and name_end < 0:
                name_end = size
            at, size = put_next(data, at, end, out, size, tables)
        at += 1
        if size == begin:
            continue
        name_end = size if name_end < 0 else name_end
        if is_named(out, begin, name_end, tables):
            size = begin
            continue
        if count < MOST_SORTED:
            pieces[count, 0], pieces[count, 1], pieces[count, 2] = begin, name_end, size
        count += 1
        out[size] = AMPERSAND
        size += 1
    if count == 0:
        return mark
    out[mark] = QUESTION
    size -= 1
    if sort and 1 < count <= MOST_SORTED:
        _sort_query(out, mark + 1, size, pieces, count, spare)
    return size


@njit(nogil=True, cache=True)
def _is_web(data: Bytes, begin: int, end: int) -> bool:
    """Whether a scheme is http or https."""
    size = end - begin
    if size == 0:
        return True
    if size != 4 and size != 5:
        return False
    four = lower(data[begin]) == LOWER_H and lower(data[begin + 3]) == LOWER_P
    four = four and lower(data[begin + 1]) == LOWER_T and lower(data[begin + 2]) == LOWER_T
    return bool(four and (size == 4 or lower(data[begin + 4]) == LOWER_S))


@njit(nogil=True, cache=True)
def _scheme_end(data: Bytes, begin: int, end: int) -> int:
    """Returns the end of the scheme before `://`, or `begin`."""
    at = begin
    # A scheme has no sign that parts a URL.
    while at < end:
        byte = data[at]
        if byte == COLON:
            break
        if byte == SLASH or byte == BACKSLASH or byte == QUESTION or byte == HASH or byte == AT_SIGN:
            return begin
        at += 1
    if at + 2 >= end:
        return begin
    one, two = data[at + 1], data[at + 2]
    return at if (one == SLASH or one == BACKSLASH) and (two == SLASH or two == BACKSLASH) else begin


@njit(nogil=True, cache=True)
def _is_web_port(data: Bytes, begin: int, end: int) -> bool:
    """Whether a port is 80 or 443."""
    if end - begin == 2:
        return bool(data[begin] == 56 and data[begin + 1] == ZERO)
    four = end - begin == 3 and data[begin] == 52 and data[begin + 1] == 52
    return bool(four and data[begin + 2] == 51)


@njit(nogil=True, cache=True)
def _put_host(data: Bytes, host: int, host_end: int, port: int, port_end: int, out: Bytes, size: int, www: bool) -> int:
    """Writes host and port; `www`: without a first label www, if two more follow."""
    if www and host_end - host > 4 and data[host + 3] == DOT:
        three = lower(data[host]) == LOWER_W and lower(data[host + 1]) == LOWER_W
        dot = host + 4
        while dot < host_end and data[dot] != DOT:
            dot += 1
        if three and lower(data[host + 2]) == LOWER_W and dot < host_end:
            host += 4
    # Hosts are written in lower case.
    for at in range(host, host_end):
        out[size] = lower(data[at])
        size += 1
    if port < port_end:
        out[size] = COLON
        size += 1
        # Digits of the port.
        for at in range(port, port_end):
            out[size] = data[at]
            size += 1
    return size


@njit(nogil=True, cache=True)
def odd_hosts(data: Array, spans: Array) -> Array:
    """Returns which URLs have a host that is not plain ASCII; `spans` are those of `urls.split_urls`."""
    odd = np.zeros(len(spans), np.bool_)
    text = view(data)
    # Rows are independent of each other.
    for row in range(len(spans)):
        # A percent sign may hide any character.
        for at in range(spans[row, HOST], spans[row, HOST_END]):
            byte = text[at]
            odd[row] |= byte >= 0x80 or byte == PERCENT
    return odd


@njit(nogil=True, cache=True)
def _normal_urls(
    data: Array, offsets: Array, named: ParamNames, sort: bool, www: bool, fragment: int, buffer: Array, spare: Array
) -> Array:
    rows = len(offsets) - 1
    pieces = np.empty((MOST_SORTED, 3), np.int64)
    ends = np.zeros(rows + 1, np.int64)
    text, out, kept = view(data), view(buffer), view(spare)
    tables = tables_of(named)
    size = 0
    # Rows are independent of each other.
    for row in range(rows):
        begin, end = offsets[row], offsets[row + 1]
        while begin < end and text[begin] <= SP:
            begin += 1
        while end > begin and text[end - 1] <= SP:
            end -= 1
        host, host_end, port, port_end, rest, rest_end = split(text, begin, end)
        if host == host_end:
            # What is not a URL stays as it is.
            for at in range(begin, end):
                out[size] = text[at]
                size += 1
            ends[row + 1] = size
            continue
        scheme = _scheme_end(text, begin, end)
        while port < port_end and text[port] == ZERO:
            port += 1
        if _is_web(text, begin, scheme):
            port = port_end if _is_web_port(text, port, port_end) else port
        else:
            # Schemes other than those of the web are written, in lower case.
            for at in range(begin, scheme):
                out[size] = lower(text[at])
                size += 1
            out[size] = COLON
            size += 1
        out[size] = SLASH
        out[size + 1] = SLASH
        size = _put_host(text, host, host_end, port, port_end, out, size + 2, www)
        query, size = _put_path(text, rest, rest_end, out, size, tables)
        size = _put_query(text, query + 1, rest_end, out, size, tables, sort, pieces, kept)
        bang = rest_end + 1 < end and text[rest_end + 1] == EXCLAMATION
        if rest_end + 1 < end and (fragment == FRAGMENT or (bang and fragment == HASHBANG)):
            at = rest_end + 1
            out[size] = HASH
            size += 1
            while at < end:
                at, size = put_next(text, at, end, out, size, tables)
        ends[row + 1] = size
    return ends


def normal_urls(
    data: Array, offsets: Array, tracking: ParamNames, sort: bool, www: bool, fragment: int
) -> tuple[Array, Array]:
    """Returns offsets (int64) and bytes of the normal form of each URL of an Arrow array.

    `sort`: sorts the query by name; `www`: removes it from hosts; `fragment`: which fragments stay.
    """
    data, offsets, rows = sealed(data), sealed(np.asarray(offsets, np.int64)), len(offsets) - 1
    # Every byte may become a code of three, and the form adds a few: `//`, `/`, `&`.
    buffer = np.empty(3 * int(offsets[rows] - offsets[0]) + 8 * rows + 8, np.uint8)
    spare = np.empty(3 * int(np.diff(offsets).max(initial=0)) + 8, np.uint8)
    ends = _normal_urls(data, offsets, tracking, sort, www, fragment, buffer, spare)
    return ends, buffer[: ends[rows]]
