"""The text of templates in wikitext: units, dates, languages and similar. Others are left out."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("templates.toml").read_text())
_WRITTEN: dict[str, str] = {name: form for form, names in _TABLES["write"].items() for name in names}
_UNITS: dict[str, str] = _TABLES["units"]
DISAMBIGUATION: frozenset[str] = frozenset(_TABLES["disambiguation"]["names"])
_ARGUMENT = re.compile(r"\{(\w+)\}")
_NAMED = re.compile(r"\s*+([\w\-]++(?: ++[\w\-]++)*+)\s*+=(?!=)")
LONGEST_NAME = 40
_MONTHS = re.findall(r"\w+", "January February March April May June July August September October November December")
_RANGES = {
    **dict.fromkeys(("-", "–"), "–"),
    **dict.fromkeys(("x", "×", "*", "xx"), " × "),
    **dict.fromkeys(("+/-", "±"), " ± "),
    **{word: f" {word.removesuffix('(-)')} " for word in ("to", "to(-)", "and", "and(-)", "or", "by", "+")},
}
_NUMBER = re.compile(r"[-+−–]?[.,/⁄½¼¾ ]*+\d[\d.,/⁄½¼¾ e+-]*+")
_LANGUAGE = re.compile(r"lang-[a-z-]{2,12}")
_DATES = re.compile(r"(?:birth|death|start|end|film|release)[ -]?date.*|dts|date|birth-date|death-date|bda|dob")

Arguments = dict[str, str]


def arguments(parts: list[str]) -> Arguments:
    """{"1": first argument, "name": named argument}."""
    found: Arguments = {}
    number = 0
    for part in parts:
        named = _NAMED.match(part)
        if named and len(named[1]) <= LONGEST_NAME:
            found[named[1]] = part[named.end() :].strip()
        else:
            number += 1
            found[str(number)] = part.strip()
    return found


def template_text(content: str, title: str) -> str:
    """What is written for a template: "" for those that carry no text. `content` is rendered, without the braces."""
    head, bar, rest = content.partition("|")
    parts = rest.split("|") if bar else []
    name, colon, first = head.partition(":")
    name = name.strip().replace("_", " ").lower()
    if colon:  # {{formatnum:1234}}
        parts = [first, *parts]
    form = _WRITTEN.get(name)
    if form is not None:
        if "{" not in form:
            return form
        given = arguments(parts)
        return _ARGUMENT.sub(lambda found: given.get(found[1], ""), form)
    if (write := _FUNCTIONS.get(name)) is not None:
        return write(arguments(parts))
    if _LANGUAGE.fullmatch(name):
        return arguments(parts).get("1", "")
    if _DATES.fullmatch(name):
        return _date(arguments(parts))
    return title if name in ("pagename", "fullpagename") else ""


def _convert(given: Arguments) -> str:
    """{{convert|5|to|10|mi|km}} is written as in its source: 5 to 10 mi."""
    text = given.get("1", "")
    at = 2
    while (mark := _RANGES.get(given.get(str(at), ""))) is not None and _NUMBER.fullmatch(given.get(str(at + 1), "")):
        text += mark + given[str(at + 1)]
        at += 2
    unit = given.get(str(at), "")
    following = given.get(str(at + 1), "")
    while _NUMBER.fullmatch(following):  # {{convert|5|ft|6|in}}
        text += f" {_UNITS.get(unit, unit)} {following}"
        unit, at = given.get(str(at + 2), ""), at + 2
        following = given.get(str(at + 1), "")
    return f"{text} {_UNITS.get(unit, unit)}".rstrip()


def _date(given: Arguments) -> str:
    """Day, month and year of {{birth date|1879|3|14}}; a date in words is kept."""
    year, month, day = (given.get(n, "") for n in "123")
    if not (year.isdecimal() and len(year) <= 4):
        return year
    if not month.isdecimal():
        return " ".join(one for one in (day, month, year) if one)
    name = _MONTHS[int(month[:2]) - 1] if 0 < int(month[:2]) <= 12 else month
    return " ".join(one for one in (day, name, year) if one)


def _as_of(given: Arguments) -> str:
    word = "since" if given.get("since") else "as of"
    return given.get("alt") or f"{word if given.get('lc') else word.capitalize()} {_date(given)}"


def _fraction(given: Arguments) -> str:
    whole, upper, lower = given.get("1", ""), given.get("2", ""), given.get("3", "")
    if lower:
        return f"{whole} {upper}/{lower}"
    return f"{whole}/{upper}" if upper else f"1/{whole}"


def _value(given: Arguments) -> str:
    """{{val|1.23|0.02|e=6|u=m/s}}"""
    error, power, unit = given.get("2", ""), given.get("e", ""), given.get("u", "") or given.get("ul", "")
    text = given.get("1", "") + (f" ± {error.lstrip('±+')}" if error else "")
    return text + (f"×10^{{{power}}}" if power else "") + (f" {unit}" if unit else "")


def _chemical(given: Arguments) -> str:
    """{{chem|H|2|O}}: numbers after letters are indices."""
    parts = [given[str(n)] for n in range(1, len(given) + 1) if given.get(str(n))]
    return "".join(f"_{{{part}}}" if part[:1].isdigit() else part for part in parts)


def _nihongo(given: Arguments) -> str:
    inner = ", ".join(given[n] for n in "23" if given.get(n))
    return f"{given.get('1', '')} ({inner})" if inner else given.get("1", "")


def _listed(mark: str) -> Callable[[Arguments], str]:
    return lambda given: mark.join(value for name, value in given.items() if name.isdigit() and value)


def _bulleted(given: Arguments) -> str:
    return "".join(f"\n* {value}" for name, value in given.items() if name.isdigit() and value) + "\n"


_FUNCTIONS: dict[str, Callable[[Arguments], str]] = {
    **dict.fromkeys(("convert", "cvt", "convert/spell"), _convert),
    **dict.fromkeys(("as of", "asof"), _as_of),
    **dict.fromkeys(("frac", "sfrac", "fraction", "fract"), _fraction),
    **dict.fromkeys(("chem", "chem2", "chemical formula"), _chemical),
    **dict.fromkeys(("hlist", "flatlist2", "hlist2"), _listed(" · ")),
    **dict.fromkeys(("ubl", "unbulleted list", "plain list", "bulleted list", "vunblist", "ublist"), _bulleted),
    "gaps": _listed(""),
    "nihongo": _nihongo,
    "val": _value,
}
