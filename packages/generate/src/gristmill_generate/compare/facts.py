"""Finds the facts of a text: numbers with their units, dates, times, addresses, and names with digits.

A fact has one reading, or several where its spelling leaves it open: `05/04/2021` is a day in April or in May, `1.234`
may be a thousand. Two facts are equal if they share a reading, whatever words or digits they are written with.

    $3 thousand   ->   number (3, 3), unit dollar          the 4th of May   ->   date month 5, day 4
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from gristmill_generate.compare.lexicon import WordTraits, lexicon
from gristmill_generate.compare.tokens import Date, Key, TextToken, number_key

MOST_NUMBER_WORDS = 16
"""Words of one number."""
_OF_DEGREES = 1000
"""The unit of a degree of a scale is that of the scale times this."""
_NO_TRAITS = WordTraits()


class Fact(NamedTuple):
    kind: Literal["number", "date", "time", "address", "name"]
    readings: Sequence[Key | Date | int]
    """A number, a date, the seconds of a time in half a day, the text of a name or address."""
    unit: int
    """0 for none."""
    first: int
    """The index of its first token."""
    stop: int
    """The index after its last token."""
    is_checked: bool
    """Whether it counts as new if the parent lacks it: a month at the begin of a sentence may be a name."""


class _Spelled(NamedTuple):
    """A number in words."""

    value: int
    stop: int
    is_checked: bool
    is_ordinal: bool


def facts_of(tokens: Sequence[TextToken]) -> list[Fact]:
    """The facts of a text, in order."""
    reader, facts, index = _FactReader(tokens), list[Fact](), 0
    while index < len(tokens):
        fact = reader.fact(index)
        if fact is not None:
            facts.append(fact)
        index = index + 1 if fact is None else fact.stop
    return facts


def unit_of(token: TextToken) -> int:
    """The unit that a word or symbol names."""
    return token.traits.unit


class _FactReader:
    def __init__(self, tokens: Sequence[TextToken]) -> None:
        self._tokens = tokens
        self._degree = lexicon()["°"].unit

    def fact(self, index: int) -> Fact | None:
        """The fact that begins at a token."""
        token = self._tokens[index]
        if token.kind == "symbol":
            return None
        if token.kind == "address":
            return Fact("address", [token.key], 0, index, index + 1, True)
        is_known = token.kind == "word" and token.key in lexicon()
        if token.kind == "word" and not is_known:
            return Fact("name", [token.key], 0, index, index + 1, True) if token.has_digit else None
        if (date := self._date(index)) is not None:
            readings, stop = date
            is_month = not readings[0].year and not readings[0].day and not readings[0].weekday
            is_name = is_month and (token.begins_sentence or token.traits.is_short)
            return Fact("date", readings, 0, index, stop, not is_name)
        if token.kind == "number":
            return self._time(index) or self._number(index)
        if token.traits.number is None:
            return None
        value, stop, is_checked, is_ordinal = self._spelled(index)
        if stop == index:
            return None
        unit, stop = self._unit(stop, 0, is_ordinal)
        return Fact("number", [number_key(str(value))], unit, index, stop, is_checked)

    # Tokens

    def _at(self, index: int) -> TextToken | None:
        return self._tokens[index] if index < len(self._tokens) else None

    def _traits(self, index: int) -> WordTraits:
        """The traits of a word."""
        token = self._at(index)
        return token.traits if token is not None and token.kind == "word" else _NO_TRAITS

    def _is_symbol(self, index: int, character: str) -> bool:
        token = self._at(index)
        return token is not None and token.is_symbol(character)

    def _is_glued(self, index: int) -> bool:
        """Whether no white space is before a token."""
        token = self._at(index)
        return token is not None and not token.is_spaced

    def _is_apart(self, first: int, last: int) -> bool:
        """Whether one of the tokens begins a paragraph."""
        return any(token.begins_paragraph for token in self._tokens[first : last + 1])

    def _plain(self, index: int, sizes: tuple[int, ...], low: int, high: int) -> int | None:
        """The value of a number of so many digits, in these bounds."""
        token = self._at(index)
        if token is None or token.kind != "number" or token.size not in sizes:
            return None
        return token.value if low <= token.value <= high else None

    def _after_hyphen(self, index: int) -> int:
        is_hyphen = self._is_symbol(index, "-") and self._is_glued(index) and self._is_glued(index + 1)
        return index + is_hyphen

    # Dates and times

    def _date(self, index: int) -> tuple[list[Date], int] | None:
        token = self._tokens[index]
        if token.date is not None:
            return [token.date], index + 1
        if token.kind == "number":
            return self._numeric_date(index) or self._day_first(index)
        traits = token.traits
        if not token.is_capital or not (traits.month or traits.weekday):
            return None
        if traits.weekday:
            return [Date(weekday=traits.weekday, is_short=traits.is_short)], index + 1
        after = index + 1 + (traits.is_short and self._is_symbol(index + 1, "."))
        day = None if self._is_apart(index + 1, after) else self._plain(after, (1, 2), 1, 31)
        if day is not None and not self._is_symbol(after + 1, ":"):
            after += 1
            after += self._is_glued(after) and self._traits(after).ends_ordinal
            year, after = self._year(after)
            return [Date(year, traits.month, day)], after
        year, stop = self._year(after)
        return [Date(year, traits.month)], stop if year else index + 1

    def _numeric_date(self, index: int) -> tuple[list[Date], int] | None:
        """`2021-05-04`, `05/04/2021`, `4/5/21`."""
        parts = self._tokens[index : index + 5]
        if len(parts) < 5 or any(part.is_spaced for part in parts[1:]):
            return None
        if not parts[1].is_symbol("-/") or parts[1].key != parts[3].key or parts[3].kind != "symbol":
            return None
        year, month = self._plain(index, (4,), 1000, 2999), self._plain(index + 2, (1, 2), 1, 12)
        day = self._plain(index + 4, (1, 2), 1, 31)
        if year is not None and month is not None and day is not None:
            return [Date(year, month, day)], index + 5
        first, second = self._plain(index, (1, 2), 1, 31), self._plain(index + 2, (1, 2), 1, 31)
        year = self._plain(index + 4, (4,), 1000, 2999)
        if year is None and parts[1].key == "/" and (short := self._plain(index + 4, (2,), 0, 99)) is not None:
            year = short + (2000 if short < 50 else 1900)
        if first is None or second is None or year is None or min(first, second) > 12:
            return None
        readings = [Date(year, m, d) for m, d in ((first, second), (second, first)) if m <= 12]
        return list(dict.fromkeys(readings)), index + 5

    def _day_first(self, index: int) -> tuple[list[Date], int] | None:
        """`4 May`, `4th of May, 2021`, `4. Mai 2021`."""
        day, after = self._plain(index, (1, 2), 1, 31), index + 1
        if day is None:
            return None
        after += self._is_glued(after) and (self._traits(after).ends_ordinal or self._is_symbol(after, "."))
        after += self._traits(after).is_of
        month, token = self._traits(after), self._at(after)
        is_name = token is not None and not token.is_capital and month.is_common  # `may`
        if not month.month or is_name or self._is_apart(index + 1, after):
            return None
        after += 1
        if self._is_symbol(after, "."):
            year, stop = self._year(after + 1)
            after = stop if year else after
        else:
            year, after = self._year(after)
        return [Date(year, month.month, day)], after

    def _year(self, index: int) -> tuple[int, int]:
        """The year after a date, and the token after it; (0, index) if there is none."""
        after = index + (self._is_symbol(index, ",") or self._traits(index).is_of)
        year = None if self._is_apart(index, after) else self._plain(after, (4,), 1000, 2999)
        return (0, index) if year is None else (year, after + 1)

    def _time(self, index: int) -> Fact | None:
        """`10:30`, `5:21:02`, `3 p.m.`, in seconds of half a day."""
        hour, stop = self._plain(index, (1, 2), 0, 24), index + 1
        if hour is None:
            return None
        seconds = hour % 12 * 3600
        for unit_s in (60, 1):
            value = self._plain(stop + 1, (2,), 0, 59)
            is_joined = self._is_symbol(stop, ":") and self._is_glued(stop) and self._is_glued(stop + 1)
            if value is None or not is_joined:
                break
            seconds, stop = seconds + unit_s * value, stop + 2
        half = self._meridiem(stop)
        is_hour = half > stop and 1 <= hour <= 12 and not self._tokens[stop].begins_paragraph
        if stop == index + 1 and not is_hour:
            return None
        return Fact("time", [seconds], 0, index, half, True)

    def _meridiem(self, index: int) -> int:
        """The token after `am`, `p.m.`; the same one if there is none."""
        if self._traits(index).is_meridiem:
            return index + 1
        is_head = self._traits(index).is_meridiem_head and self._is_symbol(index + 1, ".")
        if is_head and self._traits(index + 2).is_meridiem_tail and self._is_glued(index + 2):
            return index + 3 + self._is_symbol(index + 3, ".")
        return index

    # Numbers and units

    def _number(self, index: int) -> Fact:
        token = self._tokens[index]
        unit = self._currency_before(index)
        power, stop = self._powers(index + 1, unit != 0)
        readings: list[Key] = [token.key]
        if isinstance(token.key, str):
            stop = index + 1
        else:
            digits, own_power = token.key
            readings = [(digits, own_power + power if digits else 0)]
            if token.may_have_thousands and not power:
                readings.append((digits, own_power + 3))
        unit, stop = self._unit(stop, unit, False)
        return Fact("number", readings, unit, index, stop, True)

    def _unit(self, index: int, unit: int, is_ordinal: bool) -> tuple[int, int]:
        """The unit of a number that ends before a token, and the token after it; `unit` is one before the number."""
        if self._traits(index).ends_ordinal and self._is_glued(index):
            return unit, index + 1
        return (unit, index) if unit or is_ordinal else self._unit_after(index)

    def _unit_after(self, index: int) -> tuple[int, int]:
        if index >= len(self._tokens) or self._tokens[index].begins_paragraph:
            return 0, index
        after = self._after_hyphen(index)
        token, scale = self._tokens[after], self._at(after + 1)
        unit = unit_of(token)
        of_scale = scale.traits.unit if scale is not None and scale.kind == "word" else 0
        if scale is not None and unit == self._degree and of_scale:
            is_letter = token.kind == "symbol" and scale.size == 1 and not scale.is_spaced
            if is_letter or scale.size >= 4:  # `°C`, `degrees Celsius`
                return of_scale * _OF_DEGREES, after + 2
        return (unit, after + 1) if unit else (0, index)

    def _currency_before(self, index: int) -> int:
        traits = self._tokens[index - 1].traits if index else _NO_TRAITS
        return traits.unit if traits.is_currency else 0

    def _powers(self, index: int, is_money: bool) -> tuple[int, int]:
        """The power of ten of the words after a number (`thousand`, `k`), and the token after them."""
        power = 0
        while True:
            after = self._after_hyphen(index)
            word = None if self._is_apart(index, after) else self._traits(after).number
            if word is None or word.kind == "value":
                return power, index
            if word.kind == "letter":
                is_power = not power and self._is_glued(after) and (is_money or word.value == 3)
                return (word.value, after + 1) if is_power else (power, index)
            power, index = power + word.value, after + 1

    def _spelled(self, index: int) -> _Spelled:
        """The number in words that begins at a token."""
        total = current = words = 0
        has_scale = is_ordinal = False
        while index < len(self._tokens) and words < MOST_NUMBER_WORDS and not is_ordinal:
            after = index
            if words:
                if self._is_symbol(index, "-") and self._is_glued(index):
                    after = self._after_hyphen(index)
                elif has_scale and self._traits(index).is_and:
                    after += 1
            word = self._traits(after).number
            if word is None or word.kind == "letter" or (words and self._is_apart(index, after)):
                break
            if word.kind == "value":
                rest = current % 100
                if rest and (word.value >= 10 or rest < 20 or rest % 10):
                    break
                current += word.value
            elif word.kind == "hundred":
                if current >= 100:
                    break
                has_scale, current = True, max(current, 1) * 100
            else:
                has_scale, total, current = True, total + max(current, 1) * 10**word.value, 0
            words, index, is_ordinal = words + 1, after + 1, word.is_ordinal
        value = total + current
        return _Spelled(value, index, words > 1 or (words == 1 and 10 < value < 100), is_ordinal)
