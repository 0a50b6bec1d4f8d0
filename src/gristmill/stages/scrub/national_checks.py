"""Checks national numbers, given their digits and capitals without separators."""

from datetime import date

from gristmill.stages.scrub.checksums import luhn, mod_11_10, verhoeff, weighted


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _short_day(digits: str, order: str = "ymd") -> bool:
    """Whether six digits are a day of some century."""
    parts = {name: int(digits[2 * place : 2 * place + 2]) for place, name in enumerate(order)}
    return _is_day(2000 + parts["y"] % 100, parts["m"], parts["d"]) or _is_day(
        1900 + parts["y"], parts["m"], parts["d"]
    )


def us_ssn(value: str) -> bool:
    area, group, serial = int(value[:3]), int(value[3:5]), int(value[5:])
    return (
        0 < area < 900
        and area != 666
        and group > 0
        and serial > 0
        and value not in ("078051120", "219099999", "123456789")
    )


def uk_nino(value: str) -> bool:
    pair = value[:2]
    return (
        pair[0] not in "DFIQUV" and pair[1] not in "DFIOQUV" and pair not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ")
    )


def uk_nhs(value: str) -> bool:
    check = (11 - weighted(value, (10, 9, 8, 7, 6, 5, 4, 3, 2)) % 11) % 11
    return check == int(value[9]) and len(set(value)) > 1


def de_steuer_id(value: str) -> bool:
    counts = sorted(value[:10].count(digit) for digit in set(value[:10]))
    return value[0] != "0" and counts[-1] in (2, 3) and mod_11_10(value)


def fr_nir(value: str) -> bool:
    month = int(value[3:5])
    return value[0] in "12" and (1 <= month <= 12 or 20 <= month <= 42) and 97 - int(value[:13]) % 97 == int(value[13:])


def es_dni(value: str) -> bool:
    digits = value[:-1].translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == value[-1]


_ODD = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)


def it_cf(value: str) -> bool:
    total = 0
    for place, char in enumerate(value[:15]):
        number = int(char) if char.isdigit() else ord(char) - 65
        total += _ODD[number] if place % 2 == 0 else number
    return chr(65 + total % 26) == value[15]


def nl_bsn(value: str) -> bool:
    return len(set(value)) > 1 and (weighted(value, (9, 8, 7, 6, 5, 4, 3, 2)) - int(value[8])) % 11 == 0


def be_nn(value: str) -> bool:
    number, check = int(value[:9]), int(value[9:])
    return (
        check in (97 - number % 97, 97 - (2 * 10**9 + number) % 97) and int(value[2:4]) <= 12 and int(value[4:6]) <= 31
    )


def pl_pesel(value: str) -> bool:
    month = int(value[2:4]) % 20
    total = weighted(value, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3))
    return 1 <= month <= 12 and 1 <= int(value[4:6]) <= 31 and (10 - total % 10) % 10 == int(value[10])


def se_personnummer(value: str) -> bool:
    short = value[-10:]
    day = int(short[4:6])
    shifted = f"{short[:4]}{day - 60:02}" if day > 60 else short[:6]  # coordination numbers
    return _short_day(shifted) and luhn(short)


def fi_hetu(value: str) -> bool:
    return _short_day(value[:6], "dmy") and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(value[:9]) % 31] == value[9]


def no_fnr(value: str) -> bool:
    day = int(value[:2]) % 40
    first = (11 - weighted(value, (3, 7, 6, 1, 8, 9, 4, 5, 2)) % 11) % 11
    second = (11 - weighted(value, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11) % 11
    return 1 <= day <= 31 and 1 <= int(value[2:4]) % 40 <= 12 and [first, second] == [int(value[9]), int(value[10])]


def dk_cpr(value: str) -> bool:
    return _short_day(value[:6], "dmy") and len(set(value)) > 2


def br_cpf(value: str) -> bool:
    first = weighted(value, tuple(range(10, 1, -1))) * 10 % 11 % 10
    second = weighted(value, tuple(range(11, 1, -1))) * 10 % 11 % 10
    return len(set(value)) > 1 and [first, second] == [int(value[9]), int(value[10])]


def br_cnpj(value: str) -> bool:
    weights = (5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
    first, second = (weighted(value, one) % 11 for one in (weights, (6, *weights)))
    checks = [0 if rest < 2 else 11 - rest for rest in (first, second)]
    return len(set(value)) > 1 and checks == [int(value[12]), int(value[13])]


def in_aadhaar(value: str) -> bool:
    return value[0] not in "01" and value != value[::-1] and verhoeff(value)


def cn_id(value: str) -> bool:
    total = weighted(value[:17], (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2))
    is_day = _is_day(int(value[6:10] or 0) or 1, int(value[10:12]), int(value[12:14]))
    return is_day and 1850 < int(value[6:10]) < 2100 and "10X98765432"[total % 11] == value[17]


def kr_rrn(value: str) -> bool:
    total = weighted(value, (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5))
    return _short_day(value[:6]) and value[6] in "12345678" and (11 - total % 11) % 10 == int(value[12])


def tr_kimlik(value: str) -> bool:
    numbers = [int(digit) for digit in value]
    tenth = (7 * sum(numbers[0:9:2]) - sum(numbers[1:8:2])) % 10
    return value[0] != "0" and tenth == numbers[9] and sum(numbers[:10]) % 10 == numbers[10]


def ca_sin(value: str) -> bool:
    return value[0] not in "08" and luhn(value)


def au_tfn(value: str) -> bool:
    return len(set(value)) > 1 and weighted(value, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


def za_id(value: str) -> bool:
    return _short_day(value[:6]) and value[10] in "012" and luhn(value)


def in_pan(value: str) -> bool:
    """Only its form is known."""
    return True


_CURP = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"


def mx_curp(value: str) -> bool:
    total = sum(_CURP.index(char) * (18 - place) for place, char in enumerate(value[:17]))
    return _short_day(value[4:10]) and (10 - total % 10) % 10 == int(value[17])


def cl_rut(value: str) -> bool:
    total = sum(int(digit) * (2 + place % 6) for place, digit in enumerate(reversed(value[:-1])))
    return "0123456789K0"[11 - total % 11] == value[-1] if total % 11 else value[-1] == "0"


def ch_ahv(value: str) -> bool:
    return value.startswith("756") and (10 - weighted(value, (1, 3) * 6) % 10) % 10 == int(value[12])


CHECKS = {
    check.__name__: check
    for check in (
        *(us_ssn, uk_nino, uk_nhs, de_steuer_id, fr_nir, es_dni, it_cf, nl_bsn, be_nn, pl_pesel, se_personnummer),
        *(fi_hetu, no_fnr, dk_cpr, br_cpf, br_cnpj, in_aadhaar, cn_id, kr_rrn, tr_kimlik, ca_sin, au_tfn, za_id),
        *(mx_curp, cl_rut, ch_ahv, in_pan),
    )
} | {"es_nie": es_dni}
"""By the names in `national_ids.toml`."""
