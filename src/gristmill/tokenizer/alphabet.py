"""The alphabet of byte-level tokenizers: a printable character for each byte (GPT-2, `bytes_to_unicode`).

Bytes that are printable in Latin-1 map to themselves, the others to the characters from U+0100 on, in order.
"""

from gristmill.kernels.bpe.train import byte_order

_ORDER = byte_order().tolist()
_SHOWN = 188
"""Bytes that map to themselves; they come first in the order."""

CHARACTERS = {byte: chr(byte if index < _SHOWN else 0x100 + index - _SHOWN) for index, byte in enumerate(_ORDER)}
_BYTES = dict.fromkeys(range(256), "\uffff") | {ord(shown): chr(byte) for byte, shown in CHARACTERS.items()}
"""Code points of the alphabet -> the byte as a Latin-1 character; other Latin-1 characters -> U+FFFF."""


def to_text(token: bytes) -> str:
    """The spelling of a token in a `tokenizer.json`."""
    return "".join(CHARACTERS[byte] for byte in token)


def spelled_bytes(text: str) -> bytes | None:
    """The bytes of a spelled token; None if a character is not in the alphabet."""
    try:
        return text.translate(_BYTES).encode("latin-1")
    except UnicodeEncodeError:
        return None


def to_bytes(text: str) -> bytes:
    """The bytes of a token as the library decodes it: a token outside the alphabet is its own UTF-8."""
    found = spelled_bytes(text)
    return text.encode() if found is None else found
