"""Tables for scans of markup: the names of elements, their effect on the tree, and the fields of the state."""

import numpy as np

ELEMENTS, DEPTH, ATTRIBUTES, NAMES, TEXT, BLOCKS, NESTED, ESCAPES, COLUMNS = range(9)
"""Columns of what `scan` returns:
ELEMENTS    elements of the tree, or more
DEPTH       the most elements open at once, or more; `<html>` is 1
ATTRIBUTES  the most attributes on one element
NAMES       distinct names of attributes and unknown elements, by a hash of 16 bits; attributes after the first 10,000
TEXT        bytes of text, with the indentation that an extractor gives to list items
BLOCKS      elements that start a new line
NESTED      bytes of text and 8 for each element, times the open elements whose whole content an extractor weighs
ESCAPES     1 if a tag may break out of <svg>, <math> or <select>: how the rest is read depends on the tree"""

FREE_NAMES = 10_000
SHORTEST_CUT = 64
"""Bytes; cutting fewer costs as much as parsing them."""

_H = "h1 h2 h3 h4 h5 h6"
_SETS = {
    "VOID": "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr",
    "RAW": "iframe noembed noframes script style textarea title xmp",
    "ENDS_P": "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure "
    f"footer form {_H} header hgroup hr li listing main menu nav ol p plaintext pre section summary ul xmp",
    "FORMAT": "a b big code em font i nobr s small strike strong tt u",
    "NOT_SVG": f"b big blockquote body br center code dd div dl dt em embed {_H} head hr i img li listing menu "
    "meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var",
    "INTEGRATES": "annotation-xml desc foreignobject mi mn mo ms mtext title",
    "BLOCK_END": "address applet article aside blockquote button center details dialog dir div dl fieldset figcaption "
    "figure footer header hgroup listing main marquee menu nav object ol pre section select summary table template ul",
    "PARAGRAPH": "p",
    "ITEM": "li",
    "TERM": "dd dt",
    "CHOICE": "optgroup option",
    "HEADING": _H,
    "TABLE_PART": "caption col colgroup tbody td tfoot th thead tr",
    "LINK": "a",
    "NO_BREAK": "nobr",
    "BUTTON": "button",
    "ROOT": "body head html",
    "LIST": "ol ul",
    "IN_SELECT": "script textarea",
    "FOREIGN_ROOT": "math svg",
    "WEIGHED": "article div footer ul",
    "BLOCK": "address article aside blockquote br center dd details dialog div dl dt fieldset figcaption figure footer "
    f"form {_H} header hgroup hr li listing main menu nav ol p pre section summary table tbody tfoot thead tr ul",
}
TAG_NAMES = ["", *sorted({name for names in _SETS.values() for name in names.split()})]
KIND_OTHER, KIND_FOREIGN = 0, len(TAG_NAMES)
_BIT = {name: 1 << bit for bit, name in enumerate(_SETS)}
(VOID, RAW, ENDS_P, FORMAT, NOT_SVG, INTEGRATES, BLOCK_END, PARAGRAPH, _ITEM, _TERM, _CHOICE, HEADING) = list(
    _BIT.values()
)[:12]
(TABLE_PART, _LINK, _NO_BREAK, _BUTTON, ROOT, LIST, IN_SELECT, FOREIGN_ROOT, WEIGHED, BLOCK) = list(_BIT.values())[12:]
OPTIONAL_END = PARAGRAPH | _ITEM | _TERM | _CHOICE | HEADING | TABLE_PART
"""Elements of one of these sets end each other, and end with a block around them."""
ENDS_ITSELF = _LINK | _NO_BREAK | _BUTTON
FLAGS = np.zeros(len(TAG_NAMES) + 1, np.int64)
for _set, _members in _SETS.items():
    FLAGS[[TAG_NAMES.index(name) for name in _members.split()]] |= _BIT[_set]
TAG_BODY, TAG_FONT, TAG_HTML, TAG_PLAINTEXT, TAG_PRE, TAG_SCRIPT, TAG_SELECT, TAG_STYLE, TAG_TABLE = map(
    TAG_NAMES.index, ["body", "font", "html", "plaintext", "pre", "script", "select", "style", "table"]
)

HASH_BASIS, HASH_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
HASH_MIX = np.uint64(0x9E3779B97F4A7C15)  # FNV alone puts names that end in digits into few slots
BYTE_ONES, BYTE_SEVENS, ALL_BITS = np.uint64(0x0101010101010101), np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(2**64 - 1)


def fnv(name: str) -> int:
    """Returns FNV-1a, as scans compute it byte by byte."""
    code = int(HASH_BASIS)
    for byte in name.encode():
        code = (code ^ byte) * int(HASH_PRIME) % 2**64
    return code


TAG_HASHES = np.array([fnv(name) for name in TAG_NAMES], np.uint64)
# Twelve bits of the hash that differ for all known names: a table without collisions.
TAG_SHIFT = np.uint64(next(s for s in range(52) if len({fnv(k) >> s & 4095 for k in TAG_NAMES}) == len(TAG_NAMES)))
TAG_SLOTS = np.zeros(4096, np.uint8)
TAG_SLOTS[(TAG_HASHES >> TAG_SHIFT & np.uint64(4095)).astype(np.int64)] = np.arange(len(TAG_NAMES))

BYTE_SPACE, BYTE_SLASH, BYTE_GREATER, BYTE_EQUALS = 1, 2, 4, 8
BYTE_CLASS = np.zeros(256, np.uint8)
BYTE_CLASS[[0x09, 0x0A, 0x0C, 0x0D, 0x20]] = BYTE_SPACE
BYTE_CLASS[[0x2F, 0x3E, 0x3D]] = BYTE_SLASH, BYTE_GREATER, BYTE_EQUALS
BYTE_LOWER = np.arange(256).astype(np.uint64)
BYTE_LOWER[0x41:0x5B] += np.uint64(0x20)


# The state of a scan is one array, because every further array argument costs at each call. Row 0 has the columns of
# `scan` and further numbers; rows 1 and 2 have the stack of open elements, by number in TAG_NAMES and by hash of the
# name.
STATE_KINDS, STATE_CODES, STATE_ROWS = range(1, 4)
STATE_TOP, STATE_OPEN_FORMATS, STATE_OPEN_WEIGHED, STATE_OPEN_LISTS, STATE_OPEN_PRE, STATE_OPEN_SELECTS = range(
    COLUMNS, COLUMNS + 6
)
STATE_ATTRIBUTES, STATE_NUMBERS = range(COLUMNS + 6, COLUMNS + 8)
