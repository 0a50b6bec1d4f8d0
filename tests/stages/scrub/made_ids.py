"""National ids of 24 countries by plain formulas: a sentence and a valid number for each."""

import random
import string

DIGITS = string.digits


def luhn_digit(digits: str) -> str:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (2 if place % 2 == 0 else 1)
        total += number - 9 if number > 9 else number
    return str(-total % 10)


def number(draw: random.Random, size: int) -> str:
    return "".join(draw.choice(DIGITS) for _ in range(size))


def word(draw: random.Random, size: int, alphabet: str = string.ascii_letters + DIGITS) -> str:
    return "".join(draw.choice(alphabet) for _ in range(size))


def day(draw: random.Random) -> tuple[int, int, int]:
    return draw.randint(50, 99), draw.randint(1, 12), draw.randint(1, 28)


def us_ssn(draw):
    return "SSN: {national_id}", f"{draw.randint(100, 660)}-{draw.randint(10, 99)}-{draw.randint(1000, 9999)}"


def uk_nino(draw):
    body = number(draw, 6)
    value = "JM" + body + "C" if draw.random() < 0.5 else f"JM {body[:2]} {body[2:4]} {body[4:]} C"
    return "National Insurance number {national_id}", value


def uk_nhs(draw):
    while True:
        digits = number(draw, 9)
        check = (11 - sum(int(one) * (10 - place) for place, one in enumerate(digits)) % 11) % 11
        if check < 10:
            return "NHS number: {national_id}", f"{digits[:3]} {digits[3:6]} {digits[6:]}{check}"


def de_steuer(draw):
    digits = [str(one) for one in draw.sample(range(1, 10), 9)]
    digits.insert(draw.randint(1, 9), digits[0])
    product = 10
    for digit in digits:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    text = "".join(digits) + str((11 - product) % 10)
    return "Steuer-ID: {national_id}", f"{text[:2]} {text[2:5]} {text[5:8]} {text[8:]}"


def fr_nir(draw):
    year, month, _ = day(draw)
    body = (
        f"{draw.choice('12')}{year:02}{month:02}{draw.randint(10, 89)}{draw.randint(100, 899)}{draw.randint(100, 999)}"
    )
    key = 97 - int(body) % 97
    parts = (body[:1], body[1:3], body[3:5], body[5:7], body[7:10], body[10:13], f"{key:02}")
    return "N° de sécurité sociale {national_id}", " ".join(parts)


def es_dni(draw):
    digits = f"{draw.randint(1, 9)}{number(draw, 7)}"
    return "con DNI {national_id} y", digits + "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23]


def nl_bsn(draw):
    while True:
        digits = f"{draw.randint(1, 9)}{number(draw, 7)}"
        check = sum(int(one) * (9 - place) for place, one in enumerate(digits)) % 11
        if check < 10:
            return "BSN: {national_id}", digits + str(check)


def be_nn(draw):
    year, month, date = day(draw)
    serial = draw.randint(1, 997)
    check = 97 - int(f"{year:02}{month:02}{date:02}{serial:03}") % 97
    return "{national_id}", f"{year:02}.{month:02}.{date:02}-{serial:03}.{check:02}"


def pl_pesel(draw):
    year, month, date = day(draw)
    body = f"{year:02}{month:02}{date:02}{number(draw, 4)}"
    total = sum(int(one) * weight for one, weight in zip(body, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3), strict=True))
    return "PESEL {national_id}", body + str(-total % 10)


def se_pnr(draw):
    year, month, date = day(draw)
    body = f"{year:02}{month:02}{date:02}{number(draw, 3)}"
    return "Personnummer: {national_id}", f"{body[:6]}-{body[6:]}{luhn_digit(body)}"


def fi_hetu(draw):
    year, month, date = day(draw)
    body, serial = f"{date:02}{month:02}{year:02}", f"{draw.randint(2, 899):03}"
    return "Henkilötunnus {national_id}", f"{body}-{serial}{'0123456789ABCDEFHJKLMNPRSTUVWXY'[int(body + serial) % 31]}"


def br_cpf(draw):
    digits = number(draw, 9)
    for size in (10, 11):
        rest = sum(int(one) * (size - place) for place, one in enumerate(digits)) * 10 % 11 % 10
        digits += str(rest)
    return "CPF {national_id}", f"{digits[:3]}.{digits[3:6]}.{digits[6:9]}-{digits[9:]}"


def br_cnpj(draw):
    digits = number(draw, 8) + "0001"
    for weights in ((5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2), (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)):
        rest = sum(int(one) * weight for one, weight in zip(digits, weights, strict=True)) % 11
        digits += str(0 if rest < 2 else 11 - rest)
    return "CNPJ: {national_id}", f"{digits[:2]}.{digits[2:5]}.{digits[5:8]}/{digits[8:12]}-{digits[12:]}"


def in_aadhaar(draw):
    multiply = [[(a + b) % 5 if a < 5 and b < 5 else 0 for b in range(10)] for a in range(10)]
    for a in range(10):
        for b in range(10):  # the dihedral group of order 10
            if a < 5 and b < 5:
                multiply[a][b] = (a + b) % 5
            elif a < 5:
                multiply[a][b] = (a + b - 5) % 5 + 5
            elif b < 5:
                multiply[a][b] = (a - 5 - b) % 5 + 5
            else:
                multiply[a][b] = (a - b) % 5
    turn = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4]
    digits = f"{draw.randint(2, 9)}{number(draw, 10)}"
    for last in DIGITS:
        value = 0
        for place, digit in enumerate(reversed(digits + last)):
            turned = int(digit)
            for _ in range(place % 8):
                turned = turn[turned]
            value = multiply[value][turned]
        if value == 0:
            text = digits + last
            return "Aadhaar no. {national_id}", f"{text[:4]} {text[4:8]} {text[8:]}"
    raise AssertionError


def in_pan(draw):
    return "PAN: {national_id}", word(draw, 3, string.ascii_uppercase) + "P" + word(draw, 1, "ABCDE") + number(
        draw, 4
    ) + "K"


def cn_id(draw):
    year, month, date = day(draw)
    body = f"110105{1900 + year}{month:02}{date:02}{number(draw, 3)}"
    total = sum(int(one) * pow(2, 17 - place, 11) for place, one in enumerate(body))
    return "身份证号：{national_id}", body + "10X98765432"[total % 11]


def tr_kimlik(draw):
    digits = [int(one) for one in f"{draw.randint(1, 9)}{number(draw, 8)}"]
    digits.append((7 * sum(digits[::2]) - sum(digits[1::2])) % 10)
    digits.append(sum(digits) % 10)
    return "T.C. Kimlik No: {national_id}", "".join(map(str, digits))


def ca_sin(draw):
    digits = f"{draw.randint(1, 7)}{number(draw, 7)}"
    text = digits + luhn_digit(digits)
    return "SIN {national_id}", f"{text[:3]} {text[3:6]} {text[6:]}"


def au_tfn(draw):
    while True:
        digits = number(draw, 9)
        if sum(int(one) * weight for one, weight in zip(digits, (1, 4, 3, 7, 5, 8, 6, 9, 10), strict=True)) % 11 == 0:
            return "TFN: {national_id}", f"{digits[:3]} {digits[3:6]} {digits[6:]}"


def za_id(draw):
    year, month, date = day(draw)
    body = f"{year:02}{month:02}{date:02}{number(draw, 4)}08"
    return "ID number {national_id}", body + luhn_digit(body)


def cl_rut(draw):
    digits = f"{draw.randint(5, 25)}{number(draw, 6)}"
    total = sum(int(one) * (2, 3, 4, 5, 6, 7)[place % 6] for place, one in enumerate(reversed(digits)))
    check = "0K987654321"[total % 11]
    return "RUT: {national_id}", f"{int(digits):,}".replace(",", ".") + f"-{check}"


def ch_ahv(draw):
    body = f"756{number(draw, 9)}"
    check = -sum(int(one) * (1, 3)[place % 2] for place, one in enumerate(body)) % 10
    return "AHV-Nr. {national_id}", f"{body[:3]}.{body[3:7]}.{body[7:11]}.{body[11:]}{check}"


def kr_rrn(draw):
    year, month, date = day(draw)
    body = f"{year:02}{month:02}{date:02}1{number(draw, 5)}"
    total = sum(int(one) * weight for one, weight in zip(body, (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5), strict=True))
    return "주민등록번호 {national_id}", f"{body[:6]}-{body[6:]}{(11 - total % 11) % 10}"


def dk_cpr(draw):
    year, month, date = day(draw)
    return "CPR-nr. {national_id}", f"{date:02}{month:02}{year:02}-{number(draw, 4)}"


MAKERS = (
    us_ssn,
    uk_nino,
    uk_nhs,
    de_steuer,
    fr_nir,
    es_dni,
    nl_bsn,
    be_nn,
    pl_pesel,
    se_pnr,
    fi_hetu,
    br_cpf,
    br_cnpj,
    in_aadhaar,
    in_pan,
    cn_id,
    tr_kimlik,
    ca_sin,
    au_tfn,
    za_id,
    cl_rut,
    ch_ahv,
    kr_rrn,
    dk_cpr,
)
