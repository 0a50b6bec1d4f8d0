"""Whether bytes are UTF-8, against Python's decoder."""

from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.text.utf8 import continuation_bytes


def by_python(data: bytes) -> int:
    try:
        return len(data) - len(data.decode())
    except UnicodeDecodeError:
        return -1


# Bytes at which the rules change: first and last of each kind of lead and of what may follow it.
EDGES = b"\x00\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff"


@given(st.lists(st.sampled_from(EDGES), max_size=8).map(bytes), st.integers(0, 70))
@example(b"\xed\xa0\x80", 31)
@example(b"\xf4\x90\x80\x80", 0)
@example(b"\xe2\x82", 30)
def test_bytes_at_the_edges_of_the_rules(data: bytes, before: int) -> None:
    """Overlong forms, surrogates, code points beyond Unicode and truncated ones, at every position of a block of 32
    bytes.
    """
    for whole in (data, b"a" * before + data, b"a" * before + data + b"b" * 40):
        assert continuation_bytes(whole) == by_python(whole)


@given(st.text(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_text_with_a_byte_exchanged(text: str, at: int, byte: int) -> None:
    """Text of any script is counted as Python counts it, also with a damaged byte."""
    data = text.encode()
    assert continuation_bytes(data) == len(data) - len(text)
    damaged = bytearray(data)
    if damaged:
        damaged[at % len(damaged)] = byte
        assert continuation_bytes(bytes(damaged)) == by_python(bytes(damaged))


def test_every_character() -> None:
    """All of Unicode, in its order."""
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    assert continuation_bytes(text.encode()) == len(text.encode()) - len(text)
