"""The text of templates in wikitext: units, dates, languages and similar. Others are left out."""

import functools
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("templates.toml").read_text())
_WRITTEN: dict[str, str] = {name: form for form, names in _TABLES["write"].items() for name in names}
_WRITTEN |= {name: f"{name.upper()} {{1}}" for name in _TABLES["ships"]["prefixes"].split()}
_COUNTRIES = frozenset(_TABLES["countries"]["codes"].split())
_UNITS: dict[str, str] = _TABLES["units"]
_PREFIXES: dict[str, str] = _TABLES["prefixes"]
DISAMBIGUATION: frozenset[str] = frozenset(_TABLES["disambiguation"]["names"])
REDIRECTS: frozenset[str] = frozenset(_TABLES["redirect"]["words"])
UNSHOWN: frozenset[str] = frozenset(_TABLES["unshown"]["names"])
CITATION = "\x02"
"""The first character of a citation, which is written in running text and left out of lists of references."""
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_ARGUMENT = re.compile(r"\{([\w/]+)\}")
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
    if head.strip() in _COUNTRIES:
        return head.strip()
    parts = rest.split("|") if bar else []
    name, colon, first = head.partition(":")
    name = name.strip().replace("_", " ").lower()
    if colon:  # {{formatnum:1234}}
        parts = [first, *parts]
    write = _writer(name)
    if write is None:
        return title if name in ("pagename", "fullpagename") else ""
    return write if isinstance(write, str) else write(arguments(parts))


@functools.lru_cache(maxsize=1 << 14)
def _writer(name: str) -> Callable[[Arguments], str] | str | None:
    """The text of a template, or what writes it."""
    form = _WRITTEN.get(name)
    if form is not None:
        return functools.partial(_formed, form) if "{" in form else form
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if _SHARE.fullmatch(name):  # {{1/3}}
        return name
    if century := _CENTURY.fullmatch(name):
        return f"{century[1].upper()}{century[2]} siècle"
    return next((write for pattern, write in _PATTERNS if pattern.fullmatch(name)), None)


def _formed(form: str, given: Arguments) -> str:
    """A form of templates.toml with its arguments."""

    def first(found: re.Match[str]) -> str:
        return next((given[name] for name in found[1].split("/") if given.get(name)), "")

    parts = _OPTIONAL.split(form)  # texts, and optional parts between them
    for at, part in enumerate(parts):
        is_written = at % 2 == 0 or any(map(first, _ARGUMENT.finditer(part)))
        parts[at] = _ARGUMENT.sub(first, part) if is_written else ""
    return "".join(parts)


def _convert(given: Arguments) -> str:
    """{{convert|5|to|10|mi|km}} is written as in its source: 5 to 10 mi."""
    text = given.get("1", "")
    at = 2
    while (mark := _RANGES.get(given.get(str(at), ""))) is not None and _NUMBER.fullmatch(given.get(str(at + 1), "")):
        text += mark + given[str(at + 1)]
        at += 2
    unit = given.get(str(at), "")
    following = given.get(str(at + 1), "")
    while _NUMBER.fullmatch(following) and given.get(str(at + 2)):  # {{convert|5|ft|6|in}}; {{convert|5|ft|0}} rounds
        text += f" {_UNITS.get(unit, unit)} {following}"
        unit, at = given.get(str(at + 2), ""), at + 2
        following = given.get(str(at + 1), "")
    if prefix := _POWER.match(unit):  # {{convert|5|e6km2}}
        text, unit = f"{text} {_PREFIXES[prefix[0]]}", unit[prefix.end() :]
    return f"{text} {_UNITS.get(unit, unit)}".rstrip()


def _date(given: Arguments) -> str:
    """Day, month and year of {{birth date|1879|3|14}}; a date in words is kept."""
    year, month, day = (given.get(n, "") for n in "123")
    if not year.isdecimal() or (not month.isdecimal() and day.isdecimal()):  # in words, or {{date|3|mars|2001}}
        return " ".join(one for one in (year, month, day) if one) if year.isdecimal() else year
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
    error, lower, power = (given.get(name, "") for name in ("2", "3", "e"))
    unit, below = (given.get(name, "") or given.get(f"{name}l", "") for name in ("u", "up"))
    text = given.get("p", "") + given.get("1", "")
    if error[:1] == "(":
        text += error
    elif error:
        text += f" +{error.lstrip('±+')} −{lower.lstrip('-−')}" if lower else f" ± {error.lstrip('±+')}"
    unit = f"{unit}/{below}" if below else unit
    return text + (f"×10^{{{power}}}" if power else "") + given.get("s", "") + (f" {unit}" if unit else "")


def _chemical(given: Arguments) -> str:
    """{{chem|H|2|O}} and {{chem2|H2O}}: numbers after letters are indices."""
    parts = [given[str(n)] for n in range(1, len(given) + 1) if given.get(str(n))]
    return _INDEX.sub(r"_{\g<0>}", "".join(parts))


def _nihongo(given: Arguments) -> str:
    inner = ", ".join(given[n] for n in "23" if given.get(n))
    return f"{given.get('1', '')} ({inner})" if inner else given.get("1", "")


def _listed(mark: str) -> Callable[[Arguments], str]:
    return lambda given: mark.join(value for name, value in given.items() if name.isdigit() and value)


def _bulleted(given: Arguments) -> str:
    return "".join(f"\n* {value}" for name, value in given.items() if name.isdigit() and value) + "\n"


def _values(given: Arguments) -> list[str]:
    """The arguments without names, in order."""
    return [value for name, value in given.items() if name.isdigit() and value]


def _sounds(given: Arguments) -> str:
    """{{IPA|/x/}}, {{IPA|fr|x}}, {{IPA-fr|x|pron}}: in brackets, unless it has its own."""
    first, second = given.get("1", ""), given.get("2", "")
    text = second if second and _LANGUAGE_CODE.fullmatch(first) else first
    return text if not text or text[0] in "[/⟨" else f"[{text}]"


def _chinese(given: Arguments) -> str:
    """{{zh|s=...|t=...|p=...}}"""
    names = (("c", "Chinese"), ("s", "simplified Chinese"), ("t", "traditional Chinese"), ("p", "pinyin"))
    return "; ".join(f"{label}: {given[name]}" for name, label in names if given.get(name))


def _coordinates(given: Arguments) -> str:
    """{{coord|51|30|N|0|7|W}} and {{coord|12.5|-3.2}}; "" if they are only shown in the title."""
    if given.get("display", "inline") in ("title", "t"):
        return ""
    numbers: list[str] = []
    halves: list[str] = []
    for value in _values(given):
        if value in _DIRECTIONS and numbers:
            halves.append("".join(number + mark for number, mark in zip(numbers, "°′″", strict=False)) + value)
            numbers = []
        elif not _NUMBER.fullmatch(value):
            break
        else:
            numbers.append(value)
    return " ".join(halves) if halves else ", ".join(numbers[:2])


def _duration(given: Arguments) -> str:
    parts = [given.get(name, "") or given.get(place, "") for name, place in zip("hms", "123", strict=True)]
    return ":".join(one.zfill(2) if at else one for at, one in enumerate(parts[not parts[0] :]))


def _height(given: Arguments) -> str:
    units = (("m", "m"), ("cm", "cm"), ("ft", "ft"), ("in", "in"))
    return " ".join(f"{given[name]} {unit}" for name, unit in units if given.get(name))


def _reference(given: Arguments) -> str:
    """{{harvtxt|Smith|Jones|1990}}: Smith and Jones (1990)"""
    *authors, year = _values(given) or [""]
    return f"{' and '.join(authors)} ({year})" if authors else year


def _citation(given: Arguments) -> str:
    """{{cite book|last=Smith|first=Ann|year=1999|title=Mills}}: Ann Smith, "Mills" (1999)"""
    last = next((given[name] for name in ("last", "last1", "author", "author1", "surname") if given.get(name)), "")
    author = f"{given.get('first') or given.get('first1') or ''} {last}".strip()
    title, year = given.get("title", ""), _YEAR.search(given.get("year") or given.get("date") or "")
    text = f'{author}, "{title}"' if author and title else f'"{title}"' if title else author
    return CITATION + text + (f" ({year[0]})" if year else "") if text else ""


_POWER = re.compile("|".join(sorted(_PREFIXES, key=len, reverse=True)) + r"(?=[A-Za-z])")
_INDEX = re.compile(r"(?<=[A-Za-z)\]])\d+")
_SHARE = re.compile(r"\d{1,3}/\d{1,3}")
_YEAR = re.compile(r"\b\d{4}\b")
_CENTURY = re.compile(r"([ivx]{1,5})(e|er) siècle")
_LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z]{2,8})*")
_REMARKS = frozenset(
    ["lang", "pron", "audio", "us", "uk", "also", "local", "icon", "respell", "US", "UK", "US:", "UK:"]
)
_DIRECTIONS = frozenset("NSEWO")
_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[Arguments], str]], ...] = (
    (re.compile(r"lang-[a-z-]{2,12}"), lambda given: given.get("1", "")),
    (re.compile(r"(?:birth|death|start|end|film|release)[ -]?date.*|dts|date|birth-date|death-date|bda|dob"), _date),
    (re.compile(r"script/[a-z ]{2,30}"), lambda given: given.get("1", "")),
    (re.compile(r"ipa-[a-z-]{2,12}"), _sounds),
    (re.compile(r"cite .*|citation|vcite .*|cite"), _citation),
)
_FUNCTIONS: dict[str, Callable[[Arguments], str]] = {
    **dict.fromkeys(("convert", "cvt", "convert/spell"), _convert),
    **dict.fromkeys(("as of", "asof"), _as_of),
    **dict.fromkeys(("frac", "sfrac", "fraction", "fract"), _fraction),
    **dict.fromkeys(("chem", "chem2", "chemical formula"), _chemical),
    **dict.fromkeys(("hlist", "flatlist2", "hlist2"), _listed(" · ")),
    **dict.fromkeys(("bar percent", "bartable", "linktext", "bar pixel"), lambda given: " ".join(_values(given)[:2])),
    **dict.fromkeys(("ubl", "unbulleted list", "bulleted list", "vunblist", "ublist", "ordered list"), _bulleted),
    **dict.fromkeys(("collapsible list", "columns"), _bulleted),
    **dict.fromkeys(("harvtxt", "harvcoltxt", "harvcol"), _reference),
    **dict.fromkeys(("coord", "coor", "coordinates"), _coordinates),
    **dict.fromkeys(("ipablink", "ipa blink", "phon", "phonetik"), _sounds),
    **dict.fromkeys(("respell", "pronunciation respelling"), lambda given: "-".join(_values(given))),
    "music": lambda given: {"flat": "♭", "sharp": "♯", "natural": "♮"}.get(given.get("1", ""), given.get("1", "")),
    "ipac-en": lambda given: f"/{''.join(one for one in _values(given) if one not in _REMARKS).replace('_', ' ')}/",
    "korean": lambda given: ", ".join(given[name] for name in ("hangul", "hanja", "rr", "mr") if given.get(name)),
    "zh": _chinese,
    "duration": _duration,
    "height": _height,
    "gaps": _listed(""),
    "ipa": lambda given: _sounds(given) if given.get("2") else given.get("1", ""),
    "nihongo": _nihongo,
    "val": _value,
}
