"""Formats numbers and values for people: `1 document`, `1,234 documents`, `12.5%`."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

MOST_DIGITS = 12


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun, and with the verb if needed: `counted(n, "file is", "files are")`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def percent(part: float, whole: float, digits: int = 1) -> str:
    """A share with this many decimals, or more if it would otherwise round to 0% or 100%."""
    if not whole:
        return ""
    shown = f"{part / whole:.{digits}%}"
    rounded_off = float(shown[:-1]) in (0, 100, -100) and abs(part) not in (0, abs(whole))
    return percent(part, whole, digits + 1) if rounded_off and digits < MOST_DIGITS else shown


def size(count: float) -> str:
    """`12.3 MB`, in powers of a thousand."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 360_000 else f"{seconds / 3600:,.0f} h"


def number(value: float, digits: int = 4) -> str:
    """`0.25`, `11,538`, `0.000025`: so many digits, or all before the point; never an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{Decimal(f'{value:.{digits}g}'):f}"


def value_text(value: object) -> str:
    """A short text for a value of a column or a setting: bytes are hexadecimal, a list is its items."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {value_text(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(value_text, value)) or "none"
    return str(value)
