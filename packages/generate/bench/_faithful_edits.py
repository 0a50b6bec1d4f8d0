"""Edits of real texts by rules: faithful ones, and ones with a planted change. It shares no code with the checks."""

import random
import re
from collections.abc import Callable, Sequence

Edit = Callable[[str, random.Random, Sequence[str]], str | None]
"""Returns the edited text; None if the text has nothing to edit. The third argument is names of other texts."""

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_MONTH = "|".join(MONTHS)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_NUMBER = re.compile(r"(?<![\w.,/-])\d+(?:[.,]\d+)*(?![\w/-])")
_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,]|\.\d)")
_PLAIN = re.compile(r"(?<![\w.,/:-])[1-9]\d{4,8}(?![\w,/:-]|\.\d)")
_MDY = re.compile(rf"\b({_MONTH}) (\d{{1,2}}), (\d{{4}})\b")
_DMY = re.compile(rf"\b(\d{{1,2}}) ({_MONTH}) (\d{{4}})\b")
_YMD = re.compile(r"(?<![\w-])(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?![\w-])")
_MONTHLY = re.compile(rf"\b({_MONTH}) ((?:19|20)\d{{2}})\b")
_DAILY = re.compile(rf"\b({_MONTH}) (\d{{1,2}})\b(?![,:]? ?\d)")
UNITS = [
    ("km", "miles", "metres"),
    ("kilometers", "miles"),
    ("kilometres", "miles"),
    ("miles", "kilometres", "feet"),
    ("meters", "feet"),
    ("metres", "feet"),
    ("feet", "metres", "inches"),
    ("inches", "feet", "cm"),
    ("cm", "mm", "inches"),
    ("mm", "cm"),
    ("kg", "g", "pounds"),
    ("pounds", "tons", "kg"),
    ("tons", "pounds"),
    ("grams", "kilograms"),
    ("KB", "MB"),
    ("MB", "GB", "KB"),
    ("GB", "MB", "TB"),
    ("TB", "GB"),
    ("bytes", "bits", "megabytes"),
    ("bits", "bytes"),
    ("seconds", "minutes", "hours"),
    ("second", "minute"),
    ("minutes", "hours", "seconds"),
    ("minute", "hour"),
    ("hours", "minutes", "days"),
    ("hour", "minute"),
    ("days", "weeks", "hours"),
    ("day", "week"),
    ("weeks", "months", "days"),
    ("week", "month"),
    ("months", "years", "weeks"),
    ("month", "year"),
    ("years", "months", "days"),
    ("year", "month"),
    ("ms", "seconds"),
    ("milliseconds", "seconds"),
    ("percent", "million"),
    ("%", " km", " dollars"),
    ("dollars", "euros"),
    ("pixels", "inches"),
    ("px", "em"),
    ("degrees", "percent"),
    ("MHz", "GHz"),
    ("GHz", "MHz"),
    ("Hz", "kHz"),
    ("litres", "gallons"),
    ("liters", "gallons"),
    ("gallons", "litres"),
    ("acres", "hectares"),
    ("mph", "km/h"),
]
_OTHER_UNITS = {first: others for first, *others in UNITS}
_UNIT = re.compile(rf"(?<![\w.,$])(\d+(?:[.,]\d+)*)( ?)({'|'.join(map(re.escape, _OTHER_UNITS))})(?!\w)")
_QUOTED = re.compile(r'(?:(?<=\s)|^)["“]([^"“”\n]{15,200})["”]')
_INNER_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*")
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|can|will|should|does|do|did|has|have|had|must|could|would)\b(?! (?:not|n't|no))"
)
_NEGATED = re.compile(r"\b(is|are|was|were|can|will|should|does|do|did|has|have|had|must|could|would) not\b|\bcannot\b")
_LONG = {"km": "kilometres", "kg": "kilograms", "cm": "centimetres", "mm": "millimetres", "ms": "milliseconds"}
_LONG |= {"KB": "kilobytes", "MB": "megabytes", "GB": "gigabytes", "%": " percent", "px": "pixels"}


def names_in(text: str) -> list[str]:
    """Capitalised words within sentences."""
    return [word for found in _INNER_NAME.findall(text) for word in found.split()]


def _replace_one(
    text: str, found: Sequence[re.Match[str]], rng: random.Random, new: Callable[[re.Match[str]], str]
) -> str:
    match = rng.choice(found)
    return text[: match.start()] + new(match) + text[match.end() :]


def plant_digit(text: str, rng: random.Random, names: Sequence[str]) -> str | None:
    """One digit of one number is another one."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return None

    def change(match: re.Match[str]) -> str:
        digits = [at for at, one in enumerate(match[0]) if one.isdigit()]
        at = rng.choice(digits)
        least = 1 if at == 0 and len(digits) > 1 else 0
        return match[0][:at] + rng.choice([d for d in "0123456789"[least:] if d != match[0][at]]) + match[0][at + 1 :]

    return _replace_one(text, found, rng, change)


def plant_date(text: str, rng: random.Random, names: Sequence[str]) -> str | None:
    """The day, month or year of one date is another one."""
    found = [match for pattern in (_MDY, _DMY, _YMD, _MONTHLY) for match in pattern.finditer(text)]
    if not found:
        return None

    def change(match: re.Match[str]) -> str:
        place = rng.randrange(len(match.groups())) + 1
        old = match[place]
        if old in MONTHS:
            new = rng.choice([month for month in MONTHS if month != old])
        elif len(old) == 4:
            new = str(int(old) + rng.choice((-9, -3, -2, -1, 1, 2, 4, 10)))
        else:
            most = 12 if match.re is _YMD and place == 2 else 28
            new = rng.choice([f"{day:0{len(old)}}" for day in range(1, most + 1) if day != int(old)])
        start, stop = (at - match.start() for at in match.span(place))
        return match[0][:start] + new + match[0][stop:]

    return _replace_one(text, found, rng, change)


def plant_name(text: str, rng: random.Random, names: Sequence[str]) -> str | None:
    """One word of a name is a name of another text."""
    found = list(_INNER_NAME.finditer(text))
    known = set(text.lower().split())
    others = [name for name in rng.sample(names, min(60, len(names))) if name.lower() not in text.lower()]
    if not found or not others or not known:
        return None

    def change(match: re.Match[str]) -> str:
        words = match[0].split()
        words[rng.randrange(len(words))] = rng.choice(others)
        return " ".join(words)

    return _replace_one(text, found, rng, change)


def plant_unit(text: str, rng: random.Random, names: Sequence[str]) -> str | None:
    """One quantity has another unit."""
    found = list(_UNIT.finditer(text))
    if not found:
        return None
    return _replace_one(text, found, rng, lambda match: match[1] + match[2] + rng.choice(_OTHER_UNITS[match[3]]))


def plant_quotation(text: str, rng: random.Random, names: Sequence[str]) -> str | None:
    """One word of a quotation is a word from elsewhere in the text."""
    found = [match for match in _QUOTED.finditer(text) if len(match[1].split()) >= 4]
    words = re.findall(r"[a-z]{4,}", text)
    if not found or len(set(words)) < 5:
        return None

    def change(match: re.Match[str]) -> str:
        quoted = match[1].split()
        places = [place for place, word in enumerate(quoted) if re.fullmatch("[A-Za-z]{3,}[,.]?", word)]
        place = rng.choice(places or [0])
        quoted[place] = rng.choice([word for word in words if word != quoted[place].lower().strip(",.")] or ["other"])
        start, stop = (at - match.start() for at in match.span(1))
        return match[0][:start] + " ".join(quoted) + match[0][stop:]

    return _replace_one(text, found, rng, change)


def plant_negation(text: str, rng: random.Random, names: Sequence[str]) -> str | None:
    """One statement is negated, or one negation is left out."""
    negated = list(_NEGATED.finditer(text))
    if negated and rng.random() < 0.5:
        return _replace_one(text, negated, rng, lambda match: match[1] or "can")
    found = list(_AUXILIARY.finditer(text))
    return _replace_one(text, found, rng, lambda match: f"{match[0]} not") if found else None


def plant_swap(text: str, rng: random.Random, names: Sequence[str]) -> str | None:
    """Two names change places."""
    found = list({match[0]: match for match in _INNER_NAME.finditer(text)}.values())
    if len(found) < 2:
        return None
    one, other = sorted(rng.sample(found, 2), key=lambda match: match.start())
    middle = text[one.end() : other.start()]
    return text[: one.start()] + other[0] + middle + one[0] + text[other.end() :]


def reorder(text: str, rng: random.Random, names: Sequence[str]) -> str:
    """Paragraphs in another order; of a single one, its sentences."""
    for pattern, joint in ((re.compile(r"\n\s*\n"), "\n\n"), (_SENTENCE, " ")):
        pieces = pattern.split(text)
        if len(pieces) > 2:
            rng.shuffle(pieces)
            return joint.join(pieces)
    return text


def shorten(text: str, rng: random.Random, names: Sequence[str]) -> str:
    """A third of the sentences and the short parentheses left out."""
    kept = [piece for piece in _SENTENCE.split(text) if rng.random() > 0.33] or [text]
    return re.sub(r" \([A-Za-z][a-z ,]{2,40}\)", "", " ".join(kept))


def _spelled_date(match: re.Match[str]) -> str:
    return f"{int(match[3])} {MONTHS[int(match[2]) - 1]} {match[1]}"


def _grouped(match: re.Match[str]) -> str:
    value = match[0].replace(",", "")
    return f"{value[:-3]} thousand" if value.endswith("000") and len(value) < 7 else value


def reformat(text: str, rng: random.Random, names: Sequence[str]) -> str:
    """Numbers, dates, units, quotes, lists and line ends in another form."""
    rules: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str] | str]] = [
        (_GROUPED, _grouped),
        (_PLAIN, lambda match: f"{int(match[0]):,}"),
        (_MDY, lambda match: f"{match[2]} {match[1]} {match[3]}"),
        (_YMD, _spelled_date),
        (_UNIT, lambda match: f"{match[1]} {_LONG.get(match[3], match[3]).strip()}"),
        (re.compile(r'(?<=\s)"([^"\n]{1,200})"(?=[\s.,;])'), r"“\1”"),
        (re.compile(r"(?m)^[*-] "), "• "),
        (re.compile(r"(?<!\n)\n(?!\n)"), " "),
        (re.compile(r"\*\*([^*\n]+)\*\*"), r"\1"),
    ]
    for pattern, new in rules:
        if rng.random() < 0.7:
            text = pattern.sub(new, text)
    return text


PLANTS: dict[str, Edit] = {
    "digit": plant_digit,
    "date": plant_date,
    "name": plant_name,
    "unit": plant_unit,
    "quotation": plant_quotation,
    "negation": plant_negation,
    "swap": plant_swap,
}
FAITHFUL: dict[str, Edit] = {"reorder": reorder, "reformat": reformat, "shorten": shorten}
