"""Finds host, port and path of URLs in Arrow bytes, and computes the hashes by which lists know them.

The rules are those of browsers, reduced to what lists need. A scheme is optional; `\\` is a slash; any number of
slashes follows `http:`; user names are removed; a trailing dot of the host is removed; ports 80 and 443 are removed if
they are the default of the scheme or there is no scheme; fragments are removed. A host with a port that is not a number
is not a host (`dns:example.com`, `urn:uuid:…`). Hosts compare in ASCII lower case; IDN stays as it is written, so a
list must spell it as the crawl does (crawls write `xn--`).

    domain       a host, which includes every host below it: `example.com` includes `www.example.com`, but not
                 `notexample.com`. An IP address includes only itself.
    exact URL    host, port, path and query. `/` at the end of a path is removed; the path keeps its case.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.hashset import (
    SEED,
    HashSet,
    count_lines,
    feed,
    finish,
    labels_of,
    lower,
    next_entry,
)
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.text.ascii import (
    ASTERISK,
    AT_SIGN,
    BACKSLASH,
    COLON,
    DOT,
    HASH,
    LEFT_BRACKET,
    LOWER_H,
    LOWER_P,
    LOWER_S,
    LOWER_T,
    NINE,
    QUESTION,
    RIGHT_BRACKET,
    SLASH,
    SP,
    ZERO,
)

Array = np.ndarray[Any, Any]

HOST, HOST_END, PORT, PORT_END, REST, REST_END = range(6)
"""Columns of spans: the host, the port without its colon (empty for a default), and path and query."""


@njit(nogil=True, cache=True)
def _is_slash(byte: int) -> bool:
    return byte == SLASH or byte == BACKSLASH


@njit(nogil=True, cache=True)
def _parts(byte: int) -> bool:
    """Whether a byte can end a scheme, a user name or a host: `/ \\ : ? # @`; two comparisons for a letter."""
    if byte > AT_SIGN:
        return byte == BACKSLASH
    return byte == SLASH or byte == COLON or byte == QUESTION or byte == HASH or byte == AT_SIGN


@njit(nogil=True, cache=True)
def _default_port(data: Bytes, begin: int, end: int) -> int:
    """Returns 80 for http, 443 for https, -1 for another scheme."""
    size = end - begin
    if size < 4 or size > 5 or data[begin] | 32 != LOWER_H or data[begin + 1] | 32 != LOWER_T:
        return -1
    if data[begin + 2] | 32 != LOWER_T or data[begin + 3] | 32 != LOWER_P:
        return -1
    if size == 4:
        return 80
    return 443 if data[begin + 4] | 32 == LOWER_S else -1


@njit(nogil=True, cache=True)
def split(data: Bytes, begin: int, end: int) -> tuple[int, int, int, int, int, int]:
    """Returns the spans of one URL; `data` is a view. The host is empty if there is none."""
    while begin < end and data[begin] <= SP:
        begin += 1
    while end > begin and data[end - 1] <= SP:
        end -= 1
    host = at = begin
    while at < end and not _parts(data[at]):
        at += 1
    default = 0
    if at < end and data[at] == COLON and at > begin:
        scheme_port, slashes = _default_port(data, begin, at), at + 1
        while slashes < end and _is_slash(data[slashes]):
            slashes += 1
        if scheme_port > 0 and slashes < end:  # browsers accept any number of slashes after http:
            default, host, at = scheme_port, slashes, slashes
        elif at + 2 < slashes:
            default, host, at = -1, at + 3, at + 3
    elif at == begin and at + 1 < end and _is_slash(data[at]) and _is_slash(data[at + 1]):
        host = at = begin + 2
    colon = -1
    # Find the last `@`, which ends a login, and the first `:` after it.
    while at < end:
        byte = data[at]
        if _parts(byte):
            if byte == AT_SIGN:
                host, colon = at + 1, -1
            elif byte != COLON:
                break
            elif colon < 0:
                colon = at
        at += 1
    rest = rest_end = at
    while rest_end < end and data[rest_end] != HASH:
        rest_end += 1
    if host < rest and data[host] == LEFT_BRACKET:
        colon = host
        while colon < rest and data[colon] != RIGHT_BRACKET:
            colon += 1
        while colon < rest and data[colon] != COLON:
            colon += 1
    host_end = rest if colon < 0 else colon
    port = min(host_end + 1, rest)
    number = 0
    # A port has digits only, and is at most 65535.
    for at in range(port, rest):
        digit = data[at] - 48
        if digit < 0 or digit > 9 or number > 65535:
            return host, host, rest, rest, rest, rest_end
        number = number * 10 + digit
    if number == default or (default == 0 and (number == 80 or number == 443)) or number == 0:
        port = rest
    while host_end > host and data[host_end - 1] == DOT:
        host_end -= 1
    return host, host_end, port, rest, rest, rest_end


@njit(nogil=True, cache=True)
def split_urls(data: Array, offsets: Array) -> Array:
    """Returns the spans of every URL of an Arrow array: int64, six columns."""
    spans = np.empty((len(offsets) - 1, 6), np.int64)
    text = view(data)
    # Rows are independent of each other.
    for row in range(len(spans)):
        found = split(text, offsets[row], offsets[row + 1])
        for column in range(6):
            spans[row, column] = found[column]
    return spans


@njit(nogil=True, cache=True)
def _is_address(data: Bytes, host: int, end: int) -> bool:
    """Whether a host is an IP address: in brackets, or with a last label that begins with a digit."""
    if host == end or data[host] == LEFT_BRACKET:
        return True
    at = end
    while at > host and data[at - 1] != DOT:
        at -= 1
    return at < end and ZERO <= data[at] <= NINE


@njit(nogil=True, cache=True)
def hash_suffixes(data: Array, spans: Array) -> tuple[Array, Array, Array]:
    """Returns place and mark of every domain of a host, shortest first; where the domains begin; and where each host's
    begin.
    """
    text = view(data)
    most = 0
    # A host has one domain more than dots.
    for row in range(len(spans)):
        for at in range(spans[row, HOST], spans[row, HOST_END]):
            most += text[at] == DOT
        most += 1
    hashes = np.empty((most, 2), np.uint64)
    begins = np.empty(most, np.int64)
    starts = np.empty(len(spans) + 1, np.int64)
    count = 0
    # Hash each host from its end, so that each domain is the hash so far.
    for row in range(len(spans)):
        starts[row] = count
        host, end = spans[row, HOST], spans[row, HOST_END]
        whole = _is_address(text, host, end)
        one, two = SEED
        byte = lower(text[end - 1]) if end > host else 0
        # A domain begins after a dot, or with the host.
        for at in range(end - 1, host - 1, -1):
            one, two = feed(one, two, byte)
            before = lower(text[at - 1]) if at > host else 46
            if before == DOT and byte != DOT and (at == host or not whole):
                hashes[count, 0], hashes[count, 1] = finish(one, two)
                begins[count] = at
                count += 1
            byte = before
    starts[len(spans)] = count
    return hashes[:count], begins[:count], starts


@njit(nogil=True, cache=True)
def _hash_host(data: Bytes, host: int, end: int) -> tuple[np.uint64, np.uint64]:
    one, two = SEED
    for at in range(end - 1, host - 1, -1):
        one, two = feed(one, two, lower(data[at]))
    return finish(one, two)


@njit(nogil=True, cache=True)
def _path_end(data: Bytes, rest: int, end: int) -> int:
    """Returns the end of a path without trailing slashes; a query keeps them."""
    # A query keeps all its bytes.
    for at in range(rest, end):
        if data[at] == QUESTION:
            return end
    while end > rest and _is_slash(data[end - 1]):
        end -= 1
    return end


@njit(nogil=True, cache=True)
def _hash_url(data: Bytes, span: tuple[int, int, int, int, int, int]) -> tuple[np.uint64, np.uint64]:
    one, two = SEED
    for at in range(span[0], span[1]):
        one, two = feed(one, two, lower(data[at]))
    if span[2] < span[3]:
        one, two = feed(one, two, 58)
        for at in range(span[2], span[3]):
            one, two = feed(one, two, data[at])
    end = _path_end(data, span[4], span[5])
    if span[4] < end and data[span[4]] == QUESTION:
        one, two = feed(one, two, 47)
    for at in range(span[4], end):
        one, two = feed(one, two, data[at])
    return finish(one, two)


@njit(nogil=True, cache=True)
def hash_urls(data: Array, offsets: Array) -> Array:
    """Returns place and mark of every URL in the form that ignores scheme, default port, fragment and last slash."""
    hashes = np.empty((len(offsets) - 1, 2), np.uint64)
    text = view(data)
    for row in range(len(hashes)):
        hashes[row, 0], hashes[row, 1] = _hash_url(text, split(text, offsets[row], offsets[row + 1]))
    return hashes


@njit(nogil=True, cache=True)
def hash_url_lines(data: Array) -> tuple[Array, int]:
    """Returns place and mark of every URL of a list, and the number of invalid entries."""
    hashes = np.empty((count_lines(data), 2), np.uint64)
    text, stop, at, count, faults = view(data), len(data), 0, 0, 0
    # Each turn takes one line of the list.
    while at < stop:
        begin, end, at = next_entry(text, at, stop)
        if begin == end:
            continue
        span = split(text, begin, end)
        if span[0] < span[1]:
            hashes[count, 0], hashes[count, 1] = _hash_url(text, span)
            count += 1
        else:
            faults += 1
    return hashes[:count], faults


@njit(nogil=True, cache=True)
def hash_domain_lines(data: Array) -> tuple[Array, int]:
    """Returns place and mark of every domain of a list, and the number of invalid entries.

    `.example.com`, `*.example.com` and `http://example.com/` are `example.com`. Of a line of several words the last one
    counts, as in hosts files (`0.0.0.0 example.com`). An entry with a path is refused: it would block a whole site for
    one page.
    """
    hashes = np.empty((count_lines(data), 2), np.uint64)
    text, stop, at, count, faults = view(data), len(data), 0, 0, 0
    # Each turn takes one line of the list.
    while at < stop:
        begin, end, at = next_entry(text, at, stop)
        if begin == end:
            continue
        word = end
        while word > begin and text[word - 1] > SP:
            word -= 1
        host, host_end, _, _, rest, rest_end = split(text, word, end)
        if host_end - host > 2 and text[host] == ASTERISK and text[host + 1] == DOT:
            host += 2
        while host < host_end and text[host] == DOT:
            host += 1
        if host < host_end and _path_end(text, rest, rest_end) == rest:
            hashes[count, 0], hashes[count, 1] = _hash_host(text, host, host_end)
            count += 1
        else:
            faults += 1
    return hashes[:count], faults


@njit(nogil=True, cache=True)
def _first_found(labels: Array, begins: Array, starts: Array) -> tuple[Array, Array]:
    found = np.full(len(starts) - 1, -1, np.int32)
    begin = np.full(len(starts) - 1, -1, np.int64)
    # The shortest domain that is listed counts.
    for row in range(len(found)):
        # Domains of a host are in the order of their length.
        for place in range(starts[row], starts[row + 1]):
            if labels[place] >= 0:
                found[row] = labels[place]
                begin[row] = begins[place]
                break
    return found, begin


def find_domains(domains: HashSet, data: Array, spans: Array) -> tuple[Array, Array]:
    """Returns for each URL the list with a domain of its host, or -1, and where in the URL that domain begins.

    Of several domains the shortest one counts: it makes the others redundant.
    """
    hashes, begins, starts = hash_suffixes(data, spans)
    found, begin = _first_found(labels_of(domains, hashes), begins, starts)
    return found, begin


@njit(nogil=True, cache=True)
def cut(data: Array, begins: Array, ends: Array) -> tuple[Array, Array]:
    """Returns offsets (int32) and bytes of an Arrow array of spans of `data`, in lower case."""
    offsets = np.zeros(len(begins) + 1, np.int32)
    for row in range(len(begins)):
        offsets[row + 1] = offsets[row] + np.int32(max(ends[row] - begins[row], 0))
    out = np.empty(offsets[-1], np.uint8)
    # Copy each span.
    for row in range(len(begins)):
        for at in range(offsets[row + 1] - offsets[row]):
            out[offsets[row] + at] = lower(data[begins[row] + at])
    return offsets, out
