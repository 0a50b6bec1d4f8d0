"""National identity, tax and social security numbers of 26 countries.

Each has its form and its check; of most, one number in ten or eleven passes by chance. So a bare run of digits also
needs a word that says what it is, or the punctuation of its country (`123.456.789-09`).
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gristmill.stages.scrub.finding import Finding, Words, digits_of, is_near, same_length, words
from gristmill.stages.scrub.national_checks import (
    aadhaar,
    ahv,
    belgian,
    bsn,
    cnpj,
    codice_fiscale,
    cpf,
    cpr,
    curp,
    dni,
    fodselsnummer,
    hetu,
    kimlik,
    nhs,
    nino,
    nir,
    personnummer,
    pesel,
    resident,
    rrn,
    rut,
    sin,
    south_african,
    ssn,
    steuer_id,
    tfn,
)


class Rule(NamedTuple):
    """How a number is written, when it is valid, and which words go with it."""

    name: str
    digits: tuple[int, ...]
    """How many it may have."""
    form: re.Pattern[bytes]
    """`(?P<own>...)` is the punctuation of its own."""
    is_valid: Callable[[str], bool]
    """Of its digits and capitals, without separators."""
    about: Words


def _any(_: str) -> bool:
    return True


def _rule(name: str, digits: tuple[int, ...], form: str, is_valid: Callable[[str], bool], *about: str) -> Rule:
    return Rule(name, digits, re.compile(form.encode()), is_valid, words(*about))


NUMBERS = (
    _rule(
        "us_ssn",
        (9,),
        r"\d{3}-\d\d-\d{4}|\d{3} \d\d \d{4}|\d{9}",
        ssn,
        "ssn",
        "social security",
        "soc sec",
        "ss#",
        "taxpayer",
    ),
    _rule("uk_nhs", (10,), r"\d{3} \d{3} \d{4}|\d{10}", nhs, "nhs", "nhs number", "nhs no"),
    _rule(
        "de_steuer_id",
        (11,),
        r"\d\d \d{3} \d{3} \d{3}|\d{11}",
        steuer_id,
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
        (15,),
        r"(?P<own>[12] \d\d \d\d \d\d \d{3} \d{3} \d\d)|\d{13} ?\d\d",
        nir,
        "nir",
        "insee",
        "sécurité sociale",
        "securite sociale",
        "n° ss",
        "sécu",
    ),
    _rule("es_dni", (8,), r"(?P<own>\d\d\.\d{3}\.\d{3}-[A-Z])|\d{8}-[A-Z]", dni, "dni", "nif", "documento nacional"),
    _rule(
        "nl_bsn", (9,), r"\d{9}|\d{4}\.\d\d\.\d{3}|\d{3} \d{3} \d{3}", bsn, "bsn", "burgerservicenummer", "sofinummer"
    ),
    _rule(
        "be_nn",
        (11,),
        r"(?P<own>\d\d\.\d\d\.\d\d-\d{3}\.\d\d)|\d{11}",
        belgian,
        "rijksregister",
        "rijksregisternummer",
        "registre national",
        "numéro national",
        "nn",
        "niss",
        "insz",
    ),
    _rule("pl_pesel", (11,), r"\d{11}", pesel, "pesel"),
    _rule(
        "se_personnummer",
        (10, 12),
        r"(?P<own>\d{6}[-+]\d{4})|(?:19|20)\d{6}-?\d{4}|\d{10}",
        personnummer,
        "personnummer",
        "personnr",
        "pnr",
        "personal identity",
        "samordningsnummer",
    ),
    _rule("fi_hetu", (9, 10), r"(?P<own>\d{6}[-+A]\d{3}[0-9A-FHJ-NPR-Y])", hetu, "hetu", "henkilötunnus"),
    _rule(
        "no_fnr",
        (11,),
        r"(?P<own>\d{6} \d{5})|\d{11}",
        fodselsnummer,
        "fødselsnummer",
        "fodselsnummer",
        "personnummer",
        "fnr",
        "d-nummer",
    ),
    _rule("dk_cpr", (10,), r"\d{6}-?\d{4}", cpr, "cpr", "cpr-nr", "cpr-nummer", "personnummer"),
    _rule("br_cpf", (11,), r"(?P<own>\d{3}\.\d{3}\.\d{3}-\d\d)|\d{11}", cpf, "cpf"),
    _rule("br_cnpj", (14,), r"(?P<own>\d\d\.\d{3}\.\d{3}/\d{4}-\d\d)|\d{14}", cnpj, "cnpj"),
    _rule(
        "in_aadhaar",
        (12,),
        r"\d{4} \d{4} \d{4}|\d{4}-\d{4}-\d{4}|\d{12}",
        aadhaar,
        "aadhaar",
        "aadhar",
        "uid",
        "uidai",
        "आधार",
    ),
    _rule("cn_id", (18,), r"(?P<own>[1-9]\d{5}(?:18|19|20)\d{10})", resident, "身份证"),
    _rule("kr_rrn", (13,), r"(?P<own>\d{6}-[1-8]\d{6})", rrn, "주민등록번호"),
    _rule("tr_kimlik", (11,), r"\d{11}", kimlik, "kimlik", "tc no", "t.c.", "tckn", "tc kimlik"),
    _rule("ca_sin", (9,), r"\d{3}[ -]\d{3}[ -]\d{3}|\d{9}", sin, "sin", "social insurance", "nas", "assurance sociale"),
    _rule("au_tfn", (9,), r"\d{3} \d{3} \d{3}|\d{9}", tfn, "tfn", "tax file"),
    _rule(
        "za_id",
        (13,),
        r"\d{13}|\d{6} \d{4} \d{3}",
        south_african,
        "id number",
        "id no",
        "identity number",
        "south african id",
        "rsa id",
        "id",
    ),
    _rule("cl_rut", (7, 8, 9), r"(?P<own>\d{1,2}\.\d{3}\.\d{3}-[\dK])|\d{7,8}-[\dK]", rut, "rut", "run"),
    _rule(
        "ch_ahv",
        (13,),
        r"(?P<own>756\.\d{4}\.\d{4}\.\d\d)|756\d{10}",
        ahv,
        "ahv",
        "avs",
        "ahvn13",
        "sozialversicherungsnummer",
    ),
)
_BY_DIGITS = {count: [rule for rule in NUMBERS if count in rule.digits] for count in range(7, 19)}
_CODED = (
    _rule(
        "uk_nino",
        (),
        r"[A-CEGHJ-PR-TW-Z]{2}\d{6}[A-D]",
        nino,
        "national insurance",
        "nino",
        "ni number",
        "ni no",
        "ni",
        "nin",
    ),
    _rule("es_dni", (), r"(?P<own>\d{8}[A-Z]|[XYZ]\d{7}[A-Z])", dni, "dni", "nif", "nie"),
    _rule("it_cf", (), r"(?P<own>[A-Z]{6}\d\d[A-EHLMPRST]\d\d[A-Z]\d{3}[A-Z])", codice_fiscale, "codice fiscale"),
    _rule("in_pan", (), r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z]", _any, "pan", "permanent account", "income tax"),
    _rule("mx_curp", (), r"(?P<own>[A-Z]{4}\d{6}[HMX][A-Z]{5}[A-Z0-9]\d)", curp, "curp"),
    _rule("cn_id", (), r"(?P<own>[1-9]\d{5}(?:18|19|20)\d{9}X)", resident, "身份证"),
)
_NINO = re.compile(rb"(?<![A-Za-z0-9])([A-CEGHJ-PR-TW-Z]{2} \d\d \d\d \d\d [A-D])(?![A-Za-z0-9])")
_MOST_BYTES = 48
_PIECE = re.compile(rb"[^ ]{7,}")


def find_number(text: bytes, start: int, stop: int) -> Iterator[Finding]:
    """Ids that are groups of digits, a letter behind the last at most."""
    if stop - start > _MOST_BYTES:
        return
    run = same_length(text[start:stop])
    if len(run) == 8 and start >= 3:
        spaced = _NINO.match(text, start - 3)
        if spaced and nino(spaced[1].decode().replace(" ", "")):
            yield Finding(start - 3, spaced.end(), "national_id", spaced[1].decode().replace(" ", ""))
            return
    for place, piece in [(0, run), *((one.start(), one[0]) for one in _PIECE.finditer(run) if len(one[0]) < len(run))]:
        for rule in _BY_DIGITS.get(len(digits_of(piece)), ()):
            yield from _found(rule, text, start + place, piece)


def find_coded(text: bytes, start: int, stop: int) -> Iterator[Finding]:
    """Ids of capitals and digits."""
    for rule in _CODED:
        yield from _found(rule, text, start, text[start:stop])


def is_id(value: str) -> bool:
    """Whether digits and capitals without separators are valid as an id of some country."""
    if value.isdigit():
        return any(rule.is_valid(value) for rule in _BY_DIGITS.get(len(value), ()))
    return any(rule.form.fullmatch(value.encode()) and rule.is_valid(value) for rule in _CODED)


def _found(rule: Rule, text: bytes, start: int, run: bytes) -> Iterator[Finding]:
    if found := rule.form.fullmatch(run):
        value = re.sub(rb"[^0-9A-Z]", b"", found[0]).decode()
        if value.startswith("000") or not rule.is_valid(value):
            return
        begin, stop = start + found.start(), start + found.end()
        own = "own" in rule.form.groupindex and found["own"] is not None
        if own or is_near(text, begin, stop, rule.about, 48, 20):
            yield Finding(begin, stop, "national_id", value)
