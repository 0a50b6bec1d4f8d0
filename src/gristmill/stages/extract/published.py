"""Parses dates as pages write them and returns them in ISO 8601."""

import re
from datetime import UTC, date, datetime, timedelta, timezone

FIRST_YEAR, LAST_YEAR = 1990, 2100
MAX_CHARS = 64

_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_MONTH = r"(?P<month>[a-z]{3,9})\.?"
_YEAR = r"(?P<year>\d{4})(?!\d)"
_WEEKDAY = r"(?:[a-z]{3,9}\.?,?\s+)?"
_TIME = (
    r"(?P<hour>\d{1,2}):?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,]\d+)?)?"
    r"(?:\s*(?P<half>[ap])\.?m\b\.?)?(?:\s*(?P<zone>[a-z]+|[+-]\d\d(?::?\d\d)?))?"
)
_FORMS = [
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        r"(?P<year>\d{4})(?P<sign>[-/.])(?P<month>\d{1,2})(?P=sign)(?P<day>\d{1,2})(?!\d)",
        r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?!\d)",
        rf"{_WEEKDAY}{_DAY}[\s-]+{_MONTH},?[\s-]+{_YEAR}",
        rf"{_WEEKDAY}{_MONTH}\s+{_DAY},?\s+{_YEAR}",
        rf"{_WEEKDAY}{_MONTH}\s+{_DAY}\s+{_TIME}\s+{_YEAR}",
        rf"(?P<first>\d{{1,2}})(?P<sign>[-/.])(?P<second_number>\d{{1,2}})(?P=sign){_YEAR}",
    )
]
_TIME_AFTER = re.compile(rf"(?:T|,?\s+(?:at\s+)?){_TIME}(?![\d:])", re.IGNORECASE | re.ASCII)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_HOURS = {"z": 0, "utc": 0, "gmt": 0, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8}
_HOURS["pdt"] = -7
"""Zones with a name in RFC 822. A time in any other zone is returned without an offset."""


def published(text: str) -> str | None:
    """`2012-03-04`, or `2012-03-04T10:20:00+01:00` if a time and an offset are given; or None.

    None for dates that no calendar has, that are older than the web or far in the future, or that are ambiguous:
    03/04/2012.
    """
    text = text.strip()[:MAX_CHARS]
    for form in _FORMS:
        if found := form.match(text):
            parts = found.groupdict()
            day = _day(parts)
            if day is None:
                return None
            if "hour" not in parts and (after := _TIME_AFTER.match(text, found.end())):
                parts |= after.groupdict()
            return _with_time(day, parts) if parts.get("hour") else day.isoformat()
    return None


def _day(parts: dict[str, str | None]) -> date | None:
    year, month, day = (parts.get(name) for name in ("year", "month", "day"))
    if "first" in parts:
        first, second = int(parts["first"] or 0), int(parts["second_number"] or 0)
        if parts["sign"] != "." and first != second and first <= 12 and second <= 12:
            return None
        day, month = (str(first), str(second)) if parts["sign"] == "." or second <= 12 else (str(second), str(first))
    number = _month(month or "")
    try:
        parsed = date(int(year or 0), number, int(day or 0))
    except ValueError:
        return None
    return parsed if FIRST_YEAR <= parsed.year <= LAST_YEAR else None


def _month(written: str) -> int:
    if written.isdigit():
        return int(written)
    return _MONTHS.index(written[:3].lower()) + 1 if written[:3].lower() in _MONTHS else 0


def _with_time(day: date, parts: dict[str, str | None]) -> str:
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    if parts["half"] and 1 <= hour <= 12:
        hour = hour % 12 + 12 * (parts["half"].lower() == "p")
    try:
        moment = datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=_zone(parts["zone"] or ""))
    except ValueError:
        return day.isoformat()
    return moment.isoformat()


def _zone(written: str) -> timezone | None:
    if written[:1] in "+-" and written:
        sign, digits = -1 if written[0] == "-" else 1, written[1:].replace(":", "")
        away = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
        return timezone(sign * away) if away <= timedelta(hours=14) else None
    hours = _HOURS.get(written.lower())
    return None if hours is None else timezone(timedelta(hours=hours)) if hours else UTC
