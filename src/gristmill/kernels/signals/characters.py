"""Signals of a document's bytes and characters: counts by class, byte entropy, an XML header."""

import math

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes
from gristmill.kernels.signals import columns
from gristmill.kernels.text.ascii import DOT, LF
from gristmill.kernels.text.unicode_classes import DIGIT, LETTER, NUMBER, SPACE, UPPER, UnicodeTables, class_of
from gristmill.kernels.text.words import decode

XML_HEADER = np.frombuffer(b"<?xml version=", np.uint8)
XML_HEADER_CHARS = 100  # BigCode searches the header in this many characters


@njit(nogil=True, cache=True)
def log2(value: float) -> float:
    """Returns the binary logarithm of a positive number with IEEE basic operations only: libm's last bit differs by
    machine.
    """
    mantissa, exponent = math.frexp(value)
    if mantissa < 0.7071067811865476:
        mantissa *= 2.0
        exponent -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    total = 0.0
    for k in range(10, -1, -1):  # |s| < 0.172: the omitted terms are below 1e-18
        total = total * square + 1.0 / (2 * k + 1)
    return exponent + 2.0 * s * total * 1.4426950408889634


@njit(nogil=True, cache=True)
def byte_entropy(histogram: npt.NDArray[np.int64], total: int) -> float:
    """Returns the Shannon entropy of the bytes, in bits per byte; 0 for an empty text."""
    if total == 0:
        return 0.0
    bits = 0.0
    # Sum of p * log(p), from counts.
    for byte in range(256):
        if histogram[byte]:
            bits += histogram[byte] * log2(float(histogram[byte]))
    return max(0.0, log2(float(total)) - bits / total)


@njit(nogil=True, cache=True)
def has_xml_header(data: Bytes, begin: int, end: int) -> bool:
    """Whether `<?xml version=` is entirely in the first 100 characters."""
    chars = 0
    stop = begin
    # Find the end of the first 100 characters.
    while stop < end and chars < XML_HEADER_CHARS:
        stop += 1
        while stop < end and data[stop] & 0xC0 == 0x80:
            stop += 1
        chars += 1
    # Compare at each position.
    for at in range(begin, stop - len(XML_HEADER) + 1):
        k = 0
        while k < len(XML_HEADER) and data[at + k] == XML_HEADER[k]:
            k += 1
        if k == len(XML_HEADER):
            return True
    return False


@njit(nogil=True, cache=True)
def count_characters(
    data: Bytes,
    begin: int,
    end: int,
    unicode: UnicodeTables,
    histogram: npt.NDArray[np.int64],
    row: npt.NDArray[np.int64],
) -> None:
    """Fills `histogram` with byte counts and `row` with the character signals."""
    histogram[:] = 0
    dots = 0
    ellipses = 0
    continuations = 0
    non_ascii = 0
    spaces = 0
    letters = 0
    numbers = 0
    digits = 0
    uppers = 0
    # One pass: the histogram, runs of dots, and the classes of characters outside ASCII.
    for at in range(begin, end):
        byte = data[at]
        histogram[byte] += 1
        if byte == DOT:
            dots += 1
            if dots == 3:
                ellipses += 1
                dots = 0
            continue
        dots = 0
        if byte >= 0x80:
            if byte < 0xC0:
                continuations += 1
                continue
            point, _ = decode(data, at, end)
            bits = class_of(unicode, point)
            non_ascii += 1
            ellipses += 1 if point == 0x2026 else 0
            spaces += 1 if bits & SPACE else 0
            letters += 1 if bits & LETTER else 0
            numbers += 1 if bits & NUMBER else 0
            digits += 1 if bits & DIGIT else 0
            uppers += 1 if bits & UPPER else 0
    # The classes of ASCII characters follow from the histogram.
    for byte in range(128):
        count = histogram[byte]
        if count:
            bits = unicode.classes[byte]
            spaces += count if bits & SPACE else 0
            letters += count if bits & LETTER else 0
            numbers += count if bits & NUMBER else 0
            digits += count if bits & DIGIT else 0
            uppers += count if bits & UPPER else 0
    row[columns.BYTES] = end - begin
    row[columns.CHARS] = end - begin - continuations
    row[columns.NON_ASCII_CHARS] = non_ascii
    row[columns.SPACE_CHARS] = spaces
    row[columns.LETTER_CHARS] = letters
    row[columns.ALNUM_CHARS] = letters + numbers
    row[columns.DIGIT_CHARS] = digits
    row[columns.UPPER_CHARS] = uppers
    row[columns.OPEN_BRACES] = histogram[123]
    row[columns.CLOSE_BRACES] = histogram[125]
    row[columns.HASHES] = histogram[35]
    row[columns.ELLIPSES] = ellipses
    row[columns.NEWLINES] = histogram[10]
    row[columns.RAW_LINES] = histogram[10] + (1 if end > begin and data[end - 1] != LF else 0)
