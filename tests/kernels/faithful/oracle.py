"""The comparison of a text with its parent, in plain Python: regular expressions, dictionaries and tuples."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

from gristmill.kernels.faithful import lexicon as known
from gristmill.kernels.faithful.dates import WEEKDAYS
from gristmill.kernels.faithful.findings import CHECKS, COLUMNS
from gristmill.kernels.text.unicode_classes import LETTER, SPACE, TERMINAL, UNIT, UPPER, WORD, unicode_tables
from gristmill.stages.measure.stop_words import STOP_WORDS
from gristmill_generate import faithful_words

THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3}){2,}", re.ASCII)
CHAIN = re.compile(r"\d+(?:\.\d+){2,}", re.ASCII)
DOTTED = re.compile(r"\d+\.\d+", re.ASCII)
COMMAS = re.compile(r"[1-9]\d{0,2}(?:,\d{3}(?!\d))+", re.ASCII)
SPACES = re.compile("[1-9]\\d{0,2}(?:['\u00a0\u202f\u2009]\\d{3}(?!\\d))+", re.ASCII)
DECIMAL_COMMA = re.compile(r"(\d+,\d+)(?!,\d)(?!\d)", re.ASCII)
DIGITS = re.compile(r"\d+", re.ASCII)
TAIL = {mark: re.compile(rf"[{mark}]\d+", re.ASCII) for mark in (",", ".", ".,")}
DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", re.ASCII)
CLOSING = {'"': '"', "“": "”", "„": "“", "«": "»", "「": "」", "『": "』"}


def bits(char):
    tables = unicode_tables()
    point = ord(char)
    return int(tables.classes[(int(tables.pages[point >> 8]) << 8) | (point & 255)])


def lower(char):
    tables = unicode_tables()
    point = ord(char)
    return chr(point + int(tables.lowers[(int(tables.lower_pages[point >> 8]) << 8) | (point & 255)]))


@dataclass
class Token:
    kind: str
    begin: int
    end: int
    key: object
    size: int = 0
    """Characters of a word, digits of a plain number."""
    value: int = -1
    spaced: bool = False
    line: bool = False
    blank: bool = False
    first: bool = False
    capital: bool = False
    digit: bool = False
    thousands: bool = False
    dated: bool = False
    terminal: bool = False

    @property
    def stem(self):
        return self.key[:5] if len(self.key.encode()) <= 64 else self.key


def decimal(digits, places):
    """Mantissa modulo 2^64 and power of ten."""
    value = int(digits)
    if not value:
        return 0, 0
    zeros = len(digits) - len(digits.rstrip("0"))
    return int(digits.rstrip("0")) % 2**64, zeros - places


def number(text, at):
    """Text, decimal places, whether it may have thousands, and whether it is literal."""
    if found := CHAIN.match(text, at):
        if THOUSANDS.fullmatch(found[0]):
            tail = TAIL[","].match(text, found.end())
            return found[0] + (tail[0] if tail else ""), len(tail[0]) - 1 if tail else 0, False, False
        return found[0], 0, False, True
    if found := DOTTED.match(text, at):
        whole, part = found[0].split(".")
        three = len(whole) <= 3 and whole[0] != "0" and len(part) == 3
        if three and (tail := TAIL[","].match(text, found.end())):
            return found[0] + tail[0], len(tail[0]) - 1, False, False
        return found[0], len(part), three, False
    for pattern, mark in ((COMMAS, "."), (SPACES, ".,")):
        if found := pattern.match(text, at):
            tail = TAIL[mark].match(text, found.end())
            return found[0] + (tail[0] if tail else ""), len(tail[0]) - 1 if tail else 0, False, False
    if found := DECIMAL_COMMA.match(text, at):
        return found[0], len(found[0].split(",")[1]), False, False
    return DIGITS.match(text, at)[0], 0, False, False


def word_end(text, at):
    end, has_digit = at, False
    while end < len(text):
        here = bits(text[end])
        if here & WORD:
            if here & UNIT:
                break
            has_digit |= "0" <= text[end] <= "9"
            end += 1
        elif text[end] in "'’" and end + 1 < len(text):
            after = bits(text[end + 1])
            if not after & LETTER or after & UNIT:
                break
            if text[end + 1] in "sS" and (end + 2 == len(text) or not bits(text[end + 2]) & WORD):
                return end + 2, end, has_digit
            end += 2
        else:
            break
    return end, end, has_digit


def address_end(text, at):
    end = at
    while end < len(text) and not (bits(text[end]) & SPACE or text[end] < " " or text[end] in "<>\"'`()[]{}|\\”»"):
        end += 1
    while end > at and text[end - 1] in ".,;:!?*_/":
        end -= 1
    return end


def tokens_of(text):
    found, at, fresh = [], 0, True
    spaced = line = blank = True
    place = [0]
    for char in text:
        place.append(place[-1] + len(char.encode()))
    while at < len(text):
        char, here = text[at], bits(text[at])
        if here & SPACE:
            if char == "\n":
                blank, line, fresh = blank or line, True, True
            spaced = True
            at += 1
            continue
        token = Token("symbol", place[at], 0, char, terminal=bool(here & TERMINAL))
        end = at + 1
        if "0" <= char <= "9":
            written, places, token.thousands, literal = number(text, at)
            end = at + len(written)
            token.kind, digits = "number", "".join(one for one in written if "0" <= one <= "9")
            token.key = written if literal else decimal(digits, places)
            if written == digits:
                token.size = len(digits)
                token.value = int(digits) if len(digits) <= 4 else -1
            if literal and (date := DATE.fullmatch(written)):
                day, month, year = map(int, date.groups())
                token.dated = 1 <= day <= 31 and 1 <= month <= 12 and 1000 <= year <= 2999
                token.value = year * 10000 + month * 100 + day if token.dated else -1
        elif here & WORD:
            end, last, has_digit = (at + 1, at + 1, False) if here & UNIT else word_end(text, at + 1)
            token.capital = bool(here & UPPER)
            if text.startswith("://", end) or (
                text[at:end].lower() == "www" and text[at:end].isascii() and dot(text, end)
            ):
                has_scheme = text.startswith("://", end)
                start = end + 3 if has_scheme else at
                end = max(address_end(text, start), end)
                body = text[start:end]
                has_www = not has_scheme or (len(body) > 4 and body[:4].lower() == "www.")
                token.kind, token.key = "address", body[4:] if has_www else body
            else:
                written = text[at:last]
                token.kind, token.digit, token.size = "word", has_digit, len(written)
                if len(written.encode()) > 64:
                    token.key, token.size = written, len(written.encode())
                else:
                    token.key = "".join("'" if one == "’" else lower(one) for one in written)
        if token.kind == "symbol":
            fresh = fresh or char not in ",-/&'%$"
        else:
            token.first, fresh = fresh, False
        token.spaced, token.line, token.blank = spaced, line, blank
        spaced = line = blank = False
        token.end = place[end]
        found.append(token)
        at = end
    return found


def dot(text, end):
    return text.startswith(".", end) and end + 1 < len(text)


@cache
def lexicon():
    words = {}
    for word, flag in faithful_words._flags():
        words.setdefault(word, {})["flags"] = words.get(word, {}).get("flags", 0) | flag
    names = ("number", "date", "unit", "opposite")
    tables = (faithful_words._numbers, faithful_words._dates, faithful_words._units, faithful_words._opposites)
    for name, table in zip(names, tables, strict=True):
        for word, value in table():
            words.setdefault(word, {}).setdefault(name, value)
    english = faithful_words._TABLES["english"].split()
    for place, language in enumerate(faithful_words.LANGUAGES):
        for word in english if language == "en" else STOP_WORDS[language]:
            words.setdefault(word, {}).setdefault("languages", set()).add(place)
    return words


def about(token, name, default=0):
    return lexicon().get(token.key, {}).get(name, default) if token is not None and token.kind == "word" else default


class Reader:
    """The facts of a text."""

    def __init__(self, tokens):
        self.tokens = tokens

    def at(self, place):
        return self.tokens[place] if place < len(self.tokens) else None

    def symbol(self, place, char, glued=False):
        token = self.at(place)
        return token is not None and token.kind == "symbol" and token.key == char and not (glued and token.spaced)

    def flag(self, place, flag):
        return bool(about(self.at(place), "flags") & flag)

    def glued(self, place):
        return self.at(place) is not None and not self.at(place).spaced

    def apart(self, first, last):
        return any(token.blank for token in self.tokens[first : last + 1])

    def plain(self, place, sizes, low, high):
        token = self.at(place)
        if token is None or token.kind != "number" or token.dated or token.size not in sizes:
            return None
        return token.value if low <= token.value <= high else None

    def month(self, place):
        token = self.at(place)
        month = about(token, "date")
        if not 1 <= month <= 12 or (not token.capital and self.flag(place, known.COMMON)):
            return 0
        return month

    def year_after(self, place):
        after = place + (self.symbol(place, ",") or self.flag(place, known.OF))
        year = None if self.apart(place, after) else self.plain(after, (4,), 1000, 2999)
        return (year, after + 1) if year is not None else (0, place)

    def numeric_date(self, at):
        if at + 4 >= len(self.tokens) or not all(self.glued(at + step) for step in range(1, 5)):
            return None
        marks = {self.tokens[at + 1].key, self.tokens[at + 3].key}
        if self.tokens[at + 1].kind != "symbol" or self.tokens[at + 3].kind != "symbol" or marks not in ({"-"}, {"/"}):
            return None
        year, month = self.plain(at, (4,), 1000, 2999), self.plain(at + 2, (1, 2), 1, 12)
        day = self.plain(at + 4, (1, 2), 1, 31)
        if None not in (year, month, day):
            return at + 5, year * 10000 + month * 100 + day, 0
        one, two = self.plain(at, (1, 2), 1, 31), self.plain(at + 2, (1, 2), 1, 31)
        year = self.plain(at + 4, (4,), 1000, 2999)
        if year is None and marks == {"/"} and (short := self.plain(at + 4, (2,), 0, 99)) is not None:
            year = short + (2000 if short < 50 else 1900)
        if None in (one, two, year) or min(one, two) > 12:
            return None
        readings = [year * 10000 + m * 100 + d for m, d in ((one, two), (two, one)) if m <= 12]
        return at + 5, readings[0], readings[1] if readings[1:] and readings[1] != readings[0] else 0

    def date(self, at):
        token = self.tokens[at]
        if token.kind == "number":
            if token.dated:
                return at + 1, token.value, 0
            if found := self.numeric_date(at):
                return found
            day, after = self.plain(at, (1, 2), 1, 31), at + 1
            if day is None:
                return None
            if self.glued(after) and (self.flag(after, known.ORDINAL_END) or self.symbol(after, ".")):
                after += 1
            after += self.flag(after, known.OF)
            month = self.month(after)
            if not month or self.apart(at + 1, after):
                return None
            after += 1
            if self.symbol(after, "."):
                year, end = self.year_after(after + 1)
                after = end if year else after
            else:
                year, after = self.year_after(after)
            return after, year * 10000 + month * 100 + day, 0
        name = about(token, "date")
        if not name or not token.capital:
            return None
        short = self.flag(at, known.ABBREVIATION)
        if name > known.WEEKDAY:
            return at + 1, WEEKDAYS + name + 100 * short, 0
        after = at + 1 + (short and self.symbol(at + 1, "."))
        day = None if self.apart(at + 1, after) else self.plain(after, (1, 2), 1, 31)
        if day is not None and not self.symbol(after + 1, ":"):
            after += 1
            if self.glued(after) and self.flag(after, known.ORDINAL_END):
                after += 1
            year, after = self.year_after(after)
            return after, year * 10000 + name * 100 + day, 0
        year, end = self.year_after(after)
        return (end, year * 10000 + name * 100, 0) if year else (at + 1, name * 100, 0)

    def meridiem(self, at):
        if self.flag(at, known.MERIDIEM):
            return at + 1
        is_dotted = self.flag(at, known.MERIDIEM_HEAD) and self.symbol(at + 1, ".")
        if is_dotted and self.flag(at + 2, known.MERIDIEM_TAIL) and self.glued(at + 2):
            return at + 3 + self.symbol(at + 3, ".")
        return at

    def time(self, at):
        hour = self.plain(at, (1, 2), 0, 24)
        if hour is None:
            return None
        seconds, end = hour % 12 * 3600, at + 1
        for size in (60, 1):
            value = self.plain(end + 1, (2,), 0, 59)
            if value is None or not self.symbol(end, ":", glued=True) or not self.glued(end + 1):
                break
            seconds, end = seconds + size * value, end + 2
        half = self.meridiem(end)
        if end > at + 1:
            return half, seconds
        return (half, seconds) if 1 <= hour <= 12 and half > end and not self.tokens[end].blank else None

    def after_hyphen(self, at):
        return at + (self.symbol(at, "-", glued=True) and self.glued(at + 1))

    def spelled(self, at):
        total = current = words = 0
        scaled = is_ordinal = False
        start = at
        while at < len(self.tokens) and words < 16:
            here = at
            if words:
                if self.symbol(here, "-", glued=True):
                    here = self.after_hyphen(here)
                elif scaled and self.flag(here, known.AND):
                    here += 1
            code = about(self.at(here), "number")
            if not code or code >= known.SHORT_SCALE or (words and self.apart(at, here)):
                break
            ordinal = known.ORDINAL <= code < known.SCALE
            code -= known.ORDINAL if ordinal else 0
            if code < known.HUNDRED:
                value, rest = code - 1, current % 100
                if rest == 0 or (value < 10 and rest >= 20 and rest % 10 == 0):
                    current += value
                else:
                    break
            elif code == known.HUNDRED:
                if current >= 100:
                    break
                scaled, current = True, max(current, 1) * 100
            else:
                scaled = True
                total, current = total + max(current, 1) * 10 ** (code - known.SCALE), 0
            words, at, is_ordinal = words + 1, here + 1, ordinal
            if ordinal:
                break
        value = total + current
        return at, value, words > 1 or (words == 1 and 10 < value < 100 and at > start), is_ordinal

    def unit_symbol(self, token):
        alone = len(token.key) == 1 and not token.key.isalnum()
        return lexicon().get(token.key, {}).get("unit", 0) if alone else 0

    def unit_after(self, at):
        if at >= len(self.tokens) or self.tokens[at].blank:
            return 0, at
        here = self.after_hyphen(at)
        token = self.tokens[here]
        if token.kind == "symbol":
            letter = about(self.at(here + 1), "unit") if token.key == "°" and self.glued(here + 1) else 0
            if letter and self.tokens[here + 1].size == 1:
                return letter * 1000, here + 2
            unit = self.unit_symbol(token)
        else:
            unit = about(token, "unit")
        scale = self.at(here + 1)
        if unit and abs(unit) == lexicon()["°"]["unit"] and about(scale, "unit") and scale.size >= 4:
            return abs(about(scale, "unit")) * 1000, here + 2
        return (abs(unit), here + 1) if unit else (0, at)

    def currency_before(self, at):
        if not at:
            return 0
        token = self.tokens[at - 1]
        unit = self.unit_symbol(token) if token.kind == "symbol" else about(token, "unit")
        return max(-unit, 0)

    def scaled(self, at, money):
        power = 0
        while True:
            here = self.after_hyphen(at)
            code = 0 if self.apart(at, here) else about(self.at(here), "number")
            if code == known.HUNDRED:
                power += 2
            elif known.SCALE <= code < known.SHORT_SCALE:
                power += code - known.SCALE
            elif (
                code >= known.SHORT_SCALE
                and not power
                and self.glued(here)
                and (money or code == known.SHORT_SCALE + 3)
            ):
                return code - known.SHORT_SCALE, here + 1
            else:
                return power, at
            at = here + 1

    def facts(self):
        """(kind, readings, unit, first token, token after the last, whether it is checked)"""
        found, at = [], 0
        while at < len(self.tokens):
            token, end = self.tokens[at], at
            in_lexicon = token.kind == "word" and token.key in lexicon()
            kind, readings, unit, checked = "number", [], 0, True
            if token.kind == "address":
                kind, readings, end = "address", [token.key], at + 1
            elif token.kind == "word" and not in_lexicon and token.digit:
                kind, readings, end = "word", [token.key], at + 1
            elif (token.kind == "number" or in_lexicon) and (date := self.date(at)):
                end, *readings = date
                kind = "date"
                if date[1] < 1300 and date[1] % 100 == 0:
                    checked = not (token.first or self.flag(at, known.ABBREVIATION))
            elif token.kind == "number" and (time := self.time(at)):
                kind, end, readings = "time", time[0], [time[1]]
            elif token.kind == "number":
                unit = self.currency_before(at)
                power, end = self.scaled(at + 1, unit != 0)
                if isinstance(token.key, str):
                    readings, end = [token.key], at + 1
                else:
                    mantissa, own = token.key
                    readings = [(mantissa, own + (power if mantissa else 0))]
                    if token.thousands and not power:
                        readings.append((mantissa, own + 3))
            elif about(token, "number"):
                end, value, checked, is_ordinal = self.spelled(at)
                readings = [decimal(str(value), 0)] if end > at else []
            if kind == "number" and end > at:
                if self.flag(end, known.ORDINAL_END) and self.glued(end):
                    end += 1
                elif not unit and not (token.kind == "word" and is_ordinal):
                    unit, end = self.unit_after(end)
            if end > at:
                readings = [one for one in readings if one or kind != "date"]
                found.append((kind, readings, unit, at, end, checked))
            at = max(end, at + 1)
        return found


def is_content(token):
    return token.kind == "word" and token.size >= 3 and not about(token, "flags") & (known.STOP | known.NEGATION)


def is_word(token):
    return token.kind in ("word", "number")


def context(tokens, first, last):
    """Up to three content words on each side within 12 tokens."""
    before = [one.key for one in reversed(tokens[max(0, first - 12) : first]) if is_content(one)][:3]
    return before + [one.key for one in tokens[last : last + 12] if is_content(one)][:3]


def language(tokens):
    votes = Counter()
    words = [one for one in tokens if one.kind == "word"][:500]
    for token in words:
        votes.update(about(token, "languages", ()))
    best = max(range(64), key=lambda place: (votes[place], -place))
    return (best if votes[best] >= 5 else None), votes


def pairs(tokens):
    """(pair, polarity, first token, last token, whether a word has an opposite)"""
    before, negated = None, 0
    for token in tokens:
        if token.blank:
            before, negated = None, 0
        if token.kind == "symbol":
            if token.terminal or token.key in ":;":
                before, negated = None, 0
            continue
        if token.kind != "word":
            continue
        opposite = about(token, "opposite")
        if about(token, "flags") & known.NEGATION and not opposite:
            negated = 2
            continue
        if not opposite and not is_content(token):
            continue
        stem = opposite >> 1 if opposite else token.stem
        if before is not None:
            polarity = (negated > 0) ^ (opposite & 1) ^ before[1]
            yield (before[0], stem), polarity, before[2], token, bool(opposite) or before[3]
        negated = max(negated - 1, 0)
        before = (stem, opposite & 1, token, bool(opposite))


def grams(keys):
    return list(zip([None, None, *keys], [None, *keys], keys, strict=False)) if keys else []


def begins_again(tokens, at):
    token = tokens[at]
    if token.kind == "symbol" and token.key in "[…":
        return True
    return token.line or (at > 0 and tokens[at - 1].kind == "symbol" and tokens[at - 1].terminal and token.spaced)


class Said:
    """What the parent says."""

    def __init__(self, text):
        self.tokens = tokens_of(text)
        words = [one for one in self.tokens if is_word(one)]
        self.words = {one.key for one in words if one.kind == "word"}
        self.content = {one.key for one in words if is_content(one)}
        self.count = len(words)
        self.grams = set(grams([one.key for one in words]))
        self.pairs = {(pair, polarity) for pair, polarity, *_ in pairs(self.tokens)}
        self.loops = Counter(passages(words))
        self.codes = set(grams([code_key(one) for one in self.tokens]))
        self.initials = set(initials(self.tokens))
        self.units = set(self.bracketed())
        self.numbers, self.contexts = Counter(), set()
        self.sets = {name: set() for name in ("quantity", "bare", "time", "word", "address", "weekday", "date", "day")}
        self.sets |= {name: set() for name in ("yearless", "month", "monthly", "lone")}
        for kind, readings, unit, first, last, _ in Reader(self.tokens).facts():
            for one in readings:
                if kind == "number":
                    self.numbers[one] += 1
                    self.contexts |= {(one, word) for word in context(self.tokens, first, last)}
                    self.sets["quantity" if unit else "bare"].add((one, unit))
                elif kind == "date":
                    self.add_date(one)
                else:
                    self.sets[kind].add(one)
            if kind == "time":
                self.numbers[decimal(str(self.tokens[first].value), 0)] += 1

    def bracketed(self):
        for before, token in zip(self.tokens, self.tokens[1:], strict=False):
            if before.kind == "symbol" and before.key in "([":
                unit = about(token, "unit") if token.kind == "word" else 0
                if token.kind == "symbol":
                    unit = Reader(self.tokens).unit_symbol(token)
                yield abs(unit)

    def add_date(self, date):
        if date > WEEKDAYS:
            self.sets["weekday"].add((date - WEEKDAYS) % 100)
            return
        year, month, day = date // 10000, date // 100 % 100, date % 100
        self.sets["month"].add(month)
        if year:
            self.numbers[decimal(str(year), 0)] += 1
            self.sets["monthly"].add((year, month))
        if day:
            self.numbers[decimal(str(day), 0)] += 1
            self.sets["day"].add((month, day))
            self.sets["date" if year else "yearless"].add((year, month, day))
        elif not year:
            self.sets["lone"].add(month)

    def has_date(self, date):
        sets = self.sets
        if date > WEEKDAYS:
            return date - WEEKDAYS > 100 or date - WEEKDAYS in sets["weekday"]
        year, month, day = date // 10000, date // 100 % 100, date % 100
        has_year = bool(self.numbers[decimal(str(year), 0)])
        if not year:
            return (month, day) in sets["day"] if day else month in sets["month"]
        if not day:
            return (year, month) in sets["monthly"] or (has_year and month in sets["lone"])
        return (year, month, day) in sets["date"] or (has_year and (0, month, day) in sets["yearless"])


def initials(tokens):
    """The first bytes of neighbouring words with capitals, from two to eight of them, over words without content."""
    run = ()
    for token in tokens:
        if token.kind != "word":
            run = ()
        elif token.capital:
            run = (*run, token)
            if 2 <= len(run) <= 8:
                yield tuple(ord(one.key[0]) & 0x7F if one.key[0].isascii() else -1 for one in run)
        elif not about(token, "flags") & known.STOP or token.first:
            run = ()


def code_key(token):
    quote = token.kind == "symbol" and token.key in "“”„"
    return (token.kind, '"' if quote else token.key)


def passages(words):
    keys = [one.key for one in words]
    return [tuple(keys[at : at + 8]) for at in range(len(keys) - 7)]


def check_facts(said, tokens):
    found = Reader(tokens).facts()
    own = Counter(readings[0] for kind, readings, *_ in found if kind == "number")
    for kind, readings, unit, first, last, checked in found:
        check = None
        if kind == "number":
            reading = next((one for one in readings if said.numbers[one]), readings[0])
            times = said.numbers[reading]
            if not times:
                check = "new_numbers" if checked else None
            elif unit and (reading, unit) not in said.sets["quantity"]:
                is_known = (reading, 0) in said.sets["bare"] and unit in said.units
                check = None if is_known else "new_units"
            if check is None and checked and own[reading] > times > 0:
                around = context(tokens, first, last)
                near = sum((reading, word) in said.contexts for word in around)
                check = "new_numbers" if not near or 2 * near < len(around) else None
        elif kind == "date":
            if checked and not any(map(said.has_date, readings)):
                check = "new_dates"
        elif not any(one in said.sets[kind] for one in readings):
            check = "new_urls" if kind == "address" else "new_numbers"
        if check:
            yield check, tokens[first].begin, tokens[last - 1].end


def check_names(said, tokens, spoken):
    lines, at = [], 0
    while at < len(tokens):
        end = next((place for place in range(at + 1, len(tokens)) if tokens[place].line), len(tokens))
        long = [one.capital for one in tokens[at:end] if one.kind == "word" and one.size > 3]
        is_title = len(long) >= 2 and all(long) and not (tokens[end - 1].kind == "symbol" and tokens[end - 1].terminal)
        lines += [is_title] * (end - at)
        at = end

    def capital(place):
        token = tokens[place] if 0 <= place < len(tokens) else None
        return token is not None and token.kind == "word" and token.capital and not about(token, "flags") & known.STOP

    for place, token in enumerate(tokens):
        if token.kind != "word" or not token.capital or token.size < 2 or token.digit or token.key in said.words:
            continue
        flags = about(token, "flags")
        if flags & (known.STOP | known.NEGATION) or any(about(token, name) for name in ("date", "number", "unit")):
            continue
        if lines[place] or token.first:
            if spoken != 0 or flags & known.COMMON:
                continue
        elif spoken == 1:
            before = capital(place - 1) and not tokens[place - 1].first
            if not before and not capital(place + 1):
                continue
        yield token


def is_initials(said, token, data):
    word = data[token.begin : token.end]
    return (
        2 <= len(word) <= 8
        and all(65 <= one <= 90 for one in word)
        and tuple(one | 32 for one in word) in said.initials
    )


def knows_words(said, tokens, begin, end):
    run, in_fact = [], False
    for at in range(begin, end):
        if at > begin and begins_again(tokens, at):
            run = []
        if not is_word(tokens[at]):
            continue
        may_be = any(about(tokens[at], name) for name in ("number", "unit", "date"))
        is_next = at + 1 < end and tokens[at + 1].kind == "number"
        in_fact = tokens[at].kind == "number" or (may_be and (in_fact or is_next))
        if in_fact:
            run = []
            continue
        run.append(tokens[at].key)
        if len(run) >= 3:
            if tuple(run[-3:]) not in said.grams:
                return False
        elif tokens[at].key not in said.words:
            return False
    return True


def opens(tokens, at):
    if tokens[at + 1].spaced:
        return False
    if tokens[at].key != '"' or tokens[at].spaced:
        return True
    return tokens[at - 1].kind == "symbol" and tokens[at + 1].kind != "symbol"


def check_quotations(said, tokens):
    at = 0
    while at < len(tokens):
        closing = CLOSING.get(tokens[at].key) if tokens[at].kind == "symbol" else None
        if closing and at + 1 < len(tokens) and opens(tokens, at):
            for end in range(at + 1, min(len(tokens), at + 300)):
                token = tokens[end]
                if token.blank:
                    break
                if token.kind == "symbol" and token.key == closing:
                    if closing == '"' and end + 1 < len(tokens) and opens(tokens, end):
                        break
                    if not knows_words(said, tokens, at + 1, end):
                        yield "new_quotations", tokens[at].begin, token.end
                    at = end
                    break
        at += 1


def run_length(tokens, at):
    end = at + 1
    while end < min(len(tokens), at + 3) and not tokens[end].spaced and tokens[end].kind == "symbol":
        if tokens[end].key != tokens[at].key:
            break
        end += 1
    return end - at


def code_at(tokens, at):
    mark, size = tokens[at].key, run_length(tokens, at)
    inside, closing = at + size, None
    if inside >= len(tokens):
        return None
    if mark == "\\":
        closing = {"(": ")", "[": "]"}.get(tokens[inside].key) if tokens[inside].kind == "symbol" else None
        if size > 1 or tokens[inside].spaced or not closing:
            return None
        block, inside = closing == "]", inside + 1
    else:
        if mark == "$" and size == 1 and (tokens[inside].spaced or tokens[inside].kind == "number"):
            return None
        block = size == 3 or (mark == "$" and size == 2)
    for end in range(inside, min(len(tokens), at + (5000 if block else 300))):
        token = tokens[end]
        if not block and (token.blank if mark == "$" else token.line):
            return None
        if token.kind == "symbol" and token.key == mark:
            if closing:
                if end + 1 < len(tokens) and tokens[end + 1].kind == "symbol" and tokens[end + 1].key == closing:
                    return inside, end, end + 2
            elif run_length(tokens, end) >= size:
                return inside, end, end + size
    return None


def check_code(said, tokens):
    at = 0
    while at < len(tokens):
        if tokens[at].kind != "symbol" or tokens[at].key not in "`$\\":
            at += 1
            continue
        found = code_at(tokens, at)
        if not found:
            at += run_length(tokens, at)
            continue
        inside, end, after = found
        if inside == at + 3 and tokens[inside].kind == "word" and not tokens[inside].spaced:
            inside += 1
        run, checked = [], []
        for place in range(inside, end):
            if place > inside and begins_again(tokens, place):
                run = []
            run.append(code_key(tokens[place]))
            if len(run) >= 3:
                checked.append(tuple(run[-3:]) in said.codes)
            elif tokens[place].kind == "word":
                checked.append(tokens[place].key in said.words)
        if 5 * sum(checked) < 4 * len(checked):
            yield "new_code", tokens[at].begin, tokens[after - 1].end
        at = after


def compare(text, parent):
    """Counts of COLUMNS, and the spans of what is new."""
    said, tokens = Said(parent), tokens_of(text)
    spans = list(check_facts(said, tokens))
    was_in, _ = language(said.tokens)
    spoken, votes = language(tokens)
    data = text.encode()
    for token in check_names(said, tokens, spoken):
        if not is_initials(said, token, data) and token.key not in said.sets["word"]:
            spans.append(("new_names", token.begin, token.end))
    spans += check_quotations(said, tokens)
    for pair, polarity, first, last, has_opposite in pairs(tokens):
        if (pair, not polarity) in said.pairs and (pair, polarity) not in said.pairs:
            spans.append(("flipped_comparisons" if has_opposite else "flipped_negations", first.begin, last.end))
    spans += check_code(said, tokens)
    words = [one for one in tokens if is_word(one)]
    content = {one.key for one in words if is_content(one)}
    loops = Counter(passages(words))
    counts = Counter(check for check, *_ in spans)
    counts["language_changed"] = None not in (was_in, spoken) and 2 * votes[was_in] < votes[spoken] and was_in != spoken
    counts["looped_words"] = sum(max(0, times - max(1, said.loops[one])) for one, times in loops.items())
    counts["words"], counts["parent_words"] = len(words), said.count
    own = grams([one.key for one in words])[2:]
    counts["ngrams"], counts["copied_ngrams"] = len(own), sum(one in said.grams for one in own)
    counts["content_words"], counts["new_content_words"] = len(content), len(content - said.words)
    counts["parent_content_words"], counts["covered_content_words"] = len(said.content), len(content & said.words)
    return [int(counts[name]) for name in COLUMNS], sorted((CHECKS.index(check), *span) for check, *span in spans)
