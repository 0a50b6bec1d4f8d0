"""Check digits: whether a string of digits (or letters) can be what it looks like."""

import hashlib
from collections.abc import Callable
from functools import partial

_VALUES = bytes.maketrans(b"0123456789", bytes(range(10)))
_DOUBLED = bytes.maketrans(bytes(range(10)), bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)))
_VERHOEFF = (
    *("0123456789", "1234067895", "2340178956", "3401289567", "4012395678"),
    *("5987604321", "6598710432", "7659821043", "8765932104", "9876543210"),
)
_VERHOEFF_TURNS = (
    *("0123456789", "1576283094", "5803796142", "8916043527"),
    *("9453126870", "4286573901", "2793806415", "7046913258"),
)
_BASE58 = {byte: at for at, byte in enumerate(b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")}
_RIPPLE = {byte: at for at, byte in enumerate(b"rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz")}
_BECH32 = {byte: at for at, byte in enumerate(b"qpzry9x8gf2tvdw0s3jn54khce6mua7l")}
_CODICE_ODD = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
_CURP = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"

Check = Callable[[str], bool]
"""Whether digits and capitals, without separators, pass."""


def luhn(digits: str) -> bool:
    """ISO/IEC 7812: every second digit from the right is doubled, and the sum of all digits ends in 0."""
    data = digits.encode().translate(_VALUES)
    return (sum(data[-1::-2]) + sum(data[-2::-2].translate(_DOUBLED))) % 10 == 0


def luhn_10(digits: str) -> bool:
    """The same for the last ten digits (Sweden: the century may be before them)."""
    return luhn(digits[-10:])


def mod_97(text: str) -> bool:
    """ISO 7064 (IBAN): with country and check digits moved to the end and letters as 10 to 35, the remainder is 1."""
    moved = text[4:] + text[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def mod_97_pair(digits: str) -> bool:
    """The last two digits complete the others to a multiple of 97 (France, Belgium, there with a 2 before it since
    2000).
    """
    number, check = int(digits[:-2]), int(digits[-2:])
    return check == 97 - number % 97 or (len(digits) == 11 and check == 97 - (2 * 10**9 + number) % 97)


def weighted(weights: tuple[int, ...], modulus: int, remainder: int, ten_is_0: bool, value: str) -> bool:
    """Whether the weighted sum of the last digits leaves the remainder. The check digit is the last with a weight."""
    numbers = [10 if char in "KX" else int(char) for char in value]
    total = sum(weight * number for weight, number in zip(weights[::-1], numbers[::-1], strict=False)) % modulus
    if ten_is_0 and total == 1:
        return numbers[-2 if weights[-1] == 0 else -1] == 0
    return total == remainder


def verhoeff(digits: str) -> bool:
    """Verhoeff 1969 (Aadhaar)."""
    value = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(_VERHOEFF[value][int(_VERHOEFF_TURNS[place % 8][int(digit)])])
    return value == 0


def steuer_id(digits: str) -> bool:
    """ISO 7064, hybrid mod 11, 10; one of the first ten digits occurs two or three times."""
    product = 10
    for digit in digits[:-1]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    most = max(digits[:10].count(digit) for digit in digits[:10])
    return (11 - product) % 10 == int(digits[-1]) and most in (2, 3)


def dni(value: str) -> bool:
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(value[:-1].translate(str.maketrans("XYZ", "012"))) % 23] == value[-1]


def hetu(value: str) -> bool:
    return "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(value[:9]) % 31] == value[9]


def rrn(digits: str) -> bool:
    total = sum((place % 8 + 2) * int(digit) for place, digit in enumerate(digits[:12]))
    return (11 - total % 11) % 10 == int(digits[12])


def codice_fiscale(value: str) -> bool:
    numbers = [int(char) if char.isdigit() else ord(char) - 65 for char in value[:15]]
    return chr(65 + (sum(_CODICE_ODD[number] for number in numbers[::2]) + sum(numbers[1::2])) % 26) == value[15]


def curp(value: str) -> bool:
    total = sum(_CURP.index(char) * (18 - place) for place, char in enumerate(value[:17]))
    return -total % 10 == int(value[17])


def base58check(text: bytes, ripple: bool = False) -> bool:
    """25 bytes, the last four of which are the start of a double SHA-256 of the others."""
    values = _RIPPLE if ripple else _BASE58
    number = 0
    for byte in text:
        if byte not in values:
            return False
        number = number * 58 + values[byte]
    if number >= 1 << 200:
        return False
    raw = number.to_bytes(25, "big")
    return hashlib.sha256(hashlib.sha256(raw[:21]).digest()).digest()[:4] == raw[21:]


def bech32(text: bytes) -> bool:
    """BIP 173 and, for later versions of the program, BIP 350."""
    text = text.lower()
    name, _, data = text.rpartition(b"1")
    if not name or len(data) < 7 or any(byte not in _BECH32 for byte in data):
        return False
    total = 1
    for value in [byte >> 5 for byte in name] + [0] + [byte & 31 for byte in name] + [_BECH32[byte] for byte in data]:
        top = total >> 25
        total = (total & 0x1FFFFFF) << 5 ^ value
        for bit, factor in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            total ^= factor if top >> bit & 1 else 0
    return total in (1, 0x2BC830A3)


_NAMED: dict[str, Check] = {
    check.__name__: check
    for check in (luhn, luhn_10, mod_97_pair, verhoeff, steuer_id, dni, hetu, rrn, codice_fiscale, curp)
}


def check_of(text: str) -> Check:
    """A check as the data file writes it: `luhn`, or `9 8 7 6 5 4 3 2 -1 mod 11 is 1`."""
    if text in _NAMED:
        return _NAMED[text]
    weights, _, rest = text.partition(" mod ")
    modulus, _, remainder = rest.partition(" is ")
    modulus, _, ten = modulus.partition("/")
    return partial(weighted, tuple(map(int, weights.split())), int(modulus), int(remainder or 0), ten == "10")
