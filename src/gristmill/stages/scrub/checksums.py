"""Check digits: whether a string of digits (or letters) can be what it looks like."""

import hashlib

from gristmill.kernels.scrub.keccak import keccak_256

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


def luhn(digits: str) -> bool:
    """ISO/IEC 7812: every second digit from the right is doubled, and the sum of all digits ends in 0."""
    data = digits.encode().translate(_VALUES)
    return (sum(data[-1::-2]) + sum(data[-2::-2].translate(_DOUBLED))) % 10 == 0


def mod_97(text: str) -> bool:
    """ISO 7064 (IBAN): with country and check digits moved to the end and letters as 10 to 35, the remainder is 1."""
    moved = text[4:] + text[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def mod_11_10(digits: str) -> bool:
    """ISO 7064, hybrid: the German tax number."""
    product = 10
    for digit in digits[:-1]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(digits[-1])


def weighted(digits: str, weights: tuple[int, ...]) -> int:
    """The sum of digits times weights."""
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def verhoeff(digits: str) -> bool:
    """Verhoeff 1969 (Aadhaar)."""
    value = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(_VERHOEFF[value][int(_VERHOEFF_TURNS[place % 8][int(digit)])])
    return value == 0


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


def eip_55(digits: str) -> bool:
    """Whether the case of 40 hexadecimal digits matches their checksum."""
    hashed = keccak_256(digits.lower().encode()).hex()
    return all(char.isdigit() or char.isupper() == (int(hashed[place], 16) >= 8) for place, char in enumerate(digits))
