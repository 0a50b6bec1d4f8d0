"""64 bytes at once are what they are one by one."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from gristmill.kernels.memory import view
from gristmill.kernels.memory_blocks import (
    _code_kinds,
    bytes_in,
    code_bits,
    code_bits_by,
    code_signs,
    wide_bits,
    word_bits,
)

BYTES = st.one_of(
    st.binary(min_size=65, max_size=80),
    st.lists(
        st.sampled_from(list(b"aZ_09 \n:;=()[]{|}~\x00\x08\x0e\x1f\x7f\x80\xff@`/")), min_size=65, max_size=80
    ).map(bytes),
)


@njit
def masks(data, at, low, span):
    text = view(data)
    return word_bits(text, at), wide_bits(text, at), bytes_in(text, at, 32, low, span), code_signs(text, at)


@given(BYTES, st.integers(0, 255), st.integers(1, 40))
def test_bits_and_counts_are_those_of_single_bytes(data, low, span):
    """Letters, bytes other than printable ASCII and white space, a range of bytes, and signs of code, one of which
    depends on the byte before.
    """
    at = len(data) - 64
    words, wide, within, signs = masks(np.frombuffer(data, np.uint8), at, low, span)
    block = data[at:]
    assert words == sum(1 << k for k, byte in enumerate(block) if re.match(rb"\w", bytes([byte]), re.ASCII))
    assert wide == sum(1 << k for k, byte in enumerate(block) if not (9 <= byte <= 13 or 32 <= byte < 127))
    assert within == sum(1 << k for k, byte in enumerate(block) if ((byte | 32) - low) % 256 < span)
    brackets = len(re.findall(rb"(?<=\w)[(\[]", data[at - 1 :], re.ASCII))
    assert signs == brackets + len(re.findall(rb"[;={|}]", block)) + 2 * len(
        re.findall(rb"(?<=:)[\r\n]", data[at - 1 :])
    )


@pytest.mark.parametrize("bits", [code_bits, code_bits_by(_code_kinds)], ids=["fast_here", "comparisons"])
def test_kinds_of_bytes_of_code_are_those_of_all_bytes(bits):
    """By tables, where the processor has them, and by comparisons, which every processor has."""

    @njit
    def masks(data, at):
        return bits(view(data), at)

    for at in range(0, 256, 64):
        block = [bytes([byte]) for byte in range(at, at + 64)]
        kinds = (rb"[\w\x80-\xff]", rb"[0-9]", rb"[\x00-\x20()]", rb"\n", rb"\.", rb"[\"#'/`]")
        expected = [sum(1 << k for k, one in enumerate(block) if re.match(kind, one, re.ASCII)) for kind in kinds]
        assert list(masks(np.arange(256, dtype=np.uint8), at)) == expected
