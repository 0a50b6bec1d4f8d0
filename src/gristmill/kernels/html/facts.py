"""Finds where a page describes itself: title, author, date, language, address, site, in one pass over its bytes.

The pass follows the tokenizer of the HTML standard as far as it decides what is a tag: quoted values, comments, raw
text (script, style, textarea, title). A title inside `<svg>` does not count. Tags count in the head of a page, which
ends with `<body>`; after it only the first heading, dates of publication (`<time>`, and `<meta>` with itemprop), and
JSON-LD count.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html import names as markup
from gristmill.kernels.html.bounds import as_words, seek, skip_declaration, skip_raw
from gristmill.kernels.memory import borrow
from gristmill.kernels.text import ascii

MAX_VALUE_BYTES = 1 << 14
"""A longer value is cut to this many bytes."""
MAX_SCRIPT_BYTES = 1 << 18
MAX_SCRIPT_DEPTH = 64
"""Nested lists and objects. A script that is longer or deeper is skipped."""

_NAMED = (
    "og:title",
    "twitter:title",
    "dc.title dcterms.title dc:title",
    "content-language",
    "og:locale",
    "author",
    "article:author",
    "dc.creator dcterms.creator dc:creator",
    "parsely-author",
    "sailthru.author",
    "article:published_time",
    "datepublished",
    "dc.date dc.date.issued dcterms.created dcterms.issued dcterms.date date pubdate publish_date publish-date "
    "publishdate parsely-pub-date sailthru.date",
    "og:url",
    "og:site_name",
    "application-name",
    "canonical",
    "application/ld+json",
)
OG_TITLE, TWITTER_TITLE, DC_TITLE, CONTENT_LANGUAGE, OG_LOCALE, AUTHOR, ARTICLE_AUTHOR, DC_CREATOR = range(8)
PARSELY_AUTHOR, SAILTHRU_AUTHOR, PUBLISHED_TIME, DATE_PUBLISHED, OTHER_DATE, OG_URL, SITE_NAME = range(8, 15)
APPLICATION_NAME, CANONICAL, JSON_LD, TITLE, HEADING_TEXT, LANG, XML_LANG, BODY_DATE, PLACES = range(15, 24)
"""Sources of a value. The first ones are named by an attribute, in one of the spellings of `_NAMED`."""

_MOST = np.full(PLACES, 8, np.int64)
_MOST[JSON_LD], _MOST[HEADING_TEXT] = 4, 64
_MOST_OF_A_PAGE = int(_MOST.sum())
"""The most values of one source: only the first valid one is needed, or some authors, or the parts of a line."""

_NAME_HASHES = np.array([markup.fnv(name) for names in _NAMED for name in names.split()], np.uint64)
_NAME_BITS = np.array([1 << place for place, names in enumerate(_NAMED) for _ in names.split()], np.int64)
_IN_META = (1 << CANONICAL) - 1
_IN_TIME = 1 << DATE_PUBLISHED | 1 << OTHER_DATE
_MAX_NAME_BYTES = 256

_TAG_META, _TAG_LINK, _TAG_TITLE, _TAG_H1 = map(markup.TAG_NAMES.index, ["meta", "link", "title", "h1"])
_HASH_TIME = np.uint64(markup.fnv("time"))
_NAMING = tuple(np.uint64(markup.fnv(name)) for name in ("name", "property", "itemprop", "http-equiv", "rel", "type"))
_HASH_CONTENT, _HASH_HREF, _HASH_DATETIME, _HASH_PUBDATE, _HASH_LANG, _HASH_XML_LANG = (
    np.uint64(markup.fnv(name)) for name in ("content", "href", "datetime", "pubdate", "lang", "xml:lang")
)
_NO_NAME = np.uint64(0)


@njit(nogil=True, cache=True, forceinline=True)
def _attribute(data: np.ndarray, words: np.ndarray, at: int, stop: int) -> tuple[Any, int, int, int]:
    """Returns the next attribute of a tag: the hash of its name, begin and end of its value, and its own end.

    If there is none, the hash is 0 and the end is that of the tag: its ">" or `stop`.
    """
    while at < stop and markup.BYTE_CLASS[data[at]] & (markup.BYTE_SPACE | markup.BYTE_SLASH):
        at += 1
    if at >= stop or data[at] == ascii.GREATER:
        return _NO_NAME, at, at, at
    code = (markup.HASH_BASIS ^ markup.BYTE_LOWER[data[at]]) * markup.HASH_PRIME
    at += 1
    # The hash of the name, in lower case.
    while at < stop and not markup.BYTE_CLASS[data[at]]:
        code = (code ^ markup.BYTE_LOWER[data[at]]) * markup.HASH_PRIME
        at += 1
    while at < stop and markup.BYTE_CLASS[data[at]] == markup.BYTE_SPACE:
        at += 1
    if at >= stop or data[at] != ascii.EQUALS:
        return code, at, at, at
    at += 1
    while at < stop and markup.BYTE_CLASS[data[at]] == markup.BYTE_SPACE:
        at += 1
    begin = at
    if at < stop and (data[at] == ascii.QUOTE or data[at] == ascii.APOSTROPHE):
        at = seek(data, words, at + 1, stop, data[at])
        return code, begin + 1, at, min(at + 1, stop)
    while at < stop and not markup.BYTE_CLASS[data[at]] & (markup.BYTE_SPACE | markup.BYTE_GREATER):
        at += 1
    return code, begin, at, at


@njit(nogil=True, cache=True, forceinline=True)
def _places(data: np.ndarray, at: int, stop: int) -> int:
    """Returns the sources that the words of an attribute name, as bits; words end with white space or a semicolon."""
    bits = 0
    stop = min(stop, at + _MAX_NAME_BYTES)
    # Each turn takes one word.
    while at < stop:
        code = markup.HASH_BASIS
        # The hash of the word, in lower case.
        while at < stop and markup.BYTE_CLASS[data[at]] != markup.BYTE_SPACE and data[at] != ascii.SEMICOLON:
            code = (code ^ markup.BYTE_LOWER[data[at]]) * markup.HASH_PRIME
            at += 1
        # There are few names.
        for name in range(_NAME_HASHES.size):
            if _NAME_HASHES[name] == code:
                bits |= _NAME_BITS[name]
        at += 1
    return bits


@njit(nogil=True, cache=True, forceinline=True)
def _is_blank(data: np.ndarray, at: int, stop: int) -> bool:
    while at < stop and data[at] <= ascii.SP:
        at += 1
    return at >= stop


@njit(nogil=True, cache=True, forceinline=True)
def _is_shallow(data: np.ndarray, at: int, stop: int) -> bool:
    """Whether JSON is nested little enough. After the first syntax error this may be wrong, but readers stop there."""
    depth = deepest = 0
    quoted = False
    # Count brackets outside of strings.
    while at < stop:
        byte = data[at]
        if byte == ascii.QUOTE:
            quoted = not quoted
        elif quoted:
            at += byte == ascii.BACKSLASH
        elif byte == ascii.LEFT_BRACKET or byte == ascii.LEFT_BRACE:
            depth += 1
            deepest = max(depth, deepest)
        elif byte == ascii.RIGHT_BRACKET or byte == ascii.RIGHT_BRACE:
            depth -= 1
        at += 1
    return deepest <= MAX_SCRIPT_DEPTH


@njit(nogil=True, cache=True, forceinline=True)
def _add(counts: np.ndarray, found: np.ndarray, page: int, place: int, begin: int, stop: int) -> None:
    """Adds a span; the last number of `counts` is the number of spans of all pages."""
    if begin < stop and counts[place] < _MOST[place]:
        counts[place] += 1
        row = counts[PLACES]
        found[row, 0], found[row, 1], found[row, 2], found[row, 3] = page, place, begin, stop
        counts[PLACES] = row + 1


@njit(nogil=True, cache=True, forceinline=True)
def _add_value(
    data: np.ndarray, counts: np.ndarray, found: np.ndarray, page: int, place: int, begin: int, stop: int
) -> None:
    if not _is_blank(data, begin, stop):
        _add(counts, found, page, place, begin, min(stop, begin + MAX_VALUE_BYTES))


@njit(nogil=True, cache=True)
def _read_page(
    data: np.ndarray, words: np.ndarray, at: int, stop: int, page: int, counts: np.ndarray, found: np.ndarray
) -> None:
    data, words, counts, found = borrow(data), borrow(words), borrow(counts), borrow(found)
    counts[:PLACES] = 0
    head, foreign, in_heading, has_heading = True, False, False, False
    # Each turn takes the text up to the next tag, and then the tag.
    while at < stop:
        begin = at
        at = seek(data, words, at, stop, 0x3C)
        if in_heading:
            _add(counts, found, page, HEADING_TEXT, begin, min(at, begin + MAX_VALUE_BYTES))
            has_heading |= not _is_blank(data, begin, at)
        sign = data[at + 1] if at + 1 < stop else 0
        closing = sign == ascii.SLASH
        letter = sign
        if closing:
            letter = data[at + 2] if at + 2 < stop else 0
        if (letter | 0x20) < 0x61 or (letter | 0x20) > 0x7A:
            is_declaration = sign == ascii.EXCLAMATION or sign == ascii.QUESTION or (closing and letter != 0)
            at = skip_declaration(data, words, at, stop, foreign) if is_declaration else at + 1
            continue
        at += 2 if closing else 1
        code = markup.HASH_BASIS
        # The hash of the tag's name, in lower case.
        while at < stop and not markup.BYTE_CLASS[data[at]] & (
            markup.BYTE_SPACE | markup.BYTE_SLASH | markup.BYTE_GREATER
        ):
            code = (code ^ markup.BYTE_LOWER[data[at]]) * markup.HASH_PRIME
            at += 1
        slot = markup.TAG_SLOTS[np.int64(code >> markup.TAG_SHIFT & np.uint64(4095))]
        kind: Any = np.int64(slot) if markup.TAG_HASHES[slot] == code else markup.KIND_OTHER
        wanted = _NO_NAME
        if not closing:
            if kind == _TAG_META:
                wanted = _HASH_CONTENT
            elif kind == _TAG_LINK:
                wanted = _HASH_HREF
            elif code == _HASH_TIME:
                wanted = _HASH_DATETIME
        reads = wanted != _NO_NAME or (kind == markup.TAG_SCRIPT and not closing)
        places, has_pubdate = 0, False
        value_from = value_to = -1
        # Note the value of the wanted attribute, and what the others name.
        while True:
            name, first, last, at = _attribute(data, words, at, stop)
            if name == _NO_NAME:
                break
            if reads:
                if name == wanted and value_from < 0:
                    value_from, value_to = first, last
                elif name in _NAMING:
                    places |= _places(data, first, last)
                has_pubdate |= name == _HASH_PUBDATE
            elif kind == markup.TAG_HTML and not closing:
                if name == _HASH_LANG:
                    _add_value(data, counts, found, page, LANG, first, last)
                elif name == _HASH_XML_LANG:
                    _add_value(data, counts, found, page, XML_LANG, first, last)
        if at >= stop:
            break  # a tag without an end is not a tag
        at += 1
        flags = markup.FLAGS[kind]
        if flags & markup.HEADING:
            in_heading = kind == _TAG_H1 and not closing and not has_heading
        if closing:
            foreign = foreign and not flags & markup.FOREIGN_ROOT
            continue
        if flags & markup.FOREIGN_ROOT:
            foreign = data[at - 2] != ascii.SLASH
        foreign = foreign and not flags & markup.NOT_SVG
        head = head and kind != markup.TAG_BODY
        if wanted == _HASH_DATETIME:
            if places & _IN_TIME or has_pubdate:
                _add_value(data, counts, found, page, BODY_DATE, value_from, value_to)
        elif wanted != _NO_NAME:
            places &= _IN_META if kind == _TAG_META else 1 << CANONICAL
            if not head:
                places = 1 << BODY_DATE if places >> DATE_PUBLISHED & 1 else 0
            if places:
                # A tag may name several facts.
                for place in range(PLACES):
                    if places >> place & 1:
                        _add_value(data, counts, found, page, place, value_from, value_to)
        elif flags & markup.RAW and not foreign:
            end, _ = skip_raw(data, words, at, stop, np.int64(code))
            if kind == _TAG_TITLE:
                _add_value(data, counts, found, page, TITLE, at, end)
            elif places >> JSON_LD & 1 and end - at <= MAX_SCRIPT_BYTES and _is_shallow(data, at, end):
                _add(counts, found, page, JSON_LD, at, end)
            at = end
        elif kind == markup.TAG_PLAINTEXT:
            break


@njit(nogil=True, cache=True)
def _find(data: np.ndarray, words: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    found = np.empty((_MOST_OF_A_PAGE + 8 * offsets.size, 4), np.int64)
    counts = np.zeros(PLACES + 1, np.int64)
    # Each page is read alone.
    for page in range(offsets.size - 1):
        if counts[PLACES] + _MOST_OF_A_PAGE > len(found):
            more = np.empty((2 * len(found), 4), np.int64)
            more[: len(found)] = found
            found = more
        _read_page(data, words, offsets[page], offsets[page + 1], page, counts, found)
    return found[: counts[PLACES]]


def find_facts(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Returns page, source, begin and end (int64) of the values by which the pages `data[offsets[i]:offsets[i + 1]]`
    describe themselves.

    They are in the order of the markup. A value is unchanged, with its character references; none is blank, except that
    HEADING_TEXT comes in parts, between the tags of a heading, and a part may be blank.
    """
    data, words = as_words(data)
    found: np.ndarray = _find(data, words, offsets.astype(np.int64))
    return found
