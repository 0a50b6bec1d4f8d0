"""Mutations of a file: some fit any file, some follow the meaning of its bytes."""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

MOST_BYTES = 1 << 15
"""Inputs stay small, because a fuzzer depends on the number of tries."""

_NUMBER = re.compile(rb"\d+")
_NUMBERS = (
    b"0",
    b"1",
    b"-1",
    b"65535",
    b"65536",
    b"2147483648",
    b"4294967296",
    b"9223372036854775808",
    b"1e999",
    b"9" * 40,
)
_SIZES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 62, (1 << 64) - 1)


def _place(draw: random.Random, data: bytes) -> int:
    return draw.randrange(len(data) + 1)


def _span(draw: random.Random, data: bytes) -> tuple[int, int]:
    at = _place(draw, data)
    return at, min(len(data), at + draw.choice((1, 1, 2, 4, 8, 30, 100, 500, 3000)))


def flip(draw: random.Random, data: bytes) -> bytes:
    if not data:
        return bytes([draw.randrange(256)])
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 4, 16))):
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def overwrite(draw: random.Random, data: bytes) -> bytes:
    at, end = _span(draw, data)
    filler = draw.choice((bytes(end - at), b"\xff" * (end - at), draw.randbytes(end - at), b"\n" * (end - at)))
    return data[:at] + filler + data[end:]


def cut(draw: random.Random, data: bytes) -> bytes:
    at, end = _span(draw, data)
    return draw.choice((data[:at], data[at:], data[:at] + data[end:], data[:at] + data[end:]))


def repeat(draw: random.Random, data: bytes) -> bytes:
    at, end = _span(draw, data)
    return data[:end] + data[at:end] * draw.choice((1, 1, 2, 8, 100)) + data[end:]


def swap(draw: random.Random, data: bytes) -> bytes:
    a, b, c = sorted(_place(draw, data) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def change_number(draw: random.Random, data: bytes) -> bytes:
    """Changes a number that is written in digits."""
    found = list(_NUMBER.finditer(data[:MOST_BYTES]))
    if not found:
        return flip(draw, data)
    one = draw.choice(found)
    near = str(int(one[0][:18]) + draw.choice((-1, 1))).encode()
    return data[: one.start()] + draw.choice((near, *_NUMBERS)) + data[one.end() :]


def change_size(draw: random.Random, data: bytes) -> bytes:
    """Changes a number that is written in bytes, like lengths and offsets in binary formats."""
    width = draw.choice((2, 4, 8))
    at = draw.randrange(max(len(data) - width, 1))
    value = int.from_bytes(data[at : at + width], "little") + draw.choice((-1, 1, 256))
    value = draw.choice((value, *_SIZES)) & ((1 << 8 * width) - 1)
    return data[:at] + value.to_bytes(width, draw.choice(("little", "big"))) + data[at + width :]


ANY_FILE: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    flip,
    flip,
    overwrite,
    cut,
    repeat,
    swap,
    change_number,
    change_size,
)


def insert(draw: random.Random, data: bytes, words: Sequence[bytes]) -> bytes:
    at, end = _span(draw, data)
    word = draw.choice(words) * draw.choice((1, 1, 1, 2, 20, 300))
    return data[:at] + word + data[draw.choice((at, at, end)) :]


def splice(draw: random.Random, data: bytes, other: bytes) -> bytes:
    """The start of one file and the end of another, or a passage of one inserted into the other."""
    at, (begin, end) = _place(draw, data), _span(draw, other)
    return draw.choice((data[:at] + other[begin:], data[:at] + other[begin:end] + data[at:]))


def mutated(draw: random.Random, data: bytes, words: Sequence[bytes] = (), others: Sequence[bytes] = ()) -> bytes:
    """Makes one change that fits any file."""
    chance = draw.random()
    if words and chance < 0.3:
        made = insert(draw, data, words)
    elif others and chance < 0.4:
        made = splice(draw, data, draw.choice(others))
    else:
        made = draw.choice(ANY_FILE)(draw, data)
    return made[:MOST_BYTES]


_HOSTILE: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 0.5, 1e308, float("inf"), float("nan"), "", "x", "0", "\ud800",
    "\0", [], {}, [[]], {"": None}, [0] * 300,
)  # fmt: skip


def change_json(draw: random.Random, data: bytes) -> bytes:
    """Replaces a value somewhere in a JSON file by another that is also JSON."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return flip(draw, data)
    for _ in range(draw.choice((1, 1, 2, 3))):
        value = _changed(draw, value)
    return json.dumps(value, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")


def _changed(draw: random.Random, value: Any) -> Any:
    if not value or not isinstance(value, dict | list) or draw.random() < 0.1:
        return draw.choice((*_HOSTILE, _near(draw, value), [value], {"a": value}))
    if isinstance(value, list):
        at = draw.randrange(len(value))
        what = draw.random()
        if what < 0.15:
            return value[:at] + value[at + 1 :]
        if what < 0.3:
            return [*value[:at], *[value[at]] * draw.choice((2, 2, 50)), *value[at + 1 :]]
        return [*value[:at], _changed(draw, value[at]), *value[at + 1 :]]
    name = draw.choice(list(value))
    what = draw.random()
    if what < 0.15:
        return {key: item for key, item in value.items() if key != name}
    if what < 0.25:
        return {(key + draw.choice(("x", "\0", "")) if key == name else key): item for key, item in value.items()}
    if what < 0.35:
        return {**value, name: value[draw.choice(list(value))]}
    return {**value, name: _changed(draw, value[name])}


def _near(draw: random.Random, value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        if value.bit_length() > 1000:  # a larger one is not a float, and soon has more digits than Python writes
            return draw.choice((-value, value >> 500, str(value)))
        return draw.choice(
            (value + 1, value - 1, -value, value * 2 ** draw.choice((1, 16, 32)), float(value), str(value))
        )
    if isinstance(value, str):
        return draw.choice((value + value, value[1:], value.upper(), value * 500))
    return value
