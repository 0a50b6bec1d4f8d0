"""Reads the metadata of a page: title, author, date of publication, language, URL and site. Nothing is verified.

A compiled scan (kernels/html/facts.py) finds the values. For each column the first readable value is used, in the order
of `SOURCES`. JSON-LD is only parsed if it is reached.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from html import unescape
from html.entities import html5
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from gristmill.kernels.html import facts as places
from gristmill.kernels.text.unicode_data import known
from gristmill.stages.extract.json_ld import read_scripts
from gristmill.stages.extract.published import published
from gristmill.stages.shared.normalise import normalise

MAX_TITLE_CHARS = 300
MAX_NAME_CHARS = 200
MAX_URL_CHARS = 2_000
MAX_LANGUAGE_CHARS = 100
"""Characters of a list of languages; only its first entry is used."""

_META_TITLES = (places.OG_TITLE, places.TWITTER_TITLE, places.DC_TITLE)
_META_AUTHORS = (places.AUTHOR, places.ARTICLE_AUTHOR, places.DC_CREATOR, places.PARSELY_AUTHOR, places.SAILTHRU_AUTHOR)
SOURCES = {
    "title": (places.TITLE, *_META_TITLES, places.JSON_LD, places.HEADING_TEXT),
    "author": (*_META_AUTHORS, places.JSON_LD),
    "date": (places.PUBLISHED_TIME, places.DATE_PUBLISHED, places.JSON_LD, places.OTHER_DATE, places.BODY_DATE),
    "language": (places.LANG, places.XML_LANG, places.CONTENT_LANGUAGE, places.OG_LOCALE),
    "canonical_url": (places.CANONICAL, places.OG_URL),
    "site": (places.SITE_NAME, places.JSON_LD, places.APPLICATION_NAME),
}
"""The columns and their sources, the most trusted one first."""
SCHEMA = pa.schema([(name, pa.string()) for name in SOURCES])


def facts(data: np.ndarray, offsets: np.ndarray) -> pa.RecordBatch:
    """A row of SCHEMA for each page, `data[offsets[i]:offsets[i + 1]]` (UTF-8); null for values that it lacks."""
    columns: dict[str, list[str | None]] = {name: [None] * (len(offsets) - 1) for name in SOURCES}
    view = np.ascontiguousarray(data, np.uint8).data
    for page, rows in groupby(places.find_facts(data, offsets).tolist(), itemgetter(0)):
        markup: dict[int, list[bytes]] = {}
        for _, place, begin, end in rows:
            markup.setdefault(place, []).append(bytes(view[begin:end]))
        linked = None
        for column, sources in SOURCES.items():
            for place in sources:
                if place not in markup:
                    continue
                if place == places.JSON_LD:
                    linked = linked or read_scripts(markup[place])
                    values = list(map(_characters, linked[column]))
                else:
                    values = _values(markup[place], place)
                if value_found := _READ[column](values):
                    columns[column][page] = value_found
                    break
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def _values(markup: list[bytes], place: int) -> list[str]:
    """The values of one source of a page, with character references decoded."""
    if place == places.HEADING_TEXT:
        markup = [b"".join(markup)]
    texts = (one.decode("utf-8", "ignore") for one in markup)
    if place in (places.TITLE, places.HEADING_TEXT):
        return list(map(_characters, texts))
    values = [_characters(_NAME.sub(_escape_unknown, text)) if "&" in text else text for text in texts]
    if place == places.BODY_DATE and len({(published(value) or "")[:10] for value in values}) > 1:
        return []  # comments and other articles have dates, too, and nothing shows which one is the page's
    return values


_NUMBER = re.compile(r"&#0*(\d{8})\d*")
_NAME = re.compile(r"&([A-Za-z][A-Za-z0-9]*)(;?)(=?)")


def _characters(text: str) -> str:
    """Decodes character references. Eight digits are beyond Unicode, and Python rejects numbers of 4,300 digits."""
    return unescape(_NUMBER.sub(r"&#\1", text)) if "&" in text else text


def _escape_unknown(found: re.Match[str]) -> str:
    """In an attribute, `&copy=1` and `&notify` are not references, since URLs have always been written that way."""
    name, semicolon, equals = found.groups()
    known = name + semicolon in html5 and (semicolon or not equals)
    return found[0] if known else "&amp;" + found[0][1:]


def one_line(text: str | None, max_chars: int = MAX_TITLE_CHARS) -> str:
    """A normalised text without line ends and runs of white space."""
    text = " ".join((text or "").split())
    # Normalising removes only one printable character.
    if not (text.isprintable() and "\ufffc" not in text and unicodedata.is_normalized("NFC", text)):
        text = " ".join(normalise(text).split())
    return text[:max_chars].rstrip()


_TAG = re.compile(r"(?!utf)[a-z]{2,3}(-[a-z0-9]{1,8}){0,4}")


@lru_cache(4096)
def language_tag(stated: str | None) -> str | None:
    """The first language tag of a list, in lower case ("en_US, fr" is "en-us"), or None."""
    first = re.split("[,;]", stated or "", maxsplit=1)[0].strip().lower().replace("_", "-")
    return first if _TAG.fullmatch(first) else None


def _title(values: list[str]) -> str | None:
    return next(filter(None, map(one_line, values)), None)


_BY = re.compile(r"by:?\s+", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:https?:)?//|www\.|@", re.IGNORECASE)
"""The start of values that are not names: URLs and accounts."""


def _site(values: list[str]) -> str | None:
    names = (one_line(value, MAX_NAME_CHARS) for value in values)
    return next((name for name in names if name and not _ADDRESS.match(name)), None)


def _author(values: list[str]) -> str | None:
    """Joins as many names as fit, each once."""
    value_found = ""
    for value in values:
        name = one_line(value, MAX_NAME_CHARS)
        if by := _BY.match(name):
            name = name[by.end() :]
        joined = f"{value_found}; {name}" if value_found else name
        if name and not _ADDRESS.match(name) and name not in value_found.split("; ") and len(joined) <= MAX_NAME_CHARS:
            value_found = joined
    return value_found or None


def _date(values: list[str]) -> str | None:
    return next(filter(None, map(published, values)), None)


def _language(values: list[str]) -> str | None:
    return next(filter(None, (language_tag(value[:MAX_LANGUAGE_CHARS]) for value in values)), None)


_URL = re.compile(r"https?://[^\s/?#]", re.IGNORECASE)


def _url(values: list[str]) -> str | None:
    for value in values:
        url = value.strip()
        if len(url) <= MAX_URL_CHARS and _URL.match(url) and known(url).isprintable() and " " not in url:
            return url
    return None


_READ: dict[str, Callable[[list[str]], str | None]] = {
    "title": _title,
    "author": _author,
    "date": _date,
    "language": _language,
    "canonical_url": _url,
    "site": _site,
}
