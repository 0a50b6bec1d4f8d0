"""National identity, tax and social security numbers of 26 countries.

Each has its form and its check; of most, one number in ten or eleven passes by chance. So a bare run of digits also
needs a word that says what it is, or the punctuation of its country (`123.456.789-09`).
"""

import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import NamedTuple

from gristmill.stages.scrub.checksums import luhn, mod_11_10, verhoeff, weighted
from gristmill.stages.scrub.finding import Finding, Words, is_near, same_length, words


class Rule(NamedTuple):
    """How a number is written, when it is valid, and which words go with it."""

    name: str
    form: re.Pattern[bytes]
    """`(?P<own>...)` is the punctuation of its own."""
    is_valid: Callable[[str], bool]
    """Of its digits and capitals, without separators."""
    about: Words


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _short_day(digits: str, order: str = "ymd") -> bool:
    """Six digits that are a day of some century."""
    parts = {name: int(digits[2 * place : 2 * place + 2]) for place, name in enumerate(order)}
    return _is_day(2000 + parts["y"] % 100, parts["m"], parts["d"]) or _is_day(
        1900 + parts["y"], parts["m"], parts["d"]
    )


def _ssn(value: str) -> bool:
    area, group, serial = int(value[:3]), int(value[3:5]), int(value[5:])
    return (
        0 < area < 900
        and area != 666
        and group > 0
        and serial > 0
        and value not in ("078051120", "219099999", "123456789")
    )


def _nino(value: str) -> bool:
    pair = value[:2]
    return (
        pair[0] not in "DFIQUV" and pair[1] not in "DFIOQUV" and pair not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ")
    )


def _nhs(value: str) -> bool:
    check = (11 - weighted(value, (10, 9, 8, 7, 6, 5, 4, 3, 2)) % 11) % 11
    return check == int(value[9]) and len(set(value)) > 1


def _steuer_id(value: str) -> bool:
    counts = sorted(value[:10].count(digit) for digit in set(value[:10]))
    return value[0] != "0" and counts[-1] in (2, 3) and mod_11_10(value)


def _nir(value: str) -> bool:
    month = int(value[3:5])
    return value[0] in "12" and (1 <= month <= 12 or 20 <= month <= 42) and 97 - int(value[:13]) % 97 == int(value[13:])


def _dni(value: str) -> bool:
    digits = value[:-1].translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == value[-1]


_ODD = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)


def _codice_fiscale(value: str) -> bool:
    total = 0
    for place, char in enumerate(value[:15]):
        number = int(char) if char.isdigit() else ord(char) - 65
        total += _ODD[number] if place % 2 == 0 else number
    return chr(65 + total % 26) == value[15]


def _bsn(value: str) -> bool:
    return len(set(value)) > 1 and (weighted(value, (9, 8, 7, 6, 5, 4, 3, 2)) - int(value[8])) % 11 == 0


def _belgian(value: str) -> bool:
    number, check = int(value[:9]), int(value[9:])
    return (
        check in (97 - number % 97, 97 - (2 * 10**9 + number) % 97) and int(value[2:4]) <= 12 and int(value[4:6]) <= 31
    )


def _pesel(value: str) -> bool:
    month = int(value[2:4]) % 20
    total = weighted(value, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3))
    return 1 <= month <= 12 and 1 <= int(value[4:6]) <= 31 and (10 - total % 10) % 10 == int(value[10])


def _personnummer(value: str) -> bool:
    short = value[-10:]
    day = int(short[4:6])
    shifted = f"{short[:4]}{day - 60:02}" if day > 60 else short[:6]  # coordination numbers
    return _short_day(shifted) and luhn(short)


def _hetu(value: str) -> bool:
    return _short_day(value[:6], "dmy") and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(value[:9]) % 31] == value[9]


def _fodselsnummer(value: str) -> bool:
    day = int(value[:2]) % 40
    first = (11 - weighted(value, (3, 7, 6, 1, 8, 9, 4, 5, 2)) % 11) % 11
    second = (11 - weighted(value, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11) % 11
    return 1 <= day <= 31 and 1 <= int(value[2:4]) % 40 <= 12 and [first, second] == [int(value[9]), int(value[10])]


def _cpr(value: str) -> bool:
    return _short_day(value[:6], "dmy") and len(set(value)) > 2


def _cpf(value: str) -> bool:
    first = weighted(value, tuple(range(10, 1, -1))) * 10 % 11 % 10
    second = weighted(value, tuple(range(11, 1, -1))) * 10 % 11 % 10
    return len(set(value)) > 1 and [first, second] == [int(value[9]), int(value[10])]


def _cnpj(value: str) -> bool:
    weights = (5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
    first, second = (weighted(value, one) % 11 for one in (weights, (6, *weights)))
    checks = [0 if rest < 2 else 11 - rest for rest in (first, second)]
    return len(set(value)) > 1 and checks == [int(value[12]), int(value[13])]


def _aadhaar(value: str) -> bool:
    return value[0] not in "01" and value != value[::-1] and verhoeff(value)


def _resident(value: str) -> bool:
    total = weighted(value[:17], (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2))
    is_day = _is_day(int(value[6:10] or 0) or 1, int(value[10:12]), int(value[12:14]))
    return is_day and 1850 < int(value[6:10]) < 2100 and "10X98765432"[total % 11] == value[17]


def _rrn(value: str) -> bool:
    total = weighted(value, (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5))
    return _short_day(value[:6]) and value[6] in "12345678" and (11 - total % 11) % 10 == int(value[12])


def _kimlik(value: str) -> bool:
    numbers = [int(digit) for digit in value]
    tenth = (7 * sum(numbers[0:9:2]) - sum(numbers[1:8:2])) % 10
    return value[0] != "0" and tenth == numbers[9] and sum(numbers[:10]) % 10 == numbers[10]


def _sin(value: str) -> bool:
    return value[0] not in "08" and luhn(value)


def _tfn(value: str) -> bool:
    return len(set(value)) > 1 and weighted(value, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


def _south_african(value: str) -> bool:
    return _short_day(value[:6]) and value[10] in "012" and luhn(value)


_CURP = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"


def _curp(value: str) -> bool:
    total = sum(_CURP.index(char) * (18 - place) for place, char in enumerate(value[:17]))
    return _short_day(value[4:10]) and (10 - total % 10) % 10 == int(value[17])


def _rut(value: str) -> bool:
    total = sum(int(digit) * (2 + place % 6) for place, digit in enumerate(reversed(value[:-1])))
    return "0123456789K0"[11 - total % 11] == value[-1] if total % 11 else value[-1] == "0"


def _ahv(value: str) -> bool:
    return value.startswith("756") and (10 - weighted(value, (1, 3) * 6) % 10) % 10 == int(value[12])


def _any(_: str) -> bool:
    return True


def _rule(name: str, form: str, is_valid: Callable[[str], bool], *about: str) -> Rule:
    bounded = rf"(?<![\w])(?<!\d[.\-/])(?:{form})(?![\w]|[.\-/]\d)"
    return Rule(name, re.compile(bounded.encode()), is_valid, words(*about))


_NUMBERS = (
    _rule("us_ssn", r"\d{3}-\d\d-\d{4}|\d{9}", _ssn, "ssn", "social security", "soc sec", "ss#", "taxpayer"),
    _rule("uk_nhs", r"\d{3} \d{3} \d{4}|\d{10}", _nhs, "nhs", "nhs number", "nhs no"),
    _rule(
        "de_steuer_id",
        r"\d\d \d{3} \d{3} \d{3}|\d{11}",
        _steuer_id,
        "steuer-id",
        "steuer-?identifikationsnummer",
        "idnr",
        "tin",
        "steuernummer",
        "tax id",
        "steueridentifikationsnummer",
        "steuerliche identifikationsnummer",
    ),
    _rule(
        "fr_nir",
        r"(?P<own>[12] \d\d \d\d \d\d \d{3} \d{3} \d\d)|\d{13} ?\d\d",
        _nir,
        "nir",
        "insee",
        "sécurité sociale",
        "securite sociale",
        "n° ss",
        "sécu",
    ),
    _rule("es_dni", r"(?P<own>\d\d\.\d{3}\.\d{3}-[A-Z])|\d{8}-[A-Z]", _dni, "dni", "nif", "documento nacional"),
    _rule("nl_bsn", r"\d{9}|\d{4}\.\d\d\.\d{3}|\d{3} \d{3} \d{3}", _bsn, "bsn", "burgerservicenummer", "sofinummer"),
    _rule(
        "be_nn",
        r"(?P<own>\d\d\.\d\d\.\d\d-\d{3}\.\d\d)|\d{11}",
        _belgian,
        "rijksregister",
        "rijksregisternummer",
        "registre national",
        "numéro national",
        "nn",
        "niss",
        "insz",
    ),
    _rule("pl_pesel", r"\d{11}", _pesel, "pesel"),
    _rule(
        "se_personnummer",
        r"(?P<own>\d{6}[-+]\d{4})|(?:19|20)\d{6}-?\d{4}|\d{10}",
        _personnummer,
        "personnummer",
        "personnr",
        "pnr",
        "personal identity",
        "samordningsnummer",
    ),
    _rule("fi_hetu", r"(?P<own>\d{6}[-+A]\d{3}[0-9A-FHJ-NPR-Y])", _hetu, "hetu", "henkilötunnus"),
    _rule(
        "no_fnr",
        r"(?P<own>\d{6} \d{5})|\d{11}",
        _fodselsnummer,
        "fødselsnummer",
        "fodselsnummer",
        "personnummer",
        "fnr",
        "d-nummer",
    ),
    _rule("dk_cpr", r"\d{6}-?\d{4}", _cpr, "cpr", "cpr-nr", "cpr-nummer", "personnummer"),
    _rule("br_cpf", r"(?P<own>\d{3}\.\d{3}\.\d{3}-\d\d)|\d{11}", _cpf, "cpf"),
    _rule("br_cnpj", r"(?P<own>\d\d\.\d{3}\.\d{3}/\d{4}-\d\d)|\d{14}", _cnpj, "cnpj"),
    _rule(
        "in_aadhaar",
        r"\d{4} \d{4} \d{4}|\d{4}-\d{4}-\d{4}|\d{12}",
        _aadhaar,
        "aadhaar",
        "aadhar",
        "uid",
        "uidai",
        "आधार",
    ),
    _rule("cn_id", r"(?P<own>[1-9]\d{5}(?:18|19|20)\d{9})", _resident, "身份证"),
    _rule("kr_rrn", r"(?P<own>\d{6}-[1-8]\d{6})", _rrn, "주민등록번호"),
    _rule("tr_kimlik", r"\d{11}", _kimlik, "kimlik", "tc no", "t.c.", "tckn", "tc kimlik"),
    _rule("ca_sin", r"\d{3}[ -]\d{3}[ -]\d{3}|\d{9}", _sin, "sin", "social insurance", "nas", "assurance sociale"),
    _rule("au_tfn", r"\d{3} \d{3} \d{3}|\d{9}", _tfn, "tfn", "tax file"),
    _rule(
        "za_id",
        r"\d{13}|\d{6} \d{4} \d{3}",
        _south_african,
        "id number",
        "id no",
        "identity number",
        "south african id",
        "rsa id",
        "id",
    ),
    _rule("cl_rut", r"(?P<own>\d{1,2}\.\d{3}\.\d{3}-[\dK])|\d{7,8}-[\dK]", _rut, "rut", "run"),
    _rule(
        "ch_ahv",
        r"(?P<own>756\.\d{4}\.\d{4}\.\d\d)|756\d{10}",
        _ahv,
        "ahv",
        "avs",
        "ahvn13",
        "sozialversicherungsnummer",
    ),
)
_CODED = (
    _rule(
        "uk_nino", r"[A-CEGHJ-PR-TW-Z]{2}\d{6}[A-D]", _nino, "national insurance", "nino", "ni number", "ni no", "nin"
    ),
    _rule("es_dni", r"(?P<own>\d{8}[A-Z]|[XYZ]\d{7}[A-Z])", _dni, "dni", "nif", "nie"),
    _rule("it_cf", r"(?P<own>[A-Z]{6}\d\d[A-EHLMPRST]\d\d[A-Z]\d{3}[A-Z])", _codice_fiscale, "codice fiscale"),
    _rule("in_pan", r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z]", _any, "pan", "permanent account", "income tax"),
    _rule("mx_curp", r"(?P<own>[A-Z]{4}\d{6}[HMX][A-Z]{5}[A-Z0-9]\d)", _curp, "curp"),
    _rule("cn_id", r"(?P<own>[1-9]\d{5}(?:18|19|20)\d{9}X)", _resident, "身份证"),
)
_NINO = re.compile(rb"(?<![A-Za-z0-9])([A-CEGHJ-PR-TW-Z]{2} \d\d \d\d \d\d [A-D])(?![A-Za-z0-9])")
_MOST_BYTES = 48


def find_number(text: bytes, start: int, stop: int) -> Iterator[Finding]:
    """Ids that are groups of digits, a letter behind the last at most."""
    if stop - start > _MOST_BYTES:
        return
    run = same_length(text[start:stop])
    if len(run) == 8 and start >= 3:
        spaced = _NINO.match(text, start - 3)
        if spaced and _nino(spaced[1].decode().replace(" ", "")):
            yield Finding(start - 3, spaced.end(), "national_id", spaced[1].decode().replace(" ", ""))
            return
    for rule in _NUMBERS:
        yield from _found(rule, text, start, run)


def find_coded(text: bytes, start: int, stop: int) -> Iterator[Finding]:
    """Ids of capitals and digits."""
    for rule in _CODED:
        yield from _found(rule, text, start, text[start:stop])


def _found(rule: Rule, text: bytes, start: int, run: bytes) -> Iterator[Finding]:
    for found in rule.form.finditer(run):
        value = re.sub(rb"[^0-9A-Z]", b"", found[0]).decode()
        if value.startswith("000") or not rule.is_valid(value):
            continue
        begin, stop = start + found.start(), start + found.end()
        own = "own" in rule.form.groupindex and found["own"] is not None
        if own or is_near(text, begin, stop, rule.about, 48, 20):
            yield Finding(begin, stop, "national_id", value)
