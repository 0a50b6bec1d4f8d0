"""Parses dates of inputs to microseconds since 1970 in UTC.

Accepted: ISO 8601 in its common forms (`2013`, `2013-05`, `2013-05-18`, `20130518`, with a time after `T` or a space, a
fraction, `Z`, `UTC` or an offset), crawl stamps (`20130518055400`), mail dates (`Sat, 18 May 2013 05:54:00 GMT`), and
seconds, milliseconds, microseconds or nanoseconds since 1970, distinguished by size. Without a zone, the time is UTC.
"""

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND

_ISO = re.compile(
    # A time needs a whole date before it: 1312011230 is a number of seconds.
    r"(\d{4})(?:-(\d\d))?|(\d{4})(?:-(\d\d)-(\d\d)|(\d\d)(\d\d))"
    r"(?:[Tt ]?(\d\d):?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?"
    r" ?(?:[Zz]|UTC|GMT|([+-])(\d\d):?(\d\d)?)?)?",
    re.ASCII,
)
_NUMBER = re.compile(r"-?\d{9,19}(?:\.\d+)?", re.ASCII)
_LONGEST_CHARACTERS = 64


def microseconds(value: Any) -> int | None:
    """The date in microseconds, or None if it is not a date."""
    if isinstance(value, str):
        value = value.strip()
        if len(value) > _LONGEST_CHARACTERS:
            return None
        if (found := _iso(value)) is not None:
            return found
        if _NUMBER.fullmatch(value):
            return _epoch(float(value) if "." in value else int(value))
        return _mail(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        # 2013 and 20130518 as numbers are dates: nothing was crawled in the first hours, or the August, of 1970.
        found = _iso(str(value)) if 1000 <= value < 10**14 else None
        return _epoch(value) if found is None else found
    if isinstance(value, float):
        return _epoch(value)
    if isinstance(value, datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (datetime(value.year, value.month, value.day, tzinfo=UTC) - _EPOCH) // _MICROSECOND
    return None


def _iso(value: str) -> int | None:
    if len(value) == 20 and value[10] == "T" and value[19] == "Z":  # as web archives have it, in a third of the time
        with suppress(ValueError):
            return (datetime.fromisoformat(value) - _EPOCH) // _MICROSECOND
    found = _ISO.fullmatch(value)
    if found is None:
        return None
    bare_year, bare_month, year, *days, hour, minute, second, fraction, sign, off_hours, off_minutes = found.groups()
    month, day = (days[0], days[1]) if days[0] else (days[2], days[3])
    try:
        # A leap second becomes the second before it, as in POSIX time.
        moment = datetime(
            int(year or bare_year),
            int(month or bare_month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            59 if second == "60" else int(second or 0),
            int((fraction or "0")[:6].ljust(6, "0")),
            tzinfo=UTC,
        )
    except ValueError:
        return None
    offset_us = (int(off_hours or 0) * 60 + int(off_minutes or 0)) * 60_000_000
    found_us = (moment - _EPOCH) // _MICROSECOND - (-offset_us if sign == "-" else offset_us)
    return found_us if _FIRST_US <= found_us <= _LAST_US else None


def _epoch(value: int | float) -> int | None:
    """Seconds up to the year 5138; larger numbers are milliseconds, and so on by thousands."""
    if not isfinite(value):
        return None
    size = abs(value)
    if size < 1e11:
        found = round(value * 1_000_000)
    elif size < 1e14:
        found = round(value * 1000)
    elif size < 1e17:
        found = round(value)
    else:
        found = round(value // 1000)
    return found if _FIRST_US <= found <= _LAST_US else None


def _mail(value: str) -> int | None:
    try:
        moment = parsedate_to_datetime(value)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
