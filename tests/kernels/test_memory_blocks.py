"""64 bytes at once are what they are one by one."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from gristmill.kernels.memory import view
from gristmill.kernels.memory_blocks import bytes_in, wide_bits, word_bits

BYTES = st.one_of(
    st.binary(min_size=65, max_size=80),
    st.lists(
        st.sampled_from(list(b"aZ_09 \n:;=()[]{|}~\x00\x08\x0e\x1f\x7f\x80\xff@`/")), min_size=65, max_size=80
    ).map(bytes),
)


@njit
def masks(data, at, low, span):
    text = view(data)
    return word_bits(text, at), wide_bits(text, at), bytes_in(text, at, 32, low, span)


@given(BYTES, st.integers(0, 255), st.integers(1, 40))
def test_bits_are_those_of_single_bytes(data, low, span):
    """Letters, bytes other than printable ASCII and white space, and a range of bytes."""
    at = len(data) - 64
    words, wide, within = masks(np.frombuffer(data, np.uint8), at, low, span)
    block = data[at:]
    assert words == sum(1 << k for k, byte in enumerate(block) if re.match(rb"\w", bytes([byte]), re.ASCII))
    assert wide == sum(1 << k for k, byte in enumerate(block) if not (9 <= byte <= 13 or 32 <= byte < 127))
    assert within == sum(1 << k for k, byte in enumerate(block) if ((byte | 32) - low) % 256 < span)
