"""Keccak-256 as Ethereum uses it: SHA-3 with the padding from before the standard, which hashlib does not have."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit

Array = np.ndarray[Any, Any]

_RATE = 136
_ROTATIONS = np.array(
    [0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14], np.uint64
)


def _round_constants() -> Array:
    """Returns the constants of the shift register of the specification (FIPS 202, section 3.2.5)."""
    register, made = 1, []
    # One constant for each round.
    for _ in range(24):
        value = 0
        # Seven bits at places 2^k - 1, from the shift register.
        for power in range(7):
            if register & 1:
                value |= 1 << ((1 << power) - 1)
            register <<= 1
            if register & 0x100:
                register ^= 0x171
        made.append(value)
    return np.array(made, np.uint64)


_CONSTANTS = _round_constants()


@njit(nogil=True, cache=True)
def _turned(value: np.uint64, by: np.uint64) -> np.uint64:
    return (value << by | value >> (np.uint64(64) - by)) if by else value


@njit(nogil=True, cache=True)
def _keccak(message: Array, state: Array, columns: Array, moved: Array) -> None:
    # Fill the block: the message, then a 1 bit, zeros, and a last 1 bit.
    for place in range(_RATE):
        byte = np.uint64(message[place]) if place < len(message) else np.uint64(0)
        if place == len(message):
            byte = np.uint64(1)
        if place == _RATE - 1:
            byte |= np.uint64(0x80)
        state[place // 8] ^= byte << np.uint64(8 * (place % 8))
    # 24 rounds.
    for turn in range(24):
        for x in range(5):
            columns[x] = state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20]
        # Theta: mix each lane with two columns.
        for at in range(25):
            x = at % 5
            state[at] ^= columns[(x + 4) % 5] ^ _turned(columns[(x + 1) % 5], np.uint64(1))
        # Rho and pi: rotate the lanes and move them.
        for at in range(25):
            x, y = at % 5, at // 5
            moved[y + 5 * ((2 * x + 3 * y) % 5)] = _turned(state[at], _ROTATIONS[at])
        # Chi: the only step that is not linear.
        for at in range(25):
            row = at - at % 5
            state[at] = moved[at] ^ (~moved[row + (at + 1) % 5] & moved[row + (at + 2) % 5])
        state[0] ^= _CONSTANTS[turn]


def keccak_256(message: bytes) -> bytes:
    """Hashes a message of less than 136 bytes."""
    if len(message) >= _RATE:
        raise ValueError(f"one block holds {_RATE - 1} bytes, and the message has {len(message)}")
    state = np.zeros(25, np.uint64)
    _keccak(np.frombuffer(message, np.uint8), state, np.empty(5, np.uint64), np.empty(25, np.uint64))
    return state[:4].astype("<u8").tobytes()
