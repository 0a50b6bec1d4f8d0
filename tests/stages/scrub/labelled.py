"""A labelled set: texts with personal data in the formats of 23 countries, and with what only looks like it.

Every value is made: check digits are computed by plain formulas (here and in made_ids.py), numbers are of ranges that
are reserved for films where a country has one, or random. No value belongs to a person.
"""

import hashlib
import random
import string
import zlib
from pathlib import Path
from typing import NamedTuple

from tests.stages.scrub.made_ids import MAKERS, luhn_digit, number, word

LETTERS, DIGITS = string.ascii_letters, string.digits


class Labelled(NamedTuple):
    text: str
    spans: tuple[tuple[int, int, str], ...]
    """Start, stop (in bytes) and type of the expected findings."""
    language: str = "en"
    url: str | None = None


def made(template: str, language: str = "en", url: str | None = None, **values: str) -> Labelled:
    """`{email}` in a template is a value of that type; `{card_2}` is another one."""
    text, spans = "", []
    for before, name, _, _ in string.Formatter().parse(template):
        text += before
        if name is not None:
            start = len(text.encode())
            text += values[name]
            kind = name.rstrip(DIGITS).rstrip("_")
            spans.append((start, len(text.encode()), kind))
    return Labelled(text, tuple(spans), language, url)


# ---- e-mail


DOMAINS = (
    *("gmail.com", "web.de", "orange.fr", "libero.it", "correo.es", "uol.com.br", "mail.ru", "qq.com", "163.com"),
    *("yahoo.co.jp", "naver.com", "bigpond.net.au", "shaw.ca", "rediffmail.com", "ziggo.nl", "onet.pl", "telia.se"),
    *(
        "cs.stanford.edu",
        "nhs.net",
        "gov.uk",
        "mweb.co.za",
        "müller-bau.de",
        "почта.рф",
        "xn--mller-kva.de",
        "startup.io",
    ),
)
NAMES = (
    *("anna.schmidt", "j.doe", "maria_garcia", "lee+news", "o'hara", "info", "sales-team", "x", "k.van.den.berg42"),
    *("JOHN.SMITH", "first.last", "user123", "a-b_c.d", "li.wei"),
)
EMAIL_TEMPLATES = (
    "Please write to {email}.",
    "{email}",
    "Kontakt: <{email}>, wir antworten gern.",
    "mailto:{email}?subject=hello",
    'href="mailto:{email}">',
    "联系我们：{email}。谢谢",
    "({email})",
    "cc {email}, {email_2}; bcc {email_3}",
    "| name | {email} |",
    "Author: A. Person <{email}>\nDate: Mon",
    "Fragen an {email}\nTel",
    "From:{email}\r\n",
    "https://site.net/unsubscribe?email={email}&x=1",
)


def emails(draw: random.Random) -> list[Labelled]:
    found = []
    for place in range(260):
        values = [f"{draw.choice(NAMES)}@{draw.choice(DOMAINS)}" for _ in range(3)]
        template = EMAIL_TEMPLATES[place % len(EMAIL_TEMPLATES)]
        found.append(made(template, email=values[0], email_2=values[1], email_3=values[2]))
    return found


# ---- IP addresses


def ips(draw: random.Random) -> list[Labelled]:
    templates = (
        "The client connected from {ip} twice.",
        '{ip} - - [10/Oct/2023:13:55:36 +0000] "GET / HTTP/1.1" 200',
        "Last login: Mon from {ip}",
        "ssh root@{ip}",
        "http://{ip}:8080/index.html",
        "Banned: {ip}, {ip_2} and {ip_3}.",
        "Server-IP: {ip}",
        "{ip}\n{ip_2}\n",
        '"remote_addr": "{ip}"',
        "von {ip} aus",
    )
    found = []
    for place in range(200):
        values = [public_v4(draw) if draw.random() < 0.7 else public_v6(draw) for _ in range(3)]
        if place % 10 in (3, 4):
            values[0] = public_v4(draw)
        found.append(made(templates[place % len(templates)], ip=values[0], ip_2=values[1], ip_3=values[2]))
    return found


def public_v4(draw: random.Random) -> str:
    first = draw.choice([5, 23, 31, 37, 45, 62, 77, 80, 91, 109, 128, 151, 178, 185, 193, 201, 212, 217])
    return f"{first}.{draw.randint(33, 250)}.{draw.randint(0, 255)}.{draw.randint(1, 254)}"


def public_v6(draw: random.Random) -> str:
    first = draw.choice(["2a00", "2a02", "2001:470", "2600", "2404:6800", "2003"])
    groups = [f"{draw.randrange(1, 1 << 16):x}" for _ in range(7 - first.count(":"))]
    if draw.random() < 0.5:
        return ":".join([first, *groups])
    return f"{first}:{groups[0]}::{groups[1]}"


# ---- cards and IBANs


def cards(draw: random.Random) -> list[Labelled]:
    beginnings = {
        "4": 16,
        "51": 16,
        "55": 16,
        "2221": 16,
        "34": 15,
        "37": 15,
        "6011": 16,
        "36": 14,
        "3530": 16,
        "62": 16,
    }
    templates = ("Card number: {card}", "paid with Visa {card} on Monday", "tarjeta {card}", "{card} exp 12/27 CVV 123")
    found = []
    for place in range(200):
        begun, size = draw.choice(list(beginnings.items()))
        digits = begun + number(draw, size - len(begun) - 1)
        digits += luhn_digit(digits)
        if size == 16 and place % 3:
            mark = " " if place % 3 == 1 else "-"
            digits = mark.join(digits[at : at + 4] for at in range(0, 16, 4))
        elif size == 15 and place % 3:
            digits = f"{digits[:4]} {digits[4:10]} {digits[10:]}"
        found.append(made(templates[place % len(templates)], card=digits))
    return found


IBANS = {
    "DE": "d18",
    "FR": "d10w11d2",
    "GB": "A4d14",
    "ES": "d20",
    "IT": "A1d10w12",
    "NL": "A4d10",
    "PL": "d24",
    "SE": "d20",
    "BE": "d12",
    "AT": "d16",
    "CH": "d5w12",
    "PT": "d21",
    "NO": "d11",
    "DK": "d14",
    "FI": "d14",
    "BR": "d23A1w1",
    "SA": "d2w18",
    "AE": "d19",
    "TR": "d6w16",
    "GR": "d7w16",
}


def ibans(draw: random.Random) -> list[Labelled]:
    found = []
    for place in range(200):
        country, form = list(IBANS.items())[place % len(IBANS)]
        body = ""
        for part in _parts(form):
            body += word(draw, part[1], {"d": DIGITS, "A": string.ascii_uppercase, "w": DIGITS}[part[0]])
        moved = "".join(str(int(char, 36)) for char in body + country + "00")
        value = f"{country}{98 - int(moved) % 97:02}{body}"
        if place % 2:
            value = " ".join(value[at : at + 4] for at in range(0, len(value), 4))
        templates = ("IBAN: {iban}", "Bitte auf {iban} überweisen.", "{iban}", "compte n° {iban}, merci", "({iban})")
        found.append(made(templates[place % 5], iban=value))
    return found


def _parts(form: str) -> list[tuple[str, int]]:
    parts: list[tuple[str, int]] = []
    for char in form:
        if char.isalpha():
            parts.append((char, 0))
        else:
            parts[-1] = (parts[-1][0], parts[-1][1] * 10 + int(char))
    return parts


# ---- secrets


def base62(value: int) -> str:
    alphabet, text = DIGITS + string.ascii_uppercase + string.ascii_lowercase, ""
    for _ in range(6):
        value, digit = divmod(value, 62)
        text = alphabet[digit] + text
    return text


def secrets(draw: random.Random) -> list[Labelled]:
    hexes = "0123456789abcdef"
    urls = LETTERS + DIGITS + "_-"

    def checked(prefix: str) -> str:
        body = word(draw, 30)
        return f"{prefix}{body}{base62(zlib.crc32(body.encode()))}"

    makers = (
        lambda: "AKIA" + word(draw, 16, string.ascii_uppercase + "234567"),
        lambda: checked("ghp_"),
        lambda: checked("ghs_"),
        lambda: checked("npm_"),
        lambda: "github_pat_" + word(draw, 22) + "_" + word(draw, 59),
        lambda: "glpat-" + word(draw, 20, urls[:-1]),
        lambda: "sk_live_" + word(draw, 24),
        lambda: f"xoxb-{number(draw, 12)}-{number(draw, 13)}-{word(draw, 24)}",
        lambda: "AIza" + word(draw, 34, urls) + "Q",
        lambda: f"SG.{word(draw, 21, urls)}a.{word(draw, 42, urls)}b",
        lambda: "sk-ant-api03-" + word(draw, 93, urls) + "AA",
        lambda: "sk-proj-" + word(draw, 48),
        lambda: "hf_" + word(draw, 34, LETTERS),
        lambda: "dop_v1_" + word(draw, 64, hexes),
        lambda: "shpat_" + word(draw, 32, hexes),
        lambda: "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI" + word(draw, 30) + "." + word(draw, 43, urls[:-1]),
        lambda: "dckr_pat_" + word(draw, 27, urls[:-1]),
        lambda: "hvs." + word(draw, 24, urls[:-1]),
    )
    templates = (
        "token = '{secret}'",
        "export API_TOKEN={secret}",
        "Authorization: Bearer {secret}",
        '"key": "{secret}",',
        "curl -u {secret}: https://api.site.net",
        "my key is {secret} keep it safe",
        "{secret}\n",
    )
    found = [made(templates[place % 7], secret=makers[place % len(makers)]()) for place in range(252)]
    for _ in range(12):
        body = "\n".join(word(draw, 64, LETTERS + DIGITS + "+/") for _ in range(6))
        kind = draw.choice(["RSA ", "EC ", "", "OPENSSH "])
        key = f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"
        found.append(made("key:\n{secret}\nend", secret=key))
        found.append(made("git clone https://deploy:{secret}@git.site.net/a.git", secret=word(draw, 12)))
        found.append(made("postgres://app:{secret}@db.internal-net.com:5432/x", secret=word(draw, 16)))
        secret = word(draw, 40, LETTERS + DIGITS + "/+")
        found.append(made("aws_secret_access_key = {secret}", secret=secret))
        key = word(draw, 86, LETTERS + DIGITS + "+/") + "=="
        found.append(
            made("DefaultEndpointsProtocol=https;AccountName=a;AccountKey={secret};EndpointSuffix=x", secret=key)
        )
    return found


# ---- phones: formats as they are written, in their languages; `#` is a digit

PHONES = Path(__file__).with_name("phones.txt").read_text(encoding="utf-8").splitlines()
"""A line for each country: its code, its language, and forms of numbers."""
PHONE_WORDS = {
    "en": ("Call us on {phone} today.", "Phone: {phone}", "{phone}", "My cell is {phone}, ask for Sam."),
    "de": ("Telefon: {phone}", "Rufen Sie {phone} an.", "Tel. {phone}, Fax auf Anfrage", "Hotline {phone}"),
    "fr": ("Tél. : {phone}", "Appelez le {phone} !", "{phone} (bureau)"),
    "es": ("Teléfono: {phone}", "Llame al {phone}.", "Móvil {phone}"),
    "it": ("Telefono: {phone}", "Chiamare il {phone}", "cell. {phone}"),
    "nl": ("Telefoon: {phone}", "Bel {phone} voor meer", "{phone} (kantoor)"),
    "pl": ("Telefon: {phone}", "tel. {phone}"),
    "sv": ("Telefon: {phone}", "Ring {phone} idag"),
    "pt": ("Telefone: {phone}", "Ligue {phone} agora"),
    "ja": ("電話：{phone}", "TEL {phone}（代表）"),
    "zh": ("电话：{phone}", "手机 {phone}，欢迎来电"),
    "tr": ("Telefon: {phone}", "Tel: {phone}"),
    "ko": ("전화: {phone}", "TEL {phone}"),
    "ru": ("Телефон: {phone}", "тел. {phone}"),
}


def phones(draw: random.Random) -> list[Labelled]:
    found = []
    for country, language, forms in (line.split(" ", 2) for line in PHONES):
        for form in forms.split(" | "):
            for template in PHONE_WORDS[language]:
                value = "".join(draw.choice(DIGITS) if char == "#" else char for char in form)
                host = {"GB": "uk", "US": "com"}.get(country, country.lower())
                url = f"https://www.firma.{host}/kontakt"
                found.append(made(template, language, url, phone=value))
    return found


# ---- national ids


def national_ids(draw: random.Random) -> list[Labelled]:
    found = []
    for _ in range(6):
        for maker in MAKERS:
            template, value = maker(draw)
            found.append(made(template, national_id=value))
    return found


# ---- wallets


def wallets(draw: random.Random) -> list[Labelled]:
    found = []
    for _ in range(30):
        raw = b"\0" + draw.randbytes(20)
        value = int.from_bytes(raw + hashlib.sha256(hashlib.sha256(raw).digest()).digest()[:4], "big")
        alphabet, text = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", ""
        while value:
            value, digit = divmod(value, 58)
            text = alphabet[digit] + text
        found.append(made("BTC: {wallet}", wallet="1" + text))
    known = ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359")  # EIP-55
    found += [made("Send to {wallet}!", wallet=one) for one in known]
    segwit = (
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
    )
    return found + [made("donate: {wallet}", wallet=one) for one in segwit]  # BIP 173, BIP 350


# ---- decoys


def decoys(draw: random.Random) -> list[Labelled]:
    hexes = "0123456789abcdef"
    listed = Path(__file__).with_name("decoys.txt").read_text(encoding="utf-8").splitlines()
    found = [Labelled(text.replace("\\n", "\n"), ()) for text in listed]
    for _ in range(40):
        found.append(Labelled(f"commit {word(draw, 40, hexes)}", ()))
        found.append(Labelled(f"md5 {word(draw, 32, hexes)} sha256 {word(draw, 64, hexes)}", ()))
        values = [f"{word(draw, size, hexes)}" for size in (8, 4, 4, 4, 12)]
        found.append(Labelled("-".join(values), ()))
        found.append(Labelled(f"{draw.uniform(-90, 90):.6f}, {draw.uniform(-180, 180):.6f}", ()))
        found.append(Labelled(f"x = {number(draw, draw.randint(6, 19))};", ()))
        found.append(
            Labelled(
                f"release {draw.randint(0, 9)}.{draw.randint(0, 30)}.{draw.randint(0, 99)}.{draw.randint(0, 255)}", ()
            )
        )
        found.append(Labelled(f"| {number(draw, 4)} | {number(draw, 6)} | {number(draw, 3)}.{number(draw, 2)} |", ()))
        date = f"{draw.randint(1, 28):02}.{draw.randint(1, 12):02}.{draw.randint(1950, 2025)}"
        found.append(Labelled(f"{date} {draw.randint(10, 23)}:30", ()))
    return found


def labelled(seed: int = 16) -> list[Labelled]:
    """The whole set."""
    draw = random.Random(seed)
    kinds = (emails, ips, cards, ibans, secrets, phones, national_ids, wallets, decoys)
    return [one for kind in kinds for one in kind(draw)]
