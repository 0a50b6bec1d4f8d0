"""The alphabet of byte-level tokenizers: a printable character for each byte (GPT-2, `bytes_to_unicode`).

Bytes that Latin-1 can print stand for themselves, the others take the characters from U+0100 on, in order.
"""

from gristmill.kernels.bpe.train import byte_order

_ORDER = byte_order().tolist()
_SHOWN = 188
"""Bytes that stand for themselves; they come first in the order."""

CHARACTERS = {byte: chr(byte if place < _SHOWN else 0x100 + place - _SHOWN) for place, byte in enumerate(_ORDER)}
_BYTES = dict.fromkeys(range(256), "\uffff") | {ord(shown): chr(byte) for byte, shown in CHARACTERS.items()}
"""Characters of the alphabet by their code: the byte, as the character of its number; others of Latin-1 as none."""


def to_text(token: bytes) -> str:
    """How a token is spelled in a `tokenizer.json`."""
    return "".join(CHARACTERS[byte] for byte in token)


def spelled_bytes(text: str) -> bytes | None:
    """The bytes that a token is spelled with; None where a character is not of the alphabet."""
    try:
        return text.translate(_BYTES).encode("latin-1")
    except UnicodeEncodeError:
        return None


def to_bytes(text: str) -> bytes:
    """The bytes of a token as the library decodes it: one that is not of the alphabet stands for itself."""
    found = spelled_bytes(text)
    return text.encode() if found is None else found
